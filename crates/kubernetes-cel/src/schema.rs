//! Types of objects with a known schema: built-in kinds, and custom resources by their structural schema (`common.SchemaDeclType` of
//! kube-apiserver).

pub use super::escape::{escape, is_reserved, unescape};

use super::message_types::Table;
use super::release::Release;
use super::types::Type;
use kubernetes_object::kind::GroupVersionKind;
use kubernetes_object::schema::{self as builtin, Scalar, Shape as Field, TypeReference};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The number of levels that objects in declared types may nest.
const MAX_DEPTH: usize = 64;
/// The bytes of a request, from which the sizes of unbounded values are derived: `DefaultMaxRequestSizeBytes`.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The length of an object's name: `DNS1123SubdomainMaxLength`.
const MAX_NAME: u64 = 253;
/// The bytes of an unbounded string without its quotes.
const MAX_STRING: u64 = MAX_REQUEST_BYTES - 2;

/// The declaration of a schema's values for expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The shape of the values.
    pub shape: Shape,
    /// The highest number of elements or bytes: `MaxElements`.
    pub max_elements: u64,
    /// The lowest number of bytes in JSON: `MinSerializedSize`.
    pub min_bytes: u64,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A value of this type.
    Value(Type),
    /// A list.
    List(Box<Declared>),
    /// An object with any keys.
    Map(Box<Declared>),
    /// An object with these fields, by their escaped names.
    Object(BTreeMap<String, Declared>),
}

/// The part of a resource's metadata that expressions see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    /// Name and generateName, as in the rules of custom resources; since 1.37 their length is bounded.
    Names(Release),
    /// The metadata of all objects, as in the API's documents.
    All,
}

impl Declared {
    /// The declaration that the rules of an `openAPIV3Schema` use in a release; `None` if expressions cannot see its values. With
    /// `is_resource` the schema is that of a whole resource, whose type and name are always visible.
    pub fn of_schema(schema: &Value, is_resource: bool, release: Release) -> Option<Self> {
        of_schema(schema, is_resource, Metadata::Names(release), 0)
    }

    /// The declaration that policies use for the `openAPIV3Schema` of a custom resource.
    pub fn of_custom_kind(schema: &Value) -> Option<Self> {
        of_schema(schema, true, Metadata::All, 0)
    }

    /// The declaration of a built-in kind; `None` for other kinds.
    pub fn of_kind(kind: &GroupVersionKind) -> Option<Self> {
        let mut fields = of_type(builtin::of(kind)?, &mut Vec::new());
        add_identity(&mut fields);
        Some(Self::object(fields))
    }

    fn value(of: Type, max_elements: u64, min_bytes: u64) -> Self {
        Self { shape: Shape::Value(of), max_elements, min_bytes }
    }

    fn text() -> Self {
        Self::value(Type::String, MAX_STRING, 2)
    }

    fn object(fields: BTreeMap<String, Self>) -> Self {
        Self { shape: Shape::Object(fields), max_elements: 0, min_bytes: 2 }
    }

    fn list(items: Self, max_items: Option<u64>) -> Self {
        let max_elements = max_items.unwrap_or(MAX_STRING / (items.min_bytes + 1));
        Self { shape: Shape::List(Box::new(items)), max_elements, min_bytes: 2 }
    }

    fn map(values: Self, max_properties: Option<u64>) -> Self {
        let max_elements = max_properties.unwrap_or(MAX_STRING / (values.min_bytes + 6));
        Self { shape: Shape::Map(Box::new(values)), max_elements, min_bytes: 2 }
    }

    /// Adds the object types of the declaration to a table, the outermost one as `name`, and returns the type (`MaybeAssignTypeName`).
    pub fn declare(&self, name: &str, table: &mut Table) -> Type {
        match &self.shape {
            Shape::Value(of) => of.clone(),
            Shape::List(items) => Type::list(items.declare(&format!("{name}.@idx"), table)),
            Shape::Map(values) => Type::map(Type::String, values.declare(&format!("{name}.@elem"), table)),
            Shape::Object(fields) => {
                table.add_type(name);
                for (field, of) in fields {
                    let of = of.declare(&format!("{name}.{field}"), table);
                    table.add(name, field, of);
                }
                Type::object(name)
            }
        }
    }

    /// The largest size of the value at a path within an object (`sizeEstimator`).
    pub fn size_at(&self, path: &[&str]) -> Option<u64> {
        let Some((first, rest)) = path.split_first() else { return Some(self.max_elements) };
        match (&self.shape, *first) {
            (Shape::List(below), "@items" | "@values") | (Shape::Map(below), "@items" | "@values") => {
                below.size_at(rest)
            }
            // Keys are strings without any bounds, and here without a size.
            (Shape::Map(_), "@keys") => rest.is_empty().then_some(0),
            (Shape::Object(fields), field) => fields.get(field)?.size_at(rest),
            _ => None,
        }
    }

    /// The highest number of values of this schema in a request (`maxCardinality`).
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }
}

/// The properties that every resource has, whatever its schema contains (`WithTypeAndObjectMeta`).
static IDENTITY: LazyLock<Value> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    json!({"kind": text(), "apiVersion": text(), "metadata": {"type": "object", "properties": {"name": text(), "generateName": text()}}})
});

/// The properties of a schema; for a resource, its type and name are added.
pub fn properties(schema: &Value, is_resource: bool) -> impl Iterator<Item = (&str, &Value)> {
    let added = if is_resource && !is_identified(schema) { IDENTITY.as_object() } else { None };
    let own = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    own.filter(move |(name, _)| added.is_none_or(|added| !added.contains_key(*name)))
        .chain(added.into_iter().flatten())
        .map(|(name, schema)| (&**name, schema))
}

/// Whether a schema has the type and name of a resource itself.
fn is_identified(schema: &Value) -> bool {
    let is = |at: &str, of: &str| schema.pointer(at).and_then(Value::as_str) == Some(of);
    is("/properties/kind/type", "string")
        && is("/properties/apiVersion/type", "string")
        && is("/properties/metadata/type", "object")
        && is("/properties/metadata/properties/name/type", "string")
        && is("/properties/metadata/properties/generateName/type", "string")
}

/// The names of a resource with bounds (`cappedLengthStringType`). A suffix of at least one byte follows generateName.
fn bounded_names(schema: &Value) -> Declared {
    let text = |name: &str, most: u64| {
        let given = schema.pointer(&format!("/properties/metadata/properties/{name}/maxLength"));
        let length = given.and_then(Value::as_i64).map_or(most, |given| most.min(given.max(0) as u64));
        (name.to_owned(), Declared { max_elements: 4 * length, ..Declared::text() })
    };
    Declared::object([text("name", MAX_NAME), text("generateName", MAX_NAME - 1)].into())
}

fn of_schema(schema: &Value, is_resource: bool, metadata: Metadata, depth: usize) -> Option<Declared> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64).map(|bound| bound.max(0));
    // `maxLength` counts code points, which have at most four bytes.
    let max_length = bound("maxLength").map(|length| length.wrapping_mul(4) as u64);
    if has(schema, "x-kubernetes-int-or-string") {
        return Some(Declared::value(Type::Dyn, max_length.unwrap_or(MAX_STRING), 1));
    }
    let below = |schema: &Value| of_schema(schema, has(schema, "x-kubernetes-embedded-resource"), metadata, depth + 1);
    Some(match text("type") {
        "array" => {
            let items = below(schema.get("items").filter(|items| items.is_object())?)?;
            Declared::list(items, bound("maxItems").map(|max| max as u64))
        }
        "object" => {
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                return Some(Declared::map(below(values)?, bound("maxProperties").map(|max| max as u64)));
            }
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
            let mut object = Declared::object(BTreeMap::new());
            let mut fields = BTreeMap::new();
            for (name, property) in properties(schema, is_resource) {
                let Some(of) = below(property) else { continue };
                if is_required(name) && property.get("default").is_none_or(Value::is_null) {
                    object.min_bytes += name.len() as u64 + of.min_bytes + 4;
                }
                if let Some(name) = escape(name) {
                    fields.insert(name, of);
                }
            }
            let metadata = match metadata {
                _ if !is_resource => None,
                Metadata::All => object_metadata(),
                Metadata::Names(release) if release.since(37) && !is_identified(schema) => Some(bounded_names(schema)),
                Metadata::Names(_) => None,
            };
            fields.extend(metadata.map(|of| ("metadata".to_owned(), of)));
            Declared { shape: Shape::Object(fields), ..object }
        }
        "string" => match text("format") {
            "byte" => {
                let max = bound("maxLength").map_or(MAX_STRING, |max| max as u64);
                Declared::value(Type::Bytes, max, 2)
            }
            "duration" => Declared::value(Type::Duration, 32, 3),
            "date" => Declared::value(Type::Timestamp, 12, 12),
            "date-time" => Declared::value(Type::Timestamp, 32, 21),
            _ => Declared {
                max_elements: max_length.or_else(|| longest(schema)).unwrap_or(MAX_STRING),
                ..Declared::text()
            },
        },
        "boolean" => Declared::value(Type::Bool, 0, 4),
        "number" => Declared::value(Type::Double, 0, 1),
        "integer" => Declared::value(Type::Int, 0, 1),
        _ => return None,
    })
}

/// Whether an extension of a schema is true.
pub fn has(schema: &Value, extension: &str) -> bool {
    schema.get(extension).and_then(Value::as_bool) == Some(true)
}

/// The bytes of the longest text in an `enum`.
fn longest(schema: &Value) -> Option<u64> {
    let values = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty())?;
    values.iter().map(|value| value.as_str().map_or(0, str::len) as u64).max()
}

fn object_metadata() -> Option<Declared> {
    let pod = builtin::of(&GroupVersionKind::new("", "v1", "Pod"))?;
    of_shape(&pod.field("metadata")?.shape, &mut vec![pod.name])
}

/// Adds the type and name of a resource, which are visible whatever its schema contains (`WithTypeAndObjectMeta`).
fn add_identity(fields: &mut BTreeMap<String, Declared>) {
    let is_string = |fields: &BTreeMap<String, Declared>, name: &str| {
        matches!(fields.get(name), Some(Declared { shape: Shape::Value(Type::String), .. }))
    };
    let named = matches!(fields.get("metadata"), Some(Declared { shape: Shape::Object(metadata), .. })
        if is_string(metadata, "name") && is_string(metadata, "generateName"));
    if !named || !is_string(fields, "kind") || !is_string(fields, "apiVersion") {
        let added = IDENTITY.as_object().into_iter().flatten();
        let added = added
            .filter_map(|(name, schema)| Some((name.clone(), Declared::of_schema(schema, false, Release::default())?)));
        fields.extend(added);
    }
}

/// `within` are the surrounding types: a type that contains itself becomes an object without fields there, as in `PopulateRefs`.
fn of_type(of: &'static builtin::ApiType, within: &mut Vec<&'static str>) -> BTreeMap<String, Declared> {
    within.push(of.name);
    let fields = of.fields().iter().filter_map(|field| Some((escape(field.name)?, of_shape(&field.shape, within)?)));
    let fields = fields.collect();
    within.pop();
    fields
}

fn of_shape(shape: &Field, within: &mut Vec<&'static str>) -> Option<Declared> {
    Some(match shape {
        Field::Scalar(scalar) => match scalar {
            Scalar::String => Declared::text(),
            Scalar::Boolean => Declared::value(Type::Bool, 0, 4),
            Scalar::Int32 | Scalar::Int64 => Declared::value(Type::Int, 0, 1),
            Scalar::Double => Declared::value(Type::Double, 0, 1),
            Scalar::Bytes => Declared::value(Type::Bytes, MAX_STRING, 2),
            Scalar::Time | Scalar::MicroTime => Declared::value(Type::Timestamp, 32, 21),
            Scalar::IntOrString => Declared::value(Type::Dyn, MAX_STRING, 1),
            // The schema of a quantity is a choice of two types, and so has no type.
            Scalar::Quantity => return None,
        },
        Field::List(items) => Declared::list(of_shape(items, within)?, None),
        Field::Map(values) => Declared::map(of_shape(values, within)?, None),
        Field::Object(reference) => of_reference(*reference, within)?,
        // Within schemas the value is a choice of types, elsewhere an object without known fields.
        Field::Any if within.last().is_some_and(|name| name.ends_with(".JSONSchemaProps")) => return None,
        Field::Any => Declared::object(BTreeMap::new()),
    })
}

fn of_reference(reference: TypeReference, within: &mut Vec<&'static str>) -> Option<Declared> {
    let of = reference.resolve()?;
    Some(Declared::object(if within.contains(&of.name) { BTreeMap::new() } else { of_type(of, within) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::message_types::Messages;
    use serde_json::json;
    use std::sync::Arc;

    fn typed(declared: &Declared, source: &str) -> Result<String, String> {
        let mut table = Table::default();
        let object = declared.declare("Object1", &mut table);
        let environment = Environment::new(Arc::new(table)).variable("self", object);
        let checked = environment.check(source);
        checked
            .map(|checked| checked.output().to_string())
            .map_err(|error| error.0.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_structural_schema_has_types() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "port": {"x-kubernetes-int-or-string": true},
                "my-list": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "data": {"type": "string", "format": "byte"},
                "anything": {"x-kubernetes-preserve-unknown-fields": true},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}});
        let declared = Declared::of_schema(&schema, true, Release::default()).unwrap();
        for (source, of) in [
            ("self.spec.replicas", "int"),
            ("self.spec.port", "dyn"),
            ("self.spec.my__dash__list[0].at", "timestamp"),
            ("self.spec.my__dash__list", "list(Object1.spec.my__dash__list.@idx)"),
            ("self.spec.labels", "map(string, string)"),
            ("self.spec.data", "bytes"),
            ("self.spec.free", "Object1.spec.free"),
            ("self.spec.template.metadata.name", "string"),
            ("self.metadata.name + self.kind", "string"),
        ] {
            assert_eq!(typed(&declared, source).as_deref(), Ok(of), "{source}");
        }
        for source in ["self.spec.anything", "self.spec.free.x", "self.metadata.labels", "self.spec.template.spec"] {
            assert!(typed(&declared, source).unwrap_err().contains("undefined field"), "{source}");
        }
    }

    #[test]
    fn built_in_kinds_have_types() {
        let of = |group, version, kind| Declared::of_kind(&GroupVersionKind::new(group, version, kind)).unwrap();
        let deployment = of("apps", "v1", "Deployment");
        for (source, of) in [
            ("self.spec.replicas", "int"),
            ("self.spec.template.spec.containers[0].ports[0].containerPort", "int"),
            ("self.spec.strategy.rollingUpdate.maxSurge", "dyn"),
            ("self.metadata.creationTimestamp", "timestamp"),
            ("self.metadata.labels", "map(string, string)"),
            ("self.metadata.__namespace__", "string"),
            ("self.metadata.namespace", "string"),
        ] {
            assert_eq!(typed(&deployment, source).as_deref(), Ok(of), "{source}");
        }
        assert!(typed(&deployment, "self.spec.nothing").unwrap_err().ends_with("undefined field 'nothing'"));
        let definition = of("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let mut table = Table::default();
        definition.declare("Definition", &mut table);
        assert!(table.has("Definition.spec.versions.@idx.schema.openAPIV3Schema"));
    }
}
