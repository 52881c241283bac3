//! A webhook that records its requests. The path determines the response.

use super::client::certificates;
use super::pki::pki;
use super::{block_on, runtime};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The `timeoutSeconds` of webhooks, the most that Kubernetes allows: on a slow machine a call takes longer than the default of 10 s.
pub const WEBHOOK_SECONDS: u32 = 30;

/// A received AdmissionReview or ImageReview.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Value,
    /// The headers.
    pub headers: http::HeaderMap,
}

/// An action before the response to an AdmissionReview.
type Meddler = Arc<dyn Fn(&Review) + Send + Sync>;

/// A running webhook. Paths: `/image` for ImageReviews, `/allow`, `/deny`, `/warn`, `/label/KEY/VALUE`, `/patch/PATCH` in base64 for URLs,
/// `/http/CODE`, `/garbage`, `/meddle`, which runs the action of [`Webhook::meddle`] and then allows, and `/held`, which allows, but an
/// object with the name `held` only after a call of [`Webhook::release`]. `/convert/FIELD` is for ConversionReviews, which are not
/// recorded: see [`converted`]. The response to an AdmissionReview of v1alpha1, which is sent to no path, may be in the annotation
/// `e2e.test/answer` of the object.
pub struct Webhook {
    port: u16,
    reviews: Arc<Mutex<Vec<Review>>>,
    released: watch::Sender<bool>,
    meddler: Arc<Mutex<Option<Meddler>>>,
}

impl Webhook {
    /// Starts a webhook on a loopback address.
    pub fn start() -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into())
    }

    /// Starts a webhook on an address that an endpoint of a Service may have: the address of this machine on its way out.
    pub fn start_as_endpoint() -> (Self, SocketAddr) {
        let route = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        route.connect("192.0.2.1:9").unwrap();
        let address = route.local_addr().unwrap().ip();
        let webhook = Self::start_on(address);
        let socket = SocketAddr::new(address, webhook.port);
        (webhook, socket)
    }

    fn start_on(address: IpAddr) -> Self {
        let _ = runtime();
        let pki = pki();
        let chain = certificates(&pki.server.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&pki.server.key).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = block_on(TcpListener::bind((address, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let reviews = Arc::new(Mutex::new(Vec::new()));
        let (released, holds) = watch::channel(false);
        let seen = Arc::clone(&reviews);
        let meddler = Arc::new(Mutex::new(None));
        let meddles = Arc::clone(&meddler);
        runtime().spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, seen, holds) = (acceptor.clone(), Arc::clone(&seen), holds.clone());
                let meddles = Arc::clone(&meddles);
                tokio::spawn(async move {
                    let connection = acceptor.accept(connection).await.ok()?;
                    let service = service_fn(move |request| {
                        let meddler = meddles.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        answer(request, Arc::clone(&seen), holds.clone(), meddler)
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    server.serve_connection(TokioIo::new(connection), service).await.ok()
                });
            }
        });
        Self { port, reviews, released, meddler }
    }

    /// Sets the action that `/meddle` runs before it allows.
    pub fn meddle(&self, how: impl Fn(&Review) + Send + Sync + 'static) {
        *self.meddler.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(how));
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<Review> {
        std::mem::take(&mut *self.reviews.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a request.
    pub fn asked(&self) {
        super::eventually("a question to the webhook", || {
            (!self.reviews.lock().unwrap_or_else(PoisonError::into_inner).is_empty()).then_some(())
        });
    }

    /// Releases the requests that wait at `/held`.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// A configuration of this kind (`Mutating` or `Validating`) for all objects.
    pub fn about_everything(&self, kind: &str, path: &str) -> Value {
        let authorities = STANDARD.encode(std::fs::read(pki().ca()).unwrap());
        let name = format!("{}.e2e.test", kind.to_lowercase());
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "everything"},
        "webhooks": [{
             "name": name,
             "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": authorities},
             "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
             "sideEffects": "None",
             "timeoutSeconds": WEBHOOK_SECONDS,
             "admissionReviewVersions": ["v1"],
        }]})
    }

    /// The `clientConfig` for a path.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": STANDARD.encode(std::fs::read(pki().ca()).unwrap())})
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// A configuration of this kind (`Mutating` or `Validating`) for all objects in one namespace, with one webhook for each path.
    pub fn configuration(&self, kind: &str, name: &str, namespace: &str, paths: &[&str]) -> Value {
        let authorities = STANDARD.encode(std::fs::read(pki().ca()).unwrap());
        let webhooks: Vec<Value> = paths
            .iter()
            .enumerate()
            .map(|(index, path)| {
                json!({
                    "name": format!("hook-{index}.e2e.test"),
                    "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": authorities},
                    "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps", "pods"]}],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "sideEffects": "None",
                    "timeoutSeconds": WEBHOOK_SECONDS,
                    "admissionReviewVersions": ["v1"],
                })
            })
            .collect();
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
               "metadata": {"name": name}, "webhooks": webhooks})
    }
}

type Reviews = Arc<Mutex<Vec<Review>>>;

async fn answer(
    request: http::Request<Incoming>,
    seen: Reviews,
    mut holds: watch::Receiver<bool>,
    meddler: Option<Meddler>,
) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let headers = request.headers().clone();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let one = Review { path: path.clone(), body: review.clone(), headers };
    let path = path.split('?').next().unwrap_or_default();
    if let Some(how) = path.strip_prefix("/convert/") {
        return Ok(converted(&review, how));
    }
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(one.clone());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    let mut code = 200;
    match parts.as_slice() {
        ["deny"] => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "denied by the test"});
        }
        ["warn"] => response["warnings"] = json!(["first warning", "second warning"]),
        ["label", key, value] => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(label(&review["request"]["object"], key, value).to_string()));
        }
        ["patch", encoded] => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default()));
        }
        ["answer", encoded] => {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default()).unwrap_or_default();
            let uid = review["request"]["uid"].as_str().unwrap_or_default();
            return Ok(http::Response::new(Full::from(text.replace("UID", uid))));
        }
        ["image"] => return Ok(image_review(&review)),
        ["http", number] => code = number.parse().unwrap_or(500),
        ["garbage"] => response = Value::Null,
        ["meddle"] => {
            if let Some(meddler) = meddler {
                let _ = tokio::task::spawn_blocking(move || meddler(&one)).await;
            }
        }
        ["held", ..] if review["request"]["name"] == "held" => {
            let _ = holds.wait_for(|released| *released).await;
        }
        _ => {}
    }
    if let Some(text) = review["spec"]["object"]["annotations"]["e2e.test/answer"].as_str() {
        response = serde_json::from_str(text).unwrap_or_default();
    }
    let part = if review["apiVersion"] == "admission.k8s.io/v1alpha1" { "status" } else { "response" };
    let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", part: response});
    let mut answer = http::Response::new(Full::from(answer.to_string()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// The response to a ConversionReview: `spec.FIELD` is a list of one item in all versions but v1. An object with the name `bad-…` is
/// converted wrongly from v1 to other versions; its stored v1 can still be read as v1.
fn converted(review: &Value, field: &str) -> http::Response<Full<Bytes>> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let mut result = json!({"status": "Success"});
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = wanted.into();
        let is_v1 = wanted.ends_with("/v1");
        if let Some(value) = object["spec"].get_mut(field) {
            match value {
                Value::Array(items) if is_v1 => *value = items.pop().unwrap_or_default(),
                Value::Array(_) => {}
                _ if !is_v1 => *value = json!([value]),
                _ => {}
            }
        }
        match object["metadata"]["name"].as_str().unwrap_or_default() {
            _ if is_v1 => {}
            "bad-status" => result = json!({"status": "Failure", "message": "refused by the test"}),
            "bad-name" => object["metadata"]["name"] = "other".into(),
            "bad-version" => object["apiVersion"] = "other/v1".into(),
            "bad-labels" => object["metadata"]["labels"] = json!({"a b": "c"}),
            _ => {}
        }
    }
    let response = json!({"uid": request["uid"], "result": result, "convertedObjects": objects});
    let answer = json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
    let mut answer = http::Response::new(Full::from(answer.to_string()));
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

/// The response to an ImageReview. The names of the images contain the response.
fn image_review(review: &Value) -> http::Response<Full<Bytes>> {
    let images: Vec<&str> =
        review["spec"]["containers"].as_array().into_iter().flatten().filter_map(|one| one["image"].as_str()).collect();
    let wants = |part: &str| images.iter().find_map(|image| image.strip_prefix(part));
    let status = |status: Value| json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "status": status});
    let of =
        |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "status": {"allowed": true}});
    let mut code = 200;
    let mut content_type = "application/json";
    let body = match wants("raw-") {
        Some("hello") => json!({"hello": "world"}).to_string(),
        Some("typed") => status(json!({"allowed": "yes"})).to_string(),
        Some("cased") => status(json!({"Allowed": true})).to_string(),
        Some("status") => status(json!([])).to_string(),
        Some("annotations") => status(json!({"allowed": true, "auditAnnotations": {"a": 1}})).to_string(),
        Some("spec") => json!({"spec": "s", "status": {"allowed": true}}).to_string(),
        Some("pod") => of("v1", "Pod").to_string(),
        Some("admission") => of("admission.k8s.io/v1", "AdmissionReview").to_string(),
        Some("newer") => of("imagepolicy.k8s.io/v1", "ImageReview").to_string(),
        Some("failure") => {
            json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "m"}).to_string()
        }
        Some("yaml") => "status:\n  allowed: true\n".to_owned(),
        Some("html") => "<html>".to_owned(),
        Some("list") => "[1]".to_owned(),
        Some("empty") => String::new(),
        _ if wants("bad").is_some() => status(json!({"allowed": false, "reason": "denied by the test"})).to_string(),
        _ if wants("silent").is_some() => status(json!({"allowed": false})).to_string(),
        _ => match (wants("code-"), wants("status-")) {
            (Some(number), _) => {
                (code, content_type) = (number.parse().unwrap_or(500), "text/plain");
                "said by the test".to_owned()
            }
            (_, Some(number)) => {
                code = number.parse().unwrap_or(500);
                json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "own words", "code": code,
                       "reason": if code == 403 { "Forbidden" } else { "NotFound" }, "details": {"name": "d"}})
                .to_string()
            }
            _ => status(json!({"allowed": true})).to_string(),
        },
    };
    let mut answer = http::Response::new(Full::from(body));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static(content_type));
    answer
}

/// The patch that adds a label.
fn label(object: &Value, key: &str, value: &str) -> Value {
    match object["metadata"].get("labels") {
        Some(Value::Object(_)) => json!([{"op": "add", "path": format!("/metadata/labels/{key}"), "value": value}]),
        _ => json!([{"op": "add", "path": "/metadata/labels", "value": {key: value}}]),
    }
}
