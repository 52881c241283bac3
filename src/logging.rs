//! The log on stderr, with the formats, levels and flags of kube-apiserver (`k8s.io/component-base/logs`, `k8s.io/klog`), over the events of
//! `tracing`.
//!
//! A thread of its own writes the lines, so that a request never waits for the reader of stderr.

mod levels;
mod line;
mod output;
mod sampling;

pub(crate) use levels::{Levels, Modules, SetLevelError};
pub(crate) use line::{Format, duration};
pub(crate) use sampling::Sampling;

use crate::metrics::Registry;
use line::Line;
use output::{DROPPED, Output};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The number of characters of a text that a client chooses in a line.
const MAX_TEXT: usize = 500;

/// The start of a text, as much as a line has.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// The target of the lines about requests, which have a level of their own.
pub(crate) const REQUEST_LOG: &str = concat!(env!("CARGO_CRATE_NAME"), "::requests");
/// The time that the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The levels of the log of this process.
static LEVELS: OnceLock<Arc<Levels>> = OnceLock::new();

/// The log of the process. The drop waits for the last lines.
#[must_use]
pub(crate) struct LogGuard(Output);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

/// Starts the log of the process.
///
/// # Errors
/// If its thread cannot be started.
pub(crate) fn start(format: Format, levels: Levels) -> io::Result<LogGuard> {
    let (output, levels) = (Output::start(io::stderr())?, Arc::new(levels));
    let lines = output.clone();
    // A log that was set up before, for example by a test, stays.
    if tracing_subscriber::registry()
        .with(layer(format, levels.clone(), move |line| lines.push(line)))
        .try_init()
        .is_ok()
    {
        let _is_first = LEVELS.set(levels);
    }
    Ok(LogGuard(output))
}

/// Sets the level of the log of the process (`logs.GlogSetter`); returns the text about the success.
///
/// # Errors
/// If the text is no level.
pub(crate) fn set_level(text: &str) -> Result<String, SetLevelError> {
    let level = levels::parse(text)?;
    if let Some(levels) = LEVELS.get() {
        levels.set(level);
        tracing::callsite::rebuild_interest_cache();
    }
    Ok(format!("successfully set klog.logging.verbosity to {text}"))
}

/// Registers the metric of the lines that were dropped.
///
/// # Errors
/// If the registry already has it.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
    registry.register(Box::new(DROPPED.clone()))
}

/// The part of a subscriber that gives each line to `write`.
pub(crate) fn layer<S: Subscriber>(
    format: Format,
    levels: Arc<Levels>,
    write: impl Fn(String) + Send + Sync + 'static,
) -> impl Layer<S> {
    Lines { format, levels, write }
}

struct Lines<W> {
    format: Format,
    levels: Arc<Levels>,
    write: W,
}

impl<S: Subscriber, W: Fn(String) + Send + Sync + 'static> Layer<S> for Lines<W> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.levels.allow(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.levels.allow(metadata)
    }

    /// The least level that a change of the levels can allow.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::new(self.format);
        event.record(&mut line);
        (self.write)(line.end(event.metadata()));
    }
}

#[cfg(test)]
mod tests;
