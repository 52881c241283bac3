//! A value of an object with its path, and the causes that checks find. A missing value reads as Go's zero value.

use crate::go_text::{go_quote, json};
use crate::quantity::Quantity;
use crate::status::fault::{self, shown};
use crate::status::{Cause, invalid};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

static MISSING: Value = Value::Null;

/// The path of a field (`field.Path`).
#[derive(Clone, Debug, Default)]
pub(super) struct Path(Option<Rc<(Path, Step)>>);

#[derive(Debug)]
enum Step {
    Field(Cow<'static, str>),
    Key(String),
    Index(usize),
}

impl Path {
    fn child(&self, step: Step) -> Self {
        Self(Some(Rc::new((self.clone(), step))))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(link) = &self.0 else { return Ok(()) };
        let (before, step) = link.as_ref();
        before.fmt(f)?;
        match step {
            Step::Field(name) if before.0.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value and its path.
#[derive(Clone, Debug)]
pub(super) struct Node<'v> {
    value: &'v Value,
    path: Path,
}

impl<'v> Node<'v> {
    /// The value of an object, without a path.
    pub(super) fn root(value: &'v Value) -> Self {
        Self { value, path: Path::default() }
    }

    /// The value of a field.
    pub(super) fn at(&self, field: &'static str) -> Self {
        Self { value: self.value.get(field).unwrap_or(&MISSING), path: self.path.child(Step::Field(field.into())) }
    }

    /// The value at a path of fields.
    pub(super) fn under(&self, fields: &[&'static str]) -> Self {
        fields.iter().fold(self.clone(), |node, field| node.at(field))
    }

    /// The value of a key of a map.
    pub(super) fn key(&self, key: &str) -> Self {
        Self { value: self.value.get(key).unwrap_or(&MISSING), path: self.path.child(Step::Key(key.to_owned())) }
    }

    /// Returns this value under another parent and field name, for errors that kube-apiserver reports there.
    pub(super) fn named(&self, parent: &Node<'_>, field: impl Into<Cow<'static, str>>) -> Self {
        Self { value: self.value, path: parent.path.child(Step::Field(field.into())) }
    }

    /// Returns this value with the last field name of its path replaced.
    pub(super) fn renamed(&self, field: &'static str) -> Self {
        let before = self.path.0.as_ref().map(|link| link.0.clone()).unwrap_or_default();
        Self { value: self.value, path: before.child(Step::Field(field.into())) }
    }

    /// Returns this value with another key at the end of its path.
    pub(super) fn with_key(&self, key: &str) -> Self {
        let before = self.path.0.as_ref().map(|link| link.0.clone()).unwrap_or_default();
        Self { value: self.value, path: before.child(Step::Key(key.to_owned())) }
    }

    /// This value at the path of an empty name, which Go writes as `[]` (`field.NewPath("")`).
    pub(super) fn with_empty_path(&self) -> Self {
        Self { value: self.value, path: Path::default().child(Step::Key(String::new())) }
    }

    /// Another value with this path.
    pub(super) fn with<'o>(&self, value: &'o Value) -> Node<'o> {
        Node { value, path: self.path.clone() }
    }

    /// Returns this value with the path of `other`, for errors that kube-apiserver reports there.
    pub(super) fn on(&self, other: &Node<'_>) -> Self {
        Self { value: self.value, path: other.path.clone() }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'v> {
        let path = self.path.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate();
        items.map(move |(index, value)| Self { value, path: path.child(Step::Index(index)) })
    }

    /// The item of a list at an index.
    pub(super) fn item(&self, index: usize) -> Self {
        let path = self.path.child(Step::Index(index));
        Self { value: self.value.get(index).unwrap_or(&MISSING), path }
    }

    /// The keys and values of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'v str, Self)> + use<'v> {
        let path = self.path.clone();
        let fields = self.value.as_object().into_iter().flatten();
        fields.map(move |(key, value)| (key.as_str(), Self { value, path: path.child(Step::Key(key.clone())) }))
    }

    /// The path of the value.
    pub(super) fn path(&self) -> impl fmt::Display {
        &self.path
    }

    pub(super) fn value(&self) -> &'v Value {
        self.value
    }

    /// The node, if its value is not null.
    pub(super) fn given(&self) -> Option<Self> {
        (!self.value.is_null()).then(|| self.clone())
    }

    pub(super) fn is_given(&self) -> bool {
        !self.value.is_null()
    }

    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn optional_text(&self) -> Option<&'v str> {
        self.value.as_str()
    }

    pub(super) fn int(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    pub(super) fn optional_int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    pub(super) fn is_false(&self) -> bool {
        self.value == &Value::Bool(false)
    }

    /// The number of items or entries, or the bytes of a text.
    pub(super) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            Value::String(text) => text.len(),
            _ => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.items().map(|item| item.text())
    }

    pub(super) fn has_text(&self, text: &str) -> bool {
        self.texts().any(|item| item == text)
    }

    pub(super) fn quantity(&self) -> Quantity {
        Quantity::of(Some(self.value))
    }

    /// The text of a quantity in its canonical form; `0` if the value is missing.
    pub(super) fn quantity_text(&self) -> String {
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return "0".to_owned(),
        };
        crate::quantity::canonical(&text).unwrap_or(text)
    }
}

/// The causes that checks find. Their texts are bounded; a check makes no text that is left out.
#[derive(Debug, Default)]
pub(super) struct Causes(invalid::Causes);

impl Causes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        self.0.extend(causes);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.append(other.0);
    }

    /// Adds the cause of a check so many times.
    pub(super) fn repeat(&mut self, times: usize, check: impl Fn(&mut Self)) {
        if times == 0 || self.0.is_full() {
            return self.0.repeat(times, Cause::default);
        }
        let mut found = Self::default();
        check(&mut found);
        found.into_vec().iter().for_each(|cause| self.0.repeat(times, || cause.clone()));
    }

    pub(super) fn into_vec(self) -> Vec<Cause> {
        self.0.into_vec()
    }

    /// `field.Invalid` of the value in the form of an error.
    pub(super) fn invalid(&mut self, node: &Node<'_>, shown: impl fmt::Display, why: &str) {
        self.0.add(|| {
            let mut cause = invalid::invalid(&node.path.to_string(), &shown.to_string(), why);
            if why.is_empty() {
                cause.message.truncate(cause.message.len().saturating_sub(2));
            }
            cause
        });
    }

    /// `field.Invalid` of a string.
    pub(super) fn text(&mut self, node: &Node<'_>, why: &str) {
        self.invalid(node, fmt::from_fn(|f| f.write_str(&go_quote(node.text()))), why);
    }

    /// `field.Invalid` of a string, once for each error.
    pub(super) fn texts(&mut self, node: &Node<'_>, errors: Vec<String>) {
        errors.iter().for_each(|why| self.text(node, why));
    }

    /// `field.Invalid` of a number.
    pub(super) fn int(&mut self, node: &Node<'_>, why: &str) {
        self.invalid(node, node.int(), why);
    }

    /// `field.Invalid` of a value whose JSON is that of its Go type.
    pub(super) fn value(&mut self, node: &Node<'_>, why: &str) {
        self.invalid(node, fmt::from_fn(|f| f.write_str(&in_go_order(node.value))), why);
    }

    /// `field.Invalid` without a value (`field.OmitValueType`).
    pub(super) fn without_value(&mut self, node: &Node<'_>, why: &str) {
        self.0.add(|| fault::cause("FieldValueInvalid", &node.path.to_string(), format!("Invalid value: {why}")));
    }

    /// `field.Required`.
    pub(super) fn required(&mut self, node: &Node<'_>, why: &str) {
        self.0.add(|| fault::required(&node.path.to_string(), why));
    }

    /// `field.Required`, if the string, list or map is empty. Returns whether it is not.
    pub(super) fn require(&mut self, node: &Node<'_>) -> bool {
        if node.is_empty() {
            self.required(node, "");
        }
        !node.is_empty()
    }

    /// `field.Forbidden`.
    pub(super) fn forbidden(&mut self, node: &Node<'_>, why: &str) {
        self.0.add(|| invalid::forbidden(&node.path.to_string(), why));
    }

    /// `field.Duplicate` of a string.
    pub(super) fn duplicate(&mut self, node: &Node<'_>) {
        self.duplicate_of(node, go_quote(node.text()));
    }

    /// `field.Duplicate` of the value in the form of an error.
    pub(super) fn duplicate_of(&mut self, node: &Node<'_>, shown: impl fmt::Display) {
        self.0.add(|| fault::duplicate(&node.path.to_string(), &shown.to_string()));
    }

    /// `field.NotFound` of a string.
    pub(super) fn not_found(&mut self, node: &Node<'_>, why: &str) {
        self.not_found_because(node, || why.to_owned());
    }

    /// `field.NotFound` of a string, for a reason whose text is made only if there is room for the cause.
    pub(super) fn not_found_because(&mut self, node: &Node<'_>, why: impl FnOnce() -> String) {
        self.0.add(|| {
            let why = why();
            let colon = if why.is_empty() { "" } else { ": " };
            let message = format!("Not found: {}{colon}{why}", go_quote(node.text()));
            fault::cause("FieldValueNotFound", &node.path.to_string(), message)
        });
    }

    /// `field.NotSupported` of the value in the form of an error.
    pub(super) fn unsupported(&mut self, node: &Node<'_>, shown: impl fmt::Display, supported: &[&str]) {
        self.0.add(|| fault::not_supported(&node.path.to_string(), &shown.to_string(), supported.iter().copied()));
    }

    /// `field.NotSupported`, unless the string is one of these. Returns whether it is.
    pub(super) fn one_of(&mut self, node: &Node<'_>, supported: &[&str]) -> bool {
        let is_supported = supported.contains(&node.text());
        if !is_supported {
            self.unsupported(node, go_quote(node.text()), supported);
        }
        is_supported
    }

    /// As [`Self::one_of`], if the pointer is not nil.
    pub(super) fn one_of_if_given(&mut self, node: &Node<'_>, supported: &[&str]) {
        if node.is_given() {
            self.one_of(node, supported);
        }
    }

    /// `field.Required` for the empty string, `field.NotSupported` for an unsupported one.
    pub(super) fn required_one_of(&mut self, node: &Node<'_>, supported: &[&str]) {
        if self.require(node) {
            self.one_of(node, supported);
        }
    }

    /// `field.TooLong`.
    pub(super) fn too_long(&mut self, node: &Node<'_>, most: usize) {
        self.0.add(|| fault::too_long(&node.path.to_string(), i64::try_from(most).unwrap_or(i64::MAX)));
    }

    /// `field.TooMany`.
    pub(super) fn too_many(&mut self, node: &Node<'_>, most: usize) {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.0.add(|| fault::too_many(&node.path.to_string(), node.len(), most));
    }

    /// `ValidateNonnegativeField`
    pub(super) fn non_negative(&mut self, node: &Node<'_>) {
        if node.int() < 0 {
            self.int(node, "must be greater than or equal to 0");
        }
    }

    /// `ValidatePositiveField`
    pub(super) fn positive(&mut self, node: &Node<'_>) {
        if node.int() <= 0 {
            self.int(node, "must be greater than zero");
        }
    }

    /// `field.Invalid` of a number outside a range (`InclusiveRangeError`).
    pub(super) fn in_range(&mut self, node: &Node<'_>, least: i64, most: i64) {
        if !(least..=most).contains(&node.int()) {
            self.int(node, &format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// `ValidateImmutableField` of a value whose JSON is that of its Go type. Returns whether the value is unchanged.
    pub(super) fn immutable(&mut self, node: &Node<'_>, old: &Node<'_>) -> bool {
        let is_same = is_equal(node.value, old.value);
        if !is_same {
            self.value(node, IMMUTABLE);
        }
        is_same
    }

    /// As [`Self::immutable`], for a string that is no pointer.
    pub(super) fn immutable_text(&mut self, node: &Node<'_>, old: &Node<'_>) {
        if node.text() != old.text() {
            self.text(node, IMMUTABLE);
        }
    }

    /// As [`Self::immutable`], for a value in the form of its internal Go type.
    pub(super) fn immutable_as(&mut self, node: &Node<'_>, old: &Node<'_>, form: &str) {
        if !is_equal(node.value, old.value) {
            self.invalid(node, fmt::from_fn(|f| f.write_str(&internal(node, form))), IMMUTABLE);
        }
    }
}

/// The JSON of a value. A `LabelSelector` has its fields in the order of the Go type, and without empty ones.
fn in_go_order(value: &Value) -> String {
    const FIELDS: [&str; 2] = ["matchLabels", "matchExpressions"];
    let Some(fields) = value.as_object().filter(|fields| fields.keys().all(|key| FIELDS.contains(&key.as_str())))
    else {
        return shown(value);
    };
    let mut written = Vec::new();
    if let Some(labels) = fields.get(FIELDS[0]).filter(|labels| labels.as_object().is_some_and(|all| !all.is_empty())) {
        written.push(format!("\"matchLabels\":{}", json::text(labels)));
    }
    let expressions = fields.get(FIELDS[1]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let expressions: Vec<String> = expressions
        .iter()
        .map(|expression| {
            let text = |field: &str| json::string(expression.get(field).and_then(Value::as_str).unwrap_or_default());
            let values = expression.get("values").filter(|values| values.as_array().is_some_and(|all| !all.is_empty()));
            let values = values.map(|values| format!(",\"values\":{}", json::text(values))).unwrap_or_default();
            format!("{{\"key\":{},\"operator\":{}{values}}}", text("key"), text("operator"))
        })
        .collect();
    if !expressions.is_empty() {
        written.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", written.join(","))
}

/// `FieldImmutableErrorMsg`
pub(super) const IMMUTABLE: &str = "field is immutable";

/// The fields that are maps: without entries they equal missing ones, unlike a pointer to an empty struct.
const MAPS: [&str; 14] = [
    "annotations",
    "binaryData",
    "capacity",
    "data",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "parameters",
    "requests",
    "userAnnotations",
    "volumeAttributes",
];

/// Compares values as `apiequality.Semantic` does: a missing list or map equals an empty one.
pub(super) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).all(|key| {
            let (one, other) = (one.get(key).unwrap_or(&MISSING), other.get(key).unwrap_or(&MISSING));
            if MAPS.contains(&key.as_str()) { is_equal_map(one, other) } else { is_equal(one, other) }
        }),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Null, Value::Array(items)) | (Value::Array(items), Value::Null) => items.is_empty(),
        (one, other) => one == other,
    }
}

/// As [`is_equal`], for the values of a field that is a map.
pub(super) fn is_equal_map(one: &Value, other: &Value) -> bool {
    let is_nothing = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    is_equal(one, other) || (is_nothing(one) && is_nothing(other))
}

/// The JSON of a struct of an internal Go type, which has no tags. The form names the fields: `Name:name` is a string, `Count:count#` a
/// number, `Set:set!` a boolean, `Any:any?` a pointer, list or map, and `Any:any?{Name:name}` a pointer to a struct; `[…]` is a list of
/// structs, and `{…}` without a question mark a struct.
pub(super) fn internal(node: &Node<'_>, form: &str) -> String {
    if !node.is_given() {
        return "null".to_owned();
    }
    fields(node.value, form)
}

fn fields(value: &Value, form: &str) -> String {
    let mut written = Vec::new();
    for part in parts(form) {
        let Some((go_name, rest)) = part.split_once(':') else { continue };
        let end = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
        let (name, kind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let field = value.get(name).filter(|field| !field.is_null());
        let text = match (kind.chars().next(), field) {
            (Some('?'), None) | (Some('['), None) => "null".to_owned(),
            (Some('?'), Some(field)) if kind.len() > 1 => fields(field, inner(kind)),
            (Some('['), Some(field)) => {
                let items = field.as_array().map_or(&[][..], Vec::as_slice);
                let items: Vec<_> = items.iter().map(|item| fields(item, inner(kind))).collect();
                format!("[{}]", items.join(","))
            }
            (Some('{'), field) => fields(field.unwrap_or(&MISSING), inner(kind)),
            (Some('#'), None) => "0".to_owned(),
            (Some('!'), None) => "false".to_owned(),
            (_, None) => "\"\"".to_owned(),
            (_, Some(field)) => json::text(field),
        };
        written.push(format!("{}:{text}", json::string(go_name)));
    }
    format!("{{{}}}", written.join(","))
}

/// The part of a form within its brackets.
fn inner(kind: &str) -> &str {
    let start = kind.find(['{', '[']).map_or(kind.len(), |at| at + 1);
    kind.get(start..kind.len().saturating_sub(1)).unwrap_or_default()
}

/// The parts of a form that blanks outside of brackets separate.
fn parts(form: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in form.char_indices() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ' ' if depth == 0 => {
                found.extend(form.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(form.get(start..));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn internal_types_are_shown_with_the_names_of_go() {
        let value = json!({"name": "a", "list": [{"x": "y"}], "in": {"n": 1}});
        let form = "Name:name Other:other Count:count# Flag:flag! Pointer:pointer? List:list[X:x] In:in?{N:n#}";
        let expected =
            r#"{"Name":"a","Other":"","Count":0,"Flag":false,"Pointer":null,"List":[{"X":"y"}],"In":{"N":1}}"#;
        assert_eq!(internal(&Node::root(&value), form), expected);
    }

    #[test]
    fn a_missing_field_equals_an_empty_list_or_map() {
        assert!(is_equal(&json!({"a": [], "b": 1}), &json!({"b": 1, "labels": {}})));
        assert!(!is_equal(&json!({"a": {}}), &json!({})));
        assert!(!is_equal(&json!({"a": [1]}), &json!({})));
        assert!(!is_equal(&json!({"a": ""}), &json!({})));
    }

    #[test]
    fn a_path_has_fields_keys_and_indices() {
        let value = json!({"a": [{"b": {"c": 1}}]});
        let node = Node::root(&value).at("a").item(0).at("b").key("c");
        assert_eq!((node.path.to_string().as_str(), node.int()), ("a[0].b[c]", 1));
    }
}
