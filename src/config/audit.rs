//! The audit backends, with kube-apiserver's defaults (`options.NewAuditOptions`).

use std::path::PathBuf;
use std::time::Duration;

/// The audit log and its policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditOptions {
    /// The destination of events; `None` to write no events.
    pub(crate) log: Option<AuditLog>,
    /// How the log of the flags and the logs of tenants are written.
    pub(crate) log_options: AuditLogOptions,
    /// The webhook; `None` to post no events.
    pub(crate) webhook: Option<AuditWebhook>,
    /// The `audit.k8s.io/v1` Policy.
    pub(crate) policy_file: Option<PathBuf>,
    /// Whether events have no annotations but those that kube-apiserver has.
    pub(crate) is_exact: bool,
}

/// The destination of audit events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditLog {
    /// Standard output.
    Stdout,
    /// A file that is appended to.
    File(PathBuf),
}

/// How a log is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditLogOptions {
    pub(crate) backend: AuditBackend,
    /// Whether an event is a line of text instead of JSON.
    pub(crate) is_legacy: bool,
    /// The rotation of a file; `None` for a file that grows.
    pub(crate) rotation: Option<AuditRotation>,
}

impl Default for AuditLogOptions {
    fn default() -> Self {
        let batch = AuditBatch { buffer_events: 10_000, events: 1, wait: Duration::ZERO, throttle: None };
        Self {
            backend: AuditBackend { mode: AuditMode::Blocking, batch, truncate: None },
            is_legacy: false,
            rotation: Some(AuditRotation { bytes: 100 << 20, days: 366, backups: 100, compresses: false }),
        }
    }
}

/// A server that gets events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditWebhook {
    /// The kubeconfig that names the server.
    pub(crate) kubeconfig: PathBuf,
    /// The pause after the first failed attempt.
    pub(crate) initial_backoff: Duration,
    pub(crate) backend: AuditBackend,
}

/// When a request waits for its event, and how events are combined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditBackend {
    pub(crate) mode: AuditMode,
    /// Of the mode `batch`.
    pub(crate) batch: AuditBatch,
    /// `None` to leave events whole.
    pub(crate) truncate: Option<AuditTruncate>,
}

/// The relation of a request to its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditMode {
    /// Events wait in a buffer, and events that do not fit are lost.
    Batch,
    /// A request waits until each of its events is written.
    Blocking,
    /// As `Blocking`; a request whose arrival cannot be written fails.
    BlockingStrict,
}

impl AuditMode {
    pub(crate) const ALL: [(&str, Self); 3] =
        [("batch", Self::Batch), ("blocking", Self::Blocking), ("blocking-strict", Self::BlockingStrict)];

    /// Whether a request waits for its events.
    pub(crate) fn blocks(self) -> bool {
        self != Self::Batch
    }
}

/// How events are combined (`buffered.BatchConfig`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditBatch {
    /// The number of events that wait for a batch.
    pub(crate) buffer_events: usize,
    /// The number of events in a batch.
    pub(crate) events: usize,
    /// The time after which a batch with fewer events is written.
    pub(crate) wait: Duration,
    /// The rate of batches; `None` for any rate.
    pub(crate) throttle: Option<AuditThrottle>,
}

/// A rate of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AuditThrottle {
    pub(crate) per_second: f32,
    /// The number of batches at the same moment.
    pub(crate) burst: usize,
}

/// The size above which an event loses its objects (`truncate.Config`). The size of a batch has no effect in kube-apiserver either: its
/// truncating backend gets one event at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditTruncate {
    pub(crate) event_bytes: u64,
}

/// When a file is renamed, and how long its old parts are kept; 0 sets no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditRotation {
    /// The size of the file, at least 1.
    pub(crate) bytes: u64,
    /// The age of an old file.
    pub(crate) days: u64,
    /// The number of old files.
    pub(crate) backups: usize,
    /// Whether old files are compressed with gzip.
    pub(crate) compresses: bool,
}
