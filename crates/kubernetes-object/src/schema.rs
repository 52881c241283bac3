//! The schemas of the built-in kinds of the release of this process: the fields of every type, and the merge strategies of lists and maps.
//!
//! `tools/record-server.py` records the table from kube-apiservers' OpenAPI documents; `recorded_tests.rs` compares it with the tables of
//! `typed` and `protobuf`. The text is part of the binary and is parsed once,
//! at the first use; the parsed table borrows from it.

use crate::kind::GroupVersionKind;
use crate::release;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("schema/types.txt")));

/// The type of a built-in kind; `None` for other kinds.
pub fn of(kind: &GroupVersionKind) -> Option<&'static ApiType> {
    let table = &*TABLE;
    let key = (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str());
    table.types.get(*table.kinds.get(&key)?)
}

/// Every built-in kind, with its type.
pub fn kinds() -> impl Iterator<Item = (GroupVersionKind, &'static ApiType)> {
    let table = &*TABLE;
    table.kinds.iter().filter_map(|((group, version, kind), index)| {
        Some((GroupVersionKind::new(*group, *version, *kind), table.types.get(*index)?))
    })
}

/// Every type.
pub fn types() -> impl Iterator<Item = &'static ApiType> {
    TABLE.types.iter()
}

/// A type of the API: a JSON object with known fields.
#[derive(Debug)]
pub struct ApiType {
    /// The name with package and version: `core.v1.Pod`.
    pub name: &'static str,
    /// Whether apply owns the object as a whole (`+structType=atomic`), unless the field that holds the object sets another type.
    pub is_atomic: bool,
    fields: Box<[Field]>,
}

/// A field of a [`ApiType`].
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// The type of the value.
    pub shape: Shape,
    /// The rest of the field's line in the table, which the methods parse.
    words: &'static str,
}

/// The type of a field, of an item of a list, or of a value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A single value.
    Scalar(Scalar),
    /// An object with known fields.
    Object(TypeReference),
    /// A list.
    List(Box<Shape>),
    /// An object with any keys.
    Map(Box<Shape>),
    /// Any value: raw extensions, values in JSON schemas.
    Any,
}

/// The type of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// A boolean.
    Boolean,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// Base64 text.
    Bytes,
    /// RFC 3339 to the second.
    Time,
    /// RFC 3339 to the microsecond.
    MicroTime,
    /// A `resource.Quantity`: a string or a number.
    Quantity,
    /// An `intstr.IntOrString`.
    IntOrString,
}

/// The index of a type, since types may contain themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeReference(u16);

impl TypeReference {
    /// The referenced type.
    pub fn resolve(self) -> Option<&'static ApiType> {
        TABLE.types.get(usize::from(self.0))
    }
}

impl ApiType {
    /// The field with a JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// The fields, sorted by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The name without package and version, as in Go: `Pod`.
    pub(crate) fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Field {
    /// The type of the object, of the list's items or of the map's values.
    pub fn element(&self) -> Option<&'static ApiType> {
        let mut shape = &self.shape;
        loop {
            match shape {
                Shape::Object(reference) => return reference.resolve(),
                Shape::List(inner) | Shape::Map(inner) => shape = inner,
                Shape::Scalar(_) | Shape::Any => return None,
            }
        }
    }

    /// Whether the field is required.
    pub fn is_required(&self) -> bool {
        self.settings().any(|word| word == "required")
    }

    /// Whether a strategic patch merges the list rather than replaces it (`patchStrategy:"merge"`).
    pub fn merges(&self) -> bool {
        self.strategies().any(|strategy| strategy == "merge")
    }

    /// Whether a strategic patch replaces the object rather than merges it (`patchStrategy:"replace"`).
    pub fn replaces(&self) -> bool {
        self.strategies().any(|strategy| strategy == "replace")
    }

    fn strategies(&self) -> impl Iterator<Item = &'static str> {
        self.setting("strategy").unwrap_or_default().split(',')
    }

    /// The field that identifies the items of a merged list (`patchMergeKey`).
    pub(crate) fn merge_key(&self) -> Option<&'static str> {
        self.setting("key")
    }

    /// `atomic`, `set` or `map`.
    pub(crate) fn list_type(&self) -> Option<&'static str> {
        self.setting("list")
    }

    /// The fields that identify the items of a list of type `map`.
    pub(crate) fn list_map_keys(&self) -> impl Iterator<Item = &'static str> {
        self.setting("keys").into_iter().flat_map(|keys| keys.split(','))
    }

    /// `atomic` or `granular`.
    pub fn map_type(&self) -> Option<&'static str> {
        self.setting("map")
    }

    /// The default in the OpenAPI document: at most a default of the Go type. kube-apiserver's defaulting functions set other defaults.
    pub(crate) fn documented_default(&self) -> Option<Value> {
        let at = self.words.find("default=")?;
        serde_json::from_str(self.words.get(at + "default=".len()..)?).ok()
    }

    fn setting(&self, name: &str) -> Option<&'static str> {
        self.settings().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The words before the values that may contain spaces.
    fn settings(&self) -> impl Iterator<Item = &'static str> {
        self.words.split(' ').take_while(|word| !word.starts_with("enum=") && !word.starts_with("default="))
    }
}

struct Table {
    types: Vec<ApiType>,
    kinds: HashMap<(&'static str, &'static str, &'static str), usize>,
}

impl Table {
    /// Parses the recorded text. Skips a line that is malformed; a test checks that there is none.
    fn parse(text: &'static str) -> Self {
        let names = || release::lines(text).filter_map(|line| line.strip_prefix("= ")?.split(' ').next());
        let indices: HashMap<&str, u16> = names().zip(0..).collect();
        let mut types: Vec<ApiType> = Vec::with_capacity(indices.len());
        let mut kinds = HashMap::new();
        let mut fields = Vec::new();
        for line in release::lines(text).rev() {
            let mut words = line.splitn(3, ' ');
            let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
            let rest = words.next().unwrap_or_default();
            if first != "=" {
                fields.extend(shape(second, &indices).map(|shape| Field { name: first, shape, words: rest }));
                continue;
            }
            for kind in rest.split(' ') {
                if let [group, version, kind] = kind.split('/').collect::<Vec<_>>()[..] {
                    kinds.insert((group, version, kind), indices.len() - 1 - types.len());
                }
            }
            fields.reverse();
            let is_atomic = rest.split(' ').any(|word| word == "atomic");
            types.push(ApiType { name: second, is_atomic, fields: std::mem::take(&mut fields).into_boxed_slice() });
        }
        types.reverse();
        Self { types, kinds }
    }
}

fn shape(text: &str, indices: &HashMap<&str, u16>) -> Option<Shape> {
    if let Some(inner) = text.strip_prefix("[]") {
        return Some(Shape::List(Box::new(shape(inner, indices)?)));
    }
    if let Some(inner) = text.strip_prefix("{}") {
        return Some(Shape::Map(Box::new(shape(inner, indices)?)));
    }
    let scalar = match text {
        "string" => Scalar::String,
        "boolean" => Scalar::Boolean,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "double" => Scalar::Double,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "microtime" => Scalar::MicroTime,
        "quantity" => Scalar::Quantity,
        "int-or-string" => Scalar::IntOrString,
        "any" => return Some(Shape::Any),
        name => return indices.get(name).map(|index| Shape::Object(TypeReference(*index))),
    };
    Some(Shape::Scalar(scalar))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> &'static ApiType {
        of(&GroupVersionKind::new("", "v1", "Pod")).unwrap()
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        let text = include_str!("schema/types.txt");
        let lines = TABLE.types.iter().map(|one| 1 + one.fields.len()).sum::<usize>();
        assert_eq!(lines, release::lines(text).count());
        for one in &TABLE.types {
            assert!(one.fields.is_sorted_by_key(|field| field.name), "{}", one.name);
        }
    }

    #[test]
    fn a_pod_is_described() {
        let spec = pod().field("spec").and_then(Field::element).unwrap();
        assert_eq!((spec.name, spec.go_name()), ("core.v1.PodSpec", "PodSpec"));
        let containers = spec.field("containers").unwrap();
        assert!(containers.merges() && containers.is_required() && !containers.replaces());
        assert_eq!(containers.merge_key(), Some("name"));
        assert_eq!(containers.list_map_keys().collect::<Vec<_>>(), ["name"]);
        let ports = containers.element().unwrap().field("ports").unwrap();
        assert_eq!(ports.merge_key(), Some("containerPort"));
        assert_eq!(ports.element().unwrap().field("protocol").unwrap().documented_default(), Some(json!("TCP")));
        assert_eq!(spec.field("nodeSelector").unwrap().map_type(), Some("atomic"));
        assert_eq!(pod().field("nothing").map(|field| field.name), None);
    }

    #[test]
    fn kinds_are_found_in_every_group_they_are_served_in() {
        for (group, version, kind) in [
            ("apps", "v1", "Deployment"),
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            ("apiregistration.k8s.io", "v1", "APIService"),
            ("autoscaling", "v1", "Scale"),
            ("policy", "v1", "Eviction"),
            ("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicy"),
            ("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle"),
            ("certificates.k8s.io", "v1beta1", "PodCertificateRequest"),
            ("resource.k8s.io", "v1alpha3", "DeviceTaintRule"),
            ("scheduling.k8s.io", "v1alpha2", "Workload"),
        ] {
            assert!(of(&GroupVersionKind::new(group, version, kind)).is_some(), "{kind}");
        }
        assert!(of(&GroupVersionKind::new("", "v2", "Pod")).is_none());
        assert!(kinds().count() > 100);
    }

    #[test]
    fn a_type_may_contain_itself() {
        let crd = of(&GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")).unwrap();
        let spec = crd.field("spec").and_then(Field::element).unwrap();
        let version = spec.field("versions").and_then(Field::element).unwrap();
        let validation = version.field("schema").and_then(Field::element).unwrap();
        let schema = validation.field("openAPIV3Schema").and_then(Field::element).unwrap();
        assert_eq!(schema.field("properties").and_then(Field::element).unwrap().name, schema.name);
    }
}
