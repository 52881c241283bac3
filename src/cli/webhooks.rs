//! `print webhooks`: the configurations with which an API server asks the webhook front end.

use super::arguments::{FailurePolicy, Webhooks};
use super::serve::list;
use crate::admission::{FrontEndSupport, Operations, Resources, Spec};
use crate::config::ConfigError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The key of the user's extra field with the mark of `--admitted-mark`.
const MARK: &str = "kube-admission-proxy.dev/admitted";
/// The condition that leaves out the reviews that an API server answers without storing anything, which the front end itself needs.
const NO_REVIEW: &str = r#"!(request.resource.group in ["authentication.k8s.io", "authorization.k8s.io"])"#;

/// The place of the front end.
enum Place {
    Url(String),
    Service { namespace: String, name: String, port: u16 },
}

impl Place {
    fn of(flags: &Webhooks) -> Result<Self, ConfigError> {
        if let Some(url) = &flags.url {
            let is_plain = url.starts_with("https://") && !url.contains(['?', '#', '@', '"', '\\', ' ']);
            return match is_plain {
                true => Ok(Self::Url(url.trim_end_matches('/').to_owned())),
                false => Err(ConfigError::flag("url", url, "must be https://HOST:PORT without user and query")),
            };
        }
        let given = flags.service.as_deref().unwrap_or_default();
        let wrong = || ConfigError::flag("service", given, "must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
        let (namespace, rest) = given.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
            None => (rest, 443),
        };
        let is_label = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if !is_label(namespace) || !is_label(name) {
            return Err(wrong());
        }
        Ok(Self::Service { namespace: namespace.to_owned(), name: name.to_owned(), port })
    }

    fn lines(&self, path: &str) -> String {
        match self {
            Self::Url(url) => format!("      url: {}\n", quoted(&format!("{url}{path}"))),
            Self::Service { namespace, name, port } => format!(
                "      service:\n        namespace: {}\n        name: {}\n        port: {port}\n        path: {}\n",
                quoted(namespace),
                quoted(name),
                quoted(path)
            ),
        }
    }
}

/// A string as YAML and CEL both read it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn quoted_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", quoted.join(", "))
}

/// The rules of a configuration: the resources and the plugins of each set of operations, group and scope.
#[derive(Default)]
struct Rules(BTreeMap<Key, Rule>);

/// Operations, group and scope.
type Key = (Vec<&'static str>, &'static str, &'static str);

#[derive(Default)]
struct Rule {
    resources: BTreeSet<String>,
    plugins: Vec<&'static str>,
}

impl Rule {
    /// The resources, without the subresources that `pods/*` stands for: the API server refuses a list with both.
    fn named(&self) -> impl Iterator<Item = &str> {
        let is_named = |resource: &&str| match resource.split_once('/') {
            None | Some((_, "*")) => true,
            Some((resource, _)) => !self.resources.contains(&format!("{resource}/*")),
        };
        self.resources.iter().map(String::as_str).filter(is_named)
    }
}

impl Rules {
    fn add(&mut self, spec: &Spec, group: &'static str, scope: &'static str, resource: String) {
        let rule = self.0.entry((operations(spec.operations), group, scope)).or_default();
        rule.resources.insert(resource);
        if !rule.plugins.contains(&spec.name) {
            rule.plugins.push(spec.name);
        }
    }

    fn add_plugin(&mut self, spec: &Spec) {
        match spec.reviewed() {
            Resources::All => self.add(spec, "*", "*", "*/*".into()),
            Resources::Namespaced => {
                self.add(spec, "*", "Namespaced", "*/*".into());
                self.add(spec, "", "Cluster", "namespaces".into());
                self.add(spec, "", "Cluster", "namespaces/*".into());
            }
            Resources::Only(list) => {
                for (group, resource, subresource) in list {
                    if matches!(*subresource, "" | "*") {
                        self.add(spec, group, "*", (*resource).into());
                    }
                    if !subresource.is_empty() {
                        self.add(spec, group, "*", format!("{resource}/{subresource}"));
                    }
                }
            }
        }
    }

    /// Whether a rule names resources that no plugin names.
    fn are_wide(&self) -> bool {
        self.0.keys().any(|(_, group, _)| *group == "*")
    }

    /// Whether a plugin names the resource.
    fn name(&self, group: &str, resource: &str) -> bool {
        self.0.iter().any(|((_, of_group, _), rule)| *of_group == group && rule.resources.contains(resource))
    }

    fn lines(&self) -> String {
        let mut lines = String::new();
        for ((operations, group, scope), rule) in &self.0 {
            lines += &format!("      # {}\n", rule.plugins.join(", "));
            lines += &format!("      - operations: {}\n", quoted_list(operations.iter().copied()));
            lines += &format!("        apiGroups: {}\n        apiVersions: [\"*\"]\n", quoted_list([*group]));
            lines += &format!("        resources: {}\n", quoted_list(rule.named()));
            lines += &format!("        scope: {}\n", quoted(scope));
        }
        lines
    }
}

fn operations(set: Operations) -> Vec<&'static str> {
    use crate::admission::Operation;
    let all = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
    all.into_iter().filter(|operation| set.contain(*operation)).map(Operation::as_str).collect()
}

/// Returns the configurations for these plugins, as YAML.
///
/// # Errors
/// If a flag is invalid, or the file of authorities cannot be read.
pub(super) fn configurations(plugins: &[&'static Spec], flags: &Webhooks) -> Result<String, ConfigError> {
    let place = Place::of(flags)?;
    let ca_bundle = match &flags.ca_bundle_file {
        None => String::new(),
        Some(path) => {
            let refused = |reason: &dyn ToString| {
                ConfigError::flag("ca-bundle-file", path.display().to_string(), reason.to_string())
            };
            let pem = std::fs::read(path).map_err(|reason| refused(&reason))?;
            crate::authn::CertificateAuthority::parse(&pem).map_err(|reason| refused(&reason))?;
            format!("      caBundle: {}\n", quoted(&STANDARD.encode(pem)))
        }
    };
    let mut namespaces: BTreeSet<String> = list(&flags.exclude_namespaces).into_iter().collect();
    if let Place::Service { namespace, .. } = &place {
        namespaces.insert(namespace.clone());
    }
    let mut text = String::new();
    for (kind, phase, takes_part) in [
        ("Mutating", "mutate", (|spec| spec.phases.mutate()) as fn(&Spec) -> bool),
        ("Validating", "validate", |spec| spec.phases.validate()),
    ] {
        let mut rules = Rules::default();
        plugins.iter().filter(|spec| takes_part(spec)).for_each(|spec| rules.add_plugin(spec));
        if rules.0.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text += "---\n";
        }
        text += &format!("apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\n");
        text += &format!("metadata:\n  name: {}\nwebhooks:\n", quoted(&flags.name));
        text += &format!("  - name: {phase}.kube-admission-proxy.dev\n    admissionReviewVersions: [\"v1\"]\n");
        text += &format!("    clientConfig:\n{}{ca_bundle}", place.lines(&format!("/{phase}")));
        text += &format!("    rules:\n{}", rules.lines());
        let policy = match flags.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        };
        // A plugin handles the resources that its rule names, in every version, and not at equivalent resources of other groups.
        text += &format!("    failurePolicy: {policy}\n    matchPolicy: Exact\n");
        if !namespaces.is_empty() {
            let values = quoted_list(namespaces.iter().map(String::as_str));
            text += "    namespaceSelector:\n      matchExpressions:\n        - key: kubernetes.io/metadata.name\n";
            text += &format!("          operator: NotIn\n          values: {values}\n");
        }
        text += &conditions(&rules, flags);
        text += &format!("    sideEffects: NoneOnDryRun\n    timeoutSeconds: {}\n", flags.timeout_seconds);
        if kind == "Mutating" {
            text += "    reinvocationPolicy: IfNeeded\n";
        }
    }
    Ok(text)
}

/// Returns the rules of each plugin, as YAML, in the order of `all`.
pub(super) fn by_plugin(all: &[&'static Spec]) -> String {
    let mut data = "# The output of `kube-admission-proxy print webhooks --by-plugin`.\n".to_owned();
    for spec in all {
        let front_end = match spec.front_end {
            FrontEndSupport::LeftOut(_) => "leftOut",
            FrontEndSupport::Refused(_) => "refused",
            FrontEndSupport::Full | FrontEndSupport::Part(_) | FrontEndSupport::Of(_) => "runs",
        };
        data += &format!("{}:\n  frontEnd: {front_end}\n", spec.name);
        if front_end != "runs" {
            continue;
        }
        data += &format!("  mutates: {}\n  validates: {}\n", spec.phases.mutate(), spec.phases.validate());
        let mut rules = Rules::default();
        rules.add_plugin(spec);
        data += "  rules:\n";
        for ((operations, group, scope), rule) in &rules.0 {
            let operations = quoted_list(operations.iter().copied());
            let resources = quoted_list(rule.named());
            data += &format!(
                "    - {{operations: {operations}, group: {group:?}, scope: {scope:?}, resources: {resources}}}\n"
            );
        }
    }
    data
}

/// The match conditions, which leave out requests that need no review.
fn conditions(rules: &Rules, flags: &Webhooks) -> String {
    let mut conditions = Vec::new();
    if let Some(mark) = &flags.admitted_mark {
        let (key, mark) = (quoted(MARK), quoted(mark));
        let extra = "request.userInfo.extra";
        let expression = format!("!(has({extra}) && {key} in {extra} && {extra}[{key}] == [{mark}])");
        conditions.push(("not-admitted-by-the-proxy", expression));
    }
    if let Some(user) = &flags.proxy_user {
        conditions.push(("not-of-the-proxy", format!("request.userInfo.username != {}", quoted(user))));
    }
    if rules.are_wide() {
        conditions.push(("no-review", NO_REVIEW.to_owned()));
        let excluded = list(&flags.exclude_resources);
        let excluded = excluded.iter().map(|name| name.split_once('.').unwrap_or((name, "")));
        let excluded: Vec<String> = excluded
            .filter(|(resource, group)| !rules.name(group, resource))
            .map(|(resource, group)| quoted_list([group, resource]))
            .collect();
        if !excluded.is_empty() {
            let pair = "[request.resource.group, request.resource.resource]";
            conditions.push(("not-excluded", format!("!({pair} in [{}])", excluded.join(", "))));
        }
    }
    if conditions.is_empty() {
        return String::new();
    }
    let lines = conditions
        .iter()
        .map(|(name, expression)| format!("      - name: {name}\n        expression: {}\n", quoted(expression)));
    format!("    matchConditions:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{Arguments, Command, Print};
    use super::*;
    use crate::upstream::Transport;
    use clap::Parser;
    use http::Request;
    use http_body_util::BodyExt;
    use k8s_openapi::api::admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    };
    use serde_json::json;
    use std::sync::Arc;

    fn flags(arguments: &[&str]) -> Result<Box<Webhooks>, String> {
        let line = ["kube-admission-proxy", "print", "webhooks"].iter().chain(arguments);
        match Arguments::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Print(Print::Webhooks(flags)) => Ok(flags),
            _ => Err("not print webhooks".to_owned()),
        }
    }

    fn printed(plugins: &[&str], arguments: &[&str]) -> Result<String, String> {
        let all = crate::plugins::ALL.iter().copied();
        let plugins: Vec<_> = all.filter(|spec| plugins.contains(&spec.name)).collect();
        let flags = flags(arguments)?;
        configurations(&plugins, &flags).map_err(|error| error.to_string())
    }

    fn objects(text: &str) -> Vec<Value> {
        text.split("---\n").map(|text| crate::object::decode::yaml(text.as_bytes()).unwrap().value).collect()
    }

    fn rules(configuration: &Value) -> Vec<RuleWithOperations> {
        serde_json::from_value(configuration["webhooks"][0]["rules"].clone()).unwrap()
    }

    #[test]
    fn the_configurations_name_what_the_plugins_read() {
        let text = printed(&["AlwaysPullImages", "PodSecurity"], &["--service=proxy/webhook"]).unwrap();
        let [mutating, validating] = objects(&text).try_into().unwrap();
        serde_json::from_value::<MutatingWebhookConfiguration>(mutating.clone()).unwrap();
        serde_json::from_value::<ValidatingWebhookConfiguration>(validating.clone()).unwrap();
        let service = json!({"service": {"namespace": "proxy", "name": "webhook", "port": 443, "path": "/mutate"}});
        let hook = &mutating["webhooks"][0];
        assert_eq!(hook["clientConfig"], service);
        assert_eq!((&hook["matchConditions"], &hook["reinvocationPolicy"]), (&Value::Null, &json!("IfNeeded")));
        assert_eq!(hook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["kube-system", "proxy"]));
        assert_eq!((&hook["failurePolicy"], &hook["timeoutSeconds"]), (&json!("Fail"), &json!(5)));
        let [rule] = rules(&mutating).try_into().unwrap();
        let list = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!((rule.operations, rule.resources), (list(&["CREATE", "UPDATE"]), list(&["pods"])));
        let of_core = rules(&validating).into_iter().find(|rule| rule.api_groups == list(&[""])).unwrap();
        let resources = ["namespaces", "pods", "pods/*", "podtemplates", "replicationcontrollers"];
        assert_eq!(of_core.resources, list(&resources));
        assert_eq!(rules(&validating).len(), 3);
    }

    #[tokio::test]
    async fn an_api_server_accepts_the_configurations_of_all_plugins() {
        let all = crate::plugins::ALL
            .iter()
            .filter(|spec| !matches!(spec.front_end, FrontEndSupport::LeftOut(_) | FrontEndSupport::Refused(_)));
        for only_default in [true, false] {
            let names: Vec<&str> =
                all.clone().filter(|spec| spec.default_on || !only_default).map(|spec| spec.name).collect();
            let server = crate::embedded::Server::new(Arc::default());
            for object in objects(&printed(&names, &["--service=proxy/webhook"]).unwrap()) {
                let resource = object["kind"].as_str().unwrap().to_lowercase();
                let request = Request::post(format!("/apis/admissionregistration.k8s.io/v1/{resource}s"));
                let body = crate::body::full(object.to_string());
                let response =
                    server.send(request.header("content-type", "application/json").body(body).unwrap()).await;
                let (head, body) = response.unwrap().into_parts();
                assert_eq!(head.status, 201, "{:?}", body.collect().await.unwrap().to_bytes());
            }
        }
    }

    #[test]
    fn conditions_leave_out_what_needs_no_review() {
        let arguments =
            ["--url=https://127.0.0.1:9443/", "--proxy-user=o'neil", "--admitted-mark=a/b", "--exclude-namespaces="];
        let text = printed(&["NamespaceLifecycle", "NodeRestriction"], &arguments).unwrap();
        let [mutating] = objects(&text).try_into().unwrap();
        let hook = &mutating["webhooks"][0];
        assert_eq!(hook["clientConfig"], json!({"url": "https://127.0.0.1:9443/mutate"}));
        assert_eq!(hook["namespaceSelector"], Value::Null);
        let conditions = hook["matchConditions"].as_array().unwrap();
        let expressions: Vec<&str> = conditions.iter().filter_map(|one| one["expression"].as_str()).collect();
        let extra = "request.userInfo.extra";
        let mark = format!(r#"!(has({extra}) && "{MARK}" in {extra} && {extra}["{MARK}"] == ["a/b"])"#);
        // NodeRestriction names leases.
        let excluded = r#"!([request.resource.group, request.resource.resource] in [["", "events"], ["events.k8s.io", "events"]])"#;
        assert_eq!(expressions, [&*mark, r#"request.userInfo.username != "o'neil""#, NO_REVIEW, excluded]);
        let scopes: Vec<_> = rules(&mutating).into_iter().filter_map(|rule| rule.scope).collect();
        assert!(["Namespaced", "Cluster", "*"].iter().all(|scope| scopes.contains(&(*scope).to_owned())), "{scopes:?}");
    }

    #[test]
    fn a_configuration_without_plugins_is_left_out() {
        let text = printed(&["DenyServiceExternalIPs"], &["--service=a/b:9443"]).unwrap();
        let [validating] = objects(&text).try_into().unwrap();
        assert_eq!(validating["kind"], "ValidatingWebhookConfiguration");
        assert_eq!(validating["webhooks"][0]["clientConfig"]["service"]["port"], 9443);
        assert_eq!(validating["webhooks"][0]["reinvocationPolicy"], Value::Null);
    }

    #[test]
    fn wrong_flags_are_errors() {
        for (argument, why) in [
            ("--url=http://a", "--url=http://a: must be https://HOST:PORT without user and query"),
            ("--url=https://a?b", "--url=https://a?b: must be https://HOST:PORT without user and query"),
            ("--service=a", "--service=a: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT"),
            ("--service=a/b:x", "--service=a/b:x: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT"),
            ("--service=a/B", "--service=a/B: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT"),
        ] {
            assert_eq!(printed(&["AlwaysPullImages"], &[argument]).unwrap_err(), why);
        }
        let file = ["--service=a/b", "--ca-bundle-file=/nowhere"];
        assert!(printed(&["AlwaysPullImages"], &file).unwrap_err().starts_with("--ca-bundle-file=/nowhere: "));
        assert!(flags(&[]).is_err() && flags(&["--url=https://a", "--service=a/b"]).is_err());
    }
}
