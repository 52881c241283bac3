//! The pages of the process on its health port, as those of kube-apiserver: `/statusz`, `/flagz`, `/debug/flags/v`; and
//! `/debug/admission`.

mod zpages;

use super::Config;
use crate::body::{Body, BoxError};
use crate::config::FeatureGates;
use crate::logging;
use crate::pipeline::{LOOK, Tenancy, page};
use crate::request::body::MediaTypes;
use crate::server::health::{Pages, text, with_type};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use zpages::{Facts, Page};

/// The folder of the flags that change at run time (`routes.DebugFlags`).
const FLAGS: &str = "/debug/flags";
const LEVEL: &str = "/debug/flags/v";
/// The page that names the flags (`routes.indexTmpl`).
const INDEX: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n\
                     <tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
/// The bytes of the new value of a flag.
const MAX_VALUE_BYTES: usize = 64;

/// The pages of the process.
pub(super) struct ComponentPages {
    /// Whether the pages below `/debug` are served (`--profiling`).
    profiling: bool,
    features: FeatureGates,
    facts: Facts,
    /// The tenants, from the end of the start on.
    tenancy: OnceLock<Arc<Tenancy>>,
}

impl ComponentPages {
    /// Shows these tenants.
    pub(super) fn show(&self, tenancy: Arc<Tenancy>) {
        let _is_first = self.tenancy.set(tenancy);
    }

    /// Everything at `/debug/admission`.
    fn look(&self) -> Value {
        let up = Timestamp::now().as_second() - self.facts.started.as_second();
        let tenants = self.tenancy.get().map(|tenancy| tenancy.look());
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "emulatedVersion": self.facts.emulated,
            "uptimeSeconds": up,
            "tenants": tenants,
        })
    }

    /// The pages of a process that starts now.
    pub(super) fn new(config: &Config) -> Self {
        let features = config.admission.feature_gates.clone();
        let facts = Facts {
            started: Timestamp::now(),
            emulated: features.release().to_string(),
            flags: config.flags.clone(),
            media_types: MediaTypes { has_cbor: features.is_on("CBORServingAndStorage") },
        };
        Self { profiling: config.profiling, features, facts, tenancy: OnceLock::new() }
    }
}

#[async_trait]
impl Pages for ComponentPages {
    async fn answer(&self, request: Request<Body>, remote: IpAddr) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let (path, is_read) = (parts.uri.path(), matches!(parts.method, Method::GET | Method::HEAD));
        let not_allowed = || text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n".into());
        if let Some(page) = Page::at(path) {
            return match is_read {
                true => zpages::answer(&parts.headers, &parts.uri, page, &self.facts, Timestamp::now()).await,
                false => not_allowed(),
            };
        }
        // The port has no authentication.
        if !remote.to_canonical().is_loopback() {
            return text(StatusCode::FORBIDDEN, "only for clients of this machine\n".into());
        }
        match path {
            LEVEL => set_level(&parts.method, body).await,
            LOOK if !is_read => not_allowed(),
            LOOK => {
                let (media_type, page) = page(&parts.headers, &self.look());
                with_type(StatusCode::OK, media_type, page.into_bytes())
            }
            _ => with_type(StatusCode::OK, "text/html; charset=utf-8", INDEX.into()),
        }
    }

    fn have(&self, path: &str) -> bool {
        let is_flags = path.strip_prefix(FLAGS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        path == LOOK
            || self.profiling && is_flags
            || Page::at(path).is_some_and(|page| self.features.is_on(page.gate()))
    }
}

/// Sets the level of the log (`routes.StringFlagPutHandler`, `logs.GlogSetter`).
async fn set_level(method: &Method, body: Body) -> Response<Full<Bytes>> {
    let line = |code, line: String| with_type(code, "text/plain", (line + "\n").into_bytes());
    if *method != Method::PUT {
        return line(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned());
    }
    let value = match value(body).await {
        Ok(value) => value,
        Err(why) => return line(StatusCode::BAD_REQUEST, format!("error reading request body: {why}")),
    };
    match logging::set_level(&String::from_utf8_lossy(&value)) {
        Ok(done) => line(StatusCode::OK, done),
        Err(why) => line(StatusCode::BAD_REQUEST, why.to_string()),
    }
}

/// The new value of a flag.
async fn value(mut body: Body) -> Result<Vec<u8>, BoxError> {
    let mut value = Vec::new();
    while let Some(frame) = body.frame().await {
        value.extend_from_slice(&frame?.into_data().unwrap_or_default());
        if value.len() > MAX_VALUE_BYTES {
            return Err("the value is too long".into());
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;

    fn pages(profiling: bool, gates: &str) -> ComponentPages {
        let features = FeatureGates::parse(gates).unwrap();
        let media_types = MediaTypes::default();
        let facts =
            Facts { started: Timestamp::now(), emulated: String::new(), flags: Default::default(), media_types };
        ComponentPages { profiling, features, facts, tenancy: OnceLock::new() }
    }

    async fn answer(method: Method, path: &str, body: &str, remote: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(full(body.to_owned())).unwrap();
        let response = pages(true, "").answer(request, remote.parse().unwrap()).await;
        let code = response.status().as_u16();
        (code, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[tokio::test]
    async fn the_level_of_the_log_is_set_as_in_kube_apiserver() {
        for (method, body, code, text) in [
            (Method::PUT, "0", 200, "successfully set klog.logging.verbosity to 0\n"),
            (Method::PUT, "x", 400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"),
            (Method::PUT, "", 400, "strconv.ParseUint: parsing \"\": invalid syntax\n"),
            (Method::GET, "", 406, "unsupported http method\n"),
            (Method::POST, "3", 406, "unsupported http method\n"),
        ] {
            assert_eq!(answer(method, LEVEL, body, "127.0.0.1").await, (code, text.to_owned()), "{body}");
        }
        assert_eq!(answer(Method::PUT, LEVEL, &"1".repeat(MAX_VALUE_BYTES + 1), "::1").await.0, 400);
        assert_eq!(answer(Method::GET, FLAGS, "", "::1").await, (200, INDEX.to_owned()));
    }

    #[tokio::test]
    async fn a_client_of_another_machine_sets_nothing() {
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert_eq!(answer(Method::PUT, LEVEL, "4", remote).await.0, 403, "{remote}");
        }
        assert_eq!(answer(Method::PUT, LEVEL, "0", "::ffff:127.0.0.1").await.0, 200);
    }

    #[test]
    fn without_profiling_there_is_no_page_below_debug() {
        for path in [FLAGS, LEVEL, "/debug/flags/"] {
            assert!(pages(true, "").have(path) && !pages(false, "").have(path), "{path}");
        }
        assert!(!pages(true, "").have("/debug/flagsx"));
    }

    #[tokio::test]
    async fn feature_gates_decide_about_pages() {
        for path in ["/statusz", "/flagz"] {
            assert_eq!(answer(Method::GET, path, "", "10.0.0.1").await.0, 200);
            assert_eq!(answer(Method::POST, path, "", "10.0.0.1").await.0, 405);
            assert!(!pages(true, "ComponentStatusz=false,ComponentFlagz=false").have(path));
        }
    }
}
