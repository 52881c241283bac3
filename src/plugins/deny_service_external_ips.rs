//! DenyServiceExternalIPs: refuses new external IPs of services, because a service could take over any IP address.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;
use serde_json::Value;
use std::collections::HashSet;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DenyServiceExternalIPs",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "services", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses new external IPs of services.",
    build: |_| Ok(Box::new(DenyServiceExternalIps)),
};

const EXTERNAL_IPS: [&str; 2] = ["spec", "externalIPs"];

struct DenyServiceExternalIps;

#[async_trait]
impl Plugin for DenyServiceExternalIps {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let new = attributes.object.as_ref().map(|service| service.items(&EXTERNAL_IPS)).unwrap_or_default();
        let old = attributes.old_object.as_ref().map(|service| service.items(&EXTERNAL_IPS)).unwrap_or_default();
        let old: HashSet<&Value> = old.iter().collect();
        match new.iter().all(|address| old.contains(address)) {
            true => Ok(()),
            false => Err(Denial::forbidden("Use of external IPs is denied by admission control")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn service(addresses: &[&str]) -> Value {
        json!({"metadata": {"name": "s"}, "spec": {"externalIPs": addresses}})
    }

    #[tokio::test]
    async fn addresses_may_stay_move_or_go() {
        let old = ["1.1.1.1", "2.2.2.2"];
        for (new, accepted) in [
            (&["1.1.1.1", "2.2.2.2"][..], true),
            (&["2.2.2.2", "1.1.1.1", "2.2.2.2"], true),
            (&["2.2.2.2"], true),
            (&[], true),
            (&["1.1.1.1", "3.3.3.3"], false),
            (&["3.3.3.3"], false),
        ] {
            let checked = check(&DenyServiceExternalIps).validating();
            let checked = checked.update("", "services", service(&old), service(new)).await;
            assert_eq!(checked.code(), (!accepted).then_some(403), "{new:?}");
        }
    }

    #[tokio::test]
    async fn a_new_service_has_none() {
        let plugin = || check(&DenyServiceExternalIps).validating();
        plugin().create("", "services", service(&[])).await.stays_unchanged();
        plugin().create("", "services", json!({"spec": {"externalIPs": "text"}})).await.stays_unchanged();
        plugin()
            .create("", "services", service(&["1.1.1.1"]))
            .await
            .was_refused(403, "services \"s\" is forbidden: Use of external IPs is denied by admission control");
    }
}
