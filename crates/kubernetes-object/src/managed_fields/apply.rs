//! Server-side apply: merges a configuration into an object, with the field managers' rules (`managedfields.FieldManager.Apply`).

use super::conflict::{self, Conflict};
use super::entries::{self, Entry, Operation};
use super::fields;
use super::last_applied::{self, KUBECTL};
use super::versions::{OneVersion, Unfit, VersionConverter};
use super::{Change, FIRST, has_no_owner, reset, without_managed_fields};
use crate::go_text::numbers::canonicalize;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::merge::{merge, validate};
use crate::status::Status;
use crate::typed;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The reason why an apply is refused.
enum Refusal {
    Conflicts(Vec<Conflict>),
    /// The object does not fit the schema of a version in which it has an owner.
    Unfit(Unfit),
}

impl Change<'_> {
    /// Returns the live object with the configuration applied, `metadata.managedFields` included. The values of the result are not
    /// decoded and have no defaults yet. `force` takes fields from other managers.
    ///
    /// # Errors
    /// 400 for a configuration of another kind or with managedFields, 409 for conflicts with other managers, 500 for a configuration
    /// that does not fit the schema.
    pub fn apply(
        &self,
        live: Option<&Value>,
        configuration: &Value,
        force: bool,
        versions: &dyn VersionConverter,
    ) -> Result<Value, Status> {
        self.check_kind(configuration)?;
        let entries = live.and_then(|live| live.pointer("/metadata/managedFields")).unwrap_or(&Value::Null);
        let mut entries =
            entries::decode(entries).map_err(|why| Status::plain(format!("failed to decode managed fields: {why}")))?;
        let before = live.map_or_else(|| Cow::Owned(json!({})), without_managed_fields);
        if live.is_some() && entries.is_empty() {
            entries = self.before_first_apply(&before, versions);
        }
        if configuration.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        validate(self.schema, configuration).map_err(|why| {
            Status::plain(format!("failed to create typed patch object ({}): {why}", subject(configuration)))
        })?;
        let mut canonical = configuration.clone();
        // Go writes equal numbers alike in every unstructured object.
        canonicalize(&mut canonical);
        let apply = |force| self.apply_to(entries.clone(), &before, &canonical, force, versions);
        let applied = match apply(force) {
            Err(Refusal::Conflicts(conflicts)) if self.manager == KUBECTL => {
                let left = self.without_last_applied(conflicts, &before);
                if left.is_empty() { apply(true) } else { Err(Refusal::Conflicts(left)) }
            }
            other => other,
        };
        let (mut object, entries) = applied.map_err(|refusal| match refusal {
            Refusal::Conflicts(conflicts) => conflict::status(&conflicts),
            Refusal::Unfit(why) => Status::plain(why.to_string()),
        })?;
        if self.manager == KUBECTL {
            last_applied::renew(&mut object, &canonical);
        }
        put(&mut object, entries);
        Ok(object)
    }

    /// As [`Self::apply`], for the cases that the upstream API server does not compute. The apply takes ownership from other managers:
    /// the API server has checked for conflicts before. `None` if the result depends on the object in other versions, or on ownership
    /// that is not recorded.
    pub fn applied(&self, live: Option<&Value>, configuration: &Value) -> Option<Value> {
        let (entries, before) = match live {
            Some(live) if self.manager == KUBECTL && last_applied::of(live).is_some() => return None,
            Some(live) => (entries_of(live)?, without_managed_fields(live)),
            None => (Vec::new(), Cow::Owned(json!({}))),
        };
        let mut configuration = configuration.clone();
        canonicalize(&mut configuration);
        let mine = self.applier(&configuration);
        if let Some(last) = entries.iter().find(|entry| entry.is_of_the_same_manager_as(&mine))
            && !last.fields.is_subset(&mine.fields)
            && entries.iter().any(|entry| entry.api_version != mine.api_version)
        {
            return None;
        }
        let (mut object, entries) = self.apply_to(entries, &before, &configuration, true, &OneVersion).ok()?;
        put(&mut object, entries);
        Some(object)
    }

    /// `merge.Updater.Apply`
    fn apply_to(
        &self,
        mut entries: Vec<Entry>,
        before: &Value,
        configuration: &Value,
        force: bool,
        versions: &dyn VersionConverter,
    ) -> Result<(Value, Vec<Entry>), Refusal> {
        self.reconcile(&mut entries, before, versions).map_err(Refusal::Unfit)?;
        let mut mine = self.applier(configuration);
        let last = entries.iter().position(|entry| entry.is_of_the_same_manager_as(&mine));
        let last = last.map(|at| entries.swap_remove(at));
        let mut after = merge(self.schema, before.clone(), configuration.clone());
        if let Some(last) = last.as_ref().filter(|last| !last.fields.is_subset(&mine.fields)) {
            after = self
                .pruned(after, last, entries.iter().chain([&mine]), versions)
                .map_err(|why| Refusal::Unfit(why.during("failed to prune fields")))?;
        }
        let changes = self.changes(&mut entries, before, &after, versions).map_err(Refusal::Unfit)?;
        let conflicts = if force { Vec::new() } else { changes.conflicts(&entries) };
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        changes.release(&mut entries);
        mine.fields.retain(|path| !has_no_owner(path));
        if after == *before {
            mine.time = last.and_then(|last| last.time);
        }
        entries.push(mine);
        entries.retain(|entry| !entry.fields.is_empty());
        Ok((after, entries))
    }

    /// The entry of the manager that applies this configuration.
    fn applier(&self, configuration: &Value) -> Entry {
        let reset = reset::fields(self.kind, self.subresource, self.has_status);
        let mut own = fields::of(self.schema, configuration);
        own.retain(|path| !reset.takes(path));
        Entry {
            manager: self.manager.to_owned(),
            operation: Operation::Apply,
            api_version: self.kind.api_version(),
            subresource: self.subresource.to_owned(),
            time: Some(self.now),
            fields: own,
        }
    }

    /// The owner of all fields of an object without managedFields (`skipNonAppliedManager.Apply`).
    fn before_first_apply(&self, live: &Value, versions: &dyn VersionConverter) -> Vec<Entry> {
        let mut empty = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind});
        typed::encode(self.kind, &mut empty);
        let change = Change { manager: FIRST, ..*self };
        // Without entries no version is converted.
        change.entries_after(Vec::new(), &empty, live, versions).map(|(entries, _)| entries).unwrap_or_default()
    }

    /// The conflicts about fields that the last client-side apply did not set.
    fn without_last_applied(&self, mut conflicts: Vec<Conflict>, live: &Value) -> Vec<Conflict> {
        let own = last_applied::unchanged_fields(self.schema, live, &self.kind.api_version());
        conflicts.retain(|conflict| own.as_ref().is_none_or(|own| !own.contains(&conflict.path)));
        conflicts
    }

    /// `versionCheckManager.Apply`
    fn check_kind(&self, configuration: &Value) -> Result<(), Status> {
        let found = kind_of(configuration);
        if found == *self.kind {
            return Ok(());
        }
        Err(Status::bad_request(format!("invalid object type: {}", printed(&found))))
    }
}

/// The kind that an unstructured object names.
fn kind_of(object: &Value) -> GroupVersionKind {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    if api_version.matches('/').count() > 1 {
        return GroupVersionKind::default();
    }
    let (group, version) = split_api_version(api_version);
    GroupVersionKind::new(group, version, text("kind"))
}

/// `GroupVersionKind.String`
fn printed(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// `objectGVKNN`
fn subject(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), printed(&kind_of(object)))
}

fn put(object: &mut Value, entries: Vec<Entry>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match entries::encode(entries) {
        Some(entries) => drop(metadata.insert("managedFields".into(), entries)),
        None => drop(metadata.remove("managedFields")),
    }
}

/// The managedFields entries of a live object; `None` if the object has none.
fn entries_of(live: &Value) -> Option<Vec<Entry>> {
    entries::decode(live.pointer("/metadata/managedFields")?).ok().filter(|entries| !entries.is_empty())
}
