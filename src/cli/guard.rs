//! `print guard`: the objects by which an API server refuses the writes that did not go through the proxy.

use super::arguments::{Guard, GuardAction};
use super::serve::list;
use super::upstream::namespaced;
use crate::config::{ConfigError, UpstreamIdentity};
use crate::user::ADMITTED_EXTRA;

/// Users of the control plane. Their writes go to the API server directly.
const USERS: [&str; 3] = ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"];
/// Groups of the control plane: kubelets, and kubelets that request their certificate.
const GROUPS: [&str; 2] = ["system:bootstrappers", "system:nodes"];
const MESSAGE: &str = "writes go through the admission proxy, not directly to this API server";

/// Returns the ClusterRole and binding for the mark, the ValidatingAdmissionPolicy and its binding, as YAML.
///
/// # Errors
/// If a flag's value is invalid, or the upstream identity cannot carry a mark.
pub(super) fn guard(flags: &Guard) -> Result<String, ConfigError> {
    namespaced("admitted-mark", &flags.admitted_mark)?;
    let mut objects = match flags.upstream_identity {
        UpstreamIdentity::Impersonate => impersonation(flags)?,
        UpstreamIdentity::RequestHeader => String::new(),
        UpstreamIdentity::Passthrough => {
            let reason = "does not work with a guard: the credentials of clients are sent unchanged and carry no mark";
            return Err(ConfigError::flag("upstream-identity", "passthrough", reason));
        }
    };
    let controllers = crate::embedded::controller_accounts()
        .into_iter()
        .map(|name| format!("system:serviceaccount:kube-system:{name}"));
    let mut users: Vec<String> = USERS.map(str::to_owned).into_iter().chain(controllers).collect();
    users.extend([flags.proxy_user.clone()].into_iter().chain(list(&flags.exempt_users)));
    let mut groups = GROUPS.map(str::to_owned).to_vec();
    groups.extend(list(&flags.exempt_groups));
    let action = match flags.action {
        GuardAction::Audit => "Audit",
        GuardAction::Warn => "Warn",
        GuardAction::Deny => "Deny",
    };
    let (key, mark) = (quoted(ADMITTED_EXTRA), quoted(&flags.admitted_mark));
    let (users, groups, message) = (literals(&users), literals(&groups), quoted(MESSAGE));
    objects += &format!(
        r#"apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: kube-admission-proxy-guard
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - operations: ["*"]
        apiGroups: ["*"]
        apiVersions: ["*"]
        resources: ["*/*"]
        scope: "*"
  matchConditions:
    # The control plane, kubelets, and the proxy's own requests.
    - name: no-user-of-the-control-plane
      expression: >-
        !(request.userInfo.username in [
        {users}
        ])
    - name: no-group-of-the-control-plane
      expression: >-
        !has(request.userInfo.groups) || !request.userInfo.groups.exists(group, group in [
        {groups}
        ])
  validations:
    - expression: >-
        has(request.userInfo.extra) && {key} in request.userInfo.extra
        && request.userInfo.extra[{key}] == [{mark}]
      message: {message}
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: kube-admission-proxy-guard
spec:
  policyName: kube-admission-proxy-guard
  validationActions: ["{action}"]
"#
    );
    Ok(objects)
}

/// The right to impersonate the mark, for the user who forwards requests.
fn impersonation(flags: &Guard) -> Result<String, ConfigError> {
    let subject = match &flags.upstream_impersonator {
        Some(account) => {
            let (namespace, name) = namespaced("upstream-impersonator", account)?;
            service_account(&namespace, &name)
        }
        None => subject(&flags.proxy_user),
    };
    let (resource, mark) = (quoted(&format!("userextras/{ADMITTED_EXTRA}")), quoted(&flags.admitted_mark));
    Ok(format!(
        r#"# The output of `print rbac` includes this right. It is needed if you name the extra fields that the proxy may impersonate.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kube-admission-proxy-mark
rules:
  - apiGroups: ["authentication.k8s.io"]
    resources: [{resource}]
    resourceNames: [{mark}]
    verbs: ["impersonate"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kube-admission-proxy-mark
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kube-admission-proxy-mark}}
subjects:
  - {subject}
---
"#
    ))
}

/// The subject of a binding for a user.
fn subject(user: &str) -> String {
    match user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => service_account(namespace, name),
        None => format!("{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {}}}", quoted(user)),
    }
}

pub(super) fn service_account(namespace: &str, name: &str) -> String {
    format!("{{kind: ServiceAccount, namespace: {}, name: {}}}", quoted(namespace), quoted(name))
}

/// A string literal of YAML, JSON and CEL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// String literals of a list in CEL, one a line.
fn literals(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(",\n        ")
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{Arguments, Command, Print};
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};

    fn print(arguments: &[&str]) -> Result<String, String> {
        let line = ["kube-admission-proxy", "print", "guard", "--admitted-mark=system/main"].iter().chain(arguments);
        match Arguments::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Print(Print::Guard(flags)) => guard(&flags).map_err(|error| error.to_string()),
            _ => Err("not guard".to_owned()),
        }
    }

    fn objects(text: &str) -> Vec<Value> {
        text.split("---\n").map(|text| crate::object::decode::yaml(text.as_bytes()).unwrap().value).collect()
    }

    #[test]
    fn the_guard_names_the_mark_the_exempt_and_the_action() {
        let text =
            print(&["--action=Warn", "--proxy-user=it's \"me\"", "--exempt-users=a,b", "--exempt-groups=g"]).unwrap();
        let [role, role_binding, policy, binding] = &objects(&text)[..] else { panic!("{text}") };
        assert_eq!(role["rules"][0]["resources"], json!(["userextras/kube-admission-proxy.dev/admitted"]));
        assert_eq!(role["rules"][0]["resourceNames"], json!(["system/main"]));
        assert_eq!(role_binding["subjects"][0]["name"], "it's \"me\"");
        assert_eq!(binding["spec"]["validationActions"], json!(["Warn"]));
        let conditions = policy["spec"]["matchConditions"].as_array().unwrap();
        let users = conditions[0]["expression"].as_str().unwrap();
        for user in [r#""it's \"me\"""#, r#""a""#, r#""system:serviceaccount:kube-system:replicaset-controller""#] {
            assert!(users.contains(user), "{user} is missing in {users}");
        }
        assert!(conditions[1]["expression"].as_str().unwrap().contains(r#""g""#));
    }

    #[test]
    fn the_account_that_forwards_has_the_mark() {
        let text = print(&["--proxy-user=system:serviceaccount:a:proxy"]).unwrap();
        let account = json!({"kind": "ServiceAccount", "namespace": "a", "name": "proxy"});
        assert_eq!(objects(&text)[1]["subjects"][0], account);
        let text = print(&["--proxy-user=p", "--upstream-impersonator=a/forwarder"]).unwrap();
        assert_eq!(objects(&text)[1]["subjects"][0]["name"], "forwarder");
        // A front proxy sends the mark without any right.
        let text = print(&["--proxy-user=p", "--upstream-identity=requestheader"]).unwrap();
        assert_eq!(objects(&text).len(), 2);
    }

    #[test]
    fn a_guard_without_a_mark_is_refused() {
        let refusal = print(&["--proxy-user=p", "--upstream-identity=passthrough"]).unwrap_err();
        assert!(refusal.starts_with("--upstream-identity=passthrough: does not work with a guard"), "{refusal}");
        let refusal = print(&["--proxy-user=p", "--admitted-mark=main"]).unwrap_err();
        assert_eq!(refusal, "--admitted-mark=main: must be NAMESPACE/NAME");
        assert!(print(&[]).unwrap_err().contains("--proxy-user"));
    }
}
