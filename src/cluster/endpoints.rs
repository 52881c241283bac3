//! EndpointSlices: the cached fields, which direct calls to the endpoints of a Service need.

use super::cache::{Projection, namespaced_key};
use super::{Cluster, Need};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use std::sync::Arc;

/// The label that names a slice's Service (`discoveryv1.LabelServiceName`).
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The ready endpoints of one slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Endpoints {
    /// The Service as `namespace/name`. Empty if the slice belongs to no Service.
    service: Box<str>,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub(crate) address_type: Box<str>,
    /// The ports with a name and a number.
    pub(crate) ports: Vec<(Box<str>, u16)>,
    /// The first address of each ready endpoint.
    pub(crate) ready: Vec<Ready>,
}

/// A ready endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ready {
    pub(crate) address: Box<str>,
    /// Whether the endpoint is terminating. Such an endpoint is ready only if the Service publishes endpoints that are not ready.
    pub(crate) is_terminating: bool,
}

impl Projection for Endpoints {
    const NEED: Need = Need::ENDPOINT_SLICES;
    const FIELDS: &'static [&'static str] =
        &["metadata.name", "metadata.namespace", "metadata.labels", "addressType", "ports", "endpoints"];
    type Object = EndpointSlice;

    fn project(slice: EndpointSlice) -> (String, Self) {
        let namespace = slice.metadata.namespace.unwrap_or_default();
        let key = namespaced_key(&namespace, &slice.metadata.name.unwrap_or_default());
        let service = slice.metadata.labels.and_then(|mut labels| labels.remove(SERVICE_NAME));
        let ports = slice.ports.into_iter().flatten();
        let ready = slice.endpoints.into_iter().flatten().filter_map(|endpoint| {
            let conditions = endpoint.conditions.unwrap_or_default();
            let address = endpoint.addresses.into_iter().next()?.into();
            let is_terminating = conditions.terminating.unwrap_or(false);
            conditions.ready.unwrap_or(true).then_some(Ready { address, is_terminating })
        });
        let endpoints = Self {
            service: service.map(|name| namespaced_key(&namespace, &name)).unwrap_or_default().into(),
            address_type: slice.address_type.into(),
            ports: ports.filter_map(|port| Some((port.name?.into(), u16::try_from(port.port?).ok()?))).collect(),
            ready: ready.collect(),
        };
        (key, endpoints)
    }

    fn index(&self) -> Option<&str> {
        Some(&*self.service).filter(|service| !service.is_empty())
    }
}

impl Cluster {
    /// The slices of a Service, from the cache. `None` if the cache was not started, so that calls go to the Service's own address.
    pub(crate) fn endpoints(&self, namespace: &str, service: &str) -> Option<Vec<Arc<Endpoints>>> {
        Some(self.cache::<Endpoints>()?.of_index(&namespaced_key(namespace, service)))
    }

    /// Whether calls go to the endpoints of a Service ([`Self::endpoints`]).
    pub(crate) fn knows_endpoints(&self) -> bool {
        self.cache::<Endpoints>().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_the_first_address_of_whoever_is_ready() {
        let slice = json!({
            "metadata": {"name": "hook-x", "namespace": "n", "labels": {SERVICE_NAME: "hook"}, "managedFields": [{}]},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8443}, {"name": "web"}, {"port": 1}],
            "endpoints": [
                {"addresses": ["10.0.0.1", "10.0.0.9"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "terminating": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": true, "terminating": true}},
                {"addresses": []},
            ]
        });
        let (key, endpoints) = Endpoints::project(serde_json::from_value(slice).unwrap());
        let ready = |address: &str, is_terminating| Ready { address: address.into(), is_terminating };
        assert_eq!((&*key, endpoints.index()), ("n/hook-x", Some("n/hook")));
        assert_eq!(endpoints.ports, [("".into(), 8443)]);
        assert_eq!(endpoints.ready, [ready("10.0.0.1", false), ready("10.0.0.3", true)]);
    }

    #[test]
    fn a_slice_without_a_service_is_found_by_none() {
        let slice = json!({"metadata": {"name": "x", "namespace": "n"}, "addressType": "IPv4", "endpoints": []});
        assert_eq!(Endpoints::project(serde_json::from_value(slice).unwrap()).1.index(), None);
    }

    #[tokio::test]
    async fn slices_are_found_by_their_service_where_they_are_cached() {
        let slice = |name: &str, service: &str| {
            let metadata = json!({"name": name, "namespace": "n", "labels": {SERVICE_NAME: service}});
            serde_json::from_value(json!({"metadata": metadata, "addressType": "IPv4", "endpoints": []})).unwrap()
        };
        let slices = vec![slice("a-1", "a"), slice("a-2", "a"), slice("b-1", "b")];
        let cluster = Cluster::fixed(crate::cluster::FixedState::default().with::<Endpoints>(slices));
        assert_eq!(cluster.endpoints("n", "a").unwrap().len(), 2);
        assert_eq!(cluster.endpoints("m", "a").unwrap().len(), 0);
        assert!(cluster.knows_endpoints());
        let without = Cluster::fixed(crate::cluster::FixedState::default());
        assert!(without.endpoints("n", "a").is_none() && !without.knows_endpoints());
    }
}
