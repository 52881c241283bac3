//! Seccomp and AppArmor profiles: annotations of the policy, annotations and fields of the pod.

use super::*;

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_C: &str = "container.seccomp.security.alpha.kubernetes.io/c";
const APP_ARMOR_OF_C: &str = "container.apparmor.security.beta.kubernetes.io/c";

/// A policy that allows everything except profiles, with these annotations.
fn annotated(annotations: Value) -> Value {
    let mut policy = policy("p", json!({}));
    policy["metadata"]["annotations"] = annotations;
    policy
}

fn seccomp(default: Option<&str>, allowed: Option<&str>) -> Value {
    let prefix = "seccomp.security.alpha.kubernetes.io";
    let mut annotations = json!({});
    for (name, value) in [("defaultProfileName", default), ("allowedProfileNames", allowed)] {
        if let Some(value) = value {
            annotations[format!("{prefix}/{name}")] = value.into();
        }
    }
    annotated(annotations)
}

fn app_armor(default: Option<&str>, allowed: Option<&str>) -> Value {
    let prefix = "apparmor.security.beta.kubernetes.io";
    let mut annotations = any_seccomp();
    for (name, value) in [("defaultProfileName", default), ("allowedProfileNames", allowed)] {
        if let Some(value) = value {
            annotations[format!("{prefix}/{name}")] = value.into();
        }
    }
    annotated(annotations)
}

/// A pod with these annotations, and these security contexts of the pod and of its container.
fn given(annotations: Value, of_pod: Value, of_container: Value) -> Value {
    let mut pod = pod(json!({}));
    for (pointer, field, value) in [
        ("/metadata", "annotations", annotations),
        ("/spec", "securityContext", of_pod),
        ("/spec/containers/0", "securityContext", of_container),
    ] {
        if value != json!({}) {
            pod.pointer_mut(pointer).unwrap()[field] = value;
        }
    }
    pod
}

fn profile(kind: &str) -> Value {
    match kind.strip_prefix("Localhost/") {
        Some(profile) => json!({"seccompProfile": {"type": "Localhost", "localhostProfile": profile}}),
        None => json!({"seccompProfile": {"type": kind}}),
    }
}

async fn expect(policy: Value, pod: Value, want: Result<Value, &str>) {
    let got = reviewed(policy.clone(), pod.clone()).await;
    assert_eq!(got, want.map_err(str::to_owned), "{} {pod}", policy["metadata"]["annotations"]);
}

#[tokio::test]
async fn the_default_profile_is_set_as_annotation_and_field() {
    let policy = || seccomp(Some("runtime/default"), Some("runtime/default"));
    let want = given(json!({SECCOMP: "runtime/default"}), profile("RuntimeDefault"), json!({}));
    expect(policy(), pod(json!({})), Ok(want)).await;
    for (profile_name, field) in
        [("docker/default", "RuntimeDefault"), ("unconfined", "Unconfined"), ("localhost/x/y", "Localhost/x/y")]
    {
        let want = given(json!({SECCOMP: profile_name}), profile(field), json!({}));
        expect(seccomp(Some(profile_name), Some("*")), pod(json!({})), Ok(want)).await;
    }
    // A container's own profile stays.
    let before = given(json!({}), json!({}), profile("Unconfined"));
    let after = given(json!({SECCOMP: "runtime/default"}), profile("RuntimeDefault"), profile("Unconfined"));
    expect(seccomp(Some("runtime/default"), Some("*")), before, Ok(after)).await;
}

#[tokio::test]
async fn the_annotations_of_a_pod_become_fields() {
    let any = || seccomp(None, Some("*"));
    for (annotation, field) in [("runtime/default", "RuntimeDefault"), ("localhost/x", "Localhost/x")] {
        let before = given(json!({SECCOMP: annotation}), json!({}), json!({}));
        let after = given(json!({SECCOMP: annotation}), profile(field), json!({}));
        expect(any(), before, Ok(after)).await;
        let before = given(json!({SECCOMP_OF_C: annotation}), json!({}), json!({}));
        let after = given(json!({SECCOMP_OF_C: annotation}), json!({}), profile(field));
        expect(any(), before, Ok(after)).await;
    }
    // Neither an invalid annotation nor a container that does not exist.
    for annotations in [
        json!({SECCOMP: "localhost/"}),
        json!({SECCOMP: "x"}),
        json!({"container.seccomp.security.alpha.kubernetes.io/d": "unconfined"}),
    ] {
        let pod = given(annotations, json!({}), json!({}));
        expect(any(), pod.clone(), Ok(pod)).await;
    }
    // A field is not overwritten, and a field becomes an annotation.
    let both =
        given(json!({SECCOMP: "unconfined", SECCOMP_OF_C: "unconfined"}), profile("Unconfined"), profile("Unconfined"));
    expect(any(), both.clone(), Ok(both)).await;
    for (field, annotation) in [("RuntimeDefault", "runtime/default"), ("Localhost/x", "localhost/x")] {
        let before = given(json!({}), profile(field), json!({}));
        expect(any(), before, Ok(given(json!({SECCOMP: annotation}), profile(field), json!({})))).await;
    }
}

#[tokio::test]
async fn a_pod_for_windows_gets_no_field() {
    let mut before = given(json!({SECCOMP: "runtime/default"}), json!({}), json!({}));
    before["spec"]["os"] = json!({"name": "windows"});
    expect(seccomp(None, Some("*")), before.clone(), Ok(before)).await;
}

fn forbidden(key: &str, text: &str) -> String {
    format!("pod.metadata.annotations[{key}]: Forbidden: {text}")
}

#[tokio::test]
async fn other_seccomp_profiles_are_refused() {
    let policy = || seccomp(None, Some("runtime/default,localhost/foo"));
    let text = |profile: &str| {
        format!("{profile} is not an allowed seccomp profile. Valid values are runtime/default,localhost/foo")
    };
    let both = |profile: &str| [forbidden(SECCOMP, &text(profile)), forbidden(SECCOMP_OF_C, &text(profile))].join(" ");
    let annotated = |profile: &str| given(json!({SECCOMP: profile}), json!({}), json!({}));
    expect(policy(), annotated("unconfined"), Err(&both("unconfined"))).await;
    expect(policy(), given(json!({}), profile("Unconfined"), json!({})), Err(&both("unconfined"))).await;
    expect(policy(), given(json!({}), profile("Localhost/x"), json!({})), Err(&both("localhost/x"))).await;
    expect(policy(), pod(json!({})), Err(&both(""))).await;
    // The names of the default profile are the same.
    let after = given(json!({SECCOMP: "docker/default"}), profile("RuntimeDefault"), json!({}));
    expect(policy(), annotated("docker/default"), Ok(after)).await;
    // The container's field counts before its annotation, its annotation before the pod's profile.
    let of_c = forbidden(SECCOMP_OF_C, &text("unconfined"));
    let good = || profile("RuntimeDefault");
    let pod = given(json!({SECCOMP: "runtime/default"}), good(), profile("Unconfined"));
    expect(policy(), pod, Err(&of_c)).await;
    let pod = given(json!({SECCOMP: "runtime/default", SECCOMP_OF_C: "unconfined"}), good(), json!({}));
    expect(policy(), pod, Err(&of_c)).await;
    let pod = given(json!({SECCOMP: "runtime/default", SECCOMP_OF_C: "unconfined"}), good(), good());
    expect(policy(), pod.clone(), Ok(pod)).await;
}

#[tokio::test]
async fn without_allowed_profiles_none_may_be_set() {
    let none = || seccomp(None, None);
    expect(none(), pod(json!({})), Ok(pod(json!({})))).await;
    let text = "seccomp may not be set";
    let both = [forbidden(SECCOMP, text), forbidden(SECCOMP_OF_C, text)].join(" ");
    expect(none(), given(json!({SECCOMP: "runtime/default"}), json!({}), json!({})), Err(&both)).await;
    expect(none(), given(json!({}), profile("RuntimeDefault"), json!({})), Err(&both)).await;
    let of_c = forbidden(SECCOMP_OF_C, text);
    expect(none(), given(json!({}), json!({}), profile("RuntimeDefault")), Err(&of_c)).await;
    // The API of 1.19 accepts a default that is not allowed.
    expect(seccomp(Some("runtime/default"), None), pod(json!({})), Err(&both)).await;
}

#[tokio::test]
async fn a_stored_pod_with_the_field_alone_is_accepted() {
    let stored = given(json!({}), profile("RuntimeDefault"), json!({}));
    let mut changed = stored.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    for (allowed, is_accepted) in [("*", true), ("runtime/default", true), ("localhost/x", false)] {
        let plugin = plugin([seccomp(None, Some(allowed))]);
        let checked = validate(&plugin).update("", "pods", stored.clone(), changed.clone()).await;
        assert_eq!(checked.code(), (!is_accepted).then_some(403), "{allowed}");
    }
}

#[tokio::test]
async fn each_container_gets_the_default_app_armor_profile() {
    let policy = || app_armor(Some("runtime/default"), None);
    let mut before = pod(json!({"initContainers": [{"name": "i"}]}));
    let mut after = before.clone();
    after["metadata"]["annotations"] = json!({
        APP_ARMOR_OF_C: "runtime/default", "container.apparmor.security.beta.kubernetes.io/i": "runtime/default"
    });
    expect(policy(), before.clone(), Ok(after.clone())).await;
    // A profile of the container's own stays, in the annotation or in a field.
    before["metadata"]["annotations"] = json!({APP_ARMOR_OF_C: "localhost/x"});
    after["metadata"]["annotations"][APP_ARMOR_OF_C] = "localhost/x".into();
    expect(policy(), before, Ok(after)).await;
    let unconfined = || json!({"appArmorProfile": {"type": "Unconfined"}});
    for own in [given(json!({}), unconfined(), json!({})), given(json!({}), json!({}), unconfined())] {
        expect(policy(), own.clone(), Ok(own)).await;
    }
}

#[tokio::test]
async fn other_app_armor_profiles_are_refused() {
    let policy = || app_armor(None, Some("runtime/default,localhost/y"));
    let annotated = |profile: &str| given(json!({APP_ARMOR_OF_C: profile}), json!({}), json!({}));
    let field = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    let text = |profile: &str| {
        let allowed = "\"runtime/default,localhost/y\"";
        forbidden(APP_ARMOR_OF_C, &format!("{profile} is not an allowed profile. Allowed values: {allowed}"))
    };
    expect(policy(), annotated("localhost/y"), Ok(annotated("localhost/y"))).await;
    expect(policy(), annotated("localhost/x"), Err(&text("localhost/x"))).await;
    let missing = forbidden(APP_ARMOR_OF_C, "AppArmor profile must be set");
    expect(policy(), pod(json!({})), Err(&missing)).await;
    expect(app_armor(None, Some("")), pod(json!({})), Err(&missing)).await;
    // The fields of 1.30: the container's before the pod's.
    for (of_pod, of_container, want) in [
        (field("RuntimeDefault"), json!({}), Ok(())),
        (json!({}), field("RuntimeDefault"), Ok(())),
        (field("Unconfined"), field("RuntimeDefault"), Ok(())),
        (field("Unconfined"), json!({}), Err(text("unconfined"))),
        (field("RuntimeDefault"), field("Unconfined"), Err(text("unconfined"))),
        (field("Localhost"), json!({}), Err(missing.clone())),
    ] {
        let pod = given(json!({}), of_pod, of_container);
        let want = want.map(|()| pod.clone());
        expect(policy(), pod.clone(), want.as_ref().map(Value::clone).map_err(String::as_str)).await;
    }
    let localhost = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "y"}});
    let pod = given(json!({}), localhost, json!({}));
    expect(policy(), pod.clone(), Ok(pod)).await;
}
