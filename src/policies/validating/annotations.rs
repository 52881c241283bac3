//! The audit annotations of policies.

use crate::admission::{Annotations, Attributes};
use crate::go_text::json;
use crate::policies::binding::Action;

/// The annotation that records a failed validation.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Failures in the annotation of one request (`maxValidationFailures`); further ones are cut.
const MOST_FAILURES: usize = 50;
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

/// The failures with the action Audit of one request, each as JSON (`validationFailures`).
#[derive(Debug)]
pub(super) struct Failures {
    /// Whether the annotation has all failures, as since 1.37. Before, each failure was an annotation of its own, of which the key kept
    /// the first (`publishValidationFailureAnnotation`).
    has_all: bool,
    first: Vec<String>,
    count: usize,
}

impl Failures {
    /// Creates the failures of a request.
    pub(super) fn new(has_all: bool) -> Self {
        Self { has_all, first: Vec::new(), count: 0 }
    }

    /// Adds a failed validation (`ValidationFailureValue`).
    pub(super) fn add(
        &mut self,
        attributes: &Attributes,
        policy: &str,
        binding: &str,
        index: usize,
        message: &str,
        actions: &[Action],
    ) {
        self.count += 1;
        if self.first.len() >= MOST_FAILURES {
            return;
        }
        let actions: Vec<String> = actions.iter().map(|action| format!("\"{}\"", action.as_str())).collect();
        let failure = format!(
            "{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":[{}]}}",
            json::string(message),
            json::string(policy),
            json::string(binding),
            actions.join(",")
        );
        match self.has_all {
            true => self.first.push(failure),
            false => attributes.annotations.add(FAILURE, format!("[{failure}]")),
        }
    }

    /// Publishes the failures after all policies (`publishValidationFailureAnnotations`).
    pub(super) fn publish(self, attributes: &Attributes) {
        if self.first.is_empty() {
            return;
        }
        if self.count > self.first.len() {
            let (count, resource) = (self.count, &*attributes.resource.resource);
            tracing::warn!(
                count,
                resource,
                most = MOST_FAILURES,
                "the audit annotation has the first validation failures"
            );
        }
        attributes.annotations.add(FAILURE, format!("[{}]", self.first.join(",")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Level;
    use crate::policies::testing::create;

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

    /// The annotation of these failures of the policies `p0`, `p1`, …, published after the last.
    fn annotated(has_all: bool, failures: usize) -> String {
        let attributes = create();
        let mut all = Failures::new(has_all);
        for at in 0..failures {
            all.add(&attributes, &format!("p{at}"), "b", 2, "a < \"b\"", &[Action::Warn, Action::Audit]);
        }
        all.publish(&attributes);
        let mut annotations = attributes.annotations.take();
        assert!(annotations.len() <= 1);
        annotations.pop().map(|(_, value, _)| value).unwrap_or_default()
    }

    fn item(at: usize) -> String {
        format!(
            r#"{{"message":"a \u003c \"b\"","policy":"p{at}","binding":"b","expressionIndex":2,"validationActions":["Warn","Audit"]}}"#
        )
    }

    #[test]
    fn a_failure_is_json_as_go_writes_it() {
        for has_all in [false, true] {
            assert_eq!(annotated(has_all, 0), "");
            assert_eq!(annotated(has_all, 1), format!("[{}]", item(0)));
        }
    }

    #[test]
    fn since_1_37_the_annotation_has_the_first_fifty_failures() {
        assert_eq!(annotated(false, 2), format!("[{}]", item(0)));
        assert_eq!(annotated(true, 2), format!("[{},{}]", item(0), item(1)));
        let fifty: Vec<String> = (0..MOST_FAILURES).map(item).collect();
        assert_eq!(annotated(true, MOST_FAILURES), format!("[{}]", fifty.join(",")));
        assert_eq!(annotated(true, MOST_FAILURES + 1), format!("[{}]", fifty.join(",")));
    }
}
