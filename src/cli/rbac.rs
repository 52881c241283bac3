//! `print rbac`: the rights that the proxy's own credentials need at the upstream API server.

use super::guard::service_account;
use crate::admission::Spec;
use crate::cluster::{GroupResource, Need};
use crate::config::UpstreamIdentity;
use std::collections::{BTreeMap, BTreeSet};

/// The paths that the proxy reads besides resources: discovery, schemas, probes, and metrics, which show whether the upstream API
/// server calls webhooks.
const PATHS: [&str; 8] = ["/api", "/api/*", "/apis", "/apis/*", "/metrics", "/openapi/*", "/readyz", "/version"];

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
    // A policy may have parameters of any kind.
    ("MutatingAdmissionPolicy", &[("*", "*", FOLLOW)]),
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
    ("ValidatingAdmissionPolicy", &[("*", "*", FOLLOW)]),
];

/// Verbs by resource.
#[derive(Default)]
struct Rights(BTreeMap<GroupResource, Verbs>);

/// The verbs of a rule, and what they are for.
#[derive(Default)]
struct Verbs {
    verbs: BTreeSet<&'static str>,
    reasons: Vec<&'static str>,
}

impl Rights {
    fn add(&mut self, resource: GroupResource, verbs: &[&'static str], reason: &'static str) {
        let rule = self.0.entry(resource).or_default();
        rule.verbs.extend(verbs);
        if !rule.reasons.contains(&reason) {
            rule.reasons.push(reason);
        }
    }

    fn add_all(&mut self, rights: &[Right], reason: &'static str) {
        for (group, resource, verbs) in rights {
            self.add(((*group).into(), (*resource).into()), verbs, reason);
        }
    }

    /// Adds the rights for requests that no plugin causes. `impersonates` is false if another identity forwards requests.
    fn add_identity(&mut self, identity: UpstreamIdentity, impersonates: bool) {
        self.add_all(ALWAYS, "every proxy");
        if identity != UpstreamIdentity::Passthrough {
            self.add_all(&[STORED_OBJECTS], "stored objects");
            self.add_all(&[TOKEN_REVIEWS], "bearer tokens");
        }
        if identity == UpstreamIdentity::Impersonate && impersonates {
            self.add_all(IMPERSONATION, "forwarded requests");
        }
    }

    fn add_plugin(&mut self, spec: &Spec) {
        for need in spec.needs {
            // A namespace that is not in the cache is looked up.
            let verbs = if *need == Need::NAMESPACES { READ } else { FOLLOW };
            need.resources().into_iter().for_each(|resource| self.add(resource, verbs, spec.name));
        }
        let beside = BESIDE_NEEDS.iter().filter(|(plugin, _)| *plugin == spec.name);
        beside.for_each(|(_, rights)| self.add_all(rights, spec.name));
    }

    /// Adds the rights for `--enable-aggregator-routing`.
    fn add_endpoints(&mut self) {
        for resource in Need::ENDPOINT_SLICES.resources() {
            self.add(resource, FOLLOW, "--enable-aggregator-routing");
        }
    }

    /// The rules of a role, each with a comment about its purpose.
    fn rules(&self) -> String {
        let rule = |((group, resource), rule): (&GroupResource, &Verbs)| {
            let (reasons, verbs) = (rule.reasons.join(", "), list(&rule.verbs));
            format!("  # {reasons}\n  - apiGroups: [{group:?}]\n    resources: [{resource:?}]\n    verbs: {verbs}\n")
        };
        self.0.iter().map(rule).collect()
    }

    /// The lines `"group/resource": [verbs]`, below this indentation, or ` {}`.
    fn lines(&self, indentation: &str) -> String {
        if self.0.is_empty() {
            return " {}\n".to_owned();
        }
        let line = |((group, resource), rule): (&GroupResource, &Verbs)| {
            format!("\n{indentation}{:?}: {}", format!("{group}/{resource}"), list(&rule.verbs))
        };
        self.0.iter().map(line).collect::<String>() + "\n"
    }
}

/// A YAML list of strings on one line.
fn list<'a>(texts: impl IntoIterator<Item = &'a &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The flags of `serve`, other than those about plugins, on which the rights depend.
#[derive(Clone, Debug, Default)]
pub(super) struct Serving {
    pub(super) identity: UpstreamIdentity,
    pub(super) routes_to_endpoints: bool,
    /// Namespace and name of the service account that forwards requests.
    pub(super) impersonator: Option<(String, String)>,
    /// Whether the webhook front end is alone: it forwards nothing, and neither reads stored objects nor reviews tokens.
    pub(super) is_front_end: bool,
    /// The name of the webhook configurations whose CA bundles the proxy writes.
    pub(super) configurations: Option<String>,
}

/// Returns the roles for these plugins, as YAML.
pub(super) fn roles(plugins: &[&'static Spec], serving: &Serving) -> String {
    let role = cluster_role(plugins, serving);
    match &serving.impersonator {
        Some((namespace, name)) => role + &of_impersonator(namespace, name),
        None => role,
    }
}

/// Returns the role of the second identity, bound to its service account, and the role for requesting its tokens.
fn of_impersonator(namespace: &str, name: &str) -> String {
    let mut rights = Rights::default();
    rights.add_all(IMPERSONATION, "forwarded requests");
    let subject = service_account(namespace, name);
    format!(
        r#"---
# For the service account that forwards requests.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kube-admission-proxy-impersonator
rules:
{}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kube-admission-proxy-impersonator
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kube-admission-proxy-impersonator}}
subjects:
  - {subject}
---
# For the credentials of --upstream-kubeconfig, beside the first ClusterRole.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: kube-admission-proxy-impersonator-token
  namespace: {namespace:?}
rules:
  - apiGroups: [""]
    resources: ["serviceaccounts/token"]
    resourceNames: [{name:?}]
    verbs: ["create"]
"#,
        rights.rules()
    )
}

fn cluster_role(plugins: &[&'static Spec], serving: &Serving) -> String {
    let mut rights = Rights::default();
    let identity = if serving.is_front_end { UpstreamIdentity::Passthrough } else { serving.identity };
    rights.add_identity(identity, serving.impersonator.is_none());
    plugins.iter().for_each(|spec| rights.add_plugin(spec));
    if serving.routes_to_endpoints && plugins.iter().any(|spec| spec.needs.contains(&Need::SERVICES)) {
        rights.add_endpoints();
    }
    let head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: kube-admission-proxy\nrules:\n";
    head.to_owned()
        + &rights.rules()
        + &format!("  # discovery, probes\n  - nonResourceURLs: {}\n    verbs: [\"get\"]\n", list(&PATHS))
        + &serving.configurations.as_deref().map(of_configurations).unwrap_or_default()
}

/// Returns the rule for the CA bundles of webhook configurations.
fn of_configurations(name: &str) -> String {
    format!(
        r#"  # --webhook-configurations
  - apiGroups: ["admissionregistration.k8s.io"]
    resources: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    resourceNames: [{name:?}]
    verbs: ["get", "patch"]
"#
    )
}

/// Returns the rights of each identity and of each plugin, as YAML. Keys of rights are `group/resource`.
pub(super) fn by_plugin(all: &[&'static Spec]) -> String {
    let mut data = "# The output of `kube-admission-proxy print rbac --by-plugin`. Keys of rights are group/resource.\nidentities:\n"
        .to_owned();
    for (name, identity, impersonates) in [
        ("impersonate", UpstreamIdentity::Impersonate, true),
        ("impersonateByAnother", UpstreamIdentity::Impersonate, false),
        ("requestheader", UpstreamIdentity::RequestHeader, false),
        ("passthrough", UpstreamIdentity::Passthrough, false),
    ] {
        let mut rights = Rights::default();
        rights.add_identity(identity, impersonates);
        data += &format!("  {name}:{}", rights.lines("    "));
    }
    let mut impersonator = Rights::default();
    impersonator.add_all(IMPERSONATION, "");
    data += &format!("impersonator:{}", impersonator.lines("  "));
    let mut endpoints = Rights::default();
    endpoints.add_endpoints();
    data += &format!("paths: {}\naggregatorRouting:{}plugins:\n", list(&PATHS), endpoints.lines("  "));
    for spec in all {
        let mut rights = Rights::default();
        rights.add_plugin(spec);
        let calls_services = spec.needs.contains(&Need::SERVICES);
        data += &format!("  {}:\n    default: {}\n    callsServices: {calls_services}\n", spec.name, spec.default_on);
        data += &format!("    rights:{}", rights.lines("      "));
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn defaults() -> Vec<&'static Spec> {
        crate::plugins::ALL.iter().copied().filter(|spec| spec.default_on).collect()
    }

    fn plugin(name: &str) -> Vec<&'static Spec> {
        crate::plugins::ALL.iter().copied().filter(|spec| spec.name == name).collect()
    }

    fn role_of(plugins: &[&'static Spec], identity: UpstreamIdentity) -> String {
        roles(plugins, &Serving { identity, routes_to_endpoints: true, ..Serving::default() })
    }

    #[test]
    fn the_second_identity_alone_may_impersonate() {
        let impersonator = Some(("kube-system".to_owned(), "forwarder".to_owned()));
        let all = roles(&[], &Serving { impersonator, ..Serving::default() });
        let objects: Vec<&str> = all.split("---\n").collect();
        let [own, impersonator, binding, tokens] = objects[..] else { panic!("{all}") };
        assert!(!own.contains("impersonate") && impersonator.contains("\"impersonate\""), "{all}");
        assert!(binding.contains("name: \"forwarder\"") && tokens.contains("resourceNames: [\"forwarder\"]"), "{all}");
        for object in objects {
            crate::object::decode::yaml(object.as_bytes()).unwrap();
        }
    }

    #[test]
    fn the_front_end_alone_reads_for_its_plugins_and_writes_its_ca_bundles() {
        let configurations = Some("proxy".to_owned());
        let role =
            roles(&plugin("PodNodeSelector"), &Serving { is_front_end: true, configurations, ..Serving::default() });
        let rule = "    resourceNames: [\"proxy\"]\n    verbs: [\"get\", \"patch\"]\n";
        assert!(role.contains("namespaces") && role.ends_with(rule), "{role}");
        assert!(!role.contains("impersonate") && !role.contains("tokenreviews") && !role.contains("\"*\""), "{role}");
    }

    #[test]
    fn a_plugin_adds_its_caches_and_its_requests() {
        let none = role_of(&[], UpstreamIdentity::Passthrough);
        assert!(!none.contains("endpointslices") && !none.contains("\"*\"") && !none.contains("impersonate"), "{none}");
        let quota = role_of(&plugin("ResourceQuota"), UpstreamIdentity::Passthrough);
        for rule in [
            "  # ResourceQuota\n  - apiGroups: [\"\"]\n    resources: [\"resourcequotas\"]\n    verbs: [\"list\", \"watch\"]\n",
            "    resources: [\"resourcequotas/status\"]\n    verbs: [\"update\"]\n",
            "  - apiGroups: [\"resource.k8s.io\"]\n    resources: [\"deviceclasses\"]\n    verbs: [\"list\", \"watch\"]\n",
        ] {
            assert!(quota.contains(rule), "{rule} is missing in\n{quota}");
        }
        let webhooks = role_of(&plugin("ValidatingAdmissionWebhook"), UpstreamIdentity::Passthrough);
        assert!(webhooks.contains("endpointslices") && webhooks.contains("validatingwebhookconfigurations"));
    }

    #[test]
    fn the_identity_decides_about_impersonation_and_stored_objects() {
        let role = |identity| role_of(&[], identity);
        let stored = "resources: [\"*\"]\n    verbs: [\"get\", \"list\"]";
        let impersonate = role(UpstreamIdentity::Impersonate);
        assert!(impersonate.contains(stored) && impersonate.contains("\"impersonate\""), "{impersonate}");
        let request_header = role(UpstreamIdentity::RequestHeader);
        assert!(request_header.contains(stored) && !request_header.contains("\"impersonate\""), "{request_header}");
        assert!(!role(UpstreamIdentity::Passthrough).contains(stored));
    }

    #[test]
    fn the_role_is_yaml_that_rbac_decodes() {
        let role = role_of(&defaults(), UpstreamIdentity::Impersonate);
        let role: k8s_openapi::api::rbac::v1::ClusterRole =
            serde_json::from_value(crate::object::decode::yaml(role.as_bytes()).unwrap().value).unwrap();
        let rules = role.rules.unwrap();
        let verbs = |resource: &str| {
            let rule = rules.iter().find(|rule| rule.resources.as_deref() == Some(&[resource.to_owned()]));
            rule.map(|rule| rule.verbs.join(" "))
        };
        assert_eq!(verbs("namespaces").as_deref(), Some("get list watch"));
        assert_eq!(verbs("users").as_deref(), Some("impersonate"));
        assert_eq!(verbs("nodes").as_deref(), Some("list watch"));
    }

    #[test]
    fn the_chart_has_the_data_of_the_program() {
        let all = crate::plugins::ALL;
        for (data, expected) in [("rbac", by_plugin(all)), ("webhooks", super::super::webhooks::by_plugin(all))] {
            let path = format!("{}/charts/kube-admission-proxy/files/{data}.yaml", env!("CARGO_MANIFEST_DIR"));
            assert!(
                fs::read_to_string(&path).unwrap_or_default() == expected,
                "{path} differs from `kube-admission-proxy print {data} --by-plugin`; `make record-chart` writes it",
            );
        }
    }

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
            assert_eq!(plugin(name).len(), 1, "{name}");
        }
    }
}
