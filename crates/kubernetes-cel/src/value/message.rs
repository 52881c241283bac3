//! Messages that an expression makes: `Object{…}` and `JSONPatch{…}` of the mutation environment.

use super::{Error, List, Struct, Value};
use crate::work;
use std::sync::Arc;

/// `JSONPatchTypeName` of Kubernetes.
const JSON_PATCH: &str = "JSONPatch";

impl<'a> Struct<'a> {
    /// Makes a message with these fields.
    ///
    /// # Errors
    /// If a field of a `JSONPatch` has the wrong type or does not exist.
    pub fn new(name: Arc<str>, fields: Vec<(Arc<str>, Value<'a>)>) -> Result<Self, Error> {
        if &*name == JSON_PATCH {
            for (field, value) in &fields {
                match (&**field, value) {
                    ("value", _) | ("op" | "path" | "from", Value::String(_)) => {}
                    ("op" | "path" | "from", value) => {
                        let found = go_value_type(value);
                        let message = format!("unexpected type {found} for JSONPatchType '{field}' field");
                        return Err(Error::new(message));
                    }
                    _ => return Err(Error::new(format!("unexpected JSONPatchType field: {field}"))),
                }
            }
        }
        Ok(Self { name, fields })
    }

    /// The value of a field; `None` if the expression did not set it.
    pub fn get(&self, field: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(name, _)| &**name == field).map(|(_, value)| value)
    }

    /// Selects a field, as the qualifiers of cel-go do. `by_type` is true if the checker knew the type.
    pub(crate) fn select(&self, field: &str, by_type: bool, if_present: bool) -> Result<Option<Value<'a>>, Error> {
        let found = self.get(field);
        if &*self.name == JSON_PATCH {
            let found = found.cloned();
            return match field {
                "op" | "path" | "from" if if_present => Ok(found.filter(|value| value.size() != Some(0))),
                "op" | "path" | "from" => Ok(found.or(Some(Value::text("")))),
                "value" if if_present => Ok(found),
                "value" => Ok(found.or(Some(Value::Null))),
                _ if if_present => Err(Error::new(format!("unsupported field: {field}"))),
                _ => Err(Error::new(format!("unsupported indexer: {field}"))),
            };
        }
        let found = found.map(plain).transpose()?;
        Ok(match (by_type, if_present) {
            (true, true) => found,
            (true, false) => found.or(Some(Value::Null)),
            (false, _) => None,
        })
    }
}

/// The value of a field, with maps instead of messages: `ObjectVal.Value()` of Kubernetes.
fn plain<'a>(value: &Value<'a>) -> Result<Value<'a>, Error> {
    work::write(size_of::<Value<'_>>())?;
    Ok(match value {
        Value::Struct(made) if &*made.name != JSON_PATCH => {
            let fields = made.fields.iter().map(|(name, value)| Ok((Value::string(name.clone()), plain(value)?)));
            Value::map(fields.collect::<Result<Vec<_>, Error>>()?)
        }
        Value::List(List::Values(elements)) => Value::list(elements.iter().map(plain).collect::<Result<_, _>>()?),
        value => value.clone(),
    })
}

fn go_value_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bytes(_) => "[]uint8",
        Value::Duration(_) => "time.Duration",
        Value::Timestamp(..) => "time.Time",
        _ => "interface {}",
    }
}
