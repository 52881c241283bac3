//! `apiserver_admission_*`: kube-apiserver's names, labels and buckets.

/// The admission metrics.
pub struct Metrics {}
