//! Create, update, patch and apply of custom objects.
//!
//! A conversion webhook may be called between the read of an object and its write. Therefore a write checks that the object has not changed
//! meanwhile, and starts again if it has.

use super::convert::{shown_to, to_storage};
use crate::body::Body;
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::custom::resource::Custom;
use crate::embedded::custom::schema::Before;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::{self, Reads, SizedObject, State, Writer, capacity};
use crate::embedded::strategies::namespaces::follow_create;
use crate::embedded::strategies::{deletion, metadata, owners};
use crate::embedded::verbs::attempts::{self, Attempts};
use crate::embedded::verbs::write;
use crate::object::defaults::Defaulting;
use crate::object::patch::{self, PatchType};
use crate::object::{Object, object_meta};
use crate::request::body::{InvalidOutcome, OptionsKind, WriteOptions, decode_patched, invalid_patch};
use crate::status::Status;
use http::{Response, StatusCode};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Finalizers that need no domain.
const KNOWN_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The part of the call's resource that built-in resources lack.
///
/// # Errors
/// 404 for a built-in resource.
pub(in crate::embedded) fn custom(call: &Call) -> Result<&Custom, Status> {
    call.resource.custom.as_ref().ok_or_else(Status::no_such_path)
}

/// Responds to a create.
///
/// # Errors
/// If the object cannot be created.
pub(in crate::embedded) async fn create(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Create)?;
    attempts::expect(call, 0).await;
    let mut object = body::object(call, &call.resource.gvk())?;
    body::ensure_namespace(&mut object, call.namespace())?;
    call.owners().record(None, &mut object);
    let created = create_object(call, object, false, dry_run).await?;
    Ok(respond::object(call, StatusCode::CREATED, &created))
}

/// Responds to an update of an object, or of its status.
///
/// # Errors
/// If the object cannot be updated.
pub(in crate::embedded) async fn update(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Update)?;
    attempts::expect(call, 0).await;
    let object = body::object(call, &call.resource.gvk())?;
    write::check_name(call, &object)?;
    let owners = call.owners();
    let stored = change(call, false, dry_run, |current| {
        write::check_uid(call, &object, current)?;
        let mut object = object.clone();
        owners.record(Some(current), &mut object);
        Ok(object)
    });
    Ok(respond::object(call, StatusCode::OK, &*stored.await?))
}

/// Responds to a patch of an object, or of its status. An apply creates a missing object.
///
/// # Errors
/// If the object cannot be patched.
pub(in crate::embedded) async fn patch(call: &Call) -> Result<Response<Body>, Status> {
    attempts::expect(call, 0).await;
    let (patch_type, patch) = write::patch_of(call)?;
    if patch_type == PatchType::Strategic {
        return Err(PatchType::unsupported(false, false));
    }
    let options = WriteOptions::from_query(call.query(), OptionsKind::Patch(patch_type))?;
    let dry_run = options.is_dry_run();
    let owners = call.owners();
    if patch_type != PatchType::Apply {
        let stored = change(call, false, dry_run, |current| {
            let mut object = patched(call, patch_type, current, &patch)?;
            owners.record(Some(current), &mut object);
            write::check_name(call, &object)?;
            Ok(object)
        });
        return Ok(respond::object(call, StatusCode::OK, &*stored.await?));
    }
    let force = options.force == Some(true);
    let applied = |current: Option<&Object>| {
        let mut object = owners.apply(current, &patch, force)?;
        body::ensure_namespace(&mut object, call.namespace())?;
        write::check_name(call, &object)?;
        Ok(object)
    };
    let mut attempts = Attempts::new(call);
    loop {
        if write::current(call).await.is_some() {
            let stored = change(call, true, dry_run, |current| applied(Some(current))).await?;
            return Ok(respond::object(call, StatusCode::OK, &stored));
        }
        if !call.info.subresource.is_empty() {
            return Err(call.not_found());
        }
        let mut object = applied(None)?;
        write::check_no_uid(call, &object)?;
        object.remove(&["metadata", "resourceVersion"]);
        match create_object(call, object, true, dry_run).await {
            // Another write has created the object.
            Err(status) if write::is_taken(&status) => {}
            created => return Ok(respond::object(call, StatusCode::CREATED, &*created?)),
        }
        attempts.start_over().await?;
    }
}

/// The result of a JSON patch or a merge patch.
fn patched(call: &Call, patch_type: PatchType, current: &Object, patch: &Value) -> Result<Object, Status> {
    let custom = custom(call)?;
    let value = patch::apply(patch_type, current.clone().into_value(), patch, None)?;
    let shown = || value.to_string();
    let invalid = |why: &str| invalid_patch(&shown(), why);
    let decoded = decode_patched(value.clone(), &call.resource.gvk(), custom.structural(), Defaulting::default());
    let decoded = decoded.map_err(|unfit| match unfit {
        InvalidOutcome::Invalid(why) => invalid(&why),
        InvalidOutcome::Refused(status) => status,
    })?;
    match call.parameter("fieldValidation").as_deref() {
        Some("Strict") if !decoded.unknown.is_empty() => {
            return Err(invalid(&format!("strict decoding error: {}", decoded.unknown.join(", "))));
        }
        Some("Ignore") => {}
        _ => decoded.unknown.into_iter().for_each(|text| call.warn(text)),
    }
    Ok(decoded.object)
}

/// Creates an object; generates a name if the object has none, and another one if that is taken meanwhile.
async fn create_object(call: &Call, object: Object, is_apply: bool, dry_run: bool) -> Result<Arc<Object>, Status> {
    if !object.name().is_empty() {
        return create_named(call, object, is_apply, dry_run).await;
    }
    for _ in 1..write::NAME_ATTEMPTS {
        match create_named(call, object.clone(), is_apply, dry_run).await {
            Err(status) if write::is_taken(&status) => {}
            created => return created,
        }
    }
    create_named(call, object, is_apply, dry_run).await
}

async fn create_named(call: &Call, mut object: Object, is_apply: bool, dry_run: bool) -> Result<Arc<Object>, Status> {
    let custom = custom(call)?;
    let had_namespace = write::has_namespace(&*call.server.store, call);
    if custom.definition.is_terminating {
        return Err(terminating(call, object.name()));
    }
    metadata::begin(&call.resource, &mut object);
    if custom.version.has_status {
        object.fields_mut().remove("status");
    }
    write::name_object(&*call.server.store, call, &mut object)?;
    let schema = custom.version.schema()?;
    let warn = |warning| call.warn(warning);
    schema.validate(&custom.version, call.resource.namespaced, &object, Before::Nothing, Vec::new(), warn)?;
    warn_of_finalizers(call, &object, None);
    write::check_version_of_new(&object, dry_run)?;
    let stored = to_storage(call, custom, object).await?;
    let stored = write::fitted(call, stored, is_apply, dry_run)?;
    let stored = SizedObject::from(stored);
    let name = stored.name().to_owned();
    let created = with_definition(call, custom, &name, false, |state| {
        write::check_namespace(state, call, had_namespace)?;
        let key = store::key(call.namespace(), stored.name());
        if state.contains(call.collection(), &key) {
            return Err(write::taken(call, &stored));
        }
        if dry_run {
            return Ok(Arc::new(stored.into_object()));
        }
        capacity::check_room(state, call.collection(), &key, stored.bytes())?;
        follow_create(state, call.namespace());
        Ok(state.put(call.collection(), &key, stored))
    });
    shown_to(call, created.map_err(|status| write::refused(call, status))?).await
}

/// Replaces the current object by what `wanted` makes of it, in the version of the request. Returns the stored object for a response.
///
/// # Errors
/// If the object does not exist, or is invalid.
pub(in crate::embedded) async fn change(
    call: &Call,
    is_apply: bool,
    dry_run: bool,
    wanted: impl Fn(&Object) -> Result<Object, Status> + Send + Sync,
) -> Result<Arc<Object>, Status> {
    let custom = custom(call)?;
    let mut attempts = Attempts::new(call);
    loop {
        let current = write::current(call).await;
        let current = current.ok_or_else(|| call.not_found())?;
        let converted = shown_to(call, current.clone()).await?;
        let object = {
            let shown = custom.shown(&converted);
            prepared(call, custom, wanted(&shown)?, &shown)?
        };
        let stored = to_storage(call, custom, object).await?;
        let stored = write::fitted(call, stored, is_apply, dry_run)?;
        if let Some(stored) = commit(call, custom, &current, stored, dry_run)? {
            return shown_to(call, stored).await;
        }
        attempts.start_over().await?;
    }
}

/// Prepares and validates the update of an object (`rest.BeforeUpdate`).
fn prepared(call: &Call, custom: &Custom, object: Object, current: &Object) -> Result<Object, Status> {
    write::check_version(&call.resource, &object, current)?;
    let is_status = call.info.subresource == "status";
    let mut object = part(custom, object, current, is_status);
    metadata::carry_over(&mut object, current);
    if !call.resource.namespaced {
        object.remove(&["metadata", "namespace"]);
    } else if object.namespace().is_empty() {
        let _ = object.set(&["metadata", "namespace"], current.namespace().into());
    }
    if !is_status && !but_metadata(&object).eq(but_metadata(current)) {
        metadata::next_generation(&mut object);
    }
    let fields = |object: &Object| -> Map<String, Value> {
        object.get(&["metadata"]).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let causes = object_meta::validate_any_update(&fields(&object), &fields(current), call.resource.namespaced);
    let before = if is_status { Before::Status(current) } else { Before::Object(current) };
    let schema = custom.version.schema()?;
    let warn = |warning| call.warn(warning);
    schema.validate(&custom.version, call.resource.namespaced, &object, before, causes, warn)?;
    if !is_status {
        warn_of_finalizers(call, &object, Some(current));
    }
    Ok(object)
}

/// The part of the object that the request may change: its status, or all else if the status is a subresource.
fn part(custom: &Custom, mut object: Object, current: &Object, is_status: bool) -> Object {
    if !is_status && !custom.version.has_status {
        return object;
    }
    let (status, mut into) = match is_status {
        true => (object.fields_mut().remove("status"), current.clone()),
        false => (current.fields().get("status").cloned(), std::mem::take(&mut object)),
    };
    match status {
        Some(status) => drop(into.fields_mut().insert("status".to_owned(), status)),
        None => drop(into.fields_mut().remove("status")),
    }
    if is_status {
        owners::set(&mut into, object.remove(&owners::MANAGED_FIELDS));
    }
    into
}

/// The fields of an object without its metadata.
fn but_metadata(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    object.fields().iter().filter(|(field, _)| *field != "metadata")
}

/// Stores an object in place of the current one; `None` if the current one has changed.
fn commit(
    call: &Call,
    custom: &Custom,
    current: &Arc<Object>,
    object: Object,
    dry_run: bool,
) -> Result<Option<Arc<Object>>, Status> {
    let (collection, key) = (call.collection(), call.key());
    let (is_same, object) = (object == **current, SizedObject::from(object));
    let name = object.name().to_owned();
    // Objects of a definition that is being deleted may still be changed, so that their finalizers can be removed.
    with_definition(call, custom, &name, true, |state| {
        if !state.has(collection, &key, current) {
            return Ok(None);
        }
        Ok(Some(match () {
            () if is_same => current.clone(),
            () if dry_run => Arc::new(object.into_object()),
            () if deletion::is_over(collection, &object) => deletion::finish(state, collection, &key, object),
            () => {
                capacity::check_room(state, call.collection(), &key, object.bytes())?;
                state.put(collection, &key, object)
            }
        }))
    })
}

/// Runs a transaction while the definition by which an object was validated is the stored one, or one with an equal spec. The definitions are compared
/// without the lock of the store, again if the stored one changes meanwhile, `conflict_retries` times at most: others decide how often they write
/// it.
///
/// # Errors
/// 403 if the definition is being deleted and that matters, 404 if it is gone, 429 if it has changed, or changes all the time; those of the
/// transaction.
fn with_definition<T>(
    call: &Call,
    custom: &Custom,
    name: &str,
    may_terminate: bool,
    transaction: impl FnOnce(&mut State) -> Result<T, Status>,
) -> Result<T, Status> {
    let known = &custom.definition.object;
    let mut transaction = Some(transaction);
    for _ in 0..call.server.limits.conflict_retries.max(1) {
        let stored = call.server.store.object(DEFINITIONS, known.name());
        let stored = stored.filter(|stored| stored.uid() == known.uid()).ok_or_else(Status::no_such_path)?;
        let is_same = Arc::ptr_eq(&stored, known) || stored.get(&["spec"]) == known.get(&["spec"]);
        match metadata::is_deleting(&stored) {
            true if may_terminate => {}
            true => return Err(terminating(call, name)),
            false if is_same => {}
            false => return Err(Status::try_again_later()),
        }
        let done = call.transact(|state| {
            let transaction = transaction.take_if(|_| state.has(DEFINITIONS, known.name(), &stored))?;
            Some(transaction(state))
        });
        if let Some(done) = done {
            return done;
        }
    }
    Err(Status::try_again_later())
}

/// `forbidCreateAdmission`
fn terminating(call: &Call, name: &str) -> Status {
    let why = "create not allowed while custom resource definition is terminating";
    Status::forbidden(&call.resource.group, &call.resource.name, name, why)
}

/// Warns of new finalizers without a domain (`validateKubeFinalizerName`).
fn warn_of_finalizers(call: &Call, object: &Object, current: Option<&Object>) {
    let path = ["metadata", "finalizers"];
    let known: HashSet<&Value> = current.into_iter().flat_map(|current| current.items(&path)).collect();
    let mut new: Vec<&str> =
        object.items(&path).iter().filter(|name| !known.contains(name)).filter_map(Value::as_str).collect();
    new.sort_unstable();
    new.dedup();
    for name in new.into_iter().filter(|name| !name.contains('/') && !KNOWN_FINALIZERS.contains(name)) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        call.warn(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other \
             finalizer writers"
        ));
    }
}
