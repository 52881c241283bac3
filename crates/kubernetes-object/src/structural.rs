//! Decodes custom resources as kube-apiserver does, by the structural schema of their CustomResourceDefinition: prunes unknown fields,
//! converts metadata to its Go types, and sets defaults. Does not validate.
//!
//! A schema is compiled to the parts that decoding needs. Equal parts of a schema are stored once, so that a definition that repeats a pod
//! template costs little more than a single one.

mod compile;
mod defaults;
mod embedded;
mod metadata;
mod nulls;
mod prune;
mod unknown;
pub mod validate;

use super::Object;
use super::normal::Normal;
use super::typed::DecodeError;
use crate::go_text::numbers;
use crate::status::Cause;
use defaults::Defaulter;
use serde_json::{Map, Value};
use std::sync::Arc;
use unknown::Unknown;

pub use compile::CompileSchemaError;
pub use defaults::DefaultsTooLarge;
pub use embedded::InvalidEmbedded;

/// The reason why a value is no custom resource of a schema: the text that kube-apiserver writes after `cannot be handled as a …: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResource {
    /// The value is no JSON object.
    #[error("the object is no JSON object")]
    NoObject,
    /// The metadata has wrong types.
    #[error(transparent)]
    Metadata(#[from] DecodeError),
    /// An embedded resource has wrong types.
    #[error(transparent)]
    Embedded(#[from] InvalidEmbedded),
    /// The defaults of the schema are too large.
    #[error(transparent)]
    Defaults(#[from] DefaultsTooLarge),
}

/// A compiled schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Structural {
    nodes: Vec<Arc<Node>>,
    root: Option<Id>,
    /// `spec.preserveUnknownFields` of the definition.
    preserves: bool,
}

/// The index of a node in its schema.
type Id = u32;

/// The indices of properties, sorted by their names.
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
    /// Whether the node or a node below it has a default.
    has_defaults: bool,
    /// Whether the node or a node below it is an embedded resource.
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
    /// An object with properties, or with any keys.
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
    /// A boolean: decoding keeps all keys, but nothing below them.
    Any,
    Of(Id),
}

impl Structural {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// If the schema is not structural, too large or too deep.
    pub fn compile(schema: &Value) -> Result<Self, CompileSchemaError> {
        compile::compile(schema)
    }

    /// The schema of a version without a schema: all fields except metadata are unknown.
    pub fn without_schema() -> Self {
        Self { nodes: Vec::new(), root: None, preserves: false }
    }

    /// Compiles the `openAPIV3Schema` of a definition with `preserveUnknownFields: true`: decoding prunes nothing, and a schema that is not
    /// structural counts as missing.
    ///
    /// # Errors
    /// If the schema is too large or too deep.
    pub fn compile_preserving(schema: &Value) -> Result<Self, CompileSchemaError> {
        compile::compile_preserving(schema)
    }

    /// Compiles a part of a schema, whose defaults are not pruned.
    pub(crate) fn compile_part(schema: &Value) -> Result<Self, CompileSchemaError> {
        compile::compile_part(schema)
    }

    /// Drops the unknown fields of a value of the schema.
    pub(crate) fn prune_value(&self, value: &mut Value, is_resource: bool) {
        if let Some(root) = self.root() {
            prune::prune_value(value, root, is_resource);
        }
    }

    /// Converts the metadata of a value of the schema to its Go types.
    ///
    /// # Errors
    /// If the metadata has wrong types.
    pub(crate) fn coerce_value(&self, value: &mut Value, is_resource: bool) -> Result<(), InvalidEmbedded> {
        self.root().map_or(Ok(()), |root| embedded::coerce_value(value, root, is_resource))
    }

    /// Decodes an object of the schema's kind (`unstructuredSchemaCoercer.apply`, then `unstructuredDefaulter.Default`).
    ///
    /// # Errors
    /// If the value is no object, if the metadata of the object or of an embedded resource has wrong types, or if the defaults are too
    /// large.
    pub fn normalize(&self, value: Value) -> Result<Normal, InvalidResource> {
        let mut normal = self.coerce(value)?;
        self.apply_defaults(&mut normal.object)?;
        Ok(normal)
    }

    /// As [`Self::normalize`], without defaults: a converted object (`schemaCoercingConverter`).
    ///
    /// # Errors
    /// If the value is no object, or if the metadata of the object or of an embedded resource has wrong types.
    pub fn coerce(&self, mut value: Value) -> Result<Normal, InvalidResource> {
        numbers::read(&mut value);
        // Go encodes the metadata and decodes them into their type.
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
        let mut object = Object::from_value(value).ok_or(InvalidResource::NoObject)?;
        if let Some(metadata) = metadata {
            object.fields_mut().insert("metadata".into(), Value::Object(metadata));
        }
        Ok(Normal { object, unknown: unknown.into_errors() })
    }

    /// Sets only the defaults, as kube-apiserver does for an object that a mutating webhook changed: it prunes nothing at that point.
    ///
    /// # Errors
    /// If the defaults are too large.
    pub fn apply_defaults(&self, object: &mut Object) -> Result<(), DefaultsTooLarge> {
        match self.root().filter(|root| root.node.has_defaults) {
            Some(root) => Defaulter::default().apply_to_fields(object.fields_mut(), root),
            None => Ok(()),
        }
    }

    /// The faults that kube-apiserver would find in the object, but the upstream API server cannot: it drops such values before validation,
    /// or rejects them as a bad request while decoding. A change after decoding can cause them.
    pub fn invalid(&self, object: &Object, is_status: bool) -> Vec<Cause> {
        let Some(root) = self.root().filter(|_| !self.preserves) else { return Vec::new() };
        let mut causes = nulls::find(object.fields(), root, is_status);
        if root.node.has_embedded {
            let mut whole = object.as_value().clone();
            causes.extend(
                embedded::coerce(&mut whole, Some(root), &mut Unknown::default())
                    .err()
                    .map(InvalidEmbedded::into_cause),
            );
        }
        causes
    }

    /// The schema as a whole; `None` if the version has no schema.
    pub fn root(&self) -> Option<Schema<'_>> {
        self.schema(self.root?)
    }

    fn schema(&self, id: Id) -> Option<Schema<'_>> {
        let node = self.nodes.get(usize::try_from(id).ok()?)?;
        Some(Schema { all: self, node })
    }
}

/// A schema, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    all: &'a Structural,
    node: &'a Node,
}

impl<'a> Schema<'a> {
    /// The schema of a field, or of the value of a map's key.
    pub fn field(self, name: &str) -> Option<Self> {
        match (self.property(name), self.node.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Of(id))) => self.all.schema(id),
            (None, _) => None,
        }
    }

    /// The schema of a list's items; the schema itself if it is no list.
    pub fn element(self) -> Option<Self> {
        match self.node.items {
            Some(_) => self.items(),
            None => Some(self),
        }
    }

    /// The type; `None` if the schema does not set one, or allows several.
    pub fn kind(self) -> Option<Kind> {
        self.node.kind.filter(|_| !self.node.is_int_or_string)
    }

    /// Whether decoding keeps fields that the schema does not name.
    pub fn preserves_unknown_fields(self) -> bool {
        self.node.preserves
    }

    /// Whether the schema describes a whole object, with an apiVersion, a kind and metadata.
    pub(crate) fn is_embedded_resource(self) -> bool {
        self.node.is_embedded
    }

    /// Whether the schema has neither properties nor additionalProperties.
    pub(crate) fn is_free_form(self) -> bool {
        self.node.properties.is_empty() && self.node.additional.is_none()
    }

    /// Whether the schema allows all keys, with any values.
    pub(crate) fn takes_anything(self) -> bool {
        matches!(self.node.additional, Some(Additional::Any))
    }

    /// The default, if there is one.
    pub fn default(self) -> Option<&'a Value> {
        self.node.default.as_ref()
    }

    /// `atomic`, `set` or `map`; a list without a type is atomic.
    pub(crate) fn list_type(self) -> Option<&'a str> {
        self.node.list_type.as_deref()
    }

    /// The fields that identify the items of a list of type `map`.
    pub(crate) fn list_map_keys(self) -> impl Iterator<Item = &'a str> {
        self.node.list_map_keys.iter().map(|key| &**key)
    }

    /// `atomic` or `granular`; a map without a type is granular.
    pub fn map_type(self) -> Option<&'a str> {
        self.node.map_type.as_deref()
    }

    /// The schema of a property.
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

/// The decoding error of a custom resource's metadata, which the API server reports before all other errors.
pub fn metadata_error(object: &Map<String, Value>) -> Option<String> {
    metadata::decode(object.get("metadata")?).err().map(|why| why.to_string())
}

/// Removes values of wrong types from a custom resource's metadata, unless the metadata is no object.
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
