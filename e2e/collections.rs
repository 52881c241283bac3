//! DELETE of a collection: the responses, in every form, and the deleted objects equal kube-apiserver's.

use crate::harness::{Answer, Api, Kept, Proxy, Request, User, delete, eventually, eventually_as, get, post, upstream};
use serde_json::{Value, json};

const META: &str = "g=meta.k8s.io;v=v1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Every form that a client may request, and some forms that do not exist.
fn forms() -> Vec<Vec<(&'static str, String)>> {
    let accepts = |accept: &str| vec![("accept", accept.to_owned())];
    let mut forms: Vec<_> = [
        "application/json",
        "*/*",
        "application/yaml",
        PROTOBUF,
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json;pretty=1",
        "application/json;stream=watch",
        "text/html",
    ]
    .map(accepts)
    .into();
    for form in ["Table", "PartialObjectMetadataList", "PartialObjectMetadata", "Foo"] {
        forms.extend(
            ["application/json", "application/yaml", PROTOBUF].map(|of| accepts(&format!("{of};as={form};{META}"))),
        );
    }
    let gzipped = |accept: &str| vec![("accept", accept.to_owned()), ("accept-encoding", "deflate, gzip".to_owned())];
    forms.extend(["application/json", "application/yaml"].map(gzipped));
    forms.push(vec![("user-agent", "curl/8".to_owned())]);
    forms.push(Vec::new());
    forms
}

/// The visible parts of a response.
fn seen(answer: &Answer) -> (u16, Vec<Vec<String>>, String) {
    let headers = ["content-type", "content-encoding", "vary", "cache-control", "warning"];
    (answer.status, headers.iter().map(|name| answer.header(name)).collect(), answer.text())
}

/// Sends the request to both and checks that the responses are equal, to the byte. Repeats if the store's resourceVersion changed in
/// between.
fn are_answered_alike(sides: &[Kept; 2], request: &Request) {
    // Other tests write to the same API server, whose resourceVersion the answers have.
    eventually_as(&format!("equal answers to {} {:?}", request.path, request.headers), || {
        let [expected, found] = sides.each_ref().map(|api| seen(&api.send(&User::admin(), request.clone())));
        if expected == found { Ok(()) } else { Err(format!("{expected:#?}\n{found:#?}")) }
    });
}

fn config_map(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"size": bytes.to_string()}},
           "data": {"a": "<&>\u{e9}".to_owned() + &"b".repeat(bytes)}})
}

#[test]
fn a_deletecollection_is_answered_in_the_form_that_the_client_accepts() {
    let proxy = Proxy::before(upstream(), &[]);
    let sides = [upstream().kept(), proxy.kept()];
    let here = proxy.namespace("collected");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    for (name, bytes) in [("a", 3), ("b", 3), ("c", 3), ("large", 200_000)] {
        proxy.accepts(post(&maps, &config_map(name, bytes)));
    }
    let group = format!("{here}.e2e.test");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    proxy.accepts(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition));
    let gadgets = format!("/apis/{group}/v1/namespaces/{here}/gadgets");
    let gadget =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"a": 1.0}});
    eventually("gadgets", || (proxy.send(&User::admin(), post(&gadgets, &gadget)).status == 201).then_some(()));
    for collection in [&maps, &gadgets] {
        for headers in forms() {
            for query in
                ["dryRun=All", "dryRun=All&labelSelector=size%3D3", "dryRun=All&fieldSelector=metadata.name%3Da"]
            {
                let mut request = delete(&format!("{collection}?{query}"));
                for (name, value) in &headers {
                    request = request.header(name, value);
                }
                are_answered_alike(&sides, &request);
            }
        }
    }
    let table = format!("application/json;as=Table;{META}");
    for query in [
        "pretty=true",
        "limit=2&labelSelector=size%3D3",
        "includeObject=Object",
        "includeObject=None",
        "labelSelector=size%3Dnone",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Exact",
    ] {
        for accept in ["application/json", "application/yaml", PROTOBUF, &table] {
            let request = delete(&format!("{maps}?dryRun=All&{query}")).header("accept", accept);
            are_answered_alike(&sides, &request);
        }
    }
}

#[test]
fn just_what_is_answered_is_deleted() {
    let proxy = Proxy::before(upstream(), &[]);
    for (accept, code, is_deleted) in [
        ("application/json", 200, true),
        ("application/yaml", 200, true),
        (PROTOBUF, 200, true),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", 200, true),
        // The form exists, but not for lists: kube-apiserver notices only after the deletion.
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", 406, true),
        ("text/html", 406, false),
    ] {
        for api in [upstream() as &Api, &proxy] {
            let maps = format!("/api/v1/namespaces/{}/configmaps", api.namespace("emptied"));
            for name in ["one", "two", "three"] {
                api.accepts(post(&maps, &config_map(name, 3)));
            }
            let selected = format!("{maps}?fieldSelector=metadata.name%21%3Dthree");
            let answer = api.send(&User::admin(), delete(&selected).header("accept", accept));
            assert_eq!(answer.status, code, "{accept}: {}", answer.text());
            let says = |name: &str| answer.text().contains(name);
            assert_eq!((says("one"), says("two"), says("three")), (code == 200, code == 200, false), "{accept}");
            let left = upstream().send(&User::admin(), get(&maps)).json()["items"].as_array().unwrap().len();
            assert_eq!(left, if is_deleted { 1 } else { 3 }, "{accept}");
        }
    }
}
