//! CustomResourceDefinitions (`apiextensions-apiserver/pkg/registry/customresourcedefinition`): their validation, and the states that the
//! controllers of kube-apiserver give them (names, conditions).
//!
//! Each step of a controller is a write of its own, so that watchers see the states that they see at kube-apiserver. Those of the definition itself
//! are in the transaction of the client's write; what follows for other objects is done after it ([`Task`], `controllers/definitions.rs`).

use super::context::Context;
use super::delete_options::Options;
use super::strategy::{Following, Grace, Strategy};
use super::{metadata, owners};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::custom::definition::is_true;
use crate::embedded::custom::schema::{default_causes, pattern, rule_causes};
use crate::embedded::store::{Collection, Reads, SizedObject, State, Store, Task, capacity};
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::object::custom_resource_definition::{self, DefinitionChecks};
use crate::object::{Object, object_meta};
use crate::status::invalid::aggregate;
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};

/// `CustomResourceCleanupFinalizer`
pub(in crate::embedded) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(in crate::embedded) const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

pub(super) struct Definitions;

impl Strategy for Definitions {
    fn has_no_later_fields(&self) -> bool {
        true
    }

    fn takes_long(&self) -> bool {
        true
    }

    /// Two definitions never have one name.
    fn depends_on_others(&self) -> bool {
        true
    }

    /// The rules are compiled once, whatever happens to other definitions.
    fn is_prepared_once(&self) -> bool {
        true
    }

    fn validates_name(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        prepare(context, object)
    }

    fn begin_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<(), Status> {
        match context.subresource {
            "" => prepare_for_update(context, object, current),
            _ => check_status(object, current),
        }
    }

    fn following(&self, context: &Context<'_>, object: &Object, current: Option<&Object>) -> Option<Following> {
        let steps = Steps::new(context, object, current);
        Some(Box::new(move |state, name| steps.write(state, name)))
    }

    fn check_room(&self, state: &State, context: &Context<'_>, name: &str) -> Result<(), Status> {
        check_count(state, context, name)
    }

    fn after_delete(&self, state: &mut State, _: &Collection, object: &Object) {
        removed(state, object);
    }

    fn check_preconditions(&self, options: &Options, _: &ServedResource, object: &Object) -> Result<(), Status> {
        check_preconditions(options, object)
    }

    fn begin_deletion(&self, object: &mut Object, _: &Options) -> Grace {
        if metadata::is_deleting(object) {
            return Grace::None;
        }
        mark_as_deleting(object);
        Grace::Marked
    }

    fn after_deletion_begun(&self, state: &mut State, key: &str) {
        state.then(Task::Definition(key.to_owned()));
    }

    fn storage_path(&self, Collection { group, resource }: &Collection) -> String {
        format!("{group}/{resource}")
    }
}

/// The kind of definitions.
pub(in crate::embedded) fn kind() -> GroupVersionKind {
    GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

/// Validates a definition with its rules in the emulated release.
fn causes(context: &Context<'_>, validate: impl FnOnce(DefinitionChecks<'_>) -> Vec<Cause>) -> Vec<Cause> {
    let release = context.settings.gates.expressions();
    let rules = |schema: &Value, path: &str, is_unchanged: bool| rule_causes(schema, path, is_unchanged, release);
    let defaults = |default: custom_resource_definition::Default<'_>, cost: u64| default_causes(default, cost, release);
    validate(DefinitionChecks { patterns: &pattern, rules: &rules, defaults: &defaults })
}

/// Warns of what is valid but has no effect.
fn warn(context: &Context<'_>, object: &Object, old: Option<&Object>) {
    let warns_of_sets = context.settings.gates.since(37);
    let warnings = custom_resource_definition::warnings(object, old, warns_of_sets);
    warnings.into_iter().for_each(|warning| context.warnings.warn(warning));
}

/// Sets the status of a new definition, and validates the definition.
///
/// # Errors
/// 422 with every error; 403 if there are too many definitions.
fn prepare(context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
    check_work(context, object)?;
    custom_resource_definition::prepare_for_create(object);
    let causes = causes(context, |checks| custom_resource_definition::validate(object, checks));
    if let Some(status) = invalid::status(&kind(), object.name(), causes) {
        return Err(status);
    }
    warn(context, object, None);
    check_count(context.store, context, object.name())
}

/// Checks that there is room for another definition.
///
/// # Errors
/// 403 if there are too many definitions.
fn check_count(reads: &impl Reads, context: &Context<'_>, name: &str) -> Result<(), Status> {
    let most = context.limits.definitions;
    if reads.count(DEFINITIONS) >= most {
        let why = format!("the embedded API server stores at most {most} definitions; delete one that is not used");
        return Err(Status::forbidden(&context.resource.group, &context.resource.name, name, &why));
    }
    Ok(())
}

/// Refuses a definition that takes too long to compile: one that etcd does not accept either, or one with too many rules. kube-apiserver compiles
/// both until the request times out.
///
/// # Errors
/// 500 for the size, 403 for the rules.
fn check_work(context: &Context<'_>, object: &Object) -> Result<(), Status> {
    if !capacity::has_fitting_spec(context.limits, object) {
        return Err(capacity::too_large());
    }
    let most = context.limits.definition_rules;
    if object.get(&["spec"]).map_or(0, rules) > most {
        let why = format!("the embedded API server compiles at most {most} rules of a definition");
        return Err(Status::forbidden(&context.resource.group, &context.resource.name, object.name(), &why));
    }
    Ok(())
}

/// The number of rules in a definition, those of all versions together.
fn rules(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(rules).sum(),
        Value::Object(fields) => {
            let own = fields.get("x-kubernetes-validations").and_then(Value::as_array).map_or(0, Vec::len);
            own + fields.values().map(rules).sum::<usize>()
        }
        _ => 0,
    }
}

/// Sets the status of an updated definition, and validates the definition.
///
/// # Errors
/// 422 with every error.
fn prepare_for_update(context: &Context<'_>, object: &mut Object, old: &Object) -> Result<(), Status> {
    // A stored definition with more rules than the bound can lose its finalizers.
    if object.get(&["spec"]) != old.get(&["spec"]) {
        check_work(context, object)?;
    }
    custom_resource_definition::prepare_for_update(object, old);
    let mut found = metadata_causes(object, old);
    found.extend(causes(context, |checks| custom_resource_definition::validate_update(object, old, checks)));
    if let Some(status) = invalid::status(&kind(), object.name(), found) {
        return Err(status);
    }
    warn(context, object, Some(old));
    Ok(())
}

/// Validates an update of the status of a definition.
///
/// # Errors
/// 422 with every error.
fn check_status(object: &Object, old: &Object) -> Result<(), Status> {
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

/// The next state of a definition by a controller; `None` if the controller changes nothing.
type Controller<'a> = &'a dyn Fn(&Object) -> Option<Object>;

/// What the controllers do after a write of a definition, computed before its transaction. The transaction checks that no definition has changed.
struct Steps {
    group: String,
    /// The states of the definition after the client's write.
    steps: Vec<SizedObject>,
    has_new_names: bool,
    /// The collection whose objects may have changed their form.
    changed: Option<Collection>,
}

impl Steps {
    /// The steps after a write of the call that stores `object` in place of `before`.
    fn new(context: &Context<'_>, object: &Object, before: Option<&Object>) -> Self {
        let group = object.str(&["spec", "group"]).to_owned();
        let changed = before.filter(|before| before.get(&["spec"]) != object.get(&["spec"]));
        let changed = changed.map(|_| collection_of(object));
        let named = |object: &Object| {
            wants_names(object)
                .then(|| Taken::of_group(context.store, &group))
                .and_then(|taken| with_names(&taken, object))
        };
        let controllers: [Controller<'_>; 3] = [&named, &established, &approved];
        let mut steps: Vec<SizedObject> = Vec::new();
        for controller in controllers {
            let Some(step) = controller(steps.last().map_or(object, |step| step)) else { continue };
            let step = SizedObject::from(step);
            // The accepted names are a copy: etcd refuses the status of a definition whose names are half of its bound.
            if step.bytes() > context.limits.stored_object_bytes {
                break;
            }
            steps.push(step);
        }
        let names = |object: &Object| object.get(&["status", "acceptedNames"]).cloned();
        let has_new_names = steps.last().is_some_and(|last| names(last) != names(object));
        Self { group, steps, has_new_names, changed }
    }

    /// Writes the steps. Ends the watches of the definition's objects if their form may have changed.
    fn write(self, state: &mut State, name: &str) {
        if let Some(collection) = &self.changed {
            state.end_watches(collection);
        }
        for step in self.steps {
            state.put(DEFINITIONS, name, step);
        }
        if self.has_new_names {
            state.then(Task::Names(self.group.clone()));
        }
        state.then(Task::Registrations(self.group));
        if state.object(DEFINITIONS, name).is_some_and(|current| is_terminating(&current)) {
            state.then(Task::Definition(name.to_owned()));
        }
    }
}

/// The groups and versions that definitions serve, whether or not their names are accepted.
pub(in crate::embedded) fn served_versions(reads: &impl Reads) -> BTreeSet<(String, String)> {
    let mut served = BTreeSet::new();
    for (_, definition) in reads.objects(DEFINITIONS, "") {
        let group = definition.str(&["spec", "group"]);
        let versions = definition.items(&["spec", "versions"]).iter().filter(|version| version["served"] == true);
        served.extend(versions.filter_map(|version| Some((group.to_owned(), version["name"].as_str()?.to_owned()))));
    }
    served
}

/// The definition with the condition of its approval, if that changes (`KubernetesAPIApprovalPolicyConformantConditionController`).
fn approved(definition: &Object) -> Option<Object> {
    let approval = custom_resource_definition::approval(definition)?;
    let status = if approval.is_approved { "True" } else { "False" };
    let of = "KubernetesAPIApprovalPolicyConformant";
    let known = find(definition, of).is_some_and(|known| {
        [("status", status), ("reason", approval.reason), ("message", &*approval.message)]
            .iter()
            .all(|(field, text)| known.get(field).and_then(Value::as_str) == Some(text))
    });
    (!known).then(|| changed(definition, |object| set(object, of, status, approval.reason, &approval.message)))
}

/// Whether a definition has names that are not accepted.
pub(in crate::embedded) fn wants_names(definition: &Object) -> bool {
    definition.get(&["spec", "names"]) != definition.get(&["status", "acceptedNames"])
}

/// The definition with the names that no other one has, if its status changes (`NamingConditionController.sync`).
pub(in crate::embedded) fn with_names(taken: &Taken, current: &Object) -> Option<Object> {
    let wanted = current.get(&["spec", "names"]).cloned().unwrap_or_default();
    let accepted = current.get(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    if wanted == accepted {
        return None;
    }
    let (names, conflict) = taken.accept(&wanted, &accepted);
    let (status, reason, message) = match &conflict {
        Some((reason, message)) => ("False", *reason, &**message),
        None => ("True", "NoConflicts", "no conflicts found"),
    };
    let is_known = find(current, "NamesAccepted").is_some_and(|known| {
        ["status", "reason", "message"].map(|field| known.get(field).and_then(Value::as_str).unwrap_or_default())
            == [status, reason, message]
    });
    if is_known && names == accepted {
        return None;
    }
    Some(changed(current, |object| {
        let _ = object.set(&["status", "acceptedNames"], names);
        set(object, "NamesAccepted", status, reason, message);
        if !is_true(object, "Established") && conflict.is_none() {
            set(object, "Established", "False", "Installing", "the initial names have been accepted");
        } else if find(object, "Established").is_none() {
            set(object, "Established", "False", "NotAccepted", "not all names are accepted");
        }
    }))
}

/// The groups with definitions whose names are not accepted, which may have become free before the server ended.
pub(in crate::embedded) fn names_to_reconsider(store: &Store) -> BTreeSet<String> {
    let all = store.objects(DEFINITIONS, "").into_iter().map(|(_, definition)| definition);
    all.filter(|definition| wants_names(definition)).map(|wanting| wanting.str(&["spec", "group"]).to_owned()).collect()
}

/// The accepted names in a group.
pub(in crate::embedded) struct Taken {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl Taken {
    pub(in crate::embedded) fn of_group(reads: &impl Reads, group: &str) -> Self {
        let mut taken = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for (_, other) in reads.objects(DEFINITIONS, "") {
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
        let wanted_short = short(wanted);
        let own: HashSet<String> = short(accepted).into_iter().collect();
        let taken = wanted_short.iter().filter(|name| !own.contains(*name) && self.resources.contains(*name));
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

/// The definition, established, if it is not yet and can be (`EstablishingController.sync`).
pub(in crate::embedded) fn established(current: &Object) -> Option<Object> {
    (is_true(current, "NamesAccepted") && !is_true(current, "Established")).then(|| {
        changed(current, |object| {
            set(object, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted");
        })
    })
}

/// Checks the preconditions of a deletion (`REST.Delete`).
///
/// # Errors
/// 409 if one fails.
fn check_preconditions(options: &Options, current: &Object) -> Result<(), Status> {
    let failed = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(Status::conflict(&DEFINITIONS.group, &DEFINITIONS.resource, current.name(), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return failed("UID", uid, current.uid());
    }
    let version = options.resource_version.as_deref().filter(|version| *version != current.resource_version());
    version.map_or(Ok(()), |version| failed("ResourceVersion", version, current.resource_version()))
}

/// Marks a definition as deleted (`REST.Delete`).
fn mark_as_deleting(definition: &mut Object) {
    let _ = definition.set(&["metadata", "deletionTimestamp"], metadata::now().into());
    if !has_finalizer(definition) {
        let _ = definition.append(&FINALIZERS, FINALIZER.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set(definition, "Terminating", "True", "InstanceDeletionPending", message);
}

/// Frees what a definition had: its names, and the history of its objects.
pub(in crate::embedded) fn removed(state: &mut State, definition: &Object) {
    state.forget(&collection_of(definition));
    let group = definition.str(&["spec", "group"]);
    state.then(Task::Names(group.to_owned()));
    state.then(Task::Registrations(group.to_owned()));
}

pub(in crate::embedded) fn is_terminating(definition: &Object) -> bool {
    metadata::is_deleting(definition) && has_finalizer(definition)
}

fn has_finalizer(definition: &Object) -> bool {
    definition.items(&FINALIZERS).iter().any(|finalizer| finalizer == FINALIZER)
}

pub(in crate::embedded) fn collection_of(definition: &Object) -> Collection {
    let text = |path: &[&str]| definition.str(path).to_owned().into();
    Collection { group: text(&["spec", "group"]), resource: text(&["spec", "names", "plural"]) }
}

pub(in crate::embedded) fn find<'o>(definition: &'o Object, of: &str) -> Option<&'o Value> {
    definition.items(&["status", "conditions"]).iter().find(|condition| condition.get("type") == Some(&json!(of)))
}

/// `SetCRDCondition`
pub(in crate::embedded) fn set(definition: &mut Object, of: &str, status: &str, reason: &str, message: &str) {
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

/// A definition with a status that kube-apiserver itself has changed.
pub(in crate::embedded) fn changed(current: &Object, change: impl FnOnce(&mut Object)) -> Object {
    let mut object = current.clone();
    change(&mut object);
    owners::record_own(&kind(), "status", current, &mut object);
    metadata::complete(object)
}
