//! The kinds of APIs that Kubernetes removed: defaults and validation of the releases that served them.

use super::context::Context;
use super::strategy::Strategy;
use crate::embedded::api::removed;
use crate::object::Object;
use crate::removed::{set_defaults, validate, validate_update};
use crate::status::{Cause, Status, invalid};
use serde_json::Value;

pub(super) struct Removed;

impl Strategy for Removed {
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        let Some(api) = removed::api(context.resource) else { return Ok(()) };
        set_defaults(api, object);
        let causes = validate(api, object);
        check(context, object, causes)
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        let Some(api) = removed::api(context.resource) else { return Ok(false) };
        set_defaults(api, object);
        // `podPresetStrategy.PrepareForUpdate`
        if api.kind == "PodPreset"
            && let Some(spec) = current.get(&["spec"])
        {
            let _ = object.set(&["spec"], spec.clone());
        }
        let causes = validate_update(api, object, current);
        check(context, object, causes).map(|()| false)
    }
}

/// Refuses an object with these errors. Empty lists count for the validation, and are not stored.
fn check(context: &Context<'_>, object: &mut Object, causes: Vec<Cause>) -> Result<(), Status> {
    if let Some(status) = invalid::status(&context.resource.gvk(), object.name(), causes) {
        return Err(status);
    }
    for (_, value) in object.fields_mut().iter_mut().filter(|(field, _)| *field != "metadata") {
        drop_empty_lists(value);
    }
    object.fields_mut().retain(|field, value| field == "metadata" || !is_empty_list(value));
    Ok(())
}

/// Removes fields that are empty lists: their Go fields have `omitempty`.
fn drop_empty_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty_lists);
            fields.retain(|_, value| !is_empty_list(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_lists),
        _ => {}
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}
