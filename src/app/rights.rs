//! The rights that the proxy's own credentials need at the upstream API server.

use super::Config;
use crate::admission::Spec;
use crate::cluster::{GroupResource, Need};
use crate::config::{self, AuthorizationMode, UpstreamIdentity};
use crate::upstream::rights::NeededAccess;
use std::collections::{BTreeMap, BTreeSet};

/// The paths that the proxy reads besides resources: discovery, schemas, probes, and metrics, which show whether the upstream API
/// server calls webhooks.
pub(crate) const PATHS: [&str; 8] =
    ["/api", "/api/*", "/apis", "/apis/*", "/metrics", "/openapi/*", "/readyz", "/version"];

/// The purpose of the rights to impersonate.
const FORWARDING: &str = "forwarded requests";

/// A right: group, resource and verbs.
type Right = (&'static str, &'static str, &'static [&'static str]);

/// The rights that the proxy needs with every identity. Custom resources are decoded even if no plugin needs the definitions, and
/// discovery follows the APIs of other API servers.
const ALWAYS: &[Right] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions", READ),
    ("apiregistration.k8s.io", "apiservices", FOLLOW),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
];
/// Verbs of a cache whose misses are looked up.
const READ: &[&str] = &["get", "list", "watch"];
/// Verbs of a cache.
const FOLLOW: &[&str] = &["list", "watch"];

/// The right to read the stored objects of writes. With `passthrough` the proxy reads them as the caller.
const STORED_OBJECTS: Right = ("*", "*", &["get", "list"]);
const TOKEN_REVIEWS: Right = ("authentication.k8s.io", "tokenreviews", &["create"]);
/// The right to impersonate. RBAC cannot name `userextras` with every key, so the rule names every resource of the group, of which
/// `uids` and `userextras` can be impersonated.
const IMPERSONATION: &[Right] = &[
    ("", "groups", &["impersonate"]),
    ("", "serviceaccounts", &["impersonate"]),
    ("", "users", &["impersonate"]),
    ("authentication.k8s.io", "*", &["impersonate"]),
];

const LIVE_POD: &[Right] = &[("", "pods", &["get"])];

/// The requests of plugins that no cache answers, and the caches that plugins start on demand.
const BESIDE_NEEDS: &[(&str, &[Right])] = &[
    ("DenyEscalatingExec", LIVE_POD),
    ("DenyExecOnPrivileged", LIVE_POD),
    // The ConfigMaps with the authorities of the proxy's serving certificate.
    ("InClusterClients", &[("", "configmaps", &["create", "get", "list", "update"])]),
    ("JobValidation", &[("scheduling.k8s.io", "podgroups", &["get", "list"])]),
    ("LimitRanger", &[("", "limitranges", &["list"])]),
    // A policy may have parameters of any kind. Since 1.37, one that no cache has yet is read.
    ("MutatingAdmissionPolicy", &[("*", "*", READ)]),
    // The namespace is admitted as `system:apiserver`, and created with the proxy's own credentials.
    ("NamespaceAutoProvision", &[("", "namespaces", &["create"])]),
    ("PodGroupWorkloadExists", &[("scheduling.k8s.io", "workloads", &["get"])]),
    ("PodSecurity", &[("", "pods", &["list"])]),
    (
        "ResourceQuota",
        &[
            ("", "pods", &["get"]),
            ("", "resourcequotas", &["list"]),
            ("", "resourcequotas/status", &["update"]),
            ("resource.k8s.io", "resourceclaims", &["list"]),
        ],
    ),
    ("RuntimeClass", &[("node.k8s.io", "runtimeclasses", &["get"])]),
    ("ServiceAccount", &[("", "serviceaccounts", &["get"])]),
    ("ValidatingAdmissionPolicy", &[("*", "*", READ)]),
];

/// Verbs by resource.
#[derive(Default)]
pub(crate) struct Rights(pub(crate) BTreeMap<GroupResource, Verbs>);

/// The verbs of a rule, and what they are for.
#[derive(Default)]
pub(crate) struct Verbs {
    pub(crate) verbs: BTreeSet<&'static str>,
    pub(crate) reasons: Vec<&'static str>,
}

impl Rights {
    fn add(&mut self, resource: GroupResource, verbs: &[&'static str], reason: &'static str) {
        let rule = self.0.entry(resource).or_default();
        rule.verbs.extend(verbs);
        if !rule.reasons.contains(&reason) {
            rule.reasons.push(reason);
        }
    }

    /// Adds the rights to impersonate.
    pub(crate) fn add_impersonation(&mut self) {
        self.add_all(IMPERSONATION, FORWARDING);
    }

    fn add_all(&mut self, rights: &[Right], reason: &'static str) {
        for (group, resource, verbs) in rights {
            self.add(((*group).into(), (*resource).into()), verbs, reason);
        }
    }

    /// Adds the rights for requests that no plugin causes. `impersonates` is false if another identity forwards requests.
    pub(crate) fn add_identity(&mut self, identity: UpstreamIdentity, impersonates: bool) {
        self.add_all(ALWAYS, "every proxy");
        if identity != UpstreamIdentity::Passthrough {
            self.add_all(&[STORED_OBJECTS], "stored objects");
            self.add_all(&[TOKEN_REVIEWS], "bearer tokens");
        }
        if identity == UpstreamIdentity::Impersonate && impersonates {
            self.add_impersonation();
        }
    }

    /// Adds the rights for a plugin: its caches, and its own requests.
    pub(crate) fn add_plugin(&mut self, spec: &Spec) {
        for need in spec.needs {
            // A namespace that is not in the cache is looked up.
            let verbs = if *need == Need::NAMESPACES { READ } else { FOLLOW };
            need.resources().into_iter().for_each(|resource| self.add(resource, verbs, spec.name));
        }
        let beside = BESIDE_NEEDS.iter().filter(|(plugin, _)| *plugin == spec.name);
        beside.for_each(|(_, rights)| self.add_all(rights, spec.name));
    }

    /// Adds the rights for `--enable-aggregator-routing`.
    pub(crate) fn add_endpoints(&mut self) {
        for resource in Need::ENDPOINT_SLICES.resources() {
            self.add(resource, FOLLOW, "--enable-aggregator-routing");
        }
    }
}

/// The resources on which a user has the right to impersonate, and the verb by which the right is confined to what the impersonated user is
/// asked for (KEP-5284); that verb is on the same resource of the group authentication.k8s.io.
const IMPERSONATED: [(&str, &str, &str); 4] = [
    ("", "users", "impersonate:user-info"),
    ("", "groups", "impersonate:user-info"),
    ("", "serviceaccounts", "impersonate:serviceaccount"),
    (AUTHENTICATION, "uids", "impersonate:user-info"),
];
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The rights without which each request of a client fails.
pub(crate) fn of_requests(config: &Config) -> Vec<NeededAccess> {
    let config::Upstream::Remote { identity, impersonator, .. } = &config.upstream else { return Vec::new() };
    if config.front_end.as_ref().is_some_and(|front_end| front_end.is_alone)
        || *identity == UpstreamIdentity::Passthrough
    {
        return Vec::new();
    }
    let mut rights = vec![access("create", AUTHENTICATION, "tokenreviews", "bearer tokens")];
    if config.authorization.mode == AuthorizationMode::Webhook {
        rights.push(access("create", "authorization.k8s.io", "subjectaccessreviews", "authorization"));
    }
    if *identity == UpstreamIdentity::Impersonate && impersonator.is_none() {
        rights.extend(of_impersonation());
    }
    rights
}

/// The rights to forward requests as their callers.
pub(crate) fn of_impersonation() -> impl Iterator<Item = NeededAccess> {
    IMPERSONATED.iter().map(|(group, resource, confined)| {
        let confined = access(confined, AUTHENTICATION, resource, FORWARDING);
        NeededAccess { otherwise: Some(Box::new(confined)), ..access("impersonate", group, resource, FORWARDING) }
    })
}

/// The rights for the enabled plugins, one by one. A right on all resources may be given for each of them instead, so it is none of these.
pub(crate) fn of_plugins(plugins: &[&'static Spec]) -> Vec<NeededAccess> {
    let mut rights = Rights::default();
    plugins.iter().for_each(|spec| rights.add_plugin(spec));
    let each = rights.0.iter().filter(|((group, resource), _)| group != "*" && resource != "*");
    let each = each.flat_map(|((group, resource), Verbs { verbs, reasons })| {
        verbs.iter().map(|verb| access(verb, group, resource, &reasons.join(", ")))
    });
    each.collect()
}

/// The right to read every object that a client writes; `None` if the proxy reads none with its own credentials.
pub(crate) fn of_stored_objects(config: &Config) -> Option<NeededAccess> {
    let config::Upstream::Remote { identity, .. } = &config.upstream else { return None };
    let forwards = config.front_end.as_ref().is_none_or(|front_end| !front_end.is_alone);
    let (group, resource, _) = STORED_OBJECTS;
    (forwards && *identity != UpstreamIdentity::Passthrough).then(|| access("get", group, resource, "stored objects"))
}

fn access(verb: &str, group: &str, resource: &str, reason: &str) -> NeededAccess {
    let [verb, group, resource, reason] = [verb, group, resource, reason].map(str::to_owned);
    NeededAccess { verb, group, resource, reason, otherwise: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The name of the plugin of a file or folder of `src/plugins`.
    fn plugin_of(file: &str) -> String {
        let capital = |word: &str| {
            word.chars()
                .take(1)
                .map(|letter| letter.to_ascii_uppercase())
                .chain(word.chars().skip(1))
                .collect::<String>()
        };
        file.trim_end_matches(".rs").split('_').map(capital).collect()
    }

    fn code_below(path: &Path) -> String {
        if path.is_dir() {
            return fs::read_dir(path).unwrap().map(|entry| code_below(&entry.unwrap().path())).collect();
        }
        let code = fs::read_to_string(path).unwrap();
        code.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
    }

    #[test]
    fn every_plugin_that_asks_the_api_server_past_the_caches_has_the_right_to() {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plugins")).unwrap() {
            let code = code_below(&entry.as_ref().unwrap().path());
            let name = plugin_of(entry.unwrap().file_name().to_str().unwrap());
            let asks = ["find_live", "list_live", "live_pods", "update_quota_status", "create_namespace("]
                .iter()
                .any(|call| code.contains(call));
            if asks {
                found.insert(name.clone());
            }
            if code.contains("live_namespace(")
                && let Some(spec) = crate::plugins::ALL.iter().find(|spec| spec.name == name)
            {
                assert!(spec.needs.contains(&Need::NAMESPACES), "{name}");
            }
        }
        // Policies read parameters, the second plugin for exec shares the code of the first, and a task keeps the ConfigMaps.
        let others =
            ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy", "DenyExecOnPrivileged", "InClusterClients"];
        let rights = BESIDE_NEEDS.iter().map(|(name, _)| (*name).to_owned()).filter(|name| !others.contains(&&**name));
        assert_eq!(found, rights.collect());
        for (name, _) in BESIDE_NEEDS {
            assert_eq!(crate::plugins::ALL.iter().filter(|spec| spec.name == *name).count(), 1, "{name}");
        }
    }
}
