//! Sequences of requests to a kube-apiserver 1.19, with its answers.

use super::*;

const PRIVILEGED: &str =
    "spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not allowed";

fn must_run_as(name: &str) -> Value {
    policy(name, json!({"privileged": false, "runAsUser": {"rule": "MustRunAs", "ranges": [{"min": 5, "max": 10}]}}))
}

/// A chain of one plugin, called as one user.
struct User<'a>(&'a PodSecurityPolicyPlugin, CallerAuthorizer);

/// The object, or the message of the refusal; and the audit annotations by the last part of their key.
type Answer = (Result<Value, String>, Vec<(String, String)>);

impl User<'_> {
    async fn create(&self, pod: Value) -> Answer {
        let mut attributes = attributes(Operation::Create, "", "pods", Some(pod), None);
        attributes.context.authorizer = self.1.clone();
        let mut result = self.0.admit(&mut attributes).await;
        if result.is_ok() {
            result = self.0.validate(&attributes).await;
        }
        answer(attributes, result)
    }

    async fn update(&self, old: &Value, metadata: Value) -> Answer {
        let mut new = old.clone();
        merge(&mut new["metadata"], metadata);
        let mut attributes = attributes(Operation::Update, "", "pods", Some(new), Some(old.clone()));
        attributes.context.authorizer = self.1.clone();
        self.0.admit(&mut attributes).await.unwrap();
        let result = self.0.validate(&attributes).await;
        answer(attributes, result)
    }
}

fn answer(attributes: Attributes, result: Result<(), Denial>) -> Answer {
    let annotations = attributes.annotations.take().into_iter();
    let annotations = annotations.map(|(key, value, _)| (key.rsplit('/').next().unwrap().to_owned(), value)).collect();
    let refusal = result.err().map(|denial| denial.into_status(&attributes).message);
    (refusal.map_or_else(|| Ok(attributes.object.unwrap().into_value()), Err), annotations)
}

fn recorded(admit: &str, validate: &str) -> Vec<(String, String)> {
    let both = [("admit-policy", admit), ("validate-policy", validate)];
    both.into_iter().filter(|(_, name)| !name.is_empty()).map(|(key, name)| (key.to_owned(), name.to_owned())).collect()
}

fn named(name: &str, spec: Value) -> Value {
    let mut pod = pod(spec);
    pod["metadata"]["name"] = name.into();
    pod
}

#[tokio::test]
async fn audit_annotations_name_the_policy_that_decided() {
    let plugin = plugin([must_run_as("a-mutates"), policy("b-free", json!({}))]);
    let bob = User(&plugin, grants(&[("", "policy", "a-mutates")]));
    let alice = User(&plugin, grants(&[("", "policy", "b-free")]));
    let carol = User(&plugin, grants(&[]));
    let (a1, audit) = bob.create(named("a1", json!({}))).await;
    let a1 = a1.unwrap();
    assert_eq!(audit, recorded("a-mutates", "a-mutates"));
    assert_eq!(a1["metadata"]["annotations"], json!({"kubernetes.io/psp": "a-mutates"}));
    assert_eq!(a1["spec"]["containers"][0]["securityContext"], json!({"runAsUser": 5}));
    let (a2, audit) = alice.create(named("a2", json!({}))).await;
    let a2 = a2.unwrap();
    assert_eq!(audit, recorded("b-free", "b-free"));
    assert!(a2["spec"]["containers"][0].get("securityContext").is_none());
    let privileged = json!({"containers": [{"name": "c", "securityContext": {"privileged": true}}]});
    let (a3, audit) = bob.create(named("a3", privileged)).await;
    let text = format!("pods \"a3\" is forbidden: PodSecurityPolicy: unable to admit pod: [{PRIVILEGED}]");
    assert_eq!((a3, audit), (Err(text), vec![]));
    let label = |value: &str| json!({"labels": {"x": value}});
    assert_eq!(bob.update(&a1, label("y")).await.1, recorded("", "a-mutates"));
    // The policy that accepts the update now; the pod's annotation stays.
    let (updated, audit) = alice.update(&a1, label("z")).await;
    assert_eq!(audit, recorded("", "b-free"));
    assert_eq!(updated.unwrap()["metadata"]["annotations"], json!({"kubernetes.io/psp": "a-mutates"}));
    let text = "pods \"a2\" is forbidden: PodSecurityPolicy: unable to validate pod: []";
    assert_eq!(bob.update(&a2, label("z")).await, (Err(text.to_owned()), vec![]));
    let (finalized, audit) = carol.update(&a1, json!({"finalizers": ["lab/x"]})).await;
    assert_eq!((finalized.is_ok(), audit), (true, vec![]));
}

#[tokio::test]
async fn a_pod_that_would_need_a_default_cannot_be_updated() {
    let nonroot = policy("nonroot", json!({"privileged": false, "runAsUser": {"rule": "MustRunAsNonRoot"}}));
    let read_only = policy("ro", json!({"readOnlyRootFilesystem": true}));
    let plugin = plugin([nonroot, read_only, policy("free", json!({}))]);
    let bob = User(&plugin, grants(&[("", "policy", "nonroot")]));
    let rob = User(&plugin, grants(&[("", "policy", "ro")]));
    let alice = User(&plugin, grants(&[("", "policy", "free")]));
    let mut e1 = bob.create(named("e1", json!({}))).await.0.unwrap();
    assert_eq!(e1["spec"]["containers"][0]["securityContext"], json!({"runAsNonRoot": true}));
    // The plugin does not see how an ephemeral container is added.
    e1["spec"]["ephemeralContainers"] = json!([{"name": "dbg", "image": "b"}]);
    let text = |name: &str| format!("pods \"{name}\" is forbidden: PodSecurityPolicy: unable to validate pod: []");
    let label = || json!({"labels": {"x": "z"}});
    assert_eq!(bob.update(&e1, label()).await, (Err(text("e1")), vec![]));
    let e2 = alice.create(named("e2", json!({}))).await.0.unwrap();
    for user in [bob, rob] {
        assert_eq!(user.update(&e2, label()).await, (Err(text("e2")), vec![]));
    }
}

#[tokio::test]
async fn a_second_pass_reviews_the_changes_of_webhooks() {
    let strict = plugin([must_run_as("strict")]);
    let alice = User(&strict, grants(&[("", "policy", "strict")]));
    let mut first = alice.create(named("w1", json!({}))).await.0.unwrap();
    let containers = first["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "side", "image": "b"}));
    let second = alice.create(first).await.0.unwrap();
    for container in [0, 1] {
        assert_eq!(second["spec"]["containers"][container]["securityContext"], json!({"runAsUser": 5}));
    }
    let strict = plugin([policy("strict", json!({"privileged": false}))]);
    let alice = User(&strict, grants(&[("", "policy", "strict")]));
    let mut first = alice.create(named("w2", json!({}))).await.0.unwrap();
    first["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let text = format!("pods \"w2\" is forbidden: PodSecurityPolicy: unable to admit pod: [{PRIVILEGED}]");
    assert_eq!(alice.create(first).await.0, Err(text));
}

#[tokio::test]
async fn a_policy_without_ranges_is_none() {
    let plugin = plugin([policy("broken-range", json!({"runAsUser": {"rule": "MustRunAs"}}))]);
    let admin = User(&plugin, administrator());
    let text = "pods \"o1\" is forbidden: PodSecurityPolicy: no providers available to validate pod request";
    assert_eq!(admin.create(named("o1", json!({}))).await, (Err(text.to_owned()), vec![]));
}
