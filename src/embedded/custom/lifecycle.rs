//! The life of definitions: their validation, and what the controllers of kube-apiserver do with them (names, conditions, deletion).
//!
//! Each step of a controller is a write of its own, so that watchers see the states that they see at kube-apiserver, but all of them are
//! in the transaction of the client's write.

use super::super::call::Call;
use super::super::catalog::ServedResource;
use super::super::delete::{self, Options};
use super::super::store::{Collection, State};
use super::super::{api_services, metadata, owners};
use super::definition::{Definition, is_true};
use super::resource::Custom;
use super::schema::{default_causes, pattern, rule_causes};
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::object::custom_resource_definition::{self, DefinitionChecks};
use crate::object::{Object, object_meta};
use crate::status::invalid::aggregate;
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The collection of the definitions.
pub(in crate::embedded) const DEFINITIONS: &Collection =
    &Collection::built_in("apiextensions.k8s.io", "customresourcedefinitions");
/// `CustomResourceCleanupFinalizer`
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

/// Whether a resource is that of the definitions.
pub(in crate::embedded) fn is_definition(resource: &ServedResource) -> bool {
    resource.collection == *DEFINITIONS
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

fn checks() -> DefinitionChecks<'static> {
    DefinitionChecks { patterns: &pattern, rules: &rule_causes, defaults: &default_causes }
}

/// Sets the status of a new definition, and validates the definition.
///
/// # Errors
/// 422 with every error; 403 if there are too many definitions.
pub(in crate::embedded) fn prepare(state: &State, call: &Call, object: &mut Object) -> Result<(), Status> {
    custom_resource_definition::prepare_for_create(object);
    let causes = custom_resource_definition::validate(object, checks());
    if let Some(status) = invalid::status(&kind(), object.name(), causes) {
        return Err(status);
    }
    custom_resource_definition::warnings(object, None).into_iter().for_each(|warning| call.warn(warning));
    let most = call.limits.definitions;
    if state.count(DEFINITIONS) >= most {
        let why = format!("the embedded API server stores at most {most} definitions; delete one that is not used");
        return Err(Status::forbidden(&call.resource.group, &call.resource.name, object.name(), &why));
    }
    Ok(())
}

/// Sets the status of an updated definition, and validates the definition.
///
/// # Errors
/// 422 with every error.
pub(in crate::embedded) fn prepare_for_update(call: &Call, object: &mut Object, old: &Object) -> Result<(), Status> {
    custom_resource_definition::prepare_for_update(object, old);
    let mut causes = metadata_causes(object, old);
    causes.extend(custom_resource_definition::validate_update(object, old, checks()));
    if let Some(status) = invalid::status(&kind(), object.name(), causes) {
        return Err(status);
    }
    custom_resource_definition::warnings(object, Some(old)).into_iter().for_each(|warning| call.warn(warning));
    Ok(())
}

/// Validates an update of the status of a definition.
///
/// # Errors
/// 422 with every error.
pub(in crate::embedded) fn check_status(object: &Object, old: &Object) -> Result<(), Status> {
    let mut causes = metadata_causes(object, old);
    causes.extend(custom_resource_definition::validate_status_update(object, old));
    invalid::status(&kind(), object.name(), causes).map_or(Ok(()), Err)
}

fn metadata_causes(object: &Object, old: &Object) -> Vec<Cause> {
    let metadata = |object: &Object| -> Map<String, Value> {
        object.get(&["metadata"]).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    object_meta::validate_any_update(&metadata(object), &metadata(old), false)
}

/// Does what the controllers do after a write of a definition. Ends the watches of its objects if their form may have changed.
pub(in crate::embedded) fn follow(state: &mut State, name: &str, before: Option<&Object>) {
    let Some(current) = state.object(DEFINITIONS, name) else { return };
    if before.is_some_and(|before| before.get(&["spec"]) != current.get(&["spec"])) {
        state.end_watches(&collection_of(&current));
    }
    if accept_names(state, name) {
        reconsider_names(state, current.str(&["spec", "group"]), name);
    }
    establish(state, name);
    approve(state, name);
    api_services::follow_definitions(state, current.str(&["spec", "group"]));
    finalize(state, name);
}

/// The groups and versions that definitions serve, whether or not their names are accepted.
pub(in crate::embedded) fn served_versions(state: &State) -> BTreeSet<(String, String)> {
    let mut served = BTreeSet::new();
    for (_, definition) in state.objects(DEFINITIONS, "") {
        let group = definition.str(&["spec", "group"]);
        let versions = definition.items(&["spec", "versions"]).iter().filter(|version| version["served"] == true);
        served.extend(versions.filter_map(|version| Some((group.to_owned(), version["name"].as_str()?.to_owned()))));
    }
    served
}

/// `KubernetesAPIApprovalPolicyConformantConditionController`
fn approve(state: &mut State, name: &str) {
    let Some(definition) = state.object(DEFINITIONS, name) else { return };
    let Some(approval) = custom_resource_definition::approval(&definition) else { return };
    let status = if approval.is_approved { "True" } else { "False" };
    let of = "KubernetesAPIApprovalPolicyConformant";
    let known = find(&definition, of).is_some_and(|known| {
        [("status", status), ("reason", approval.reason), ("message", &*approval.message)]
            .iter()
            .all(|(field, text)| known.get(field).and_then(Value::as_str) == Some(text))
    });
    if !known {
        write(state, name, |object| set(object, of, status, approval.reason, &approval.message));
    }
}

/// Accepts the names of a definition that no other one has (`NamingConditionController.sync`). Returns whether the status has changed.
fn accept_names(state: &mut State, name: &str) -> bool {
    let Some(current) = state.object(DEFINITIONS, name) else { return false };
    let wanted = current.get(&["spec", "names"]).cloned().unwrap_or_default();
    let accepted = current.get(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    if wanted == accepted {
        return false;
    }
    let (names, conflict) = Taken::of_group(state, current.str(&["spec", "group"])).accept(&wanted, &accepted);
    let (status, reason, message) = match &conflict {
        Some((reason, message)) => ("False", *reason, &**message),
        None => ("True", "NoConflicts", "no conflicts found"),
    };
    let is_known = find(&current, "NamesAccepted").is_some_and(|known| {
        ["status", "reason", "message"].map(|field| known.get(field).and_then(Value::as_str).unwrap_or_default())
            == [status, reason, message]
    });
    if is_known && names == accepted {
        return false;
    }
    write(state, name, |object| {
        let _ = object.set(&["status", "acceptedNames"], names);
        set(object, "NamesAccepted", status, reason, message);
        if !is_true(object, "Established") && conflict.is_none() {
            set(object, "Established", "False", "Installing", "the initial names have been accepted");
        } else if find(object, "Established").is_none() {
            set(object, "Established", "False", "NotAccepted", "not all names are accepted");
        }
    });
    true
}

/// Accepts names of other definitions of the group that became free. Each definition can free names for others.
fn reconsider_names(state: &mut State, group: &str, besides: &str) {
    let others: Vec<_> = state.objects(DEFINITIONS, "").into_iter().map(|(_, other)| other).collect();
    let others = others.iter().filter(|other| other.str(&["spec", "group"]) == group && other.name() != besides);
    let names: Vec<&str> = others.map(|other| other.name()).collect();
    for _ in 0..names.len() {
        let mut changed = false;
        for name in &names {
            if accept_names(state, name) {
                establish(state, name);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
}

/// The accepted names in a group.
struct Taken {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl Taken {
    fn of_group(state: &State, group: &str) -> Self {
        let mut taken = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for (_, other) in state.objects(DEFINITIONS, "") {
            if other.str(&["spec", "group"]) != group {
                continue;
            }
            let name = |field: &str| other.str(&["status", "acceptedNames", field]).to_owned();
            taken.resources.extend([name("plural"), name("singular")]);
            let short = other.items(&["status", "acceptedNames", "shortNames"]);
            taken.resources.extend(short.iter().filter_map(Value::as_str).map(str::to_owned));
            taken.kinds.extend([name("kind"), name("listKind")]);
        }
        taken
    }

    /// The names to accept, and the reason and the message of the last conflict (`calculateNamesAndConditions`).
    fn accept(&self, wanted: &Value, accepted: &Value) -> (Value, Option<(&'static str, String)>) {
        let text = |names: &Value, field: &str| names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut names = accepted.as_object().cloned().unwrap_or_default();
        let mut conflict = None;
        let in_use = |name: &str| format!("{} is already in use", go_quote(name));
        let mut one = |field: &str, reason: &'static str, used: &HashSet<String>| {
            let name = text(wanted, field);
            if name != text(accepted, field) && used.contains(&name) {
                conflict = Some((reason, in_use(&name)));
            } else {
                names.insert(field.to_owned(), name.into());
            }
        };
        one("plural", "PluralConflict", &self.resources);
        one("singular", "SingularConflict", &self.resources);
        let short = |names: &Value| -> Vec<String> {
            let names = names.get("shortNames").and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (wanted_short, own) = (short(wanted), short(accepted));
        let taken = wanted_short.iter().filter(|name| !own.contains(name) && self.resources.contains(*name));
        let short_conflict = aggregate(taken.map(|name| in_use(name)));
        one("kind", "KindConflict", &self.kinds);
        one("listKind", "ListKindConflict", &self.kinds);
        match short_conflict {
            // A conflict of kinds is found later.
            Some(message) => {
                conflict =
                    conflict.filter(|(reason, _)| reason.contains("Kind")).or(Some(("ShortNamesConflict", message)))
            }
            None => copy(&mut names, wanted, "shortNames"),
        }
        copy(&mut names, wanted, "categories");
        (Value::Object(names), conflict)
    }
}

fn copy(names: &mut Map<String, Value>, wanted: &Value, field: &str) {
    match wanted.get(field) {
        Some(value) => drop(names.insert(field.to_owned(), value.clone())),
        None => drop(names.remove(field)),
    }
}

/// `EstablishingController.sync`
fn establish(state: &mut State, name: &str) {
    let Some(current) = state.object(DEFINITIONS, name) else { return };
    if is_true(&current, "NamesAccepted") && !is_true(&current, "Established") {
        write(state, name, |object| {
            set(object, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted");
        });
    }
}

/// Marks a definition as deleted (`REST.Delete`), and deletes its objects. Returns the marked definition; `None` if it was marked before.
///
/// # Errors
/// 409 if a precondition fails.
pub(in crate::embedded) fn delete(
    state: &mut State,
    current: &Arc<Object>,
    options: &Options,
) -> Result<Option<Arc<Object>>, Status> {
    let failed = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(Status::conflict(&DEFINITIONS.group, &DEFINITIONS.resource, current.name(), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return failed("UID", uid, current.uid());
    }
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != current.resource_version())
    {
        return failed("ResourceVersion", version, current.resource_version());
    }
    if metadata::is_deleting(current) {
        return Ok(None);
    }
    let mut object = Object::clone(current);
    let _ = object.set(&["metadata", "deletionTimestamp"], metadata::now().into());
    if !has_finalizer(&object) {
        let _ = object.append(&FINALIZERS, FINALIZER.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set(&mut object, "Terminating", "True", "InstanceDeletionPending", message);
    if options.dry_run {
        return Ok(Some(Arc::new(object)));
    }
    let name = object.name().to_owned();
    let marked = state.put(DEFINITIONS, &name, object);
    finalize(state, &name);
    Ok(Some(marked))
}

/// Deletes the objects of a definition that is being deleted, and then the definition (`CRDFinalizer.sync`).
fn finalize(state: &mut State, name: &str) {
    let Some(current) = state.object(DEFINITIONS, name).filter(|current| is_terminating(current)) else { return };
    if find(&current, "Terminating")
        .is_none_or(|condition| condition.get("reason") == Some(&json!("InstanceDeletionPending")))
    {
        write(state, name, |object| {
            set(object, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        });
    }
    let collection = collection_of(&current);
    delete::all_of(state, &collection, "");
    finish(state, &collection);
}

/// Removes a definition that is being deleted after its last object.
pub(in crate::embedded) fn finish(state: &mut State, collection: &Collection) {
    let name = format!("{}.{}", collection.resource, collection.group);
    let Some(current) = state.object(DEFINITIONS, &name).filter(|current| is_terminating(current)) else { return };
    if state.count(collection) > 0 {
        return;
    }
    let (reason, message) = match is_true(&current, "Established") {
        true => ("InstanceDeletionCompleted", "removed all instances"),
        false => ("NeverEstablished", "resource was never established"),
    };
    let mut object = Object::clone(&current);
    set(&mut object, "Terminating", "False", reason, message);
    if let Some(Value::Array(finalizers)) = object.get_mut(&FINALIZERS) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    if object.items(&FINALIZERS).is_empty() {
        object.remove(&FINALIZERS);
    }
    if !delete::is_over(&object) {
        owners::record_own(&kind(), "status", &current, &mut object);
        state.put(DEFINITIONS, &name, object);
        return;
    }
    state.remove(DEFINITIONS, &name, object);
    removed(state, &current);
}

/// Frees what a definition had: its names, and the history of its objects.
pub(in crate::embedded) fn removed(state: &mut State, definition: &Object) {
    state.forget(&collection_of(definition));
    reconsider_names(state, definition.str(&["spec", "group"]), definition.name());
    api_services::follow_definitions(state, definition.str(&["spec", "group"]));
}

fn is_terminating(definition: &Object) -> bool {
    metadata::is_deleting(definition) && has_finalizer(definition)
}

fn has_finalizer(definition: &Object) -> bool {
    definition.items(&FINALIZERS).iter().any(|finalizer| finalizer == FINALIZER)
}

fn collection_of(definition: &Object) -> Collection {
    let text = |path: &[&str]| definition.str(path).to_owned().into();
    Collection { group: text(&["spec", "group"]), resource: text(&["spec", "names", "plural"]) }
}

/// The resource whose objects are in a collection, in any version; `None` if no definition defines it.
pub(in crate::embedded) fn resource_of(state: &State, collection: &Collection) -> Option<ServedResource> {
    let object = state.object(DEFINITIONS, &format!("{}.{}", collection.resource, collection.group))?;
    let definition = Arc::new(Definition::new(&object, None)?);
    definition.versions.first().map(|version| Custom::resource(&definition, version))
}

fn find<'o>(definition: &'o Object, of: &str) -> Option<&'o Value> {
    definition.items(&["status", "conditions"]).iter().find(|condition| condition.get("type") == Some(&json!(of)))
}

/// `SetCRDCondition`
fn set(definition: &mut Object, of: &str, status: &str, reason: &str, message: &str) {
    let now = metadata::now();
    let since = find(definition, of).filter(|known| known.get("status") == Some(&json!(status)));
    let since = since.and_then(|known| known.get("lastTransitionTime")).cloned().unwrap_or_else(|| now.into());
    let condition = json!({
        "type": of, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let path = ["status", "conditions"];
    let known = definition
        .get_mut(&path)
        .and_then(Value::as_array_mut)
        .and_then(|conditions| conditions.iter_mut().find(|condition| condition.get("type") == Some(&json!(of))));
    match known {
        Some(known) => *known = condition,
        None => _ = definition.append(&path, condition),
    }
}

/// Writes the status of a definition as kube-apiserver itself.
fn write(state: &mut State, name: &str, change: impl FnOnce(&mut Object)) {
    let Some(current) = state.object(DEFINITIONS, name) else { return };
    let mut object = Object::clone(&current);
    change(&mut object);
    owners::record_own(&kind(), "status", &current, &mut object);
    state.put(DEFINITIONS, name, metadata::complete(object));
}
