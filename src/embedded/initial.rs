//! Values that the server sets in new objects of a few kinds, because clients rely on them: addresses, phases, finalizers.

use super::body::strings;
use super::catalog::ServedResource;
use super::store::{Collection, State, key};
use super::{api_services, daemon_set, kubernetes_service, metadata, removed};
use crate::kind::GroupVersionKind;
use crate::object::{Object, validation};
use crate::status::{Status, invalid};
use crate::user::UserInfo;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The collection of Namespaces.
pub(super) const NAMESPACES: &Collection = &Collection::built_in("", "namespaces");
/// The collection of Services.
pub(super) const SERVICES: &Collection = &Collection::built_in("", "services");
/// The collection of Endpoints.
pub(super) const ENDPOINTS: &Collection = &Collection::built_in("", "endpoints");
/// The collection of Pods.
pub(super) const PODS: &Collection = &Collection::built_in("", "pods");
/// The collection of ServiceAccounts.
pub(super) const SERVICE_ACCOUNTS: &Collection = &Collection::built_in("", "serviceaccounts");
/// The collection of Nodes.
pub(super) const NODES: &Collection = &Collection::built_in("", "nodes");
/// The collection of DaemonSets.
pub(super) const DAEMON_SETS: &Collection = &Collection::built_in("apps", "daemonsets");
const CONFIG_MAPS: &Collection = &Collection::built_in("", "configmaps");

/// The ConfigMap with the certificates that verify the server's certificate (`rootcacertpublisher.RootCACertConfigMapName`).
const ROOT_CA: &str = "kube-root-ca.crt";

/// Namespaces of every cluster (`systemnamespaces.Controller`).
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// `--service-node-port-range`.
const NODE_PORTS: std::ops::Range<u64> = 30_000..32_768;

/// Creates the namespaces of every cluster, and the missing contents of the others.
pub(super) fn namespaces(state: &mut State) {
    let Some(resource) = super::catalog::resource("", "v1", "namespaces") else { return };
    for (name, namespace) in state.objects(NAMESPACES, "") {
        if !metadata::is_deleting(&namespace) {
            contents(state, &name);
        }
    }
    for name in SYSTEM_NAMESPACES {
        if state.object(NAMESPACES, name).is_some() {
            continue;
        }
        let mut object = named("Namespace", "", name);
        metadata::begin(resource, &mut object);
        prepare_namespace(&mut object);
        state.put(NAMESPACES, name, object);
        contents(state, name);
    }
}

/// Creates the objects of every namespace, as the controllers that run do.
pub(super) fn contents(state: &mut State, namespace: &str) {
    let settings = state.settings();
    if settings.controllers.service_account {
        service_account(state, namespace);
    }
    if let Some(certificates) = settings.root_ca.as_deref().filter(|_| settings.controllers.root_ca) {
        root_ca(state, namespace, certificates);
    }
}

/// Creates again what a client deletes or changes of the [`contents`] of a namespace, of the Service `default/kubernetes` and of APIServices.
pub(super) fn restore(state: &mut State, collection: &Collection, namespace: &str, name: &str) {
    kubernetes_service::restore(state, collection, namespace, name);
    api_services::follow(state, collection, name);
    let is_account = name == "default" && collection == SERVICE_ACCOUNTS;
    let is_root_ca = name == ROOT_CA && collection == CONFIG_MAPS;
    if !is_account && !is_root_ca {
        return;
    }
    let is_active = state.object(NAMESPACES, namespace).is_some_and(|namespace| !metadata::is_deleting(&namespace));
    if is_active {
        contents(state, namespace);
    }
}

/// Publishes the certificates in a namespace (`rootcacertpublisher.Publisher.syncNamespace`).
fn root_ca(state: &mut State, namespace: &str, certificates: &str) {
    let Some(resource) = super::catalog::resource("", "v1", "configmaps") else { return };
    let key = key(namespace, ROOT_CA);
    let data = json!({"ca.crt": certificates});
    let current = state.object(CONFIG_MAPS, &key);
    if current.as_ref().is_some_and(|current| current.get(&["data"]) == Some(&data)) {
        return;
    }
    let mut object = current.map(|current| Object::clone(&current)).unwrap_or_else(|| {
        let mut object = named("ConfigMap", namespace, ROOT_CA);
        metadata::begin(resource, &mut object);
        let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal \
                     service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
        put(&mut object, &["metadata", "annotations", "kubernetes.io/description"], json!(about));
        object
    });
    put(&mut object, &["data"], data);
    state.put(CONFIG_MAPS, &key, object);
}

/// Creates the `default` service account of a namespace, unless it exists.
fn service_account(state: &mut State, namespace: &str) {
    let Some(resource) = super::catalog::resource("", "v1", "serviceaccounts") else { return };
    let key = key(namespace, "default");
    if state.object(SERVICE_ACCOUNTS, &key).is_none() {
        let mut object = named("ServiceAccount", namespace, "default");
        metadata::begin(resource, &mut object);
        state.put(SERVICE_ACCOUNTS, &key, object);
    }
}

fn named(kind: &str, namespace: &str, name: &str) -> Object {
    let metadata = json!({"name": name, "namespace": namespace});
    Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap_or_default()
}

/// Sets fields of a new object that do not depend on other objects (`PrepareForCreate`); `object` is in its stored form.
pub(super) fn prepare(resource: &ServedResource, object: &mut Object, caller: &UserInfo) {
    // A kubelet creates its node with a status.
    if resource.subresource("status").is_some() && resource.name != "nodes" {
        object.fields_mut().remove("status");
    }
    match (&*resource.group, &*resource.name) {
        ("", "namespaces") => prepare_namespace(object),
        ("", "pods") => {
            let class = quality_of_service(object);
            put(object, &["status"], json!({"phase": "Pending", "qosClass": class}));
        }
        ("", "persistentvolumes" | "persistentvolumeclaims") => {
            validation::prepare_for_create(&resource.gvk(), object);
            put(object, &["status"], json!({"phase": "Pending"}));
        }
        ("", "services") => {
            prepare_service(object);
            put(object, &["status"], json!({"loadBalancer": {}}));
        }
        ("", "secrets") => prepare_secret(object),
        ("", "replicationcontrollers") | ("apps", "deployments" | "replicasets" | "statefulsets") => {
            default(object, &["spec", "replicas"], json!(1));
        }
        ("certificates.k8s.io", "certificatesigningrequests") => prepare_signing_request(object, caller),
        ("apiregistration.k8s.io", "apiservices") => api_services::prepare(object),
        ("apps", "daemonsets") => daemon_set::prepare(object),
        ("batch", "jobs") => validation::prepare_for_create(&resource.gvk(), object),
        _ => removed::api(resource).into_iter().for_each(|api| crate::removed::set_defaults(api, object)),
    }
}

/// Restores fields that an update must not change, and sets fields that depend on others (`PrepareForUpdate`).
///
/// # Errors
/// If no address is left for a service that needs one.
pub(super) fn keep(
    state: &mut State,
    resource: &ServedResource,
    object: &mut Object,
    current: &Object,
) -> Result<(), Status> {
    match (&*resource.group, &*resource.name) {
        ("", "services") => {
            keep_service(object, current);
            prepare_service(object);
            validation::prepare_for_update(&resource.gvk(), object, current);
            allocate(state, object)
        }
        ("", "secrets") => {
            prepare_secret(object);
            Ok(())
        }
        ("", "persistentvolumeclaims") => {
            validation::prepare_for_update(&resource.gvk(), object, current);
            Ok(())
        }
        ("", "namespaces") => {
            label_namespace(object);
            Ok(())
        }
        ("apps", "daemonsets") => {
            daemon_set::keep(object, current);
            Ok(())
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            // The spec of a signing request is immutable.
            if let Some(spec) = current.get(&["spec"]) {
                put(object, &["spec"], spec.clone());
            }
            Ok(())
        }
        _ => {
            removed::api(resource).into_iter().for_each(|api| removed::keep(api, object, current));
            Ok(())
        }
    }
}

fn prepare_namespace(object: &mut Object) {
    label_namespace(object);
    put(object, &["spec"], json!({"finalizers": ["kubernetes"]}));
    put(object, &["status"], json!({"phase": "Active"}));
}

fn label_namespace(object: &mut Object) {
    let name = Value::from(object.name());
    put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
}

/// `Convert_v1_Secret_To_core_Secret`: moves `stringData` to `data`.
fn prepare_secret(object: &mut Object) {
    default(object, &["type"], json!("Opaque"));
    if let Some(Value::Object(plain)) = object.fields_mut().remove("stringData") {
        let mut data = strings(object, &["data"]);
        for (name, value) in plain {
            data.insert(name, Value::from(STANDARD.encode(value.as_str().unwrap_or_default())));
        }
        object.fields_mut().insert("data".into(), Value::Object(data));
    }
}

/// `csrStrategy.PrepareForCreate`: replaces the requesting user in the spec by the caller.
fn prepare_signing_request(object: &mut Object, caller: &UserInfo) {
    for field in ["username", "uid", "groups", "extra"] {
        object.remove(&["spec", field]);
    }
    let Ok(Value::Object(user)) = serde_json::to_value(caller) else { return };
    for (field, value) in user {
        put(object, &["spec", &field], value);
    }
}

/// `qos.ComputePodQOS`, for CPU and memory of all containers.
fn quality_of_service(pod: &Object) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = pod.items(&["spec", "containers"]).iter().chain(pod.items(&["spec", "initContainers"]));
    for container in containers {
        let amounts = |side: &str| -> Map<String, Value> {
            let amounts =
                container.get("resources").and_then(|resources| resources.get(side)).and_then(Value::as_object);
            amounts.cloned().unwrap_or_default()
        };
        let (requests, limits) = (amounts("requests"), amounts("limits"));
        for resource in ["cpu", "memory"] {
            any |= requests.contains_key(resource) || limits.contains_key(resource);
            let limit = limits.get(resource);
            // A missing request equals the limit.
            guaranteed &= limit.is_some() && requests.get(resource).is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn prepare_service(service: &mut Object) {
    default(service, &["spec", "type"], json!("ClusterIP"));
    default(service, &["spec", "sessionAffinity"], json!("None"));
    if service.str(&["spec", "type"]) == "ExternalName" {
        return;
    }
    default(service, &["spec", "internalTrafficPolicy"], json!("Cluster"));
    if is_reached_from_outside(service) {
        default(service, &["spec", "externalTrafficPolicy"], json!("Cluster"));
    }
    let Some(Value::Array(ports)) = service.get_mut(&["spec", "ports"]) else { return };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        port.entry("protocol").or_insert_with(|| json!("TCP"));
        if let Some(number) = port.get("port").cloned() {
            port.entry("targetPort").or_insert(number);
        }
    }
}

/// Restores the ports of a service whose update omits them (`patchAllocatedValues`).
fn keep_service(service: &mut Object, current: &Object) {
    if service.str(&["spec", "type"]) == "ExternalName" {
        return;
    }
    if !(is_reached_from_outside(service) && is_reached_from_outside(current)) {
        return;
    }
    let node_port_of = |port: &Value| {
        let same = |other: &&Value| ["port", "protocol"].iter().all(|field| other.get(field) == port.get(field));
        current.items(&["spec", "ports"]).iter().find(same)?.get("nodePort").cloned()
    };
    let Some(Value::Array(ports)) = service.get_mut(&["spec", "ports"]) else { return };
    for port in ports {
        let kept = node_port_of(port);
        if let (Some(kept), Some(port)) = (kept, port.as_object_mut()) {
            port.entry("nodePort").or_insert(kept);
        }
    }
}

fn is_reached_from_outside(service: &Object) -> bool {
    matches!(service.str(&["spec", "type"]), "NodePort" | "LoadBalancer")
}

/// Allocates the address and the ports that a service lacks.
///
/// # Errors
/// If no address or port is left.
pub(super) fn allocate(state: &State, service: &mut Object) -> Result<(), Status> {
    if service.str(&["spec", "type"]) == "ExternalName" {
        return Ok(());
    }
    let others: Vec<Arc<Object>> = state
        .objects(SERVICES, "")
        .into_iter()
        .map(|(_, other)| other)
        .filter(|other| (other.namespace(), other.name()) != (service.namespace(), service.name()))
        .collect();
    if service.str(&["spec", "clusterIP"]).is_empty() {
        let range = state.settings().addresses;
        let taken: HashSet<&str> = others.iter().map(|other| other.str(&["spec", "clusterIP"])).collect();
        let mut addresses =
            (range.first..range.first.saturating_add(range.count)).skip(1).map(|n| Ipv4Addr::from(n).to_string());
        let address = addresses.find(|address| !taken.contains(address.as_str()));
        let address = address.ok_or_else(|| Status::internal_error("failed to allocate a serviceIP: range is full"))?;
        put(service, &["spec", "clusterIP"], Value::from(address));
    }
    let address = service.str(&["spec", "clusterIP"]).to_owned();
    if address != "None"
        && let Some(other) = others.iter().find(|other| other.str(&["spec", "clusterIP"]) == address)
    {
        tracing::debug!(namespace = other.namespace(), name = other.name(), "the address is another service's");
        let why = format!("failed to allocate IP {address}: provided IP is already allocated");
        let cause = invalid::invalid("spec.clusterIPs", &format!("[{address:?}]"), &why);
        let kind = GroupVersionKind::new("", "v1", "Service");
        return invalid::status(&kind, service.name(), vec![cause]).map_or(Ok(()), Err);
    }
    put(service, &["spec", "clusterIPs"], json!([address]));
    default(service, &["spec", "ipFamilies"], json!([if address.contains(':') { "IPv6" } else { "IPv4" }]));
    default(service, &["spec", "ipFamilyPolicy"], json!("SingleStack"));
    if is_reached_from_outside(service) {
        allocate_node_ports(service, &others)?;
    }
    let is_local = service.str(&["spec", "externalTrafficPolicy"]) == "Local";
    if service.str(&["spec", "type"]) == "LoadBalancer" && is_local {
        allocate_health_check_port(service, &others)?;
    }
    Ok(())
}

/// The ports of the nodes that services use.
fn taken_ports<'a>(services: impl Iterator<Item = &'a Object>) -> HashSet<u64> {
    let ports_of = |service: &Object| -> Vec<u64> {
        let ports = service.items(&["spec", "ports"]).iter();
        let health_check = service.get(&["spec", "healthCheckNodePort"]).and_then(Value::as_u64);
        ports.filter_map(|port| port.get("nodePort")?.as_u64()).chain(health_check).collect()
    };
    services.flat_map(ports_of).collect()
}

/// Sets the port for health checks of a service whose load balancer keeps to nodes with endpoints.
fn allocate_health_check_port(service: &mut Object, others: &[Arc<Object>]) -> Result<(), Status> {
    if service.get(&["spec", "healthCheckNodePort"]).and_then(Value::as_u64).is_some_and(|port| port != 0) {
        return Ok(());
    }
    let taken = taken_ports(others.iter().map(|other| &**other).chain([&*service]));
    let free = NODE_PORTS.clone().find(|port| !taken.contains(port));
    let free = free.ok_or_else(|| Status::internal_error("failed to allocate a nodePort: range is full"))?;
    put(service, &["spec", "healthCheckNodePort"], Value::from(free));
    Ok(())
}

fn allocate_node_ports(service: &mut Object, others: &[Arc<Object>]) -> Result<(), Status> {
    let mut taken = taken_ports(others.iter().map(|other| &**other).chain([&*service]));
    let Some(Value::Array(ports)) = service.get_mut(&["spec", "ports"]) else { return Ok(()) };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        if port.get("nodePort").and_then(Value::as_u64).is_none_or(|port| port == 0) {
            let free = NODE_PORTS.clone().find(|port| !taken.contains(port));
            let free = free.ok_or_else(|| Status::internal_error("failed to allocate a nodePort: range is full"))?;
            taken.insert(free);
            port.insert("nodePort".into(), Value::from(free));
        }
    }
    Ok(())
}

/// Sets a field. Does nothing for an object of another shape, which is stored as the client sent it.
fn put(object: &mut Object, path: &[&str], value: Value) {
    let _ = object.set(path, value);
}

fn default(object: &mut Object, path: &[&str], value: Value) {
    if object.get(path).is_none_or(|value| value.is_null() || value == "") {
        put(object, path, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_class_follows_from_its_containers() {
        for (resources, class) in [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
            (json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]), "Guaranteed"),
            (json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {}]), "Burstable"),
            (json!("text"), "BestEffort"),
        ] {
            let pod = Object::from_value(json!({"spec": {"containers": resources}})).unwrap();
            assert_eq!(quality_of_service(&pod), class, "{resources}");
        }
    }
}
