//! Equality and order, across the numeric types.

use super::{Error, List, Map, Struct, Value, runtime_name};
use crate::work;
use serde_json::{Map as Fields, Value as Json};
use std::cmp::Ordering;

impl<'a> Value<'a> {
    /// The result of `==`: `types.Equal` of cel-go. Values of different types are not equal, except for numbers.
    ///
    /// # Errors
    /// If a library cannot compare its values, or if the comparison is too much work.
    pub fn equals(&self, other: &Value<'_>) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Self::Int(a), Value::Int(b)) => a == b,
            (Self::String(a), Value::String(b)) => **a == **b,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Null, Value::Null) => true,
            (Self::Null, _) | (_, Value::Null) => false,
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
                self.compare(other).is_ok_and(Ordering::is_eq)
            }
            (Self::Bytes(a), Value::Bytes(b)) => a == b,
            (Self::Duration(a), Value::Duration(b)) => a == b,
            (Self::Timestamp(a, b, _), Value::Timestamp(c, d, _)) => (a, b) == (c, d),
            (Self::List(a @ List::BuiltIn(_)), Value::List(b)) => return lists_identical(a, b),
            (Self::Map(Map::BuiltIn(a)), Value::Map(b)) => return built_in_equals(a, b),
            (Self::List(List::BuiltIn(_)) | Self::Map(Map::BuiltIn(_)), _) => return Err(Error::OVERLOAD),
            (Self::List(List::Keyed(a)), Value::List(b)) => return a.equals(b),
            (Self::List(a), Value::List(b)) => return lists_equal(a, b),
            (Self::Map(Map::Object(a)), Value::Map(Map::Object(b))) => return a.equals(b),
            (Self::Map(a), Value::Map(b)) => return maps_equal(a, b),
            (Self::List(List::Keyed(_)) | Self::Map(Map::Object(_)), _) => return Err(Error::OVERLOAD),
            (Self::Struct(a), Value::Struct(b)) => return structs_equal(a, b),
            (Self::Type(a), Value::Type(b)) => runtime_name(a) == runtime_name(b),
            (Self::Optional(None), Value::Optional(None)) => true,
            (Self::Optional(Some(a)), Value::Optional(Some(b))) => return a.equals(b),
            (Self::Opaque(a), Value::Opaque(b)) => return a.equals(&**b),
            (Self::Opaque(_), _) => return Err(Error::OVERLOAD),
            _ => false,
        })
    }

    /// The result of `==`, or `incomparable` for values that cannot be compared.
    ///
    /// # Errors
    /// If the comparison is too much work.
    pub fn equals_or(&self, other: &Value<'_>, incomparable: bool) -> Result<bool, Error> {
        match self.equals(other) {
            Err(error) if error.is_absorbable() => Ok(incomparable),
            result => result,
        }
    }

    /// Whether the value is an element of a list. A value that cannot be compared is not.
    ///
    /// # Errors
    /// If the comparison is too much work.
    pub fn is_in(&self, list: &List<'_>) -> Result<bool, Error> {
        all(list.iter(), |element| Ok(!self.equals_or(&element, false)?)).map(|differs| !differs)
    }

    /// The order of two values for `<` and similar operators: `traits.Comparer` of cel-go.
    ///
    /// # Errors
    /// If the two values have no order.
    pub fn compare(&self, other: &Value<'_>) -> Result<Ordering, Error> {
        let nan = |value: f64| if value.is_nan() { Err(Error::new("NaN values cannot be ordered")) } else { Ok(()) };
        Ok(match (self, other) {
            (Self::Int(a), Value::Int(b)) => a.cmp(b),
            (Self::Uint(a), Value::Uint(b)) => a.cmp(b),
            (Self::Int(a), Value::Uint(b)) => int_uint(*a, *b),
            (Self::Uint(a), Value::Int(b)) => int_uint(*b, *a).reverse(),
            (Self::Double(a), Value::Double(b)) => {
                nan(*a)?;
                nan(*b)?;
                double_double(*a, *b)
            }
            (Self::Double(a), Value::Int(b)) => {
                nan(*a)?;
                double_int(*a, *b)
            }
            (Self::Int(a), Value::Double(b)) => {
                nan(*b)?;
                double_int(*b, *a).reverse()
            }
            (Self::Double(a), Value::Uint(b)) => {
                nan(*a)?;
                double_uint(*a, *b)
            }
            (Self::Uint(a), Value::Double(b)) => {
                nan(*b)?;
                double_uint(*b, *a).reverse()
            }
            (Self::Double(a), _) => {
                nan(*a)?;
                return Err(Error::OVERLOAD);
            }
            (Self::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Self::String(a), Value::String(b)) => (**a).cmp(&**b),
            (Self::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Self::Duration(a), Value::Duration(b)) => a.cmp(b),
            (Self::Timestamp(a, b, _), Value::Timestamp(c, d, _)) => (a, b).cmp(&(c, d)),
            _ => return Err(Error::OVERLOAD),
        })
    }
}

fn double_double(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

fn double_int(a: f64, b: i64) -> Ordering {
    if a < i64::MIN as f64 {
        Ordering::Less
    } else if a > i64::MAX as f64 {
        Ordering::Greater
    } else {
        double_double(a, b as f64)
    }
}

fn double_uint(a: f64, b: u64) -> Ordering {
    if a < 0.0 {
        Ordering::Less
    } else if a > u64::MAX as f64 {
        Ordering::Greater
    } else {
        double_double(a, b as f64)
    }
}

fn int_uint(a: i64, b: u64) -> Ordering {
    u64::try_from(a).map_or(Ordering::Less, |a| a.cmp(&b))
}

/// Whether `holds` is true for each element.
fn all<T>(each: impl Iterator<Item = T>, mut holds: impl FnMut(T) -> Result<bool, Error>) -> Result<bool, Error> {
    for one in each {
        if !holds(one)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two lists are equal. Elements that cannot be compared do not make lists unequal (`baseList.Equal`).
fn lists_equal(a: &List<'_>, b: &List<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    all(a.iter().zip(b.iter()), |(a, b)| {
        work::look(1)?;
        a.equals_or(&b, true)
    })
}

/// `reflectSchemalessTypedList.Equal`: elements that cannot be compared make the lists unequal.
fn lists_identical(a: &List<'_>, b: &List<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    all(a.iter().zip(b.iter()), |(a, b)| {
        work::look(1)?;
        a.equals_or(&b, false)
    })
}

/// `reflectSchemalessTypedStruct.Equal`: two objects are compared as Go values; with a map, the error of a value that cannot be compared is
/// the result.
fn built_in_equals(a: &Fields<String, Json>, b: &Map<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let is_object = matches!(b, Map::BuiltIn(_));
    all(a.iter(), |(key, value)| {
        work::look(1)?;
        let Some(other) = b.get(&Value::text(key)) else { return Ok(false) };
        let value = Value::built_in(value);
        if is_object { value.equals_or(&other, false) } else { value.equals(&other) }
    })
}

fn maps_equal(a: &Map<'_>, b: &Map<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    all(a.iter(), |(key, value)| {
        work::look(1)?;
        b.get(&key).map_or(Ok(false), |other| value.equals_or(&other, true))
    })
}

fn structs_equal(a: &Struct<'_>, b: &Struct<'_>) -> Result<bool, Error> {
    if a.name != b.name || a.fields.len() != b.fields.len() {
        return Ok(false);
    }
    all(a.fields.iter(), |(name, value)| match b.get(name) {
        None => Ok(false),
        Some(other) if &*a.name == "JSONPatch" => value.equals_or(other, true),
        Some(other) => identical(value, other),
    })
}

/// Compares fields of an `Object` as Go's `reflect.DeepEqual` does: numbers of different types differ, and so do lists, since cel-go's
/// lists contain functions.
fn identical(a: &Value<'_>, b: &Value<'_>) -> Result<bool, Error> {
    work::look(1)?;
    match (a, b) {
        (Value::List(_), _) => Ok(false),
        (Value::Map(Map::Json(a) | Map::BuiltIn(a)), Value::Map(Map::Json(b) | Map::BuiltIn(b))) => Ok(a == b),
        (Value::Map(Map::Values(a)), Value::Map(Map::Values(b))) => {
            let same_size = a.iter().count() == b.iter().count();
            Ok(same_size
                && all(a.iter(), |(key, value)| b.get(key).map_or(Ok(false), |other| identical(value, other)))?)
        }
        (Value::Map(_), _) => Ok(false),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => identical(a, b),
        (a, b) => Ok(a.type_name() == b.type_name() && a.equals_or(b, false)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::LazyValue;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn numbers_compare_across_types() {
        use Ordering::{Equal, Greater, Less};
        for (a, b, expected) in [
            (Value::Int(1), Value::Uint(1), Some(Equal)),
            (Value::Int(-1), Value::Uint(0), Some(Less)),
            (Value::Uint(u64::MAX), Value::Int(i64::MAX), Some(Greater)),
            (Value::Double(1.0), Value::Int(1), Some(Equal)),
            (Value::Double(1e19), Value::Int(i64::MAX), Some(Greater)),
            (Value::Double(-0.5), Value::Uint(0), Some(Less)),
            // As doubles, the two are equal.
            (Value::Int(9_007_199_254_740_993), Value::Double(9_007_199_254_740_992.0), Some(Equal)),
            (Value::Double(f64::NAN), Value::Double(1.0), None),
            (Value::Int(1), Value::Double(f64::NAN), None),
            (Value::Int(1), Value::text("1"), None),
            (Value::Null, Value::Null, None),
        ] {
            assert_eq!(a.compare(&b).ok(), expected, "{a} {b}");
            assert_eq!(b.compare(&a).ok(), expected.map(Ordering::reverse), "{b} {a}");
        }
    }

    #[test]
    fn values_of_json_and_of_expressions_are_equal() {
        let json = json!({"list": [1, "a", null], "map": {"k": 1.0}});
        let made = Value::map([
            (Value::text("list"), Value::list(vec![Value::Double(1.0), Value::text("a"), Value::Null])),
            (Value::text("map"), Value::map([(Value::text("k"), Value::Uint(1))])),
        ]);
        assert_eq!(Value::json(&json).equals(&made), Ok(true));
        assert_eq!(made.equals(&Value::json(&json)), Ok(true));
        assert_eq!(Value::Null.equals(&Value::Bool(false)), Ok(false));
        assert_eq!(Value::Double(f64::NAN).equals(&Value::Double(f64::NAN)), Ok(false));
    }

    #[test]
    fn fields_of_objects_are_equal_only_by_type() {
        let object = |value| {
            let fields = vec![("a".into(), value)];
            Value::Struct(Arc::new(Struct::new("Object".into(), fields).unwrap()))
        };
        assert_eq!(object(Value::Int(1)).equals(&object(Value::Int(1))), Ok(true));
        assert_eq!(object(Value::Int(1)).equals(&object(Value::Double(1.0))), Ok(false));
        assert_eq!(object(Value::list(vec![])).equals(&object(Value::list(vec![]))), Ok(false));
    }

    #[test]
    fn values_are_shared_between_threads() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Value<'static>>();
        is_shared::<Box<dyn LazyValue>>();
        is_shared::<crate::Program>();
    }
}
