//! Compares the strategies of the embedded API server with kube-apiserver's: the values that a write resets, sets, allocates or drops, the
//! writes that a strategy or a storage refuses, and the warnings.

mod pods;
mod services;
mod others;
mod forms;
mod reported;

use crate::harness::differential::with_values;
use crate::harness::seen::{Masks, Seen};
use crate::harness::{Answer, Api, Kept, Proxy, Request, User, eventually, post, proxy_only, upstream};
use kubernetes_object::protobuf;
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
    // The other server has no controllers of namespaces.
    let controllers = "--controllers=*,-namespace-controller,-root-ca-certificate-publisher-controller";
    let embedded = Proxy::embedded(&[&flags[0], &flags[1], "--service-cluster-ip-range=10.0.0.0/24", controllers]);
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

/// The end of a path that is asked until it is served.
const UNTIL: &str = "?until=200";

/// The body of an answer, and its media type unless that is plain JSON.
fn readable(answer: &Answer) -> Vec<u8> {
    let content_type = answer.header("content-type").concat();
    let body = match content_type.split(';').next() {
        Some("application/vnd.kubernetes.protobuf") if content_type.ends_with("stream=watch") => frames(&answer.body),
        Some("application/vnd.kubernetes.protobuf") => object(&answer.body),
        Some("application/json") => match serde_json::from_slice::<Value>(&answer.body) {
            // The order of the fields of a Go type differs.
            Ok(body) if answer.body.starts_with(b"{\n") => {
                json!({"indented": body, "ends": answer.body.ends_with(b"\n")})
            }
            _ => return answer.body.to_vec(),
        },
        // The layout counts as well.
        _ => {
            let version = Regex::new("(resourceVersion: )\"\\d+\"").unwrap();
            json!(version.replace_all(&answer.text(), "$1\"<version>\""))
        }
    };
    json!({"contentType": content_type, "body": body}).to_string().into_bytes()
}

fn object(bytes: &[u8]) -> Value {
    let envelope = protobuf::open(bytes).unwrap();
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    // Some documents of discovery have no version.
    let version = if version.is_empty() { "v1" } else { version };
    let fields = envelope.object(group, version, &envelope.kind).unwrap().fields;
    json!({"apiVersion": envelope.api_version, "kind": envelope.kind, "fields": fields})
}

/// The events of a watch in protobuf: the length of each, its type and its object.
fn frames(mut bytes: &[u8]) -> Value {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        bytes = rest;
        let mut reader = protobuf::wire::Reader(event);
        let mut next = || reader.tag("").unwrap().map(|tag| (tag.number, reader.delimited().unwrap()));
        let (Some((1, kind)), Some((2, raw)), None) = (next(), next(), next()) else { panic!("no event: {event:?}") };
        let mut reader = protobuf::wire::Reader(raw);
        assert_eq!(reader.tag("").unwrap().map(|tag| tag.number), Some(1));
        events.push(json!([String::from_utf8_lossy(kind), object(reader.delimited().unwrap())]));
    }
    events.into()
}

fn answer(api: &Api, client: &Kept, request: &Request, drawn: &Drawn) -> Seen {
    let (sent, values) = with_values(api, request);
    let sent = if sent.headers.iter().any(|(name, _)| name == "user-agent") {
        sent
    } else {
        sent.header("user-agent", "e2e/1.0")
    };
    let mut answer = match sent.path.strip_suffix(UNTIL) {
        Some(path) => {
            let sent = Request { path: path.to_owned(), ..sent.clone() };
            eventually(path, || Some(client.send(&User::admin(), sent.clone())).filter(|answer| answer.status == 200))
        }
        None => client.send(&User::admin(), sent),
    };
    answer.body = readable(&answer).into();
    let text = values.iter().fold(answer.text(), |text, (place, value)| {
        // A version may also be the beginning of a UID.
        let whole = Regex::new(&format!("\\b{}\\b", regex::escape(value))).unwrap();
        whole.replace_all(&text, regex::NoExpand(place)).into_owned()
    });
    answer.body = drawn.hidden(&text).into();
    let accept = request.headers.iter().filter(|(name, _)| name == "accept").map(|(_, value)| value.as_str());
    let accept: String = accept.collect();
    let body: String = String::from_utf8_lossy(&request.body).chars().take(1000).collect();
    let step = format!("{} {} {body} {accept}", request.method, request.path);
    Seen::new("", "", &step, &answer, iter::empty(), &Masks::new(&[]))
}

/// The values that each server draws, and the names of its store.
struct Drawn {
    address: Regex,
    node_port: Regex,
    version: Regex,
    key: Regex,
    /// The ages in the cells of a Table.
    age: Regex,
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
            version: regex(
                r"(ResourceVersion in (?:object meta: |record \()|too old resource version: \d+ \(|larger than max \()\d+\b",
            ),
            key: regex("Key: /[^/]+/"),
            age: regex(r#"(\\?"|- )\d+s\b"#),
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
        let is_table = text.contains("\"kind\":\"Table\"") || text.contains("kind: Table");
        let text = if is_table { self.age.replace_all(&text, "$1<age>") } else { text };
        self.key.replace_all(&text, "Key: /<store>/").into_owned()
    }
}

/// The object with more fields.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}
