//! The addresses that a Service names. A dry run does not find out that another Service has an address (`Allocator.allocateService`), but
//! kube-apiserver allocates before the validating phase (`Store.BeginCreate`, `Store.BeginUpdate`), and no other kind allocates.

use super::write::Write;
use crate::admission::Attributes;
use crate::cluster::segment;
use crate::object::Object;
use crate::status::{Status, invalid};
use serde_json::{Value, json};
use std::net::IpAddr;

/// Returns the refusal of a Service that names an address which is not free. `stored` is the Service in the answer to the dry run. Without
/// an answer about the address, the write itself decides.
pub(super) async fn refusal(write: &Write<'_>, attributes: &Attributes, stored: &Object) -> Option<Status> {
    let Attributes { resource, subresource, .. } = attributes;
    if (&*resource.group, &*resource.resource, &**subresource) != ("", "services", "") || attributes.dry_run {
        return None;
    }
    let asked_for = named(attributes.object.as_ref()?);
    let own = attributes.old_object.as_deref().map(named).unwrap_or_default();
    if stored.str(&["spec", "type"]) == "ExternalName" {
        return None;
    }
    for ip in asked_for.iter().filter(|ip| !own.contains(ip)) {
        let Ok(address) = ip.parse::<IpAddr>() else { continue };
        if is_taken(write, address).await {
            let mut all = asked_for.clone();
            // The allocator adds an empty address for each further family.
            all.resize(all.len().max(stored.items(&["spec", "ipFamilies"]).len()), "");
            let why = format!("failed to allocate IP {ip}: provided IP is already allocated");
            let cause = invalid::invalid("spec.clusterIPs", &json!(all).to_string(), &why);
            return invalid::status(write.target.kind(), stored.name(), vec![cause]);
        }
    }
    None
}

/// The addresses in the Service (`normalizeClusterIPs`).
fn named(service: &Object) -> Vec<&str> {
    let of_all: Vec<&str> = service.items(&["spec", "clusterIPs"]).iter().filter_map(Value::as_str).collect();
    match service.str(&["spec", "clusterIP"]) {
        "" => of_all,
        one if of_all.is_empty() => vec![one],
        _ => of_all,
    }
}

/// Whether an IPAddress, or before Kubernetes 1.33 a Service, has the address.
async fn is_taken(write: &Write<'_>, address: IpAddr) -> bool {
    let gateway = &write.pipeline.gateway;
    let name = segment(&address.to_string());
    let object = format!("/apis/networking.k8s.io/v1/ipaddresses/{name}");
    if matches!(gateway.read(&object, write.caller).await, Ok(Some(_))) {
        return true;
    }
    let services = format!("/api/v1/services?limit=1&fieldSelector=spec.clusterIP%3D{name}");
    let found = gateway.read(&services, write.caller).await;
    found.is_ok_and(|list| list.is_some_and(|list| !list.items(&["items"]).is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_list() {
        for (spec, expected) in [
            (json!({"clusterIP": "10.0.0.1"}), &["10.0.0.1"][..]),
            (json!({"clusterIPs": ["10.0.0.1", "fd00::1"]}), &["10.0.0.1", "fd00::1"]),
            (json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}), &["10.0.0.1", "fd00::1"]),
            (json!({}), &[]),
        ] {
            assert_eq!(named(&Object::from_value(json!({ "spec": spec })).unwrap()), expected, "{spec}");
        }
    }
}
