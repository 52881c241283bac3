mod fields;
mod groups_and_users;
mod levels;
mod profiles;
mod recorded;
mod selection;
mod volumes;

use super::*;
use crate::admission::CallerAuthorizer;
use crate::authz::{self, Decision};
use crate::cluster::FixedState;
use crate::plugins::checker::{Check, attributes, check};
use serde_json::json;

/// The annotation of a policy that allows every seccomp profile.
fn any_seccomp() -> Value {
    json!({"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "*"})
}

/// A policy that allows everything, changed by the fields of `spec`.
fn policy(name: &str, spec: Value) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let mut all = json!({
        "privileged": true, "allowPrivilegeEscalation": true, "allowedCapabilities": ["*"], "volumes": ["*"], "hostNetwork": true,
        "hostPorts": [{"min": 0, "max": 65535}], "hostIPC": true, "hostPID": true, "runAsUser": any, "seLinux": any,
        "supplementalGroups": any, "fsGroup": any
    });
    merge(&mut all, spec);
    json!({"metadata": {"name": name, "annotations": any_seccomp()}, "spec": all})
}

/// Replaces top-level fields.
fn merge(object: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { panic!("fields") };
    object.as_object_mut().unwrap().extend(fields);
}

fn plugin(policies: impl IntoIterator<Item = Value>) -> PodSecurityPolicyPlugin {
    let policies = policies.into_iter().map(|policy| serde_json::from_value(policy).unwrap()).collect();
    PodSecurityPolicyPlugin::new(Cluster::fixed(FixedState::default().cached::<PodSecurityPolicy>(policies)))
}

/// An authorizer that allows the caller everything.
fn administrator() -> CallerAuthorizer {
    CallerAuthorizer::fixed(|_| Decision { allowed: true, ..Decision::default() })
}

/// An authorizer with grants: the user (empty for the caller), the API group, and the policy.
fn grants(grants: &'static [(&str, &str, &str)]) -> CallerAuthorizer {
    CallerAuthorizer::fixed_for(move |user, asked: &authz::AccessAttributes| {
        let place = (&*asked.verb, &*asked.resource, &*asked.namespace, &*asked.api_version, asked.is_resource_request);
        assert_eq!(place, ("use", "podsecuritypolicies", "ns", "*", true));
        let question = (user.unwrap_or_default(), &*asked.api_group, &*asked.name);
        Decision { allowed: grants.contains(&question), ..Decision::default() }
    })
}

/// A pod with a container `c`, changed by the fields of `spec`.
fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "nginx"}]});
    merge(&mut all, spec);
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": all})
}

/// A pod whose container `c` has this security context.
fn pod_with(security: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "image": "nginx", "securityContext": security}]}))
}

fn create(plugin: &PodSecurityPolicyPlugin) -> Check<'_> {
    check(plugin).authorizer(administrator())
}

fn validate(plugin: &PodSecurityPolicyPlugin) -> Check<'_> {
    create(plugin).validating()
}

/// The pod that the policy admits, without the annotation with the name of the policy, or the violations.
async fn reviewed(policy: Value, pod: Value) -> Result<Value, String> {
    let plugin = plugin([policy]);
    let checked = create(&plugin).create("", "pods", pod.clone()).await;
    if let Some(text) = checked.refusal().map(|status| status.message) {
        let text = text.strip_prefix("pods \"p\" is forbidden: PodSecurityPolicy: unable to admit pod: [");
        return Err(text.and_then(|text| text.strip_suffix(']')).expect("the text of a refusal").to_owned());
    }
    let mut after = create(&plugin).create("", "pods", pod).await.after();
    // The validating phase accepts what the mutating phase admits.
    validate(&plugin).create("", "pods", after.clone()).await.stays_unchanged();
    let annotations = after["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(ANNOTATION).unwrap();
    if annotations.is_empty() {
        after["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    Ok(after)
}

/// Checks that a policy with the fields `spec` admits the pod as `want`.
async fn becomes(spec: Value, given: Value, want: Value) {
    let got = reviewed(policy("p", spec.clone()), given.clone()).await;
    assert_eq!(got, Ok(want), "{spec} {given}");
}

/// Checks that a policy with the fields `spec` admits the pod unchanged.
async fn stays(spec: Value, given: Value) {
    becomes(spec, given.clone(), given).await;
}

/// Checks that a policy with the fields `spec` refuses the pod with these violations.
async fn is_refused(spec: Value, given: Value, want: &str) {
    let got = reviewed(policy("p", spec.clone()), given.clone()).await;
    assert_eq!(got, Err(want.to_owned()), "{spec} {given}");
}
