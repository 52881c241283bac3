//! The objects of definitions (`customResourceStrategy`). The verbs of `verbs/custom` prepare and validate them, because a webhook may convert
//! them; the rest is here.

use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::custom;
use crate::embedded::store::{Collection, State, Task};
use crate::object::Object;
use crate::status::Status;

pub(super) struct CustomObjects;

impl Strategy for CustomObjects {
    fn validates_name(&self) -> bool {
        true
    }

    /// The last object of a terminating definition takes that with it.
    fn after_delete(&self, state: &mut State, collection: &Collection, _: &Object) {
        if state.count(collection) == 0 {
            state.then(Task::EmptyDefinition(custom::name_of(collection)));
        }
    }

    fn check_selector(&self, resource: &ServedResource, field: &str) -> Result<(), Status> {
        match resource.custom.as_ref().is_some_and(|custom| custom.selectable().any(|own| own == field)) {
            true => Ok(()),
            false => Err(Status::bad_request(format!("field label not supported: {field}"))),
        }
    }

    fn selected(&self, resource: &ServedResource, object: &Object, field: &str) -> String {
        let custom = resource.custom.as_ref();
        custom.map(|custom| custom.selected(&custom.shown(object), field)).unwrap_or_default()
    }
}
