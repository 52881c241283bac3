//! Types of objects whose schema is known: built-in kinds, and custom resources by their structural schema
//! (`common.SchemaDeclType` of kube-apiserver).

use super::environment::Table;
use super::types::Type;
use crate::object::GroupVersionKind;
use crate::object::schema::{self as builtin, Scalar, Shape, TypeReference};
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects nest no deeper in what types are made of.
const MAX_DEPTH: usize = 64;

/// What an object of a schema looks like to expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Declared {
    /// A value of this type.
    Value(Type),
    /// A list.
    List(Box<Declared>),
    /// An object with any keys.
    Map(Box<Declared>),
    /// An object with these fields, by their escaped names.
    Object(BTreeMap<String, Declared>),
}

impl Declared {
    /// What an `openAPIV3Schema` declares; none if expressions cannot see it. `is_resource` is whether it is that of a whole
    /// resource, whose type and name can always be seen.
    pub fn of_schema(schema: &Value, is_resource: bool) -> Option<Self> {
        of_schema(schema, is_resource, 0)
    }

    /// What a built-in kind declares; none of other kinds.
    pub fn of_kind(kind: &GroupVersionKind) -> Option<Self> {
        let mut fields = of_type(builtin::of(kind)?, &mut Vec::new());
        add_identity(&mut fields);
        Some(Self::Object(fields))
    }

    /// The type, when the object's is called by this name, with the types that are within it: `MaybeAssignTypeName`.
    pub fn declare(&self, name: &str, table: &mut Table) -> Type {
        match self {
            Self::Value(of) => of.clone(),
            Self::List(items) => Type::list(items.declare(&format!("{name}.@idx"), table)),
            Self::Map(values) => Type::map(Type::String, values.declare(&format!("{name}.@elem"), table)),
            Self::Object(fields) => {
                table.add_type(name);
                for (field, of) in fields {
                    let of = of.declare(&format!("{name}.{field}"), table);
                    table.add(name, field, of);
                }
                Type::object(name)
            }
        }
    }
}

/// The name by which expressions know a property; none if they cannot: `cel.Escape`.
pub fn escape(property: &str) -> Option<String> {
    if property.is_empty() || property.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(property) {
        return Some(format!("__{property}__"));
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.next_if_eq(&'_').is_some() => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Whether the language keeps a word for itself: `celReservedSymbols`.
pub fn is_reserved(word: &str) -> bool {
    const RESERVED: &[&str] = &[
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    RESERVED.contains(&word)
}

/// The property that expressions know by this name; none if it is no escaped name: `cel.Unescape`.
pub fn unescape(name: &str) -> Option<String> {
    let mut property = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("__") {
        let inner = &rest[at + 2..];
        let Some(end) = inner.find('_').filter(|end| *end > 0 && inner[*end..].starts_with("__")) else {
            // No escape begins here.
            property.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        };
        property.push_str(&rest[..at]);
        match &inner[..end] {
            "underscores" => property.push_str("__"),
            "dot" => property.push('.'),
            "dash" => property.push('-'),
            "slash" => property.push('/'),
            word if name.len() == word.len() + 4 && escape(word).as_deref() == Some(name) => property.push_str(word),
            _ => return None,
        }
        rest = &inner[end + 2..];
    }
    property.push_str(rest);
    Some(property)
}

fn of_schema(schema: &Value, is_resource: bool, depth: usize) -> Option<Declared> {
    if depth > MAX_DEPTH {
        return None;
    }
    let has = |extension: &str| schema.get(extension).and_then(Value::as_bool) == Some(true);
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    if has("x-kubernetes-int-or-string") || text("format") == "int-or-string" {
        return Some(Declared::Value(Type::Dyn));
    }
    let below = |schema: &Value| {
        of_schema(schema, schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)), depth + 1)
    };
    Some(match text("type") {
        "array" => Declared::List(Box::new(below(schema.get("items").filter(|items| items.is_object())?)?)),
        "object" => {
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                return Some(Declared::Map(Box::new(below(values)?)));
            }
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let fields = properties.filter_map(|(name, property)| Some((escape(name)?, below(property)?)));
            let mut fields: BTreeMap<String, Declared> = fields.collect();
            if is_resource {
                add_identity(&mut fields);
            }
            Declared::Object(fields)
        }
        "string" => Declared::Value(match text("format") {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        }),
        "boolean" => Declared::Value(Type::Bool),
        "number" => Declared::Value(Type::Double),
        "integer" => Declared::Value(Type::Int),
        _ => return None,
    })
}

/// The type and name of a resource can be seen whatever its schema says of them: `WithTypeAndObjectMeta`.
fn add_identity(fields: &mut BTreeMap<String, Declared>) {
    let string = || Declared::Value(Type::String);
    let is_string = |fields: &BTreeMap<String, Declared>, name: &str| {
        matches!(fields.get(name), Some(Declared::Value(Type::String)))
    };
    let named = matches!(fields.get("metadata"), Some(Declared::Object(metadata))
        if is_string(metadata, "name") && is_string(metadata, "generateName"));
    if named && is_string(fields, "kind") && is_string(fields, "apiVersion") {
        return;
    }
    let metadata = ["name", "generateName"].map(|name| (name.to_owned(), string()));
    fields.insert("kind".to_owned(), string());
    fields.insert("apiVersion".to_owned(), string());
    fields.insert("metadata".to_owned(), Declared::Object(metadata.into()));
}

/// `within` are the types around: one that contains itself is an object without fields there, as `PopulateRefs` has it.
fn of_type(of: &'static builtin::Type, within: &mut Vec<&'static str>) -> BTreeMap<String, Declared> {
    within.push(of.name);
    let fields = of.fields().iter().filter_map(|field| Some((escape(field.name)?, of_shape(&field.shape, within)?)));
    let fields = fields.collect();
    within.pop();
    fields
}

fn of_shape(shape: &Shape, within: &mut Vec<&'static str>) -> Option<Declared> {
    Some(match shape {
        Shape::Scalar(scalar) => Declared::Value(match scalar {
            Scalar::String => Type::String,
            Scalar::Boolean => Type::Bool,
            Scalar::Int32 | Scalar::Int64 => Type::Int,
            Scalar::Double => Type::Double,
            Scalar::Bytes => Type::Bytes,
            Scalar::Time | Scalar::MicroTime => Type::Timestamp,
            Scalar::IntOrString => Type::Dyn,
            // Its schema is a choice of two types, and so has none.
            Scalar::Quantity => return None,
        }),
        Shape::List(items) => Declared::List(Box::new(of_shape(items, within)?)),
        Shape::Map(values) => Declared::Map(Box::new(of_shape(values, within)?)),
        Shape::Object(reference) => of_reference(*reference, within)?,
        // Within schemas it is a choice of types, elsewhere an object of which nothing is known.
        Shape::Any if within.last().is_some_and(|name| name.ends_with(".JSONSchemaProps")) => return None,
        Shape::Any => Declared::Object(BTreeMap::new()),
    })
}

fn of_reference(reference: TypeReference, within: &mut Vec<&'static str>) -> Option<Declared> {
    let of = reference.resolve()?;
    Some(Declared::Object(if within.contains(&of.name) { BTreeMap::new() } else { of_type(of, within) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::environment::{Environment, Messages};
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
    fn properties_are_escaped_and_back() {
        for (property, name) in [
            ("namespace", Some("__namespace__")),
            ("a-b.c/d__e_f", Some("a__dash__b__dot__c__slash__d__underscores__e_f")),
            ("_a", Some("_a")),
            ("___", Some("__underscores___")),
            ("1a", None),
            ("a b", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(escape(property).as_deref(), name, "{property}");
            if let Some(name) = name {
                assert_eq!(unescape(name).as_deref(), Some(property), "{name}");
            }
        }
        assert_eq!(unescape("a__nothing__"), None);
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
        let declared = Declared::of_schema(&schema, true).unwrap();
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
