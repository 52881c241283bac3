//! Compares the Service `default/kubernetes` of the embedded API server with kube-apiserver's, and the documents about its tokens.

use crate::harness::{
    Api, ControlPlane, Proxy, Request, User, delete, etcd, eventually, get, only, patch, pki, proxy_only,
};
use serde_json::{Value, json};

const OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/default/endpoints/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
];

/// The two servers, with these flags in addition.
fn sides(flags: &[&str]) -> (ControlPlane, Proxy) {
    let service_accounts = &pki().service_accounts;
    let own = [
        format!("--service-account-key-file={}", service_accounts.certificate.display()),
        format!("--service-account-signing-key-file={}", service_accounts.key.display()),
        // kube-apiserver has this issuer from the harness.
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--anonymous-auth".to_owned(),
    ];
    let plugins = proxy_only(&[]);
    let own = plugins.iter().chain(&own).map(String::as_str).chain(flags.iter().copied());
    let embedded = Proxy::embedded(&own.collect::<Vec<_>>());
    // The harness starts kube-apiserver without endpoints.
    let real = ["--endpoint-reconciler-type=lease", "--advertise-address=0.0.0.0"];
    let real: Vec<String> =
        only(&[]).into_iter().chain(real.iter().chain(flags).map(|flag| (*flag).to_owned())).collect();
    // On an empty store, in which kube-apiserver makes the Service.
    (ControlPlane::on(etcd(), "service", &real), embedded)
}

/// The text with `<port>` instead of the port of the server.
fn without_port(api: &Api, text: &str) -> String {
    text.replace(&api.port.to_string(), "<port>")
}

/// The object at a path, without what differs from server to server; `None` if it does not exist.
fn object(api: &Api, path: &str) -> Option<Value> {
    let answer = api.send(&User::admin(), get(path));
    if answer.status == 404 {
        return None;
    }
    let mut object: Value =
        serde_json::from_str(&without_port(api, &answer.text()).replace(":<port>", ":\"<port>\"")).unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field).unwrap();
    }
    let owners = metadata["managedFields"].as_array_mut().unwrap();
    owners.iter_mut().for_each(|owner| drop(owner.as_object_mut().unwrap().remove("time")));
    Some(object)
}

fn all(api: &Api) -> Option<Vec<Value>> {
    OBJECTS.iter().map(|path| object(api, path)).collect()
}

#[test]
fn the_service_of_the_api_server_is_made_and_repaired_as_by_kube_apiserver() {
    let (real, embedded) = sides(&[]);
    let sides: [&Api; 2] = [&real, &embedded];
    let made = sides.map(|api| eventually("the Service kubernetes", || all(api)));
    assert_eq!(made[1], made[0]);
    for path in OBJECTS {
        // The Endpoints are deleted with the Service; here they are back by then.
        let codes = sides.map(|api| api.send(&User::admin(), delete(path)).status);
        assert!(codes[1] == 200 && [200, 404].contains(&codes[0]), "{path}: {codes:?}");
    }
    let again = sides.map(|api| eventually("the deleted objects", || all(api)));
    assert_eq!(again, made);
    let label = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": null, "a": "b"}}});
    let subsets = |subset: Value| json!({"subsets": [subset]});
    let ports = json!([{"name": "other", "port": 1, "protocol": "TCP"}]);
    for (at, change) in [
        (0, json!({"metadata": {"labels": {"component": "other"}}, "spec": {"ports": [{"port": 1, "name": "other"}]}})),
        (1, label),
        (1, subsets(json!({"addresses": [{"ip": "192.0.2.200"}], "ports": ports}))),
        (1, json!({"subsets": null})),
        (2, json!({"endpoints": []})),
        (2, json!({"metadata": {"labels": {"a": "b"}}, "ports": ports})),
    ] {
        for api in sides {
            let answer = api.send(&User::admin(), patch(OBJECTS[at], "merge", &change));
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let expected = eventually("the repair by kube-apiserver", || {
            let found = all(&real)?;
            // The Service itself is not repaired, and the slice follows the Endpoints in a write of its own.
            let is_repaired = at == 0
                || (found[1]["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] == "true"
                    && found[1]["subsets"][0]["addresses"] == made[0][1]["subsets"][0]["addresses"]
                    && found[2]["endpoints"] == made[0][2]["endpoints"]
                    && found[2]["ports"] == found[1]["subsets"][0]["ports"]
                    && found[2]["metadata"]["labels"] == made[0][2]["metadata"]["labels"]);
            is_repaired.then_some(found)
        });
        let got = all(&embedded).unwrap();
        for (expected, got) in expected.iter().zip(&got) {
            assert_eq!(without_owners(got), without_owners(expected), "{change}");
        }
    }
}

/// An object without its owners, and its generation: kube-apiserver repairs several changes at once.
fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata.remove("generation");
    object
}

#[test]
fn a_loopback_address_is_no_endpoint_as_with_kube_apiserver() {
    let (real, embedded) = sides(&["--advertise-address=127.0.0.1"]);
    for api in [&*real, &*embedded] {
        eventually("the Service kubernetes", || object(api, OBJECTS[0]));
        assert_eq!((object(api, OBJECTS[1]), object(api, OBJECTS[2])), (None, None));
    }
}

#[test]
fn tokens_can_be_verified_by_others_as_with_kube_apiserver() {
    const CONFIGURATION: &str = "/.well-known/openid-configuration";
    const KEYS: &str = "/openid/v1/jwks";
    let as_account = |request: Request| {
        let account = request.header("impersonate-user", "system:serviceaccount:default:default");
        account
            .header("impersonate-group", "system:serviceaccounts")
            .header("impersonate-group", "system:authenticated")
    };
    for flags in [
        &[][..],
        &[
            "--service-account-issuer=https://issuer.example.com/a",
            "--service-account-jwks-uri=https://keys.example.com/jwks",
        ],
        &["--advertise-address=192.0.2.3"],
    ] {
        let (real, embedded) = sides(flags);
        let mut requests: Vec<(User, Request)> = Vec::new();
        for path in [CONFIGURATION, KEYS, "/openid/v1/jwks/", "/openid/v1/jwks?a=b", "/openid/v1", "/.well-known"] {
            requests.extend([
                (User::admin(), get(path)),
                (User::admin(), as_account(get(path))),
                (User::admin(), get(path).header("impersonate-user", "bob")),
                (User::Anonymous, get(path)),
            ]);
        }
        for path in [CONFIGURATION, KEYS] {
            for accept in ["application/json", "*/*", "application/*", "text/html, application/jwk-set+json;q=0.1", ""]
            {
                requests.push((User::admin(), get(path).header("accept", accept)));
            }
            for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
                requests.push((User::admin(), Request::new(method, path)));
            }
        }
        let mut differences = Vec::new();
        for (user, request) in requests {
            let [expected, got] = [&*real, &*embedded].map(|api: &Api| {
                let answer = api.send(&user, request.clone());
                let headers = ["content-type", "cache-control"].map(|name| answer.header(name));
                (answer.status, headers, without_port(api, &answer.text()))
            });
            let is_status = expected.2.contains("\"Status\"") && got.2.contains("\"Status\"");
            let is_equal = match is_status {
                true => {
                    let body = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                    (expected.0, &expected.1) == (got.0, &got.1) && body(&expected.2) == body(&got.2)
                }
                false => expected == got,
            };
            if !is_equal {
                let Request { method, path, headers, .. } = request;
                differences.push(format!(
                    "{method} {path} {headers:?}\n  kube-apiserver: {expected:?}\n  embedded:       {got:?}"
                ));
            }
        }
        assert!(differences.is_empty(), "{flags:?}: {} differences\n{}", differences.len(), differences.join("\n"));
    }
}
