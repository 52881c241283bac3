//! `print rbac`: the rights that the proxy's own credentials need at the upstream API server.

use super::guard::service_account;
use crate::admission::Spec;
use crate::app::rights::{PATHS, Rights, Verbs};
use crate::cluster::{GroupResource, Need};
use crate::config::{ConfigError, UpstreamIdentity};
use crate::names::is_dns_1123_label;

/// The rules of a role, each with a comment about its purpose.
fn rules(rights: &Rights) -> String {
    let rule = |((group, resource), rule): (&GroupResource, &Verbs)| {
        let (reasons, verbs) = (rule.reasons.join(", "), list(&rule.verbs));
        format!("  # {reasons}\n  - apiGroups: [{group:?}]\n    resources: [{resource:?}]\n    verbs: {verbs}\n")
    };
    rights.0.iter().map(rule).collect()
}

/// The lines `"group/resource": [verbs]`, below this indentation, or ` {}`.
fn lines(rights: &Rights, indentation: &str) -> String {
    if rights.0.is_empty() {
        return " {}\n".to_owned();
    }
    let line = |((group, resource), rule): (&GroupResource, &Verbs)| {
        format!("\n{indentation}{:?}: {}", format!("{group}/{resource}"), list(&rule.verbs))
    };
    rights.0.iter().map(line).collect::<String>() + "\n"
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

/// The name of the service account, the kubeconfig's user and the bindings.
const ACCOUNT: &str = "kube-admission-proxy";

/// Returns these roles with the namespace, the service account and the bindings, as YAML, and the commands that write the kubeconfig as
/// comments.
///
/// # Errors
/// If the name of the namespace is invalid.
pub(super) fn installation(namespace: &str, roles: &str) -> Result<String, ConfigError> {
    if !is_dns_1123_label(namespace) {
        return Err(ConfigError::flag("namespace", namespace, "is no name of a namespace"));
    }
    let subject = service_account(namespace, ACCOUNT);
    let token_role = match roles.contains("name: kube-admission-proxy-impersonator-token\n") {
        true => format!(
            r#"---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: kube-admission-proxy-impersonator-token
  namespace: {}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: kube-admission-proxy-impersonator-token}}
subjects:
  - {subject}
"#,
            // The role is in the namespace of the impersonator.
            roles.rsplit("namespace: ").next().and_then(|rest| rest.lines().next()).unwrap_or_default()
        ),
        false => String::new(),
    };
    Ok(format!(
        r#"# Apply this, and write the kubeconfig of --upstream-kubeconfig with an administrator's kubectl:
#
#   kubectl config view --minify --flatten --output=jsonpath='{{.clusters[0].cluster.certificate-authority-data}}' | base64 --decode >ca.crt
#   server=$(kubectl config view --minify --output=jsonpath='{{.clusters[0].cluster.server}}')
#   token=$(kubectl --namespace={namespace} create token {ACCOUNT} --duration=8760h)
#   kubectl --kubeconfig=upstream.kubeconfig config set-cluster upstream --server="$server" --certificate-authority=ca.crt --embed-certs
#   kubectl --kubeconfig=upstream.kubeconfig config set-credentials proxy --token="$token"
#   kubectl --kubeconfig=upstream.kubeconfig config set-context upstream --cluster=upstream --user=proxy
#   kubectl --kubeconfig=upstream.kubeconfig config use-context upstream
#
# The API server may shorten the token's lifetime: write the kubeconfig again before the token expires. In a pod, the projected token of the
# service account needs no kubeconfig of this kind: the Helm chart writes one.
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {ACCOUNT}
  namespace: {namespace}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {ACCOUNT}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kube-admission-proxy}}
subjects:
  - {subject}
{token_role}---
{roles}"#
    ))
}

/// Returns the role of the second identity, bound to its service account, and the role for requesting its tokens.
fn of_impersonator(namespace: &str, name: &str) -> String {
    let mut rights = Rights::default();
    rights.add_impersonation();
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
        rules(&rights)
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
        + &rules(&rights)
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
        data += &format!("  {name}:{}", lines(&rights, "    "));
    }
    let mut impersonator = Rights::default();
    impersonator.add_impersonation();
    data += &format!("impersonator:{}", lines(&impersonator, "  "));
    let mut endpoints = Rights::default();
    endpoints.add_endpoints();
    data += &format!("paths: {}\naggregatorRouting:{}plugins:\n", list(&PATHS), lines(&endpoints, "  "));
    for spec in all {
        let mut rights = Rights::default();
        rights.add_plugin(spec);
        let calls_services = spec.needs.contains(&Need::SERVICES);
        data += &format!("  {}:\n    default: {}\n    callsServices: {calls_services}\n", spec.name, spec.default_on);
        data += &format!("    rights:{}", lines(&rights, "      "));
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
    fn an_installation_binds_its_roles_to_its_account() {
        let impersonator = Some(("other".to_owned(), "forwarder".to_owned()));
        let roles = roles(&[], &Serving { impersonator, ..Serving::default() });
        let all = installation("proxy-system", &roles).unwrap();
        let objects = all.split("---\n").map(|object| crate::object::decode::yaml(object.as_bytes()).unwrap().value);
        let objects: Vec<_> = objects.collect();
        let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let first = ["Namespace", "ServiceAccount", "ClusterRoleBinding", "RoleBinding", "ClusterRole"];
        assert_eq!(kinds[..5], first);
        assert_eq!(objects[3]["metadata"]["namespace"], "other");
        for binding in &objects[2..4] {
            assert_eq!(binding["subjects"][0]["namespace"], "proxy-system");
            let role = objects.iter().find(|object| {
                object["metadata"]["name"] == binding["roleRef"]["name"] && object["kind"] == binding["roleRef"]["kind"]
            });
            assert!(role.is_some(), "{binding}");
        }
        assert!(installation("No", &roles).is_err());
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
}
