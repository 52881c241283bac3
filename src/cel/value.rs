//! Values: borrowed from JSON where they can be.

use super::types::Type;
use serde_json::Value as Json;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A value. Cheap to clone: what is large is borrowed or shared.
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
    /// Seconds since 1970 and nanoseconds of the second, in UTC.
    Timestamp(i64, u32),
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
    /// A library's.
    Opaque(Arc<dyn Opaque>),
}

/// Text, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// From the JSON or the program.
    Borrowed(&'a str),
    /// Made by an expression.
    Shared(Arc<str>),
}

/// A list, borrowed or shared.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// From the JSON.
    Json(&'a [Json]),
    /// Made by an expression.
    Values(Arc<Vec<Value<'a>>>),
}

/// A map, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// From the JSON.
    Json(&'a serde_json::Map<String, Json>),
    /// Made by an expression, in no order that means anything.
    Values(Arc<Vec<(Value<'a>, Value<'a>)>>),
    /// Whose values are found when they are asked for.
    Lazy(&'a (dyn Lazy + 'a)),
}

/// A message that an expression made.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The type's name.
    pub name: Arc<str>,
    /// The fields that were given.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// A map of named values that are found when they are asked for: `variables`.
pub trait Lazy: fmt::Debug {
    /// The value of this name; `None` if there is none.
    fn get<'s>(&'s self, name: &str) -> Option<Result<Value<'s>, Error>>;
}

/// A value of a library's type.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// Its type.
    fn r#type(&self) -> Type;
    /// Whether `_==_` holds with another opaque value, of this or another type.
    ///
    /// # Errors
    /// Where Kubernetes cannot tell.
    fn equals(&self, other: &dyn Opaque) -> Result<bool, Error>;
    /// What `size` of cel-go's `traits.Sizer` counts, for costs; `None` if it is no such thing.
    fn size(&self) -> Option<u64> {
        None
    }
    /// What `string(…)` makes of it; `None` if it has no text.
    fn to_text(&self) -> Option<String> {
        None
    }
}

/// What an expression must know of the caller, or of a service account, before it can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// Namespace and name of the service account asked about; the request's user if there is none.
    pub service_account: Option<(String, String)>,
    /// What it may do or not.
    pub attributes: crate::authz::Attributes,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// In cel-go's words. `||`, `&&`, `all` and `exists` may do without the value.
    Message(Cow<'static, str>),
    /// No overload takes these values; whoever knows the function's name words it.
    NoSuchOverload,
    /// The cost limit is reached. Nothing goes on.
    CostLimit,
    /// The deadline is reached. Nothing goes on.
    Interrupted,
    /// An access review has to be asked for; then the expression is evaluated again. Nothing goes on.
    Review(Box<Review>),
}

impl Error {
    /// An error in cel-go's words.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Message(message.into())
    }

    /// Whether `||` and the like may do without the value.
    pub fn is_absorbable(&self) -> bool {
        matches!(self, Self::Message(_) | Self::NoSuchOverload)
    }
}
