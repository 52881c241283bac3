//! The plugin's configuration: the resources that require a quota.

use super::scopes::{Scoped, Selector};
use crate::admission::BuildError;
use crate::config::PluginConfiguration;
use crate::kind::GroupVersionResource;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use crate::status::invalid::aggregate;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The supported versions and kinds, which have equal fields.
const KINDS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// `resourcequota.Configuration`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Configuration {
    pub(super) limited: Vec<Limited>,
}

/// `resourcequota.LimitedResource`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limited {
    group: String,
    resource: String,
    /// The parts of resource names that select the limited resources.
    parts: Vec<String>,
    scopes: Vec<Selector>,
}

impl Configuration {
    /// Reads the configuration. Without a configuration, no resource requires a quota.
    ///
    /// # Errors
    /// If the kind is wrong, a field is unknown, or a value is invalid. The error lists all invalid fields.
    pub(super) fn read(configuration: Option<&PluginConfiguration>) -> Result<Self, BuildError> {
        let Some(given) = configuration.filter(|given| !given.value.is_null()) else { return Ok(Self::default()) };
        let fields = given.value.as_object();
        let fields = fields.ok_or_else(|| given.invalid(format_args!("must be a mapping, not {}", given.value)))?;
        given.expect_kind_among(&KINDS)?;
        let mut reader = Reader::default();
        reader.unknown("", fields, &["apiVersion", "kind", "limitedResources"]);
        let items = reader.list(fields, "", "limitedResources");
        let limited = items.iter().enumerate().map(|(i, item)| reader.limited(&format!("limitedResources[{i}]"), item));
        let configuration = Self { limited: limited.collect() };
        let problem = match (reader.strict.is_empty(), aggregate(reader.invalid)) {
            (true, None) => return Ok(configuration),
            (false, _) => format!("strict decoding error: {}", reader.strict.join(", ")),
            (true, Some(invalid)) => invalid,
        };
        Err(given.invalid(problem))
    }

    /// The resource names in the usage that a quota must cover (`limitedByDefault`).
    pub(super) fn limited_names(&self, resource: &GroupVersionResource, usage: &ResourceList) -> BTreeSet<String> {
        let of_resource = |limited: &&Limited| limited.group == resource.group && limited.resource == resource.resource;
        let of_resource = self.limited.iter().filter(of_resource);
        let parts: Vec<&String> = of_resource.flat_map(|limited| &limited.parts).collect();
        let is_limited = |name: &str| parts.iter().any(|part| name.contains(part.as_str()));
        let limited = usage.iter().filter(|(name, quantity)| **quantity > Quantity::ZERO && is_limited(name));
        limited.map(|(name, _)| name.clone()).collect()
    }

    /// The scopes that a quota must cover, whatever resource the configuration names beside the scope (`getMatchedLimitedScopes`).
    pub(super) fn limited_scopes(&self, scoped: &Scoped) -> Vec<Selector> {
        let scopes = self.limited.iter().flat_map(|limited| &limited.scopes);
        // Invalid selectors were refused when the configuration was read.
        scopes.filter(|selector| selector.matches(scoped).unwrap_or(true)).cloned().collect()
    }
}

/// Reads fields and collects errors.
#[derive(Default)]
struct Reader {
    /// Errors of the schema: unknown fields and wrong types.
    strict: Vec<String>,
    /// Errors of values.
    invalid: Vec<String>,
}

impl Reader {
    fn limited(&mut self, path: &str, item: &Value) -> Limited {
        let Some(fields) = self.mapping(path, item) else { return Limited::default() };
        self.unknown(path, fields, &["apiGroup", "resource", "matchContains", "matchScopes"]);
        let resource = self.text(fields, path, "resource");
        if resource.is_empty() {
            self.invalid.push(format!("{path}.resource: Required value"));
        }
        let scopes = self.list(fields, path, "matchScopes");
        let scopes = scopes.iter().enumerate();
        let scopes = scopes.map(|(i, scope)| self.scope(&format!("{path}.matchScopes[{i}]"), scope)).collect();
        let group = self.text(fields, path, "apiGroup");
        Limited { group, resource, parts: self.texts(fields, path, "matchContains"), scopes }
    }

    fn scope(&mut self, path: &str, item: &Value) -> Selector {
        let Some(fields) = self.mapping(path, item) else { return Selector::default() };
        self.unknown(path, fields, &["scopeName", "operator", "values"]);
        let (name, operator) = (self.text(fields, path, "scopeName"), self.text(fields, path, "operator"));
        let selector = Selector { name, operator, values: self.texts(fields, path, "values") };
        // kube-apiserver accepts an invalid selector, and then admits every request without checking quotas.
        if let Err(why) = selector.check() {
            self.invalid.push(format!("{path}: Invalid value: {item}: {why}"));
        }
        selector
    }

    fn mapping<'a>(&mut self, path: &str, item: &'a Value) -> Option<&'a Map<String, Value>> {
        if !item.is_object() {
            self.strict.push(format!("{path}: must be a mapping, not {item}"));
        }
        item.as_object()
    }

    fn unknown(&mut self, path: &str, fields: &Map<String, Value>, known: &[&str]) {
        let unknown = fields.keys().filter(|key| !known.contains(&key.as_str()));
        self.strict.extend(unknown.map(|key| format!("unknown field {:?}", join(path, key))));
    }

    fn list<'a>(&mut self, fields: &'a Map<String, Value>, path: &str, field: &str) -> &'a [Value] {
        match fields.get(field) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.strict.push(format!("{}: must be a list, not {other}", join(path, field)));
                &[]
            }
        }
    }

    fn text(&mut self, fields: &Map<String, Value>, path: &str, field: &str) -> String {
        self.string(&join(path, field), fields.get(field).unwrap_or(&Value::Null))
    }

    fn texts(&mut self, fields: &Map<String, Value>, path: &str, field: &str) -> Vec<String> {
        let items = self.list(fields, path, field).iter().enumerate();
        items.map(|(i, item)| self.string(&format!("{}[{i}]", join(path, field)), item)).collect()
    }

    fn string(&mut self, path: &str, value: &Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => {
                self.strict.push(format!("{path}: must be a string, not {other}"));
                String::new()
            }
        }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Configuration, String> {
        let (origin, directory) = ("quota.yaml".to_owned(), "/".into());
        let configuration = PluginConfiguration { origin, directory, value };
        Configuration::read(Some(&configuration)).map_err(|error| error.to_string())
    }

    fn with(limited: Value) -> Value {
        json!({"apiVersion": KINDS[0].0, "kind": KINDS[0].1, "limitedResources": limited})
    }

    #[test]
    fn every_version_has_the_same_content() {
        let scope = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]});
        let limited = json!([{"apiGroup": "g", "resource": "r", "matchContains": ["x"], "matchScopes": [scope]}]);
        let scope = ("PriorityClass".into(), "In".into(), vec!["high".into()]);
        let scopes = vec![Selector { name: scope.0, operator: scope.1, values: scope.2 }];
        let want = Limited { group: "g".into(), resource: "r".into(), parts: vec!["x".into()], scopes };
        for (version, kind) in KINDS {
            let value = json!({"apiVersion": version, "kind": kind, "limitedResources": limited});
            assert_eq!(read(value).unwrap().limited, [want_like(&want)], "{version}");
            assert_eq!(read(json!({"apiVersion": version, "kind": kind})), Ok(Configuration::default()));
        }
        assert_eq!(read(Value::Null), Ok(Configuration::default()));
        assert_eq!(Configuration::read(None).unwrap(), Configuration::default());
    }

    fn want_like(limited: &Limited) -> Limited {
        let Limited { group, resource, parts, scopes } = limited;
        Limited { group: group.clone(), resource: resource.clone(), parts: parts.clone(), scopes: scopes.clone() }
    }

    #[test]
    fn errors_name_file_field_and_value() {
        let kind = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
        let wanted = "ResourceQuotaConfiguration of apiserver.config.k8s.io/v1 is wanted";
        let strict = |text: &str| format!("strict decoding error: {text}");
        let in_scope = |scope: Value| with(json!([{"resource": "pods", "matchScopes": [scope]}]));
        for (value, want) in [
            (json!("x"), "must be a mapping, not \"x\"".to_owned()),
            (json!({}), format!("kind: must be set: {wanted}")),
            (kind("", "Configuration"), format!("apiVersion: must be set: {wanted}")),
            (
                kind("apiserver.config.k8s.io/v1", "Configuration"),
                format!("no kind \"Configuration\" is registered for version \"apiserver.config.k8s.io/v1\": {wanted}"),
            ),
            (with(json!({})), strict("limitedResources: must be a list, not {}")),
            (with(json!([1])), strict("limitedResources[0]: must be a mapping, not 1")),
            (
                with(json!([{"resource": "pods"}, {"resource": 5, "limit": 1}])),
                strict("unknown field \"limitedResources[1].limit\", limitedResources[1].resource: must be a string, not 5"),
            ),
            (with(json!([{"matchContains": ["cpu"]}])), "limitedResources[0].resource: Required value".to_owned()),
            (
                with(json!([{}, {"resource": ""}])),
                "[limitedResources[0].resource: Required value, limitedResources[1].resource: Required value]".to_owned(),
            ),
            (
                with(json!([{"resource": "pods", "matchContains": [1]}])),
                strict("limitedResources[0].matchContains[0]: must be a string, not 1"),
            ),
            (
                in_scope(json!({"scope": "BestEffort"})),
                strict("unknown field \"limitedResources[0].matchScopes[0].scope\""),
            ),
            (
                in_scope(json!({"scopeName": "PriorityClass", "operator": "Like"})),
                "limitedResources[0].matchScopes[0]: Invalid value: {\"operator\":\"Like\",\"scopeName\":\"PriorityClass\"}: \
                 \"Like\" is not a valid scope selector operator"
                    .to_owned(),
            ),
        ] {
            assert_eq!(read(value.clone()).unwrap_err(), format!("quota.yaml: {want}"), "{value}");
        }
    }
}
