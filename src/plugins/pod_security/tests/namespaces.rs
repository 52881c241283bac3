//! Namespaces: their labels, and the pods that are in them when these change.

use super::*;

#[tokio::test]
async fn a_new_namespace_has_valid_labels() {
    let world = world(&[]);
    world.send(create_namespace("x", &[("enforce", "baseline"), ("warn-version", "v1.99")])).await.stays_silent();
    let status = world
        .send(create_namespace("x", &[("enforce", "strict"), ("audit-version", "1.2")]))
        .await
        .refuses(
            422,
            "Namespace \"x\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one \
             of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \
             \"1.2\": must be \"latest\" or \"v1.x\"]",
            &[],
        );
    let details = status.details.unwrap();
    assert_eq!((&*status.reason, &*details.kind, &*details.name), ("Invalid", "Namespace", "x"));
    let cause = &details.causes[1];
    assert_eq!(cause.reason, "FieldValueInvalid");
    assert_eq!(cause.field, "metadata.labels[pod-security.kubernetes.io/audit-version]");
    assert_eq!(cause.message, "Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"");
    assert!(world.counted().is_empty());
}

#[tokio::test]
async fn wrong_labels_stay_until_one_of_them_changes() {
    let world = world(&[]);
    let wrong = [("enforce", "strict"), ("warn", "baseline")];
    world.send(update_namespace("x", &wrong, &wrong)).await.stays_silent();
    world.send(update_namespace("x", &wrong, &[("enforce", "strict")])).await.stays_silent();
    for (old, new) in [(&[][..], &wrong[..]), (&wrong, &[("enforce", "stricter")]), (&wrong, &[("warn", "strict")])] {
        assert_eq!(world.send(update_namespace("x", old, new)).await.result.unwrap_err().code, 422);
    }
    let status = Request { subresource: "status", ..update_namespace("x", &[], &wrong) };
    world.send(status).await.stays_silent();
}

#[tokio::test]
async fn a_namespace_of_wrong_types_is_refused() {
    let world = world(&[]);
    for metadata in [
        json!({"name": "x", "labels": "x"}),
        json!({"name": "x", "labels": {"pod-security.kubernetes.io/enforce": 1}}),
        json!({"name": "x", "labels": {"pod-security.kubernetes.io/warn-version": ["latest"]}}),
    ] {
        let object = json!({ "metadata": metadata });
        let answer = world.send(request(Operation::Create, "", "namespaces", object.clone())).await;
        answer.refuses(400, "failed to decode namespace", &[("error", "failed to decode namespace")]);
        let update = Request { old: Some(object), ..update_namespace("x", &[], &[]) };
        let answer = world.send(update).await;
        answer.refuses(400, "failed to decode  old namespace", &[("error", "failed to decode  old namespace")]);
    }
}

#[tokio::test]
async fn labels_of_an_exempt_namespace_cause_a_warning() {
    let world = world_with(FixedState::default(), configuration(json!({"audit": "baseline"})));
    let warning = |policy: &str| {
        format!("namespace \"exempt\" is exempt from Pod Security, and the policy ({policy}) will be ignored")
    };
    for (labels, policy) in [
        (&[][..], None),
        (&[("enforce", "privileged")], None),
        (&[("audit", "baseline")], None),
        (&[("audit", "privileged")], None),
        (&[("enforce", "baseline")], Some("enforce=baseline:latest")),
        (&[("warn", "restricted"), ("warn-version", "v1.2")], Some("warn=restricted:v1.2")),
        (&[("audit-version", "v1.2")], Some("audit=baseline:v1.2")),
        (
            &[("enforce", "restricted"), ("audit", "restricted"), ("warn", "baseline")],
            Some("enforce=restricted:latest, audit=restricted:latest, warn=baseline:latest"),
        ),
        // The defaults differ from the labels, but the labels set the level privileged for enforce.
        (
            &[("enforce", "privileged"), ("enforce-version", "v1.1"), ("audit-version", "v1.1")],
            Some("audit=baseline:v1.1"),
        ),
    ] {
        let warnings: Vec<String> = policy.iter().map(|policy| warning(policy)).collect();
        let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
        world.send(create_namespace("exempt", labels)).await.accepts(&warnings, &[]);
        world.send(create_namespace("x", labels)).await.stays_silent();
    }
    let tightened = update_namespace("exempt", &[], &[("enforce", "baseline")]);
    world.send(tightened).await.accepts(&[&warning("enforce=baseline:latest")], &[]);
    world.send(update_namespace("exempt", &[], &[("warn", "restricted")])).await.stays_silent();
}

/// An existing pod; `is_bad` makes the pod violate the baseline.
fn existing(name: &str, controller: Option<&str>, is_bad: bool) -> Object {
    let owners = controller.map(|uid| json!([{"uid": "other"}, {"uid": uid, "controller": true}]));
    let value = json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": owners},
                       "spec": {"hostPID": is_bad, "containers": [{"name": "a"}]}});
    Object::from_value(value).unwrap()
}

async fn tightened(pods: Option<Vec<Object>>, old: &[(&str, &str)], new: &[(&str, &str)]) -> Answer {
    let state = FixedState { pods, ..FixedState::default() };
    world_with(state, configuration(json!({}))).send(update_namespace("n", old, new)).await
}

#[tokio::test]
async fn a_tightened_namespace_causes_warnings_about_its_pods() {
    let mut network = existing("d", None, true);
    assert!(network.set(&["spec", "hostNetwork"], json!(true)));
    assert!(network.set(&["spec", "containers"], json!([{"name": "a", "ports": [{"hostPort": 80}]}])));
    let mut exempt = existing("a", None, true);
    assert!(exempt.set(&["spec", "runtimeClassName"], json!("exempt")));
    let mut elsewhere = existing("b", None, true);
    assert!(elsewhere.set(&["metadata", "namespace"], json!("m")));
    let pods = vec![
        existing("z", None, true),
        existing("y", Some("1"), true),
        existing("good", None, false),
        network,
        existing("x", Some("1"), true),
        exempt,
        elsewhere,
    ];
    let warnings = [
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:v1.20\"",
        "d: host namespaces, hostPort",
        "x (and 2 other pods): host namespaces",
    ];
    let new = [("enforce", "baseline"), ("enforce-version", "v1.20")];
    tightened(Some(pods), &[], &new).await.accepts(&warnings, &[]);
    let two = vec![existing("b", None, true), existing("a", None, true)];
    let warnings = [
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a (and 1 other pod): host namespaces",
    ];
    tightened(Some(two), &[], &[("enforce", "baseline")]).await.accepts(&warnings, &[]);
    tightened(Some(vec![existing("a", None, false)]), &[], &[("enforce", "baseline")]).await.stays_silent();
}

#[tokio::test]
async fn pods_are_checked_only_where_something_is_tightened() {
    let baseline = [("enforce", "baseline")];
    for (old, new, is_checked) in [
        (&[][..], &baseline[..], true),
        (&baseline, &baseline, false),
        (&baseline, &[("enforce", "baseline"), ("enforce-version", "v1.2")], true),
        (&[("enforce", "restricted")], &baseline, false),
        (&[("enforce", "restricted")], &[("enforce", "baseline"), ("enforce-version", "v1.2")], true),
        (&baseline, &[("enforce", "privileged"), ("enforce-version", "v1.2")], false),
        (&baseline, &[], false),
        (&[], &[("audit", "restricted"), ("warn", "restricted")], false),
        // The invalid old level counted as restricted, so the new level is not stricter.
        (&[("enforce", "x")], &baseline, false),
    ] {
        let answer = tightened(Some(vec![existing("a", None, true)]), old, new).await;
        assert_eq!(
            (answer.result.is_ok(), answer.warnings.len()),
            (true, if is_checked { 2 } else { 0 }),
            "{old:?} {new:?}"
        );
    }
}

#[tokio::test]
async fn says_when_there_are_more_pods_than_are_checked() {
    // The further pods of a controller are checked last, and exceed the maximum here.
    let mut pods: Vec<Object> = (0..2999).map(|i| existing(&format!("of-one-{i:04}"), Some("1"), false)).collect();
    pods.push(existing("z", None, true));
    pods.push(existing("y", Some("2"), true));
    let warnings = [
        "new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods",
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "y (and 1 other pod): host namespaces",
    ];
    tightened(Some(pods), &[], &[("enforce", "baseline")]).await.accepts(&warnings, &[]);
}

#[tokio::test]
async fn says_when_the_pods_cannot_be_had() {
    let warnings = ["failed to list pods while checking new PodSecurity enforce level"];
    tightened(None, &[], &[("enforce", "baseline")]).await.accepts(&warnings, &[]);
    let broken = Object::from_value(json!({"metadata": {"namespace": "n"}, "spec": 1})).unwrap();
    tightened(Some(vec![broken]), &[], &[("enforce", "baseline")]).await.accepts(&warnings, &[]);
}
