//! A summary: count, sum and quantiles of recent observations. The prometheus crate has no summaries.

use super::quantiles::{Objective, Quantiles};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType, Quantile};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The default quantiles of a summary (`metrics.SummaryOpts`).
const OBJECTIVES: &[Objective] = &[(0.5, 0.05), (0.9, 0.01), (0.99, 0.001)];
/// The age at which an observation no longer counts for the quantiles; the real age is 4/5 of this to all of it
/// (`latencySummaryMaxAge`).
const MAX_AGE: Duration = Duration::from_secs(5 * 60 * 60);
/// The number of streams of quantiles, which start evenly spaced within [`MAX_AGE`] (`prometheus.DefAgeBuckets`).
const STREAMS: usize = 5;
/// The number of observations that are buffered before they are sorted and inserted (`prometheus.DefBufCap`).
const BUFFERED: usize = 500;

/// The observations with one set of labels.
#[derive(Debug)]
pub(crate) struct Summary(Mutex<State>);

#[derive(Debug)]
struct State {
    buffer: Vec<f64>,
    count: u64,
    sum: f64,
    /// The oldest stream first. Every stream receives every observation. The oldest stream gives the quantiles, until it is emptied and
    /// becomes the youngest.
    streams: [Quantiles; STREAMS],
    /// The instant at which the oldest stream is emptied.
    end: Instant,
}

impl Summary {
    fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            buffer: Vec::with_capacity(BUFFERED),
            count: 0,
            sum: 0.0,
            streams: std::array::from_fn(|_| Quantiles::new(OBJECTIVES)),
            end: now + MAX_AGE / STREAMS as u32,
        }))
    }

    /// Records an observation in seconds.
    pub(crate) fn observe(&self, seconds: f64) {
        self.observe_at(seconds, Instant::now());
    }

    fn observe_at(&self, seconds: f64, now: Instant) {
        let mut state = self.state();
        state.move_on(now);
        state.buffer.push(seconds);
        if state.buffer.len() >= BUFFERED {
            state.flush();
        }
    }

    fn gather(&self, now: Instant) -> prometheus::proto::Summary {
        let mut state = self.state();
        state.flush();
        state.move_on(now);
        let mut summary = prometheus::proto::Summary::default();
        summary.set_sample_count(state.count);
        summary.set_sample_sum(state.sum);
        let [oldest, ..] = &state.streams;
        let quantiles = oldest.query().map(|(quantile, value)| {
            let mut found = Quantile::default();
            found.set_quantile(quantile);
            found.set_value(value);
            found
        });
        summary.set_quantile(quantiles.collect());
        summary
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn flush(&mut self) {
        self.buffer.sort_by(f64::total_cmp);
        self.count += self.buffer.len() as u64;
        self.sum += self.buffer.iter().sum::<f64>();
        for stream in &mut self.streams {
            stream.insert(&self.buffer);
        }
        self.buffer.clear();
    }

    /// Empties the streams whose time is over.
    fn move_on(&mut self, now: Instant) {
        while now > self.end {
            self.flush();
            let [oldest, ..] = &mut self.streams;
            oldest.clear();
            self.streams.rotate_left(1);
            self.end += MAX_AGE / STREAMS as u32;
        }
    }
}

/// Summaries by their labels. Clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct SummaryVec<const N: usize> {
    desc: Desc,
    names: [&'static str; N],
    summaries: Arc<Mutex<BTreeMap<[&'static str; N], Arc<Summary>>>>,
}

impl<const N: usize> SummaryVec<N> {
    /// An empty set of summaries.
    ///
    /// # Errors
    /// If the name or a label name is invalid.
    pub(super) fn new(name: &str, help: &str, names: [&'static str; N]) -> prometheus::Result<Self> {
        let labels = names.map(str::to_owned).to_vec();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())?;
        Ok(Self { desc, names, summaries: Arc::default() })
    }

    /// The summary with the labels, in the order of `names`.
    pub(super) fn with(&self, labels: [&'static str; N]) -> Arc<Summary> {
        let mut summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        summaries.entry(labels).or_insert_with(|| Arc::new(Summary::new(Instant::now()))).clone()
    }
}

impl<const N: usize> Collector for SummaryVec<N> {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        let now = Instant::now();
        let summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let metrics = summaries.into_iter().map(|(labels, summary)| {
            let mut pairs: Vec<LabelPair> =
                self.names.iter().zip(labels).map(|(name, value)| pair(name, value)).collect();
            pairs.sort();
            let mut metric = Metric::from_label(pairs);
            metric.set_summary(summary.gather(now));
            metric
        });
        family.set_metric(metrics.collect());
        vec![family]
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_forget_and_counts_do_not() {
        let start = Instant::now();
        let (summary, hour) = (Summary::new(start), Duration::from_secs(60 * 60));
        for value in 1..=1_000 {
            summary.observe_at(f64::from(value), start);
        }
        let median = |at: Duration| {
            let gathered = summary.gather(start + at);
            (gathered.get_quantile()[0].value(), gathered.sample_count(), gathered.sample_sum())
        };
        let (found, count, sum) = median(Duration::ZERO);
        assert!((450.0..=550.0).contains(&found), "{found}");
        assert_eq!((count, sum), (1_000, 500_500.0));
        // The stream that is emptied after an hour holds the observation, and so do the four streams that follow.
        assert!(median(hour * 5).0 == found);
        summary.observe_at(7.0, start + hour * 9 / 2);
        let (found, count, sum) = median(hour * 5 + Duration::from_secs(1));
        assert_eq!((found, count, sum), (7.0, 1_001, 500_507.0));
        let (found, count, _) = median(hour * 50);
        assert!(found.is_nan() && count == 1_001);
    }

    #[test]
    fn is_written_as_prometheus_reads_it() {
        let summaries = SummaryVec::new("a_seconds_summary", "[ALPHA] What it is.", ["type", "operation"]).unwrap();
        summaries.with(["admit", "CREATE"]).observe(0.25);
        let registry = crate::metrics::Registry::new();
        registry.register(Box::new(summaries)).unwrap();
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let want = "# HELP a_seconds_summary [ALPHA] What it is.\n# TYPE a_seconds_summary summary\n\
            a_seconds_summary{operation=\"CREATE\",type=\"admit\",quantile=\"0.5\"} 0.25\n\
            a_seconds_summary{operation=\"CREATE\",type=\"admit\",quantile=\"0.9\"} 0.25\n\
            a_seconds_summary{operation=\"CREATE\",type=\"admit\",quantile=\"0.99\"} 0.25\n\
            a_seconds_summary_sum{operation=\"CREATE\",type=\"admit\"} 0.25\n\
            a_seconds_summary_count{operation=\"CREATE\",type=\"admit\"} 1\n";
        assert_eq!(text, want);
    }
}
