//! A client that sends and receives JSON.

use crate::body::{Body, empty, full};
use crate::config::Limits;
use crate::embedded::Server;
use crate::upstream::Transport;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct Client {
    pub(super) server: Arc<Server>,
    headers: Vec<(&'static str, String)>,
}

/// A response: its code and its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Answer {
    /// The body of a response with this code.
    #[track_caller]
    pub(super) fn with_code(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    /// The message of a failure with this code.
    #[track_caller]
    pub(super) fn refused(self, code: u16) -> String {
        let body = self.with_code(code);
        assert_eq!(body["kind"], "Status", "{body}");
        assert_eq!(body["status"], "Failure", "{body}");
        assert_eq!(body["code"], code, "{body}");
        body["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(super) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(super) fn with_limits(limits: Limits) -> Self {
        Self::of(Server::new(Arc::new(limits)))
    }

    pub(super) fn of(server: Arc<Server>) -> Self {
        Self { server, headers: Vec::new() }
    }

    /// A client of the same server, with one more header in every request.
    pub(super) fn header(&self, name: &'static str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.push((name, value.to_owned()));
        Self { server: self.server.clone(), headers }
    }

    pub(super) async fn send(&self, method: Method, path: &str, media_type: &str, body: Body) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header("content-type", media_type);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        self.server.send(request.body(body).unwrap()).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, media_type: &str, body: Body) -> Answer {
        let response = self.send(method, path, media_type, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { code, body }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "", empty()).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, "application/json", full(body.to_string())).await
    }

    pub(super) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::PUT, path, "application/json", full(body.to_string())).await
    }

    pub(super) async fn post_as(&self, path: &str, media_type: &str, body: &str) -> Answer {
        self.ask(Method::POST, path, media_type, full(body.to_owned())).await
    }

    pub(super) async fn patch(&self, path: &str, kind: &str, body: Value) -> Answer {
        self.patch_as(path, &format!("application/{kind}-patch+json"), body).await
    }

    pub(super) async fn patch_as(&self, path: &str, media_type: &str, body: Value) -> Answer {
        self.ask(Method::PATCH, path, media_type, full(body.to_string())).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, "", empty()).await
    }

    pub(super) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.ask(Method::DELETE, path, "application/json", full(options.to_string())).await
    }

    pub(super) async fn watch(&self, path: &str) -> Events {
        let response = self.send(Method::GET, path, "", empty()).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body() }
    }
}

/// The events of a watch. Every frame of the body is one event.
pub(super) struct Events {
    body: Body,
}

impl Events {
    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        let frame = self.body.frame().await?.unwrap();
        let event: Value = serde_json::from_slice(&frame.into_data().unwrap()).unwrap();
        Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()))
    }

    /// The type and the object's name of the next event.
    pub(super) async fn next_name(&mut self) -> Option<(String, String)> {
        let (kind, object) = self.next().await?;
        Some((kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned()))
    }
}

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(super) fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

pub(super) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub(super) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

pub(super) fn pair(kind: &str, name: &str) -> Option<(String, String)> {
    Some((kind.to_owned(), name.to_owned()))
}
