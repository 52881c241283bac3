//! The numbers of replicas of a custom resource with a scale subresource.

use crate::Object;
use crate::go_text::{go_dynamic_type, go_print};
use crate::status::fault;
use crate::status::{Cause, invalid};
use serde_json::Value;

/// The paths of a scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// `specReplicasPath`
    pub spec_replicas: String,
    /// `statusReplicasPath`
    pub status_replicas: String,
    /// `labelSelectorPath`
    pub label_selector: Option<String>,
}

impl Scale {
    /// `ValidateScaleSpec`
    pub(super) fn spec_causes(&self, object: &Object) -> Option<Cause> {
        replicas(object, &self.spec_replicas)
    }

    /// `ValidateScaleStatus`
    pub(super) fn status_causes(&self, object: &Object) -> Vec<Cause> {
        let selector = self.label_selector.as_ref().and_then(|path| match nested(object, path) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(fault::invalid_text(path, "", &wrong(path, other, "string").to_string())),
            Err(why) => Some(fault::invalid_text(path, "", &why.to_string())),
        });
        replicas(object, &self.status_replicas).into_iter().chain(selector).collect()
    }
}

/// A value on a path has the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongType(String);

fn replicas(object: &Object, path: &str) -> Option<Cause> {
    let replicas = match nested(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => value.as_i64().ok_or_else(|| wrong(path, value, "int64")),
        Err(why) => Err(why),
    };
    match replicas {
        Err(why) => Some(invalid::invalid(path, "0", &why.to_string())),
        Ok(..0) => {
            let replicas = replicas.unwrap_or_default().to_string();
            Some(invalid::invalid(path, &replicas, "should be a non-negative integer"))
        }
        Ok(replicas) if replicas > i64::from(i32::MAX) => {
            let why = format!("should be less than or equal to {}", i32::MAX);
            Some(invalid::invalid(path, &replicas.to_string(), &why))
        }
        Ok(_) => None,
    }
}

/// `unstructured.NestedFieldNoCopy`
fn nested<'a>(object: &'a Object, path: &str) -> Result<Option<&'a Value>, WrongType> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let (first, mut rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(mut value) = object.fields().get(first) else { return Ok(None) };
    while let Some(after) = rest {
        let (name, next) = after.split_once('.').map_or((after, None), |(name, next)| (name, Some(next)));
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(name) {
                Some(field) => value = field,
                None => return Ok(None),
            },
            other => {
                let read = path.len() - next.map_or(0, |next| next.len() + 1);
                return Err(wrong(path.get(..read).unwrap_or_default(), other, "map[string]interface{}"));
            }
        }
        rest = next;
    }
    Ok(Some(value))
}

fn wrong(path: &str, value: &Value, expected: &str) -> WrongType {
    let of = go_dynamic_type(value);
    let path = path.strip_prefix('.').unwrap_or(path);
    WrongType(format!(".{path} accessor error: {} is of the type {of}, expected {expected}", go_print(value)))
}
