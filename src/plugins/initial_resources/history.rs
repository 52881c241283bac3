//! The file with past usage: samples, or percentiles that another program computed. Percentiles count first.
//!
//! ```yaml
//! samples:
//! - image: nginx:1.25
//!   namespace: web
//!   time: 2026-01-31T12:00:00Z
//!   cpu: 250m             # a quantity or a number of cores
//!   memory: 100Mi         # a quantity or a number of bytes
//! percentiles:
//! - image: nginx:1.25     # without a tag, for the question about all tags
//!   namespace: web        # without a namespace, for the question about all namespaces
//!   days: 7               # 7 or 30
//!   cpu: {value: 250m, samples: 100}
//!   memory: {value: 100Mi, samples: 100}
//! ```

use super::usage::{Kind, Question, Usage, without_tag};
use super::{MONTH, WEEK};
use crate::object::quantity::Amount;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    samples: Vec<WrittenSample>,
    percentiles: Vec<WrittenPercentile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSample {
    image: String,
    namespace: String,
    time: String,
    cpu: Option<Value>,
    memory: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPercentile {
    image: String,
    #[serde(default)]
    namespace: String,
    days: u8,
    cpu: Option<WrittenUsage>,
    memory: Option<WrittenUsage>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    value: Value,
    samples: u32,
}

/// The usage of containers in the past.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The samples by image without tag.
    samples: HashMap<String, Vec<Sample>>,
    percentiles: HashMap<String, Vec<Percentile>>,
}

#[derive(Debug)]
struct Sample {
    image: String,
    namespace: String,
    time: Timestamp,
    cpu: Option<i64>,
    memory: Option<i64>,
}

#[derive(Debug)]
struct Percentile {
    namespace: String,
    days: u8,
    cpu: Option<Usage>,
    memory: Option<Usage>,
}

/// An item of the file is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{list}[{index}].{fault}")]
pub(super) struct InvalidItem {
    list: &'static str,
    index: usize,
    fault: Fault,
}

/// The reason why an item is invalid.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Fault {
    /// The time cannot be parsed.
    #[error("time: {0:?} must be a time like 2026-01-31T12:00:00Z")]
    Time(String),
    /// The number of days is not one for which the plugin asks.
    #[error("days: must be {WEEK} or {MONTH}, not {0}")]
    Days(u8),
    /// The amount is no quantity, or is negative.
    #[error("{}: {value} must be a quantity from 0 on", kind.name())]
    Amount { kind: Kind, value: Value },
}

impl History {
    /// Checks and indexes the file.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(super) fn new(written: Written) -> Result<Self, InvalidItem> {
        let mut history = Self::default();
        for (index, sample) in written.samples.into_iter().enumerate() {
            let invalid = |fault| InvalidItem { list: "samples", index, fault };
            let sample = Sample::new(sample).map_err(invalid)?;
            history.samples.entry(without_tag(&sample.image).to_owned()).or_default().push(sample);
        }
        for (index, written) in written.percentiles.into_iter().enumerate() {
            let image = written.image.clone();
            let invalid = |fault| InvalidItem { list: "percentiles", index, fault };
            let percentile = Percentile::new(written).map_err(invalid)?;
            history.percentiles.entry(image).or_default().push(percentile);
        }
        Ok(history)
    }

    /// The answer to a question.
    pub(super) fn answer(&self, question: &Question<'_>) -> Usage {
        self.percentile(question).unwrap_or_else(|| self.of_samples(question))
    }

    fn percentile(&self, question: &Question<'_>) -> Option<Usage> {
        let namespace = question.namespace.unwrap_or_default();
        let mut given = self.percentiles.get(question.image)?.iter();
        let found = given.find(|given| (&*given.namespace, given.days) == (namespace, question.days))?;
        match question.kind {
            Kind::Cpu => found.cpu,
            Kind::Memory => found.memory,
        }
    }

    /// The percentile of the samples: the smallest value that so many percent of the samples do not exceed.
    fn of_samples(&self, question: &Question<'_>) -> Usage {
        let samples = self.samples.get(without_tag(question.image)).into_iter().flatten();
        let is_asked = |sample: &&Sample| {
            (!question.is_exact || sample.image == question.image)
                && question.namespace.is_none_or(|namespace| sample.namespace == namespace)
                && (question.start()..=question.end).contains(&sample.time)
        };
        let value = |sample: &Sample| match question.kind {
            Kind::Cpu => sample.cpu,
            Kind::Memory => sample.memory,
        };
        let mut values: Vec<i64> = samples.filter(is_asked).filter_map(value).collect();
        let rank = (values.len() * usize::from(question.percentile)).div_ceil(100).max(1);
        if values.len() < rank {
            return Usage::default();
        }
        let (_, value, _) = values.select_nth_unstable(rank - 1);
        Usage { value: *value, samples: i64::try_from(values.len()).unwrap_or(i64::MAX) }
    }
}

impl Sample {
    fn new(written: WrittenSample) -> Result<Self, Fault> {
        let WrittenSample { image, namespace, time, cpu, memory } = written;
        let time = time.parse().map_err(|_| Fault::Time(time))?;
        let value = |kind, value: Option<Value>| value.map(|value| amount(kind, &value)).transpose();
        Ok(Self { image, namespace, time, cpu: value(Kind::Cpu, cpu)?, memory: value(Kind::Memory, memory)? })
    }
}

impl Percentile {
    fn new(written: WrittenPercentile) -> Result<Self, Fault> {
        let WrittenPercentile { namespace, days, cpu, memory, .. } = written;
        if ![WEEK, MONTH].contains(&days) {
            return Err(Fault::Days(days));
        }
        let usage = |kind, written: Option<WrittenUsage>| written.map(|written| written.usage(kind)).transpose();
        Ok(Self { namespace, days, cpu: usage(Kind::Cpu, cpu)?, memory: usage(Kind::Memory, memory)? })
    }
}

impl WrittenUsage {
    fn usage(self, kind: Kind) -> Result<Usage, Fault> {
        Ok(Usage { value: amount(kind, &self.value)?, samples: self.samples.into() })
    }
}

/// A value in the unit of its kind. Fractions are cut off.
fn amount(kind: Kind, value: &Value) -> Result<i64, Fault> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let amount = Amount::parse(&text).ok().filter(|amount| amount.sign() >= 0);
    let amount = amount.ok_or_else(|| Fault::Amount { kind, value: value.clone() })?;
    let factor = if kind == Kind::Cpu { 1000.0 } else { 1.0 };
    // A decimal like 0.123 has no exact double, whose product with 1000 may be a little too small.
    Ok((amount.as_f64() * factor + 1e-6) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use serde_json::json;

    const NOW: &str = "2026-02-01T00:00:00Z";

    fn history(written: Value) -> Result<History, String> {
        let written: Written = serde_json::from_value(written).map_err(|error| error.to_string())?;
        History::new(written).map_err(|why| why.to_string())
    }

    fn question<'a>(kind: Kind, image: &'a str, namespace: Option<&'a str>, days: u8) -> Question<'a> {
        let (is_exact, end) = (without_tag(image) != image, NOW.parse().unwrap());
        Question { kind, image, is_exact, namespace, percentile: 90, days, end }
    }

    fn sample(image: &str, namespace: &str, days_ago: i64, cpu: Value) -> Value {
        let time = NOW.parse::<Timestamp>().unwrap() - SignedDuration::from_hours(24 * days_ago);
        json!({"image": image, "namespace": namespace, "time": time.to_string(), "cpu": cpu})
    }

    #[test]
    fn samples_count_by_image_namespace_and_time() {
        let samples = json!([
            sample("a:1", "n", 1, json!(1)),
            sample("a:2", "n", 1, json!(2)),
            sample("a:1", "m", 1, json!(3)),
            sample("a:1", "n", 8, json!(4)),
            sample("a:1", "n", 31, json!(5)),
            sample("b:1", "n", 1, json!(6)),
            sample("a:1", "n", -1, json!(7))
        ]);
        let history = history(json!({"samples": samples})).unwrap();
        for (image, namespace, days, value, samples) in [
            ("a:1", Some("n"), 7, 1000, 1),
            ("a:1", Some("n"), 30, 4000, 2),
            ("a:1", None, 7, 3000, 2),
            ("a:1", None, 30, 4000, 3),
            ("a", None, 30, 4000, 4),
            ("a", Some("n"), 30, 4000, 3),
            ("c:1", None, 30, 0, 0),
        ] {
            let answer = history.answer(&question(Kind::Cpu, image, namespace, days));
            assert_eq!(answer, Usage { value, samples }, "{image} {namespace:?} {days}");
        }
        assert_eq!(history.answer(&question(Kind::Memory, "a:1", None, 30)), Usage::default());
    }

    #[test]
    fn a_percentile_is_a_value_of_a_sample() {
        let samples: Vec<Value> = (1..=30).map(|cpu| sample("a:1", "n", 1, json!(format!("{cpu}m")))).collect();
        let history = history(json!({"samples": samples})).unwrap();
        for (percentile, value) in [(90, 27), (100, 30), (50, 15), (1, 1)] {
            let question = Question { percentile, ..question(Kind::Cpu, "a:1", None, 7) };
            assert_eq!(history.answer(&question), Usage { value, samples: 30 }, "{percentile}");
        }
    }

    #[test]
    fn given_percentiles_count_before_samples() {
        let usage = |value: Value| json!({"value": value, "samples": 40});
        let given = json!([{"image": "a:1", "namespace": "n", "days": 7, "cpu": usage(json!("250m"))},
            {"image": "a", "days": 30, "memory": usage(json!("1Mi"))}]);
        let samples = json!([sample("a:1", "n", 1, json!(1))]);
        let history = history(json!({"samples": samples, "percentiles": given})).unwrap();
        let answer = |kind, image, namespace, days| history.answer(&question(kind, image, namespace, days));
        assert_eq!(answer(Kind::Cpu, "a:1", Some("n"), 7), Usage { value: 250, samples: 40 });
        assert_eq!(answer(Kind::Cpu, "a:1", Some("n"), 30), Usage { value: 1000, samples: 1 });
        assert_eq!(answer(Kind::Memory, "a", None, 30), Usage { value: 1 << 20, samples: 40 });
        assert_eq!(answer(Kind::Memory, "a:1", Some("n"), 7), Usage::default());
    }

    #[test]
    fn fractions_are_cut_off() {
        for (kind, value, want) in [
            (Kind::Cpu, json!("123.9m"), 123),
            (Kind::Cpu, json!(0.123), 123),
            (Kind::Cpu, json!("1"), 1000),
            (Kind::Cpu, json!(0), 0),
            (Kind::Memory, json!(1.9), 1),
            (Kind::Memory, json!("5M"), 5_000_000),
        ] {
            assert_eq!(amount(kind, &value), Ok(want), "{value}");
        }
    }

    #[test]
    fn faults_are_named_with_their_item() {
        let sample = |field: &str, value: Value| {
            let mut sample = sample("a", "n", 1, json!(1));
            sample[field] = value;
            json!({"samples": [sample]})
        };
        for (written, fault) in [
            (sample("time", json!("today")), "samples[0].time: \"today\" must be a time like 2026-01-31T12:00:00Z"),
            (sample("cpu", json!("-1")), "samples[0].cpu: \"-1\" must be a quantity from 0 on"),
            (sample("memory", json!([])), "samples[0].memory: [] must be a quantity from 0 on"),
            (json!({"percentiles": [{"image": "a", "days": 8}]}), "percentiles[0].days: must be 7 or 30, not 8"),
            (json!({"sample": []}), "unknown field `sample`, expected `samples` or `percentiles`"),
        ] {
            assert_eq!(history(written).unwrap_err(), fault);
        }
    }
}
