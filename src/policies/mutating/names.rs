//! Whether the types of an `Object{…}` within another are called as its fields are (`CheckTypeNamesMatchFieldPathNames`).

use crate::cel::value::{List, Map};
use crate::cel::{Value, work};

/// Checks a value.
///
/// # Errors
/// With every name that is another one.
pub fn check(value: &Value<'_>) -> Result<(), String> {
    let Value::Struct(made) = value else { return Ok(()) };
    let mut errors = Vec::new();
    collect(value, &made.name, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}

fn collect(value: &Value<'_>, expected: &str, errors: &mut Vec<String>) {
    if let Err(error) = work::look(1) {
        // Once is enough.
        errors.extend(errors.is_empty().then(|| error.to_string()));
        return;
    }
    match value {
        Value::Struct(made) => {
            if *made.name != *expected {
                errors.push(format!(
                    "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
                    &*made.name
                ));
            }
            for (field, value) in &made.fields {
                collect(value, &format!("{expected}.{field}"), errors);
            }
        }
        Value::List(List::Values(items)) => items.iter().for_each(|item| collect(item, expected, errors)),
        Value::Map(Map::Values(entries)) => entries.iter().for_each(|(_, value)| collect(value, expected, errors)),
        _ => {}
    }
}
