//! Validates a value against a schema (`validate.SchemaValidator`), with the errors of unchanged parts of an update left out
//! (`ratchetingValueValidator`).

use super::correlate::Correlated;
use super::node::{Additional, Id, Node, Pattern};
use super::number;
use crate::go_text::go_quote;
use crate::status::fault::{self, NO_PATH};
use crate::status::{Cause, invalid};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The number of bytes of errors that are kept. kube-apiserver has no such limit; no client reads more.
const MAX_BYTES: usize = 4 << 20;
/// The number of bytes of errors that are written, those of alternatives and of unchanged parts included. Further errors have neither a path
/// nor a list of allowed values: a long path or list could be part of the error of each item of a long list.
const MAX_WRITTEN_BYTES: usize = 64 << 20;
/// The bytes of an error in addition to its texts.
const CAUSE_BYTES: usize = 96;

/// The errors of a value, and the number of checks of its validators (`validate.Result`), by which one of several alternatives is selected
/// for its errors.
#[derive(Debug, Default)]
pub(super) struct Found {
    causes: Vec<Cause>,
    bytes: usize,
    checks: usize,
}

impl Found {
    pub(super) fn push(&mut self, cause: Cause) {
        let bytes = CAUSE_BYTES + cause.message.len() + cause.field.len();
        if !self.is_full() {
            self.bytes += bytes;
            self.causes.push(cause);
        }
    }

    /// Whether further errors are left out.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    pub(super) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        causes.into_iter().for_each(|cause| self.push(cause));
    }

    fn merge(&mut self, other: Self) {
        self.checks += other.checks;
        if self.causes.is_empty() {
            (self.causes, self.bytes) = (other.causes, other.bytes);
        } else {
            self.extend(other.causes);
        }
    }

    /// Adds an error about a value as a whole, which has no path in the Status.
    fn composite(&mut self, why: &str) {
        self.push(invalid::invalid("", "\"\"", why));
    }

    pub(super) fn is_valid(&self) -> bool {
        self.causes.is_empty()
    }

    /// The errors, each once, below a path (`kubeOpenAPIResultToFieldErrors`).
    pub(super) fn into_causes(self, prefix: &str) -> Vec<Cause> {
        let mut known = HashSet::new();
        let mut causes = self.causes;
        causes.retain(|cause| known.insert((cause.field.clone(), cause.message.clone())));
        for cause in &mut causes {
            let name = cause.field.strip_prefix('.').unwrap_or(&cause.field);
            cause.field = match (prefix, name) {
                ("", "") => NO_PATH.to_owned(),
                ("", name) => name.to_owned(),
                (prefix, "") => prefix.to_owned(),
                (prefix, name) => format!("{prefix}.{name}"),
            };
        }
        causes
    }
}

/// A validation in progress.
pub(super) struct Walk<'a> {
    pub(super) nodes: &'a [Node],
    path: String,
    /// The bytes of errors that may still be written with their paths, also of those that no one reads.
    room: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(nodes: &'a [Node]) -> Self {
        Self { nodes, path: String::new(), room: MAX_WRITTEN_BYTES }
    }

    /// Validates a value; its errors are left out if it is correlated with an equal old value.
    pub(super) fn value(&mut self, id: Id, value: &'a Value, correlated: Option<Correlated<'a>>) -> Found {
        let Some(node) = usize::try_from(id).ok().and_then(|id| self.nodes.get(id)) else { return Found::default() };
        let found = self.node(node, value, correlated);
        self.room = self.room.saturating_sub(found.bytes);
        if self.room == 0 {
            self.path.clear();
        }
        if !found.is_valid() && correlated.is_some_and(|correlated| correlated.is_unchanged(self.nodes)) {
            return Found { checks: found.checks, ..Found::default() };
        }
        found
    }

    fn node(&mut self, node: &'a Node, value: &'a Value, correlated: Option<Correlated<'a>>) -> Found {
        let mut found = Found::default();
        if value.is_null() {
            found.merge(self.of_type(node, value));
            self.allowed(node, value, &mut found);
            return found;
        }
        if !node.types.is_empty() || node.format.is_some() {
            found.merge(self.of_type(node, value));
            found.checks += 1;
        }
        found.merge(self.combined(node, value));
        found.checks += 1;
        match value {
            Value::String(text) => {
                found.extend(self.text(node, text));
                found.checks += 1;
                if let (Some(is_of_format), Some(format)) = (node.is_of_format, node.format.as_deref()) {
                    if !is_of_format(text) {
                        let why = format!("{} in body must be of type {format}: {}", self.path, go_quote(text));
                        found.push(invalid::of_type(&self.path, &go_quote(text), &why));
                    }
                    found.checks += 1;
                }
            }
            Value::Number(number) => {
                number::check(node, number, &self.path, &mut found);
                found.checks += 2;
            }
            Value::Array(items) => {
                found.merge(self.items(node, items, correlated));
                found.checks += 2;
            }
            _ => {}
        }
        self.allowed(node, value, &mut found);
        found.checks += 1;
        if let Value::Object(fields) = value {
            found.merge(self.fields(node, fields, correlated));
            found.checks += 1;
        }
        found.checks += 1;
        found
    }

    /// `typeValidator`
    fn of_type(&self, node: &Node, value: &Value) -> Found {
        let found = Found { checks: 1, ..Found::default() };
        let (of, format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let wrong = |expected: &str, actual: &str| {
            let why = format!("{} in body must be of type {expected}: {}", self.path, go_quote(actual));
            let mut found = Found::default();
            found.push(invalid::of_type(&self.path, &go_quote(actual), &why));
            found
        };
        if of == "null" {
            let is_wrong = !node.types.is_empty() && !node.has_type("null") && !node.nullable;
            return if is_wrong { wrong(&node.types.join(","), of) } else { found };
        }
        let is_whole = || value.as_f64().is_some_and(number::is_whole);
        let is_right = node.has_type(of)
            || (of == "number" && node.has_type("integer") && is_whole())
            || (of == "integer" && node.has_type("number"));
        let is_long = matches!(value, Value::String(_) | Value::Array(_));
        match node.format.as_deref() {
            Some(own) if !is_long && !is_right && own != format => return wrong(own, format),
            // Go does not check the type of texts and lists if there is a format of texts.
            Some(_) if is_long && !node.has_type("number") && !node.has_type("integer") => return found,
            _ => {}
        }
        if is_right { found } else { wrong(&node.types.join(","), of) }
    }

    /// `stringValidator`: the first fault alone.
    fn text(&self, node: &Node, text: &str) -> Option<Cause> {
        let path = &self.path;
        let invalid = |why: String| Some(fault::invalid_text(path, text, &why));
        let length = |bound: Option<i64>| bound.map(|bound| (bound, count(text.chars().count())));
        if let Some((most, length)) = length(node.max_length)
            && length > most
        {
            return Some(fault::too_long(path, most));
        }
        if let Some((least, length)) = length(node.min_length)
            && length < least
        {
            return invalid(format!("{path} in body should be at least {least} chars long"));
        }
        let Pattern { text: pattern, matcher } = node.pattern.as_ref()?;
        match matcher {
            Ok(matches) if matches(text) => None,
            Ok(_) => invalid(format!("{path} in body should match '{pattern}'")),
            Err(why) => invalid(format!("{path} in body should match '{pattern}, but pattern is invalid: {why}'")),
        }
    }

    /// `basicCommonValidator`
    fn allowed(&self, node: &Node, value: &Value, found: &mut Found) {
        if let Some(allowed) = node.allowed.as_ref().filter(|allowed| !allowed.contains(value)) {
            let listed = if self.room == 0 { "" } else { &allowed.listed };
            let message = format!("Unsupported value: {}: supported values: {listed}", fault::shown(value));
            found.push(fault::cause("FieldValueNotSupported", &self.path, message));
        }
    }

    /// `schemaSliceValidator`
    fn items(&mut self, node: &'a Node, items: &'a [Value], correlated: Option<Correlated<'a>>) -> Found {
        let mut found = Found::default();
        if let Some(id) = node.items {
            let old = correlated.map(|correlated| correlated.items(self.nodes));
            for (index, item) in items.iter().enumerate() {
                let correlated = old.as_ref().and_then(|old| old.at(item));
                let length = self.path.len();
                self.path.push_str(&format!("[{index}]"));
                found.merge(self.value(id, item, correlated));
                self.path.truncate(length);
            }
        }
        let (path, size) = (&self.path, count(items.len()));
        if let Some(least) = node.min_items.filter(|least| size < *least) {
            let why = format!("{path} in body should have at least {least} items");
            found.push(invalid::invalid(path, &size.to_string(), &why));
        }
        if let Some(most) = node.max_items.filter(|most| size > *most) {
            found.push(fault::too_many(path, items.len(), most));
        }
        let mut known = HashSet::new();
        if node.unique_items && !items.iter().all(|item| known.insert(item.to_string())) {
            found.push(fault::invalid_text(path, "", &format!("{path} in body shouldn't contain duplicates")));
        }
        found.checks += 1;
        found
    }

    /// `objectValidator`
    fn fields(&mut self, node: &'a Node, fields: &'a Map<String, Value>, correlated: Option<Correlated<'a>>) -> Found {
        let mut found = Found::default();
        let (path, size) = (&self.path, count(fields.len()));
        if let Some(least) = node.min_properties.filter(|least| size < *least) {
            let why = format!("{path} in body should have at least {least} properties");
            found.push(invalid::invalid(path, &size.to_string(), &why));
        }
        if let Some(most) = node.max_properties.filter(|most| size > *most) {
            found.push(fault::too_many(path, fields.len(), most));
        }
        for (key, value) in fields {
            match (node.property(key), node.additional) {
                (Some(id), _) => {
                    let is_root = self.path.is_empty();
                    let child = self.child(correlated, key);
                    found.merge(self.below(if is_root { "" } else { "." }, key, |walk| walk.value(id, value, child)));
                }
                (None, Additional::Of(id)) => {
                    let child = self.child(correlated, key);
                    found.merge(self.below(".", key, |walk| walk.value(id, value, child)));
                }
                (None, Additional::None) => {
                    let path = &self.path;
                    let why = format!("{path}.{key} in body is a forbidden property");
                    found.push(fault::invalid_text(path, key, &why));
                }
                (None, Additional::Any) => {}
            }
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(&***name)) {
            found.push(fault::required(&format!("{}.{name}", self.path), ""));
        }
        found
    }

    fn below(&mut self, separator: &str, key: &str, validate: impl FnOnce(&mut Self) -> Found) -> Found {
        let length = self.path.len();
        self.path.push_str(separator);
        self.path.push_str(key);
        let found = validate(self);
        self.path.truncate(length);
        found
    }

    /// The correlated field of an object. The type of a whole resource is never correlated.
    fn child(&self, correlated: Option<Correlated<'a>>, key: &str) -> Option<Correlated<'a>> {
        correlated.filter(|_| !self.path.is_empty() || !matches!(key, "kind" | "apiVersion"))?.field(self.nodes, key)
    }

    /// `schemaPropsValidator`: `anyOf`, `oneOf`, `allOf` and `not`. Values below are not correlated.
    fn combined(&mut self, node: &'a Node, value: &'a Value) -> Found {
        let mut found = Found::default();
        if !node.any_of.is_empty() {
            self.any_of(&node.any_of, value, &mut found);
        }
        if !node.one_of.is_empty() {
            self.one_of(&node.one_of, value, &mut found);
        }
        if !node.all_of.is_empty() {
            let mut valid = 0;
            for id in &node.all_of {
                let result = self.value(*id, value, None);
                valid += usize::from(result.is_valid());
                found.merge(result);
            }
            if valid != node.all_of.len() {
                let more = if valid == 0 { ". None validated" } else { "" };
                found.composite(&format!("{} must validate all the schemas (allOf){more}", go_quote(&self.path)));
            }
        }
        if let Some(id) = node.not
            && self.value(id, value, None).is_valid()
        {
            found.composite(&format!("{} must not validate the schema (not)", go_quote(&self.path)));
        }
        found.checks += 1;
        found
    }

    fn any_of(&mut self, ids: &[Id], value: &'a Value, found: &mut Found) {
        let mut best: Option<Found> = None;
        for id in ids {
            let result = self.value(*id, value, None);
            if result.is_valid() {
                return found.merge(result);
            }
            if best.as_ref().is_none_or(|best| result.checks > best.checks) {
                best = Some(result);
            }
        }
        found.composite(&format!("{} must validate at least one schema (anyOf)", go_quote(&self.path)));
        best.into_iter().for_each(|best| found.merge(best));
    }

    fn one_of(&mut self, ids: &[Id], value: &'a Value, found: &mut Found) {
        let (mut valid, mut best, mut first): (_, Option<Found>, Option<Found>) = (0, None, None);
        for id in ids {
            let result = self.value(*id, value, None);
            if result.is_valid() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.checks > best.checks) {
                best = Some(result);
            }
        }
        if valid != 1 {
            let why = match valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let path = go_quote(&self.path);
            found.composite(&format!("{path} must validate one and only one schema (oneOf). {why}"));
            best.into_iter().for_each(|best| found.merge(best));
        } else {
            first.into_iter().for_each(|first| found.merge(first));
        }
    }
}

fn count(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
