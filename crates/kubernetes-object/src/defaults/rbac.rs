//! Defaults of the rbac.authorization.k8s.io group.

use super::fields::{Fields, each, embedded, if_zero, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn apply(kind: &str, object: &mut Fields) {
    if kind != "RoleBinding" && kind != "ClusterRoleBinding" {
        return;
    }
    if let Some(role) = embedded(object, "roleRef") {
        if_zero(role, "apiGroup", GROUP);
    }
    for subject in each(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            if_zero(subject, "apiGroup", GROUP);
        }
    }
}
