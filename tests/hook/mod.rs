//! A webhook on a thread of its own, so that its allocations are not counted. It allows all objects, and on `/label` adds a label.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The webhook; it runs until the process ends.
pub(crate) struct Hook {
    port: u16,
    ca: String,
    connections: Arc<AtomicUsize>,
}

impl Hook {
    pub(crate) fn start() -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = ca.self_signed(&ca_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into());
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections: Arc<AtomicUsize> = Arc::default();
        let count = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let session = rustls::ServerConnection::new(config.clone()).unwrap();
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || serve(&mut rustls::StreamOwned::new(session, stream)));
            }
        });
        Self { port, ca: STANDARD.encode(pem), connections }
    }

    /// The number of connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// A configuration of this kind with `count` webhooks, for config maps of this namespace.
    pub(crate) fn configuration(&self, kind: &str, namespace: &str, path: &str, count: usize) -> String {
        let hooks: Vec<Value> = (0..count)
            .map(|number| {
                json!({
                    "name": format!("hook-{number}.{namespace}.test"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.ca},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                })
            })
            .collect();
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": namespace}, "webhooks": hooks})
        .to_string()
    }
}

/// Serves the requests of a connection.
fn serve(stream: &mut (impl Read + Write)) -> Option<()> {
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        seen.extend_from_slice(&buffer[..read]);
        let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&seen[..end]).to_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
        if seen.len() < end + 4 + length {
            continue;
        }
        let body = String::from_utf8_lossy(&seen[end + 4..]).into_owned();
        let uid = body.split_once("\"uid\":\"")?.1.split('"').next()?;
        let mut response = json!({"uid": uid, "allowed": true});
        if head.contains("/label") {
            let patch = r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#;
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch).into();
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        let (review, head) = (review.to_string(), "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{review}", review.len()).ok()?;
        stream.flush().ok()?;
        seen.clear();
    }
}
