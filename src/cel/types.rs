//! Types as the checker sees them.

use std::sync::Arc;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Known at run time only.
    Dyn,
    /// What an expression with a type error has.
    Error,
    /// `null_type`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, 64 bits.
    Int,
    /// `uint`, 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `list(T)`.
    List(Arc<Type>),
    /// `map(K, V)`.
    Map(Arc<Type>, Arc<Type>),
    /// `type(T)`: the type of a type.
    Type(Arc<Type>),
    /// A message by its name: `kubernetes.AdmissionRequest`, `Object.spec`.
    Object(Arc<str>),
    /// A type of a library, `optional_type(T)` among them.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A type parameter of an overload.
    Parameter(Arc<str>),
}

impl Type {
    /// `list(element)`.
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// `optional_type(value)`.
    pub fn optional(value: Type) -> Self {
        Self::Opaque("optional_type".into(), [value].into())
    }

    /// A library's type without parameters.
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(name.into(), [].into())
    }

    /// A message.
    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }
}
