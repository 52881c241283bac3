//! The message types of admission: those of `request`, `namespaceObject` and `variables`, and the types of patches.

use super::message_types::{Messages, Table};
use super::types::Type;
use std::sync::LazyLock;

/// The name of the type of `variables`.
pub const VARIABLES: &str = "kubernetes.variables";

/// `BuildRequestType` and `BuildNamespaceType` of kube-apiserver.
static ADMISSION: LazyLock<Table> = LazyLock::new(|| {
    let strings = || Type::list(Type::String);
    let texts = |names: &[&'static str]| names.iter().map(|name| (*name, Type::String)).collect::<Vec<_>>();
    let kind = || Type::object("kubernetes.GroupVersionKind");
    let resource = || Type::object("kubernetes.GroupVersionResource");
    let mut request = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    request.extend([
        ("kind", kind()),
        ("resource", resource()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("userInfo", Type::object("kubernetes.UserInfo")),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    let mut metadata = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    metadata.extend([
        ("labels", Type::map(Type::String, Type::String)),
        ("annotations", Type::map(Type::String, Type::String)),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("finalizers", strings()),
    ]);
    let mut condition = texts(&["status", "type", "message", "reason"]);
    condition.push(("lastTransitionTime", Type::Timestamp));
    let user = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", strings()),
        ("extra", Type::map(Type::String, strings())),
    ];
    let namespace = [
        ("metadata", Type::object("kubernetes.NamespaceMetadata")),
        ("spec", Type::object("kubernetes.NamespaceSpec")),
        ("status", Type::object("kubernetes.NamespaceStatus")),
    ];
    let status = [("conditions", Type::list(Type::object("kubernetes.NamespaceCondition"))), ("phase", Type::String)];
    Table::default()
        .with("kubernetes.GroupVersionKind", texts(&["group", "version", "kind"]))
        .with("kubernetes.GroupVersionResource", texts(&["group", "version", "resource"]))
        .with("kubernetes.UserInfo", user)
        .with("kubernetes.AdmissionRequest", request)
        .with("kubernetes.Namespace", namespace)
        .with("kubernetes.NamespaceMetadata", metadata)
        .with("kubernetes.NamespaceSpec", [("finalizers", strings())])
        .with("kubernetes.NamespaceCondition", condition)
        .with("kubernetes.NamespaceStatus", status)
});

/// The message types of a policy or of a webhook's match conditions.
#[derive(Clone, Debug, Default)]
pub struct AdmissionTypes {
    patches: bool,
    /// Types of the policy's variables so far, and of objects with a known schema.
    own: Table,
}

impl AdmissionTypes {
    /// Adds `Object{…}` and `JSONPatch{…}` (`DynamicTypeResolver`).
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Declares `variables`, without any variable.
    pub fn with_variables(mut self) -> Self {
        self.own = self.own.with(VARIABLES, []);
        self
    }

    /// Adds a variable of the policy. A type that kube-apiserver cannot declare becomes dyn (`convertCelTypeToDeclType`).
    pub fn add_variable(&mut self, name: &str, of: &Type) {
        self.own.add(VARIABLES, name, declarable(of));
    }

    /// Adds the types of an object's schema.
    pub fn with_table(mut self, own: Table) -> Self {
        self.own = own;
        self
    }
}

fn declarable(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(declarable(element)),
        Type::Map(key, value) => Type::map(declarable(key), declarable(value)),
        Type::Object(_) | Type::Opaque(..) | Type::Type(_) | Type::Wrapper(_) | Type::Parameter(_) | Type::Error => {
            Type::Dyn
        }
        other => other.clone(),
    }
}

impl Messages for AdmissionTypes {
    fn has(&self, name: &str) -> bool {
        self.own.has(name) || self.patches && is_patch(name) || ADMISSION.has(name)
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        if self.patches && name == "JSONPatch" {
            return Some(match field {
                "op" | "path" | "from" => Type::String,
                "value" => Type::Dyn,
                // kube-apiserver accepts any field name here. The field's type has no name, and no value has that type.
                _ => Type::object(""),
            });
        }
        if self.patches && is_object(name) {
            return Some(Type::Dyn);
        }
        self.own.field(name, field).or_else(|| ADMISSION.field(name, field))
    }
}

/// Whether the type is a type of patches.
pub fn is_patch(name: &str) -> bool {
    name == "JSONPatch" || is_object(name)
}

fn is_object(name: &str) -> bool {
    name == "Object" || name.starts_with("Object.")
}
