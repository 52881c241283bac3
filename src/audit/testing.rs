//! Events and sinks for tests.

use super::{Acknowledgement, Audit, Encoded, Metrics, Request, Sink};
use crate::metrics::Registry;
use crate::object::Object;
use crate::request::request_info;
use crate::server::Reloading;
use crate::user::UserInfo;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Keeps all events in memory.
#[derive(Default)]
pub(crate) struct Lines(pub(crate) Mutex<Vec<Value>>);

impl Lines {
    /// The events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }

    /// The last event.
    pub(crate) fn last(&self) -> Value {
        self.events().pop().unwrap()
    }
}

impl Sink for Lines {
    fn write(&self, event: &Encoded<'_>, _: bool) -> Option<Acknowledgement> {
        self.0.lock().unwrap().push(serde_json::from_str(event.json()).unwrap());
        None
    }
}

/// Calls `with` with the first event of a read with this audit ID.
pub(super) fn encoded<R>(id: &str, with: impl FnOnce(&Encoded<'_>) -> R) -> R {
    let info = request_info(&Method::GET, &"/x".parse().unwrap());
    let event = audit("Metadata", Arc::new(Lines::default())).begin(&request(&info, id), &UserInfo::default());
    with(&event.unwrap().encoded())
}

/// Calls `with` with an event that has an object of about these bytes.
pub(super) fn with_object<R>(bytes: usize, with: impl FnOnce(&Encoded<'_>) -> R) -> R {
    let info = request_info(&Method::POST, &"/api/v1/namespaces/n/configmaps".parse().unwrap());
    let event = audit("Request", Arc::new(Lines::default())).begin(&request(&info, "a"), &UserInfo::default());
    let mut event = event.unwrap();
    event.set_request_object(&Object::from_value(json!({"data": {"k": "x".repeat(bytes)}})).unwrap());
    with(&event.encoded())
}

/// The audit IDs of lines.
pub(super) fn ids(lines: &str) -> Vec<String> {
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["auditID"].as_str().unwrap().to_owned();
    lines.lines().map(id).collect()
}

/// Auditing of all requests at this level into a sink.
pub(crate) fn audit(level: &str, sink: Arc<dyn Sink>) -> Audit {
    let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {level}}}]\n").parse().unwrap();
    Audit::new(Reloading::fixed(policy), vec![sink], Metrics::register(&Registry::new()).unwrap(), true)
}

/// The properties of a request without an object.
pub(crate) fn request<'a>(info: &'a crate::request::RequestInfo, audit_id: &'a str) -> Request<'a> {
    Request { info, audit_id, uri: "/x", user_agent: "", source_ips: Vec::new(), received: Timestamp::UNIX_EPOCH }
}
