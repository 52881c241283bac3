//! SecurityContextDeny: refuses pods that set fields of the security context.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.29. There is no feature gate for it here.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use serde_json::Value;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "SecurityContextDeny",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.0", until: "1.29", successor: "PodSecurity" }),
    front_end: FrontEndSupport::Full,
    about: "Refuses pods that set fields of the security context.",
    build: |_| Ok(Box::new(SecurityContextDeny)),
};

/// The refused fields of the pod's security context, with the names that errors use, in the order of the checks.
const OF_POD: [(&str, &str); 4] = [
    ("supplementalGroups", "SupplementalGroups"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("runAsUser", "RunAsUser"),
    ("fsGroup", "FSGroup"),
];
/// The refused fields of a container's security context.
const OF_CONTAINER: [(&str, &str); 2] = [("seLinuxOptions", "SELinuxOptions"), ("runAsUser", "RunAsUser")];

struct SecurityContextDeny;

#[async_trait]
impl Plugin for SecurityContextDeny {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(pod) = &attributes.object else { return Ok(()) };
        match fault(pod) {
            None => Ok(()),
            // The error names the pod's own name.
            Some(fault) => Err(Status::forbidden("", "pods", pod.name(), &fault).into()),
        }
    }
}

/// The first refused field of the pod. The presence of a field counts, not its content.
fn fault(pod: &Object) -> Option<String> {
    let is_set = |field: &str| {
        let path = ["spec", "securityContext", field];
        // An empty list of groups is set too, although the normal form of the pod does not show it.
        pod.get(&path).is_some_and(|value| !value.is_null()) || pod.is_empty_but_not_nil(&path)
    };
    if let Some((_, name)) = OF_POD.iter().find(|(field, _)| is_set(field)) {
        return Some(format!("pod.Spec.SecurityContext.{name} is forbidden"));
    }
    let lists = [["spec", "initContainers"], ["spec", "containers"]];
    let name = lists.iter().flat_map(|list| pod.items(list)).find_map(of_container)?;
    Some(format!("SecurityContext.{name} is forbidden"))
}

fn of_container(container: &Value) -> Option<&'static str> {
    let context = container.get("securityContext")?;
    let is_set = |field: &str| context.get(field).is_some_and(|value| !value.is_null());
    OF_CONTAINER.iter().find(|(field, _)| is_set(field)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::kind::GroupVersionKind;
    use crate::object::normal;
    use crate::plugins::checker::{attributes, check};
    use serde_json::json;

    fn pod(context: Value, init: Value, regular: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"securityContext": context,
            "initContainers": [{"name": "i"}, {"name": "j", "securityContext": init}],
            "containers": [{"name": "c"}, {"name": "d", "securityContext": regular}]}})
    }

    async fn refusal(pod: Value) -> Option<String> {
        check(&SecurityContextDeny).validating().create("", "pods", pod).await.refusal().map(|status| status.message)
    }

    #[tokio::test]
    async fn the_presence_of_a_field_counts_not_its_content() {
        for (context, name) in [
            (json!({"supplementalGroups": [1]}), "SupplementalGroups"),
            (json!({"supplementalGroups": []}), "SupplementalGroups"),
            (json!({"seLinuxOptions": {}}), "SELinuxOptions"),
            (json!({"runAsUser": 0}), "RunAsUser"),
            (json!({"fsGroup": 0}), "FSGroup"),
        ] {
            let want = format!("pods \"p\" is forbidden: pod.Spec.SecurityContext.{name} is forbidden");
            assert_eq!(refusal(pod(context, json!({}), json!({}))).await, Some(want));
        }
        for (context, name) in
            [(json!({"seLinuxOptions": {}}), "SELinuxOptions"), (json!({"runAsUser": 0}), "RunAsUser")]
        {
            let want = format!("pods \"p\" is forbidden: SecurityContext.{name} is forbidden");
            assert_eq!(refusal(pod(json!({}), context.clone(), json!({}))).await, Some(want.clone()));
            assert_eq!(refusal(pod(json!({}), json!({}), context)).await, Some(want));
        }
    }

    #[tokio::test]
    async fn an_empty_list_of_groups_is_refused_in_the_normal_form_too() {
        let given = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"securityContext": {"supplementalGroups": []}, "containers": [{"name": "c"}]}});
        let normal = normal::built_in(&GroupVersionKind::new("", "v1", "Pod"), given).unwrap().unwrap();
        let mut attributes = attributes(Operation::Create, "", "pods", None, None);
        attributes.object = Some(normal.object);
        let status = SecurityContextDeny.validate(&attributes).await.unwrap_err().into_status(&attributes);
        let want = "pods \"p\" is forbidden: pod.Spec.SecurityContext.SupplementalGroups is forbidden";
        assert_eq!((status.code, &*status.message), (403, want));
    }

    #[tokio::test]
    async fn other_fields_and_debug_containers_are_free() {
        let context = json!({"runAsGroup": 1, "runAsNonRoot": true, "sysctls": [{"name": "a", "value": "1"}],
            "supplementalGroups": null, "runAsUser": null});
        let of_container = json!({"privileged": true, "runAsGroup": 2, "runAsNonRoot": true,
            "readOnlyRootFilesystem": true, "capabilities": {"add": ["SYS_ADMIN"]}, "seLinuxOptions": null});
        let mut free = pod(context, of_container.clone(), of_container);
        free["spec"]["ephemeralContainers"] = json!([{"name": "e", "securityContext": {"runAsUser": 1}}]);
        assert_eq!(refusal(free).await, None);
        assert_eq!(refusal(pod(json!({}), json!({}), json!({}))).await, None);
        assert_eq!(refusal(json!({"metadata": {"name": "p"}})).await, None);
    }

    #[tokio::test]
    async fn pod_fields_are_checked_before_init_containers_and_these_before_containers() {
        let whole = json!({"fsGroup": 1, "runAsUser": 1, "seLinuxOptions": {}, "supplementalGroups": [1]});
        let mut without = whole.clone();
        for (field, name) in OF_POD {
            let want = format!("pods \"p\" is forbidden: pod.Spec.SecurityContext.{name} is forbidden");
            assert_eq!(refusal(pod(without.clone(), json!({"runAsUser": 1}), whole.clone())).await, Some(want));
            without.as_object_mut().unwrap().remove(field);
        }
        let refused = refusal(pod(json!({}), json!({"runAsUser": 1}), json!({"seLinuxOptions": {}}))).await;
        assert_eq!(refused.unwrap(), "pods \"p\" is forbidden: SecurityContext.RunAsUser is forbidden");
    }

    #[tokio::test]
    async fn every_update_of_an_old_pod_is_refused() {
        let old = pod(json!({"fsGroup": 1}), json!({}), json!({}));
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        let checked = check(&SecurityContextDeny).validating().update("", "pods", old, new).await;
        checked.was_refused(403, "pods \"p\" is forbidden: pod.Spec.SecurityContext.FSGroup is forbidden");
    }

    #[test]
    fn subresources_and_other_kinds_are_not_checked() {
        for (resource, subresource, operation, handled) in [
            ("pods", "", Operation::Create, true),
            ("pods", "", Operation::Update, true),
            ("pods", "", Operation::Delete, false),
            ("pods", "status", Operation::Update, false),
            ("pods", "binding", Operation::Create, false),
            ("pods", "ephemeralcontainers", Operation::Update, false),
            ("deployments", "", Operation::Create, false),
        ] {
            let mut attributes = attributes(operation, "", resource, None, None);
            attributes.subresource = subresource.to_owned();
            assert_eq!(SPEC.handles(&attributes), handled, "{operation:?} {resource}/{subresource}");
        }
    }
}
