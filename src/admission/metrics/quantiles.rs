//! Quantiles of a stream from few samples: targeted quantiles after Cormode, Korn, Muthukrishnan and Srivastava ("Effective
//! Computation of Biased Quantiles over Data Streams"), as in Prometheus' summaries.

/// A quantile, and the error that its rank may have.
pub(super) type Objective = (f64, f64);

/// The samples of a stream.
#[derive(Debug)]
pub(super) struct Quantiles {
    objectives: &'static [Objective],
    /// The samples, sorted by value.
    samples: Vec<Sample>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    value: f64,
    /// The number of the stream's values that the sample represents.
    width: u64,
    /// The uncertainty of the sample's rank.
    delta: u64,
}

impl Quantiles {
    pub(super) fn new(objectives: &'static [Objective]) -> Self {
        Self { objectives, samples: Vec::new(), count: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.samples.clear();
        self.count = 0;
    }

    /// Inserts values, which must be sorted.
    pub(super) fn insert(&mut self, sorted: &[f64]) {
        let old = std::mem::take(&mut self.samples);
        let mut rest = old.into_iter().peekable();
        let mut merged = Vec::with_capacity(rest.len() + sorted.len());
        for value in sorted {
            while let Some(sample) = rest.next_if(|sample| sample.value <= *value) {
                merged.push(sample);
            }
            // The values that the next sample represents may lie on either side of this value, unless this value is the least.
            let delta = match rest.peek() {
                Some(next) if !merged.is_empty() => next.width + next.delta - 1,
                _ => 0,
            };
            merged.push(Sample { value: *value, width: 1, delta });
            self.count += 1;
        }
        merged.extend(rest);
        self.samples = merged;
        self.compress();
    }

    /// Merges neighbouring samples, as far as the objectives allow.
    fn compress(&mut self) {
        let Some(mut last) = self.samples.pop() else { return };
        let (mut kept, mut rank) = (Vec::new(), self.count - last.width);
        while let Some(sample) = self.samples.pop() {
            rank -= sample.width;
            if (sample.width + last.width + last.delta) as f64 <= self.tolerance(rank as f64) {
                last.width += sample.width;
            } else {
                kept.push(std::mem::replace(&mut last, sample));
            }
        }
        kept.push(last);
        kept.reverse();
        self.samples = kept;
    }

    /// The number of values that may lie between two samples at the rank.
    fn tolerance(&self, rank: f64) -> f64 {
        let count = self.count as f64;
        let of = |(quantile, error): &Objective| match quantile * count <= rank {
            true => 2.0 * error * rank / quantile,
            false => 2.0 * error * (count - rank) / (1.0 - quantile),
        };
        self.objectives.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Each quantile with its value, which is NaN for an empty stream.
    pub(super) fn query(&self) -> impl Iterator<Item = (f64, f64)> {
        self.objectives.iter().map(|(quantile, _)| (*quantile, self.value(*quantile)))
    }

    fn value(&self, quantile: f64) -> f64 {
        let rank = quantile * self.count as f64;
        let most = rank + self.tolerance(rank) / 2.0;
        let (mut before, mut found) = (0, f64::NAN);
        for sample in &self.samples {
            if !found.is_nan() && (before + sample.width + sample.delta) as f64 > most {
                break;
            }
            before += sample.width;
            found = sample.value;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTIVES: &[Objective] = &[(0.5, 0.05), (0.9, 0.01), (0.99, 0.001)];

    /// The numbers from 1 to `count`, in an order that does not depend on their size.
    fn shuffled(count: u64) -> Vec<f64> {
        (0..count).map(|index| (index * 7_919 % count + 1) as f64).collect()
    }

    fn of(values: &[f64], batch: usize) -> Quantiles {
        let mut quantiles = Quantiles::new(OBJECTIVES);
        for values in values.chunks(batch) {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            quantiles.insert(&sorted);
        }
        quantiles
    }

    #[test]
    fn ranks_are_as_exact_as_the_objectives_say_and_few_samples_are_kept() {
        let sorted: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let falling: Vec<f64> = sorted.iter().rev().copied().collect();
        // A falling sequence is the algorithm's worst case.
        for (values, what, factor) in
            [(shuffled(100_000), "shuffled", 1.0), (sorted, "rising", 1.0), (falling, "falling", 2.0)]
        {
            let quantiles = of(&values, 500);
            for ((quantile, found), (_, error)) in quantiles.query().zip(OBJECTIVES) {
                let off = (found - quantile * 100_000.0).abs();
                assert!(off <= (factor * error * 100_000.0).ceil(), "{what}: {quantile} is off by {off}");
            }
            assert!(quantiles.samples.len() < 1_000, "{what}: {} samples", quantiles.samples.len());
        }
    }

    #[test]
    fn a_quantile_of_few_values_is_one_of_the_values() {
        let all = |values: &[f64]| of(values, 500).query().map(|(_, found)| found).collect::<Vec<_>>();
        assert!(all(&[]).iter().all(|found| found.is_nan()));
        assert_eq!(all(&[3.0]), [3.0, 3.0, 3.0]);
        assert_eq!(all(&[1.0, 2.0]), [1.0, 1.0, 1.0]);
        assert_eq!(all(&shuffled(10)), [5.0, 9.0, 9.0]);
        let mut cleared = of(&[1.0], 1);
        cleared.clear();
        assert!(cleared.query().all(|(_, found)| found.is_nan()));
    }
}
