//! Ingresses and NetworkPolicies (`pkg/registry/networking`).

use super::context::Context;
use super::strategy::Strategy;
use crate::embedded::store::Collection;
use crate::object::Object;
use crate::status::Status;

pub(super) struct Ingresses;

impl Strategy for Ingresses {
    fn storage_path(&self, _: &Collection) -> String {
        "ingress".to_owned()
    }
}

pub(super) struct NetworkPolicies;

impl Strategy for NetworkPolicies {
    /// An empty list counts as a change, since its Go value is not nil: the strategy compares with `reflect.DeepEqual`.
    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        Ok(object.has_empty_but_not_nil("spec"))
    }
}
