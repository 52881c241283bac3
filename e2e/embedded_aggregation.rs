//! Compares APIServices, the order of discovery, ComponentStatuses and the bytes of answers of the embedded API server with kube-apiserver's.

use crate::harness::{
    Api, ControlPlane, Proxy, Request, User, delete, eventually, eventually_as, get, only, patch, post, proxy_only, put,
};
use serde_json::{Value, json};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn sides() -> (ControlPlane, Proxy) {
    let flags = proxy_only(&[]);
    (ControlPlane::start("aggregation", &only(&[])), Proxy::embedded(&[&flags[0], &flags[1], "--controllers="]))
}

/// Removes what differs from server to server.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["uid", "resourceVersion", "creationTimestamp", "time", "lastTransitionTime"] {
                if let Some(text) = fields.get_mut(name).filter(|value| value.is_string()) {
                    *text = format!("<{name}>").into();
                }
            }
            // The embedded API server's OpenAPI has no descriptions.
            fields.remove("description");
            fields.values_mut().for_each(normalize);
            // The order of the entries depends on the second of a write.
            if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                entries.sort_by_key(Value::to_string);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        // An age in a table, such as `5m39s`.
        Value::String(text)
            if text.starts_with(|first: char| first.is_ascii_digit())
                && text.ends_with(['s', 'm', 'h'])
                && text.chars().all(|char| matches!(char, '0'..='9' | 's' | 'm' | 'h')) =>
        {
            *text = "<age>".into();
        }
        _ => {}
    }
}

fn seen(api: &Api, request: Request) -> (u16, Vec<String>, Value) {
    let answer = api.send(&User::admin(), request);
    let text = answer.text();
    let mut body = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
    normalize(&mut body);
    (answer.status, answer.header("warning"), body)
}

/// Compares the answers, once kube-apiserver's controllers have done their work.
#[track_caller]
fn same(real: &Api, embedded: &Api, request: &Request) {
    eventually_as(&format!("equal answers to {} {}", request.method, request.path), || {
        let [expected, got] = [real, embedded].map(|api| seen(api, request.clone()));
        if expected == got { Ok(()) } else { Err(format!("kube-apiserver: {expected:?}\n  embedded:       {got:?}")) }
    });
}

fn definition(group: &str, versions: &[&str]) -> Value {
    let version = |(at, name): (usize, &&str)| json!({"name": name, "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
    })
}

fn api_service(group: &str, version: &str, priorities: (i64, i64), rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1},
    });
    object["spec"].as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    object
}

#[test]
fn groups_and_versions_are_registered_and_sorted_as_by_kube_apiserver() {
    let (real, embedded) = sides();
    let discovery = |steps: &[Request]| {
        for request in steps {
            for api in [&*real, &*embedded] {
                let answer = api.send(&User::admin(), request.clone());
                assert!(answer.status < 300, "{} {}: {}", request.method, request.path, answer.text());
            }
            for path in ["/apis", "/apis/b.example.com", "/apis/remote.example.com", SERVICES] {
                same(&real, &embedded, &get(path));
            }
            same(&real, &embedded, &get("/apis").header("accept", AGGREGATED));
        }
    };
    discovery(&[get("/apis")]);
    same(&real, &embedded, &get(SERVICES).header("accept", TABLE).header("x-none", "1"));
    let service = json!({"service": {"namespace": "default", "name": "remote"}, "insecureSkipTLSVerify": true});
    let label = json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": {"groupPriorityMinimum": 1500}});
    discovery(&[
        post(DEFINITIONS, &definition("b.example.com", &["v1", "v1beta1", "v2"])),
        post(DEFINITIONS, &definition("a.example.com", &["v2"])),
        post(SERVICES, &api_service("remote.example.com", "v1", (2000, 10), service)),
        patch(&format!("{SERVICES}/v2.b.example.com"), "merge", &json!({"spec": {"versionPriority": 1}})),
        delete(&format!("{SERVICES}/v1.b.example.com")),
        patch(&format!("{SERVICES}/v2.a.example.com"), "merge", &label),
        patch(&format!("{SERVICES}/v1.policy"), "merge", &json!({"metadata": {"annotations": {"a": "b"}}})),
        delete(&format!("{DEFINITIONS}/things.b.example.com")),
    ]);
    // kube-apiserver's aggregated discovery follows a later priority of a built-in group only after a while.
    let lower = patch(&format!("{SERVICES}/v1.apps"), "merge", &json!({"spec": {"groupPriorityMinimum": 100}}));
    for api in [&*real, &*embedded] {
        assert_eq!(api.send(&User::admin(), lower.clone()).status, 200);
    }
    same(&real, &embedded, &get("/apis"));
    for path in ["/apis/remote.example.com/v1", "/apis/remote.example.com/v1/things", "/apis/remote.example.com/v2"] {
        same(&real, &embedded, &get(path));
    }
}

#[test]
fn an_api_service_is_checked_as_by_kube_apiserver() {
    let (real, embedded) = sides();
    let at = |rest: &str| format!("{SERVICES}{rest}");
    let service = |service: Value| json!({"service": service, "insecureSkipTLSVerify": true});
    let remote = json!({"namespace": "default", "name": "remote"});
    let named = |name: &str, mut object: Value| {
        object["metadata"]["name"] = json!(name);
        object
    };
    let kube_service = |kind: &str, port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "remote"},
            "spec": {"type": kind, "ports": [{"name": "https", "port": port}]}})
    };
    let services = "/api/v1/namespaces/default/services";
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "remote", "labels": {"kubernetes.io/service-name": "remote"}},
        "endpoints": null, "ports": [{"name": "https", "port": 443}]});
    let condition = |status: &str| json!({"status": {"conditions": [{"type": "Other", "status": status}]}});
    let steps = [
        post(
            SERVICES,
            &named(
                "x",
                api_service(
                    "a_b",
                    "v1.1",
                    (0, 0),
                    json!({"service": {}, "caBundle": "aGVsbG8=", "insecureSkipTLSVerify": true}),
                ),
            ),
        ),
        post(
            SERVICES,
            &named(
                "v2.",
                api_service("", "v2", (30_000, 2000), json!({"caBundle": "aGVsbG8=", "insecureSkipTLSVerify": true})),
            ),
        ),
        post(
            SERVICES,
            &api_service(
                "remote.example.com",
                "v1",
                (1, 1),
                service(json!({"namespace": "a", "name": "b", "port": 70_000})),
            ),
        ),
        post(SERVICES, &api_service("remote.example.com", "v1", (1, 1), json!({"group": null}))),
        post(SERVICES, &api_service("local.example.com", "v1", (20_000, 1000), json!({}))),
        get(&at("/v1.local.example.com")),
        get("/apis/local.example.com"),
        get("/apis/local.example.com/v1"),
        post(SERVICES, &api_service("remote.example.com", "v1", (1000, 10), service(remote))),
        get(&at("/v1.remote.example.com")),
        post(services, &kube_service("ClusterIP", 80)),
        get(&at("/v1.remote.example.com")),
        patch(&format!("{services}/remote"), "merge", &json!({"spec": {"ports": [{"name": "https", "port": 443}]}})),
        get(&at("/v1.remote.example.com")),
        post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice),
        get(&at("/v1.remote.example.com")),
        get(&at("/v1.remote.example.com"))
            .header("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        patch(&at("/v1.remote.example.com/status"), "merge", &condition("Maybe")),
        patch(&at("/v1.remote.example.com/status"), "merge", &condition("True")),
        patch(&at("/v1.remote.example.com"), "merge", &json!({"spec": {"version": "v2"}})),
        put(&at("/v1.remote.example.com"), &api_service("remote.example.com", "v1", (1000, 10), json!({}))),
        patch(
            &at("/v1.remote.example.com"),
            "merge",
            &json!({"spec": {"service": null, "insecureSkipTLSVerify": null}}),
        ),
        get(&at("/v1.remote.example.com")),
        get("/apis/remote.example.com/v1"),
        delete(&at("/v1.remote.example.com")),
        get("/apis/remote.example.com"),
    ];
    for request in &steps {
        match request.method.as_str() {
            "GET" => same(&real, &embedded, request),
            _ => {
                let [mut expected, mut got] = [&*real, &*embedded].map(|api| seen(api, request.clone()));
                // The two may choose different addresses, and the controllers of kube-apiserver write a moment later.
                for answer in [&mut expected, &mut got] {
                    for pointer in ["/spec/clusterIP", "/spec/clusterIPs", "/status", "/metadata/managedFields"] {
                        if let Some(value) =
                            answer.2.pointer_mut(pointer).filter(|value| !value.is_string() || pointer != "/status")
                        {
                            *value = Value::Null;
                        }
                    }
                }
                assert_eq!(got, expected, "{} {}", request.method, request.path);
            }
        }
    }
}

#[test]
fn components_are_shown_as_by_kube_apiserver() {
    let (real, embedded) = sides();
    let components = "/api/v1/componentstatuses";
    let at = |rest: &str| format!("{components}{rest}");
    for request in [
        get(components),
        get(&at("?limit=1")),
        get(&at("?labelSelector=a=b")),
        get(&at("?fieldSelector=metadata.name=etcd-0")),
        get(&at("?fieldSelector=metadata.namespace=a")),
        get(&at("?watch=1")),
        get(&at("/etcd-0")),
        get(&at("/scheduler")),
        get(&at("/controller-manager")),
        get(&at("/nope")),
        get(components).header("accept", TABLE),
        get(components).header("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        post(components, &json!({})),
        delete(&at("/etcd-0")),
    ] {
        // The components are asked at once, so that their order varies.
        same(&real, &embedded, &request);
    }
}

#[test]
fn tables_have_the_columns_of_kube_apiserver() {
    let (real, embedded) = sides();
    for api in [&*real, &*embedded] {
        api.accepts(post(DEFINITIONS, &definition("example.com", &["v1"])));
        let things = "/apis/example.com/v1/things";
        eventually("the custom resource", || (api.send(&User::admin(), get(things)).status == 200).then_some(()));
    }
    let discovered = real.send(&User::admin(), get("/apis").header("accept", AGGREGATED)).json();
    let core = real.send(&User::admin(), get("/api").header("accept", AGGREGATED)).json();
    let groups = [core, discovered].map(|document| document["items"].as_array().unwrap().clone()).concat();
    let mut compared = 0;
    for (group, version) in groups
        .iter()
        .flat_map(|group| group["versions"].as_array().unwrap().iter().map(move |version| (group, version)))
    {
        let prefix = match group["metadata"]["name"].as_str() {
            Some(name) if !name.is_empty() => format!("/apis/{name}"),
            _ => "/api".to_owned(),
        };
        for resource in version["resources"].as_array().unwrap() {
            if !resource["verbs"].as_array().unwrap().contains(&json!("list")) {
                continue;
            }
            let (version, name) = (version["version"].as_str().unwrap(), resource["resource"].as_str().unwrap());
            let path = format!("{prefix}/{version}/{name}");
            let [expected, got] = [&*real, &*embedded].map(|api| {
                let table = api.send(&User::admin(), get(&format!("{path}?limit=1")).header("accept", TABLE)).json();
                table["columnDefinitions"].as_array().unwrap_or_else(|| panic!("{path}: {table}")).clone()
            });
            assert_eq!(got, expected, "{path}");
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared} resources");
}

#[test]
fn answers_begin_with_the_bytes_of_kube_apiserver() {
    let (real, embedded) = sides();
    let things = "/apis/example.com/v1/things";
    for api in [&*real, &*embedded] {
        api.accepts(post(DEFINITIONS, &definition("example.com", &["v1"])));
        eventually("the kind", || (api.send(&User::admin(), get(things)).status == 200).then_some(()));
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
        eventually("the storage of the kind", || {
            (api.send(&User::admin(), post(things, &thing)).status == 201).then_some(())
        });
    }
    let accepts = [
        "application/json",
        TABLE,
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ];
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let mut requests = vec![post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)];
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces",
        "/api/v1/namespaces/nope",
        "/apis/apps/v1/deployments",
        "/api/v1/nope",
        "/api/v9",
        "/apis/apps/v1/nope",
        "/apis/apps/v9",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/nope/v1/things",
        "/apis/example.com/v1/nope",
        "/apis/example.com/v9",
        "/nope",
        "/apis/example.com/v1/things/a",
        things,
        "/apis/example.com/v1/things/b",
        "/apis",
        "/api",
        "/apis/apps",
        "/apis/apps/v1",
        "/api/v1",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
    ] {
        // The form of a list is asked for with lists, and the form of an object with objects.
        let is_list = ["namespaces", "deployments", "things"].iter().any(|list| path.ends_with(list));
        let unfit = if is_list { accepts[2] } else { accepts[3] };
        let fit = accepts.into_iter().filter(|accept| *accept != unfit);
        requests.extend(fit.map(|accept| get(path).header("accept", accept)));
    }
    for request in requests {
        let starts = [&*real, &*embedded].map(|api| {
            let answer = api.send(&User::admin(), request.clone());
            let text = answer.text().replace([' ', '\n'], "");
            // After the first two fields the order is alphabetical.
            let start = text.split(',').take(2).collect::<Vec<_>>().join(",");
            (answer.status, start)
        });
        assert_eq!(starts[1], starts[0], "{} {} {:?}", request.method, request.path, request.headers);
    }
}

#[test]
fn openapi_has_the_paths_of_kube_apiserver() {
    let (real, embedded) = sides();
    let paths = |api: &Api, path: &str| -> Vec<String> {
        let document = api.send(&User::admin(), get(path)).json();
        document["paths"].as_object().unwrap().keys().cloned().collect()
    };
    for path in
        ["/openapi/v2", "/openapi/v3", "/openapi/v3/.well-known/openid-configuration", "/openapi/v3/openid/v1/jwks"]
    {
        let expected = eventually("the document", || {
            let paths = (real.send(&User::admin(), get(path)).status == 200).then(|| paths(&real, path))?;
            (path.len() > 12 || paths.iter().any(|path| path.contains("apiregistration"))).then_some(paths)
        });
        assert_eq!(paths(&embedded, path), expected, "{path}");
    }
}

#[test]
fn forms_that_a_result_cannot_have_are_refused_as_by_kube_apiserver() {
    let (real, embedded) = sides();
    let definition = definition("forms.example.com", &["v1"]);
    let thing = json!({"apiVersion": "forms.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
    let things = "/apis/forms.example.com/v1/things";
    let config_maps = "/api/v1/namespaces/kube-system/configmaps";
    for (path, object) in [(DEFINITIONS, &definition), (things, &thing), (config_maps, &config_map)] {
        for api in [&*real, &*embedded] {
            eventually("the creation", || {
                let answer = api.send(&User::admin(), post(path, object));
                matches!(answer.status, 201 | 409).then_some(())
            });
        }
    }
    let mut requests = Vec::new();
    for form in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        let mut named = config_map.clone();
        named["metadata"]["name"] = json!(form.to_lowercase());
        for request in [
            get(&format!("{config_maps}/a")),
            get(&format!("{things}/a")),
            get("/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=none"),
            get("/apis/coordination.k8s.io/v1/namespaces/default/leases"),
            get("/apis/events.k8s.io/v1/namespaces/default/events"),
            get(&format!("{config_maps}?labelSelector=none")),
            get(&format!("{things}?labelSelector=none")),
            post(config_maps, &named),
            get(&format!("{config_maps}/{}", form.to_lowercase())),
            patch(&format!("{config_maps}/a"), "merge", &json!({"data": {"form": form}})),
            delete(&format!("{config_maps}/{}", form.to_lowercase())),
        ] {
            requests.push(request.header("accept", &accept));
        }
    }
    for request in &requests {
        same(&real, &embedded, request);
    }
}

/// The object at a path after each request, without what differs from server to server.
fn stages(api: &Api, collection: &str, object: &Value, changes: &[Value]) -> Vec<Value> {
    let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
    let mut seen = Vec::new();
    let requests = changes.iter().map(|change| patch(&path, "merge", change));
    for request in std::iter::once(post(collection, object)).chain(requests) {
        let answer = api.send(&User::admin(), request);
        assert!(answer.status < 300, "{path}: {}", answer.text());
        for mut found in [answer.json(), api.send(&User::admin(), get(&path)).json()] {
            normalize(&mut found);
            found["metadata"].as_object_mut().unwrap().remove("managedFields");
            seen.push(found);
        }
    }
    api.send(&User::admin(), delete(&path));
    seen
}

#[test]
fn generations_and_empty_lists_are_stored_as_by_kube_apiserver() {
    let (real, embedded) = sides();
    let metadata =
        [json!({}), json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"annotations": {"a": "b"}}})];
    let of = |version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "stored"}});
        object.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
        object
    };
    let slice = |endpoints: Value| {
        of("discovery.k8s.io/v1", "EndpointSlice", json!({"addressType": "IPv4", "endpoints": endpoints, "ports": []}))
    };
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = json!({"spec": {"selector": {"matchLabels": labels}, "template": template}});
    let namespaced = |group: &str, resource: &str| format!("/apis/{group}/namespaces/kube-system/{resource}");
    let cluster = |group: &str, resource: &str| format!("/apis/{group}/{resource}");
    for (collection, object, change) in [
        (
            cluster("scheduling.k8s.io/v1", "priorityclasses"),
            of("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 1})),
            json!({"description": "d"}),
        ),
        (
            cluster("storage.k8s.io/v1", "csidrivers"),
            of("storage.k8s.io/v1", "CSIDriver", json!({"spec": {}})),
            json!({"spec": {"requiresRepublish": true}}),
        ),
        (
            namespaced("discovery.k8s.io/v1", "endpointslices"),
            slice(json!([])),
            json!({"endpoints": [{"addresses": ["10.0.0.1"]}]}),
        ),
        (
            namespaced("discovery.k8s.io/v1", "endpointslices"),
            slice(json!([{"addresses": ["10.0.0.1"]}])),
            json!({"endpoints": []}),
        ),
        (
            namespaced("apps/v1", "deployments"),
            of("apps/v1", "Deployment", workload.clone()),
            json!({"spec": {"replicas": 2}}),
        ),
        (
            namespaced("apps/v1", "statefulsets"),
            of("apps/v1", "StatefulSet", workload.clone()),
            json!({"spec": {"replicas": 2}}),
        ),
        (
            namespaced("networking.k8s.io/v1", "networkpolicies"),
            of("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}, "ingress": []}})),
            json!({"spec": {"policyTypes": ["Ingress", "Egress"]}}),
        ),
        (
            namespaced("rbac.authorization.k8s.io/v1", "roles"),
            of("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        (
            namespaced("networking.k8s.io/v1", "ingresses"),
            of("networking.k8s.io/v1", "Ingress", json!({"spec": {"rules": [{"host": "a.test"}]}})),
            json!({"spec": {"rules": [{"host": "b.test"}]}}),
        ),
    ] {
        let changes: Vec<Value> = metadata.iter().cloned().chain([change]).collect();
        let [expected, found] = [&*real, &*embedded].map(|api| stages(api, &collection, &object, &changes));
        assert_eq!(found, expected, "{collection}");
    }
}
