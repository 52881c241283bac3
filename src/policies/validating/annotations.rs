//! The audit annotations of policies.

use crate::admission::Annotations;
use crate::go_text::json;
use crate::policies::binding::Action;

/// The annotation that records a failed validation.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Bytes of a value (`maxAuditAnnotationValueLength`); a longer value is cut.
const VALUE_BYTES: usize = 10 * 1024;

/// The annotations of one policy, over all its bindings (`auditAnnotationCollector`).
#[derive(Debug, Default)]
pub(super) struct Collector(Vec<(String, Vec<String>)>);

impl Collector {
    /// Adds a value, unless the key has that value already.
    pub(super) fn add(&mut self, key: &str, value: &str) {
        let cut = value.as_bytes().get(..VALUE_BYTES).unwrap_or(value.as_bytes());
        let value = String::from_utf8_lossy(cut).into_owned();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => self.0.push((key.to_owned(), vec![value])),
        }
    }

    /// Publishes the annotations under the policy's name.
    pub(super) fn publish(self, policy: &str, annotations: &Annotations) {
        for (key, values) in self.0 {
            annotations.add(format!("{policy}/{key}"), values.join(", "));
        }
    }
}

/// Publishes a failure, unless another failure was published before: the key has room for one.
pub(super) fn publish_failure(
    annotations: &Annotations,
    policy: &str,
    binding: &str,
    index: usize,
    message: &str,
    actions: &[Action],
) {
    let actions: Vec<String> = actions.iter().map(|action| format!("\"{}\"", action.as_str())).collect();
    annotations.add(
        FAILURE,
        format!(
            "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":[{}]}}]",
            json::string(message),
            json::string(policy),
            json::string(binding),
            actions.join(",")
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Level;

    #[test]
    fn values_of_several_bindings_are_joined_and_long_ones_are_cut() {
        let (annotations, mut collector) = (Annotations::default(), Collector::default());
        for (key, value) in [("k", "a"), ("k", "a"), ("k", "b"), ("long", &"x".repeat(VALUE_BYTES + 1))] {
            collector.add(key, value);
        }
        collector.publish("p.lab.dev", &annotations);
        let expected = [("p.lab.dev/k", "a, b".to_owned()), ("p.lab.dev/long", "x".repeat(VALUE_BYTES))];
        assert_eq!(annotations.take(), expected.map(|(key, value)| (key.to_owned(), value, Level::Metadata)));
    }

    #[test]
    fn a_failure_is_json_as_go_writes_it() {
        let annotations = Annotations::default();
        publish_failure(&annotations, "p", "b", 2, "a < \"b\"", &[Action::Warn, Action::Audit]);
        let (_, value, _) = annotations.take().remove(0);
        assert_eq!(
            value,
            r#"[{"message":"a \u003c \"b\"","policy":"p","binding":"b","expressionIndex":2,"validationActions":["Warn","Audit"]}]"#
        );
    }
}
