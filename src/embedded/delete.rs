//! Deletion: immediate, graceful, or delayed by finalizers; of one object, of a collection, of a namespace with its objects.

use super::api_services;
use super::call::Call;
use super::catalog::{self, ServedResource};
use super::custom;
use super::removed;
use super::respond::{self, ListMeta};
use super::select::Selection;
use super::store::{self, Collection, State};
use super::{body, initial, metadata};
use crate::body::Body;
use crate::object::{Object, kinds};
use crate::processor;
use crate::request::body::{MediaType, WriteOptions};
use crate::status::Status;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

/// Finalizers for the propagation policies of a deletion.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The maximum number of objects that one transaction of a deletecollection deletes.
const BATCH: usize = 64;

/// The grace period of a pod without `terminationGracePeriodSeconds`, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// The longest grace period, in seconds: 100 years, so that timestamps do not overflow.
const MAX_GRACE_SECONDS: i64 = 100 * 365 * 24 * 3600;

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    grace_seconds: Option<i64>,
    orphan: Option<bool>,
    policy: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) dry_run: bool,
}

/// The result of a deletion.
struct Outcome {
    object: Arc<Object>,
    is_deleted: bool,
}

/// Responds to a delete.
///
/// # Errors
/// If the object does not exist, or a precondition fails.
pub(super) async fn delete(call: &Call) -> Result<Response<Body>, Status> {
    let options = Options::of(call, &call.body, body::media_type(call)?)?;
    let outcome = call.store.with(|state| {
        let current = state.object(call.collection(), &call.key()).ok_or_else(|| call.not_found())?;
        delete_in(state, &call.resource, call.collection(), &call.key(), &current, &options)
    })?;
    // `DeleteResource`: a cascade by `orphanDependents`, the old option, has a status code of its own.
    let code = if !outcome.is_deleted && options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let ServedResource { group, name, .. } = &*call.resource;
    if !outcome.is_deleted || call.resource.facts().is_returned {
        let object = custom::shown_to(call, outcome.object).await?;
        return Ok(respond::object(call, code, &object));
    }
    let mut details = json!({"name": outcome.object.name(), "kind": &**name, "uid": outcome.object.uid()});
    if let (false, Some(details)) = (group.is_empty(), details.as_object_mut()) {
        details.insert("group".into(), Value::from(&**group));
    }
    Ok(respond::success(code, Some(details)))
}

/// Responds to a deletecollection with the list of the deleted objects.
///
/// # Errors
/// If a selector is invalid, or a deletion fails.
pub(super) async fn delete_collection(call: &Call) -> Result<Response<Body>, Status> {
    let options = Options::of(call, &call.body, body::media_type(call)?)?;
    let selection = Selection::new(call)?.with_uninitialized();
    // The work grows with the collection, not with the request.
    processor::expect_long().await;
    let collection = call.collection();
    let prefix = store::prefix(call.namespace());
    let (revision, page) = call.store.with(|state| {
        let revision = state.revision();
        (revision, state.page(collection, &prefix, "", revision, usize::MAX).unwrap_or_default())
    });
    let objects = page.objects.into_iter().map(|(key, slot)| (key, slot.object()));
    let objects: Vec<_> = objects.filter(|(_, object)| selection.matches(object)).collect();
    for batch in objects.chunks(BATCH) {
        call.store.with(|state| {
            for (key, _) in batch {
                // Another request may have deleted the object (`Store.DeleteCollection`).
                if let Some(current) = state.object(collection, key) {
                    delete_in(state, &call.resource, collection, key, &current, &options)?;
                }
            }
            Ok::<_, Status>(())
        })?;
    }
    let metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    let mut shown = Vec::with_capacity(objects.len());
    for (_, object) in objects {
        shown.push(custom::shown_to(call, object).await?);
    }
    let objects = shown;
    Ok(respond::list(call, &metadata, &objects))
}

/// Deletes a pod for an eviction, after a change of its status (`addConditionAndDeletePod`).
///
/// # Errors
/// If a precondition fails.
pub(super) fn evict(
    state: &mut State,
    call: &Call,
    pod: &Arc<Object>,
    options: &Options,
    change: impl FnOnce(&mut Object),
) -> Result<(), Status> {
    options.check_object(&call.resource, pod)?;
    let (collection, key) = (call.collection(), call.key());
    let mut options = options.clone();
    let mut pod = pod.clone();
    if !options.dry_run {
        let mut changed = Object::clone(&pod);
        change(&mut changed);
        if changed != *pod {
            pod = state.put(collection, &key, changed);
            // The precondition held before the change.
            options.resource_version = None;
        }
    }
    delete_in(state, &call.resource, collection, &key, &pod, &options).map(drop)
}

/// Whether a deletion can be completed, with neither a grace period nor finalizers left (`ShouldDeleteDuringUpdate`).
pub(super) fn is_over(object: &Object) -> bool {
    let grace = object.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    let is_held = |path: &[&str]| !object.items(path).is_empty();
    let is_namespace = object.kind() == "Namespace" && object.api_version() == "v1";
    metadata::is_deleting(object)
        && grace == 0
        && !is_held(&["metadata", "finalizers"])
        && !(is_namespace && is_held(&["spec", "finalizers"]))
}

/// Removes an object. Removes a terminating namespace with its last object.
pub(super) fn finish(state: &mut State, collection: &Collection, key: &str, last: Object) -> Arc<Object> {
    let namespace = last.namespace().to_owned();
    let removed = state.remove(collection, key, last.clone());
    if collection == initial::SERVICES {
        // `REST.afterDelete`
        if let Some(endpoints) = state.object(initial::ENDPOINTS, key) {
            as_controller(state, initial::ENDPOINTS, key, &endpoints, &Options::default());
        }
    } else if collection == custom::DEFINITIONS {
        custom::removed(state, removed.as_deref().unwrap_or(&last));
    } else if !kinds::is_built_in_group(&collection.group) {
        custom::finish(state, collection);
    }
    if collection != initial::NAMESPACES && !namespace.is_empty() {
        finish_namespace(state, &namespace);
        initial::restore(state, collection, &namespace, last.name());
    } else {
        api_services::follow(state, collection, last.name());
    }
    removed.unwrap_or_else(|| Arc::new(last))
}

/// Deletes an object for a controller.
pub(super) fn as_controller(
    state: &mut State,
    collection: &Collection,
    key: &str,
    current: &Arc<Object>,
    options: &Options,
) {
    with_resource(state, collection, |state, resource| {
        // A deletion without preconditions cannot fail.
        let _ = delete_in(state, resource, collection, key, current, options);
    });
}

/// Does something with the resource of the objects in a collection. That of custom objects is made of their definition, which takes time.
fn with_resource(state: &mut State, collection: &Collection, work: impl FnOnce(&mut State, &ServedResource)) {
    let is_of =
        |resource: &&ServedResource| (&resource.group, &resource.name) == (&collection.group, &collection.resource);
    let mut built_in = catalog::resources().iter().map(|resource| &**resource);
    let known = built_in.find(is_of).or_else(|| removed::of_collection(&collection.group, &collection.resource));
    if let Some(resource) = known {
        work(state, resource);
    } else if let Some(resource) = custom::resource_of(state, collection) {
        work(state, &resource);
    }
}

impl Options {
    /// Options with a propagation policy alone.
    pub(super) fn with_policy(policy: &str) -> Self {
        Self { policy: Some(policy.to_owned()), ..Self::default() }
    }

    /// Reads the options from the body, or from the query if the body is empty.
    pub(super) fn of(call: &Call, body: &[u8], media_type: MediaType) -> Result<Self, Status> {
        let options = WriteOptions::for_delete(body, media_type, call.query())?;
        let precondition = |name: &str| {
            let value = options.preconditions.as_ref()?.get(name)?.as_str()?;
            Some(value.to_owned())
        };
        Ok(Self {
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: options.is_dry_run(),
            // Negative values count as one second.
            grace_seconds: options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s.min(MAX_GRACE_SECONDS) }),
            orphan: options.orphan_dependents,
            policy: options.propagation_policy,
        })
    }

    /// Checks the preconditions (`rest.BeforeDelete`).
    fn check_object(&self, resource: &ServedResource, object: &Object) -> Result<(), Status> {
        let conflict = |why: String| Err(Status::conflict(&resource.group, &resource.kind, object.name(), &why));
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != object.uid()) {
            return conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                object.uid()
            ));
        }
        if let Some(version) = self.resource_version.as_deref().filter(|version| *version != object.resource_version())
        {
            return conflict(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                object.resource_version()
            ));
        }
        Ok(())
    }

    /// The finalizers of the object after a deletion with these options (`deletionFinalizersForGarbageCollection`).
    fn finalizers(&self, object: &Object) -> Vec<Value> {
        let finalizers = object.items(&["metadata", "finalizers"]);
        let is_decided = finalizers.iter().any(|finalizer| finalizer == ORPHAN || finalizer == FOREGROUND);
        let wanted = match (self.policy.as_deref(), self.orphan) {
            (None, None) if !is_decided && is_orphaning(object) => Some(ORPHAN),
            (None, None) => return finalizers.to_vec(),
            (Some("Orphan"), _) | (None, Some(true)) => Some(ORPHAN),
            (Some("Foreground"), _) => Some(FOREGROUND),
            _ => None,
        };
        let others = finalizers.iter().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND).cloned();
        others.chain(wanted.map(Value::from)).collect()
    }
}

/// Whether a deletion without a policy orphans the dependents (`DefaultGarbageCollectionPolicy`).
fn is_orphaning(object: &Object) -> bool {
    matches!((object.api_version(), object.kind()), ("batch/v1", "Job") | ("v1", "ReplicationController"))
}

fn delete_in(
    state: &mut State,
    resource: &ServedResource,
    collection: &Collection,
    key: &str,
    current: &Arc<Object>,
    options: &Options,
) -> Result<Outcome, Status> {
    if collection == custom::DEFINITIONS
        && let Some(object) = custom::delete(state, current, options)?
    {
        return Ok(Outcome { object, is_deleted: false });
    }
    options.check_object(resource, current)?;
    if collection == initial::NAMESPACES {
        return Ok(delete_namespace(state, current, options));
    }
    let mut object = Object::clone(current);
    let grace = if collection == initial::PODS { grace_of(&mut object, options) } else { Grace::None };
    if grace == Grace::Pending {
        return Ok(Outcome { object: current.clone(), is_deleted: false });
    }
    let finalizers = options.finalizers(&object);
    let is_held = !finalizers.is_empty();
    if is_held {
        let _ = object.set(&["metadata", "finalizers"], Value::Array(finalizers));
        if grace == Grace::None {
            mark_as_deleting(&mut object);
        }
    } else {
        object.remove(&["metadata", "finalizers"]);
    }
    if is_held || grace == Grace::Period {
        let stored = match () {
            () if object == **current => current.clone(),
            () if options.dry_run => Arc::new(object),
            () => state.put(collection, key, object),
        };
        return Ok(Outcome { object: stored, is_deleted: false });
    }
    let object = if options.dry_run { Arc::new(object) } else { finish(state, collection, key, object) };
    Ok(Outcome { object, is_deleted: true })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grace {
    /// The kind has no graceful deletion.
    None,
    /// The grace period is zero.
    Over,
    /// The object has got a grace period.
    Period,
    /// The grace period runs already, and the request does not change it.
    Pending,
}

/// Marks a pod for graceful deletion: `rest.BeforeDelete` for pods, which their kubelet stops first.
fn grace_of(pod: &mut Object, options: &Options) -> Grace {
    let now = Timestamp::now();
    if metadata::is_deleting(pod) {
        let granted = pod.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
        if granted == 0 {
            return Grace::None;
        }
        // A grace period may only become shorter.
        let Some(seconds) = options.grace_seconds.filter(|seconds| *seconds < granted) else { return Grace::Pending };
        let ends = pod.str(&["metadata", "deletionTimestamp"]).parse().unwrap_or(now);
        let ends = ends.saturating_sub(SignedDuration::from_secs(granted.min(MAX_GRACE_SECONDS))).unwrap_or(now);
        let ends = ends.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let (ends, seconds) = if ends < now { (now, seconds.min(1)) } else { (ends, seconds) };
        return set_grace(pod, ends, seconds);
    }
    // `podStrategy.CheckGracefulDelete`
    let own = pod.get(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    let seconds = match options.grace_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS) {
        _ if pod.str(&["spec", "nodeName"]).is_empty() => 0,
        _ if matches!(pod.str(&["status", "phase"]), "Failed" | "Succeeded") => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds.min(MAX_GRACE_SECONDS),
    };
    metadata::next_generation(pod);
    let ends = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    set_grace(pod, ends, seconds)
}

fn set_grace(pod: &mut Object, ends: Timestamp, seconds: i64) -> Grace {
    let _ = pod.set(&["metadata", "deletionTimestamp"], Value::from(metadata::timestamp(ends)));
    let _ = pod.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(seconds));
    if seconds == 0 { Grace::Over } else { Grace::Period }
}

/// `registry.markAsDeleting`.
fn mark_as_deleting(object: &mut Object) {
    if !metadata::is_deleting(object) {
        metadata::next_generation(object);
        let _ = object.set(&["metadata", "deletionTimestamp"], Value::from(metadata::now()));
    }
    let _ = object.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(0));
}

/// Deletes a namespace as kube-apiserver's registry does, and then its objects as the namespace controller does.
fn delete_namespace(state: &mut State, current: &Arc<Object>, options: &Options) -> Outcome {
    let mut object = Object::clone(current);
    if !metadata::is_deleting(&object) {
        let _ = object.set(&["metadata", "deletionTimestamp"], Value::from(metadata::now()));
        let _ = object.set(&["status", "phase"], Value::from("Terminating"));
    }
    if options.dry_run {
        return Outcome { object: Arc::new(object), is_deleted: false };
    }
    let name = object.name().to_owned();
    let stored = if object == **current { current.clone() } else { state.put(initial::NAMESPACES, &name, object) };
    if state.settings().controllers.namespace {
        empty_namespace(state, &name);
    }
    finish_namespace(state, &name);
    Outcome { object: stored, is_deleted: false }
}

/// Deletes all objects in a namespace; objects with finalizers stay, marked as deleted.
fn empty_namespace(state: &mut State, namespace: &str) {
    for collection in state.collections_in(namespace) {
        all_of(state, &collection, namespace);
    }
}

/// Deletes all objects of a collection in a namespace, or in all if the namespace is empty. Objects with finalizers stay, marked as deleted.
pub(super) fn all_of(state: &mut State, collection: &Collection, namespace: &str) {
    // Without kubelets no pod needs time to stop.
    let options = Options { grace_seconds: Some(0), ..Options::with_policy("Background") };
    with_resource(state, collection, |state, resource| {
        for (key, object) in state.objects(collection, &store::prefix(namespace)) {
            // A deletion without preconditions cannot fail.
            let _ = delete_in(state, resource, collection, &key, &object, &options);
        }
    });
}

/// Removes a terminating namespace that has become empty, unless another finalizer holds it.
fn finish_namespace(state: &mut State, name: &str) {
    if !state.settings().controllers.namespace {
        return;
    }
    let Some(namespace) = state.object(initial::NAMESPACES, name) else { return };
    if !metadata::is_deleting(&namespace) || !state.collections_in(name).is_empty() {
        return;
    }
    let mut object = Object::clone(&namespace);
    if let Some(Value::Array(finalizers)) = object.get_mut(&["spec", "finalizers"]) {
        finalizers.retain(|finalizer| finalizer != "kubernetes");
    }
    if is_over(&object) {
        state.remove(initial::NAMESPACES, name, object);
    } else if object != *namespace {
        state.put(initial::NAMESPACES, name, object);
    }
}
