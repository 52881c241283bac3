//! Plugins behind feature gates, and plugins for cluster-wide defaults, compared with kube-apiserver's own.

use super::pods::{as_developer, container, generated, merge, pod, pods};
use crate::harness::{Pair, Request, User, delete, get, patch, pki, post, put, unique};
use serde_json::{Value, json};
use std::sync::OnceLock;

const GATES: &str = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,WorkloadWithJob=true,\
                     ClusterTrustBundle=true";
const APIS: &str = "--runtime-config=scheduling.k8s.io/v1alpha2=true,certificates.k8s.io/v1beta1=true";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// Both sides of every test in this module.
fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    let plugins = [
        "Priority",
        "DefaultStorageClass",
        "PodGroupProtection",
        "ClusterTrustBundleAttest",
        "DefaultIngressClass",
        "PodGroupWorkloadExists",
        "JobValidation",
    ];
    PAIR.get_or_init(|| {
        let pair = Pair::alone(&plugins, &[GATES.to_owned()], &before(), &[APIS.to_owned()]);
        pair.until(&User::developer(), &post(PODS_PROBE, &pod("probe", json!({}))), "\"priority\":3");
        pair
    })
}

const PODS_PROBE: &str = "/api/v1/namespaces/default/pods?dryRun=All";

/// Two default objects of each kind: the plugin Priority would reject the second one.
fn before() -> Vec<Request> {
    let priority = |name: &str, value: i32, is_default: bool, policy: &str| {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
                           "globalDefault": is_default, "preemptionPolicy": policy});
        post(PRIORITY_CLASSES, &class)
    };
    let storage = |name: &str, annotation: &str, value: &str| {
        let metadata = json!({"name": name, "annotations": {annotation: value}});
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "example.com/p"});
        post("/apis/storage.k8s.io/v1/storageclasses", &class)
    };
    let ingress = |name: &str, value: &str| {
        let metadata = json!({"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": value}});
        let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": metadata, "spec": {"controller": "example.com/c"}});
        post("/apis/networking.k8s.io/v1/ingressclasses", &class)
    };
    vec![
        priority("first-default", 7, true, "PreemptLowerPriority"),
        priority("second-default", 3, true, "Never"),
        priority("plain", 10, false, "PreemptLowerPriority"),
        // The newest default counts; among defaults of the same second, the first by name.
        storage("b-older", "storageclass.kubernetes.io/is-default-class", "true"),
        storage("a-newer", "storageclass.beta.kubernetes.io/is-default-class", "true"),
        storage("0-none", "storageclass.kubernetes.io/is-default-class", "True"),
        ingress("b-older", "true"),
        ingress("a-newer", "true"),
        ingress("0-none", "yes"),
    ]
}

fn namespace(name: &str) -> Request {
    post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

#[test]
fn pods_have_the_priority_of_their_class() {
    let here = unique("priority");
    pair().set_up(&[namespace(&here)]);
    let create = |name: &str, spec: Value| post(&pods(&here), &pod(name, spec));
    let of = |class: &str, more: Value| {
        let mut spec = json!({ "priorityClassName": class });
        merge(&mut spec, more);
        spec
    };
    let class = |name: &str, is_default: Value| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 3, "globalDefault": is_default, "preemptionPolicy": "Never"});
    let one = format!("{}/bare", pods(&here));
    pair().compare(as_developer(vec![
        create("bare", json!({})),
        create("empty", of("", json!({}))),
        create("plain", of("plain", json!({}))),
        create("system", of("system-node-critical", json!({}))),
        create("missing", of("missing", json!({}))),
        post(&pods(&here), &generated("missing-", of("missing", json!({})))),
        create("same", of("plain", json!({"priority": 10}))),
        create("other", of("plain", json!({"priority": 11}))),
        create("only-number", json!({"priority": 5})),
        create("policy", of("plain", json!({"preemptionPolicy": "Never"}))),
        create("same-policy", json!({"preemptionPolicy": "Never"})),
        create("wrong-policy", json!({"preemptionPolicy": "Sometimes"})),
        create("text", json!({"priority": "high"})),
        put(&one, &pod("bare", json!({"containers": [{"name": "a", "image": "j"}]}))),
        patch(
            &one,
            "merge",
            &json!({"spec": {"priority": null, "preemptionPolicy": null}, "metadata": {"labels": {"a": "b"}}}),
        ),
        patch(&one, "merge", &json!({"spec": {"priority": 9}})),
        patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &pod("applied", of("plain", json!({})))),
        post(PRIORITY_CLASSES, &class(&here, json!(true))),
        post(PRIORITY_CLASSES, &class(&here, json!(false))),
        post(PRIORITY_CLASSES, &class("second-default", json!(true))),
        patch(&format!("{PRIORITY_CLASSES}/{here}"), "merge", &json!({"globalDefault": true})),
        patch(&format!("{PRIORITY_CLASSES}/{here}"), "merge", &json!({"description": "d"})),
        patch(&format!("{PRIORITY_CLASSES}/first-default"), "merge", &json!({"description": "d"})),
        patch(&format!("{PRIORITY_CLASSES}/second-default"), "merge", &json!({"description": "d"})),
    ]));
}

#[test]
fn claims_and_ingresses_get_the_default_class() {
    let here = unique("default-class");
    pair().set_up(&[namespace(&here)]);
    let claims = format!("/api/v1/namespaces/{here}/persistentvolumeclaims");
    let claim = |name: &str, class: Value, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "annotations": annotations},
               "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let beta = |class: &str| json!({"volume.beta.kubernetes.io/storage-class": class});
    let ingresses = format!("/apis/networking.k8s.io/v1/namespaces/{here}/ingresses");
    let ingress = |name: &str, class: Value, annotations: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "annotations": annotations},
               "spec": {"ingressClassName": class, "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
    };
    let by_annotation = |class: &str| json!({"kubernetes.io/ingress.class": class});
    let mut drawn = claim("", Value::Null, json!({}));
    drawn["metadata"] = json!({"generateName": "drawn-"});
    let probe = post(&format!("{claims}?dryRun=All"), &claim("probe", Value::Null, json!({})));
    pair().until(&User::developer(), &probe, "a-newer");
    let probe = post(&format!("{ingresses}?dryRun=All"), &ingress("probe", Value::Null, json!({})));
    pair().until(&User::developer(), &probe, "a-newer");
    pair().compare(as_developer(vec![
        post(&claims, &claim("bare", Value::Null, json!({}))),
        post(&claims, &claim("empty", json!(""), json!({}))),
        post(&claims, &claim("named", json!("b-older"), json!({}))),
        post(&claims, &claim("unknown", json!("unknown"), json!({}))),
        post(&claims, &claim("annotated", Value::Null, beta("b-older"))),
        post(&claims, &claim("annotated-empty", Value::Null, beta(""))),
        post(&claims, &drawn),
        post(&claims, &claim("number", json!(7), json!({}))),
        patch(&format!("{claims}/annotated-empty"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&format!("{claims}/applied?fieldManager=me"), "apply", &claim("applied", Value::Null, json!({}))),
        post(&ingresses, &ingress("bare", Value::Null, json!({}))),
        post(&ingresses, &ingress("named", json!("b-older"), json!({}))),
        post(&ingresses, &ingress("empty", json!(""), json!({}))),
        post(&ingresses, &ingress("annotated", Value::Null, by_annotation("x"))),
        post(&ingresses, &ingress("annotated-empty", Value::Null, by_annotation(""))),
        post(&ingresses, &ingress("both", json!("b-older"), by_annotation("x"))),
        post(&format!("{ingresses}?dryRun=All"), &ingress("dry", Value::Null, json!({}))),
        patch(
            &format!("{ingresses}/annotated"),
            "merge",
            &json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": null}}}),
        ),
        patch(&format!("{ingresses}/applied?fieldManager=me"), "apply", &ingress("applied", Value::Null, json!({}))),
    ]));
}

fn groups(namespace: &str) -> String {
    format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups")
}

fn group(name: &str, spec: Value) -> Value {
    let mut group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
                           "spec": {"schedulingPolicy": {"basic": {}}}});
    merge(&mut group["spec"], spec);
    group
}

fn gang() -> Value {
    json!({"schedulingPolicy": {"basic": null, "gang": {"minCount": 2}}})
}

#[test]
fn pod_groups_come_from_workloads() {
    let here = unique("groups");
    let workloads = format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{here}/workloads");
    let workload = |name: &str, finalizers: Value| {
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": {"name": name, "finalizers": finalizers},
               "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}})
    };
    pair().set_up(&[
        namespace(&here),
        post(&workloads, &workload("there", json!([]))),
        post(&workloads, &workload("going", json!(["example.com/stay"]))),
        delete(&format!("{workloads}/going")),
    ]);
    let create = |name: &str, spec: Value| post(&groups(&here), &group(name, spec));
    let from = |workload: &str, template: &str| json!({"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}});
    let mut with_finalizer = group("finalizers", json!({}));
    with_finalizer["metadata"]["finalizers"] = json!(["scheduling.k8s.io/podgroup-protection", "example.com/mine"]);
    let mut other_finalizer = group("other-finalizer", json!({}));
    other_finalizer["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let mut drawn = group("", from("missing", "t"));
    drawn["metadata"] = json!({"generateName": "drawn-"});
    let probe = post(&format!("{}?dryRun=All", groups(&here)), &group("probe", from("going", "t")));
    pair().until(&User::developer(), &probe, "is being deleted");
    pair().compare(as_developer(vec![
        create("alone", json!({})),
        create("from", from("there", "t")),
        create("missing", from("missing", "t")),
        create("going", from("going", "t")),
        create("template", from("there", "u")),
        create("nothing", json!({"podGroupTemplateRef": {}})),
        create("nameless", from("", "")),
        post(&groups(&here), &drawn),
        post(&groups(&here), &with_finalizer),
        post(&groups(&here), &other_finalizer),
        create("gang", gang()),
        create("plain", json!({"priorityClassName": "plain"})),
        create("same", json!({"priorityClassName": "plain", "priority": 10})),
        create("other", json!({"priorityClassName": "plain", "priority": 11})),
        create("unknown", json!({"priorityClassName": "unknown"})),
        patch(&format!("{}/alone", groups(&here)), "merge", &json!({"metadata": {"finalizers": null}})),
        get(&format!("{}/alone", groups(&here))),
        post(&format!("{}?dryRun=All", groups(&here)), &group("dry", from("missing", "t"))),
    ]));
}

#[test]
fn gangs_keep_their_size() {
    let here = unique("gangs");
    let jobs = format!("/apis/batch/v1/namespaces/{here}/jobs");
    let job = |name: &str, group: Value| {
        let spec =
            json!({"restartPolicy": "Never", "containers": [container("a", json!({}))], "schedulingGroup": group});
        // A selector of the job's own contains no uid.
        let labels = json!({"job": name});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
               "spec": {"parallelism": 2, "completions": 4, "manualSelector": true, "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": spec}}})
    };
    let named = |name: &str| json!({ "podGroupName": name });
    pair().set_up(&[
        namespace(&here),
        post(&groups(&here), &group("gang", gang())),
        post(&groups(&here), &group("basic", json!({}))),
        post(&jobs, &job("gang", named("gang"))),
        post(&jobs, &job("basic", named("basic"))),
        post(&jobs, &job("missing", named("missing"))),
        post(&jobs, &job("alone", Value::Null)),
        post(&jobs, &job("owner", Value::Null)),
        post(&jobs, &job("basic-owner", Value::Null)),
    ]);
    for api in pair().sides() {
        for (owner, spec) in [("owner", gang()), ("basic-owner", json!({}))] {
            let uid = api.accepts(get(&format!("{jobs}/{owner}")))["metadata"]["uid"].clone();
            let mut owned = group(&format!("of-{owner}"), spec);
            owned["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": uid, "controller": true}]);
            api.accepts(post(&groups(&here), &owned));
        }
    }
    let scale =
        |name: &str, to: Value| patch(&format!("{jobs}/{name}"), "merge", &json!({"spec": {"parallelism": to}}));
    let dry = patch(&format!("{jobs}/owner?dryRun=All"), "merge", &json!({"spec": {"parallelism": 3}}));
    pair().until(&User::developer(), &dry, "of-owner");
    pair().compare(as_developer(vec![
        scale("gang", json!(3)),
        scale("gang", json!(2)),
        scale("gang", Value::Null),
        patch(&format!("{jobs}/gang"), "merge", &json!({"spec": {"suspend": true}})),
        scale("basic", json!(3)),
        scale("missing", json!(3)),
        scale("alone", json!(3)),
        scale("owner", json!(3)),
        scale("basic-owner", json!(3)),
        patch(&format!("{jobs}/gang/status"), "merge", &json!({"status": {"active": 1}})),
        post(&format!("{jobs}?dryRun=All"), &job("dry", named("gang"))),
    ]));
}

#[test]
fn trust_is_attested_by_users_with_the_right() {
    let here = unique("trust");
    let (user, path) = (format!("{here}-attester"), "/apis/certificates.k8s.io/v1beta1/clustertrustbundles");
    let attester = User::named(&user, "");
    let name = format!("only-{user}");
    let binding = |role: &str| {
        post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{role}-{user}")},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]}),
        )
    };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["attest"], "resourceNames": ["example.com/*"]}]});
    pair().set_up(&[
        post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role),
        binding(&name),
        binding("developers"),
    ]);
    for attributes in [
        json!({"verb": "attest", "group": "certificates.k8s.io", "resource": "signers", "name": "example.com/*"}),
        json!({"verb": "create", "group": "certificates.k8s.io", "resource": "clustertrustbundles"}),
    ] {
        let ask = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}});
        let ask = post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &ask);
        pair().until(&attester, &ask, "\"allowed\":true");
    }
    let authority = std::fs::read_to_string(pki().ca()).unwrap();
    let bundle = |name: &str, signer: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name},
               "spec": {"signerName": signer, "trustBundle": authority}})
    };
    let signed = format!("example.com:a:{here}");
    let one = format!("{path}/{signed}");
    let twice = json!({"spec": {"trustBundle": format!("{authority}{authority}")}});
    let another = std::fs::read_to_string(pki().front_proxy_ca()).unwrap();
    let more = json!({"spec": {"trustBundle": format!("{authority}{another}")}});
    let alice = User::developer;
    pair().compare(vec![
        (alice(), post(path, &bundle(&here, ""))),
        (alice(), patch(&format!("{path}/{here}"), "merge", &json!({"metadata": {"labels": {"a": "b"}}}))),
        (alice(), post(path, &bundle(&signed, "example.com/a"))),
        (attester.clone(), post(path, &bundle(&signed, "example.com/a"))),
        (attester.clone(), post(path, &bundle(&format!("other.com:a:{here}"), "other.com/a"))),
        (attester.clone(), post(path, &bundle(&format!("wrong-{here}"), "example.com/a"))),
        (alice(), patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}}))),
        (alice(), patch(&one, "merge", &json!({"metadata": {"finalizers": ["example.com/f"]}}))),
        (alice(), patch(&one, "merge", &json!({"metadata": {"finalizers": null}}))),
        (alice(), patch(&one, "merge", &json!({}))),
        (alice(), patch(&one, "merge", &twice)),
        (alice(), patch(&one, "merge", &more)),
        (attester.clone(), patch(&one, "merge", &more)),
        (attester.clone(), patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}}))),
        (attester.clone(), patch(&one, "merge", &json!({"spec": {"signerName": "example.com/b"}}))),
        (User::admin(), post(path, &bundle(&format!("other.com:a:{here}"), "other.com/a"))),
        (alice(), delete(&one)),
    ]);
}
