//! Checks that the type names of nested `Object{…}` values match their field paths (`CheckTypeNamesMatchFieldPathNames`).

use super::apply::Unpatchable;
use crate::cel::value::{List, Map};
use crate::cel::{Value, work};

/// Checks a value.
///
/// # Errors
/// If type names do not match; the text has them all.
pub(super) fn check(value: &Value<'_>) -> Result<(), Unpatchable> {
    let Value::Struct(made) = value else { return Ok(()) };
    let mut errors = Vec::new();
    collect(value, &made.name, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(Unpatchable(format!("type mismatch: {}", errors.join("\n")))) }
}

fn collect(value: &Value<'_>, expected: &str, errors: &mut Vec<String>) {
    if let Err(error) = work::look(1) {
        // One such error is enough.
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
