//! The types of the checker.

use std::fmt;
use std::sync::Arc;

/// The number of types that may be nested in a type.
pub(crate) const MAX_TYPES: usize = 1_000;

/// A type of the language. Types are equal as in `Type.IsExactType` of cel-go: a wrapper equals its scalar.
#[derive(Clone, Debug)]
pub enum Type {
    /// A type that is known only at run time.
    Dyn,
    /// `google.protobuf.Any`: equivalent to [`Type::Dyn`].
    Any,
    /// The type of an expression with a type error.
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
    /// A wrapper of a scalar, which also allows null: `google.protobuf.Int32Value`.
    Wrapper(&'static Type),
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `list(T)`.
    List(Arc<Type>),
    /// `map(K, V)`.
    Map(Arc<Type>, Arc<Type>),
    /// `type(T)`: the type of a type. With an unnamed parameter, `type` itself: [`Type::of_types`].
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

    /// `type` without a known parameter.
    pub fn of_types() -> Self {
        Self::Type(Arc::new(Self::Parameter("".into())))
    }

    fn is_unnamed(&self) -> bool {
        matches!(self, Self::Parameter(name) if name.is_empty())
    }

    /// The scalar of a wrapper; other types unchanged.
    pub fn unwrapped(&self) -> &Self {
        match self {
            Self::Wrapper(of) => of,
            other => other,
        }
    }

    /// The name at run time, without parameters: `google.protobuf.Duration`, `list`.
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Any => "google.protobuf.Any",
            Self::Wrapper(of) => of.name(),
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Type(_) => "type",
            Self::Object(name) | Self::Opaque(name, _) | Self::Parameter(name) => name,
        }
    }

    /// The parameters in order.
    pub fn parameters(&self) -> Vec<&Type> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(key, value) => vec![key, value],
            Self::Type(of) if !of.is_unnamed() => vec![of],
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The declaration, `Type.String` of cel-go: `list(google.protobuf.Duration)`. [`fmt::Display`] writes the form of the checker's
    /// errors: `list(duration)`.
    pub fn declaration(&self) -> String {
        match self {
            Self::Parameter(name) => return format!("<{name}>"),
            Self::Wrapper(of) => return format!("wrapper({})", of.name()),
            _ => {}
        }
        let parameters: Vec<String> = self.parameters().into_iter().map(Self::declaration).collect();
        if parameters.is_empty() {
            self.name().to_owned()
        } else {
            format!("{}({})", self.name(), parameters.join(", "))
        }
    }

    /// The number of types in this type, itself included. Stops counting above `most`.
    fn count(&self, most: usize) -> usize {
        self.parameters()
            .into_iter()
            .fold(1, |count, of| if count > most { count } else { count + of.count(most - count) })
    }

    /// Whether the type is larger than any useful type: a type that doubles at each level soon fills the memory.
    pub fn is_too_large(&self) -> bool {
        self.count(MAX_TYPES) > MAX_TYPES
    }

    /// The value type of an optional.
    pub fn optional_value(&self) -> Option<&Type> {
        match self {
            Self::Opaque(name, parameters) if &**name == "optional_type" => parameters.first(),
            _ => None,
        }
    }

    /// Whether the type is unknown (`isDynOrError`).
    pub fn is_unknown(&self) -> bool {
        self.is_dynamic() || matches!(self, Self::Error)
    }

    /// Whether the type allows any value (`isDyn`).
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// Returns the type with its parameters replaced, innermost ones too.
    pub fn map_parameters(&self, replace: &mut impl FnMut(&Type) -> Type) -> Self {
        match self {
            Self::List(element) => Self::list(replace(element)),
            Self::Map(key, value) => Self::map(replace(key), replace(value)),
            Self::Type(of) if !of.is_unnamed() => Self::Type(Arc::new(replace(of))),
            Self::Opaque(name, parameters) => Self::Opaque(name.clone(), parameters.iter().map(replace).collect()),
            other => other.clone(),
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self.unwrapped(), other.unwrapped()) {
            (Self::List(a), Self::List(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Map(a, b), Self::Map(c, d)) => a == c && b == d,
            (Self::Object(a), Self::Object(b)) | (Self::Parameter(a), Self::Parameter(b)) => a == b,
            (Self::Opaque(a, b), Self::Opaque(c, d)) => a == c && b == d,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl Eq for Type {}

/// Writes the type as `FormatCELType` does.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => return f.write_str("!error!"),
            Self::Any => return f.write_str("any"),
            Self::Wrapper(of) => return write!(f, "wrapper({of})"),
            Self::Null => return f.write_str("null"),
            Self::Duration => return f.write_str("duration"),
            Self::Timestamp => return f.write_str("timestamp"),
            _ => f.write_str(self.name())?,
        }
        for (i, parameter) in self.parameters().into_iter().enumerate() {
            write!(f, "{}{parameter}", if i == 0 { "(" } else { ", " })?;
        }
        if self.parameters().is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_as_in_errors_and_as_declared() {
        let of = Type::map(Type::String, Type::optional(Type::list(Type::Duration)));
        assert_eq!(of.to_string(), "map(string, optional_type(list(duration)))");
        assert_eq!(of.declaration(), "map(string, optional_type(list(google.protobuf.Duration)))");
        assert_eq!((Type::Null.to_string(), Type::Null.declaration()), ("null".to_owned(), "null_type".to_owned()));
        assert_eq!(Type::of_types().to_string(), "type");
        let wrapper = Type::list(Type::Wrapper(&Type::Int));
        assert_eq!(
            (wrapper.to_string(), wrapper.declaration()),
            ("list(wrapper(int))".into(), "list(wrapper(int))".into())
        );
        assert_eq!((Type::Any.to_string(), Type::Any.declaration()), ("any".into(), "google.protobuf.Any".into()));
    }
}
