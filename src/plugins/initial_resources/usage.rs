//! Questions about past usage, and their sources.

use super::history::History;
use crate::backend::{CallFailure, Lookup};
use crate::manifests::FollowedFile;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// The time for one question to a URL.
const TIME_FOR_A_QUESTION: Duration = Duration::from_secs(2);

/// The resource of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// CPU, in thousandths of a core.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

impl Kind {
    /// The resource's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// The suffix that makes a value a quantity.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "m",
            Self::Memory => "",
        }
    }
}

/// A question for a percentile of past usage (`dataSource.GetUsagePercentile`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) kind: Kind,
    /// The image: with its tag if `is_exact`, else without.
    pub(super) image: &'a str,
    /// Whether only this tag of the image counts.
    pub(super) is_exact: bool,
    /// The namespace; `None` for all namespaces.
    pub(super) namespace: Option<&'a str>,
    pub(super) percentile: u8,
    /// The length of the time that counts, which ends at `end`.
    pub(super) days: u8,
    pub(super) end: Timestamp,
}

impl Question<'_> {
    /// The beginning of the time that counts.
    pub(super) fn start(&self) -> Timestamp {
        self.end.checked_sub(SignedDuration::from_hours(24 * i64::from(self.days))).unwrap_or(Timestamp::MIN)
    }
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// The percentile, in the unit of the kind; never negative.
    pub(super) value: i64,
    /// The number of samples; 0 if there is no usage.
    pub(super) samples: i64,
}

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoUsage {
    /// The server gives no object.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// The object has not the two numbers.
    #[error("the answer must have a value and samples, both numbers from 0 on")]
    Numbers,
}

/// The source of past usage.
pub(super) enum Source {
    /// No source: the plugin has no configuration.
    None,
    /// A file with samples or percentiles.
    File(FollowedFile<History>),
    /// A server that answers each question.
    Url(Box<Lookup>),
}

impl Source {
    /// The answer to a question.
    ///
    /// # Errors
    /// If the server gives no answer.
    pub(super) async fn answer(&self, question: &Question<'_>, deadline: Instant) -> Result<Usage, NoUsage> {
        match self {
            Self::None => Ok(Usage::default()),
            Self::File(history) => Ok(history.load().answer(question)),
            Self::Url(lookup) => ask(lookup, question, deadline).await,
        }
    }
}

async fn ask(lookup: &Lookup, question: &Question<'_>, deadline: Instant) -> Result<Usage, NoUsage> {
    let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (percentile, start, end) = (question.percentile.to_string(), time(question.start()), time(question.end));
    let mut parameters = vec![
        ("kind", question.kind.name()),
        ("image", question.image),
        ("exact", if question.is_exact { "true" } else { "false" }),
        ("percentile", &*percentile),
        ("start", &*start),
        ("end", &*end),
    ];
    parameters.extend(question.namespace.map(|namespace| ("namespace", namespace)));
    let until = deadline.min(Instant::now() + TIME_FOR_A_QUESTION);
    read(&lookup.ask(&parameters, until).await?).ok_or(NoUsage::Numbers)
}

/// Reads `{"value": N, "samples": N}`. Fractions are cut off.
fn read(answer: &Map<String, Value>) -> Option<Usage> {
    let number = |field: &str| answer.get(field).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    Some(Usage { value: number("value")? as i64, samples: number("samples")? as i64 })
}

/// The image without tag and digest. Kubernetes cut at the first `:`, which also cut a registry's port with all that follows.
pub(super) fn without_tag(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_and_digests_are_no_part_of_an_images_name() {
        for (image, bare) in [
            ("nginx", "nginx"),
            ("nginx:1.25", "nginx"),
            ("r.io/a/b:1", "r.io/a/b"),
            ("r.io:5000/a/b:1", "r.io:5000/a/b"),
            ("r.io:5000/a/b", "r.io:5000/a/b"),
            ("nginx:1@sha256:ab", "nginx"),
            ("nginx@sha256:ab", "nginx"),
            ("", ""),
        ] {
            assert_eq!(without_tag(image), bare, "{image}");
        }
    }

    #[test]
    fn an_answer_has_two_numbers() {
        let of = |value: Value| read(value.as_object().unwrap());
        assert_eq!(of(json!({"value": 123.9, "samples": 30})), Some(Usage { value: 123, samples: 30 }));
        assert_eq!(of(json!({"value": 0, "samples": 0, "more": 1})), Some(Usage::default()));
        assert_eq!(of(json!({"value": 1e300, "samples": 1})), Some(Usage { value: i64::MAX, samples: 1 }));
        for wrong in
            [json!({}), json!({"value": 1}), json!({"value": "1", "samples": 1}), json!({"value": -1, "samples": 1})]
        {
            assert_eq!(of(wrong.clone()), None, "{wrong}");
        }
    }
}
