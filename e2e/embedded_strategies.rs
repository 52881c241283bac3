//! Compares the strategies of the embedded API server with kube-apiserver's: the values that a write resets, sets, allocates or drops, the
//! writes that a strategy or a storage refuses, and the warnings.

mod pods;
mod services;
mod others;

use crate::harness::differential::with_values;
use crate::harness::seen::{Masks, Seen};
use crate::harness::{Api, Kept, Proxy, Request, User, post, proxy_only, upstream};
use regex::Regex;
use serde_json::{Value, json};
use std::iter;

/// Sends the requests to both servers, and compares the answers and the managedFields.
///
/// # Panics
/// If an answer differs; the message lists every difference.
#[track_caller]
fn compare(namespace: &str, requests: impl Fn(&str) -> Vec<Request>) {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1], "--service-cluster-ip-range=10.0.0.0/24"]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    sides.iter().for_each(|api| drop(api.accepts(post("/api/v1/namespaces", &object))));
    let requests = requests(namespace);
    let drawn = Drawn::but_in(&requests);
    let kept = sides.map(Api::kept);
    let mut differences = Vec::new();
    for request in &requests {
        let [expected, found] = [0, 1].map(|side| answer(sides[side], &kept[side], request, &drawn));
        for difference in expected.differences(&found) {
            differences.push(difference.to_string());
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

fn answer(api: &Api, client: &Kept, request: &Request, drawn: &Drawn) -> Seen {
    let (sent, values) = with_values(api, request);
    let sent = if sent.headers.iter().any(|(name, _)| name == "user-agent") {
        sent
    } else {
        sent.header("user-agent", "e2e/1.0")
    };
    let mut answer = client.send(&User::admin(), sent);
    let text = values.iter().fold(answer.text(), |text, (place, value)| text.replace(value, place));
    answer.body = drawn.hidden(&text).into();
    let step = format!("{} {} {}", request.method, request.path, String::from_utf8_lossy(&request.body));
    Seen::new("", "", &step, &answer, iter::empty(), &Masks::new(&[]))
}

/// The values that each server draws, and the names of its store.
struct Drawn {
    address: Regex,
    node_port: Regex,
    version: Regex,
    key: Regex,
    /// The bodies of the requests, whose values are not drawn.
    sent: String,
}

impl Drawn {
    fn but_in(requests: &[Request]) -> Self {
        let sent = requests.iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
        let regex = |text: &str| Regex::new(text).unwrap();
        Self {
            address: regex(r#""10\.0\.0\.\d+""#),
            node_port: regex(r#""(nodePort|healthCheckNodePort)":\d+"#),
            version: regex(r"(ResourceVersion in (?:object meta: |record \())\d+\b"),
            key: regex("Key: /[^/]+/"),
            sent,
        }
    }

    fn hidden(&self, text: &str) -> String {
        let unless_sent = |found: &regex::Captures<'_>, mask: String| match self.sent.contains(&found[0]) {
            true => found[0].to_owned(),
            false => mask,
        };
        let text =
            self.address.replace_all(text, |found: &regex::Captures<'_>| unless_sent(found, "\"<address>\"".into()));
        let text = self.node_port.replace_all(&text, |found: &regex::Captures<'_>| {
            unless_sent(found, format!("\"{}\":\"<port>\"", &found[1]))
        });
        let text = self.version.replace_all(&text, "$1<version>");
        self.key.replace_all(&text, "Key: /<store>/").into_owned()
    }
}

/// The object with more fields.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}
