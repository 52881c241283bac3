//! The message types of policies' expressions (`cel.BuildRequestType`, `cel.BuildNamespaceType`, `mutation.DynamicTypeResolver`).

use crate::cel::Type;
use crate::cel::environment::Messages;
use std::sync::Arc;

/// The type of `variables`.
pub const VARIABLES: &str = "kubernetes.variables";
/// The type of `request`.
pub const REQUEST: &str = "kubernetes.AdmissionRequest";
/// The type of `namespaceObject`.
pub const NAMESPACE: &str = "kubernetes.Namespace";
/// The type of an apply configuration; those of its fields have names below it.
pub const OBJECT: &str = "Object";
/// The type of an operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

/// What expressions of one policy may name.
#[derive(Clone, Debug, Default)]
pub struct PolicyMessages {
    /// The variables so far, with their types.
    pub variables: Vec<(Arc<str>, Type)>,
    /// Whether patches may be made.
    pub patches: bool,
}

impl Messages for PolicyMessages {
    fn has(&self, name: &str) -> bool {
        is_fixed(name) || name == VARIABLES || (self.patches && (name == JSON_PATCH || is_object(name)))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        match name {
            VARIABLES => self.variables.iter().find(|(name, _)| **name == *field).map(|(_, r#type)| r#type.clone()),
            JSON_PATCH if self.patches => match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            },
            name if self.patches && is_object(name) => Some(Type::Dyn),
            name => fixed_field(name, field),
        }
    }
}

fn is_object(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_fixed(name: &str) -> bool {
    matches!(
        name,
        REQUEST
            | NAMESPACE
            | "kubernetes.GroupVersionKind"
            | "kubernetes.GroupVersionResource"
            | "kubernetes.UserInfo"
            | "kubernetes.NamespaceMetadata"
            | "kubernetes.NamespaceSpec"
            | "kubernetes.NamespaceStatus"
            | "kubernetes.NamespaceCondition"
    )
}

fn fixed_field(name: &str, field: &str) -> Option<Type> {
    let strings = || Type::list(Type::String);
    let texts = || Type::map(Type::String, Type::String);
    Some(match (name, field) {
        (REQUEST, "kind" | "requestKind") => Type::object("kubernetes.GroupVersionKind"),
        (REQUEST, "resource" | "requestResource") => Type::object("kubernetes.GroupVersionResource"),
        (REQUEST, "subResource" | "requestSubResource" | "name" | "namespace" | "operation") => Type::String,
        (REQUEST, "userInfo") => Type::object("kubernetes.UserInfo"),
        (REQUEST, "dryRun") => Type::Bool,
        (REQUEST, "options") => Type::Dyn,
        ("kubernetes.GroupVersionKind", "group" | "version" | "kind")
        | ("kubernetes.GroupVersionResource", "group" | "version" | "resource")
        | ("kubernetes.UserInfo", "username" | "uid") => Type::String,
        ("kubernetes.UserInfo", "groups") => strings(),
        ("kubernetes.UserInfo", "extra") => Type::map(Type::String, strings()),
        (NAMESPACE, "metadata") => Type::object("kubernetes.NamespaceMetadata"),
        (NAMESPACE, "spec") => Type::object("kubernetes.NamespaceSpec"),
        (NAMESPACE, "status") => Type::object("kubernetes.NamespaceStatus"),
        ("kubernetes.NamespaceMetadata", "name" | "generateName" | "namespace" | "UID" | "resourceVersion") => {
            Type::String
        }
        ("kubernetes.NamespaceMetadata", "labels" | "annotations") => texts(),
        ("kubernetes.NamespaceMetadata", "creationTimestamp" | "deletionTimestamp") => Type::Timestamp,
        ("kubernetes.NamespaceMetadata", "deletionGracePeriodSeconds" | "generation") => Type::Int,
        ("kubernetes.NamespaceMetadata" | "kubernetes.NamespaceSpec", "finalizers") => strings(),
        ("kubernetes.NamespaceStatus", "conditions") => Type::list(Type::object("kubernetes.NamespaceCondition")),
        ("kubernetes.NamespaceStatus", "phase")
        | ("kubernetes.NamespaceCondition", "status" | "type" | "message" | "reason") => Type::String,
        ("kubernetes.NamespaceCondition", "lastTransitionTime") => Type::Timestamp,
        _ => return None,
    })
}

/// The type under which a variable is known to the expressions after it (`convertCelTypeToDeclType`).
pub fn declared(r#type: &Type) -> Type {
    match r#type {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => r#type.clone(),
        Type::List(element) => Type::list(declared(element)),
        Type::Map(key, value) => Type::map(declared(key), declared(value)),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_known_to_mutations_only() {
        let (plain, patching) =
            (PolicyMessages::default(), PolicyMessages { patches: true, ..PolicyMessages::default() });
        for (name, is_fixed) in
            [("kubernetes.AdmissionRequest", true), ("Object", false), ("Object.spec.template", false), ("JSONPatch", false)]
        {
            assert!(patching.has(name) && plain.has(name) == is_fixed, "{name}");
        }
        assert!(!patching.has("Objects"));
        assert_eq!(patching.field("Object.spec", "anything"), Some(Type::Dyn));
        assert_eq!(patching.field("JSONPatch", "path"), Some(Type::String));
        assert_eq!(patching.field("JSONPatch", "paths"), None);
    }

    #[test]
    fn variables_have_the_types_of_their_expressions_as_far_as_those_are_plain() {
        let of = |types: &[Type]| types.iter().map(declared).collect::<Vec<_>>();
        let types = [Type::Int, Type::list(Type::optional(Type::Int)), Type::optional(Type::String), Type::object("a.B")];
        assert_eq!(of(&types), [Type::Int, Type::list(Type::Dyn), Type::Dyn, Type::Dyn]);
    }
}
