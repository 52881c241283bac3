//! The entries of `metadata.managedFields`.

use super::InvalidManagedFields;
use super::set::{self, Set};
use crate::go_text::go_quote;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The number of entries that updates may have (`DefaultMaxUpdateManagers`).
const UPDATE_MANAGERS: usize = 10;
/// The manager of the merged oldest entries.
const ANCIENT: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// The fields that one manager owns.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<Timestamp>,
    pub(super) fields: Set,
}

impl Entry {
    /// Whether two entries belong to one manager. The version counts for updates, not for applies (`BuildManagerIdentifier`).
    pub(super) fn is_of_the_same_manager_as(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Equal for the entries of one manager, as [`Self::is_of_the_same_manager_as`] compares them.
    fn identity(&self) -> (String, Operation, String, Option<String>) {
        let version = (self.operation != Operation::Apply).then(|| self.api_version.clone());
        (self.manager.clone(), self.operation, self.subresource.clone(), version)
    }

    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }
}

/// Decodes the list.
///
/// # Errors
/// If an entry is malformed, with kube-apiserver's text (`DecodeManagedFields`) where that text explains the fault.
pub(super) fn decode(list: &Value) -> Result<Vec<Entry>, InvalidManagedFields> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
            let mut places = HashMap::new();
            for (index, entry) in list.iter().enumerate() {
                let entry = decode_one(index, entry)?;
                // The last of several entries of one manager counts.
                let place = *places.entry(entry.identity()).or_insert(entries.len());
                match entries.get_mut(place) {
                    Some(other) => *other = entry,
                    None => entries.push(entry),
                }
            }
            Ok(entries)
        }
        _ => Err(InvalidManagedFields("managed fields must be a list".to_owned())),
    }
}

fn decode_one(index: usize, entry: &Value) -> Result<Entry, InvalidManagedFields> {
    let text = |field: &str| match entry.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(InvalidManagedFields(format!("{field} is no text in managed fields entry {index}"))),
    };
    let operation = match &*text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(InvalidManagedFields("operation must be `Apply` or `Update`".to_owned())),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err(InvalidManagedFields("apiVersion must not be empty".to_owned()));
    }
    match &*text("fieldsType")? {
        "FieldsV1" => {}
        "" => return Err(InvalidManagedFields(format!("missing fieldsType in managed fields entry {index}"))),
        other => {
            return Err(InvalidManagedFields(format!(
                "invalid fieldsType {} in managed fields entry {index}",
                go_quote(other)
            )));
        }
    }
    let time = match &*text("time")? {
        "" => None,
        time => Some(
            time.parse()
                .map_err(|error| InvalidManagedFields(format!("time in managed fields entry {index}: {error}")))?,
        ),
    };
    let fields = entry.get("fieldsV1").map_or_else(|| Some(Set::new()), set::decode);
    let fields = fields.ok_or_else(|| {
        InvalidManagedFields(format!("error decoding versioned set from managed fields entry {index}"))
    })?;
    Ok(Entry { manager: text("manager")?, operation, api_version, subresource: text("subresource")?, time, fields })
}

/// Merges the oldest entries of updates if there are too many (`capManagersManager`).
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let is_update = |entry: &Entry| entry.operation == Operation::Update;
    let mut count = entries.iter().filter(|entry| is_update(entry)).count();
    if count <= UPDATE_MANAGERS {
        return;
    }
    entries.sort_by(|one, other| {
        (one.seconds(), &one.manager, &one.api_version).cmp(&(other.seconds(), &other.manager, &other.api_version))
    });
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    let mut first_of_version: HashMap<String, usize> = HashMap::new();
    for entry in entries.drain(..) {
        if !is_update(&entry) || count <= UPDATE_MANAGERS {
            kept.push(entry);
            continue;
        }
        match first_of_version.get(&entry.api_version).and_then(|at| kept.get_mut(*at)) {
            Some(bucket) => {
                bucket.manager = ANCIENT.to_owned();
                bucket.subresource = String::new();
                bucket.fields.extend(entry.fields);
                bucket.time = entry.time;
                count -= 1;
            }
            None => {
                first_of_version.insert(entry.api_version.clone(), kept.len());
                kept.push(entry);
            }
        }
    }
    *entries = kept;
}

/// Encodes the list; `None` if there are no entries.
pub(super) fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    entries.sort_by(|one, other| {
        let key = |entry: &Entry| (entry.operation, entry.seconds());
        key(one)
            .cmp(&key(other))
            .then_with(|| one.manager.cmp(&other.manager))
            .then_with(|| one.api_version.cmp(&other.api_version))
            .then_with(|| one.subresource.cmp(&other.subresource))
    });
    let list: Vec<Value> = entries.into_iter().map(encode_one).collect();
    if list.is_empty() { None } else { Some(Value::Array(list)) }
}

fn encode_one(entry: Entry) -> Value {
    let mut value = json!({
        "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": set::encode(entry.fields),
        "operation": match entry.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        },
    });
    let mut add = |field: &str, text: String| {
        if let (Value::Object(map), false) = (&mut value, text.is_empty()) {
            map.insert(field.to_owned(), text.into());
        }
    };
    add("manager", entry.manager);
    add("subresource", entry.subresource);
    add("time", entry.time.map(seconds).unwrap_or_default());
    value
}

/// Formats a time in RFC 3339, in whole seconds.
fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&time)
}
