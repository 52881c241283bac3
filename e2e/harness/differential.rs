//! Sends the same requests to a kube-apiserver with admission plugins, and through the proxy to one without: the responses and the
//! webhooks' requests must be equal.

use super::api::Api;
use super::client::{Answer, Kept, Request, get};
use super::control_plane::{ControlPlane, only, upstream};
use super::proxy::{Proxy, proxy_only};
use super::reviewed::{Reviewed, Side};
use super::user::User;
use super::webhook::{Review, Webhook};
use super::{eventually, patience};
use jiff::{SignedDuration, Timestamp};
use kubernetes_object::cbor;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A list of requests, and the plugins for them. In bodies, `{uid of PATH}` is the uid of the object at that path, and
/// `{resourceVersion of PATH}` its resourceVersion.
pub struct Case<'a> {
    /// The plugins that run on both sides, and no others.
    pub plugins: &'a [&'a str],
    /// Requests that are sent first, as admin; they must succeed.
    pub setup: Vec<Request>,
    /// A webhook, a request, and the number of reviews for it from a side that knows all configurations of the webhook.
    pub webhook: Option<(&'a Webhook, Request, usize)>,
    /// The requests to compare.
    pub steps: Vec<(User, Request)>,
}

/// The response to a request, without values that differ from run to run.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    step: String,
    code: u16,
    warnings: Vec<String>,
    body: Value,
    reviews: Vec<Value>,
}

/// Runs the case on both sides.
///
/// # Panics
/// If the two sides differ; the message lists every difference.
pub fn compare(case: &Case<'_>) {
    compare_with(case, &[], |_| ());
}

/// As [`compare`], but first waits until these requests get these codes: plugins read from caches that lag behind the setup.
///
/// # Panics
/// If the two sides differ.
pub fn compare_when(ready: &[(User, Request, u16)], case: &Case<'_>) {
    compare_with(case, &[], |api| {
        for (user, request, code) in ready {
            eventually(&format!("{code} of {} {}", request.method, request.path), || {
                (api.send(user, with_values(api, request).0).status == *code).then_some(())
            });
        }
    });
}

/// As [`compare`], with more flags on both sides, and a `ready` that waits before the steps.
///
/// # Panics
/// If the two sides differ.
pub fn compare_with(case: &Case<'_>, flags: &[String], ready: impl Fn(&Api)) {
    let expected = {
        let reference = reference(&[&only(case.plugins), flags].concat());
        run(case, reference.get().unwrap(), &ready)
    };
    let side = if Side::is_front_end() {
        let gates: Vec<String> = flags.iter().filter(|flag| flag.starts_with("--feature-gates=")).cloned().collect();
        Side::Reviewed(Box::new(Reviewed::start(case.plugins, flags, &gates, &[])))
    } else {
        let own = proxy_only(case.plugins);
        let flags: Vec<&str> = own.iter().chain(flags).map(String::as_str).collect();
        Side::Proxy(Proxy::before(upstream(), &flags))
    };
    let got = run(case, &side, &ready);
    must_be_equal(&expected, &got, side.process());
}

/// A kube-apiserver with these flags, shared by tests that compare at about the same time. Their objects have names of their own, since all of
/// them share the upstream of the proxies too.
fn reference(flags: &[String]) -> Arc<OnceLock<ControlPlane>> {
    type Running = Vec<(Vec<String>, Arc<OnceLock<ControlPlane>>)>;
    static RUNNING: Mutex<Running> = Mutex::new(Vec::new());
    /// The number of those that wait for another test: tests of one subject follow one another.
    const WAITING: usize = 2;
    let shared = {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let known = running.iter().position(|(of, _)| of == flags).map(|at| running.remove(at));
        let (of, shared) = known.unwrap_or_else(|| (flags.to_vec(), Arc::default()));
        // The oldest come first.
        let mut unused = running.iter().filter(|(_, one)| Arc::strong_count(one) == 1).count();
        running.retain(|(_, one)| {
            let ends = Arc::strong_count(one) == 1 && unused >= WAITING;
            unused -= usize::from(ends);
            !ends
        });
        running.push((of, Arc::clone(&shared)));
        shared
    };
    shared.get_or_init(|| ControlPlane::start("reference", flags));
    shared
}

/// Fields of requests whose empty value a review does not show, and the message of the plugin that kube-apiserver refuses them with.
const UNSEEN: [(&str, &str); 2] = [
    ("\"overhead\":{}", "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ("\"certificate\":\"\"", "user not permitted to sign requests with signerName"),
];

/// Whether kube-apiserver refuses the request for an empty value that a review does not show.
fn is_unseen(expected: &Seen) -> bool {
    let message = expected.body["message"].as_str().unwrap_or_default();
    UNSEEN.iter().any(|(field, refusal)| expected.step.contains(field) && message.contains(refusal))
}

/// Fails the test if the responses of the two sides differ.
pub(super) fn must_be_equal(expected: &[Seen], got: &[Seen], proxy: &Proxy) {
    let mut differences = Vec::new();
    for (expected, got) in expected.iter().zip(got) {
        if Side::is_front_end() && is_unseen(expected) {
            assert!(got.code < 300, "the front end sees {}: remove it from UNSEEN", expected.step);
        } else if expected != got {
            let (expected_json, got_json) = (as_json(expected), as_json(got));
            let mut places = Vec::new();
            differ("", &expected_json, &got_json, &mut places);
            differences.push(format!("{}:\n    {}", expected.step, places.join("\n    ")));
        }
    }
    let differences = differences.join("\n");
    assert!(
        differences.is_empty(),
        "the proxy (right) does not answer as kube-apiserver (left)\n{differences}\n{}",
        proxy.output()
    );
}

pub(super) fn run(case: &Case<'_>, api: &Api, ready: impl Fn(&Api)) -> Vec<Seen> {
    api.set_up(&case.setup);
    if let Some((webhook, probe, count)) = &case.webhook {
        eventually(&format!("{count} reviews of {} {}", probe.method, probe.path), || {
            webhook.take();
            api.send(&User::admin(), probe.clone());
            (webhook.take().iter().filter(|review| is_sent(review)).count() >= *count).then_some(())
        });
    }
    ready(api);
    let webhook = case.webhook.as_ref().map(|(webhook, ..)| *webhook);
    let client = api.kept();
    case.steps.iter().map(|(user, request)| step(webhook, api, &client, user, request)).collect()
}

/// Sends only the steps, to a side that knows the webhook, and records the webhook's requests.
pub(super) fn run_asked(steps: &[(User, Request)], api: &Api, webhook: &Webhook) -> Vec<Seen> {
    let client = api.kept();
    steps.iter().map(|(user, request)| step(Some(webhook), api, &client, user, request)).collect()
}

/// Waits until the caches of the API server have what a request wrote. The next write could begin with an older state otherwise, find the newer one
/// when it stores the object, and call the webhooks once more.
fn catch_up(client: &Kept, (method, path): (String, String), answer: &Answer) {
    let object: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |field: &str| object["metadata"][field].as_str();
    let (Some(name), Some(version)) = (text("name"), text("resourceVersion")) else { return };
    if method != "GET" {
        let path = path.split('?').next().unwrap_or_default();
        let object = if path.ends_with(&format!("/{name}")) { path.to_owned() } else { format!("{path}/{name}") };
        client.send(&User::admin(), get(&format!("{object}?resourceVersion={version}")));
    }
}

fn step(webhook: Option<&Webhook>, api: &Api, client: &Kept, user: &User, request: &Request) -> Seen {
    let (sent, values) = with_values(api, request);
    let written = (sent.method.clone(), sent.path.clone());
    let answer = client.send(user, sent);
    if webhook.is_some() {
        catch_up(client, written, &answer);
    }
    let placed = |text: String| values.iter().fold(text, |text, (place, value)| text.replace(value, place));
    let text = placed(answer.text());
    let mut body = match cbor::is_cbor(&answer.body) {
        true => json!({"in CBOR": cbor::decode(&answer.body).unwrap()}),
        false => serde_json::from_str(&text).unwrap_or_else(|_| json!(text)),
    };
    let generated = generated_name(request, &body);
    let mut reviews: Vec<Value> = Vec::new();
    for review in webhook.into_iter().flat_map(Webhook::take).filter(is_sent) {
        let mut review = json!({"path": review.path, "body": review.body});
        mask(&mut review, generated.as_deref());
        reviews.push(review);
    }
    // Validating webhooks are called concurrently.
    reviews.sort_by_key(|review| (review["path"].to_string(), review.to_string()));
    mask(&mut body, generated.as_deref());
    let body = as_of_plugin(body);
    let step = format!("{} {} {}", request.method, request.path, String::from_utf8_lossy(&request.body));
    Seen {
        step,
        code: answer.status,
        warnings: answer.header("warning").into_iter().map(placed).collect(),
        body,
        reviews,
    }
}

/// A response with the message of the plugin, if the front end refused the request.
pub fn as_of_plugin(mut body: Value) -> Value {
    if let Some(text) = body["message"].as_str().and_then(without_webhook) {
        body["message"] = json!(text);
    }
    body
}

/// Returns whether a request of a test caused the review. kube-apiserver writes objects of its own at any time.
fn is_sent(review: &Review) -> bool {
    review.body["request"]["userInfo"]["username"] != "system:apiserver"
}

/// The message of a plugin in kube-apiserver's message about a refusal of the front end.
fn without_webhook(message: &str) -> Option<String> {
    let rest = message.strip_prefix("admission webhook \"")?;
    let (name, text) = rest.split_once("\" denied the request: ")?;
    name.ends_with(".kube-admission-proxy.dev").then(|| text.to_owned())
}

/// Replaces `{uid of PATH}` and `{resourceVersion of PATH}` in a request's body; returns each place with its value.
pub fn with_values(api: &Api, request: &Request) -> (Request, Vec<(String, String)>) {
    let (mut sent, mut values) = (request.clone(), Vec::new());
    let Ok(mut body) = String::from_utf8(request.body.to_vec()) else { return (sent, values) };
    for field in ["uid", "resourceVersion"] {
        let open = format!("{{{field} of ");
        while let Some((_, rest)) = body.split_once(&open) {
            let path = rest.split('}').next().unwrap_or_default();
            let object = api.send(&User::admin(), get(path)).json();
            let value = object["metadata"][field].as_str().unwrap_or_default().to_owned();
            assert!(!value.is_empty(), "nothing at {path}");
            let place = format!("{open}{path}}}");
            body = body.replace(&place, &value);
            values.push((place, value));
        }
    }
    sent.body = body.into();
    (sent, values)
}

/// The generated name of the object in a response, or of the rejected object.
fn generated_name(request: &Request, answer: &Value) -> Option<String> {
    if answer["metadata"]["generateName"].is_string() {
        return answer["metadata"]["name"].as_str().map(str::to_owned);
    }
    let sent: Value = serde_json::from_slice(&request.body).ok()?;
    let prefix = sent["metadata"]["generateName"].as_str()?;
    answer["details"]["name"].as_str().filter(|name| *name != prefix && name.starts_with(prefix)).map(str::to_owned)
}

/// Removes values that differ from run to run.
fn mask(value: &mut Value, generated: Option<&str>) {
    match value {
        Value::Object(map) => {
            map.remove("uid");
            // The proxy's own writes have its name as the manager. The order of entries is that of their times in seconds.
            if let Some(entries) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                entries.retain(|entry| entry["operation"] == "Apply");
                entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| drop(entry.remove("time")));
                entries.sort_by_cached_key(Value::to_string);
            }
            if map.get("managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                map.remove("managedFields");
            }
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "resourceVersion" | "token" | "expirationTimestamp" if value.is_string() => {
                        *value = json!("<masked>")
                    }
                    _ => mask(value, generated),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| mask(value, generated)),
        Value::String(text) if is_now(text) => *text = "<now>".to_owned(),
        Value::String(text) => {
            if let Some(name) = generated {
                *text = text.replace(name, "<generated>");
            }
            // The name of a service account token's volume ends in five random letters.
            if let Some(drawn) = text.strip_prefix("kube-api-access-").filter(|drawn| drawn.len() == 5) {
                *text = text.replace(drawn, "<drawn>");
            }
            // An object in a message.
            while let Some((before, (_, after))) = text
                .split_once("Invalid value: \"{")
                .and_then(|(before, rest)| Some((before, rest.split_once("}\": ")?)))
            {
                *text = format!("{before}Invalid value: <masked>: {after}");
            }
        }
        _ => {}
    }
}

/// Whether the text is a time that a server wrote during this run, or at which it will act soon.
fn is_now(text: &str) -> bool {
    const AHEAD: SignedDuration = SignedDuration::from_mins(15);
    // The shared API server is as old as the whole run: at most 90 minutes, on a machine that needs no patience.
    let longest_run = SignedDuration::try_from(60 * patience()).unwrap();
    text.parse().is_ok_and(|time: Timestamp| {
        let age = Timestamp::now().duration_since(time);
        -AHEAD < age && age < longest_run
    })
}

fn as_json(seen: &Seen) -> Value {
    json!({"code": seen.code, "warnings": seen.warnings, "body": seen.body, "reviews": seen.reviews})
}

/// The paths where two values differ.
fn differ(path: &str, left: &Value, right: &Value, places: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            let missing = Value::String("<missing>".to_owned());
            let of = |map: &Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_else(|| missing.clone());
            for key in keys {
                differ(&format!("{path}.{key}"), &of(left, key), &of(right, key), places);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{path}[{index}]"), left, right, places);
            }
        }
        _ if left == right => {}
        _ => places.push(format!("{path}: {left} | {right}")),
    }
}
