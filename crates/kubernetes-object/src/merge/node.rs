//! The type of a value: from the table of built-in kinds, from a custom resource's schema, or deduced from the value
//! (`schemaconv.ToSchemaFromOpenAPI`).

use crate::kind::GroupVersionKind;
use crate::schema::{self, ApiType, Field, Scalar as ApiScalar, Shape};
use crate::structural::{Kind, Schema};
use serde_json::Value as Json;
use std::borrow::Cow;

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Node<'s> {
    /// `__untyped_deduced_`: a merge merges maps.
    Deduced,
    /// `__untyped_atomic_`: a merge replaces the whole value.
    Untyped,
    /// A single value.
    Scalar(Scalar),
    /// A type of the table, and whether the field that holds the object sets it atomic or granular.
    Type(&'static ApiType, Option<bool>),
    /// The shape of a field of the table, or a shape within it.
    Shape(&'static Shape, Option<&'static Field>),
    /// A custom resource as a whole.
    Whole(Schema<'s>),
    /// An object of an unknown kind.
    Resource,
    /// A part of a custom resource's schema, and whether fields that the schema does not name are kept.
    Custom(Schema<'s>, bool),
}

/// The type of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Numeric,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Any of the other three.
    Untyped,
}

/// The forms that a value of a type may have.
#[derive(Debug)]
pub struct Atom<'s> {
    /// A single value.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<ListType<'s>>,
    /// An object.
    pub map: Option<MapType<'s>>,
}

/// The type of a list.
#[derive(Debug)]
pub struct ListType<'s> {
    /// The identity of the items. The list is replaced as a whole if its items have none.
    pub items: Items<'s>,
    /// The type of the items.
    pub element: Node<'s>,
}

/// The identity of items in a list.
#[derive(Debug)]
pub enum Items<'s> {
    /// No identity.
    Atomic,
    /// The items' values.
    Set,
    /// The values of these fields.
    Keys(Vec<&'s str>),
}

/// The type of an object.
#[derive(Debug)]
pub struct MapType<'s> {
    /// Whether a merge replaces the object as a whole.
    pub is_atomic: bool,
    of: Fields<'s>,
}

#[derive(Debug)]
enum Fields<'s> {
    /// Only the fields of this type.
    Type(&'static ApiType),
    /// Fields of any name, with values of this type.
    Any(Node<'s>),
    Custom(Schema<'s>, bool),
    Whole(Schema<'s>),
    Resource,
}

const ANY_SCALAR: Option<Scalar> = Some(Scalar::Untyped);

impl<'s> Node<'s> {
    /// The type of a built-in kind.
    pub fn built_in(kind: &GroupVersionKind) -> Option<Self> {
        schema::of(kind).map(|r#type| Self::Type(r#type, None))
    }

    /// The forms that a value of the type may have.
    pub fn atom(self) -> Atom<'s> {
        let map = |is_atomic, of| Atom { scalar: None, list: None, map: Some(MapType { is_atomic, of }) };
        match self {
            Self::Deduced | Self::Untyped => Atom {
                scalar: ANY_SCALAR,
                list: Some(ListType { items: Items::Atomic, element: Self::Untyped }),
                map: Some(MapType { is_atomic: matches!(self, Self::Untyped), of: Fields::Any(self) }),
            },
            Self::Scalar(scalar) => Atom { scalar: Some(scalar), list: None, map: None },
            Self::Type(r#type, is_atomic) => map(is_atomic.unwrap_or(r#type.is_atomic), Fields::Type(r#type)),
            Self::Shape(shape, field) => of_shape(shape, field),
            Self::Whole(schema) => map(schema.map_type() == Some("atomic"), Fields::Whole(schema)),
            Self::Resource => map(false, Fields::Resource),
            Self::Custom(schema, preserves) => of_schema(schema, preserves || schema.preserves_unknown_fields()),
        }
    }
}

fn of_shape(shape: &'static Shape, field: Option<&'static Field>) -> Atom<'static> {
    let scalar = |scalar| Node::Scalar(scalar).atom();
    let is_atomic = field.and_then(Field::map_type).map(|relation| relation == "atomic");
    match shape {
        Shape::Any => Node::Untyped.atom(),
        Shape::Scalar(ApiScalar::Int32 | ApiScalar::Int64 | ApiScalar::Double) => scalar(Scalar::Numeric),
        Shape::Scalar(ApiScalar::Boolean) => scalar(Scalar::Boolean),
        Shape::Scalar(ApiScalar::Quantity | ApiScalar::IntOrString) => scalar(Scalar::Untyped),
        Shape::Scalar(ApiScalar::String | ApiScalar::Bytes | ApiScalar::Time | ApiScalar::MicroTime) => {
            scalar(Scalar::String)
        }
        Shape::Object(reference) => match reference.resolve() {
            Some(r#type) => Node::Type(r#type, is_atomic).atom(),
            None => Node::Untyped.atom(),
        },
        Shape::Map(values) => Atom {
            scalar: None,
            list: None,
            map: Some(MapType { is_atomic: is_atomic == Some(true), of: Fields::Any(Node::Shape(values, None)) }),
        },
        Shape::List(items) => {
            let kind = field.and_then(Field::list_type);
            let list_type = match (kind, field) {
                (Some("set"), _) => Items::Set,
                (Some("map"), Some(field)) => Items::Keys(field.list_map_keys().collect()),
                _ => Items::Atomic,
            };
            let list = ListType { items: list_type, element: Node::Shape(items, None) };
            Atom { scalar: None, list: Some(list), map: None }
        }
    }
}

fn of_schema(schema: Schema<'_>, preserves: bool) -> Atom<'_> {
    let map = || MapType { is_atomic: schema.map_type() == Some("atomic"), of: Fields::Custom(schema, preserves) };
    let list = || ListType {
        items: match schema.list_type() {
            Some("set") => Items::Set,
            Some("map") => Items::Keys(schema.list_map_keys().collect()),
            _ => Items::Atomic,
        },
        element: schema.items().map_or(Node::Untyped, |items| Node::Custom(items, preserves)),
    };
    let none = Atom { scalar: None, list: None, map: None };
    let scalar = |scalar| Atom { scalar: Some(scalar), list: None, map: None };
    match schema.kind() {
        Some(Kind::Object) => Atom { map: Some(map()), ..none },
        Some(Kind::Array) => Atom { list: Some(list()), ..none },
        Some(Kind::String) => scalar(Scalar::String),
        Some(Kind::Integer | Kind::Number) => scalar(Scalar::Numeric),
        Some(Kind::Boolean) => scalar(Scalar::Boolean),
        None => Atom { scalar: ANY_SCALAR, list: Some(list()), map: Some(map()) },
    }
}

/// A field of an object's type.
pub enum FieldType<'s> {
    /// A field that the type names.
    Named(Node<'s>),
    /// A field of a type that allows any names.
    Other(Node<'s>),
    /// A field that the type does not have.
    Unknown,
}

impl<'s> FieldType<'s> {
    /// The type of the field's value; [`Node::Deduced`] for an unknown field.
    pub fn node(self) -> Node<'s> {
        match self {
            Self::Named(node) | Self::Other(node) => node,
            Self::Unknown => Node::Deduced,
        }
    }
}

impl<'s> MapType<'s> {
    /// The type of a field.
    pub fn field(&self, name: &str) -> FieldType<'s> {
        let metadata = || object_meta().map_or(Node::Deduced, |r#type| Node::Type(r#type, None));
        match &self.of {
            Fields::Any(values) => FieldType::Other(*values),
            Fields::Type(r#type) => match r#type.field(name) {
                Some(field) => FieldType::Named(Node::Shape(&field.shape, Some(field))),
                None => FieldType::Unknown,
            },
            _ if self.is_resource() && name == "metadata" => FieldType::Named(metadata()),
            _ if self.is_resource() && matches!(name, "apiVersion" | "kind") => {
                FieldType::Named(Node::Scalar(Scalar::String))
            }
            Fields::Resource => FieldType::Other(Node::Deduced),
            Fields::Whole(schema) => of_custom(*schema, schema.preserves_unknown_fields(), name),
            Fields::Custom(schema, preserves) => of_custom(*schema, *preserves, name),
        }
    }

    fn is_resource(&self) -> bool {
        match &self.of {
            Fields::Whole(_) | Fields::Resource => true,
            Fields::Custom(schema, _) => schema.is_embedded_resource(),
            Fields::Type(_) | Fields::Any(_) => false,
        }
    }

    /// The default of a field, which may be a part of an item's key.
    pub fn default(&self, name: &str) -> Option<Cow<'s, Json>> {
        match &self.of {
            Fields::Type(r#type) => r#type.field(name)?.documented_default().map(Cow::Owned),
            Fields::Whole(schema) | Fields::Custom(schema, _) => schema.property(name)?.default().map(Cow::Borrowed),
            Fields::Any(_) | Fields::Resource => None,
        }
    }
}

fn of_custom<'s>(schema: Schema<'s>, preserves: bool, name: &str) -> FieldType<'s> {
    if let Some(property) = schema.property(name) {
        return FieldType::Named(Node::Custom(property, preserves));
    }
    if let Some(value) = schema.field(name) {
        return FieldType::Other(Node::Custom(value, preserves));
    }
    if preserves || schema.is_free_form() || schema.takes_anything() {
        return FieldType::Other(Node::Deduced);
    }
    FieldType::Unknown
}

/// The type of every object's metadata.
fn object_meta() -> Option<&'static ApiType> {
    schema::of(&GroupVersionKind::new("", "v1", "Pod"))?.field("metadata")?.element()
}
