//! Custom resources as kube-apiserver decodes them, by the structural schema of their CustomResourceDefinition: pruned,
//! with metadata of metadata's types, and with defaults. Nothing here validates.
//!
//! A schema is compiled to what decoding needs of it. Equal parts of it are kept once, so that a definition which repeats a
//! pod template costs little more than one.

mod compile;
mod defaults;
mod embedded;
mod metadata;
mod nulls;
pub mod numbers;
mod prune;
mod unknown;

use super::Object;
use super::normal::Normal;
use crate::status::Cause;
use defaults::Defaulter;
use serde_json::{Map, Value};
use std::sync::Arc;
use unknown::Unknown;

/// A compiled schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Structural {
    nodes: Vec<Arc<Node>>,
    root: Option<Id>,
    /// `spec.preserveUnknownFields` of the definition.
    preserves: bool,
}

/// The place of a node among its schema's.
type Id = u32;

/// The places of properties, sorted by their names.
type Properties = Box<[(Box<str>, Id)]>;

/// One schema within a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// Sorted by name.
    properties: Properties,
    additional: Option<Additional>,
    items: Option<Id>,
    default: Option<Value>,
    nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    preserves: bool,
    /// `x-kubernetes-embedded-resource`
    is_embedded: bool,
    /// Whether it or what is below it has a default.
    has_defaults: bool,
    /// Whether it or what is below it is an embedded resource.
    has_embedded: bool,
    kind: Option<Kind>,
    is_int_or_string: bool,
    list_type: Option<Box<str>>,
    list_map_keys: Box<[Box<str>]>,
    map_type: Option<Box<str>>,
}

/// `type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// With properties, or any keys.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A number without fraction.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// `additionalProperties`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Additional {
    /// A boolean: keys are kept, and nothing below them.
    Any,
    Of(Id),
}

impl Structural {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// When it is none of a structural schema's, or too large or deep.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        compile::compile(schema)
    }

    /// What the API server decodes by where a version has no schema: everything but metadata is unknown.
    pub fn without_schema() -> Self {
        Self { nodes: Vec::new(), root: None, preserves: false }
    }

    /// Compiles the `openAPIV3Schema` of a definition with `preserveUnknownFields: true`: nothing is pruned, and a schema
    /// that is not structural is as none.
    ///
    /// # Errors
    /// When it is too large or deep.
    pub fn compile_preserving(schema: &Value) -> Result<Self, String> {
        compile::compile_preserving(schema)
    }

    /// Decodes an object of the schema's kind (`unstructuredSchemaCoercer.apply`, then `unstructuredDefaulter.Default`).
    ///
    /// # Errors
    /// When its metadata, or that of an embedded resource, is of the wrong types, or its defaults are too much; with the text that kube-apiserver puts
    /// after `cannot be handled as a …: `.
    pub fn normalize(&self, mut value: Value) -> Result<Normal, String> {
        numbers::read(&mut value);
        // Go writes it, and reads it again into its type.
        value.get_mut("metadata").into_iter().for_each(numbers::canonicalize);
        let metadata = value.get("metadata").map(metadata::decode).transpose()?;
        let mut unknown = Unknown::default();
        let metadata = metadata.map(|metadata| {
            metadata.unknown.iter().for_each(|path| unknown.record(&["metadata.", path]));
            metadata.fields
        });
        if !self.preserves {
            prune::prune(&mut value, self.root(), &mut unknown);
            prune::prune_nulls(&mut value, self.root());
        }
        embedded::coerce(&mut value, self.root(), &mut unknown)?;
        let mut object = Object::from_value(value).ok_or("the object is no JSON object")?;
        if let Some(metadata) = metadata {
            object.fields_mut().insert("metadata".into(), Value::Object(metadata));
        }
        self.apply_defaults(&mut object)?;
        Ok(Normal { object, unknown: unknown.into_errors() })
    }

    /// Sets the defaults alone, as kube-apiserver does with what a mutating webhook made of an object: it prunes nothing then.
    ///
    /// # Errors
    /// When they are too much.
    pub fn apply_defaults(&self, object: &mut Object) -> Result<(), String> {
        match self.root().filter(|root| root.node.has_defaults) {
            Some(root) => Defaulter::default().apply_to_fields(object.fields_mut(), root),
            None => Ok(()),
        }
    }

    /// Why kube-apiserver takes no such object for a valid one, where the API server behind never gets to see it: with what it
    /// drops before it validates, or with what it decodes for a bad request. What is put into an object after it was decoded can be
    /// so.
    pub fn invalid(&self, object: &Object, is_status: bool) -> Vec<Cause> {
        let Some(root) = self.root().filter(|_| !self.preserves) else { return Vec::new() };
        let mut causes = nulls::find(object.fields(), root, is_status);
        if root.node.has_embedded {
            let mut whole = Value::Object(object.fields().clone());
            causes.extend(embedded::coerce(&mut whole, Some(root), &mut Unknown::default()).err().map(|why| {
                let (field, message) = why.split_once(": ").unwrap_or_default();
                Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: field.into() }
            }));
        }
        causes
    }

    /// The schema as a whole; none where a version has none.
    pub fn root(&self) -> Option<Schema<'_>> {
        self.schema(self.root?)
    }

    fn schema(&self, id: Id) -> Option<Schema<'_>> {
        let node = self.nodes.get(usize::try_from(id).ok()?)?;
        Some(Schema { all: self, node })
    }
}

/// A schema, or one within it.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    all: &'a Structural,
    node: &'a Node,
}

impl<'a> Schema<'a> {
    /// The schema of a field, or of what is under a key of a map.
    pub fn field(self, name: &str) -> Option<Self> {
        match (self.property(name), self.node.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Of(id))) => self.all.schema(id),
            (None, _) => None,
        }
    }

    /// The schema of a list's items; of everything else the schema itself.
    pub fn element(self) -> Option<Self> {
        match self.node.items {
            Some(_) => self.items(),
            None => Some(self),
        }
    }

    /// Its type; none where the schema does not say, or where there may be several.
    pub fn kind(self) -> Option<Kind> {
        self.node.kind.filter(|_| !self.node.is_int_or_string)
    }

    /// Whether fields that it does not name are kept.
    pub fn preserves_unknown_fields(self) -> bool {
        self.node.preserves
    }

    /// Whether it is a whole object, with an apiVersion, a kind and metadata.
    pub fn is_embedded_resource(self) -> bool {
        self.node.is_embedded
    }

    /// Whether it names no fields and says nothing of others.
    pub fn is_free_form(self) -> bool {
        self.node.properties.is_empty() && self.node.additional.is_none()
    }

    /// Whether all keys may be used, with anything under them.
    pub fn takes_anything(self) -> bool {
        matches!(self.node.additional, Some(Additional::Any))
    }

    /// The default, if there is one.
    pub fn default(self) -> Option<&'a Value> {
        self.node.default.as_ref()
    }

    /// `atomic`, `set` or `map`; a list without is atomic.
    pub fn list_type(self) -> Option<&'a str> {
        self.node.list_type.as_deref()
    }

    /// The fields that tell the items of a list of type `map` apart.
    pub fn list_map_keys(self) -> impl Iterator<Item = &'a str> {
        self.node.list_map_keys.iter().map(|key| &**key)
    }

    /// `atomic` or `granular`; a map without is granular.
    pub fn map_type(self) -> Option<&'a str> {
        self.node.map_type.as_deref()
    }

    /// The schema of a field that it names.
    pub fn property(self, name: &str) -> Option<Self> {
        let properties = &self.node.properties;
        let at = properties.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        self.all.schema(properties.get(at)?.1)
    }

    /// The schema of a list's items.
    pub fn items(self) -> Option<Self> {
        self.all.schema(self.node.items?)
    }

    fn refuses_null(self) -> bool {
        !self.node.nullable
    }
}

/// Why the metadata of a custom resource cannot be decoded, which the API server says before anything else of it.
pub fn metadata_error(object: &Map<String, Value>) -> Option<String> {
    metadata::decode(object.get("metadata")?).err()
}

/// Takes what is of the wrong type out of a custom resource's metadata, unless all of it is.
pub fn drop_invalid_metadata(object: &mut Map<String, Value>) {
    if let Some(found) = object.get_mut("metadata")
        && metadata::decode(found).is_err()
        && let Some(valid) = metadata::decode_leniently(found)
    {
        *found = Value::Object(valid.fields);
    }
}

#[cfg(test)]
mod tests;
