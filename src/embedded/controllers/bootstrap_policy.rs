//! The bootstrap policy of RBAC (`pkg/registry/rbac/rest`).

use crate::embedded::api::catalog;
use crate::embedded::rbac::{GROUP, recorded};
use crate::embedded::store::{Collection, State, key};
use crate::embedded::strategies::metadata;
use crate::object::Object;
use serde_json::Value;

/// The annotation of roles and bindings that a new version may extend (`AutoUpdateAnnotationKey`).
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Creates the roles and bindings of the bootstrap policy, and adds what existing ones lack (`PostStartHook.EnsureRBACPolicy`).
pub(in crate::embedded) fn start(state: &mut State) {
    for object in recorded().into_iter().filter_map(Object::from_value) {
        let plural = match object.kind() {
            "ClusterRole" => "clusterroles",
            "ClusterRoleBinding" => "clusterrolebindings",
            "Role" => "roles",
            _ => "rolebindings",
        };
        let Some(resource) = catalog::resource(GROUP, "v1", plural) else { continue };
        let mut object = object;
        metadata::begin(resource, &mut object);
        let key = key(object.namespace(), object.name());
        let collection = Collection::built_in(GROUP, plural);
        match state.object(&collection, &key) {
            None => drop(state.put(&collection, &key, object)),
            Some(current) => _ = completed(&current, &object).map(|object| state.put(&collection, &key, object)),
        }
    }
}

/// An existing role or binding with the rules and subjects of the bootstrap policy; `None` if it lacks none, or is not kept up to date.
fn completed(current: &Object, wanted: &Object) -> Option<Object> {
    if current.str(&["metadata", "annotations", AUTO_UPDATE]) != "true" {
        return None;
    }
    let mut object = current.clone();
    for field in ["rules", "subjects"] {
        let lacks = |item: &&Value| !current.items(&[field]).contains(*item);
        for item in wanted.items(&[field]).iter().filter(lacks) {
            let _ = object.append(&[field], item.clone());
        }
    }
    (object != *current).then_some(object)
}
