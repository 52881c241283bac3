//! An object as the printers read it: a missing value, or one of another type, reads as empty.

use super::duration;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// An object, or a part of one, and the current time.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    value: &'a Value,
    now: Timestamp,
}

impl<'a> View<'a> {
    pub(super) fn new(value: &'a Value, now: Timestamp) -> Self {
        Self { value, now }
    }

    /// The value at a JSON pointer, unless it is null.
    pub(super) fn at(&self, pointer: &str) -> Option<&'a Value> {
        self.value.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The value at a JSON pointer as a view; the view is empty if there is no value.
    pub(super) fn part(&self, pointer: &str) -> View<'a> {
        View { value: self.at(pointer).unwrap_or(&Value::Null), now: self.now }
    }

    pub(super) fn has(&self, pointer: &str) -> bool {
        self.at(pointer).is_some()
    }

    pub(super) fn text(&self, pointer: &str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The string at a pointer; `otherwise` if it is missing or empty.
    pub(super) fn text_or(&self, pointer: &str, otherwise: &'a str) -> &'a str {
        match self.text(pointer) {
            "" => otherwise,
            text => text,
        }
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.optional_number(pointer).unwrap_or_default()
    }

    pub(super) fn optional_number(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).and_then(Value::as_i64)
    }

    pub(super) fn flag(&self, pointer: &str) -> bool {
        self.flag_or(pointer, false)
    }

    pub(super) fn flag_or(&self, pointer: &str, otherwise: bool) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or(otherwise)
    }

    pub(super) fn map(&self, pointer: &str) -> Option<&'a Map<String, Value>> {
        self.at(pointer).and_then(Value::as_object)
    }

    pub(super) fn count(&self, pointer: &str) -> usize {
        match self.at(pointer) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn items(
        &self,
        pointer: &str,
    ) -> impl DoubleEndedIterator<Item = View<'a>> + ExactSizeIterator + use<'a> {
        let now = self.now;
        let items = self.at(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().map(move |value| View { value, now })
    }

    /// The strings of a list.
    pub(super) fn texts(&self, pointer: &str) -> Vec<&'a str> {
        self.items(pointer).map(|item| item.text("")).collect()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&'a str> {
        self.map("/metadata/annotations")?.get(name)?.as_str()
    }

    pub(super) fn name(&self) -> Value {
        json!(self.text("/metadata/name"))
    }

    /// The name, with a mark if the object is the default of its kind.
    pub(super) fn name_with_default(&self, is_default: bool) -> Value {
        let mark = if is_default { " (default)" } else { "" };
        json!(format!("{}{mark}", self.text("/metadata/name")))
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }

    pub(super) fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    /// The time since a timestamp (`translateTimestampSince`).
    pub(super) fn since(&self, pointer: &str) -> String {
        self.time(pointer).map_or_else(|| "<unknown>".to_owned(), |time| self.elapsed(time))
    }

    pub(super) fn elapsed(&self, time: Timestamp) -> String {
        duration::human(self.now.duration_since(time))
    }

    pub(super) fn age(&self) -> Value {
        json!(self.since("/metadata/creationTimestamp"))
    }

    /// The creation time as a date; Go's zero time if it is missing.
    pub(super) fn created_at(&self) -> String {
        let created = self.time("/metadata/creationTimestamp");
        let whole_seconds = created.and_then(|time| Timestamp::from_second(time.as_second()).ok());
        whole_seconds.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |time| time.to_string())
    }

    /// The time between two times, or between the first and now.
    pub(super) fn span(&self, from: &str, to: &str) -> Option<SignedDuration> {
        let from = self.time(from)?;
        Some(self.time(to).unwrap_or(self.now).duration_since(from))
    }

    /// The first condition of a type.
    pub(super) fn condition(&self, pointer: &str, kind: &str) -> Option<View<'a>> {
        self.items(pointer).find(|condition| condition.text("/type") == kind)
    }

    /// Whether the first condition of a type is true.
    pub(super) fn is_true(&self, pointer: &str, kind: &str) -> bool {
        self.condition(pointer, kind).is_some_and(|condition| condition.text("/status") == "True")
    }
}
