//! Certificate signing requests: the user of new ones, and the conditions of their approval and status
//! (`pkg/registry/certificates/certificates`).

use super::context::Context;
use super::metadata;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::object::Object;
use crate::status::Status;
use crate::user::UserInfo;
use serde_json::Value;
use std::collections::HashMap;

const CONDITIONS: [&str; 2] = ["status", "conditions"];

pub(super) struct CertificateSigningRequests;

impl Strategy for CertificateSigningRequests {
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        prepare(object, context.caller);
        Ok(())
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        keep(object, current, context.subresource);
        Ok(false)
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["spec.signerName"]
    }
}

/// Replaces the requesting user in the spec by the caller (`csrStrategy.PrepareForCreate`).
fn prepare(object: &mut Object, caller: &UserInfo) {
    for field in ["username", "uid", "groups", "extra"] {
        object.remove(&["spec", field]);
    }
    let Ok(Value::Object(user)) = serde_json::to_value(caller) else { return };
    for (field, value) in user {
        let _ = object.set(&["spec", &field], value);
    }
}

/// Restores the spec, which is immutable, and sets the times of conditions (`csrStatusStrategy`, `csrApprovalStrategy`). `approval` alone
/// adds and removes conditions that approve or deny, and `status` keeps those as they are.
fn keep(object: &mut Object, current: &Object, subresource: &str) {
    if let Some(spec) = current.get(&["spec"]) {
        let _ = object.set(&["spec"], spec.clone());
    }
    if subresource == "status" {
        keep_instances(object, current, "Approved");
        keep_instances(object, current, "Denied");
    }
    if !subresource.is_empty() {
        set_times(object, current);
    }
}

/// `preserveConditionInstances`
fn keep_instances(object: &mut Object, current: &Object, kind: &str) {
    let is_of_kind = |condition: &&Value| condition.get("type").is_some_and(|of| of == kind);
    let known: Vec<Value> = current.items(&CONDITIONS).iter().filter(is_of_kind).cloned().collect();
    if object.items(&CONDITIONS).iter().filter(is_of_kind).count() != known.len() {
        // The validation refuses it.
        return;
    }
    let conditions = object.get_mut(&CONDITIONS).and_then(Value::as_array_mut).into_iter().flatten();
    let of_kind = conditions.filter(|condition| condition.get("type").is_some_and(|of| of == kind));
    of_kind.zip(known).for_each(|(condition, known)| *condition = known);
}

/// `populateConditionTimestamps`
fn set_times(object: &mut Object, current: &Object) {
    let now = Value::from(metadata::now());
    let is_zero = |time: Option<&Value>| time.is_none_or(Value::is_null);
    // The first one of a type and a status counts.
    let mut known: HashMap<[Option<&Value>; 2], &Value> = HashMap::new();
    for condition in current.items(&CONDITIONS) {
        if let Some(time) = condition.get("lastTransitionTime").filter(|time| !time.is_null()) {
            known.entry(["type", "status"].map(|field| condition.get(field))).or_insert(time);
        }
    }
    let conditions = object.get_mut(&CONDITIONS).and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter_map(Value::as_object_mut) {
        if is_zero(condition.get("lastUpdateTime")) {
            condition.insert("lastUpdateTime".to_owned(), now.clone());
        }
        if is_zero(condition.get("lastTransitionTime")) {
            let since = known.get(&["type", "status"].map(|field| condition.get(field)));
            let since = Value::clone(since.copied().unwrap_or(&now));
            condition.insert("lastTransitionTime".to_owned(), since);
        }
    }
}
