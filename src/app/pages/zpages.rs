//! `/statusz` and `/flagz`, in the formats of kube-apiserver (`k8s.io/apiserver/pkg/server/statusz`, `flagz`): text for a person, and
//! structured documents for those who ask for them by name.

use crate::object::cbor;
use crate::request::accept::{is_pretty, media_ranges};
use crate::request::body::MediaTypes;
use crate::response::{self, ResponseForm, yaml_entry};
use crate::server::health::{text, with_type};
use crate::status::Status;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of the component.
const COMPONENT: &str = env!("CARGO_PKG_NAME");
/// The versions of the documents, in `config.k8s.io`; the first is deprecated.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// The paths of the health port (`aggregatePaths`), those below `/debug` aside.
const PATHS: [&str; 6] = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"];

const STATUSZ_GATE: &str = "ComponentStatusz";
const FLAGZ_GATE: &str = "ComponentFlagz";

/// A page with a structured document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Statusz,
    Flagz,
}

impl Page {
    /// The page at a path.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/statusz" => Some(Self::Statusz),
            "/flagz" => Some(Self::Flagz),
            _ => None,
        }
    }

    /// The feature gate without which there is no page.
    pub(super) fn gate(self) -> &'static str {
        match self {
            Self::Statusz => STATUSZ_GATE,
            Self::Flagz => FLAGZ_GATE,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Statusz => "Statusz",
            Self::Flagz => "Flagz",
        }
    }
}

/// The facts that the pages show.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) started: Timestamp,
    /// The emulated release, as `1.36`.
    pub(super) emulated: String,
    /// The flags with their values.
    pub(super) flags: BTreeMap<String, String>,
    pub(super) media_types: MediaTypes,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Document { subtype: &'static str, version: &'static str, is_pretty: bool },
}

/// The best form that the header accepts (`NegotiateOutputMediaType`); `None` if there is no such form.
fn negotiated(headers: &HeaderMap, uri: &Uri, page: Page, known: MediaTypes) -> Option<Form> {
    let accept = headers.get(ACCEPT).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let subtypes = ["json", "yaml", "cbor"];
    let subtypes = subtypes.into_iter().filter(|subtype| *subtype != "cbor" || known.has_cbor);
    media_ranges(accept).iter().find_map(|range| {
        if ["sv", "stream"].iter().any(|name| range.parameter(name).is_some_and(|value| !value.is_empty())) {
            return None;
        }
        let of = |name: &str| range.parameter(name).unwrap_or_default();
        let is_named = of("g") == "config.k8s.io" && of("as") == page.kind();
        let version = VERSIONS.into_iter().find(|version| is_named && of("v") == *version);
        let document =
            |subtype| Some(Form::Document { subtype, version: version?, is_pretty: is_pretty(headers, uri) });
        let structured = subtypes.clone().find(|subtype| range.contains(subtype)).and_then(document);
        structured.or_else(|| (range.contains_text("plain") && !range.is_converted()).then_some(Form::Text))
    })
}

/// The answer to a request for the page.
pub(super) async fn answer(
    headers: &HeaderMap,
    uri: &Uri,
    page: Page,
    facts: &Facts,
    now: Timestamp,
) -> Response<Full<Bytes>> {
    match negotiated(headers, uri, page, facts.media_types) {
        None => not_acceptable(headers, uri, facts.media_types).await,
        Some(Form::Text) => {
            let text_of = match page {
                Page::Statusz => statusz(facts, now),
                Page::Flagz => flagz(facts),
            };
            text(StatusCode::OK, text_of)
        }
        Some(Form::Document { subtype, version, is_pretty }) => {
            let document = document(page, version, facts, now);
            let body = match subtype {
                "json" if is_pretty => serde_json::to_vec_pretty(&document).unwrap_or_default(),
                "json" => [serde_json::to_vec(&document).unwrap_or_default(), b"\n".to_vec()].concat(),
                "yaml" => yaml(&document).into_bytes(),
                _ => cbor::encode(&serde_json::to_value(&document).unwrap_or_default()),
            };
            let media_type = format!("application/{subtype};g=config.k8s.io;v={version};as={}", page.kind());
            let mut response = with_type(StatusCode::OK, &media_type, body);
            if version == VERSIONS[0] {
                let name = page.kind().to_lowercase();
                let warning =
                    format!("299 - \"This version of the {name} endpoint is deprecated. Please use a newer version.\"");
                response.headers_mut().extend(HeaderValue::from_str(&warning).ok().map(|warning| (WARNING, warning)));
            }
            response
        }
    }
}

async fn not_acceptable(headers: &HeaderMap, uri: &Uri, known: MediaTypes) -> Response<Full<Bytes>> {
    let accepted = ["application/json", "application/yaml", "application/cbor", "text/plain"];
    let accepted: Vec<&str> = accepted.into_iter().filter(|name| known.has_cbor || !name.ends_with("cbor")).collect();
    let refusal = response::status(&Status::not_acceptable(&accepted), ResponseForm::of(headers, uri, known));
    let (parts, body) = refusal.into_parts();
    let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // The body of a Status is in memory.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    with_type(parts.status, media_type, body.to_vec())
}

/// A structured document, with its fields in the order of its Go type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(rename_all = "camelCase")]
    Statusz {
        start_time: String,
        uptime_seconds: i64,
        go_version: &'static str,
        binary_version: &'static str,
        emulation_version: &'a str,
        paths: [&'static str; 6],
    },
    Flagz {
        flags: &'a BTreeMap<String, String>,
    },
}

fn document<'a>(page: Page, version: &str, facts: &'a Facts, now: Timestamp) -> Document<'a> {
    let content = match page {
        Page::Statusz => Content::Statusz {
            start_time: facts.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            uptime_seconds: uptime(facts, now),
            go_version: "",
            binary_version: env!("CARGO_PKG_VERSION"),
            emulation_version: &facts.emulated,
            paths: PATHS,
        },
        Page::Flagz => Content::Flagz { flags: &facts.flags },
    };
    let api_version = format!("config.k8s.io/{version}");
    Document { kind: page.kind(), api_version, metadata: Metadata { name: COMPONENT }, content }
}

/// The document in YAML, whose fields are sorted.
fn yaml(document: &Document<'_>) -> String {
    let mut text = String::new();
    // A document has only strings, numbers and lists of strings, which can always be serialized.
    if let Ok(Value::Object(fields)) = serde_json::to_value(document) {
        for (key, value) in &fields {
            yaml_entry(&mut text, 0, key, value);
        }
    }
    text
}

fn uptime(facts: &Facts, now: Timestamp) -> i64 {
    (now.as_second() - facts.started.as_second()).max(0)
}

fn header(page: Page) -> String {
    let name = page.kind().to_lowercase();
    format!(
        "\n{COMPONENT} {name}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n"
    )
}

/// `statuszTextSerializer.Encode`; kube-apiserver chooses one of four delimiters by chance.
fn statusz(facts: &Facts, now: Timestamp) -> String {
    let up = uptime(facts, now);
    let started = facts.started.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y");
    format!(
        "{}\nStarted: {started}\nUp: {} hr {:02} min {:02} sec\nGo version: \nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
        header(Page::Statusz),
        up / 3600,
        up / 60 % 60,
        up % 60,
        env!("CARGO_PKG_VERSION"),
        facts.emulated,
        PATHS.join(" "),
    )
}

/// `flagzTextSerializer.Encode`
fn flagz(facts: &Facts) -> String {
    let mut text = header(Page::Flagz);
    for (name, value) in &facts.flags {
        let _written = writeln!(text, "{name}:{value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::USER_AGENT;
    use serde_json::json;

    fn facts() -> Facts {
        Facts {
            started: "2026-11-29T10:54:55Z".parse().unwrap(),
            emulated: "1.36".to_owned(),
            flags: [("authorization-mode", "[Node,RBAC]"), ("profiling", "true"), ("vmodule", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            media_types: MediaTypes::default(),
        }
    }

    async fn asked(page: Page, accept: &str) -> (u16, String, Option<String>, String) {
        let headers = [(ACCEPT, accept), (USER_AGENT, "curl/8")];
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
        let (headers, uri) = (HeaderMap::from_iter(headers), Uri::from_static("/x"));
        let now = "2026-11-29T10:55:51Z".parse().unwrap();
        let response = answer(&headers, &uri, page, &facts(), now).await;
        let (parts, body) = response.into_parts();
        let of = |name| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (parts.status.as_u16(), of(CONTENT_TYPE).unwrap(), of(WARNING), body)
    }

    /// Compares with the answers of a kube-apiserver 1.36.3, whose name, versions and paths are its own.
    #[tokio::test]
    async fn statusz_is_that_of_kube_apiserver() {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!(
            "\nkube-admission-proxy statusz\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
             compatibility guarantees and is for debugging purposes only.\n\nStarted: Sun Nov 29 10:54:55 UTC 2026\nUp: 0 hr 00 min \
             56 sec\nGo version: \nBinary version: {version}\nEmulation version: 1.36\nPaths: /flagz /healthz /livez /metrics \
             /readyz /statusz\n"
        );
        for accept in ["", "*/*", "text/plain", "text/*", "application/json,text/plain"] {
            let expected = (200, "text/plain; charset=utf-8".to_owned(), None, text.clone());
            assert_eq!(asked(Page::Statusz, accept).await, expected, "{accept}");
        }
        let document = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
        let (code, media_type, warning, body) = asked(Page::Statusz, document).await;
        assert_eq!((code, &*media_type, warning), (200, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", None));
        assert!(body.starts_with(
            "{\n  \"kind\": \"Statusz\",\n  \"apiVersion\": \"config.k8s.io/v1beta1\",\n  \"metadata\": {\n"
        ));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["startTime"], &body["uptimeSeconds"]), (&json!("2026-11-29T10:54:55Z"), &json!(56)));
        let deprecated = "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz";
        let (_, _, warning, body) = asked(Page::Statusz, deprecated).await;
        let text = "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"";
        assert_eq!(warning.as_deref(), Some(text));
        assert_eq!(
            body,
            format!(
                "apiVersion: config.k8s.io/v1alpha1\nbinaryVersion: {version}\nemulationVersion: \"1.36\"\ngoVersion: \"\"\nkind: \
                 Statusz\nmetadata:\n  name: kube-admission-proxy\npaths:\n- /flagz\n- /healthz\n- /livez\n- /metrics\n- /readyz\n- \
                 /statusz\nstartTime: \"2026-11-29T10:54:55Z\"\nuptimeSeconds: 56\n"
            )
        );
    }

    #[tokio::test]
    async fn flagz_is_that_of_kube_apiserver() {
        let (code, _, _, body) = asked(Page::Flagz, "*/*").await;
        assert!(
            code == 200 && body.ends_with("only.\nauthorization-mode:[Node,RBAC]\nprofiling:true\nvmodule:\n"),
            "{body}"
        );
        let (_, _, _, body) = asked(Page::Flagz, "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz").await;
        assert!(
            body.contains(
                "flags:\n  authorization-mode: '[Node,RBAC]'\n  profiling: \"true\"\n  vmodule: \"\"\nkind: Flagz\n"
            ),
            "{body}"
        );
    }

    #[tokio::test]
    async fn other_forms_are_refused_as_by_kube_apiserver() {
        for accept in [
            "application/json",
            "application/json;v=v1;g=config.k8s.io;as=Statusz",
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
            "application/json;v=v1beta1;as=Statusz",
            "application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz",
            "text/plain;v=v1beta1;g=config.k8s.io;as=Statusz",
            "application/json;v=v1beta1;g=config.k8s.io;as=Statusz;stream=watch",
            "image/png",
        ] {
            let (code, media_type, _, body) = asked(Page::Statusz, accept).await;
            assert_eq!((code, &*media_type), (406, "application/json"), "{accept}");
            let message = "  \"message\": \"only the following media types are accepted: application/json, application/yaml, text/plain\",\n";
            assert!(body.contains(message), "{body}");
        }
    }
}
