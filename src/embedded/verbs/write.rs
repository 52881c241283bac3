//! Create, update, patch and apply.
//!
//! The work on an object is done without the lock of the store, on what was stored at its start; the transaction that stores the object checks
//! that this has not changed.

use super::attempts::{self, Attempts, Basis};
use super::initializers;
use crate::body::Body;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::server::Server;
use crate::embedded::store::{self, Collection, Reads, SizedObject, State, Writer, capacity};
use crate::embedded::strategies::collections::NAMESPACES;
use crate::embedded::strategies::namespaces::follow_create;
use crate::embedded::strategies::{self, Following, deletion, metadata, validation};
use crate::go_text::go_type;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::patch::{self, PatchType};
use crate::object::{Object, generate_name, schema};
use crate::request::body::{OptionsKind, WriteOptions};
use crate::status::{OPTIMISTIC_LOCK, Status, invalid};
use http::{Response, StatusCode};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The number of generated names that are tried until one is free (`Store.Create`, `maxNameGenerationCreateAttempts`).
pub(in crate::embedded) const NAME_ATTEMPTS: usize = 8;

/// Responds to a create, as soon as the object is initialized.
///
/// # Errors
/// If the object cannot be created or initialized.
pub(in crate::embedded) async fn create(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Create)?;
    attempts::expect(call, 0).await;
    let submitted = || {
        let mut object = body::object(call, &call.resource.gvk())?;
        body::ensure_namespace(&mut object, call.namespace())?;
        call.owners().record(None, &mut object);
        Ok::<_, Status>(object)
    };
    let object = submitted()?;
    let wait = initializers::Wait::begin(call, &object, dry_run)?;
    let waits = wait.is_some();
    let changes = move |state: &mut State| waits.then(|| initializers::changes(state, call)).transpose();
    let new = New { object, is_apply: false, dry_run };
    let (created, changes) = create_object(call, new, submitted, &mut Attempts::new(call), changes).await?;
    let created = match (wait, changes) {
        (Some(wait), Some(changes)) => wait.end(call, created, changes).await?,
        _ => created,
    };
    Ok(respond::object(call, initializers::code(call, &created), &created))
}

/// Responds to an update of an object, or of a subresource that is a part of the object.
///
/// # Errors
/// If the object cannot be updated.
pub(in crate::embedded) async fn update(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Update)?;
    attempts::expect(call, 0).await;
    let submitted = || body::object(call, &call.resource.gvk());
    let mut first = Some(submitted()?);
    first.iter().try_for_each(|object| check_name(call, object))?;
    let mut attempts = Attempts::new(call);
    loop {
        let mut object = first.take().map_or_else(submitted, Ok)?;
        if let Some(current) = current(call).await {
            check_uid(call, &object, &current)?;
            call.owners().record(Some(&call.resource.shown(&current)), &mut object);
            let object = call.resource.stored(object)?;
            let new = New { object, is_apply: false, dry_run };
            if let Some(stored) = replace(call, &current, new)? {
                return Ok(respond::object(call, StatusCode::OK, &stored));
            }
        } else {
            if !call.resource.facts().created_by_put || !call.info.subresource.is_empty() {
                return Err(call.not_found());
            }
            // With a resourceVersion, the client has seen an object that was deleted since.
            if !object.resource_version().is_empty() {
                return Err(call.not_found());
            }
            body::ensure_namespace(&mut object, call.namespace())?;
            call.owners().record(None, &mut object);
            let new = New { object, is_apply: false, dry_run };
            if let Some(created) = create_missing(call, new, &mut attempts).await? {
                return Ok(respond::object(call, StatusCode::CREATED, &created));
            }
        }
        attempts.start_over().await?;
    }
}

/// Responds to a patch of an object, or of a subresource that is a part of the object.
///
/// # Errors
/// If the object cannot be patched.
pub(in crate::embedded) async fn patch(call: &Call) -> Result<Response<Body>, Status> {
    attempts::expect(call, 0).await;
    let (patch_type, patch) = patch_of(call)?;
    let options = WriteOptions::from_query(call.query(), OptionsKind::Patch(patch_type))?;
    let dry_run = options.is_dry_run();
    if patch_type == PatchType::Apply {
        return apply_configuration(call, &patch, &options).await;
    }
    let kind = call.resource.gvk();
    let mut attempts = Attempts::new(call);
    loop {
        let current = current(call).await.ok_or_else(|| call.not_found())?;
        let shown = call.resource.shown(&current);
        let mut object = apply(patch_type, shown.clone().into_owned(), &patch, &kind)?;
        call.owners().record(Some(&shown), &mut object);
        check_name(call, &object)?;
        let object = call.resource.stored(object)?;
        if let Some(stored) = replace(call, &current, New { object, is_apply: false, dry_run })? {
            return Ok(respond::object(call, StatusCode::OK, &stored));
        }
        attempts.start_over().await?;
    }
}

/// The object that the URL names, and the announcement of the work on it.
pub(in crate::embedded) async fn current(call: &Call) -> Option<Arc<Object>> {
    let (collection, key) = (call.collection(), call.key());
    attempts::expect(call, call.server.store.with(|state| state.bytes_of(collection, &key))).await;
    call.server.store.object(collection, &key)
}

/// The patch in a request's body.
///
/// # Errors
/// 415 for unknown media types, 400 for a body that cannot be decoded.
pub(in crate::embedded) fn patch_of(call: &Call) -> Result<(PatchType, Value), Status> {
    let patch_type = PatchType::from_content_type(call.content_type.as_deref(), false)?;
    if patch_type == PatchType::Apply {
        return Ok((patch_type, configuration(call)?));
    }
    let decoded = match patch::is_parsed_first() {
        true => patch::decode(patch_type, &call.body)?,
        false => crate::object::decode::json(&call.body).map_err(Status::bad_request)?,
    };
    Ok((patch_type, decoded.value))
}

/// The apply configuration in a request's body.
fn configuration(call: &Call) -> Result<Value, Status> {
    let decoded = patch::decode_configuration(call.content_type.as_deref(), &call.body)?;
    if call.parameter("fieldValidation").as_deref() == Some("Strict") && !decoded.duplicates.is_empty() {
        let duplicates = decoded.duplicates.join("\n  ");
        let name = patch::configuration_name();
        return Err(Status::bad_request(format!(
            "error strict decoding {name}: error converting YAML to JSON: yaml: unmarshal errors:\n  {duplicates}"
        )));
    }
    match decoded.value {
        // An empty document is an empty object.
        Value::Null => Ok(Value::Object(Map::new())),
        value @ Value::Object(_) => Ok(value),
        other => Err(Status::bad_request(format!(
            "error decoding {}: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            patch::configuration_name(),
            go_type(&other)
        ))),
    }
}

/// Responds to a server-side apply, which creates a missing object.
async fn apply_configuration(
    call: &Call,
    configuration: &Value,
    options: &WriteOptions,
) -> Result<Response<Body>, Status> {
    let (dry_run, force) = (options.is_dry_run(), options.force == Some(true));
    let mut attempts = Attempts::new(call);
    loop {
        let current = current(call).await;
        if current.is_none() && !call.info.subresource.is_empty() {
            return Err(call.not_found());
        }
        let shown = current.as_deref().map(|current| call.resource.shown(current));
        let mut object = call.owners().apply(shown.as_deref(), configuration, force)?;
        if current.is_none() {
            check_no_uid(call, &object)?;
        }
        body::ensure_namespace(&mut object, call.namespace())?;
        check_name(call, &object)?;
        if let Some(current) = current {
            let object = call.resource.stored(object)?;
            if let Some(stored) = replace(call, &current, New { object, is_apply: true, dry_run })? {
                return Ok(respond::object(call, StatusCode::OK, &stored));
            }
        } else {
            object.remove(&["metadata", "resourceVersion"]);
            let new = New { object, is_apply: true, dry_run };
            if let Some(created) = create_missing(call, new, &mut attempts).await? {
                return Ok(respond::object(call, StatusCode::CREATED, &created));
            }
        }
        attempts.start_over().await?;
    }
}

/// Checks that an applied object that does not exist yet has no uid.
///
/// # Errors
/// 409 if it has one.
pub(in crate::embedded) fn check_no_uid(call: &Call, object: &Object) -> Result<(), Status> {
    if object.uid().is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {}, and no existing object was found", object.uid());
    Err(Status::conflict(&call.resource.group, &call.resource.name, &call.info.name, &why))
}

/// A patched object, checked to be still of its kind.
///
/// # Errors
/// If the patch does not apply, or changes the object's kind.
pub(in crate::embedded) fn apply(
    patch_type: PatchType,
    original: Object,
    patch: &Value,
    kind: &GroupVersionKind,
) -> Result<Object, Status> {
    let patched = patch::apply(patch_type, original.into_value(), patch, schema::of(kind))?;
    body::patched(&patched, kind)
}

/// The state of an object that a write wants.
pub(in crate::embedded) struct New {
    pub(in crate::embedded) object: Object,
    /// Whether the write is a server-side apply.
    pub(in crate::embedded) is_apply: bool,
    pub(in crate::embedded) dry_run: bool,
}

/// Creates an object that did not exist; `None` if it does now.
async fn create_missing(call: &Call, new: New, attempts: &mut Attempts<'_>) -> Result<Option<Arc<Object>>, Status> {
    let first = Basis::is_needed(call).then(|| new.object.clone());
    let again = || first.clone().ok_or_else(|| Status::internal_error("the write depends on other objects"));
    match create_object(call, new, again, attempts, |_| Ok(())).await {
        Ok((created, ())) => Ok(Some(created)),
        Err(status) if is_taken(&status) => Ok(None),
        Err(status) => Err(status),
    }
}

/// Creates an object; generates a name if the object has none. Does `also` in the transaction of the creation. A further attempt, which is
/// rare, makes the object `again`: a copy would take memory during every attempt.
async fn create_object<T: Send>(
    call: &Call,
    new: New,
    again: impl Fn() -> Result<Object, Status> + Send + Sync,
    attempts: &mut Attempts<'_>,
    also: impl Fn(&mut State) -> Result<T, Status> + Send + Sync,
) -> Result<(Arc<Object>, T), Status> {
    let New { object, is_apply, dry_run } = new;
    let strategy = strategies::of(&call.resource);
    let had_namespace = has_namespace(&*call.server.store, call);
    // Only a generated name may be another one in a further attempt.
    let (is_named, mut names) = (!object.name().is_empty(), 1);
    let prepare_sized = |object| prepare(call, object, is_apply, dry_run).map(SizedObject::from);
    let (mut wanted, prepared) = match strategy.is_prepared_once() {
        true => (None, Some(prepare_sized(object)?)),
        false => (Some(object), None),
    };
    loop {
        let basis = Basis::of(call);
        let object = match &prepared {
            Some(prepared) => prepared.clone(),
            None => prepare_sized(wanted.take().map_or_else(&again, Ok)?)?,
        };
        let following = strategy.following(&call.context(dry_run), &object, None);
        let transaction = |state: &mut State| {
            basis.holds(call, state).then(|| {
                let created = insert(state, call, object, had_namespace, dry_run)?;
                if let Some(following) = following.filter(|_| !dry_run) {
                    following(state, created.name());
                }
                Ok((created, also(state)?))
            })
        };
        match call.transact(transaction) {
            Some(Err(status)) if is_taken(&status) && !is_named && prepared.is_none() && names < NAME_ATTEMPTS => {
                names += 1;
            }
            Some(created) => return created.map_err(|status| refused(call, status)),
            None => attempts.start_over().await?,
        }
    }
}

/// Whether the name of a new object is another object's.
pub(in crate::embedded) fn is_taken(status: &Status) -> bool {
    status.reason == "AlreadyExists"
}

/// Prepares and validates a new object, without the lock of the store.
fn prepare(call: &Call, object: Object, is_apply: bool, dry_run: bool) -> Result<Object, Status> {
    let (resource, context) = (&*call.resource, call.context(dry_run));
    let mut object = resource.stored(object)?;
    strategies::of(resource).check_rights(&context, &object, None)?;
    metadata::begin(resource, &mut object);
    name_object(&*call.server.store, call, &mut object)?;
    initializers::check_new(call, &object)?;
    strategies::prepare(&context, &mut object)?;
    validation::create(&context, &object)?;
    validation::warn(&context, &object, None);
    check_version_of_new(&object, dry_run)?;
    fitted(call, metadata::complete(object), is_apply, dry_run)
}

/// The object as etcd accepts it ([`capacity::fitted`]); a dry run stores nothing.
///
/// # Errors
/// If the object is too large.
pub(in crate::embedded) fn fitted(
    call: &Call,
    object: Object,
    is_apply: bool,
    dry_run: bool,
) -> Result<Object, Status> {
    if dry_run {
        return Ok(object);
    }
    fitted_in(call, call.collection(), &store::key(call.namespace(), object.name()), object, is_apply)
}

/// As [`fitted`], for an object of another collection than the call's.
///
/// # Errors
/// If the object is too large.
pub(in crate::embedded) fn fitted_in(
    call: &Call,
    collection: &Collection,
    key: &str,
    object: Object,
    is_apply: bool,
) -> Result<Object, Status> {
    let Server { store, limits, .. } = &*call.server;
    let path = strategies::of_collection(collection).storage_path(collection);
    capacity::fitted(store, limits, capacity::Put { collection, key, path: &path, is_apply }, object)
}

/// Whether the namespace of the call exists. Without admission an object may be in a namespace that does not exist.
pub(in crate::embedded) fn has_namespace(reads: &impl Reads, call: &Call) -> bool {
    call.namespace().is_empty() || reads.object(NAMESPACES, call.namespace()).is_some()
}

/// Checks that the namespace was not removed during the work on a new object, which would wait there for the next namespace of this name.
///
/// # Errors
/// 404 if it was.
pub(in crate::embedded) fn check_namespace(state: &State, call: &Call, had_namespace: bool) -> Result<(), Status> {
    match had_namespace && !has_namespace(state, call) {
        true => Err(Status::not_found("", "namespaces", call.namespace())),
        false => Ok(()),
    }
}

/// Stores a prepared object, unless another one has its name.
fn insert(
    state: &mut State,
    call: &Call,
    object: SizedObject,
    had_namespace: bool,
    dry_run: bool,
) -> Result<Arc<Object>, Status> {
    let (strategy, collection) = (strategies::of(&call.resource), call.collection());
    check_namespace(state, call, had_namespace)?;
    let key = store::key(call.namespace(), object.name());
    strategy.check_room(state, &call.context(dry_run), object.name())?;
    if state.contains(collection, &key) {
        return Err(taken(call, &object));
    }
    if dry_run {
        return Ok(Arc::new(object.into_object()));
    }
    capacity::check_room(state, collection, &key, object.bytes())?;
    let created = state.put(collection, &key, object);
    follow_create(state, call.namespace());
    strategy.after_create(state, &created);
    Ok(created)
}

/// Refuses the resourceVersion of a new object. A dry run does not reach the check of kube-apiserver's store (`etcd3.store.Create`).
///
/// # Errors
/// If a resourceVersion is set, and the object is to be stored.
pub(in crate::embedded) fn check_version_of_new(object: &Object, dry_run: bool) -> Result<(), Status> {
    match dry_run || matches!(object.resource_version(), "" | "0") {
        true => Ok(()),
        false => Err(Status::plain("resourceVersion should not be set on objects to be created")),
    }
}

/// Generates the name of a new object that has none.
///
/// # Errors
/// 422 if the object has an invalid name, or none, unless the validation of the kind checks names itself.
pub(in crate::embedded) fn name_object(reads: &impl Reads, call: &Call, object: &mut Object) -> Result<(), Status> {
    let (strategy, collection) = (strategies::of(&call.resource), call.collection());
    if strategy.validates_name() && object.name().is_empty() && object.generate_name().is_empty() {
        return Ok(());
    }
    if object.name().is_empty()
        && object.generate_name().is_empty()
        && let Some(name) = strategy.default_name()
    {
        let _ = object.set(&["metadata", "name"], Value::from(name));
    }
    if object.name().is_empty() {
        body::check_new_name(object, &call.resource.gvk())?;
        let prefix = object.generate_name().to_owned();
        let mut name = generate_name(&prefix);
        for _ in 1..NAME_ATTEMPTS {
            if reads.object(collection, &store::key(call.namespace(), &name)).is_none() {
                break;
            }
            name = generate_name(&prefix);
        }
        let _ = object.set(&["metadata", "name"], Value::from(name));
    }
    if strategy.validates_name() {
        return Ok(());
    }
    let causes = metadata::name_causes(object.name());
    invalid::status(&call.resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// The 409 of a create whose name is another object's. With a prefix for a name, the name counts as a generated one
/// (`rest.CheckGeneratedNameError`).
pub(in crate::embedded) fn taken(call: &Call, object: &Object) -> Status {
    let mut status = Status::already_exists(&call.resource.group, &call.resource.name, object.name());
    if !object.generate_name().is_empty() {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status.details.iter_mut().for_each(|details| details.retry_after_seconds = 1);
    }
    status
}

/// The refusal of a create, which says whether the object that has the name is being deleted. Reads that object without the lock of the store.
pub(in crate::embedded) fn refused(call: &Call, mut status: Status) -> Status {
    let name = status.details.as_ref().filter(|_| is_taken(&status)).map(|details| details.name.clone());
    let current =
        name.and_then(|name| call.server.store.object(call.collection(), &store::key(call.namespace(), &name)));
    if current.is_some_and(|current| metadata::is_deleting(&current)) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Replaces `current` by the part of the new object that the subresource covers, if that part differs. Removes an object that is being deleted
/// once its last finalizer is removed. Returns `None` if `current` is no longer the stored object.
///
/// # Errors
/// If the client saw another version, or changes immutable fields.
pub(in crate::embedded) fn replace(
    call: &Call,
    current: &Arc<Object>,
    new: New,
) -> Result<Option<Arc<Object>>, Status> {
    let dry_run = new.dry_run;
    let strategy = strategies::of(&call.resource);
    let following = |object: &Object| strategy.following(&call.context(dry_run), object, Some(current));
    if !strategy.is_prepared_once() {
        let basis = Basis::of(call);
        let object = prepare_update(call, current, new)?;
        let following = following(&object);
        return Ok(commit(call, current, object, following, basis, dry_run)?.flatten());
    }
    let object = prepare_update(call, current, new)?;
    for _ in 0..call.server.limits.conflict_retries {
        let basis = Basis::of(call);
        if let Some(stored) = commit(call, current, object.clone(), following(&object), basis, dry_run)? {
            return Ok(stored);
        }
    }
    Ok(None)
}

/// Stores an object in place of `current`. Returns `None` if other objects have changed since `basis`; `Some(None)` if `current` is no longer
/// the stored object.
fn commit(
    call: &Call,
    current: &Arc<Object>,
    object: Object,
    following: Option<Following>,
    basis: Basis,
    dry_run: bool,
) -> Result<Option<Option<Arc<Object>>>, Status> {
    let is_same = object == **current;
    let object = SizedObject::from(object);
    let (collection, key) = (call.collection(), call.key());
    call.transact(|state| {
        if !state.has(collection, &key, current) {
            return Ok(Some(None));
        }
        if !basis.holds(call, state) {
            return Ok(None);
        }
        if is_same {
            return Ok(Some(Some(current.clone())));
        }
        if dry_run {
            return Ok(Some(Some(Arc::new(object.into_object()))));
        }
        if deletion::is_over(collection, &object) {
            return Ok(Some(Some(deletion::finish(state, collection, &key, object))));
        }
        capacity::check_room(state, collection, &key, object.bytes())?;
        let stored = state.put(collection, &key, object);
        if let Some(following) = following {
            following(state, &key);
        }
        if initializers::has_failed(call, &stored) {
            deletion::finish(state, collection, &key, Object::clone(&stored));
        }
        strategies::of(&call.resource).after_change(state, &stored);
        Ok(Some(Some(stored)))
    })
}

/// Prepares and validates the update of an object, without the lock of the store.
fn prepare_update(call: &Call, current: &Arc<Object>, new: New) -> Result<Object, Status> {
    let New { object, is_apply, dry_run } = new;
    let (resource, context) = (&*call.resource, call.context(dry_run));
    let strategy = strategies::of(resource);
    strategy.check_rights(&context, &object, Some(current))?;
    check_version(resource, &object, current)?;
    let mut object = strategy.part(&context, object, current);
    metadata::carry_over(&mut object, current);
    if resource.namespaced && object.namespace().is_empty() {
        let _ = object.set(&["metadata", "namespace"], Value::from(current.namespace()));
    }
    if !resource.namespaced {
        object.remove(&["metadata", "namespace"]);
    }
    strategy.begin_update(&context, &mut object, current)?;
    // The validation of a built-in kind finds the causes of the metadata, and those of the kind with them.
    let mut causes = match validation::checks_metadata(&context, current) {
        true => Vec::new(),
        false => metadata::update_causes(&object, current),
    };
    causes.extend(initializers::update_causes(call, &object, current));
    if let Some(status) = invalid::status(&resource.gvk(), current.name(), causes) {
        return Err(status);
    }
    let counts_anyway = strategies::prepare_for_update(&context, &mut object, current)?;
    validation::update(&context, &object, current)?;
    metadata::keep_deletion(&mut object, current);
    let mut object = metadata::complete(object);
    metadata::count_generation(resource, context.subresource, &mut object, current, counts_anyway);
    strategy.complete_update(&mut object, current);
    validation::warn(&context, &object, Some(current));
    fitted(call, object, is_apply, dry_run)
}

/// `Store.Update` on resourceVersions.
///
/// # Errors
/// 409 if the client saw another version.
pub(in crate::embedded) fn check_version(
    resource: &ServedResource,
    object: &Object,
    current: &Object,
) -> Result<(), Status> {
    let (group, name) = (&*resource.group, &*resource.name);
    match object.resource_version() {
        "" | "0" if resource.facts().updated_by_version => {
            Err(invalid::without_version(&GroupVersionResource::new(group, &*resource.version, name), current.name()))
        }
        "" | "0" => Ok(()),
        version if version == current.resource_version() => Ok(()),
        _ => Err(Status::conflict(group, name, current.name(), OPTIMISTIC_LOCK)),
    }
}

/// Checks the uid in an updated object, which is a precondition (`Preconditions.Check`).
pub(in crate::embedded) fn check_uid(call: &Call, object: &Object, current: &Object) -> Result<(), Status> {
    let (wanted, actual) = (object.uid(), current.uid());
    if wanted.is_empty() || wanted == actual {
        return Ok(());
    }
    let why = failed_precondition(call.collection(), &call.key(), "UID", wanted, actual);
    Err(Status::conflict(&call.resource.group, &call.resource.name, current.name(), &why))
}

/// The text of a precondition that fails (`Preconditions.Check`), with the key in kube-apiserver's store.
pub(in crate::embedded) fn failed_precondition(
    collection: &Collection,
    key: &str,
    field: &str,
    wanted: &str,
    actual: &str,
) -> String {
    // `SpecialDefaultResourcePrefixes`; the servers of some groups, and custom resources, have the group in the key.
    let path = strategies::of_collection(collection).storage_path(collection);
    let why = unmet(field, wanted, actual);
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{path}/{key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}

/// The text of a field of the metadata that is not as a precondition wants it.
pub(in crate::embedded) fn unmet(field: &str, wanted: &str, actual: &str) -> String {
    format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {actual}")
}

/// `handlers.checkName`.
///
/// # Errors
/// If the object's name or namespace differs from the URL's.
pub(in crate::embedded) fn check_name(call: &Call, object: &Object) -> Result<(), Status> {
    body::check_name(object, &call.info.name)?;
    let (found, namespace) = (object.namespace(), call.namespace());
    if namespace.is_empty() || found.is_empty() || found == namespace {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the namespace of the object ({found}) does not match the namespace on the request ({namespace})"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_names_the_key_of_kube_apiservers_store() {
        for (group, resource, path) in [
            ("", "pods", "pods"),
            ("", "services", "services/specs"),
            ("", "endpoints", "services/endpoints"),
            ("", "nodes", "minions"),
            ("", "replicationcontrollers", "controllers"),
            ("networking.k8s.io", "ingresses", "ingress"),
            ("networking.k8s.io", "ingressclasses", "ingressclasses"),
            ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
            ("e.com", "widgets", "e.com/widgets"),
        ] {
            let collection = Collection { group: group.to_owned().into(), resource: resource.to_owned().into() };
            let text = failed_precondition(&collection, "n/a", "UID", "x", "y");
            assert!(text.contains(&format!("Key: /registry/{path}/n/a, ResourceVersion: 0, ")), "{text}");
            assert!(text.ends_with("Precondition failed: UID in precondition: x, UID in object meta: y"), "{text}");
        }
    }
}
