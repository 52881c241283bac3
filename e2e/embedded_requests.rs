//! Compares answers of the embedded API server with kube-apiserver's that follow from the request rather than from the object: options, methods,
//! paths, warnings, watches, subresources and versions. The requests are generated.

mod options;
mod paths;
mod subresources;
mod warnings;

use crate::harness::seen::{Masks, Seen};
use crate::harness::{Answer, Api, Kept, Proxy, Request, User, eventually, get, post, proxy_only, upstream};
use regex::Regex;
use serde_json::{Value, json};
use std::iter;

/// The namespace of the requests.
struct Place(String);

impl Place {
    fn path(&self, of: &str) -> String {
        let (prefix, resource) = of.rsplit_once('/').unwrap();
        format!("{prefix}/namespaces/{}/{resource}", self.0)
    }
}

/// kube-apiserver and another server that must answer like it.
struct Servers {
    apis: [Kept; 2],
    /// What the servers draw, and what stands in its place.
    drawn: [(Regex, &'static str); 5],
    differences: Vec<String>,
}

impl Servers {
    fn new(expected: &Api, found: &Api) -> Self {
        let drawn = [
            (r#"(current: |"continue": ?"|Key: /)[^\s"/]+"#, "$1<drawn>"),
            (r#"("(?:nodePort|healthCheckNodePort)":)\d+"#, "${1}0"),
            (r#""10\.0\.0\.\d+""#, "\"<address>\""),
            (r#""\d+s""#, "\"<age>\""),
            (r"in record \([^)]+\)", "in record (<drawn>)"),
        ];
        let drawn = drawn.map(|(text, mask)| (Regex::new(text).unwrap(), mask));
        Self { apis: [expected.kept(), found.kept()], drawn, differences: Vec::new() }
    }

    /// Sends a request to both, whatever the answers are.
    fn set_up(&self, request: &Request) {
        self.apis.iter().for_each(|api| drop(api.send(&User::admin(), request.clone())));
    }

    /// Waits until both answer 200.
    fn wait_for(&self, path: &str) {
        for api in &self.apis {
            eventually(path, || (api.send(&User::admin(), get(path)).status == 200).then_some(()));
        }
    }

    /// Waits until both refuse a request.
    fn wait_until_refused(&self, request: &Request) {
        for api in &self.apis {
            eventually("a refusal", || (api.send(&User::admin(), request.clone()).status == 422).then_some(()));
        }
    }

    /// The answers of both, which are asked at the same time.
    fn answers(&self, request: &Request) -> [Answer; 2] {
        std::thread::scope(|scope| {
            let asked = self.apis.each_ref().map(|api| {
                let request = request.clone();
                scope.spawn(move || api.send(&User::admin(), request))
            });
            asked.map(|answer| answer.join().unwrap())
        })
    }

    /// Compares the answers to a request: codes, types, warnings and bodies.
    fn compare(&mut self, request: Request) {
        let request = match request.headers.iter().any(|(name, _)| name == "user-agent") {
            true => request,
            false => request.header("user-agent", "e2e/1.0"),
        };
        let [expected, found] = self.answers(&request).map(|mut answer| {
            let content_type = answer.header("content-type");
            let text = self
                .drawn
                .iter()
                .fold(answer.text(), |text, (drawn, mask)| drawn.replace_all(&text, *mask).into_owned());
            // The documents of a watch are compared one by one. Whether a bookmark comes shortly before the end is a matter of chance.
            let is_late =
                |event: &Value| event["type"] == "BOOKMARK" && !event.to_string().contains("initial-events-end");
            let documents = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            let documents: Vec<Value> = documents.filter(|event| !is_late(event)).collect();
            answer.body = match documents.as_slice() {
                [one] if text.trim_end().contains('\n') => one.to_string().into(),
                [] | [_] => text.into(),
                _ => json!(documents).to_string().into(),
            };
            (content_type, Seen::new("", "", "", &answer, iter::empty(), &Masks::new(&[])))
        });
        let step = format!(
            "{} {} {:?} {}",
            request.method,
            request.path,
            request.headers,
            String::from_utf8_lossy(&request.body)
        );
        if expected.0 != found.0 {
            self.differences.push(format!("{step}: expected {:?}, found {:?}", expected.0, found.0));
        }
        self.differences
            .extend(expected.1.differences(&found.1).iter().map(|difference| format!("{step}: {difference}")));
    }

    #[track_caller]
    fn are_alike(self) {
        let differences = &self.differences;
        assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    }
}

/// Compares kube-apiserver with the embedded API server, in a namespace with three Secrets.
#[track_caller]
fn with_embedded(namespace: &str, send: impl FnOnce(&mut Servers, &Place)) {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1], "--service-cluster-ip-range=10.0.0.0/24"]);
    let mut servers = Servers::new(upstream(), &embedded);
    begin(&servers, namespace);
    send(&mut servers, &Place(namespace.to_owned()));
    servers.are_alike();
}

/// Compares kube-apiserver with itself behind the proxy.
#[track_caller]
fn with_proxy(namespace: &str, send: impl FnOnce(&mut Servers, &Place)) {
    let proxy = Proxy::before(upstream(), &[]);
    let mut servers = Servers::new(upstream(), &proxy);
    begin(&servers, namespace);
    send(&mut servers, &Place(namespace.to_owned()));
    servers.are_alike();
}

fn begin(servers: &Servers, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    servers.set_up(&post("/api/v1/namespaces", &object));
    for name in ["a", "b", "c"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"l": name}}});
        servers.set_up(&post(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret));
    }
}

/// Defines a custom resource with a status and a scale, and creates three objects, on both servers.
fn define(servers: &Servers, place: &Place, group: &str) -> String {
    let integer = json!({"type": "object", "properties": {"r": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": integer, "status": integer}});
    let scale = json!({"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("wids.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "wids", "singular": "wid", "kind": "Wid", "listKind": "WidList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": scale}}]}});
    servers.set_up(&post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition));
    let path = format!("/apis/{group}/v1/wids");
    servers.wait_for(&path);
    let path = place.path(&path);
    for name in ["a", "b", "c"] {
        let object =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Wid", "metadata": {"name": name}, "spec": {"r": 1}});
        let request = post(&path, &object);
        for api in &servers.apis {
            // Another API server behind the first one may serve the definition a moment later.
            eventually("a custom object", || {
                [201, 409].contains(&api.send(&User::admin(), request.clone()).status).then_some(())
            });
        }
    }
    path
}

/// A text in a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
