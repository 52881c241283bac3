//! The plugin's configuration: `imagePolicy`, which has no apiVersion.

use crate::go_text::{duration, go_type};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// The configuration with all defaults.
#[derive(Debug, PartialEq)]
pub(super) struct Configuration {
    /// The kubeconfig of the backend. A relative path starts in the working directory, as in kube-apiserver.
    pub(crate) kubeconfig_file: PathBuf,
    /// The time for which a positive answer is cached.
    pub(crate) allow_ttl: Duration,
    /// The time for which a negative answer is cached.
    pub(crate) deny_ttl: Duration,
    /// The pause before the first retry.
    pub(crate) retry_backoff: Duration,
    /// Whether a pod is admitted if the backend fails.
    pub(crate) default_allow: bool,
}

/// A duration of the configuration (`normalizeConfigDuration`), in nanoseconds.
struct Range {
    field: &'static str,
    unit: i64,
    least: i64,
    most: i64,
    default: i64,
}

const RETRY_BACKOFF: Range =
    Range { field: "retryBackoff", unit: MILLISECOND, least: 1, most: 5 * MINUTE, default: 500 * MILLISECOND };
const ALLOW_TTL: Range =
    Range { field: "allowTTL", unit: SECOND, least: SECOND, most: 30 * MINUTE, default: 5 * MINUTE };
const DENY_TTL: Range =
    Range { field: "denyTTL", unit: SECOND, least: SECOND, most: 30 * MINUTE, default: 30 * SECOND };

/// The reason why the configuration is invalid.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Invalid {
    /// The configuration is no object.
    #[error("must be an object with imagePolicy")]
    NoObject,
    /// `imagePolicy` is no object, but has this type.
    #[error("imagePolicy: must be an object, not {0}")]
    NoPolicy(&'static str),
    /// The field has another type.
    #[error("imagePolicy.{field}: must be {wanted}, not {found}")]
    WrongType { field: &'static str, wanted: &'static str, found: &'static str },
    /// A duration is out of its range.
    #[error("imagePolicy.{field}: valid value is between {least} and {most}, got {got}")]
    OutOfRange { field: &'static str, least: String, most: String, got: String },
    /// The configuration names no kubeconfig.
    #[error("imagePolicy.kubeConfigFile: must name the kubeconfig of the backend")]
    NoKubeconfig,
}

impl Invalid {
    fn wrong_type(field: &'static str, wanted: &'static str, found: &Value) -> Self {
        Self::WrongType { field, wanted, found: go_type(found) }
    }
}

impl Configuration {
    /// Reads the configuration. Unknown fields are ignored, as in kube-apiserver.
    ///
    /// # Errors
    /// If a field is invalid.
    pub(super) fn read(value: &Value) -> Result<Self, Invalid> {
        let root = value.as_object().ok_or(Invalid::NoObject)?;
        let none = Map::new();
        let fields = match field(root, "imagePolicy") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(Invalid::NoPolicy(go_type(other))),
        };
        let retry_backoff = RETRY_BACKOFF.read(fields)?;
        let allow_ttl = ALLOW_TTL.read(fields)?;
        let deny_ttl = DENY_TTL.read(fields)?;
        let default_allow = match field(fields, "defaultAllow") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => return Err(Invalid::wrong_type("defaultAllow", "true or false", other)),
        };
        let kubeconfig_file = match field(fields, "kubeConfigFile") {
            Some(Value::String(path)) if !path.is_empty() => PathBuf::from(path),
            None | Some(Value::Null | Value::String(_)) => return Err(Invalid::NoKubeconfig),
            Some(other) => return Err(Invalid::wrong_type("kubeConfigFile", "a string", other)),
        };
        Ok(Self { kubeconfig_file, allow_ttl, deny_ttl, retry_backoff, default_allow })
    }
}

/// Finds a field regardless of letter case, like Go's `encoding/json`.
fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let folded = || fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    fields.get(name).or_else(folded)
}

impl Range {
    fn read(&self, fields: &Map<String, Value>) -> Result<Duration, Invalid> {
        let Self { field: name, unit, least, most, default } = *self;
        let number = match field(fields, name) {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().ok_or_else(|| Invalid::wrong_type(name, "a whole number", value))?,
        };
        let nanoseconds = match number {
            // -1 turns the cache off.
            -1 => 0,
            0 => default,
            number => {
                let scaled = number.saturating_mul(unit);
                if !(least..=most).contains(&scaled) {
                    let [least, most, got] = [least, most, scaled].map(duration::go);
                    return Err(Invalid::OutOfRange { field: name, least, most, got });
                }
                scaled
            }
        };
        Ok(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(fields: Value) -> Result<Configuration, String> {
        let mut whole = json!({"kubeConfigFile": "k"});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let whole = json!({ "imagePolicy": whole, "podNodeSelectorPluginConfig": {} });
        Configuration::read(&whole).map_err(|why| why.to_string())
    }

    fn milliseconds(configuration: &Configuration) -> [u128; 3] {
        [configuration.retry_backoff, configuration.allow_ttl, configuration.deny_ttl].map(|one| one.as_millis())
    }

    #[test]
    fn durations_have_units_defaults_and_a_way_to_turn_them_off() {
        for (fields, want) in [
            (json!({}), [500, 300_000, 30_000]),
            (json!({"retryBackoff": 0, "allowTTL": 0, "denyTTL": null}), [500, 300_000, 30_000]),
            (json!({"retryBackoff": -1, "allowTTL": -1, "denyTTL": -1}), [0, 0, 0]),
            (json!({"retryBackoff": 1, "allowTTL": 1, "denyTTL": 1}), [1, 1_000, 1_000]),
            (json!({"retryBackoff": 300_000, "allowTTL": 1800, "denyTTL": 1800}), [300_000, 1_800_000, 1_800_000]),
            (json!({"RETRYBACKOFF": 7, "allowttl": 8, "unknown": 9}), [7, 8_000, 30_000]),
        ] {
            assert_eq!(milliseconds(&read(fields.clone()).unwrap()), want, "{fields}");
        }
        let read = read(json!({"defaultAllow": true})).unwrap();
        assert_eq!((read.default_allow, read.kubeconfig_file), (true, PathBuf::from("k")));
    }

    #[test]
    fn errors_name_the_faulty_field() {
        for (fields, message) in [
            (
                json!({"retryBackoff": 300_001}),
                "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s, got 5m0.001s",
            ),
            (json!({"retryBackoff": -2}), "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s, got -2ms"),
            (json!({"allowTTL": 1860}), "imagePolicy.allowTTL: valid value is between 1s and 30m0s, got 31m0s"),
            (json!({"denyTTL": 7201}), "imagePolicy.denyTTL: valid value is between 1s and 30m0s, got 2h0m1s"),
            (json!({"denyTTL": 1.5}), "imagePolicy.denyTTL: must be a whole number, not number"),
            (json!({"denyTTL": "30s"}), "imagePolicy.denyTTL: must be a whole number, not string"),
            (json!({"defaultAllow": "yes"}), "imagePolicy.defaultAllow: must be true or false, not string"),
            (json!({"kubeConfigFile": 1}), "imagePolicy.kubeConfigFile: must be a string, not number"),
            (json!({"kubeConfigFile": ""}), "imagePolicy.kubeConfigFile: must name the kubeconfig of the backend"),
        ] {
            assert_eq!(read(fields), Err(message.to_owned()));
        }
        for (value, message) in [
            (json!({}), "imagePolicy.kubeConfigFile: must name the kubeconfig of the backend"),
            (json!({"imagePolicy": []}), "imagePolicy: must be an object, not array"),
            (json!([]), "must be an object with imagePolicy"),
        ] {
            assert_eq!(Configuration::read(&value).unwrap_err().to_string(), message);
        }
        assert!(read(json!({"allowTTL": i64::MAX})).is_err());
        assert!(read(json!({"allowTTL": i64::MIN})).is_err());
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (SECOND + 1, "1.000000001s"),
            (90 * SECOND, "1m30s"),
            (-61 * MINUTE, "-1h1m0s"),
        ] {
            assert_eq!(duration::go(nanoseconds), text);
        }
    }
}
