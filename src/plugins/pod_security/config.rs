//! The plugin's configuration: `pod-security.admission.config.k8s.io` `PodSecurityConfiguration`.

use super::policy::{AUDIT, ENFORCE, Level, LevelVersion, ModeLabels, Policy, Version, WARN};
use crate::admission::BuildError;
use crate::config::PluginConfiguration;
use crate::go_text::go_quote;
use crate::names::{dns_1123_label_errors, dns_1123_subdomain_errors};
use serde_json::{Map, Value};

pub(super) const KIND: &str = "PodSecurityConfiguration";
/// The supported versions, which have equal fields.
const KINDS: [(&str, &str); 3] = [
    ("pod-security.admission.config.k8s.io/v1", KIND),
    ("pod-security.admission.config.k8s.io/v1beta1", KIND),
    ("pod-security.admission.config.k8s.io/v1alpha1", KIND),
];
static EMPTY: Value = Value::String(String::new());

/// The default policy for namespaces without labels, and the exemptions.
#[derive(Debug, PartialEq)]
pub(super) struct Configuration {
    pub(super) defaults: Policy,
    pub(super) usernames: Vec<String>,
    pub(super) namespaces: Vec<String>,
    pub(super) runtime_classes: Vec<String>,
}

impl Default for Configuration {
    fn default() -> Self {
        let (usernames, namespaces, runtime_classes) = Default::default();
        Self { defaults: Policy::PRIVILEGED, usernames, namespaces, runtime_classes }
    }
}

impl Configuration {
    /// Reads the configuration. Without a configuration, the default level is privileged.
    ///
    /// # Errors
    /// If the kind is wrong, a field is unknown, or a value is invalid. The error lists all invalid fields.
    pub(super) fn read(configuration: Option<&PluginConfiguration>) -> Result<Self, BuildError> {
        let Some(given) = configuration.filter(|given| !given.value.is_null()) else { return Ok(Self::default()) };
        let fields = given.value.as_object().ok_or_else(|| given.invalid("must be a mapping"))?;
        given.expect_kind_among(&KINDS)?;
        let mut reader = Reader::default();
        let configuration = reader.configuration(fields);
        let problems = if reader.strict.is_empty() { reader.invalid } else { reader.strict };
        match problems.as_slice() {
            [] => Ok(configuration),
            problems => Err(given.invalid(problems.join(", "))),
        }
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
    fn configuration(&mut self, fields: &Map<String, Value>) -> Configuration {
        self.unknown("", fields, &["apiVersion", "kind", "defaults", "exemptions"]);
        let none = Map::new();
        let defaults = self.mapping(fields, "defaults").unwrap_or(&none);
        let modes = [ENFORCE, WARN, AUDIT];
        let versions = modes.map(|labels| format!("{}-version", labels.mode));
        let known: Vec<&str> =
            modes.iter().map(|labels| labels.mode).chain(versions.iter().map(String::as_str)).collect();
        self.unknown("defaults", defaults, &known);
        let [enforce, warn, audit] = modes.map(|labels| self.mode(defaults, labels));
        let exemptions = self.mapping(fields, "exemptions").unwrap_or(&none);
        self.unknown("exemptions", exemptions, &["usernames", "namespaces", "runtimeClasses"]);
        Configuration {
            defaults: Policy { enforce, audit, warn },
            namespaces: self.exempt(exemptions, "namespaces", |name| dns_1123_label_errors(name)),
            runtime_classes: self.exempt(exemptions, "runtimeClasses", |name| dns_1123_subdomain_errors(name)),
            usernames: self.exempt(exemptions, "usernames", |name| {
                if name.is_empty() { vec!["username must not be empty".to_owned()] } else { Vec::new() }
            }),
        }
    }

    fn unknown(&mut self, path: &str, fields: &Map<String, Value>, known: &[&str]) {
        let dot = if path.is_empty() { "" } else { "." };
        let unknown = fields.keys().filter(|key| !known.contains(&key.as_str()));
        self.strict.extend(unknown.map(|key| format!("unknown field \"{path}{dot}{key}\"")));
    }

    fn mapping<'a>(&mut self, fields: &'a Map<String, Value>, field: &str) -> Option<&'a Map<String, Value>> {
        match fields.get(field)? {
            Value::Null => None,
            Value::Object(map) => Some(map),
            other => {
                self.strict.push(format!("{field}: must be a mapping, not {other}"));
                None
            }
        }
    }

    fn mode(&mut self, defaults: &Map<String, Value>, labels: ModeLabels) -> LevelVersion {
        let (level, version) = (format!("defaults.{}", labels.mode), format!("defaults.{}-version", labels.mode));
        LevelVersion {
            level: self.value(defaults, &level, Level::parse).unwrap_or(Level::Privileged),
            version: self.value(defaults, &version, Version::parse).unwrap_or(Version::Latest),
        }
    }

    /// The value of a field of `defaults`. `None` if the field is missing, null or empty.
    fn value<T>(
        &mut self,
        defaults: &Map<String, Value>,
        path: &str,
        parse: fn(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let value = defaults.get(path.strip_prefix("defaults.")?)?;
        let text = self.text(path, value)?;
        if text.is_empty() {
            return None;
        }
        parse(text).map_err(|why| self.invalid.push(format!("{path}: Invalid value: {}: {why}", go_quote(text)))).ok()
    }

    /// The string in a value. `None` if the value is null.
    fn text<'a>(&mut self, path: &str, value: &'a Value) -> Option<&'a str> {
        match value {
            Value::String(text) => Some(text),
            Value::Null => None,
            other => {
                self.strict.push(format!("{path}: must be a string, not {other}"));
                None
            }
        }
    }

    /// A list of names in a field of `exemptions`.
    fn exempt(&mut self, exemptions: &Map<String, Value>, field: &str, check: fn(&str) -> Vec<String>) -> Vec<String> {
        let list = match exemptions.get(field) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.strict.push(format!("exemptions.{field}: must be a list, not {other}"));
                return Vec::new();
            }
        };
        let mut names: Vec<String> = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = format!("exemptions.{field}[{index}]");
            // In a Go list of strings, null is an empty string.
            let Some(name) = self.text(&path, if value.is_null() { &EMPTY } else { value }) else { continue };
            let errors = check(name);
            if !errors.is_empty() {
                self.invalid.push(format!("{path}: Invalid value: {}: {}", go_quote(name), errors.join(", ")));
            } else if names.iter().any(|known| known == name) {
                self.invalid.push(format!("{path}: Duplicate value: {}", go_quote(name)));
            } else {
                names.push(name.to_owned());
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Configuration, String> {
        let configuration = PluginConfiguration { origin: "ps.yaml".into(), directory: "/".into(), value };
        Configuration::read(Some(&configuration)).map_err(|error| error.to_string())
    }

    fn with(version: &str, field: &str, value: Value) -> Result<Configuration, String> {
        let version = format!("pod-security.admission.config.k8s.io/{version}");
        let mut json = json!({"apiVersion": version, "kind": KIND});
        json.as_object_mut().unwrap().insert(field.into(), value);
        read(json)
    }

    fn problem(field: &str, value: Value) -> String {
        with("v1", field, value).unwrap_err()
    }

    #[test]
    fn the_default_is_privileged() {
        assert_eq!(Configuration::read(None).unwrap(), Configuration::default());
        assert_eq!(read(Value::Null), Ok(Configuration::default()));
        let empty = json!({"enforce": "", "audit": null, "warn-version": ""});
        assert_eq!(with("v1", "defaults", empty), Ok(Configuration::default()));
        assert_eq!(with("v1", "exemptions", Value::Null), Ok(Configuration::default()));
        assert_eq!(Configuration::default().defaults, Policy::PRIVILEGED);
    }

    #[test]
    fn every_version_is_read() {
        for version in ["v1", "v1beta1", "v1alpha1"] {
            let defaults = json!({"enforce": "baseline", "enforce-version": "v1.20", "audit": "restricted",
                                  "audit-version": "v1.21", "warn": "restricted", "warn-version": "latest"});
            let policy = with(version, "defaults", defaults).unwrap().defaults;
            let texts = [policy.enforce, policy.audit, policy.warn].map(|mode| mode.to_string());
            assert_eq!(texts, ["baseline:v1.20", "restricted:v1.21", "restricted:latest"]);
            let exemptions = json!({"usernames": ["a b"], "namespaces": ["n"], "runtimeClasses": ["r.s"]});
            let configuration = with(version, "exemptions", exemptions).unwrap();
            assert_eq!(configuration.usernames, ["a b"]);
            assert_eq!(configuration.namespaces, ["n"]);
            assert_eq!(configuration.runtime_classes, ["r.s"]);
        }
    }

    #[test]
    fn a_file_that_is_kept_for_operators_is_read() {
        let text = include_str!("../../../config/pod-security.yaml");
        let configuration = read(serde_saphyr::from_str(text).unwrap()).unwrap();
        assert_eq!(configuration.defaults.enforce.to_string(), "baseline:latest");
        assert_eq!(configuration.defaults.warn.to_string(), "restricted:latest");
        assert_eq!(configuration.namespaces, ["kube-system"]);
    }

    #[test]
    fn another_kind_is_refused() {
        for (value, problem) in [
            (json!([]), "must be a mapping"),
            (
                json!({}),
                "kind: must be set: PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1 is wanted",
            ),
            (
                json!({"kind": KIND}),
                "apiVersion: must be set: PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1 is wanted",
            ),
            (
                json!({"kind": KIND, "apiVersion": "pod-security.admission.config.k8s.io/v2"}),
                "no kind \"PodSecurityConfiguration\" is registered for version \
                 \"pod-security.admission.config.k8s.io/v2\": PodSecurityConfiguration of \
                 pod-security.admission.config.k8s.io/v1 is wanted",
            ),
            (
                json!({"kind": "Other", "apiVersion": "pod-security.admission.config.k8s.io/v1"}),
                "no kind \"Other\" is registered for version \"pod-security.admission.config.k8s.io/v1\": \
                 PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1 is wanted",
            ),
        ] {
            assert_eq!(read(value), Err(format!("ps.yaml: {problem}")));
        }
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        assert_eq!(problem("default", json!({})), "ps.yaml: unknown field \"default\"");
        assert_eq!(
            problem("defaults", json!({"enforceVersion": "latest", "warning": "x"})),
            "ps.yaml: unknown field \"defaults.enforceVersion\", unknown field \"defaults.warning\""
        );
        assert_eq!(problem("exemptions", json!({"users": []})), "ps.yaml: unknown field \"exemptions.users\"");
        assert_eq!(
            problem("defaults", json!("restricted")),
            "ps.yaml: defaults: must be a mapping, not \"restricted\""
        );
        assert_eq!(
            problem("defaults", json!({"enforce-version": 1.24})),
            "ps.yaml: defaults.enforce-version: must be a string, not 1.24"
        );
        assert_eq!(problem("exemptions", json!([])), "ps.yaml: exemptions: must be a mapping, not []");
        assert_eq!(
            problem("exemptions", json!({"usernames": "alice"})),
            "ps.yaml: exemptions.usernames: must be a list, not \"alice\""
        );
        assert_eq!(
            problem("exemptions", json!({"namespaces": ["a", 1]})),
            "ps.yaml: exemptions.namespaces[1]: must be a string, not 1"
        );
    }

    #[test]
    fn every_wrong_value_is_named() {
        assert_eq!(
            problem("defaults", json!({"enforce": "strict", "warn-version": "1.24", "audit": "x"})),
            "ps.yaml: defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
             defaults.warn-version: Invalid value: \"1.24\": must be \"latest\" or \"v1.x\", \
             defaults.audit: Invalid value: \"x\": must be one of privileged, baseline, restricted"
        );
        assert_eq!(
            problem("exemptions", json!({"usernames": ["", "a", "a"], "runtimeClasses": ["r", "r"]})),
            "ps.yaml: exemptions.runtimeClasses[1]: Duplicate value: \"r\", \
             exemptions.usernames[0]: Invalid value: \"\": username must not be empty, \
             exemptions.usernames[2]: Duplicate value: \"a\""
        );
        for name in ["A", "-a", "a-", ""] {
            let problem = problem("exemptions", json!({"namespaces": [name]}));
            let start =
                format!("ps.yaml: exemptions.namespaces[0]: Invalid value: \"{name}\": a lowercase RFC 1123 label");
            assert!(problem.starts_with(&start), "{problem}");
        }
        let dots = problem("exemptions", json!({"namespaces": ["a.b"]}));
        assert!(dots.ends_with("\"a.b\": must not contain dots"), "{dots}");
        let long = problem("exemptions", json!({"namespaces": ["a".repeat(64)]}));
        assert!(long.ends_with(": must be no more than 63 characters"), "{long}");
        let class = problem("exemptions", json!({"runtimeClasses": ["A"]}));
        assert!(class.contains("runtimeClasses[0]: Invalid value: \"A\": a lowercase RFC 1123 subdomain"), "{class}");
    }
}
