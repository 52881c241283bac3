//! Answers in protobuf, YAML and indented JSON: objects, lists, watches, refusals and discovery.

use super::compare;
use crate::harness::{Request, delete, get, patch, post, put};
use serde_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ACCEPTS: [&str; 28] = [
    "",
    "*/*",
    "*",
    "application/*",
    "application/json",
    "application/yaml",
    PROTOBUF,
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;q=0.5,application/vnd.kubernetes.protobuf;q=0.4",
    "application/json;q=0.4, application/yaml;q=0.5",
    "application/yaml;q=0, application/vnd.kubernetes.protobuf;q=abc",
    "text/html",
    "text/html,application/yaml",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "application/cbor",
    "application/json;pretty=1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/yaml;as=Table;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
    "application/yaml;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=Other;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json;sv=v2",
];

fn accepting(request: &Request, accept: &str) -> Request {
    if accept.is_empty() { request.clone() } else { request.clone().header("accept", accept) }
}

/// The request with each of the headers.
fn in_all_forms(requests: &[Request]) -> Vec<Request> {
    requests.iter().flat_map(|request| ACCEPTS.map(|accept| accepting(request, accept))).collect()
}

fn definition(group: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"replicas": {"type": "integer"}}}, "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("forms.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "forms", "singular": "form", "kind": "Form", "listKind": "FormList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]}})
}

fn objects(namespace: &str) -> Vec<Request> {
    let at = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"l10": "1", "l2": "yes", "b": "null"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"port": "p", "path": "/"}}}]}});
    let texts = json!({"a": "x\ny\n", "b": "# no comment", "c": "1e3", "d": " led", "e": "é<&>", "f": "", "g": "x".repeat(70) + " y z " + &"x".repeat(40)});
    vec![
        post(
            &at("/api/v1", "configmaps"),
            &json!({"metadata": {"name": "a", "annotations": {format!("{}/k", "p".repeat(130)): "v"}}, "data": texts}),
        ),
        post(&at("/api/v1", "secrets"), &json!({"metadata": {"name": "a"}, "data": {"b": "AAEC", "a": ""}})),
        post(&at("/api/v1", "pods"), &pod),
        post(
            &at("/apis/apps/v1", "deployments"),
            &json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        post(
            &at("/apis/coordination.k8s.io/v1", "leases"),
            &json!({"metadata": {"name": "a"}, "spec": {"renewTime": "2026-01-01T01:02:03.456789Z"}}),
        ),
    ]
}

#[test]
fn objects_and_lists_have_the_forms_of_kube_apiserver() {
    compare("forms-objects", |namespace| {
        let at = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
        let mut requests = objects(namespace);
        for path in [at("/api/v1", "configmaps/a"), at("/api/v1", "configmaps"), at("/api/v1", "configmaps/none")] {
            requests.extend(in_all_forms(&[get(&path)]));
        }
        for path in [
            at("/api/v1", "secrets/a"),
            at("/api/v1", "pods"),
            at("/api/v1", "pods/a"),
            at("/apis/apps/v1", "deployments/a"),
            at("/apis/apps/v1", "deployments/a/scale"),
            at("/apis/apps/v1", "replicasets"),
            at("/apis/coordination.k8s.io/v1", "leases"),
            at("/apis/apps/v1", "none"),
            "/apis/none.test/v1/nones".to_owned(),
        ] {
            for accept in ["application/yaml", PROTOBUF, "application/json;pretty=1"] {
                requests.push(accepting(&get(&path), accept));
            }
        }
        requests
    });
}

#[test]
fn writes_are_answered_in_the_forms_of_kube_apiserver() {
    compare("forms-writes", |namespace| {
        let at = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}});
        let maps = at("/api/v1", "configmaps");
        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
        let binding = json!({"metadata": {"name": "a"}, "target": {"name": "n"}});
        let mut requests = objects(namespace);
        for (round, accept) in
            ["application/yaml", PROTOBUF, "application/json;pretty=1", "text/html"].into_iter().enumerate()
        {
            let name = format!("w{round}");
            let one = format!("{maps}/{name}");
            let more = [
                post(&maps, &map(&name)),
                post(&maps, &map(&name)),
                put(&one, &map(&name)),
                put(&one, &map("other")),
                patch(&one, "merge", &json!({"data": {"b": "2"}})),
                // The text of a merge patch that does not fit has the fields of the object in their order, which differs.
                patch(&one, "strategic", &json!({"data": {"b": 2}})),
                patch(&at("/api/v1", "pods/a/status"), "merge", &json!({"status": {"message": format!("m{round}")}})),
                post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review),
                post(&at("/api/v1", "pods/a/binding?dryRun=All"), &binding),
                delete(&format!("{one}?dryRun=All")),
                delete(&one),
                delete(&format!("{maps}?labelSelector=none")),
            ];
            requests.extend(more.iter().map(|request| accepting(request, accept)));
        }
        requests
    });
}

#[test]
fn custom_resources_have_no_protobuf() {
    compare("forms-custom", |namespace| {
        let group = "forms.e2e.test";
        let forms = format!("/apis/{group}/v1/namespaces/{namespace}/forms");
        let one = format!("{forms}/a");
        let form = json!({"apiVersion": format!("{group}/v1"), "kind": "Form", "metadata": {"name": "a"},
            "spec": {"replicas": 2, "x": [[1, {"y": []}], 1.5, null, "a: b"]}});
        let mut requests =
            vec![post(DEFINITIONS, &definition(group)), get(&format!("{forms}?until=200")), post(&forms, &form)];
        requests.extend(in_all_forms(&[get(&one), get(&forms), get(&format!("{forms}/none"))]));
        for accept in ["application/yaml", PROTOBUF, "application/json;pretty=1"] {
            requests.push(accepting(&get(&format!("{one}/scale")), accept));
            requests.push(accepting(&patch(&one, "merge", &json!({"spec": {"replicas": 3}})), accept));
        }
        requests
    });
}

#[test]
fn watches_have_the_frames_of_kube_apiserver() {
    compare("forms-watches", |namespace| {
        let at =
            |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}?watch=1&timeoutSeconds=1");
        let mut requests = objects(namespace);
        let paths =
            [at("/api/v1", "pods"), at("/apis/apps/v1", "deployments"), at("/apis/coordination.k8s.io/v1", "leases")];
        for path in &paths {
            for accept in [
                "application/json",
                PROTOBUF,
                "application/vnd.kubernetes.protobuf;stream=watch",
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "application/yaml",
            ] {
                requests.push(accepting(&get(path), accept));
            }
        }
        requests.push(accepting(&get(&format!("{}&resourceVersionMatch=Exact", paths[0])), PROTOBUF));
        requests
    });
}

#[test]
fn discovery_has_the_forms_of_kube_apiserver() {
    const AGGREGATED: &str = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    compare("forms-discovery", |_| {
        let mut accepts: Vec<String> = [
            "",
            "*/*",
            "application/json",
            "application/json;pretty=1",
            "application/yaml",
            PROTOBUF,
            "text/html",
            "application/cbor",
        ]
        .map(str::to_owned)
        .into();
        for form in ["application/json", "application/yaml", PROTOBUF, "*/*", "text/html"] {
            accepts.push(format!("{form};{AGGREGATED}"));
        }
        accepts.push(format!("application/json,application/vnd.kubernetes.protobuf;{AGGREGATED}"));
        accepts.push("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList".to_owned());
        let mut requests = Vec::new();
        for path in ["/apis/apps", "/apis/apps/v1", "/api/v1", "/apis/none.test"] {
            requests.extend(accepts.iter().map(|accept| accepting(&get(path), accept)));
        }
        // Without the address of the server, and without its build.
        let aggregated = accepts.iter().filter(|accept| accept.ends_with(AGGREGATED));
        requests.extend(aggregated.map(|accept| accepting(&get("/api"), accept)));
        requests.extend(["application/yaml", "text/html"].map(|accept| accepting(&get("/version"), accept)));
        requests
    });
}
