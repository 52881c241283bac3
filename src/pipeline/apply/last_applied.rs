//! The annotation of client-side apply. The API server renews the annotation from a configuration that kubectl applies
//! (`fieldmanager.lastAppliedUpdater`), and then the annotation contains the resourceVersion that the proxy has set in the configuration.

use super::take_version;
use crate::go_text::json::escape_html;
use crate::object::Object;

/// The only field manager whose configurations renew the annotation.
pub(super) const KUBECTL: &str = "kubectl";

pub(super) const ANNOTATION: [&str; 3] =
    ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];

/// Returns the annotation of the outcome of `pinned` with the resourceVersion of the client's configuration; `None` if the annotation does not
/// contain the proxy's resourceVersion.
pub(super) fn corrected(outcome: &Object, pinned: &Object, configuration: &Object) -> Option<String> {
    let version = pinned.resource_version();
    if version == configuration.resource_version() {
        return None;
    }
    let mut applied = Object::from_value(serde_json::from_str(outcome.str(&ANNOTATION)).ok()?)?;
    if applied.resource_version() != version {
        return None;
    }
    take_version(&mut applied, configuration);
    // Go's encoder ends with a line end.
    Some(escape_html(&applied.into_value().to_string()) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(applied: &str, pinned: Value, configuration: Value, expected: Option<&str>) {
        let object = |version: Value| Object::from_value(json!({"metadata": {"resourceVersion": version}})).unwrap();
        let annotations = json!({ANNOTATION[2]: applied});
        let outcome = Object::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        assert_eq!(corrected(&outcome, &object(pinned), &object(configuration)).as_deref(), expected, "{applied}");
    }

    #[test]
    fn the_resource_version_of_the_client_replaces_that_of_the_proxy() {
        let renewed = r#"{"data":{"a":"<"},"metadata":{"name":"a","resourceVersion":"7"}}"#;
        let expected = "{\"data\":{\"a\":\"\\u003c\"},\"metadata\":{\"name\":\"a\"}}\n";
        check(renewed, json!("7"), Value::Null, Some(expected));
        check(renewed, json!("7"), json!("7"), None);
        check(renewed, json!("8"), json!("7"), None);
    }

    #[test]
    fn another_annotation_stays_as_it_is() {
        for other in ["", "x", "[]", "{}", r#"{"metadata":[]}"#, r#"{"metadata":{"resourceVersion":7}}"#] {
            check(other, json!("7"), Value::Null, None);
        }
    }
}
