//! The audit policy: the requests to audit, and their audit levels (`--audit-policy-file`).

use super::validation;
use crate::request::RequestInfo;
use crate::user::UserInfo;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::path::Path;

/// The audit level of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No event.
    #[default]
    None,
    /// An event with the request's metadata, without bodies.
    Metadata,
    /// Also the request's object or patch.
    Request,
    /// Also the response's object.
    RequestResponse,
}

impl Level {
    /// The level's name in the policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse]
            .into_iter()
            .find(|level| level.as_str() == text)
    }
}

/// A stage of a request at which an event may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request arrived.
    RequestReceived,
    /// The head of a long-running request's response was sent.
    ResponseStarted,
    /// The response was sent.
    ResponseComplete,
    /// A panic occurred.
    Panic,
}

impl Stage {
    pub(super) const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The stage's name in events and in the policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// Reads `null` as an empty list, as Go does.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The content of a policy file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct File {
    #[serde(deserialize_with = "nullable")]
    pub(super) api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) kind: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) rules: Vec<Rule>,
    #[serde(deserialize_with = "nullable")]
    pub(super) omit_stages: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rule {
    #[serde(deserialize_with = "nullable")]
    pub(super) level: String,
    #[serde(deserialize_with = "nullable")]
    users: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) resources: Vec<GroupResources>,
    #[serde(deserialize_with = "nullable")]
    pub(super) namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "nullable")]
    pub(super) non_resource_urls: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct GroupResources {
    #[serde(deserialize_with = "nullable")]
    pub(super) group: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) resources: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) resource_names: Vec<String>,
}

/// The policy's decision about one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    /// The audit level.
    pub(crate) level: Level,
    omitted_stages: [bool; 4],
    /// Whether logged objects omit `metadata.managedFields`.
    pub(crate) omit_managed_fields: bool,
}

impl AuditDecision {
    /// Whether an event is written at the stage.
    pub(crate) fn wants(&self, stage: Stage) -> bool {
        !Stage::ALL.iter().zip(self.omitted_stages).any(|(of, omitted)| *of == stage && omitted)
    }
}

/// A valid audit policy.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    file: File,
    decisions: Vec<AuditDecision>,
}

/// The reason why a policy is invalid, in kube-apiserver's words.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("loading audit policy file: {0}")]
pub(crate) struct PolicyError(pub(super) String);

impl Policy {
    /// Reads a policy file (`LoadPolicyFromFile`).
    ///
    /// # Errors
    /// If the file cannot be read or is not a valid policy.
    pub(crate) fn from_file(path: &Path) -> Result<Self, PolicyError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PolicyError(format!("failed to read file path {:?}: {error}", shown.to_string())))?;
        text.parse().map_err(|PolicyError(error)| PolicyError(format!("{error}: from file {shown}")))
    }

    /// The decision of the first matching rule. No event is written if no rule matches (`EvaluatePolicyRule`).
    pub(crate) fn evaluate(&self, info: &RequestInfo, user: Option<&UserInfo>) -> AuditDecision {
        let matching = self.file.rules.iter().position(|rule| rule.matches(info, user));
        matching.and_then(|at| self.decisions.get(at).copied()).unwrap_or_default()
    }
}

impl std::str::FromStr for Policy {
    type Err = PolicyError;

    /// Parses YAML or JSON (`LoadPolicyFromBytes`). Unknown fields are ignored with a warning.
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let failed = |error: String| PolicyError(format!("failed decoding: {error}"));
        let value: Value = serde_saphyr::from_str(text).map_err(|error| failed(error.to_string()))?;
        let unknown = validation::unknown_fields(&value);
        let file: Option<File> = serde_json::from_value(value).map_err(|error| failed(error.to_string()))?;
        let file = file.unwrap_or_default();
        // A missing kind defaults to the requested type; a missing version has no default.
        match (&*file.api_version, &*file.kind) {
            ("audit.k8s.io/v1", "Policy" | "") => {}
            ("", "Policy" | "") => {
                let found = "audit.k8s.io/__internal, Kind=Policy";
                return Err(PolicyError(format!("unknown group version field {found} in policy")));
            }
            (version, kind) => return Err(failed(format!("no kind {kind:?} is registered for version {version:?}"))),
        }
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            tracing::warn!(unknown, "audit policy contains unknown fields; they are ignored");
        }
        validation::validate(&file)?;
        if file.rules.is_empty() {
            return Err(PolicyError("loaded illegal policy with 0 rules".to_owned()));
        }
        let decisions = file.rules.iter().map(|rule| rule.decision(&file)).collect();
        Ok(Self { file, decisions })
    }
}

impl Rule {
    fn decision(&self, file: &File) -> AuditDecision {
        let is_omitted =
            |stage: Stage| file.omit_stages.iter().chain(&self.omit_stages).any(|omitted| omitted == stage.as_str());
        AuditDecision {
            level: Level::parse(&self.level).unwrap_or_default(),
            omitted_stages: Stage::ALL.map(is_omitted),
            omit_managed_fields: self.omit_managed_fields.unwrap_or(file.omit_managed_fields),
        }
    }

    /// `ruleMatches`
    fn matches(&self, info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|user| self.users.contains(&user.username)) {
            return false;
        }
        let is_in_group = |user: &UserInfo| user.groups.iter().any(|group| self.user_groups.contains(group));
        if !self.user_groups.is_empty() && !user.is_some_and(is_in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !self.verbs.contains(&info.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource_request
                && (self.namespaces.is_empty() || self.namespaces.contains(&info.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|resources| resources.match_request(info)));
        }
        self.non_resource_urls.is_empty()
            || (!info.is_resource_request && self.non_resource_urls.iter().any(|spec| path_matches(&info.path, spec)))
    }
}

/// `pathMatches`
fn path_matches(path: &str, spec: &str) -> bool {
    spec == "*" || spec == path || (spec.ends_with('*') && path.starts_with(spec.trim_end_matches('*')))
}

impl GroupResources {
    /// `ruleMatchesResource`
    fn match_request(&self, info: &RequestInfo) -> bool {
        if self.group != info.api_group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.contains(&info.name) {
            return false;
        }
        self.resources.iter().any(|spec| {
            let is_whole = match spec.split_once('/') {
                Some((resource, subresource)) => resource == info.resource && subresource == info.subresource,
                None => *spec == info.resource && info.subresource.is_empty(),
            };
            is_whole
                || spec == "*"
                || (!info.subresource.is_empty() && spec.strip_prefix("*/") == Some(&info.subresource))
                || spec.strip_suffix("/*") == Some(&info.resource)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::request_info;

    fn policy(rules: &str) -> Policy {
        format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}\n").parse().unwrap()
    }

    fn level(policy: &Policy, method: &str, uri: &str) -> Level {
        let user =
            UserInfo { username: "jane".into(), groups: vec!["dev".into(), "all".into()], ..UserInfo::default() };
        let info = request_info(&method.parse().unwrap(), &uri.parse().unwrap());
        policy.evaluate(&info, Some(&user)).level
    }

    #[test]
    fn each_field_of_a_rule_narrows_it() {
        #[rustfmt::skip]
        let rows = [
            ("{}",                                             "GET", "/healthz", true),
            ("{users: [jane]}",                                "GET", "/healthz", true),
            ("{users: [joe]}",                                 "GET", "/healthz", false),
            ("{userGroups: [x, all]}",                         "GET", "/healthz", true),
            ("{userGroups: [x], users: [jane]}",               "GET", "/healthz", false),
            ("{verbs: [list]}",                                "GET", "/api/v1/pods", true),
            ("{verbs: [get]}",                                 "GET", "/api/v1/pods", false),
            ("{verbs: [get]}",                                 "GET", "/version", true),
            ("{namespaces: [a]}",                              "GET", "/api/v1/namespaces/a/pods", true),
            ("{namespaces: [b]}",                              "GET", "/api/v1/namespaces/a/pods", false),
            ("{namespaces: [\"\"]}",                           "GET", "/api/v1/nodes", true),
            ("{namespaces: [\"\"]}",                           "GET", "/version", false),
            ("{resources: [{}]}",                              "GET", "/api/v1/nodes", true),
            ("{resources: [{}]}",                              "GET", "/apis/apps/v1/deployments", false),
            ("{resources: [{group: apps}]}",                   "GET", "/apis/apps/v1/deployments", true),
            ("{resources: [{group: '*', resources: [x, deployments]}]}", "GET", "/apis/apps/v1/deployments", true),
            ("{resources: [{resources: [pods]}]}",             "GET", "/api/v1/namespaces/a/pods/p", true),
            ("{resources: [{resources: [pods]}]}",             "GET", "/api/v1/namespaces/a/pods/p/log", false),
            ("{resources: [{resources: [pods/log]}]}",         "GET", "/api/v1/namespaces/a/pods/p/log", true),
            ("{resources: [{resources: [pods/log]}]}",         "GET", "/api/v1/namespaces/a/pods/p", false),
            ("{resources: [{resources: ['*']}]}",              "GET", "/api/v1/namespaces/a/pods/p/log", true),
            ("{resources: [{resources: ['pods/*']}]}",         "GET", "/api/v1/namespaces/a/pods/p/log", true),
            ("{resources: [{resources: ['pods/*']}]}",         "GET", "/api/v1/namespaces/a/pods/p", true),
            ("{resources: [{resources: ['*/log']}]}",          "GET", "/api/v1/namespaces/a/pods/p/log", true),
            ("{resources: [{resources: ['*/log']}]}",          "GET", "/api/v1/namespaces/a/pods/p/exec", false),
            ("{resources: [{resources: [pods], resourceNames: [p]}]}", "GET", "/api/v1/namespaces/a/pods/p", true),
            ("{resources: [{resources: [pods], resourceNames: [q]}]}", "GET", "/api/v1/namespaces/a/pods/p", false),
            ("{nonResourceURLs: ['*']}",                       "GET", "/version", true),
            ("{nonResourceURLs: ['*']}",                       "GET", "/api/v1/pods", false),
            ("{nonResourceURLs: ['/healthz*']}",               "GET", "/healthz/etcd", true),
            ("{nonResourceURLs: ['/healthz']}",                "GET", "/healthz/etcd", false),
        ];
        for (rule, method, uri, expected) in rows {
            let rule = rule.replacen('{', "{level: Metadata, ", 1);
            let expected = if expected { Level::Metadata } else { Level::None };
            assert_eq!(level(&policy(&format!("- {rule}")), method, uri), expected, "{rule} {method} {uri}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = policy(
            "- {level: None, users: [jane], verbs: [get]}\n- {level: Request, resources: [{}]}\n- {level: Metadata}",
        );
        assert_eq!(level(&policy, "GET", "/api/v1/namespaces/a/pods/p"), Level::None);
        assert_eq!(level(&policy, "PUT", "/api/v1/namespaces/a/pods/p"), Level::Request);
        assert_eq!(level(&policy, "POST", "/x"), Level::Metadata);
    }

    #[test]
    fn stages_add_up_and_managed_fields_are_overridden() {
        let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], omitManagedFields: true, rules: [
            {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}, {level: Request}]}";
        let policy: Policy = text.parse().unwrap();
        let [first, second] = ["GET", "PUT"]
            .map(|method| policy.evaluate(&request_info(&method.parse().unwrap(), &"/x".parse().unwrap()), None));
        assert!(
            !first.wants(Stage::RequestReceived) && !first.wants(Stage::Panic) && first.wants(Stage::ResponseComplete)
        );
        assert!(!second.wants(Stage::RequestReceived) && second.wants(Stage::Panic));
        assert_eq!((first.omit_managed_fields, second.omit_managed_fields), (false, true));
    }

    #[test]
    fn refuses_what_kube_apiserver_refuses() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        let group = format!("rules[0].resources.group: Invalid value: \"G\": {subdomain}");
        let rows = [
            ("rules: []", "loaded illegal policy with 0 rules"),
            ("rules: [{}]", "rules[0].level: Required value"),
            (
                "rules: [{level: All}]",
                "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
            ),
            (
                "rules: [{level: None, nonResourceURLs: [x, /a*b]}]",
                "[rules[0].nonResourceURLs[0]: Invalid value: \"x\": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule]",
            ),
            (
                "rules: [{level: None, nonResourceURLs: [/x], namespaces: [a]}]",
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
            ),
            ("rules: [{level: None, resources: [{group: G}]}]", &*group),
            (
                "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
                "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource",
            ),
            (
                "{omitStages: [Never], rules: [{level: None}]}",
                "omitStages[0]: Invalid value: \"Never\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic",
            ),
        ];
        for (rest, expected) in rows {
            let text = match rest.strip_prefix('{') {
                Some(rest) => format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, {rest}"),
                None => format!("{head}{rest}"),
            };
            assert_eq!(text.parse::<Policy>().unwrap_err(), PolicyError(expected.to_owned()), "{rest}");
        }
        for text in ["", "kind: Policy", "rules: [{level: None}]"] {
            let expected = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy".to_owned();
            assert_eq!(text.parse::<Policy>().unwrap_err(), PolicyError(expected), "{text}");
        }
        for text in
            ["[5]", "5", "{apiVersion: audit.k8s.io/v1beta1, kind: Policy, rules: [{level: None}]}", "{rules: 5}"]
        {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.starts_with("loading audit policy file: failed decoding: "), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_fields_are_ignored_as_by_the_lenient_decoder() {
        let policy: Policy =
            "{apiVersion: audit.k8s.io/v1, kind: Policy, metadata: null, x: 1, rules: [{level: None, y: 2}]}"
                .parse()
                .unwrap();
        assert_eq!(policy.decisions.len(), 1);
        let missing = Policy::from_file(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(
            missing.starts_with("loading audit policy file: failed to read file path \"/nonexistent\": "),
            "{missing}"
        );
    }
}
