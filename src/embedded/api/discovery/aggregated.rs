//! The aggregated form of `/api` and `/apis`: every group with every resource in one `APIGroupDiscoveryList`.

use crate::body::Body;
use crate::embedded::api::catalog::{ApiResource, Group, Version};
use crate::embedded::api::document::{self, tag};
use crate::embedded::name::Name;
use crate::go_text::json::answer;
use crate::object::protobuf;
use crate::request::accept::Agreed;
use crate::request::body::MediaType;
use crate::response;
use bytes::Bytes;
use http::Response;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};
use serde::Serialize;
use serde_json::Value;
use std::sync::OnceLock;

/// An aggregated document and its entity tag, which is that of its JSON in every encoding (`ServeHTTPWithETag`).
pub(super) struct Aggregated {
    json: Bytes,
    tag: String,
    /// The other encodings, made at their first use.
    protobuf: OnceLock<Bytes>,
    yaml: OnceLock<Bytes>,
}

impl Aggregated {
    /// The document in an encoding. `entries` are its groups.
    pub(super) fn response<'e>(&self, agreed: Agreed, entries: impl FnOnce() -> Vec<Entry<'e>>) -> Response<Body> {
        let value = || serde_json::from_slice::<Value>(&self.json).unwrap_or_default();
        let encode = || value().as_object().and_then(protobuf::encode_answer).unwrap_or_default().into();
        let body = match agreed.media_type {
            MediaType::Protobuf => self.protobuf.get_or_init(encode).clone(),
            MediaType::Yaml => self.yaml.get_or_init(|| response::yaml_document(&value()).into()).clone(),
            MediaType::Json | MediaType::Cbor if agreed.is_pretty => written(&entries(), true).into(),
            MediaType::Json | MediaType::Cbor => self.json.clone(),
        };
        let mut response = document::tagged(content_type(agreed.media_type), body, &self.tag);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        response
    }
}

/// `generateMediaTypeWithGVK`
fn content_type(media_type: MediaType) -> &'static str {
    match media_type {
        MediaType::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        MediaType::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        MediaType::Json | MediaType::Cbor => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    }
}

/// A group and its versions.
pub(super) struct Entry<'a> {
    pub(super) group: Name,
    pub(super) versions: Vec<VersionEntry<'a>>,
}

/// A version of a group.
pub(super) struct VersionEntry<'a> {
    pub(super) version: Name,
    /// The resources; `None` if the version is served elsewhere, so that they are not known.
    pub(super) content: Option<&'a Version>,
}

/// The entry of a group that the server serves.
pub(super) fn current(group: &Group) -> Entry<'_> {
    let versions = group.versions.iter();
    let versions = versions.map(|version| VersionEntry { version: version.version.clone(), content: Some(version) });
    Entry { group: group.name.clone(), versions: versions.collect() }
}

/// The document of the groups.
pub(super) fn document(groups: &[Entry<'_>]) -> Aggregated {
    let json = written(groups, false);
    Aggregated { tag: tag(&json), json: json.into(), protobuf: OnceLock::new(), yaml: OnceLock::new() }
}

fn written(groups: &[Entry<'_>], is_pretty: bool) -> Vec<u8> {
    let list = DiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: "" },
        items: groups.iter().map(GroupDiscovery::of).collect(),
    };
    answer(&list, is_pretty)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveryList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    items: Vec<GroupDiscovery<'a>>,
}

/// The metadata of a group with its name; a list and the core group have no name.
#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct GroupDiscovery<'a> {
    metadata: Metadata<'a>,
    versions: Vec<VersionDiscovery<'a>>,
}

#[derive(Serialize)]
struct VersionDiscovery<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<ResourceDiscovery<'a>>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [Name],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [Name],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: &'a [&'static str],
}

/// A kind; group and version are empty if they equal those of the surrounding version.
#[derive(Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> GroupDiscovery<'a> {
    fn of(Entry { group: name, versions }: &'a Entry<'_>) -> Self {
        let versions = versions.iter().map(|VersionEntry { version, content }| VersionDiscovery {
            version,
            resources: content.map(resources_discovery).unwrap_or_default(),
            freshness: if content.is_some() { "Current" } else { "Stale" },
        });
        Self { metadata: Metadata { name }, versions: versions.collect() }
    }
}

fn resources_discovery<'a>(version: &'a Version) -> Vec<ResourceDiscovery<'a>> {
    let top = version.resources.iter().filter(|recorded| !recorded.name.contains('/'));
    top.map(|recorded| ResourceDiscovery {
        resource: &recorded.name,
        response_kind: ResponseKind::of(recorded),
        scope: if recorded.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &recorded.singular_name,
        verbs: &recorded.verbs,
        short_names: &recorded.short_names,
        categories: &recorded.categories,
        subresources: version
            .resources
            .iter()
            .filter_map(|below| subresource_discovery(&recorded.name, below))
            .collect(),
    })
    .collect()
}

fn subresource_discovery<'a>(of: &str, recorded: &'a ApiResource) -> Option<SubresourceDiscovery<'a>> {
    let (parent, subresource) = recorded.name.split_once('/')?;
    let response_kind = ResponseKind::of(recorded);
    (parent == of).then_some(SubresourceDiscovery { subresource, response_kind, verbs: &recorded.verbs })
}

impl<'a> ResponseKind<'a> {
    fn of(recorded: &'a ApiResource) -> Self {
        let (group, version) = match &recorded.place {
            Some((group, version)) if recorded.version.is_empty() => (group, version),
            _ => (&recorded.group, &recorded.version),
        };
        Self { group, version, kind: &recorded.kind }
    }
}
