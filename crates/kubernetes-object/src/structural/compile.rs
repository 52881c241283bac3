//! Compiles an `openAPIV3Schema` to the parts that decoding needs (`structuralschema.NewStructural`, `PruneDefaults`).

use super::{Additional, Id, Kind, Node, Properties, Structural, embedded, prune, unknown::Unknown};
use crate::go_text::numbers;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of levels that schemas may nest: more than a document can nest, in which each schema takes two levels.
const MAX_DEPTH: usize = 128;
/// The number of schemas within a schema, with equal ones counted separately. No API server stores a larger schema: it would exceed the
/// size of a request.
const MAX_SCHEMAS: usize = 262_144;

/// The reason why a schema cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileSchemaError {
    /// The schema has more parts or levels than any that an API server stores.
    #[error("the schema is larger or deeper than any that is compiled")]
    TooLarge,
    /// The schema is not structural, with kube-apiserver's text where kube-apiserver refuses the schema too.
    #[error("{0}")]
    NotStructural(String),
}

/// Compiles a part of a schema. Its defaults are not pruned.
pub(super) fn compile_part(schema: &Value) -> Result<Structural, CompileSchemaError> {
    let mut compiler = Compiler::default();
    let root = compiler.schema(schema, 0)?;
    Ok(compiler.finish(root, false))
}

/// Compiles the schema of a definition without `preserveUnknownFields`.
pub(super) fn compile(schema: &Value) -> Result<Structural, CompileSchemaError> {
    let mut compiler = Compiler::default();
    let root = compiler.schema(schema, 0)?;
    compiler.compiled.root = Some(root);
    let root = compiler.prune_defaults(root, &mut Vec::new())?;
    Ok(compiler.finish(root, false))
}

/// Compiles the schema of a definition with `preserveUnknownFields: true`. Decoding ignores such a schema if it is not structural.
pub(super) fn compile_preserving(schema: &Value) -> Result<Structural, CompileSchemaError> {
    let mut compiler = Compiler::default();
    match compiler.schema(schema, 0) {
        Ok(root) => Ok(compiler.finish(root, true)),
        Err(CompileSchemaError::NotStructural(_)) => Ok(Structural { preserves: true, ..Structural::without_schema() }),
        Err(CompileSchemaError::TooLarge) => Err(CompileSchemaError::TooLarge),
    }
}

struct Compiler {
    compiled: Structural,
    known: HashMap<Arc<Node>, Id>,
    schemas: usize,
}

impl Default for Compiler {
    fn default() -> Self {
        Self { compiled: Structural::without_schema(), known: HashMap::new(), schemas: 0 }
    }
}

/// A step on the path from the root schema to a nested one.
#[derive(Clone, Debug)]
enum Step {
    Key(Box<str>),
    Item,
}

impl Compiler {
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Id, CompileSchemaError> {
        self.schemas += 1;
        if depth > MAX_DEPTH || self.schemas > MAX_SCHEMAS {
            return Err(CompileSchemaError::TooLarge);
        }
        let schema = schema.as_object().ok_or_else(|| not_structural("a schema is no JSON object"))?;
        check_supported(schema)?;
        let is_true = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let text = |name: &str| schema.get(name).and_then(Value::as_str).map(Box::from);
        let mut default = schema.get("default").filter(|value| !value.is_null()).cloned();
        if let Some(default) = &mut default {
            numbers::canonicalize(default);
        }
        let list_map_keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let node = Node {
            properties: self.properties(schema, depth)?,
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(_)) => Some(Additional::Any),
                None | Some(Value::Null) => None,
                Some(schema) => Some(Additional::Of(self.schema(schema, depth + 1)?)),
            },
            items: match schema.get("items") {
                None | Some(Value::Null) => None,
                Some(Value::Array(_)) => {
                    return Err(not_structural("OpenAPIV3Schema 'items' must be a schema, but is an array"));
                }
                Some(items) => Some(self.schema(items, depth + 1)?),
            },
            default,
            nullable: is_true("nullable"),
            preserves: is_true("x-kubernetes-preserve-unknown-fields"),
            is_embedded: is_true("x-kubernetes-embedded-resource"),
            kind: schema.get("type").and_then(Value::as_str).and_then(kind),
            is_int_or_string: is_true("x-kubernetes-int-or-string"),
            list_type: text("x-kubernetes-list-type"),
            list_map_keys: list_map_keys.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect(),
            map_type: text("x-kubernetes-map-type"),
            ..Node::default()
        };
        self.add(node)
    }

    fn properties(&mut self, schema: &Map<String, Value>, depth: usize) -> Result<Properties, CompileSchemaError> {
        let Some(properties) = schema.get("properties").filter(|value| !value.is_null()) else { return Ok([].into()) };
        let properties =
            properties.as_object().ok_or_else(|| not_structural("the properties of a schema are no JSON object"))?;
        let compiled: Result<Vec<_>, CompileSchemaError> = properties
            .iter()
            .map(|(name, property)| Ok((Box::from(name.as_str()), self.schema(property, depth + 1)?)))
            .collect();
        let mut compiled = compiled?;
        compiled.sort_unstable();
        Ok(compiled.into())
    }

    /// Adds a node and returns its index; equal nodes share one index.
    fn add(&mut self, mut node: Node) -> Result<Id, CompileSchemaError> {
        let below = |test: fn(&Node) -> bool| {
            let additional = match node.additional {
                Some(Additional::Of(id)) => Some(id),
                _ => None,
            };
            let mut ids = node.properties.iter().map(|(_, id)| *id).chain(additional).chain(node.items);
            ids.any(|id| self.compiled.schema(id).is_some_and(|schema| test(schema.node)))
        };
        let has_defaults = node.default.is_some() || below(|node| node.has_defaults);
        let has_embedded = node.is_embedded || below(|node| node.has_embedded);
        (node.has_defaults, node.has_embedded) = (has_defaults, has_embedded);
        if let Some(id) = self.known.get(&node) {
            return Ok(*id);
        }
        let id = Id::try_from(self.compiled.nodes.len()).map_err(|_| not_structural("the schema is too large"))?;
        let node = Arc::new(node);
        self.compiled.nodes.push(node.clone());
        self.known.insert(node, id);
        Ok(id)
    }

    /// Removes from defaults the values that decoding would drop: unknown fields and invalid metadata. Returns the schema's new index.
    fn prune_defaults(&mut self, id: Id, path: &mut Vec<Step>) -> Result<Id, CompileSchemaError> {
        let Some(old) = self.compiled.nodes.get(usize::try_from(id).unwrap_or(usize::MAX)).cloned() else {
            return Ok(id);
        };
        if !old.has_defaults {
            return Ok(id);
        }
        let mut node = Node::clone(&old);
        if let Some(default) = node.default.take() {
            node.default = self.prune_default(default, path)?;
        }
        let mut child = |step: Step, id: &mut Id| {
            path.push(step);
            *id = self.prune_defaults(*id, path)?;
            path.pop();
            Ok::<_, CompileSchemaError>(())
        };
        if let Some(Additional::Of(id)) = &mut node.additional {
            child(Step::Key("*".into()), id)?;
        }
        if let Some(id) = &mut node.items {
            child(Step::Item, id)?;
        }
        for (name, id) in &mut node.properties {
            child(Step::Key(name.clone()), id)?;
        }
        if node == *old { Ok(id) } else { self.add(node) }
    }

    fn prune_default(&self, default: Value, path: &[Step]) -> Result<Option<Value>, CompileSchemaError> {
        let mut object = path.iter().rev().fold(default, |value, step| match step {
            Step::Key(key) => Value::Object([(key.to_string(), value)].into_iter().collect()),
            Step::Item => Value::Array(vec![value]),
        });
        if !object.is_object() {
            return Err(not_structural(
                "failed to prune default value: object root default value must be of object type",
            ));
        }
        if let Some(root) = self.compiled.root() {
            embedded::coerce_leniently(&mut object, root).map_err(|why| not_structural(&why.to_string()))?;
            prune::prune(&mut object, Some(root), &mut Unknown::default());
        }
        let mut value = Some(object);
        for step in path {
            value = match (step, value) {
                (Step::Key(key), Some(Value::Object(mut fields))) => fields.remove(&**key),
                (Step::Item, Some(Value::Array(items))) => items.into_iter().next(),
                (_, None) => None,
                (_, Some(_)) => return Err(not_structural("failed to prune default value: it lost its place")),
            };
        }
        Ok(value.filter(|value| !value.is_null()))
    }

    /// The schema, without the compiler's own data.
    fn finish(self, root: Id, preserves: bool) -> Structural {
        let mut nodes = self.compiled.nodes;
        nodes.shrink_to_fit();
        Structural { nodes, root: Some(root), preserves }
    }
}

fn not_structural(why: &str) -> CompileSchemaError {
    CompileSchemaError::NotStructural(why.to_owned())
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => return None,
    })
}

/// Rejects fields that no structural schema has (`validateUnsupportedFields`).
fn check_supported(schema: &Map<String, Value>) -> Result<(), CompileSchemaError> {
    let is_set = |name: &str| match schema.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => name == "additionalItems" || !map.is_empty(),
        Some(_) => true,
    };
    const UNSUPPORTED: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(name, _)| is_set(name)) {
        return Err(not_structural(&format!("OpenAPIV3Schema '{name}' is not supported")));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let why = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Err(not_structural(why));
    }
    Ok(())
}
