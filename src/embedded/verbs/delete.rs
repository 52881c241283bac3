//! Deletion: immediate, graceful, or delayed by finalizers; of one object, of a collection, of a namespace with its objects.

use super::attempts;
use super::custom::convert;
use super::select::Selection;
use crate::body::Body;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::http::body;
use crate::embedded::http::call::Call;
use crate::embedded::http::respond::{self, ListMeta};
use crate::embedded::store::{self, Collection, Reads, SizedObject, State, Store, Task, Unkept, Work, Writer};
use crate::embedded::strategies::definitions;
use crate::embedded::strategies::{api_services, initial, metadata};
use crate::object::{Object, kinds};
use crate::processor;
use crate::request::body::{MediaType, WriteOptions};
use crate::status::Status;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// Finalizers for the propagation policies of a deletion.
pub(in crate::embedded) const ORPHAN: &str = "orphan";
pub(in crate::embedded) const FOREGROUND: &str = "foregroundDeletion";

/// The grace period of a pod without `terminationGracePeriodSeconds`, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// The longest grace period, in seconds: 100 years, so that timestamps do not overflow.
const MAX_GRACE_SECONDS: i64 = 100 * 365 * 24 * 3600;

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(in crate::embedded) struct Options {
    grace_seconds: Option<i64>,
    orphan: Option<bool>,
    policy: Option<String>,
    pub(in crate::embedded) uid: Option<String>,
    pub(in crate::embedded) resource_version: Option<String>,
    pub(in crate::embedded) dry_run: bool,
}

/// The effect of a deletion on an object, computed without the lock of the store.
enum Deletion {
    /// The object stays as it is.
    Unchanged,
    /// The object stays, in this state.
    Marked(SizedObject),
    /// The object goes, in this last state.
    Gone(SizedObject),
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
pub(in crate::embedded) async fn delete(call: &Call) -> Result<Response<Body>, Status> {
    let options = Options::of(call, &call.body, body::media_type(call)?)?;
    let (collection, key) = (call.collection(), call.key());
    attempts::expect(call, call.store.with(|state| state.bytes_of(collection, &key))).await;
    let outcome = delete_object(call, &key, &options)?.ok_or_else(|| call.not_found())?;
    // `DeleteResource`: a cascade by `orphanDependents`, the old option, has a status code of its own.
    let code = if !outcome.is_deleted && options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let ServedResource { group, name, .. } = &*call.resource;
    if !outcome.is_deleted || call.resource.facts().is_returned {
        let object = convert::shown_to(call, outcome.object).await?;
        return Ok(respond::object(call, code, &object));
    }
    let mut details = json!({"name": outcome.object.name(), "kind": &**name, "uid": outcome.object.uid()});
    if let (false, Some(details)) = (group.is_empty(), details.as_object_mut()) {
        details.insert("group".into(), Value::from(&**group));
    }
    Ok(respond::success(code, Some(details)))
}

/// Deletes an object for a client; `None` if it does not exist.
///
/// # Errors
/// If a precondition fails.
fn delete_object(call: &Call, key: &str, options: &Options) -> Result<Option<Outcome>, Status> {
    let collection = call.collection();
    let plan = |current: &Arc<Object>| {
        options.check_object(&call.resource, current)?;
        Ok(planned(collection, current, options))
    };
    call.change(collection, key, plan, |state, current, deletion| match options.dry_run {
        true => tried(current, deletion),
        false => commit(state, collection, key, current, deletion),
    })
}

/// Responds to a deletecollection with the list of the deleted objects.
///
/// # Errors
/// If a selector is invalid, or a deletion fails.
pub(in crate::embedded) async fn delete_collection(call: &Call) -> Result<Response<Body>, Status> {
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
    for (key, _) in &objects {
        // Another request may have deleted the object (`Store.DeleteCollection`).
        delete_object(call, key, &options)?;
    }
    let metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    let mut shown = Vec::with_capacity(objects.len());
    for (_, object) in objects {
        shown.push(convert::shown_to(call, object).await?);
    }
    let objects = shown;
    Ok(respond::list(call, &metadata, &objects))
}

/// The deletion of a pod for an eviction, after a change of its status (`addConditionAndDeletePod`).
pub(in crate::embedded) struct Eviction {
    changed: Option<Object>,
    deletion: Deletion,
}

impl Eviction {
    /// Computes the eviction without the lock of the store.
    ///
    /// # Errors
    /// If a precondition fails.
    pub(in crate::embedded) fn new(
        call: &Call,
        pod: &Arc<Object>,
        options: &Options,
        change: impl FnOnce(&mut Object),
    ) -> Result<Self, Status> {
        options.check_object(&call.resource, pod)?;
        if options.dry_run {
            return Ok(Self { changed: None, deletion: Deletion::Unchanged });
        }
        let mut changed = Object::clone(pod);
        change(&mut changed);
        let changed = Arc::new(changed);
        let deletion = planned(call.collection(), &changed, options);
        let changed = Some(changed).filter(|changed| changed != pod).and_then(Arc::into_inner);
        Ok(Self { changed, deletion })
    }

    /// Stores the change and the deletion of the pod with this key.
    pub(in crate::embedded) fn commit(self, state: &mut State, key: &str, pod: &Arc<Object>) {
        let pod = self.changed.map_or_else(|| pod.clone(), |changed| state.put(initial::PODS, key, changed));
        commit(state, initial::PODS, key, &pod, self.deletion);
    }
}

/// Whether a deletion can be completed, with neither a grace period nor finalizers left (`ShouldDeleteDuringUpdate`).
pub(in crate::embedded) fn is_over(object: &Object) -> bool {
    let grace = object.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    let is_held = |path: &[&str]| !object.items(path).is_empty();
    let is_namespace = object.kind() == "Namespace" && object.api_version() == "v1";
    metadata::is_deleting(object)
        && grace == 0
        && !is_held(&["metadata", "finalizers"])
        && !(is_namespace && is_held(&["spec", "finalizers"]))
}

/// Removes an object. The last object of a terminating namespace or definition takes that with it.
pub(in crate::embedded) fn finish(
    state: &mut State,
    collection: &Collection,
    key: &str,
    last: impl Into<SizedObject>,
) -> Arc<Object> {
    let last = last.into();
    let (namespace, name) = (last.namespace().to_owned(), last.name().to_owned());
    let removed = state.remove(collection, key, last);
    if collection == initial::SERVICES {
        // `REST.afterDelete`
        state.then(Task::Delete { collection: initial::ENDPOINTS.clone(), key: key.to_owned() });
    } else if collection == definitions::DEFINITIONS {
        definitions::removed(state, &removed);
    } else if !kinds::is_built_in_group(&collection.group) && state.count(collection) == 0 {
        state.then(Task::EmptyDefinition(definitions::name_of(collection)));
    }
    if collection != initial::NAMESPACES && !namespace.is_empty() {
        if is_emptied(state, &namespace) {
            state.then(Task::EmptyNamespace(namespace.clone()));
        }
        initial::restore(state, collection, &namespace, &name);
    } else {
        api_services::follow(state, collection, &name);
    }
    removed
}

/// Deletes an object for a controller, or only this state of it.
pub(in crate::embedded) fn as_controller(
    writer: &impl Writer,
    collection: &Collection,
    key: &str,
    only: Option<&Arc<Object>>,
    options: &Options,
) {
    let plan = |current: &Arc<Object>| match only.is_none_or(|only| Arc::ptr_eq(only, current)) {
        true => Ok(planned(collection, current, options)),
        false => Err(()),
    };
    let _ = writer.change(collection, key, plan, |state, current, deletion| {
        commit(state, collection, key, current, deletion);
    });
}

impl Options {
    /// Options with a propagation policy alone.
    pub(in crate::embedded) fn with_policy(policy: &str) -> Self {
        Self { policy: Some(policy.to_owned()), ..Self::default() }
    }

    /// Reads the options from the body, or from the query if the body is empty.
    pub(in crate::embedded) fn of(call: &Call, body: &[u8], media_type: MediaType) -> Result<Self, Status> {
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
    ///
    /// # Errors
    /// 409 if one fails.
    fn check_object(&self, resource: &ServedResource, object: &Object) -> Result<(), Status> {
        if definitions::is_definition(resource) {
            return definitions::check_preconditions(self, object);
        }
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

/// Computes the effect of a deletion on the current object.
fn planned(collection: &Collection, current: &Arc<Object>, options: &Options) -> Deletion {
    let mut object = Object::clone(current);
    if collection == definitions::DEFINITIONS && !metadata::is_deleting(&object) {
        definitions::mark_as_deleting(&mut object);
        return Deletion::Marked(object.into());
    }
    if collection == initial::NAMESPACES {
        return match metadata::is_deleting(&object) {
            true => Deletion::Unchanged,
            false => {
                let _ = object.set(&["metadata", "deletionTimestamp"], Value::from(metadata::now()));
                let _ = object.set(&["status", "phase"], Value::from("Terminating"));
                Deletion::Marked(object.into())
            }
        };
    }
    let grace = if collection == initial::PODS { grace_of(&mut object, options) } else { Grace::None };
    if grace == Grace::Pending {
        return Deletion::Unchanged;
    }
    let finalizers = options.finalizers(&object);
    if finalizers.is_empty() {
        object.remove(&["metadata", "finalizers"]);
        let object = object.into();
        return if grace == Grace::Period { Deletion::Marked(object) } else { Deletion::Gone(object) };
    }
    let _ = object.set(&["metadata", "finalizers"], Value::Array(finalizers));
    if grace == Grace::None {
        mark_as_deleting(&mut object);
    }
    if object == **current { Deletion::Unchanged } else { Deletion::Marked(object.into()) }
}

/// Stores a deletion of the current object.
fn commit(state: &mut State, collection: &Collection, key: &str, current: &Arc<Object>, deletion: Deletion) -> Outcome {
    let object = match deletion {
        Deletion::Gone(last) => {
            return Outcome { object: finish(state, collection, key, last), is_deleted: true };
        }
        Deletion::Marked(object) => state.put(collection, key, object),
        Deletion::Unchanged => current.clone(),
    };
    if collection == definitions::DEFINITIONS {
        state.then(Task::Definition(key.to_owned()));
    }
    if collection == initial::NAMESPACES && state.settings().controllers.namespace {
        state.then(Task::Namespace(key.to_owned()));
    }
    Outcome { object, is_deleted: false }
}

/// The outcome of a dry run.
fn tried(current: &Arc<Object>, deletion: Deletion) -> Outcome {
    match deletion {
        Deletion::Gone(last) => Outcome { object: Arc::new(last.into_object()), is_deleted: true },
        Deletion::Marked(object) => Outcome { object: Arc::new(object.into_object()), is_deleted: false },
        Deletion::Unchanged => Outcome { object: current.clone(), is_deleted: false },
    }
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

/// Leaves a new object to the namespace controller if its namespace is being deleted. Admission refuses such an object, unless the deletion comes
/// between.
pub(in crate::embedded) fn follow_create(state: &mut State, namespace: &str) {
    if state.settings().controllers.namespace && is_terminating(state, namespace) {
        state.then(Task::Namespace(namespace.to_owned()));
    }
}

/// Leaves to the controllers what was under way when the server ended.
pub(in crate::embedded) fn resume(store: &Store) {
    let begun = |collection| {
        let objects = store.objects(collection, "").into_iter();
        objects.filter(|(_, object)| metadata::is_deleting(object)).map(|(key, _)| key)
    };
    let (namespaces, definitions) = (begun(initial::NAMESPACES), begun(definitions::DEFINITIONS));
    let groups = definitions::names_to_reconsider(store);
    store.with(|state| {
        state.leave(groups.into_iter().map(Task::Names).chain(definitions.map(Task::Definition)));
        if state.settings().controllers.namespace {
            state.leave(namespaces.map(Task::Namespace));
        }
    });
}

/// Deletes all objects in a terminating namespace, and then the namespace. Objects with finalizers stay, marked as deleted.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn empty_namespace(work: &Work, namespace: &str) -> Result<(), Unkept> {
    let collections = work.store().with(|state| match is_terminating(state, namespace) {
        true => state.collections_in(namespace),
        false => Vec::new(),
    });
    for collection in collections {
        all_of(work, &collection, namespace).await?;
    }
    finish_namespace(work, namespace);
    Ok(())
}

/// Deletes all objects of a collection in a namespace, or in all if the namespace is empty. Objects with finalizers stay, marked as deleted.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn all_of(work: &Work, collection: &Collection, namespace: &str) -> Result<(), Unkept> {
    // Without kubelets no pod needs time to stop.
    let options = Options { grace_seconds: Some(0), ..Options::with_policy("Background") };
    let slots = work.store().with(|state| state.slots(collection, &store::prefix(namespace)));
    for (key, _) in slots {
        as_controller(work, collection, &key, None, &options);
        work.pause().await?;
    }
    Ok(())
}

fn is_terminating(state: &State, namespace: &str) -> bool {
    state.object(initial::NAMESPACES, namespace).is_some_and(|namespace| metadata::is_deleting(&namespace))
}

/// True if the namespace controller is to remove a namespace, which is terminating and empty.
fn is_emptied(state: &State, namespace: &str) -> bool {
    state.settings().controllers.namespace
        && is_terminating(state, namespace)
        && state.collections_in(namespace).is_empty()
}

/// Removes a terminating namespace that has become empty, unless another finalizer holds it.
pub(in crate::embedded) fn finish_namespace(work: &Work, name: &str) {
    if !work.store().with(|state| is_emptied(state, name)) {
        return;
    }
    let plan = |namespace: &Arc<Object>| {
        let mut object = Object::clone(namespace);
        if let Some(Value::Array(finalizers)) = object.get_mut(&["spec", "finalizers"]) {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
        }
        Ok::<_, Infallible>(object)
    };
    let _ = work.change(initial::NAMESPACES, name, plan, |state, namespace, object| {
        if !is_emptied(state, name) {
            return;
        }
        if is_over(&object) {
            state.remove(initial::NAMESPACES, name, object);
        } else if object != **namespace {
            state.put(initial::NAMESPACES, name, object);
        }
    });
}
