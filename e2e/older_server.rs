//! The proxy in front of an API server of an earlier release, which does not serve all resources that plugins read, for example
//! `resource.k8s.io/v1`.

use crate::harness::{Pair, Request, User, delete, get, patch, post, put};
use serde_json::{Value, json};

/// The oldest release that a kube-apiserver of this release emulates.
const FLAGS: [&str; 2] = ["--emulated-version=1.33", "--min-compatibility-version=1.33"];
/// The plugins that are on by default in that release.
const PLUGINS: [&str; 21] = [
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

#[test]
fn an_earlier_release_is_admitted_for_as_by_itself() {
    is_admitted_for_as_by_itself(&FLAGS.map(str::to_owned));
}

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-older`"]
fn a_release_two_minors_older_is_admitted_for_as_by_itself() {
    is_admitted_for_as_by_itself(&[]);
}

fn is_admitted_for_as_by_itself(of_servers: &[String]) {
    let pair = Pair::alone(&PLUGINS, &[], &[], of_servers);
    let core = "/api/v1/namespaces/default";
    let (pods, claims) = (format!("{core}/pods"), format!("{core}/persistentvolumeclaims"));
    let object = |api_version: &str, kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let pod = |name: &str| {
        let requests = json!({"requests": {"cpu": "1"}});
        // The name of a token's volume is random.
        let spec = json!({"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i", "resources": requests}]});
        object("v1", "Pod", name, json!({ "spec": spec }))
    };
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let hard = json!({"spec": {"hard": {"pods": "2", "requests.cpu": "3", "persistentvolumeclaims": "1",
        "count/deployments.apps": "1"}}});
    pair.set_up(&[
        post(&format!("{core}/serviceaccounts"), &object("v1", "ServiceAccount", "default", json!({}))),
        post(&format!("{core}/resourcequotas"), &object("v1", "ResourceQuota", "quota", hard)),
        post(
            "/apis/storage.k8s.io/v1/storageclasses",
            &object(
                "storage.k8s.io/v1",
                "StorageClass",
                "standard",
                json!({"provisioner": "p", "metadata": {"name": "standard",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
            ),
        ),
    ]);
    // No controller computes the status of the quota.
    let status = json!({"status": {"hard": {"pods": "2", "requests.cpu": "3", "persistentvolumeclaims": "1",
        "count/deployments.apps": "1"}, "used": {"pods": "0", "requests.cpu": "0", "persistentvolumeclaims": "0",
        "count/deployments.apps": "0"}}});
    pair.set_up(&[patch(&format!("{core}/resourcequotas/quota/status"), "merge", &status)]);
    pair.until(&User::admin(), &get(&format!("{core}/resourcequotas/quota")), r#""pods":"2""#);
    let probe = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}]}});
    pair.until(
        &User::admin(),
        &post(&format!("{pods}?dryRun=All"), &object("v1", "Pod", "probe", probe)),
        "exceeded quota: quota",
    );

    let deployment = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut changed = pod("one");
    changed["metadata"]["labels"] = json!({"a": "b"});
    changed["spec"]["containers"][0]["image"] = json!("j");
    let resource_claim = object("resource.k8s.io/v1", "ResourceClaim", "r", json!({"spec": {}}));
    let mutating = object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "m", json!({"spec": {}}));
    let steps: Vec<Request> = vec![
        post(&pods, &pod("one")),
        put(&format!("{pods}/one"), &changed),
        patch(&format!("{pods}/one"), "strategic", &json!({"metadata": {"labels": {"c": "d"}}})),
        patch(&format!("{pods}/two?fieldManager=e2e"), "apply", &pod("two")),
        post(&pods, &pod("three")),
        post(&claims, &object("v1", "PersistentVolumeClaim", "one", claim.clone())),
        post(&claims, &object("v1", "PersistentVolumeClaim", "two", claim)),
        post(deployments, &object("apps/v1", "Deployment", "one", deployment.clone())),
        post(deployments, &object("apps/v1", "Deployment", "two", deployment)),
        // Kinds and versions of later releases.
        post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", &resource_claim),
        get("/apis/resource.k8s.io/v1/deviceclasses"),
        post("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", &mutating),
        post(
            policies,
            &object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "v", json!({"spec": {}})),
        ),
        get(&format!("{pods}/one")),
        delete(&format!("{pods}?labelSelector=a=b&gracePeriodSeconds=0")),
        delete(&format!("{deployments}/one")),
    ];
    pair.compare(steps.into_iter().map(|step| (User::admin(), step)).collect());
}
