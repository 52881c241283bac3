//! The refusal of roles and bindings that grant what their author does not hold (`pkg/registry/rbac/*/policybased`).

use super::context::Context;
use super::owners;
use super::strategy::Strategy;
use crate::authz::AccessAttributes;
use crate::embedded::rbac::{GROUP, Granted, authorize, list, rules, visit_rules};
use crate::embedded::store::Reads;
use crate::go_text::go_quote;
use crate::object::Object;
use crate::status::Status;
use crate::status::invalid::aggregate;
use crate::user::UserInfo;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The number of verbs on resources that the rules of a role may grant. kube-apiserver compares each with the rules of the author, too, and has
/// no bound.
const MAX_ATOMS: usize = 100_000;

/// Roles and ClusterRoles.
pub(super) struct Roles;

impl Strategy for Roles {
    fn check_rights(&self, context: &Context<'_>, object: &Object, current: Option<&Object>) -> Result<(), Status> {
        check(context, object, current, true)
    }
}

/// RoleBindings and ClusterRoleBindings.
pub(super) struct Bindings;

impl Strategy for Bindings {
    fn check_rights(&self, context: &Context<'_>, object: &Object, current: Option<&Object>) -> Result<(), Status> {
        check(context, object, current, false)
    }
}

/// Checks that the author of a role holds its rules, or may `escalate`, and that the author of a binding holds the rules of its role, or may
/// `bind` it. `current` is the object that the new one replaces.
///
/// # Errors
/// 403 with the rules that the author lacks, 404 if a binding's role is missing.
fn check(context: &Context<'_>, object: &Object, current: Option<&Object>, is_role: bool) -> Result<(), Status> {
    let (reads, resource) = (context.store, context.resource);
    // `rbacregistry.EscalationAllowed`
    let is_master = context.caller.groups.iter().any(|group| group == "system:masters");
    if !context.settings.rbac || is_master {
        return Ok(());
    }
    if is_role && may(reads, context, "escalate", &resource.name, context.name) {
        return Ok(());
    }
    if current.is_some_and(|current| changes_only_owners(object, current)) {
        return Ok(());
    }
    let forbidden = |why: &str| Status::forbidden(GROUP, &resource.name, object.name(), why);
    let check_count = |rules: &[Value]| match rules.iter().map(atoms).fold(0, usize::saturating_add) {
        0..=MAX_ATOMS => Ok(()),
        _ => Err(forbidden(&format!("the rules grant more than {MAX_ATOMS} verbs on resources: too many to compare"))),
    };
    if !is_role {
        let of = |field: &str| object.str(&["roleRef", field]).to_owned();
        let plural = match &*of("kind") {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            // Before the validation refuses the kind, as in kube-apiserver.
            other => return Err(Status::plain(format!("unsupported role reference kind: {}", go_quote(other)))),
        };
        if may(reads, context, "bind", plural, &of("name")) {
            return Ok(());
        }
        let rules = rules(reads, object, context.namespace)
            .ok_or_else(|| Status::not_found(GROUP, &resource.name, &of("name")))?;
        check_count(&rules)?;
        return confirm(reads, context, &rules).map_err(|why| forbidden(&why.to_string()));
    }
    check_count(object.items(&["rules"]))?;
    confirm(reads, context, object.items(&["rules"])).map_err(|why| forbidden(&why.to_string()))?;
    let selects = |role: &Object| !role.items(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
    if *resource.name == *"clusterroles" && (selects(object) || current.is_some_and(selects)) {
        let all = [
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ];
        let why = "must have cluster-admin privileges to use the aggregationRule";
        confirm(reads, context, &all).map_err(|_| forbidden(why))?;
    }
    Ok(())
}

/// Whether the caller has this verb on a role (`RoleEscalationAuthorized`, `BindingAuthorized`).
fn may(reads: &impl Reads, context: &Context<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let attributes = AccessAttributes {
        is_resource_request: true,
        verb: verb.to_owned(),
        namespace: context.namespace.to_owned(),
        api_group: GROUP.to_owned(),
        api_version: "*".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..AccessAttributes::default()
    };
    authorize(reads, context.caller, &attributes).allowed
}

/// Whether an update changes nothing but what the garbage collector needs (`IsOnlyMutatingGCFields`).
fn changes_only_owners(object: &Object, current: &Object) -> bool {
    let [object, current] = [object, current].map(|of| {
        let mut of = of.clone();
        for field in ["ownerReferences", "finalizers", "selfLink"] {
            of.remove(&["metadata", field]);
        }
        of.remove(&owners::MANAGED_FIELDS);
        of
    });
    object == current
}

/// The caller would grant rules that the caller lacks.
#[derive(Debug, thiserror::Error)]
#[error(
    "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{}",
    go_quote(username),
    quoted(groups),
    rules.join("\n"),
    missing_roles.as_ref().map(|why| format!("; resolution errors: [{why}]")).unwrap_or_default()
)]
struct Escalation {
    username: String,
    groups: Vec<String>,
    /// The texts of the rules.
    rules: Vec<String>,
    /// The roles of the caller that do not exist.
    missing_roles: Option<String>,
}

/// Checks that the caller holds these rules (`ConfirmNoEscalation`).
///
/// # Errors
/// If the caller lacks rules.
fn confirm(reads: &impl Reads, context: &Context<'_>, rules: &[Value]) -> Result<(), Escalation> {
    let (mut held, mut missing_roles) = (Vec::new(), Vec::new());
    visit_rules(reads, context.caller, context.namespace, &mut |granted: &Granted<'_>, rules| {
        match rules {
            Some(rules) => held.extend_from_slice(rules),
            // The storage of roles names the resource of the request.
            None => {
                let role = go_quote(granted.binding.str(&["roleRef", "name"]));
                missing_roles.push(format!("{}.{GROUP} {role} not found", context.resource.name));
            }
        }
        true
    });
    let missing =
        rules.iter().flat_map(broken_down).filter(|rule| !held.iter().any(|holder| rule.is_covered_by(holder)));
    let missing = compacted(missing);
    if missing.is_empty() {
        return Ok(());
    }
    let UserInfo { username, groups, .. } = context.caller.clone();
    Err(Escalation { username, groups, rules: missing.into_iter().collect(), missing_roles: aggregate(missing_roles) })
}

/// The smallest part of a rule (`BreakdownRule`): one verb on one resource, on one object of it, or on one URL.
#[derive(Clone, Copy)]
enum Atom<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str },
    Url { url: &'a str, verb: &'a str },
}

/// The number of smallest parts of a rule.
fn atoms(rule: &Value) -> usize {
    let count = |field: &str| list(rule, field).count();
    let of_resources = ["apiGroups", "resources", "verbs"].map(count).into_iter().fold(1, usize::saturating_mul);
    let of_urls = count("nonResourceURLs").saturating_mul(count("verbs"));
    of_resources.saturating_mul(count("resourceNames").max(1)).saturating_add(of_urls)
}

fn broken_down(rule: &Value) -> Vec<Atom<'_>> {
    let mut atoms = Vec::new();
    let names: Vec<Option<&str>> = list(rule, "resourceNames").map(Some).collect();
    let names = if names.is_empty() { vec![None] } else { names };
    for group in list(rule, "apiGroups") {
        for resource in list(rule, "resources") {
            for verb in list(rule, "verbs") {
                atoms.extend(names.iter().map(|name| Atom::Resource { group, resource, name: *name, verb }));
            }
        }
    }
    for url in list(rule, "nonResourceURLs") {
        atoms.extend(list(rule, "verbs").map(|verb| Atom::Url { url, verb }));
    }
    atoms
}

impl Atom<'_> {
    /// `ruleCovers`
    fn is_covered_by(&self, holder: &Value) -> bool {
        let has = |field: &str, wanted: &str| list(holder, field).any(|each| each == "*" || each == wanted);
        let mut names = list(holder, "resourceNames").peekable();
        match *self {
            Self::Resource { group, resource, name, verb } => {
                let any_of = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
                let is_resource = |each: &str| each == "*" || each == resource || Some(each) == any_of.as_deref();
                has("verbs", verb)
                    && has("apiGroups", group)
                    && list(holder, "resources").any(is_resource)
                    && (names.peek().is_none() || name.is_some_and(|name| names.any(|each| each == name)))
            }
            Self::Url { url, verb } => {
                let covers =
                    |held: &str| held == url || (held.ends_with('*') && url.starts_with(held.trim_end_matches('*')));
                has("verbs", verb) && names.peek().is_none() && list(holder, "nonResourceURLs").any(covers)
            }
        }
    }
}

/// The texts of rules in order; those that differ by their verbs alone are one (`CompactRules`, `CompactString`).
fn compacted<'a>(atoms: impl Iterator<Item = Atom<'a>>) -> BTreeSet<String> {
    let mut verbs_of: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    let mut texts = BTreeSet::new();
    for atom in atoms {
        match atom {
            Atom::Resource { group, resource, name, verb } => {
                verbs_of.entry((group, resource, name)).or_default().push(verb);
            }
            Atom::Url { url, verb } => {
                texts.insert(format!("{{NonResourceURLs:{}, Verbs:{}}}", quoted(&[url]), quoted(&[verb])));
            }
        }
    }
    for ((group, resource, name), verbs) in verbs_of {
        let name = name.map(|name| format!("ResourceNames:{}, ", quoted(&[name]))).unwrap_or_default();
        let (group, resource, verbs) = (quoted(&[group]), quoted(&[resource]), quoted(&verbs));
        texts.insert(format!("{{APIGroups:{group}, Resources:{resource}, {name}Verbs:{verbs}}}"));
    }
    texts
}

/// Texts as Go's `%q` prints them.
fn quoted(texts: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| go_quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}
