//! Create, update, patch and apply.
//!
//! The work on an object is done without the lock of the store, on what was stored at its start; the transaction that stores the object checks
//! that this has not changed.

use super::attempts::{self, Attempts, Basis};
use super::{delete, initializers};
use crate::body::Body;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::api::removed;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::{self, Collection, Reads, SizedObject, State, Writer, capacity};
use crate::embedded::strategies::owners::{self, Subject};
use crate::embedded::strategies::{
    api_services, daemon_sets, definitions, initial, metadata, pods, roles, services, strategy, validation,
};
use crate::go_text::go_type;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::patch::{self, PatchType};
use crate::object::{Object, generate_name, kinds, schema};
use crate::request::body::{OptionsKind, WriteOptions};
use crate::status::{OPTIMISTIC_LOCK, Status, invalid};
use http::{Response, StatusCode};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The number of generated names that are tried until one is free (`Store.Create`, `maxNameGenerationCreateAttempts`).
pub(in crate::embedded) const NAME_ATTEMPTS: usize = 8;
const LIMIT_RANGES: &Collection = &Collection::built_in("", "limitranges");

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
        Subject::object(call).record(None, &mut object);
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
            Subject::object(call).record(Some(&call.resource.shown(&current)), &mut object);
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
            Subject::object(call).record(None, &mut object);
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
        Subject::object(call).record(Some(&shown), &mut object);
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
    attempts::expect(call, call.store.with(|state| state.bytes_of(collection, &key))).await;
    call.store.object(collection, &key)
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
    let decoded = crate::object::decode::json(&call.body).map_err(Status::bad_request)?;
    Ok((patch_type, decoded.value))
}

/// The apply configuration in a request's body.
fn configuration(call: &Call) -> Result<Value, Status> {
    let decoded = patch::decode_configuration(call.content_type.as_deref(), &call.body)?;
    if call.parameter("fieldValidation").as_deref() == Some("Strict") && !decoded.duplicates.is_empty() {
        let duplicates = decoded.duplicates.join("\n  ");
        return Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {duplicates}"
        )));
    }
    match decoded.value {
        // An empty document is an empty object.
        Value::Null => Ok(Value::Object(Map::new())),
        value @ Value::Object(_) => Ok(value),
        other => Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
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
        let mut object = Subject::object(call).apply(shown.as_deref(), configuration, force)?;
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
    let had_namespace = has_namespace(&*call.store, call);
    if definitions::is_definition(&call.resource) {
        let object = SizedObject::from(prepare(call, object, is_apply, dry_run)?);
        // The rules are compiled once, whatever happens to other definitions.
        loop {
            let basis = Basis::of(call);
            let following = definitions::Following::new(call, &object, None);
            let new = object.clone();
            let transaction = |state: &mut State| {
                basis.holds(call, state).then(|| {
                    let created = insert(state, call, new, had_namespace, dry_run)?;
                    if !dry_run {
                        following.write(state, created.name());
                    }
                    Ok((created, also(state)?))
                })
            };
            if let Some(created) = call.transact(transaction) {
                return created.map_err(|status| refused(call, status));
            }
            attempts.start_over().await?;
        }
    }
    // Of the other objects, only Services depend on others, and only a generated name may be another one in a further attempt.
    let is_named = !object.name().is_empty();
    let (mut wanted, mut names) = (object, 1);
    loop {
        let basis = Basis::of(call);
        let object = SizedObject::from(prepare(call, wanted, is_apply, dry_run)?);
        let transaction = |state: &mut State| {
            basis.holds(call, state).then(|| Ok((insert(state, call, object, had_namespace, dry_run)?, also(state)?)))
        };
        match call.transact(transaction) {
            Some(Err(status)) if is_taken(&status) && !is_named && names < NAME_ATTEMPTS => names += 1,
            Some(created) => return created.map_err(|status| refused(call, status)),
            None => attempts.start_over().await?,
        }
        wanted = again()?;
    }
}

/// Whether the name of a new object is another object's.
pub(in crate::embedded) fn is_taken(status: &Status) -> bool {
    status.reason == "AlreadyExists"
}

/// Prepares and validates a new object, without the lock of the store.
fn prepare(call: &Call, object: Object, is_apply: bool, dry_run: bool) -> Result<Object, Status> {
    let (resource, reads) = (&*call.resource, &*call.store);
    let settings = reads.settings();
    let mut object = resource.stored(object)?;
    roles::check(reads, call, &object, None)?;
    metadata::begin(resource, &mut object);
    name_object(reads, call, &mut object)?;
    initializers::check_new(call, &object)?;
    strategy::prepare(&settings, resource, &mut object, &call.caller);
    removed::check(resource, &mut object, None)?;
    if definitions::is_definition(resource) {
        definitions::prepare(reads, call, &mut object)?;
    }
    if call.collection() == initial::SERVICES {
        services::create(reads, &mut object, dry_run)?;
    }
    validation::create(&settings, resource, &object)?;
    check_version_of_new(&object, dry_run)?;
    let object = metadata::complete(object);
    if dry_run { Ok(object) } else { capacity::fitted(call, object, is_apply) }
}

/// Whether the namespace of the call exists. Without admission an object may be in a namespace that does not exist.
pub(in crate::embedded) fn has_namespace(reads: &impl Reads, call: &Call) -> bool {
    call.namespace().is_empty() || reads.object(initial::NAMESPACES, call.namespace()).is_some()
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
    let (resource, collection) = (&*call.resource, call.collection());
    check_namespace(state, call, had_namespace)?;
    let key = store::key(call.namespace(), object.name());
    if definitions::is_definition(resource) {
        definitions::check_count(state, call, object.name())?;
    }
    if state.contains(collection, &key) {
        return Err(taken(call, object.name()));
    }
    if dry_run {
        return Ok(Arc::new(object.into_object()));
    }
    capacity::check_room(state, call, &key, object.bytes())?;
    let created = state.put(collection, &key, object);
    if collection == initial::NAMESPACES {
        initial::contents(state, created.name());
    }
    delete::follow_create(state, call.namespace());
    api_services::follow(state, collection, created.name());
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
/// 422 if the object has an invalid name, or none. The validation of custom resources and of definitions checks names itself.
pub(in crate::embedded) fn name_object(reads: &impl Reads, call: &Call, object: &mut Object) -> Result<(), Status> {
    let collection = call.collection();
    let is_checked_later = call.resource.custom.is_some() || definitions::is_definition(&call.resource);
    if is_checked_later && object.name().is_empty() && object.generate_name().is_empty() {
        return Ok(());
    }
    if object.name().is_empty() && object.generate_name().is_empty() && collection == LIMIT_RANGES {
        // `limitrangeStrategy.PrepareForCreate`
        let _ = object.set(&["metadata", "name"], Value::from(uuid::Uuid::new_v4().to_string()));
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
    if is_checked_later {
        return Ok(());
    }
    let causes = metadata::name_causes(object.name());
    invalid::status(&call.resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// The 409 of a create whose name is another object's.
pub(in crate::embedded) fn taken(call: &Call, name: &str) -> Status {
    Status::already_exists(&call.resource.group, &call.resource.name, name)
}

/// The refusal of a create, which says whether the object that has the name is being deleted. Reads that object without the lock of the store.
pub(in crate::embedded) fn refused(call: &Call, mut status: Status) -> Status {
    let name = status.details.as_ref().filter(|_| is_taken(&status)).map(|details| details.name.clone());
    let current = name.and_then(|name| call.store.object(call.collection(), &store::key(call.namespace(), &name)));
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
    if !definitions::is_definition(&call.resource) {
        let basis = Basis::of(call);
        let object = prepare_update(call, current, new)?;
        return Ok(commit(call, current, object, None, basis, dry_run)?.flatten());
    }
    // The rules are compiled once, whatever happens to other definitions.
    let object = prepare_update(call, current, new)?;
    for _ in 0..call.limits.conflict_retries {
        let basis = Basis::of(call);
        let following = Some(definitions::Following::new(call, &object, Some(current)));
        if let Some(stored) = commit(call, current, object.clone(), following, basis, dry_run)? {
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
    following: Option<definitions::Following>,
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
        if delete::is_over(&object) {
            return Ok(Some(Some(delete::finish(state, collection, &key, object))));
        }
        capacity::check_room(state, call, &key, object.bytes())?;
        let stored = state.put(collection, &key, object);
        if let Some(following) = following {
            following.write(state, &key);
        }
        if initializers::has_failed(call, &stored) {
            delete::finish(state, collection, &key, Object::clone(&stored));
        }
        initial::restore(state, collection, call.namespace(), stored.name());
        Ok(Some(Some(stored)))
    })
}

/// Prepares and validates the update of an object, without the lock of the store.
fn prepare_update(call: &Call, current: &Arc<Object>, new: New) -> Result<Object, Status> {
    let New { object, is_apply, dry_run } = new;
    let (resource, reads) = (&*call.resource, &*call.store);
    roles::check(reads, call, &object, Some(current))?;
    check_version(resource, &object, current)?;
    let mut object = part(call, object, current);
    metadata::carry_over(&mut object, current);
    if resource.namespaced && object.namespace().is_empty() {
        let _ = object.set(&["metadata", "namespace"], Value::from(current.namespace()));
    }
    if !resource.namespaced {
        object.remove(&["metadata", "namespace"]);
    }
    let is_definition = definitions::is_definition(resource);
    match call.info.subresource.as_str() {
        "" if is_definition => definitions::prepare_for_update(call, &mut object, current)?,
        _ if is_definition => definitions::check_status(&object, current)?,
        _ => {}
    }
    let mut causes = metadata::update_causes(&object, current);
    causes.extend(initializers::update_causes(call, &object, current));
    if let Some(status) = invalid::status(&resource.gvk(), current.name(), causes) {
        return Err(status);
    }
    let subresource = &*call.info.subresource;
    let counts_anyway = strategy::keep(reads, resource, &mut object, current, subresource, dry_run)?;
    removed::check(resource, &mut object, Some(current))?;
    validation::update(&reads.settings(), resource, &object, current, subresource)?;
    let counts_anyway = counts_anyway || metadata::has_counting_empty(resource, &object);
    let mut object = metadata::complete(object);
    metadata::count_generation(resource, subresource, &mut object, current, counts_anyway);
    if call.collection() == initial::DAEMON_SETS {
        daemon_sets::count(&mut object, current);
    }
    if dry_run { Ok(object) } else { capacity::fitted(call, object, is_apply) }
}

/// Applies the part of the submitted object that the request may change. The `status` subresource is the only way to change a status.
fn part(call: &Call, object: Object, current: &Object) -> Object {
    let only = |path: &[&str]| {
        let mut changed = current.clone();
        owners::set(&mut changed, object.get(&owners::MANAGED_FIELDS).cloned());
        match object.get(path) {
            Some(value) => {
                let _ = changed.set(path, value.clone());
            }
            None => drop(changed.remove(path)),
        }
        changed
    };
    match call.info.subresource.as_str() {
        subresource @ ("status" | "finalize" | "approval") => with_resets(&call.resource, subresource, object, current),
        "ephemeralcontainers" => only(&["spec", "ephemeralContainers"]),
        "resize" => pods::resized(object, current),
        _ => {
            let mut object = object;
            if call.resource.subresource("status").is_some() {
                match current.get(&["status"]) {
                    Some(status) => drop(object.fields_mut().insert("status".into(), status.clone())),
                    None => drop(object.fields_mut().remove("status")),
                }
            }
            // A namespace's own finalizers can only be changed through `finalize`.
            if call.collection() == initial::NAMESPACES
                && let Some(finalizers) = current.get(&["spec", "finalizers"])
            {
                let _ = object.set(&["spec", "finalizers"], finalizers.clone());
            }
            object
        }
    }
}

/// Applies a write of a subresource: the fields that the strategy resets keep their current values.
fn with_resets(resource: &ServedResource, subresource: &str, mut object: Object, current: &Object) -> Object {
    let owners = object.get(&owners::MANAGED_FIELDS).cloned();
    for field in resource.facts().resets(subresource) {
        // The conditions of a signing request are reset in part (`signing_requests`).
        if subresource == "status" && field.iter().any(|step| step == "f:conditions") {
            continue;
        }
        let path: Vec<&str> = field.iter().map(|step| step.strip_prefix("f:").unwrap_or(step)).collect();
        match current.get(&path) {
            Some(value) => drop::<bool>(object.set(&path, value.clone())),
            None => drop::<Option<Value>>(object.remove(&path)),
        }
    }
    owners::set(&mut object, owners);
    object
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
    let Collection { group, resource } = collection;
    // `SpecialDefaultResourcePrefixes`; the servers of these groups, and custom resources, have the group in the key.
    let path = match (&**group, &**resource) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", resource) => format!("{group}/{resource}"),
        (group, resource) if !kinds::is_built_in_group(group) => format!("{group}/{resource}"),
        (_, resource) => resource.to_owned(),
    };
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
