//! The kinds of resource.k8s.io (`pkg/apis/resource/validation`), in the form of `resource.k8s.io/v1`.
//!
//! The expressions of selectors are compiled elsewhere. Admin access depends on the namespace, and is not checked here.

mod claim;
mod slice;

pub(super) use claim::{claim, template};
pub(super) use slice::slice;

use super::formats::subdomain;
use super::metadata;
use super::node::{Causes, Node, is_equal};
use super::resources;
use super::selector::label_key;
use super::volume_source::csi_driver;
use crate::go_text::go_quote;
use crate::names::{dns_1123_subdomain_errors, label_value_errors};
use regex::Regex;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::LazyLock;

/// `CELSelectorExpressionMaxLength`, `OpaqueParametersMaxLength`, `AllocatedDeviceStatusDataMaxLength`
const MAX_TEXT_BYTES: usize = 10 << 10;
/// `DeviceRequestsMaxSize`, `DeviceConstraintsMaxSize`, `DeviceConfigMaxSize`, `DeviceSelectorsMaxSize`
const MAX_ITEMS: usize = 32;
/// `BindingConditionsMaxSize`
const MAX_CONDITIONS: usize = 4;
/// `PoolNameMaxLength`
const MAX_POOL_BYTES: usize = 253;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

static IDENTIFIER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^[A-Za-z_][A-Za-z0-9_]*$").ok());

/// `ValidateDeviceClass`, `ValidateDeviceClassUpdate`
pub(super) fn class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, false, subdomain, out);
    if let Some(old) = old {
        metadata::check_update(object, old, out);
    }
    let spec = object.at("spec");
    let is_stored = |field| old.is_some_and(|old| is_equal(spec.at(field).value(), old.at("spec").at(field).value()));
    selectors(&spec.at("selectors"), out);
    let has_old_parameters = is_stored("config");
    list(&spec.at("config"), MAX_ITEMS, out, |config, out| configuration(config, has_old_parameters, out));
    let name = spec.at("extendedResourceName");
    if name.is_given() && !resources::is_extended(name.text()) {
        out.text(&name, "must be a valid extended resource name");
    }
}

/// `validateSlice`. Returns whether the items were checked.
fn list<'v>(list: &Node<'v>, most: usize, out: &mut Causes, mut check: impl FnMut(&Node<'v>, &mut Causes)) -> bool {
    if list.len() > most {
        out.too_many(list, most);
        return false;
    }
    list.items().for_each(|item| check(&item, out));
    true
}

/// `validateSet` of objects whose key is a text.
fn set<'v>(
    set: &Node<'v>,
    most: usize,
    key: impl Fn(&Node<'v>) -> &'v str,
    out: &mut Causes,
    check: impl FnMut(&Node<'v>, &mut Causes),
) {
    if !list(set, most, out, check) {
        return;
    }
    let mut known = HashSet::new();
    for item in set.items() {
        if !known.insert(key(&item)) {
            out.duplicate_of(&item, go_quote(key(&item)));
        }
    }
}

/// `validateMap`. The path of an error has a long key in short.
fn map<'v>(
    map: &Node<'v>,
    longest: usize,
    out: &mut Causes,
    check_key: impl Fn(&Node<'_>, &mut Causes),
    mut check: impl FnMut(&Node<'v>, &mut Causes),
) {
    for (key, value) in map.entries() {
        check_key(&map.with(&Value::from(key)), out);
        check(&value.with_key(&shortened(key, longest)), out);
    }
}

/// `truncateIfTooLong`
fn shortened(key: &str, longest: usize) -> String {
    let longest = longest.max(16);
    let remaining = longest - 3;
    let (start, end) = (key.get(..remaining.div_ceil(2)), key.get(key.len().saturating_sub(remaining / 2)..));
    match (start, end) {
        (Some(start), Some(end)) if key.len() > longest => format!("{start}...{end}"),
        _ => key.to_owned(),
    }
}

/// `validatePoolName`
fn pool_name(name: &Node<'_>, out: &mut Causes) {
    if !out.require(name) {
        return;
    }
    if name.len() > MAX_POOL_BYTES {
        out.too_long(name, MAX_POOL_BYTES);
    }
    for part in name.text().split('/') {
        out.texts(&name.with(&Value::from(part)), dns_1123_subdomain_errors(part));
    }
}

/// `validateSelectorSlice`
fn selectors(selectors: &Node<'_>, out: &mut Causes) {
    list(selectors, MAX_ITEMS, out, |selector, out| {
        let (cel, expression) = (selector.at("cel"), selector.under(&["cel", "expression"]));
        if !cel.is_given() {
            out.required(&cel, "");
        } else if expression.len() > MAX_TEXT_BYTES {
            out.too_long(&expression, MAX_TEXT_BYTES);
        }
    });
}

/// `validateDeviceConfiguration`
fn configuration(config: &Node<'_>, is_stored: bool, out: &mut Causes) {
    let opaque = config.at("opaque");
    if !opaque.is_given() {
        return out.required(&opaque, "");
    }
    csi_driver(&opaque.at("driver"), out);
    raw(&opaque.at("parameters"), is_stored, out);
}

/// `validateRawExtension`
fn raw(raw: &Node<'_>, is_stored: bool, out: &mut Causes) {
    const OMITTED: &str = "\"<value omitted>\"";
    if !raw.is_given() {
        out.required(raw, "");
    } else if !is_stored && raw.value().to_string().len() > MAX_TEXT_BYTES {
        out.too_long(raw, MAX_TEXT_BYTES);
    } else if !raw.value().is_object() {
        out.invalid(raw, OMITTED, "must be a valid JSON object");
    }
}

/// `validateDeviceTaint`
fn taint(taint: &Node<'_>, out: &mut Causes) {
    let (value, effect) = (taint.at("value"), taint.at("effect"));
    label_key(&taint.at("key"), out);
    if !value.is_empty() {
        out.texts(&value, label_value_errors(value.text()));
    }
    out.required_one_of(&effect, &EFFECTS);
}

/// `validateDeviceToleration`
fn toleration(toleration: &Node<'_>, out: &mut Causes) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|field| toleration.at(field));
    if !key.is_empty() {
        label_key(&key, out);
    }
    match operator.text() {
        "Exists" if !value.is_empty() => out.text(&value, "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => out.texts(&value, label_value_errors(value.text())),
        _ => out.required_one_of(&operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        out.one_of(&effect, &EFFECTS);
    }
}

/// `validateQualifiedName`
fn qualified_name(name: &Node<'_>, out: &mut Causes) {
    let empty = |why: &str, out: &mut Causes| out.invalid(name, "\"\"", why);
    match name.text().split('/').collect::<Vec<_>>()[..] {
        [identifier] => self::identifier(&name.with(&Value::from(identifier)), out),
        [domain, identifier] => {
            match domain {
                "" => empty("the domain must not be empty", out),
                domain => csi_driver(&name.with(&Value::from(domain)), out),
            }
            match identifier {
                "" => empty("the name must not be empty", out),
                identifier => self::identifier(&name.with(&Value::from(identifier)), out),
            }
        }
        _ => {}
    }
}

/// `validateFullyQualifiedName`
fn fully_qualified_name(name: &Node<'_>, out: &mut Causes) {
    qualified_name(name, out);
    if !name.text().contains('/') {
        out.text(name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

/// `validateCIdentifier`
fn identifier(name: &Node<'_>, out: &mut Causes) {
    if name.len() > 32 {
        out.too_long(name, 32);
    }
    if IDENTIFIER.as_ref().is_some_and(|pattern| !pattern.is_match(name.text())) {
        out.text(
            name,
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. \
             'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
        );
    }
}

/// `validateDeviceBindingParameters`
fn binding_parameters(owner: &Node<'_>, out: &mut Causes) {
    let [conditions, failures] = ["bindingConditions", "bindingFailureConditions"].map(|field| owner.at(field));
    for conditions in [&conditions, &failures] {
        list(conditions, MAX_CONDITIONS, out, label_key);
    }
    for (conditions, others) in [(&conditions, None), (&failures, Some(&conditions))] {
        let mut known = HashSet::new();
        for condition in conditions.items() {
            if !known.insert(condition.text()) {
                out.duplicate(&condition);
            }
            if others.is_some_and(|others| others.has_text(condition.text())) {
                out.text(&condition, "bindingFailureConditions must not overlap with bindingConditions");
            }
        }
    }
    match (conditions.is_empty(), failures.is_empty()) {
        (true, false) => {
            out.invalid(
                &conditions,
                internal_list(&conditions),
                "bindingConditions are required to use bindingFailureConditions",
            );
        }
        (false, true) => {
            out.invalid(
                &failures,
                internal_list(&failures),
                "bindingFailureConditions are required to use bindingConditions",
            );
        }
        _ => {}
    }
}

/// The JSON of an empty list, which may be nil.
fn internal_list(list: &Node<'_>) -> &'static str {
    if list.is_given() { "[]" } else { "null" }
}

/// `metav1validation.ValidateConditions`
fn conditions(list: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for condition in list.items() {
        let [kind, status, generation, time, reason, message] =
            ["type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"]
                .map(|field| condition.at(field));
        if !known.insert(kind.text()) {
            out.duplicate(&kind);
        }
        label_key(&kind, out);
        out.one_of(&status, &["False", "True", "Unknown"]);
        if generation.int() < 0 {
            out.int(&generation, "must be greater than or equal to zero");
        }
        if time.is_empty() {
            out.required(&time, "");
        }
        if out.require(&reason) {
            if !is_reason(reason.text()) {
                out.text(&reason, REASON);
            }
            if reason.len() > 1 << 10 {
                out.too_long(&reason, 1 << 10);
            }
        }
        if message.len() > 32 << 10 {
            out.too_long(&message, 32 << 10);
        }
    }
}

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters \
    or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  \
    or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// `conditionReasonRegexp`
fn is_reason(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().next_back().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b',' | b':'))
}
