//! Causes as Go prints them from values: `field.Error` with `ErrorBody`. [`super::invalid`] has constructors for texts.

use super::{Cause, invalid};
use crate::go_text::go_print;
use crate::go_text::go_quote;
use crate::go_text::json;
use serde_json::Value;

/// The text of an error without a path: `field.Path(nil).String()`.
pub const NO_PATH: &str = "<nil>";

/// The form of a value in an error: quoted text, `%v` of a scalar, the JSON of anything else.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(_) | Value::Bool(_) => go_print(value),
        Value::Null | Value::Array(_) | Value::Object(_) => json::text(value),
    }
}

/// `field.Invalid` of a text.
pub(crate) fn invalid_text(field: &str, value: &str, why: &str) -> Cause {
    invalid::invalid(field, &go_quote(value), why)
}

/// `field.Invalid` of a JSON value.
pub fn invalid_value(field: &str, value: &Value, why: &str) -> Cause {
    invalid::invalid(field, &shown(value), why)
}

/// `field.Required`; without a colon if there is no reason to give.
pub fn required(field: &str, why: &str) -> Cause {
    match why {
        "" => cause("FieldValueRequired", field, "Required value".to_owned()),
        why => invalid::required(field, why),
    }
}

/// `field.NotSupported`, with the value in the form of [`shown`].
pub fn not_supported<'a>(field: &str, value: &str, supported: impl IntoIterator<Item = &'a str>) -> Cause {
    let supported: Vec<_> = supported.into_iter().map(go_quote).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    cause("FieldValueNotSupported", field, message)
}

/// `field.Duplicate`, with the value in the form of [`shown`].
pub fn duplicate(field: &str, value: &str) -> Cause {
    cause("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
}

/// `field.TooLong`.
pub fn too_long(field: &str, most: i64) -> Cause {
    let message = match most {
        ..=-1 => "Too long: value is too long".to_owned(),
        1 => "Too long: may not be more than 1 byte".to_owned(),
        _ => format!("Too long: may not be more than {most} bytes"),
    };
    cause("FieldValueTooLong", field, message)
}

/// `field.TooMany`.
pub fn too_many(field: &str, actual: usize, most: i64) -> Cause {
    let message = match most {
        ..=-1 => format!("Too many: {actual}: has too many items"),
        1 => format!("Too many: {actual}: must have at most 1 item"),
        _ => format!("Too many: {actual}: must have at most {most} items"),
    };
    cause("FieldValueTooMany", field, message)
}

/// A cause with this reason and message.
pub fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message, field: field.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        for (value, text) in [
            (json!(null), "null"),
            (json!("a\"<"), r#""a\"<""#),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(true), "true"),
            (json!({"b": "<", "a": [1.0, null]}), r#"{"a":[1,null],"b":"\u003c"}"#),
        ] {
            assert_eq!(shown(&value), text);
        }
    }

    #[test]
    fn a_bound_of_one_has_a_text_of_its_own() {
        assert_eq!(too_long("a", 1).message, "Too long: may not be more than 1 byte");
        assert_eq!(too_many("a", 2, 1).message, "Too many: 2: must have at most 1 item");
        assert_eq!(required("a", "").message, "Required value");
    }
}
