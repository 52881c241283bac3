//! `metadata.managedFields` during admission: kube-apiserver updates this field before any plugin sees the object.
//!
//! The proxy sets the field for plugins, and restores the client's value afterwards, because the API server behind computes
//! managedFields itself.

use super::write::Write;
use crate::admission::{Attributes, Operation};
use crate::object::managed_fields::{self, Change, is_too_large, manager_name};
use crate::object::{Object, typed};
use crate::status::Status;
use http::header::USER_AGENT;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

const FIELD: [&str; 2] = ["metadata", "managedFields"];

/// `InvalidManagedFieldsAfterMutatingAdmissionWarningFormat`
const INVALID: &str = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
    mutating admission controller; please fix your requests: ";

/// The state that is to be restored after a phase.
pub(super) struct BeforePhase {
    sent: Option<Value>,
    shown: Option<Value>,
    was_changed: bool,
}

/// Sets the managedFields, if a plugin reads them. The object of an apply has them already, from the dry run.
pub(super) fn show(write: &Write<'_>, attributes: &mut Attributes) -> Option<BeforePhase> {
    attributes.object.as_ref()?;
    if !write.pipeline.chain.reads_managed_fields(attributes) {
        return None;
    }
    if write.is_apply() {
        // An apply that changes nothing leaves managedFields unchanged.
        attributes.reinvocation.has_fine_times = attributes.object.as_ref() != attributes.old_object.as_deref();
        return None;
    }
    let object = attributes.object.as_ref()?;
    // An object that is too large keeps the client's managedFields.
    let old = before_write(write, attributes)?;
    let (shown, is_renewed) = after(write, attributes, &old, object.as_value())?;
    attributes.reinvocation.has_fine_times = is_renewed;
    let sent = object.get(&FIELD).cloned();
    let was_changed = object.is_changed();
    let object = attributes.object.as_mut()?;
    set(object, shown.clone());
    if !was_changed {
        object.settle();
    }
    Some(BeforePhase { sent, shown, was_changed })
}

/// Returns the managedFields before the mutating phase, if a plugin reads them.
pub(super) fn shown_before(write: &Write<'_>, attributes: &Attributes) -> Option<Option<Value>> {
    let object = attributes.object.as_ref()?;
    write.pipeline.chain.reads_managed_fields(attributes).then(|| object.get(&FIELD).cloned())
}

/// Restores managedFields that plugins have made invalid, and warns (`managedFieldsValidatingAdmissionController`).
pub(super) fn mend(write: &Write<'_>, attributes: &mut Attributes, before: Option<Value>) {
    let Some(object) = attributes.object.as_mut().filter(|object| object.get(&FIELD) != before.as_ref()) else {
        return;
    };
    if let Some(why) = object.get(&FIELD).and_then(|after| managed_fields::check(after).err()) {
        set(object, before);
        write.warnings.add(format!("{INVALID}{why}"));
    }
}

/// Sets the previous owners of a scale in the old object, if a plugin reads them: the owners of the replicas in its parent.
/// Returns the unchanged old object.
pub(super) async fn show_owners_of_scale(
    write: &Write<'_>,
    attributes: &mut Attributes,
) -> Result<Option<Arc<Object>>, Status> {
    let is_scale = write.target.subresource == "scale" && attributes.operation == Operation::Update;
    if !is_scale || !write.pipeline.chain.reads_managed_fields(attributes) {
        return Ok(None);
    }
    let (pipeline, target) = (write.pipeline, &write.target);
    let Some(parent) = pipeline.gateway.read(write.collection_path(), write.caller).await? else { return Ok(None) };
    let definition = match target.is_built_in() {
        true => None,
        false => pipeline.cluster.find_definition(&target.resource).await?,
    };
    let replicas = |api_version: &str| {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        match &definition {
            _ if group != target.resource.group => None,
            None => Some(".spec.replicas"),
            Some(definition) => definition.version(version)?.scale.as_ref().map(|scale| &*scale.spec_replicas_path),
        }
    };
    let owners = parent.get(&FIELD).and_then(|owners| managed_fields::of_scale(owners, replicas));
    let Some(old) = &mut attributes.old_object else { return Ok(None) };
    let mut shown = (**old).clone();
    set(&mut shown, owners);
    Ok(Some(std::mem::replace(old, Arc::new(shown))))
}

/// Returns the field manager of the write.
pub(super) fn manager(write: &Write<'_>, attributes: &Attributes) -> String {
    let manager = attributes.options.as_ref().map_or("", |options| options.str(&["fieldManager"]));
    manager_name(manager, write.header(USER_AGENT).unwrap_or_default())
}

/// Describes the write for the computation of managedFields.
pub(super) fn change<'w>(write: &'w Write<'_>, manager: &'w str) -> Change<'w> {
    Change {
        kind: write.target.kind(),
        schema: write.node(),
        has_status: write.target.has_status(),
        subresource: &write.target.subresource,
        manager,
        now: Timestamp::now(),
    }
}

/// Returns the object that a write replaces; on a create, Go's empty object.
pub(super) fn before_write<'a>(write: &Write<'_>, attributes: &'a Attributes) -> Option<Cow<'a, Value>> {
    let kind = write.target.kind();
    match (attributes.operation, &attributes.old_object) {
        (Operation::Update, Some(old)) => Some(Cow::Borrowed(old.as_value())),
        (Operation::Create, _) => {
            let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
            typed::encode(kind, &mut empty);
            Some(Cow::Owned(empty))
        }
        _ => None,
    }
}

/// Computes `metadata.managedFields` for the replacement of `old` by `new`, and whether the time of the write is in them;
/// `None` for objects that are too large.
pub(super) fn after(
    write: &Write<'_>,
    attributes: &Attributes,
    old: &Value,
    new: &Value,
) -> Option<(Option<Value>, bool)> {
    if is_too_large(old) || is_too_large(new) {
        return None;
    }
    Some(change(write, &manager(write, attributes)).managed_fields(old, new))
}

impl BeforePhase {
    /// Restores the client's managedFields, unless a plugin has changed the field. Returns the owners at the end of the phase.
    pub(super) fn take_back(self, attributes: &mut Attributes) -> OwnersAfter {
        let Some(object) = &mut attributes.object else { return OwnersAfter::known(self.shown) };
        if object.get(&FIELD) != self.shown.as_ref() {
            return OwnersAfter::set_by_plugin(object);
        }
        let is_changed = object.is_changed() || self.was_changed;
        set(object, self.sent);
        if !is_changed {
            object.settle();
        }
        OwnersAfter::known(self.shown)
    }
}

/// The owners of an object's fields after the mutating phase. In kube-apiserver they are those from before the phase, unless a plugin has
/// changed them.
pub(super) struct OwnersAfter {
    pub(super) entries: Value,
    pub(super) are_set_by_plugin: bool,
}

impl OwnersAfter {
    fn known(entries: Option<Value>) -> Self {
        Self { entries: entries.unwrap_or_else(|| json!([])), are_set_by_plugin: false }
    }

    fn set_by_plugin(object: &Object) -> Self {
        Self { are_set_by_plugin: true, ..Self::known(object.get(&FIELD).cloned()) }
    }

    /// Returns the owners that a plugin has set in the outcome of an apply. The outcome gets back those from before the phase, which no
    /// configuration can express.
    pub(super) fn of_outcome(outcome: &mut Object, before: Option<Value>) -> Option<Self> {
        if outcome.get(&FIELD) == before.as_ref() {
            return None;
        }
        let after = Self::set_by_plugin(outcome);
        set(outcome, before);
        Some(after)
    }
}

fn set(object: &mut Object, value: Option<Value>) {
    match value {
        Some(value) => drop::<bool>(object.set(&FIELD, value)),
        None => drop::<Option<Value>>(object.remove(&FIELD)),
    }
}
