//! Values, borrowed from JSON where possible.

mod compare;
mod containers;
mod export;
mod message;
pub mod print;
pub(crate) mod time;
mod typed;

pub use super::error::{Access, AccessDecision, Error, Review};
pub use containers::{Entries, List, Map};
pub use typed::{Keyed, Object, SchemaMismatch};

use super::types::Type;
use serde_json::Value as Json;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value. Cheap to clone: large values are borrowed or shared.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// Seconds since 1970, nanoseconds of the second, and the seconds that the written offset is east of UTC. Only `string(…)` and JSON
    /// show the offset.
    Timestamp(i64, u32, i32),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// A message that an expression made: `Object{…}`.
    Struct(Arc<Struct<'a>>),
    /// A type.
    Type(Arc<Type>),
    /// An optional.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library.
    Opaque(Arc<dyn Opaque>),
}

/// Text, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Text of the JSON or of the program.
    Borrowed(&'a str),
    /// Text that an expression made.
    Shared(Arc<str>),
}

/// A message that an expression made.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The type's name.
    pub name: Arc<str>,
    /// The fields that were given.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// A map of named values that are evaluated on demand: `variables`.
pub trait LazyValue: fmt::Debug + Send + Sync {
    /// The value of this name; `None` if the map has no such name.
    fn get<'s>(&'s self, name: &str) -> Option<Result<Value<'s>, Error>>;
}

/// A value of a library's type.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// The value's type.
    fn r#type(&self) -> Type;
    /// Whether `_==_` is true for another opaque value, of this or another type.
    ///
    /// # Errors
    /// If Kubernetes cannot compare the two.
    fn equals(&self, other: &dyn Opaque) -> Result<bool, Error>;
    /// The size that cel-go's `traits.Sizer` counts for costs; `None` if the type has no size.
    fn size(&self) -> Option<u64> {
        None
    }
    /// The result of `string(…)`; `None` if the value has no text.
    fn to_text(&self) -> Option<String> {
        None
    }
}

impl<'a> Value<'a> {
    /// Converts JSON as Kubernetes decodes it: numbers that fit become `int`, others `double`.
    #[inline]
    pub fn json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(elements) => Self::List(List::Json(elements)),
            Json::Object(fields) => Self::Map(Map::Json(fields)),
        }
    }

    /// Converts JSON of an object of a built-in kind as Kubernetes does since 1.37: lists and maps are Go values (`SchemalessTypedToVal`),
    /// which differ in the errors of comparisons and indices.
    #[inline]
    pub fn built_in(json: &'a Json) -> Self {
        match json {
            Json::Array(elements) => Self::List(List::BuiltIn(elements)),
            Json::Object(fields) => Self::Map(Map::BuiltIn(fields)),
            scalar => Self::json(scalar),
        }
    }

    /// Text that an expression made.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// Text that outlives the evaluation.
    pub fn text(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// A list that an expression made.
    pub fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::Values(Arc::new(elements)))
    }

    /// A map that an expression made. The last of several entries with one key counts.
    pub fn map(entries: impl IntoIterator<Item = (Value<'a>, Value<'a>)>) -> Self {
        Self::Map(Map::Values(Arc::new(entries.into_iter().collect())))
    }

    /// A present optional.
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The result of `type(…)`. The parameters of lists, maps and optionals are unknown.
    pub fn r#type(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(..) => Type::Timestamp,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Struct(value) => Type::Object(value.name.clone()),
            Self::Type(_) => Type::Type(Arc::new(Type::Dyn)),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(value) => value.r#type(),
        }
    }

    /// The name of the value's type, without parameters: `list`, `google.protobuf.Duration`.
    pub fn type_name(&self) -> Cow<'static, str> {
        match self {
            Self::Null => "null_type".into(),
            Self::Bool(_) => "bool".into(),
            Self::Int(_) => "int".into(),
            Self::Uint(_) => "uint".into(),
            Self::Double(_) => "double".into(),
            Self::String(_) => "string".into(),
            Self::Bytes(_) => "bytes".into(),
            Self::Duration(_) => "google.protobuf.Duration".into(),
            Self::Timestamp(..) => "google.protobuf.Timestamp".into(),
            Self::List(_) => "list".into(),
            Self::Map(_) => "map".into(),
            Self::Type(_) => "type".into(),
            Self::Optional(_) => "optional_type".into(),
            Self::Struct(value) => value.name.to_string().into(),
            Self::Opaque(value) => runtime_name(&value.r#type()).into_owned().into(),
        }
    }

    /// The name of the value's type in cel-go.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(..) => "types.Timestamp",
            Self::List(List::BuiltIn(_)) => "*common.reflectSchemalessTypedList",
            Self::List(_) => "*types.baseList",
            Self::Map(Map::BuiltIn(_)) => "*common.reflectSchemalessTypedStruct",
            Self::Map(_) => "*types.baseMap",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            Self::Struct(_) => "*dynamic.ObjectVal",
            Self::Opaque(_) => "ref.Val",
        }
    }

    /// The error of an index of this value's type, if no index can have the type.
    pub(crate) fn as_invalid_qualifier(&self) -> Error {
        Error::new(format!("invalid qualifier type: {}", self.go_type()))
    }

    /// The error of a key of this value's type in an object of a built-in kind.
    pub(crate) fn as_invalid_key(&self) -> Error {
        Error::new(format!("unsupported map key type: {}", self.go_type()))
    }

    /// The result of `size(…)`, also used for costs: code points, bytes, elements or entries; `None` for other types (`traits.Sizer` of
    /// cel-go).
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opaque(value) => return value.size(),
            _ => return None,
        })
    }

    /// `actualSize` of cel-go's cost tracker: one for a value without a size; for an optional, the size of its value.
    pub fn cost_size(&self) -> u64 {
        match self {
            Self::Optional(Some(value)) => value.cost_size(),
            _ => self.size().unwrap_or(1),
        }
    }

    /// Whether the value is the zero of its type (`traits.Zeroer` of cel-go).
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => *value == 0,
            Self::Timestamp(seconds, nanoseconds, _) => *seconds == ZERO_TIME && *nanoseconds == 0,
            // Go values of Kubernetes have no zero.
            Self::List(List::BuiltIn(_)) | Self::Map(Map::BuiltIn(_)) => false,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.size() == Some(0),
            Self::Struct(value) => value.fields.is_empty(),
            Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => false,
        }
    }
}

/// Go's zero time, the year 1, in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;

/// The name by which the evaluator distinguishes types: without parameters.
pub fn runtime_name(r#type: &Type) -> Cow<'_, str> {
    match r#type {
        Type::Dyn => "dyn".into(),
        Type::Any => "google.protobuf.Any".into(),
        Type::Wrapper(of) => of.name().into(),
        Type::Error => "error".into(),
        Type::Null => "null_type".into(),
        Type::Bool => "bool".into(),
        Type::Int => "int".into(),
        Type::Uint => "uint".into(),
        Type::Double => "double".into(),
        Type::String => "string".into(),
        Type::Bytes => "bytes".into(),
        Type::Duration => "google.protobuf.Duration".into(),
        Type::Timestamp => "google.protobuf.Timestamp".into(),
        Type::List(_) => "list".into(),
        Type::Map(..) => "map".into(),
        Type::Type(_) => "type".into(),
        Type::Object(name) | Type::Opaque(name, _) | Type::Parameter(name) => Cow::Borrowed(name),
    }
}

impl Deref for Text<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
