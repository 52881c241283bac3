//! Subresources: patches and methods of custom resources, scales, and owners of fields in other versions.

use super::{Place, Servers, define, with_embedded, with_proxy};
use crate::harness::{Request, get, patch, post, put};
use serde_json::{Value, json};

const FORMS: [&str; 5] = [
    "",
    ";as=Table;v=v1;g=meta.k8s.io",
    ";as=Table;v=v1beta1;g=meta.k8s.io",
    ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

/// Every kind of patch of a custom resource and of its subresources, and a create that names an object in its path.
fn patches(servers: &mut Servers, place: &Place, group: &str) {
    let path = define(servers, place, group);
    for media_type in [
        "application/strategic-merge-patch+json",
        "application/strategic-merge-patch+json; charset=utf-8",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "application/apply-patch+cbor",
        "application/json",
        "text/plain",
        "",
    ] {
        for of in ["", "/status", "/scale", "/none"] {
            let (version, kind) =
                if of == "/scale" { ("autoscaling/v1".to_owned(), "Scale") } else { (format!("{group}/v1"), "Wid") };
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
            let body = if media_type.contains("json-patch") { json!([]) } else { object };
            let request = Request::new("PATCH", &format!("{path}/a{of}?dryRun=All&fieldManager=m"));
            servers.compare(request.body(media_type, body.to_string()));
        }
    }
    for of in ["", "/status", "/scale", "/none"] {
        for method in ["POST", "DELETE", "PUT", "PATCH", "TRACE", "OPTIONS"] {
            let request = Request::new(method, &format!("{path}/a{of}?dryRun=All"));
            servers.compare(match method {
                "PATCH" => request.body("application/merge-patch+json", "{}"),
                "POST" | "PUT" => request.body("application/json", "{}"),
                _ => request,
            });
        }
    }
    let other = json!({"apiVersion": format!("{group}/v1"), "kind": "Wid", "metadata": {"name": "other"}});
    servers.compare(post(&format!("{path}/named?dryRun=All"), &other));
}

#[test]
fn patches_and_methods_of_custom_resources_are_those_of_kube_apiserver() {
    with_embedded("embedded-patches", |servers, place| patches(servers, place, "embedded-patches.e2e.test"));
}

#[test]
fn patches_and_methods_of_custom_resources_are_refused_by_the_proxy_as_by_kube_apiserver() {
    with_proxy("proxied-patches", |servers, place| patches(servers, place, "proxied-patches.e2e.test"));
}

#[test]
fn scales_are_shown_and_changed_as_by_kube_apiserver() {
    with_embedded("scales", |servers, place| {
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "e2e.test/a"}]}});
        let custom = define(servers, place, "scales.e2e.test");
        let mut paths = Vec::new();
        for replicas in [Some(0), Some(2), None] {
            for (plural, kind) in [
                ("/apis/apps/v1/deployments", "Deployment"),
                ("/apis/apps/v1/replicasets", "ReplicaSet"),
                ("/apis/apps/v1/statefulsets", "StatefulSet"),
                ("/api/v1/replicationcontrollers", "ReplicationController"),
                ("", "Wid"),
            ] {
                let labels = json!({"a": "b"});
                let (version, mut spec) = match kind {
                    "Wid" => ("scales.e2e.test/v1", json!({})),
                    "ReplicationController" => ("v1", json!({"selector": labels, "template": template})),
                    _ => (
                        "apps/v1",
                        json!({"selector": {"matchLabels": labels}, "template": template, "serviceName": "s"}),
                    ),
                };
                if ["Deployment", "ReplicaSet"].contains(&kind) {
                    spec.as_object_mut().unwrap().remove("serviceName");
                }
                if let Some(replicas) = replicas {
                    spec[if kind == "Wid" { "r" } else { "replicas" }] = json!(replicas);
                }
                let name = format!("r{}", replicas.map_or("none".to_owned(), |replicas: i32| replicas.to_string()));
                let path = if kind == "Wid" { custom.clone() } else { place.path(plural) };
                let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
                servers.set_up(&post(&path, &object));
                paths.push((format!("{path}/{name}"), name));
            }
        }
        for (path, name) in paths {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": place.0},
                "spec": {"replicas": 0}});
            for form in FORMS {
                let accept = format!("application/json{form}");
                for query in ["", "?includeObject=Object", "?includeObject=x", "?resourceVersion=0"] {
                    for of in ["scale", "status"] {
                        servers.compare(get(&format!("{path}/{of}{query}")).header("accept", &accept));
                    }
                }
                servers.compare(put(&format!("{path}/scale?dryRun=All"), &scale).header("accept", &accept));
            }
            for change in [
                json!({"spec": {"replicas": 0}}),
                json!({"spec": {"replicas": 3}}),
                json!({"spec": {"replicas": null}}),
                json!({"spec": null}),
                json!({"metadata": {"labels": {"x": "y"}}}),
                json!({"status": {"replicas": 7}}),
            ] {
                servers.compare(patch(&format!("{path}/scale?dryRun=All"), "merge", &change));
            }
            for query in ["resourceVersion=x", "resourceVersion=9999999", "export=1"] {
                servers.compare(get(&format!("{path}/scale?{query}")));
            }
        }
    });
}

/// A custom resource with two versions, of which the first one is stored; the second one has more fields.
fn two_versions(servers: &Servers, group: &str) {
    let text = json!({"type": "string"});
    let version = |name: &str, fields: &[&str], item: Value| {
        let mut properties = json!({"l": {"type": "array", "items": {"type": "object", "properties": item}}});
        fields.iter().for_each(|field| properties[field] = text.clone());
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}})
    };
    let versions =
        [version("v1", &["a"], json!({"x": text})), version("v2", &["a", "c"], json!({"x": text, "y": text}))];
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("twos.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "twos", "singular": "two", "kind": "Two", "listKind": "TwoList"}, "versions": versions}});
    servers.set_up(&post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition));
    servers.wait_for(&format!("/apis/{group}/v2/twos"));
}

#[test]
fn fields_of_another_version_are_applied_as_by_kube_apiserver() {
    with_embedded("two-versions", |servers, place| {
        let group = "two-versions.e2e.test";
        two_versions(servers, group);
        let path = |version: &str| place.path(&format!("/apis/{group}/{version}/twos"));
        let object = |version: &str, name: &str, spec: &Value| json!({"apiVersion": format!("{group}/{version}"), "kind": "Two", "metadata": {"name": name}, "spec": spec});
        let mut made = 0;
        for first in ["v1", "v2"] {
            for begins_with_apply in [false, true] {
                for second in ["v1", "v2"] {
                    for spec in [
                        json!({"a": "2"}),
                        json!({"c": "z"}),
                        json!({"a": "2", "c": "z"}),
                        json!({"l": [{"x": "1"}]}),
                        json!({"l": [{"x": "1", "y": "2"}]}),
                        json!({"unknown": "u"}),
                    ] {
                        made += 1;
                        let name = format!("n{made}");
                        let begin = match first {
                            "v2" => json!({"a": "1", "c": "q"}),
                            _ => json!({"a": "1"}),
                        };
                        let begin = object(first, &name, &begin);
                        servers.compare(match begins_with_apply {
                            true => patch(&format!("{}/{name}?fieldManager=first", path(first)), "apply", &begin),
                            false => post(&path(first), &begin),
                        });
                        let object = object(second, &name, &spec);
                        for force in ["", "&force=true"] {
                            let path = format!("{}/{name}?fieldManager=m{force}", path(second));
                            servers.compare(patch(&path, "apply", &object));
                        }
                        servers.compare(get(&format!("{}/{name}", path("v1"))));
                        servers.compare(get(&format!("{}/{name}", path("v2"))));
                    }
                }
            }
        }
        servers.compare(post(&path("v2"), &object("v2", "y", &json!({"c": "1"}))));
        servers.compare(put(&format!("{}/y", path("v2")), &object("v2", "y", &json!({"a": "1", "c": "2"}))));
        servers.compare(patch(&format!("{}/y", path("v2")), "merge", &json!({"spec": {"c": "3"}})));
    });
}
