//! Services: the addresses and the ports that the server allocates (`pkg/registry/core/service/storage`). The server has addresses of one
//! family, IPv4.

use super::collections::{ENDPOINTS, SERVICES};
use super::context::Context;
use super::fields;
use super::strategy::Strategy;
use crate::config::Addresses;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::{Collection, Reads, State, Task, key};
use crate::kind::GroupVersionKind;
use crate::object::{Object, validation};
use crate::status::{Cause, Status, invalid};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// `--service-node-port-range`.
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;
/// The first port that a Service gets that names none: the lower ports are for those that name one (`calculateRangeOffset` of
/// `portallocator`).
const FIRST_DYNAMIC_PORT: u64 = 30_086;
/// The port before the first one that a dry run answers with (`PortAllocationOperation.AllocateNext`).
const BEFORE_DRY_RUN: u64 = 32_768;
const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";

/// The namespace of the Service of the API server.
pub(in crate::embedded) const OWN_NAMESPACE: &str = "default";
/// The name of the Service of the API server.
pub(in crate::embedded) const OWN_NAME: &str = "kubernetes";

pub(super) struct Services;

impl Strategy for Services {
    /// Two Services never have one address or one port.
    fn depends_on_others(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        fields::put(object, &["status"], json!({"loadBalancer": {}}));
        create(context.store, object, context.dry_run)
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        if context.subresource != "status" {
            update(context.store, object, current, context.dry_run)?;
        }
        Ok(false)
    }

    fn after_create(&self, state: &mut State, _: &Object) {
        state.then(Task::Availabilities);
    }

    fn after_change(&self, state: &mut State, object: &Object) {
        restore_own(state, object);
        state.then(Task::Availabilities);
    }

    /// `REST.afterDelete`
    fn after_delete(&self, state: &mut State, _: &Collection, object: &Object) {
        state.then(Task::Delete { collection: ENDPOINTS.clone(), key: key(object.namespace(), object.name()) });
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn unset(&self, field: &str) -> &'static str {
        if field == "spec.type" { "ClusterIP" } else { "" }
    }

    fn storage_path(&self, _: &Collection) -> String {
        "services/specs".to_owned()
    }
}

/// Leaves it to the controller to repair the Service of the API server, its Endpoints and its EndpointSlice after a write of one of them.
pub(super) fn restore_own(state: &mut State, object: &Object) {
    if (object.namespace(), object.name()) == (OWN_NAMESPACE, OWN_NAME) && state.settings().advertised.is_some() {
        state.then(Task::KubernetesService);
    }
}

/// Allocates what a new Service needs (`REST.beginCreate`).
///
/// # Errors
/// If the addresses or ports of the Service are invalid, are another one's, or if none is left.
fn create(reads: &impl Reads, service: &mut Object, dry_run: bool) -> Result<(), Status> {
    validation::prepare_for_create(&kind(), service);
    set_families(service, None)?;
    allocate_address(reads, service, dry_run)?;
    drop_internal_policy(service);
    let mut ports = Ports::new(reads, service, None, dry_run);
    if is_reached_from_outside(service) {
        set_node_ports(service, &mut ports)?;
    }
    if needs_health_check(service) {
        set_health_check_port(service, &mut ports)?;
    }
    Ok(())
}

/// Keeps what was allocated for a Service, and allocates what it needs in addition (`REST.beginUpdate`, `svcStrategy.PrepareForUpdate`).
///
/// # Errors
/// As [`create`].
fn update(reads: &impl Reads, service: &mut Object, current: &Object, dry_run: bool) -> Result<(), Status> {
    validation::prepare_for_update(&kind(), service, current);
    if !keeps_both_families(service, current) {
        set_families(service, Some(current))?;
        if kind_of(current) == "ExternalName" {
            allocate_address(reads, service, dry_run)?;
        }
    }
    drop_internal_policy(service);
    let mut ports = Ports::new(reads, service, Some(current), dry_run);
    if is_reached_from_outside(service) {
        update_node_ports(service, current, &mut ports)?;
    }
    if needs_health_check(service) && !needs_health_check(current) {
        set_health_check_port(service, &mut ports)?;
    }
    if kind_of(service) != "LoadBalancer" && service.get(&["status", "loadBalancer"]).is_some() {
        let _ = service.set(&["status", "loadBalancer"], json!({}));
    }
    Ok(())
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Service")
}

fn kind_of(service: &Object) -> &str {
    service.str(&["spec", "type"])
}

fn is_reached_from_outside(service: &Object) -> bool {
    matches!(kind_of(service), "NodePort" | "LoadBalancer")
}

/// `NeedsHealthCheck`
fn needs_health_check(service: &Object) -> bool {
    kind_of(service) == "LoadBalancer" && service.str(&["spec", "externalTrafficPolicy"]) == "Local"
}

fn texts(service: &Object, field: &str) -> Vec<String> {
    service.items(&["spec", field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn put(service: &mut Object, field: &str, value: Value) {
    let _ = service.set(&["spec", field], value);
}

/// Removes the policy that an `ExternalName` has no use for and does not show (`defaultOnReadInternalTrafficPolicy`). An invalid one is left to
/// the validation.
fn drop_internal_policy(service: &mut Object) {
    const POLICY: [&str; 2] = ["spec", "internalTrafficPolicy"];
    if kind_of(service) == "ExternalName" && matches!(service.str(&POLICY), "Cluster" | "Local") {
        service.remove(&POLICY);
    }
}

fn refuse(service: &Object, causes: Vec<Cause>) -> Result<(), Status> {
    invalid::status(&kind(), service.name(), causes).map_or(Ok(()), Err)
}

/// `isMatchingPreferDualStackClusterIPFields`
fn keeps_both_families(service: &Object, current: &Object) -> bool {
    let prefers_both = |service: &Object| service.str(&["spec", "ipFamilyPolicy"]) == "PreferDualStack";
    let of_current = |field: &str| texts(service, field) == texts(current, field);
    kind_of(service) == kind_of(current)
        && matches!(kind_of(service), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers_both(service)
        && (prefers_both(current) || current.get(&["spec", "ipFamilyPolicy"]).is_none())
        && of_current("clusterIPs")
        && of_current("ipFamilies")
}

/// Sets the families of a Service and their policy (`Allocators.initIPFamilyFields`).
fn set_families(service: &mut Object, current: Option<&Object>) -> Result<(), Status> {
    if kind_of(service) == "ExternalName" {
        return Ok(());
    }
    let is_headless = service.str(&["spec", "clusterIP"]) == "None";
    let is_free =
        is_headless && service.get(&["spec", "selector"]).and_then(Value::as_object).is_none_or(|s| s.is_empty());
    if service.get(&["spec", "ipFamilyPolicy"]).is_none_or(Value::is_null) {
        let of_current = current.and_then(|current| current.get(&["spec", "ipFamilyPolicy"]).cloned());
        // The addresses behind a Service that selects nothing may be of both families.
        let new = if is_free { "RequireDualStack" } else { "SingleStack" };
        put(service, "ipFamilyPolicy", of_current.unwrap_or_else(|| json!(new)));
    }
    refuse(service, validation::service_addresses(service, current))?;
    let mut causes = Vec::new();
    let policy = service.str(&["spec", "ipFamilyPolicy"]).to_owned();
    let wrong_policy = |why: &str| invalid::invalid("spec.ipFamilyPolicy", &format!("{policy:?}"), why);
    let (mut ips, mut families) = (texts(service, "clusterIPs"), texts(service, "ipFamilies"));
    if let Some(current) = current {
        let (old_ips, old_families) = (texts(current, "clusterIPs"), texts(current, "ipFamilies"));
        if policy == "SingleStack" {
            // The secondary values are released.
            if ips == old_ips {
                ips.truncate(1);
            }
            if families == old_families {
                families.truncate(1);
            }
        } else {
            if !ips.is_empty() && ips.len() < old_ips.len() {
                causes.push(wrong_policy("must be 'SingleStack' to release the secondary cluster IP"));
            }
            if !families.is_empty() && families.len() < old_families.len() {
                causes.push(wrong_policy("must be 'SingleStack' to release the secondary IP family"));
            }
        }
    }
    if policy == "SingleStack" {
        let both = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
        if ips.len() == 2 {
            causes.push(wrong_policy(&format!("{both} cluster IPs are specified")));
        }
        if families.len() == 2 {
            causes.push(wrong_policy(&format!("{both} IP families are specified")));
        }
    }
    for (at, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        let family = if ip.contains(':') { IPV6 } else { IPV4 };
        if at >= families.len() && family == IPV4 {
            families.push(family.to_owned());
        } else if at >= families.len() {
            let why = format!("{family} is not configured on this cluster");
            causes.push(invalid::invalid(&format!("spec.clusterIPs[{at}]"), &json!(ips).to_string(), &why));
        }
    }
    refuse(service, causes)?;
    if is_free {
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
        if families.len() < 2 && policy != "SingleStack" {
            let other = if families.iter().any(|family| family == IPV4) { IPV6 } else { IPV4 };
            families.push(other.to_owned());
        }
    } else {
        let mut causes = Vec::new();
        if policy == "RequireDualStack" {
            causes.push(wrong_policy("this cluster is not configured for dual-stack services"));
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| *family != IPV4) {
            let place = format!("spec.ipFamilies[{at}]");
            causes.push(invalid::invalid(&place, &format!("{family:?}"), "not configured on this cluster"));
        }
        refuse(service, causes)?;
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
    }
    put(service, "ipFamilies", json!(families));
    if !ips.is_empty() {
        put(service, "clusterIPs", json!(ips));
    }
    Ok(())
}

/// `Allocators.allocClusterIPs`
fn allocate_address(reads: &impl Reads, service: &mut Object, dry_run: bool) -> Result<(), Status> {
    let ips = texts(service, "clusterIPs");
    if kind_of(service) == "ExternalName" || ips.first().is_some_and(|ip| ip == "None") {
        return Ok(());
    }
    let range = reads.settings().addresses;
    let others = others(reads, service);
    let taken: HashSet<&str> = others.iter().map(|other| other.str(&["spec", "clusterIP"])).collect();
    if let Some(ip) = ips.first() {
        let why = match contains(range, ip) {
            false => "the provided network does not match the current range",
            true if !dry_run && taken.contains(ip.as_str()) => "provided IP is already allocated",
            true => return Ok(()),
        };
        let why = format!("failed to allocate IP {ip}: {why}");
        return refuse(service, vec![invalid::invalid("spec.clusterIPs", &json!(ips).to_string(), &why)]);
    }
    let address = match dry_run {
        // `Allocator.allocateNextService`: a dry run draws no address.
        true => Some(Ipv4Addr::from(range.first.saturating_sub(1))),
        false => dynamic(range).find(|address| !taken.contains(address.to_string().as_str())),
    };
    let address = address.ok_or_else(|| {
        let name = service.name();
        Status::internal_error(format!("failed to allocate a serviceIP for Service {name:?}: range is full"))
    })?;
    put(service, "clusterIP", json!(address));
    put(service, "clusterIPs", json!([address]));
    Ok(())
}

/// Whether an address is one of the range's.
fn contains(range: Addresses, ip: &str) -> bool {
    let at = ip.parse::<Ipv4Addr>().ok().and_then(|address| u32::from(address).checked_sub(range.first));
    at.is_some_and(|at| at < range.count)
}

/// The addresses in the order in which they are given to Services that name none: the lower part of the range is for those that name one
/// (`calculateRangeOffset` of `ipallocator`). The first address is that of the Service `default/kubernetes`.
fn dynamic(range: Addresses) -> impl Iterator<Item = Ipv4Addr> {
    let size = range.count.saturating_add(2);
    let offset = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
    let last = range.first.saturating_add(range.count);
    let middle = range.first.saturating_add(offset);
    (middle.max(range.first.saturating_add(1))..last).chain(range.first.saturating_add(1)..middle).map(Ipv4Addr::from)
}

/// The other Services.
fn others(reads: &impl Reads, service: &Object) -> Vec<Arc<Object>> {
    let all = reads.objects(SERVICES, "").into_iter().map(|(_, other)| other);
    all.filter(|other| (other.namespace(), other.name()) != (service.namespace(), service.name())).collect()
}

/// The reason why a port cannot be allocated, with kube-apiserver's text (`portallocator`).
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Unallocated {
    /// `ErrNotInRange`
    #[error(
        "provided port is not in the valid range. The range of valid ports is {}-{}",
        NODE_PORTS.start(),
        NODE_PORTS.end()
    )]
    NotInRange,
    /// `ErrAllocated`
    #[error("provided port is already allocated")]
    Taken,
}

/// The ports of the nodes (`portallocator.PortAllocationOperation`).
struct Ports {
    taken: HashSet<u64>,
    allocated: BTreeSet<u64>,
    dry_run: bool,
}

impl Ports {
    fn new(reads: &impl Reads, service: &Object, current: Option<&Object>, dry_run: bool) -> Self {
        let others = others(reads, service);
        let taken = others.iter().map(|other| &**other).chain(current).flat_map(|service| {
            let health_check = service.get(&["spec", "healthCheckNodePort"]).and_then(Value::as_u64);
            node_ports(service).into_iter().chain(health_check).filter(|port| *port != 0)
        });
        Self { taken: taken.collect(), allocated: BTreeSet::new(), dry_run }
    }

    fn allocate(&mut self, port: u64) -> Result<(), Unallocated> {
        if !self.dry_run && !NODE_PORTS.contains(&port) {
            return Err(Unallocated::NotInRange);
        }
        if self.taken.contains(&port) || self.allocated.contains(&port) {
            return Err(Unallocated::Taken);
        }
        self.allocated.insert(port);
        Ok(())
    }

    fn next(&mut self) -> Option<u64> {
        let free = match self.dry_run {
            true => Some(self.allocated.last().unwrap_or(&BEFORE_DRY_RUN) + 1),
            false => {
                let mut ports = (FIRST_DYNAMIC_PORT..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..FIRST_DYNAMIC_PORT);
                ports.find(|port| !self.taken.contains(port) && !self.allocated.contains(port))
            }
        };
        self.allocated.extend(free);
        free
    }
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn node_ports(service: &Object) -> Vec<u64> {
    let ports = service.items(&["spec", "ports"]).iter();
    ports.filter_map(|port| port.get("nodePort")?.as_u64()).filter(|port| *port != 0).collect()
}

/// `shouldAllocateNodePorts`
fn allocates_ports(service: &Object) -> bool {
    kind_of(service) == "NodePort"
        || service.get(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false))
}

fn set_node_port(service: &mut Object, at: usize, port: u64) {
    let ports = service.get_mut(&["spec", "ports"]).and_then(Value::as_array_mut);
    if let Some(fields) = ports.and_then(|ports| ports.get_mut(at)).and_then(Value::as_object_mut) {
        fields.insert("nodePort".to_owned(), json!(port));
    }
}

/// Allocates a port that the client names, or another one.
fn allocate_port(service: &mut Object, at: usize, wanted: i64, ports: &mut Ports) -> Result<u64, Status> {
    if wanted == 0 {
        let full = || Status::internal_error("failed to allocate a nodePort: range is full");
        let port = ports.next().ok_or_else(full)?;
        set_node_port(service, at, port);
        return Ok(port);
    }
    let port = u64::try_from(wanted).unwrap_or_default();
    if let Err(why) = ports.allocate(port) {
        let place = format!("spec.ports[{at}].nodePort");
        refuse(service, vec![invalid::invalid(&place, &wanted.to_string(), &why.to_string())])?;
    }
    set_node_port(service, at, port);
    Ok(port)
}

/// `initNodePorts`: two protocols of one port share a node port.
fn set_node_ports(service: &mut Object, ports: &mut Ports) -> Result<(), Status> {
    let all = service.items(&["spec", "ports"]).to_vec();
    let mut named = HashMap::new();
    for each in all.iter().filter(|each| number(each, "nodePort") != 0) {
        named.entry(number(each, "port")).or_insert_with(|| number(each, "nodePort"));
    }
    let mut allocated: HashMap<i64, u64> = HashMap::new();
    for (at, each) in all.iter().enumerate() {
        let (port, wanted) = (number(each, "port"), number(each, "nodePort"));
        if wanted == 0 && !allocates_ports(service) {
            continue;
        }
        match allocated.get(&port).copied() {
            None => {
                let wanted = named.get(&port).copied().unwrap_or_default();
                allocated.insert(port, allocate_port(service, at, wanted, ports)?);
            }
            Some(of_same) if wanted == 0 => set_node_port(service, at, of_same),
            Some(of_same) if u64::try_from(wanted) == Ok(of_same) => {}
            Some(_) => drop(allocate_port(service, at, wanted, ports)?),
        }
    }
    Ok(())
}

/// `Allocators.updateNodePorts`
fn update_node_ports(service: &mut Object, current: &Object, ports: &mut Ports) -> Result<(), Status> {
    let known: HashSet<u64> = node_ports(current).into_iter().collect();
    let mut seen: HashSet<(Value, u64)> = HashSet::new();
    let all = service.items(&["spec", "ports"]).to_vec();
    for (at, each) in all.iter().enumerate() {
        let wanted = number(each, "nodePort");
        if wanted == 0 && !allocates_ports(service) {
            continue;
        }
        let port = match u64::try_from(wanted) {
            Ok(port) if port != 0 && (known.contains(&port) || ports.allocated.contains(&port)) => port,
            _ => allocate_port(service, at, wanted, ports)?,
        };
        let one = (each.get("protocol").cloned().unwrap_or_default(), port);
        if seen.contains(&one) {
            // `fmt.Errorf` without a Status
            let protocol = one.0.as_str().unwrap_or_default();
            return Err(Status::plain(format!("duplicate nodePort: {{{protocol} {port}}}")));
        }
        seen.insert(one);
    }
    Ok(())
}

/// `Allocators.allocHealthCheckNodePort`
fn set_health_check_port(service: &mut Object, ports: &mut Ports) -> Result<(), Status> {
    let wanted = service.get(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64).unwrap_or_default();
    if wanted == 0 {
        let full = || Status::internal_error("failed to allocate a HealthCheck NodePort 0: range is full");
        let port = ports.next().ok_or_else(full)?;
        put(service, "healthCheckNodePort", json!(port));
        return Ok(());
    }
    let refused = |why: Unallocated| {
        let text = format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}");
        Status::internal_error(text)
    };
    ports.allocate(u64::try_from(wanted).unwrap_or_default()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_addresses_for_those_that_name_one() {
        let range = Addresses::parse("10.0.0.0/24").unwrap();
        for (ip, expected) in
            [("10.0.0.0", false), ("10.0.0.1", true), ("10.0.0.254", true), ("10.0.0.255", false), ("x", false)]
        {
            assert_eq!(contains(range, ip), expected, "{ip}");
        }
        let all: Vec<String> = dynamic(range).map(|ip| ip.to_string()).collect();
        assert_eq!((all.len(), &*all[0], &*all[237], &*all[238]), (253, "10.0.0.17", "10.0.0.254", "10.0.0.2"));
        let small = Addresses::parse("10.0.0.0/29").unwrap();
        assert_eq!(dynamic(small).next(), Some(Ipv4Addr::new(10, 0, 0, 2)));
    }
}
