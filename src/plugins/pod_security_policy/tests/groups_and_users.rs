//! The users and groups of a policy.

use super::*;

fn ids(rule: &str) -> Value {
    json!({"rule": rule, "ranges": [{"min": 5, "max": 10}, {"min": 20, "max": 30}]})
}

const RANGES: &str = "[{5 10} {20 30}]";

fn of_pod(security: Value) -> Value {
    pod(json!({"securityContext": security}))
}

#[tokio::test]
async fn a_container_gets_the_first_user() {
    let rules = || json!({"runAsUser": ids("MustRunAs")});
    becomes(rules(), pod(json!({})), pod_with(json!({"runAsUser": 5}))).await;
    becomes(
        rules(),
        pod(json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i", "securityContext": {"runAsUser": 7}}]})),
        pod(json!({
            "containers": [{"name": "c", "securityContext": {"runAsUser": 5}}],
            "initContainers": [{"name": "i", "securityContext": {"runAsUser": 7}}]
        })),
    )
    .await;
    stays(rules(), of_pod(json!({"runAsUser": 30}))).await;
    stays(rules(), pod_with(json!({"runAsUser": 20}))).await;
    let text = |user: i64| {
        format!("spec.containers[0].securityContext.runAsUser: Invalid value: {user}: must be in the ranges: {RANGES}")
    };
    for user in [0, 1, 11, 31] {
        is_refused(rules(), of_pod(json!({"runAsUser": user})), &text(user)).await;
        is_refused(rules(), pod_with(json!({"runAsUser": user})), &text(user)).await;
    }
    // The container's own user hides that of the pod.
    let mut given = pod_with(json!({"runAsUser": 6}));
    given["spec"]["securityContext"] = json!({"runAsUser": 1});
    stays(rules(), given).await;
    stays(json!({"runAsUser": {"rule": "RunAsAny"}}), pod_with(json!({"runAsUser": 0}))).await;
}

#[tokio::test]
async fn a_container_may_not_run_as_root() {
    let rules = || json!({"runAsUser": {"rule": "MustRunAsNonRoot"}});
    becomes(rules(), pod(json!({})), pod_with(json!({"runAsNonRoot": true}))).await;
    for given in [json!({"runAsUser": 1}), json!({"runAsNonRoot": true}), json!({"runAsNonRoot": true, "runAsUser": 1})]
    {
        stays(rules(), pod_with(given.clone())).await;
        stays(rules(), of_pod(given)).await;
    }
    let root = "spec.containers[0].securityContext.runAsUser: Invalid value: 0: running with the root UID is forbidden";
    let flag = "spec.containers[0].securityContext.runAsNonRoot: Invalid value: false: must be true";
    for (given, want) in [
        (json!({"runAsUser": 0}), root),
        (json!({"runAsUser": 0, "runAsNonRoot": true}), root),
        (json!({"runAsNonRoot": false}), flag),
        (json!({"runAsNonRoot": false, "runAsUser": 1}), flag),
        (json!({"runAsNonRoot": false, "runAsUser": 0}), flag),
    ] {
        is_refused(rules(), pod_with(given.clone()), want).await;
        is_refused(rules(), of_pod(given), want).await;
    }
}

#[tokio::test]
async fn a_container_gets_the_first_group() {
    let must = || json!({"runAsGroup": ids("MustRunAs")});
    let may = || json!({"runAsGroup": ids("MayRunAs")});
    becomes(must(), pod(json!({})), pod_with(json!({"runAsGroup": 5}))).await;
    stays(must(), of_pod(json!({"runAsGroup": 6}))).await;
    stays(may(), pod(json!({}))).await;
    stays(may(), pod_with(json!({"runAsGroup": 25}))).await;
    let text = format!(
        "spec.containers[0].securityContext: Invalid value: []int64{{1}}: group 1 must be in the ranges: {RANGES}"
    );
    for rules in [must(), may()] {
        is_refused(rules.clone(), pod_with(json!({"runAsGroup": 1})), &text).await;
        is_refused(rules, of_pod(json!({"runAsGroup": 1})), &text).await;
    }
    stays(json!({}), pod_with(json!({"runAsGroup": 1}))).await;
    stays(json!({"runAsGroup": {"rule": "RunAsAny"}}), pod_with(json!({"runAsGroup": 1}))).await;
}

#[tokio::test]
async fn a_pod_gets_the_first_of_its_groups() {
    let must = |field: &str| json!({field: ids("MustRunAs")});
    let may = |field: &str| json!({field: ids("MayRunAs")});
    becomes(must("supplementalGroups"), pod(json!({})), of_pod(json!({"supplementalGroups": [5]}))).await;
    becomes(must("fsGroup"), pod(json!({})), of_pod(json!({"fsGroup": 5}))).await;
    for (field, good) in [("supplementalGroups", json!([7, 30])), ("fsGroup", json!(7))] {
        stays(must(field), of_pod(json!({field: good}))).await;
        stays(may(field), of_pod(json!({field: good}))).await;
        stays(may(field), pod(json!({}))).await;
    }
    let text = |field: &str, groups: &str| {
        format!(
            "spec.securityContext.{field}: Invalid value: []int64{{{groups}}}: group 1 must be in the ranges: {RANGES}"
        )
    };
    for rule in [must, may] {
        let groups = of_pod(json!({"supplementalGroups": [7, 1]}));
        is_refused(rule("supplementalGroups"), groups, &text("supplementalGroups", "7, 1")).await;
        is_refused(rule("fsGroup"), of_pod(json!({"fsGroup": 1})), &text("fsGroup", "1")).await;
    }
    stays(json!({}), of_pod(json!({"supplementalGroups": [1], "fsGroup": 1}))).await;
}

#[tokio::test]
async fn an_empty_list_of_groups_is_not_filled() {
    let rules = || json!({"supplementalGroups": ids("MustRunAs")});
    let text = "spec.securityContext.supplementalGroups: Invalid value: []int64{}: unable to validate empty groups against \
                required ranges";
    let given = of_pod(json!({"supplementalGroups": []}));
    is_refused(rules(), given.clone(), text).await;
    stays(json!({"supplementalGroups": ids("MayRunAs")}), given.clone()).await;
    // The normal form of the pod leaves the field out.
    let kind = crate::kind::GroupVersionKind::new("", "v1", "Pod");
    let normal = crate::object::normal::built_in(&kind, given).unwrap().unwrap();
    let plugin = plugin([policy("p", rules())]);
    let mut attributes = attributes(Operation::Create, "", "pods", None, None);
    attributes.context.authorizer = administrator();
    attributes.object = Some(normal.object);
    assert!(attributes.object.as_ref().unwrap().get(&["spec", "securityContext", "supplementalGroups"]).is_none());
    let status = plugin.admit(&mut attributes).await.unwrap_err().into_status(&attributes);
    assert!(status.message.ends_with(&format!("[{text}]")), "{}", status.message);
}
