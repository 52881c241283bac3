//! The controllers of APIServices (`k8s.io/kube-aggregator`): they register the served groups and versions, and check whether they are available.
//!
//! The controllers of kube-apiserver write some fields a moment after a client's write; here they are written before its answer. Requests for an
//! APIService with a `spec.service` are not forwarded: such an APIService is never available.

use crate::embedded::api::catalog::{self, Group};
use crate::embedded::api::registrations::{API_SERVICES, GROUP, Registered, built_in, is_remote, kind, priority};
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::store::{Reads, State, Store, Unkept, Work, Writer, key, prefix};
use crate::embedded::strategies::api_services::{condition, prepare};
use crate::embedded::strategies::collections::{SERVICES, SLICES};
use crate::embedded::strategies::{definitions, metadata, owners};
use crate::kind::GroupVersionKind;
use crate::object::{Object, normal, typed};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// `autoregister.AutoRegisterManagedLabel`
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The label's value of an APIService that is corrected at the start only (`manageOnStart`).
const ON_START: &str = "onstart";
/// The label's value of an APIService that is always corrected (`manageContinuously`).
const ALWAYS: &str = "true";

/// The number of times that the condition of an APIService is computed.
const ATTEMPTS: usize = 64;

/// Registers the built-in groups, and those of the definitions, and removes registrations of what the server no longer serves
/// (`autoRegisterController.checkAPIService`).
pub(in crate::embedded) fn start(store: &Arc<Store>, groups: &[Group]) {
    let work = Work::new(store);
    let custom = definitions::served_versions(&**store);
    let of_definitions = custom.iter().filter_map(|(group, version)| registration(group, version));
    let built_in = built_in(groups).into_iter().map(|each| (each, ON_START));
    let wanted: Vec<_> = built_in.chain(of_definitions.map(|each| (each, ALWAYS))).collect();
    wanted.iter().for_each(|(each, label)| manage(&work, each, label, |_| true));
    let wanted: HashSet<String> = wanted.iter().map(|(each, _)| each.name()).collect();
    for (name, object) in store.objects(API_SERVICES, "") {
        if !automanaged(&object).is_empty() && !wanted.contains(&name) {
            work.transact(|state| state.remove(API_SERVICES, &name, Object::clone(&object)));
        }
        check(&work, &name);
    }
}

/// Follows the definitions of a group. The work starts over after each write of a definition: that of an older state could undo that of a newer
/// one. This ends, because a request that writes a definition does such work itself before its answer: once all seats for writes are taken by
/// requests that start over, nobody writes a definition, and each of them has started over once for each of the others at most.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn follow_definitions(work: &Work, group: &str) -> Result<(), Unkept> {
    loop {
        let basis = work.store().with(|state| state.changed(DEFINITIONS));
        let is_current = |state: &State| state.changed(DEFINITIONS) == basis;
        for correction in corrections(work.store(), group) {
            match correction {
                Correction::Register(wanted) => manage(work, &wanted, ALWAYS, is_current),
                Correction::Unregister(object) => work.transact(|state| {
                    if is_current(state) && state.has(API_SERVICES, object.name(), &object) {
                        state.remove(API_SERVICES, object.name(), Object::clone(&object));
                    }
                }),
            }
            work.pause().await?;
        }
        if work.store().with(|state| is_current(state)) {
            return Ok(());
        }
    }
}

/// A change of an APIService of a custom resource's version.
enum Correction {
    Register(Registered),
    Unregister(Arc<Object>),
}

/// The changes that the definitions of a group ask for.
fn corrections(store: &Store, group: &str) -> Vec<Correction> {
    let mut served = definitions::served_versions(store);
    served.retain(|(of, _)| of == group);
    let is_served = |object: &Object| served.contains(&(group.to_owned(), object.str(&["spec", "version"]).to_owned()));
    let own = store.objects(API_SERVICES, "").into_iter().filter(|(_, object)| object.str(&["spec", "group"]) == group);
    let own: HashMap<String, Arc<Object>> = own.collect();
    let gone = own.values().filter(|object| automanaged(object) == ALWAYS && !is_served(object));
    let gone = gone.map(|object| Correction::Unregister(object.clone()));
    let wanted = served.iter().filter_map(|(group, version)| registration(group, version));
    let missing = wanted.filter(|wanted| {
        let own = own.get(&wanted.name());
        own.is_none_or(|own| Registered::of(own) != *wanted && !automanaged(own).is_empty())
    });
    gone.chain(missing.map(Correction::Register)).collect()
}

/// The registration of a custom resource's version. A version that is built in is not served as a custom resource.
fn registration(group: &str, version: &str) -> Option<Registered> {
    priority(group, version).is_none().then(|| Registered::custom(group, version))
}

/// The APIService; `None` if the server doesn't know the kind.
fn object_of(registered: &Registered, label: &str) -> Option<Object> {
    let kind = kind();
    let resource = catalog::resource(GROUP, "v1", "apiservices")?;
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": registered.name(), "labels": {AUTOMANAGED: label}}, "spec": registered.spec(),
    });
    let mut object = normal::built_in(&kind, object)?.ok()?.object;
    owners::record_own(&kind, "", &empty(&kind), &mut object);
    metadata::begin(resource, &mut object);
    prepare(&mut object);
    Some(metadata::complete(object))
}

/// Creates an APIService, or corrects its spec, unless a client has removed the label.
fn manage(work: &Work, wanted: &Registered, label: &str, is_current: impl Fn(&State) -> bool) {
    let name = wanted.name();
    let Some(current) = work.store().object(API_SERVICES, &name) else {
        let Some(object) = object_of(wanted, label) else { return };
        work.transact(|state| {
            if is_current(state) && !state.contains(API_SERVICES, &name) {
                state.put(API_SERVICES, &name, object);
            }
        });
        return;
    };
    if automanaged(&current).is_empty() || Registered::of(&current) == *wanted {
        return;
    }
    let mut object = Object::clone(&current);
    let _ = object.set(&["spec"], wanted.spec());
    owners::record_own(&kind(), "", &current, &mut object);
    let object = metadata::complete(object);
    work.transact(|state| {
        if is_current(state) && state.has(API_SERVICES, &name, &current) {
            state.put(API_SERVICES, &name, object);
        }
    });
    check(work, &name);
}

/// Sets the condition of each APIService that a Service serves.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn check_all(work: &Work) -> Result<(), Unkept> {
    let mut slices = Slices::new(work.store());
    for (name, object) in work.store().objects(API_SERVICES, "") {
        if is_remote(&object) {
            check_with(work, &name, &mut slices);
            work.pause().await?;
        }
    }
    Ok(())
}

/// Sets the condition of an APIService (`AvailableConditionController.sync`).
pub(in crate::embedded) fn check(work: &Work, name: &str) {
    check_with(work, name, &mut Slices::new(work.store()));
}

/// Sets the condition of an APIService. What changes meanwhile is checked by who changes it, so that the attempts have an end.
fn check_with<'s>(work: &'s Work, name: &str, slices: &mut Slices<'s>) {
    for _ in 0..ATTEMPTS {
        let Some(current) = work.store().object(API_SERVICES, name) else { return };
        let (status, reason, message) = availability(slices, &current);
        let Some(changed) = with_availability(&current, status, reason, &message) else { return };
        let is_done = work.transact(|state| {
            let is_current = slices.are_current(state) && state.has(API_SERVICES, name, &current);
            is_current.then(|| state.put(API_SERVICES, name, changed)).is_some()
        });
        if is_done {
            return;
        }
        *slices = Slices::new(slices.store);
    }
}

/// The APIService with this condition; `None` if it has it.
fn with_availability(current: &Object, status: &str, reason: &str, message: &str) -> Option<Object> {
    let conditions = current.items(&["status", "conditions"]);
    let known = conditions.iter().find(|condition| condition["type"] == "Available");
    let is_same = |field: &str, text: &str| known.is_some_and(|known| known[field] == text);
    if is_same("status", status) && is_same("reason", reason) && is_same("message", message) {
        return None;
    }
    let since = known.filter(|known| known["status"] == status).and_then(|known| known["lastTransitionTime"].as_str());
    let condition = condition(status, reason, message, since.unwrap_or(&metadata::now()));
    let mut conditions = conditions.to_vec();
    match conditions.iter_mut().find(|condition| condition["type"] == "Available") {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    let mut object = current.clone();
    let _ = object.set(&["status", "conditions"], Value::Array(conditions));
    owners::record_own(&kind(), "status", current, &mut object);
    Some(metadata::complete(object))
}

/// The EndpointSlices of Services, read once.
struct Slices<'s> {
    store: &'s Store,
    /// The newest changes of Services and EndpointSlices before they are read.
    basis: [u64; 2],
    /// By namespace and Service.
    known: HashMap<String, HashMap<String, Vec<Arc<Object>>>>,
}

impl<'s> Slices<'s> {
    fn new(store: &'s Store) -> Self {
        Self { store, basis: store.with(|state| Self::changed(state)), known: HashMap::new() }
    }

    fn changed(state: &State) -> [u64; 2] {
        [SERVICES, SLICES].map(|collection| state.changed(collection))
    }

    fn are_current(&self, state: &State) -> bool {
        Self::changed(state) == self.basis
    }

    fn of(&mut self, namespace: &str, service: &str) -> &[Arc<Object>] {
        let store = self.store;
        let in_namespace = self.known.entry(namespace.to_owned()).or_insert_with(|| {
            let mut by_service: HashMap<String, Vec<Arc<Object>>> = HashMap::new();
            for (_, slice) in store.objects(SLICES, &prefix(namespace)) {
                let service = slice.str(&["metadata", "labels", "kubernetes.io/service-name"]).to_owned();
                by_service.entry(service).or_default().push(slice);
            }
            by_service
        });
        in_namespace.get(service).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Status, reason and message of the condition `Available`.
fn availability(slices: &mut Slices<'_>, object: &Object) -> (&'static str, &'static str, String) {
    if !is_remote(object) {
        return ("True", "Local", "Local APIServices are always available".to_owned());
    }
    let spec = |field: &str| object.str(&["spec", "service", field]);
    let (namespace, name) = (spec("namespace"), spec("name"));
    let port = object.get(&["spec", "service", "port"]).and_then(Value::as_i64).unwrap_or_default();
    let Some(service) = slices.store.object(SERVICES, &key(namespace, name)) else {
        return ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if service.str(&["spec", "type"]) == "ClusterIP" {
        let Some(found) = service.items(&["spec", "ports"]).iter().find(|each| each["port"] == port) else {
            let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
            return ("False", "ServicePortError", message);
        };
        let slices = slices.of(namespace, name);
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            return ("False", "EndpointsNotFound", message);
        }
        let port_name = found["name"].as_str().unwrap_or_default();
        if !slices.iter().any(|slice| has_endpoint(slice, port_name)) {
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            );
            return ("False", "MissingEndpoints", message);
        }
    }
    let host = match service.str(&["spec", "type"]) {
        "ExternalName" => service.str(&["spec", "externalName"]),
        _ => service.str(&["spec", "clusterIP"]),
    };
    let path = catalog::group_version_path(object.str(&["spec", "group"]), object.str(&["spec", "version"]));
    let why = "the embedded API server forwards no requests to other API servers";
    ("False", "FailedDiscoveryCheck", format!("failing or missing response from https://{host}:{port}{path}: {why}"))
}

/// `hasAvailableEndpoint`
fn has_endpoint(slice: &Object, port_name: &str) -> bool {
    let is_ready = |endpoint: &Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let is_port = |port: &Value| port["name"] == port_name && !port["port"].is_null();
    slice.items(&["endpoints"]).iter().any(is_ready) && slice.items(&["ports"]).iter().any(is_port)
}

fn automanaged(object: &Object) -> &str {
    match object.str(&["metadata", "labels", AUTOMANAGED]) {
        label @ (ON_START | ALWAYS) => label,
        _ => "",
    }
}

/// Go's empty object of the kind.
fn empty(kind: &GroupVersionKind) -> Object {
    let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
    typed::encode(kind, &mut empty);
    Object::from_value(empty).unwrap_or_default()
}
