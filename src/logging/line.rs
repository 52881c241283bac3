//! A line of the log, as klog's text (`k8s.io/klog/v2/internal/serialize`) or in JSON (`k8s.io/component-base/logs/json`).

use super::levels::level_of;
use crate::go_text::go_quote;
use jiff::{Timestamp, Zoned};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

/// The bytes of a value in a line.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// The name that errors have in the code, and the name in a line (`zapr.ErrorKey`).
const ERROR: (&str, &str) = ("error", "err");

/// The format of the log (`--logging-format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// A line that is being written.
pub(super) struct Line {
    format: Format,
    message: String,
    /// The fields as they are written.
    fields: String,
    /// The error, which is the last field.
    error: Option<String>,
    /// The place in the code of a record of the crate `log`.
    file: Option<String>,
    number: Option<u64>,
}

impl Line {
    pub(super) fn new(format: Format) -> Self {
        Self { format, message: String::new(), fields: String::new(), error: None, file: None, number: None }
    }

    fn text(&mut self, name: &str, value: Bounded) {
        let value = value.0;
        match name {
            "message" => self.message = value,
            "log.file" => self.file = Some(value),
            "log.target" | "log.module_path" => {}
            name if name == ERROR.0 || name == ERROR.1 => self.error = Some(value),
            name => self.raw(name, &quoted(self.format, &value)),
        }
    }

    fn raw(&mut self, name: &str, value: &dyn fmt::Display) {
        let _written = match self.format {
            Format::Text => write!(self.fields, " {name}={value}"),
            Format::Json => write!(self.fields, ",{}:{value}", quoted(Format::Json, name)),
        };
    }

    /// The whole line of an event.
    pub(super) fn end(mut self, metadata: &Metadata<'_>) -> String {
        if let Some(error) = self.error.take() {
            self.raw(ERROR.1, &quoted(self.format, &error));
        }
        let file = self.file.as_deref().or_else(|| metadata.file()).unwrap_or_default();
        let number = self.number.or_else(|| metadata.line().map(u64::from)).unwrap_or_default();
        let Self { format, message, fields, .. } = &self;
        let message = quoted(*format, message);
        match format {
            Format::Text => {
                let severity = match *metadata.level() {
                    Level::ERROR => 'E',
                    Level::WARN => 'W',
                    _ => 'I',
                };
                let (time, process) = (Zoned::now().strftime("%m%d %H:%M:%S%.6f"), std::process::id());
                let file = file.rsplit('/').next().unwrap_or_default();
                format!("{severity}{time} {process:7} {file}:{number}] {message}{fields}\n")
            }
            Format::Json => {
                let time = Timestamp::now().as_nanosecond() as f64 / 1e6;
                // `zapcore.EntryCaller.TrimmedPath`
                let start = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
                let caller = quoted(Format::Json, &format!("{}:{number}", file.get(start..).unwrap_or_default()));
                let level = match *metadata.level() {
                    // `zapr` gives errors no level.
                    Level::ERROR => String::new(),
                    _ => format!(",\"v\":{}", level_of(metadata).unwrap_or_default()),
                };
                format!("{{\"ts\":{time},\"caller\":{caller},\"msg\":{message}{level}{fields}}}\n")
            }
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field.name(), Bounded::of(format_args!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), Bounded::of(format_args!("{value}")));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field.name(), Bounded::of(format_args!("{value}")));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no other numbers.
        if value.is_finite() {
            self.raw(field.name(), &value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.raw(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "log.line" {
            self.number = Some(value);
        } else {
            self.raw(field.name(), &value);
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.raw(field.name(), &value);
    }
}

fn quoted(format: Format, text: &str) -> String {
    match format {
        Format::Text => go_quote(text),
        Format::Json => serde_json::Value::from(text).to_string(),
    }
}

/// A duration as Go writes it.
pub(crate) fn duration(duration: Duration) -> String {
    crate::go_text::duration::go(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// The start of a value, as much as a line has.
struct Bounded(String);

impl Bounded {
    fn of(value: fmt::Arguments<'_>) -> Self {
        let mut bounded = Self(String::new());
        if bounded.write_fmt(value).is_err() {
            bounded.0.push('…');
        }
        bounded
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_VALUE_BYTES - self.0.len().min(MAX_VALUE_BYTES);
        let fitting = text.floor_char_boundary(room);
        self.0.push_str(text.get(..fitting).unwrap_or_default());
        if fitting == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
