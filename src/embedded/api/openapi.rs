//! OpenAPI v2 and v3 as recorded from kube-apiserver, without the descriptions of operations, which clients do not read.
//!
//! The documents suffice for `kubectl explain`, for the patches of `kubectl apply`, and for clients that check whether the server validates
//! fields. In the recording the v3 documents share their schemas; each document is assembled at its first use.

pub(in crate::embedded) mod custom;
mod protobuf;
mod removed;
mod swagger;

pub(in crate::embedded) use swagger::{Operations, Parts, schema as v2_schema};

use super::catalog::ServedResource;
use super::document;
use crate::body::{Body, empty};
use crate::object::release;
use crate::removed::Api;
use crate::request::accept::{MediaRange, media_ranges};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, EXPIRES, HeaderValue, LOCATION, VARY};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, LazyLock, OnceLock};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The response to a GET of `/openapi/v2`, `/openapi/v3` or a path below; `None` for other paths.
///
/// [`document::conditional`] checks whether the client has the document already.
pub(in crate::embedded) fn respond(
    documents: &Documents,
    path: &str,
    query: &str,
    accept: &str,
) -> Option<Response<Body>> {
    match path.strip_prefix("/openapi/")? {
        "v2" => Some(v2(documents, accept)),
        // kube-apiserver ignores the Accept header here and answers text/plain.
        "v3" => Some(document::document("text/plain; charset=utf-8", documents.index())),
        other => {
            let name = other.strip_prefix("v3/")?;
            let custom = || documents.custom.get(name).map(|document| document.document());
            let document = V3.get(name).or_else(|| documents.removed.get(name)).or_else(custom)?;
            Some(group_version(name, document, query, accept))
        }
    }
}

/// The documents of a server: the recorded ones, those of the removed APIs that it serves, and those of custom resources.
pub(in crate::embedded) struct Documents {
    apis: Vec<&'static Api>,
    removed: BTreeMap<String, Document>,
    custom: BTreeMap<String, Arc<CustomDocument>>,
    v2_parts: OnceLock<Parts>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

/// A document of custom resources, made at its first use, and their part of OpenAPI v2.
pub(in crate::embedded) struct CustomDocument {
    resources: Vec<Arc<ServedResource>>,
    writers: Writers,
    made: OnceLock<Document>,
    part: OnceLock<Parts>,
}

/// The functions that write the document of resources, and their part of OpenAPI v2.
#[derive(Clone, Copy)]
pub(in crate::embedded) struct Writers {
    pub(in crate::embedded) v3: fn(&[Arc<ServedResource>]) -> Vec<u8>,
    pub(in crate::embedded) v2: fn(&[Arc<ServedResource>]) -> Parts,
}

impl CustomDocument {
    /// The document of these resources.
    pub(in crate::embedded) fn new(resources: Vec<Arc<ServedResource>>, writers: Writers) -> Self {
        Self { resources, writers, made: OnceLock::new(), part: OnceLock::new() }
    }

    /// Whether the document is that of exactly these resources.
    pub(in crate::embedded) fn is_of(&self, resources: &[Arc<ServedResource>]) -> bool {
        self.resources.len() == resources.len()
            && self.resources.iter().zip(resources).all(|(own, other)| Arc::ptr_eq(own, other))
    }

    fn document(&self) -> &Document {
        self.made.get_or_init(|| Document::new((self.writers.v3)(&self.resources)))
    }

    fn part(&self) -> &Parts {
        self.part.get_or_init(|| (self.writers.v2)(&self.resources))
    }
}

/// The schemas of metadata, Status, patches and scales.
pub(in crate::embedded) fn meta_schemas() -> &'static Map<String, Value> {
    static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        const PREFIXES: [&str; 2] = ["io.k8s.apimachinery.", "io.k8s.api.autoscaling.v1.Scale"];
        let whole = V3.get("apis/apps/v1").and_then(|document| serde_json::from_slice::<Value>(&document.body).ok());
        let schemas = whole.as_ref().and_then(|whole| whole.pointer("/components/schemas")?.as_object());
        let is_wanted = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let wanted = schemas.into_iter().flatten().filter(|(name, _)| is_wanted(name));
        wanted.map(|(name, schema)| (name.clone(), schema.clone())).collect()
    });
    &SCHEMAS
}

impl Documents {
    /// The documents with those of these removed APIs, and these of custom resources.
    pub(in crate::embedded) fn new(apis: &[&'static Api], custom: BTreeMap<String, Arc<CustomDocument>>) -> Self {
        Self {
            apis: apis.to_vec(),
            removed: removed::documents(apis),
            custom,
            v2_parts: OnceLock::new(),
            v2: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
        }
    }

    /// The additions of OpenAPI v2 to the recorded document.
    fn v2_parts(&self) -> &Parts {
        self.v2_parts.get_or_init(|| {
            let mut parts = removed::v2(&self.apis);
            self.custom.values().for_each(|document| parts.extend(document.part().clone()));
            parts
        })
    }

    fn v2(&self) -> &Document {
        let parts = self.v2_parts();
        if parts.is_empty() { &V2 } else { self.v2.get_or_init(|| parts.json()) }
    }

    fn v2_protobuf(&self) -> &Document {
        let parts = self.v2_parts();
        if parts.is_empty() { &V2_PROTO } else { self.v2_protobuf.get_or_init(|| parts.protobuf()) }
    }

    /// The documents of custom resources.
    pub(in crate::embedded) fn custom(&self) -> &BTreeMap<String, Arc<CustomDocument>> {
        &self.custom
    }

    fn index(&self) -> Bytes {
        if self.removed.is_empty() && self.custom.is_empty() {
            return INDEX.clone();
        }
        let custom = self.custom.iter().map(|(name, document)| (name, document.document()));
        index(V3.iter().chain(&self.removed).chain(custom))
    }
}

/// A document and its entity tag.
struct Document {
    body: Bytes,
    tag: String,
}

impl Document {
    fn new(body: Vec<u8>) -> Self {
        Self { tag: document::tag(&body), body: body.into() }
    }
}

/// `OpenAPIService.HandleGroupVersion`: a URL with the right hash is cached forever, a URL with another hash is redirected.
fn group_version(name: &str, document: &Document, query: &str, accept: &str) -> Response<Body> {
    if !media_ranges(accept).iter().any(|range| range.contains("json")) {
        return not_acceptable("Accept");
    }
    let mut response = document::tagged("application/json", document.body.clone(), &document.tag);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    let hash = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "hash").map(|(_, value)| value);
    match hash.as_deref() {
        None | Some("") => {}
        Some(hash) if hash == document.tag => {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            let a_year = jiff::SignedDuration::from_hours(365 * 24);
            let expires = jiff::Timestamp::now() + a_year;
            document::set(&mut response, EXPIRES, &expires.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
        }
        Some(_) => {
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            *response.body_mut() = empty();
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            document::set(&mut response, LOCATION, &relative_url(name, &document.tag));
        }
    }
    response
}

/// `handler.OpenAPIService.RegisterOpenAPIVersionedService`: JSON, or the protobuf form that client-go requests.
fn v2(documents: &Documents, accept: &str) -> Response<Body> {
    let wants_protobuf = |range: &MediaRange<'_>| {
        range.contains("com.github.proto-openapi.spec.v2.v1.0+protobuf")
            || range.contains("com.github.proto-openapi.spec.v2@v1.0+protobuf")
    };
    for range in media_ranges(accept) {
        let (content_type, document) = if range.contains("json") {
            ("application/json", documents.v2())
        } else if wants_protobuf(&range) {
            (V2_PROTOBUF, documents.v2_protobuf())
        } else {
            continue;
        };
        let mut response = document::tagged(content_type, document.body.clone(), &document.tag);
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        return response;
    }
    not_acceptable("Accept-Encoding, Accept")
}

/// 406 without a body, as in kube-apiserver's OpenAPI handlers.
fn not_acceptable(vary: &'static str) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
    response.headers_mut().insert(VARY, HeaderValue::from_static(vary));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}

/// `constructServerRelativeURL`.
fn relative_url(name: &str, tag: &str) -> String {
    format!("/openapi/v3/{name}?hash={tag}")
}

static V2: LazyLock<Document> =
    LazyLock::new(|| Document::new(own_lines(include_bytes!("../data/openapi-v2.json.gz"))));

static V2_PROTO: LazyLock<Document> = LazyLock::new(|| {
    let recorded = match release::since(37) {
        true => &include_bytes!("../data/openapi-v2-1.37.pb.gz")[..],
        false => include_bytes!("../data/openapi-v2-1.36.pb.gz"),
    };
    Document::new(decompressed(recorded))
});

static V3: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
    let recorded = own_lines(include_bytes!("../data/openapi-v3.json.gz"));
    let recorded: Recorded<'_> = serde_json::from_slice(&recorded).expect("the recorded OpenAPI v3 is well-formed");
    recorded.documents.iter().map(|(name, each)| (name.clone(), recorded.assembled(each))).collect()
});

static INDEX: LazyLock<Bytes> = LazyLock::new(|| index(V3.iter()));

fn index<'a>(documents: impl Iterator<Item = (&'a String, &'a Document)>) -> Bytes {
    let entry = |(name, document): (&String, &Document)| {
        (name.clone(), IndexEntry { server_relative_url: relative_url(name, &document.tag) })
    };
    let index = Index { paths: documents.map(entry).collect() };
    serde_json::to_vec(&index).unwrap_or_default().into()
}

/// A document of the release of this process: its lines in the recording, joined.
fn own_lines(data: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(decompressed(data)).expect("the recorded data is text");
    release::lines(&text).collect::<String>().into_bytes()
}

fn decompressed(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(data).read_to_end(&mut text).expect("the recorded data is well-formed");
    text
}

#[derive(Serialize)]
struct Index {
    paths: BTreeMap<String, IndexEntry>,
}

#[derive(Serialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

/// The recorded documents.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    #[serde(borrow)]
    openapi: &'a RawValue,
    #[serde(borrow)]
    info: &'a RawValue,
    #[serde(borrow)]
    security_schemes: &'a RawValue,
    #[serde(borrow)]
    documents: BTreeMap<String, RecordedDocument<'a>>,
    #[serde(borrow)]
    schemas: BTreeMap<&'a str, &'a RawValue>,
}

/// A recorded document: its paths, the names of its schemas in the common pool, and the schemas that differ from the pool.
#[derive(Deserialize)]
struct RecordedDocument<'a> {
    #[serde(borrow)]
    paths: &'a RawValue,
    #[serde(borrow)]
    shared: Vec<&'a str>,
    #[serde(borrow)]
    own: BTreeMap<&'a str, &'a RawValue>,
}

#[derive(Serialize)]
struct OpenApi<'a> {
    openapi: &'a RawValue,
    info: &'a RawValue,
    paths: &'a RawValue,
    components: Components<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Components<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    schemas: BTreeMap<&'a str, &'a RawValue>,
    security_schemes: &'a RawValue,
}

impl Recorded<'_> {
    fn assembled(&self, document: &RecordedDocument<'_>) -> Document {
        let shared = document.shared.iter().filter_map(|name| Some((*name, *self.schemas.get(name)?)));
        let schemas = shared.chain(document.own.iter().map(|(name, schema)| (*name, *schema))).collect();
        let whole = OpenApi {
            openapi: self.openapi,
            info: self.info,
            paths: document.paths,
            components: Components { schemas, security_schemes: self.security_schemes },
        };
        Document::new(serde_json::to_vec(&whole).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::catalog;
    use http_body_util::BodyExt;

    fn respond(path: &str, query: &str, accept: &str) -> Option<Response<Body>> {
        super::respond(&Documents::new(&[], BTreeMap::new()), path, query, accept)
    }

    async fn json_at(url: &str) -> Value {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let response = respond(path, query, "application/json").unwrap_or_else(|| panic!("no answer at {url}"));
        assert_eq!(response.status(), 200, "{url}");
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn the_index_has_every_served_group_version_and_each_link_works() {
        let index = json_at("/openapi/v3").await;
        let paths = index["paths"].as_object().unwrap();
        for resource in catalog::resources() {
            let path = catalog::group_version_path(&resource.group, &resource.version);
            let url = paths[path.trim_start_matches('/')]["serverRelativeURL"].as_str().unwrap();
            let document = json_at(url).await;
            assert!(document["paths"].get(resource.path()).is_some() || resource.namespaced, "{}", resource.path());
        }
        assert!(paths.contains_key("apis") && paths.contains_key("api") && paths.contains_key("version"));
    }

    #[tokio::test]
    async fn every_reference_leads_to_a_schema_of_the_same_document() {
        for name in V3.keys() {
            let document = json_at(&format!("/openapi/v3/{name}")).await;
            let mut missing = Vec::new();
            references(&document, &mut |reference| {
                if document.pointer(reference.trim_start_matches('#')).is_none() {
                    missing.push(reference.to_owned());
                }
            });
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
        let document = json_at("/openapi/v2").await;
        references(&document, &mut |reference| assert!(document.pointer(&reference[1..]).is_some(), "{reference}"));
    }

    fn references(value: &Value, found: &mut dyn FnMut(&str)) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found(reference);
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[tokio::test]
    async fn keeps_what_kubectl_reads() {
        let apps = json_at("/openapi/v3/apis/apps/v1").await;
        let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert!(patch["parameters"].as_array().unwrap().iter().any(|each| each["name"] == "fieldValidation"));
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        let schemas = &apps["components"]["schemas"];
        assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"][0]["group"], "apps");
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        let v2 = json_at("/openapi/v2").await;
        assert_eq!(v2["swagger"], "2.0");
        assert!(v2["definitions"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"].is_array());
    }

    #[tokio::test]
    async fn types_and_fields_have_descriptions_and_operations_have_none() {
        let allowed = ["OK", "Created", "Accepted", "Unauthorized"];
        let mut documents = vec![json_at("/openapi/v2").await];
        for name in V3.keys() {
            documents.push(json_at(&format!("/openapi/v3/{name}")).await);
        }
        for document in &documents {
            descriptions(&document["paths"], &mut |text| assert!(allowed.contains(&text), "{text}"));
            let types = document.get("definitions").or_else(|| document.pointer("/components/schemas"));
            // kube-apiserver describes none of these.
            let bare =
                ["CertificateSigningRequest.metadata", "CertificateSigningRequestList.metadata", "IngressRule.http"];
            for (name, schema) in types.and_then(Value::as_object).into_iter().flatten() {
                let fields = schema["properties"].as_object().into_iter().flatten();
                for (field, schema) in fields.filter(|_| name.starts_with("io.k8s.api.")) {
                    let is_bare = bare.iter().any(|end| format!("{name}.{field}").ends_with(end));
                    assert!(schema["description"].is_string() || is_bare, "{name}.{field}");
                }
            }
        }
    }

    fn descriptions(value: &Value, found: &mut dyn FnMut(&str)) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(text)) = map.get("description") {
                    found(text);
                }
                map.values().for_each(|value| descriptions(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| descriptions(value, found)),
            _ => {}
        }
    }

    #[tokio::test]
    async fn the_protobuf_form_has_the_same_definitions_as_the_json() {
        let v2 = json_at("/openapi/v2").await;
        let contains = |name: &str| {
            // A string field consists of its length and its bytes.
            let field = [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
            V2_PROTO.body.windows(field.len()).any(|window| window == field)
        };
        for name in v2["definitions"].as_object().unwrap().keys().filter(|name| name.len() < 128).step_by(20) {
            assert!(contains(name), "{name}");
        }
        assert!(contains("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"));
        let text = v2["definitions"]["io.k8s.api.core.v1.Container"]["description"].as_str().unwrap();
        assert!(V2_PROTO.body.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }

    #[test]
    fn a_document_is_cached_by_its_hash() {
        let tag = &V3["apis/apps/v1"].tag;
        let plain = respond("/openapi/v3/apis/apps/v1", "", "").unwrap();
        assert_eq!(plain.headers()["etag"].to_str().unwrap(), format!("\"{tag}\""));
        assert_eq!(plain.headers()["cache-control"], "no-cache, private");
        assert_eq!(document::conditional(plain, &format!("\"{tag}\"")).status(), 304);
        let hashed = respond("/openapi/v3/apis/apps/v1", &format!("hash={tag}"), "").unwrap();
        assert_eq!(hashed.headers()["cache-control"], "public, immutable");
        let stale = respond("/openapi/v3/apis/apps/v1", "hash=ABC", "").unwrap();
        assert_eq!(stale.status(), 301);
        assert_eq!(stale.headers()["location"].to_str().unwrap(), format!("/openapi/v3/apis/apps/v1?hash={tag}"));
    }

    #[test]
    fn the_accept_header_decides_the_form() {
        let answer = |path, accept| {
            let response = respond(path, "", accept).unwrap();
            let content_type = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), content_type.unwrap_or_default())
        };
        let kubectl = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        assert_eq!(answer("/openapi/v2", kubectl), (200, V2_PROTOBUF.to_owned()));
        assert_eq!(answer("/openapi/v2", "application/json, */*"), (200, "application/json".to_owned()));
        assert_eq!(answer("/openapi/v2", "text/html").0, 406);
        assert_eq!(answer("/openapi/v3/version", "application/yaml").0, 406);
        assert_eq!(answer("/openapi/v3", "application/yaml").0, 200);
        assert!(respond("/openapi/v3/apis/nope", "", "").is_none());
        assert!(respond("/openapi/v3/", "", "").is_none());
        assert!(respond("/openapi", "", "").is_none());
    }
}
