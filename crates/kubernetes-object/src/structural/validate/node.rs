//! Compiles a schema to the parts that validation needs (`ConvertJSONSchemaProps`, `ToKubeOpenAPI`).

use super::allowed::Allowed;
use super::format::{self, Format};
use super::{Compile, InvalidPattern, PatternMatcher};
use crate::go_text::numbers;
use crate::structural::CompileSchemaError;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The number of levels that schemas may nest.
const MAX_DEPTH: usize = 128;
/// The number of schemas within a schema, with equal ones counted separately.
const MAX_SCHEMAS: usize = 262_144;
/// The fields that hold schemas: the indices of these are part of a schema's identity, not their texts.
const CHILDREN: [&str; 7] = ["properties", "additionalProperties", "items", "allOf", "anyOf", "oneOf", "not"];
/// The fields that validation does not need.
const IGNORED: [&str; 6] = ["description", "title", "default", "example", "externalDocs", "x-kubernetes-validations"];

/// The index of a node.
pub(super) type Id = u32;

/// One schema within a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) types: Box<[Box<str>]>,
    pub(super) nullable: bool,
    /// The format, unless it does not suit the type.
    pub(super) format: Option<Box<str>>,
    /// The test of a format of strings.
    pub(super) is_of_format: Option<Format>,
    pub(super) maximum: Option<Bound>,
    pub(super) minimum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) required: Box<[Box<str>]>,
    pub(super) allowed: Option<Allowed>,
    /// Sorted by name.
    pub(super) properties: Box<[(Box<str>, Id)]>,
    pub(super) additional: Additional,
    pub(super) items: Option<Id>,
    pub(super) all_of: Box<[Id]>,
    pub(super) any_of: Box<[Id]>,
    pub(super) one_of: Box<[Id]>,
    pub(super) not: Option<Id>,
    pub(super) list_type: Option<Box<str>>,
    pub(super) list_map_keys: Box<[Box<str>]>,
    pub(super) is_embedded: bool,
    /// Whether the node or a node below it is a set, a list with keys or an embedded resource.
    pub(super) has_extensions: bool,
}

/// `minimum` or `maximum`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) is_exclusive: bool,
}

/// `additionalProperties`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Additional {
    /// Missing, or true.
    #[default]
    Any,
    /// False.
    None,
    Of(Id),
}

/// `pattern`
pub(super) struct Pattern {
    pub(super) text: Box<str>,
    /// The compiled pattern, or Go's error.
    pub(super) matcher: Result<PatternMatcher, InvalidPattern>,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Node {
    /// The schema of a property.
    pub(super) fn property(&self, name: &str) -> Option<Id> {
        let at = self.properties.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, id)| *id)
    }

    /// The schema of a property or of a map's value.
    pub(super) fn field(&self, name: &str) -> Option<Id> {
        match (self.property(name), self.additional) {
            (Some(id), _) => Some(id),
            (None, Additional::Of(id)) => Some(id),
            (None, Additional::Any | Additional::None) => None,
        }
    }

    pub(super) fn has_type(&self, name: &str) -> bool {
        self.types.iter().any(|own| **own == *name)
    }

    fn children(&self) -> impl Iterator<Item = Id> {
        let additional = match self.additional {
            Additional::Of(id) => Some(id),
            Additional::Any | Additional::None => None,
        };
        self.properties.iter().map(|(_, id)| *id).chain(additional).chain(self.items)
    }
}

/// The purpose of a compiled schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Purpose {
    /// Custom resources (`NewSchemaValidator`).
    Resources,
    /// Default values (`ToKubeOpenAPI`): any value is an int-or-string, and no format is dropped.
    Defaults,
}

pub(super) struct Compiler<'a> {
    pub(super) nodes: Vec<Node>,
    known: HashMap<String, Id>,
    schemas: usize,
    patterns: &'a Compile<'a>,
    purpose: Purpose,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(patterns: &'a Compile<'a>, purpose: Purpose) -> Self {
        Self { nodes: Vec::new(), known: HashMap::new(), schemas: 0, patterns, purpose }
    }

    pub(super) fn schema(&mut self, schema: &Value, depth: usize) -> Result<Id, CompileSchemaError> {
        self.schemas += 1;
        if depth > MAX_DEPTH || self.schemas > MAX_SCHEMAS {
            return Err(CompileSchemaError::TooLarge);
        }
        let schema = schema
            .as_object()
            .ok_or_else(|| CompileSchemaError::NotStructural("a schema is no JSON object".to_owned()))?;
        let mut node = Node::default();
        self.children(&mut node, schema, depth)?;
        let key = identity(schema, &node);
        if let Some(id) = self.known.get(&key) {
            return Ok(*id);
        }
        self.own(&mut node, schema);
        node.has_extensions = node.is_embedded
            || node.list_type.is_some()
            || node.children().any(|id| self.node(id).is_some_and(|node| node.has_extensions));
        let id = Id::try_from(self.nodes.len()).map_err(|_| CompileSchemaError::TooLarge)?;
        self.nodes.push(node);
        self.known.insert(key, id);
        Ok(id)
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(usize::try_from(id).ok()?)
    }

    fn children(
        &mut self,
        node: &mut Node,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), CompileSchemaError> {
        let object = |name: &str| schema.get(name).filter(|value| value.is_object());
        if let Some(properties) = object("properties").and_then(Value::as_object) {
            let compiled: Result<Vec<_>, CompileSchemaError> = properties
                .iter()
                .map(|(name, property)| Ok((Box::from(name.as_str()), self.schema(property, depth + 1)?)))
                .collect();
            let mut compiled = compiled?;
            compiled.sort_unstable();
            node.properties = compiled.into();
        }
        node.additional = match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => Additional::None,
            Some(additional @ Value::Object(_)) => Additional::Of(self.schema(additional, depth + 1)?),
            _ => Additional::Any,
        };
        node.items = object("items").map(|items| self.schema(items, depth + 1)).transpose()?;
        node.not = object("not").map(|not| self.schema(not, depth + 1)).transpose()?;
        for (name, list) in [("allOf", &mut node.all_of), ("anyOf", &mut node.any_of), ("oneOf", &mut node.one_of)] {
            let schemas = schema.get(name).and_then(Value::as_array).into_iter().flatten();
            let compiled: Result<Vec<_>, CompileSchemaError> =
                schemas.map(|schema| self.schema(schema, depth + 1)).collect();
            *list = compiled?.into();
        }
        Ok(())
    }

    /// Compiles the fields that hold no schemas.
    fn own(&self, node: &mut Node, schema: &Map<String, Value>) {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let is_true = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let whole = |name: &str| schema.get(name).and_then(whole);
        let texts = |name: &str| -> Box<[Box<str>]> {
            let texts = schema.get(name).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(Box::from).collect()
        };
        let bound =
            |name: &str, exclusive: &str| number(name).map(|limit| Bound { limit, is_exclusive: is_true(exclusive) });
        node.types = match (is_true("x-kubernetes-int-or-string"), self.purpose) {
            (true, Purpose::Resources) => [Box::from("integer"), Box::from("string")].into(),
            _ => text("type").map(Box::from).into_iter().collect(),
        };
        let is_kept = |format: &&str| self.purpose == Purpose::Defaults || format::is_supported(&node.types, format);
        node.format = text("format").filter(is_kept).map(Box::from);
        node.is_of_format = node.format.as_deref().and_then(format::of);
        node.nullable = is_true("nullable");
        node.maximum = bound("maximum", "exclusiveMaximum");
        node.minimum = bound("minimum", "exclusiveMinimum");
        node.multiple_of = number("multipleOf");
        (node.max_length, node.min_length) = (whole("maxLength"), whole("minLength"));
        (node.max_items, node.min_items) = (whole("maxItems"), whole("minItems"));
        (node.max_properties, node.min_properties) = (whole("maxProperties"), whole("minProperties"));
        node.pattern =
            text("pattern").map(|pattern| Pattern { text: pattern.into(), matcher: (self.patterns)(pattern) });
        node.unique_items = is_true("uniqueItems");
        node.required = texts("required");
        let allowed = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty());
        node.allowed = allowed.map(|values| Allowed::new(values));
        node.list_type = text("x-kubernetes-list-type").map(Box::from);
        node.list_map_keys = texts("x-kubernetes-list-map-keys");
        node.is_embedded = is_true("x-kubernetes-embedded-resource");
    }
}

/// A whole number; Go decodes these fields into integers.
fn whole(value: &Value) -> Option<i64> {
    let mut value = value.clone();
    numbers::canonicalize(&mut value);
    value.as_i64()
}

/// A text that equal schemas have in common: their fields, and the indices of the schemas below them.
fn identity(schema: &Map<String, Value>, node: &Node) -> String {
    let mut key = String::new();
    for (name, value) in schema {
        if !CHILDREN.contains(&name.as_str()) && !IGNORED.contains(&name.as_str()) {
            key.extend([name, ":", &value.to_string(), ","]);
        }
    }
    key.push_str(&format!(
        "{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
        node.properties, node.additional, node.items, node.all_of, node.any_of, node.one_of, node.not
    ));
    key
}
