//! RBAC: the authorizer of the embedded API server (`plugin/pkg/auth/authorizer/rbac`), and the bootstrap policy, recorded from a
//! kube-apiserver.

use super::store::{Collection, Reads, key, prefix};
use crate::authz::{AccessAttributes, Decision};
use crate::go_text::go_quote;
use crate::object::selector::LabelSelector;
use crate::object::{Object, release};
use crate::status::invalid::aggregate;
use crate::user::UserInfo;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};
use std::io::Read;
use std::sync::Arc;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &Collection = &Collection::built_in(GROUP, "clusterroles");
const ROLES: &Collection = &Collection::built_in(GROUP, "roles");
const CLUSTER_ROLE_BINDINGS: &Collection = &Collection::built_in(GROUP, "clusterrolebindings");
const ROLE_BINDINGS: &Collection = &Collection::built_in(GROUP, "rolebindings");

/// Returns the service accounts of `kube-system` that the bootstrap policy binds to the roles of controllers, in order.
pub(crate) fn controllers() -> Vec<String> {
    let accounts = recorded().into_iter().filter(|object| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        name.starts_with("system:controller:")
    });
    let subjects = accounts.filter_map(|binding| binding.get("subjects").and_then(Value::as_array).cloned()).flatten();
    let names = subjects.filter_map(|subject| subject.get("name").and_then(Value::as_str).map(str::to_owned));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

pub(super) fn recorded() -> Vec<Value> {
    let mut text = String::new();
    let read = GzDecoder::new(&include_bytes!("data/rbac.json.gz")[..]).read_to_string(&mut text);
    let own = release::lines(&text).collect::<String>();
    let parsed = read.ok().and_then(|_| serde_json::from_str(&own).ok());
    parsed.expect("the recorded bootstrap policy is well-formed")
}

/// Whether the user may do this (`RBACAuthorizer.Authorize`). The reason against it names roles that do not exist, and is mostly empty.
pub(super) fn authorize(reads: &impl Reads, user: &UserInfo, attributes: &AccessAttributes) -> Decision {
    // `authorizerfactory.NewPrivilegedGroups`
    if user.groups.iter().any(|group| group == "system:masters") {
        return Decision { allowed: true, ..Decision::default() };
    }
    let (mut reason, mut missing) = (None, Vec::new());
    visit_rules(reads, user, &attributes.namespace, &mut |granted, rules| {
        let allows = match rules {
            Some(rules) => rules.iter().any(|rule| allows(rule, attributes)),
            None => {
                missing.push(granted.missing_role());
                false
            }
        };
        if allows {
            reason = Some(format!("RBAC: allowed by {}", granted.text()));
        }
        !allows
    });
    let allowed = reason.is_some();
    let reason = reason.or_else(|| aggregate(missing).map(|why| format!("RBAC: {why}")));
    Decision { allowed, reason: reason.unwrap_or_default(), ..Decision::default() }
}

/// The rules of the user in a namespace, for a SelfSubjectRulesReview: those on resources, and those on paths.
pub(super) fn rules_of(reads: &impl Reads, user: &UserInfo, namespace: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    if user.groups.iter().any(|group| group == "system:masters") {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    visit_rules(reads, user, namespace, &mut |_, rules| {
        for rule in rules.unwrap_or_default() {
            match rule.get("nonResourceURLs") {
                Some(Value::Array(urls)) if !urls.is_empty() => paths.push(part(rule, &["verbs", "nonResourceURLs"])),
                _ => resources.push(part(rule, &["verbs", "apiGroups", "resources", "resourceNames"])),
            }
        }
        true
    });
    (resources, paths)
}

fn part(rule: &Value, fields: &[&str]) -> Value {
    let of = |field: &&str| Some(((*field).to_owned(), rule.get(*field)?.clone()));
    Value::Object(fields.iter().filter_map(of).collect::<Map<_, _>>())
}

/// A binding that names the user, and the subject that does so.
pub(super) struct Granted<'a> {
    pub(super) binding: &'a Object,
    pub(super) subject: &'a Value,
}

impl Granted<'_> {
    /// `clusterRoleBindingDescriber.String`, `roleBindingDescriber.String`
    pub(super) fn text(&self) -> String {
        let name = match self.binding.namespace() {
            "" => self.binding.name().to_owned(),
            namespace => format!("{}/{namespace}", self.binding.name()),
        };
        let role = self.binding.str(&["roleRef", "name"]);
        let subject = match text(self.subject, "kind") {
            "ServiceAccount" => {
                format!(
                    "ServiceAccount {}",
                    go_quote(&format!("{}/{}", text(self.subject, "name"), text(self.subject, "namespace")))
                )
            }
            kind => format!("{kind} {}", go_quote(text(self.subject, "name"))),
        };
        let (kind, role_kind) = (self.binding.kind(), self.binding.str(&["roleRef", "kind"]));
        format!("{kind} {} of {role_kind} {} to {subject}", go_quote(&name), go_quote(role))
    }

    pub(super) fn missing_role(&self) -> String {
        let kind = self.binding.str(&["roleRef", "kind"]).to_lowercase();
        format!("{kind}.{GROUP} {} not found", go_quote(self.binding.str(&["roleRef", "name"])))
    }
}

/// Calls `visit` with the rules of each binding that names the user, cluster-wide bindings first, until it returns false
/// (`DefaultRuleResolver.VisitRulesFor`).
pub(super) fn visit_rules(
    reads: &impl Reads,
    user: &UserInfo,
    namespace: &str,
    visit: &mut dyn FnMut(&Granted<'_>, Option<&[Value]>) -> bool,
) {
    let mut bindings = reads.objects(CLUSTER_ROLE_BINDINGS, "");
    if !namespace.is_empty() {
        bindings.extend(reads.objects(ROLE_BINDINGS, &prefix(namespace)));
    }
    for (_, binding) in &bindings {
        let of_binding = binding.namespace();
        let Some(subject) = binding.items(&["subjects"]).iter().find(|subject| names(subject, of_binding, user)) else {
            continue;
        };
        let rules = rules(reads, binding, of_binding);
        if !visit(&Granted { binding, subject }, rules.as_deref()) {
            return;
        }
    }
}

/// Whether a subject of a binding is the user (`appliesToUser`).
fn names(subject: &Value, namespace: &str, user: &UserInfo) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => user.username == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let of = Some(text(subject, "namespace")).filter(|of| !of.is_empty()).unwrap_or(namespace);
            !of.is_empty() && user.username == format!("system:serviceaccount:{of}:{name}")
        }
        _ => false,
    }
}

/// The rules of the role that a binding in this namespace names; `None` if the role is missing.
pub(super) fn rules(reads: &impl Reads, binding: &Object, namespace: &str) -> Option<Vec<Value>> {
    let name = binding.str(&["roleRef", "name"]);
    let role = match binding.str(&["roleRef", "kind"]) {
        "ClusterRole" => reads.object(CLUSTER_ROLES, name),
        "Role" => reads.object(ROLES, &key(namespace, name)),
        _ => None,
    };
    role.map(|role| aggregated(reads, &role))
}

/// The rules of a role. Those of a role with an aggregation rule are the rules of the roles that it selects, as kube-controller-manager
/// writes them.
fn aggregated(reads: &impl Reads, role: &Arc<Object>) -> Vec<Value> {
    let selectors = role.items(&["aggregationRule", "clusterRoleSelectors"]);
    if selectors.is_empty() {
        return role.items(&["rules"]).to_vec();
    }
    let read = selectors.iter().filter_map(|each| LabelSelector::from_json(Some(each)).ok());
    let selectors: Vec<LabelSelector> = read.collect();
    let (mut rules, mut known) = (Vec::new(), HashSet::new());
    for (_, other) in reads.objects(CLUSTER_ROLES, "") {
        let is_selected = || selectors.iter().any(|selector| selector.matches(other.labels()));
        if other.name() != role.name() && is_selected() {
            rules.extend(other.items(&["rules"]).iter().filter(|rule| !known.contains(*rule)).cloned());
            known.extend(other.items(&["rules"]).iter().cloned());
        }
    }
    rules
}

/// Whether a rule allows a request (`RuleAllows`).
fn allows(rule: &Value, attributes: &AccessAttributes) -> bool {
    let has = |field: &str, wanted: &str| list(rule, field).any(|each| each == "*" || each == wanted);
    if !has("verbs", &attributes.verb) {
        return false;
    }
    if !attributes.is_resource_request {
        return list(rule, "nonResourceURLs").any(|url| covers(url, &attributes.path));
    }
    let (resource, subresource) = (&*attributes.resource, &*attributes.subresource);
    let combined = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let any_of = format!("*/{subresource}");
    let is_resource = |each: &str| each == "*" || each == combined || (!subresource.is_empty() && each == any_of);
    let mut named = list(rule, "resourceNames").peekable();
    has("apiGroups", &attributes.api_group)
        && list(rule, "resources").any(is_resource)
        && (named.peek().is_none() || named.any(|name| name == attributes.name))
}

/// `NonResourceURLMatches`
fn covers(url: &str, path: &str) -> bool {
    url == "*" || url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

pub(super) fn list<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
