//! Discovery: `/api`, `/apis`, the paths below them, and `/version`.
//!
//! The documents equal those of kube-apiserver in every group and field. They are generated from the catalog.

mod aggregated;
pub(in crate::embedded) mod custom;

use super::catalog::{ApiResource, Group, Version};
use super::document;
use super::registrations::{self, Registered};
use crate::body::Body;
use crate::config::EmulatedRelease;
use crate::embedded::name::Name;
use crate::go_text::json::answer;
use crate::object::kinds::is_built_in_group;
use crate::object::{protobuf, release};
use crate::request::accept::{self, Agreed, AnswerType};
use crate::request::body::{MediaType, MediaTypes};
use crate::response::{self, ResponseForm};
use crate::status::Status;
use aggregated::{Aggregated, Entry, VersionEntry};
use http::{HeaderMap, Response, Uri};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The media types of all documents but the version.
const ALL: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The served groups, and their aggregated documents, which are made at their first use.
pub(in crate::embedded) struct Groups {
    list: Vec<Group>,
    /// The registrations by APIServices, which decide about the order.
    registered: Vec<Registered>,
    /// The groups of `/apis` and their versions.
    names: Vec<(Name, Vec<Name>)>,
    core: OnceLock<Aggregated>,
    named: OnceLock<Aggregated>,
}

impl Groups {
    /// The groups, in any order, and what the APIServices register.
    pub(in crate::embedded) fn new(list: Vec<Group>, registered: Vec<Registered>) -> Self {
        // No APIService registers their own group, which comes first (`apisHandler.ServeHTTP`).
        let own = list.iter().filter(|group| group.name == registrations::GROUP).map(|group| {
            let versions = group.versions.iter().map(|version| version.version.clone()).collect();
            (group.name.clone(), versions)
        });
        let others = registrations::by_priority(&registered).into_iter().map(|(group, versions)| {
            let versions = versions.into_iter().map(|version| version.version.clone()).collect();
            (group, versions)
        });
        let names = own.chain(others).collect();
        Self { list, registered, names, core: OnceLock::new(), named: OnceLock::new() }
    }

    /// Whether an APIService says that a Service serves the version.
    pub(in crate::embedded) fn is_remote(&self, group: &str, version: &str) -> bool {
        self.registered.iter().any(|each| each.is_remote && each.group == *group && each.version == *version)
    }

    fn named(&self, name: &str) -> Option<&Group> {
        self.list.iter().find(|group| !name.is_empty() && group.name == name)
    }

    /// The versions of a group: those of its APIServices, or those that the server has, if there are no APIServices.
    fn group_document(&self, name: &str) -> Option<ApiGroupDocument<'_>> {
        let registered = self.names.iter().find(|(group, _)| group == name);
        let group = match registered {
            Some((group, versions)) => ApiGroup::of(group, versions.iter()),
            None => {
                let group = self.named(name)?;
                ApiGroup::of(&group.name, group.versions.iter().map(|version| &version.version))
            }
        };
        Some(ApiGroupDocument { kind: "APIGroup", api_version: "v1", group })
    }

    /// Makes the aggregated documents.
    pub(in crate::embedded) fn prepare(&self) {
        self.aggregated_core();
        self.aggregated_named();
    }

    fn aggregated_core(&self) -> &Aggregated {
        self.core.get_or_init(|| aggregated::document(&self.core_entries()))
    }

    fn aggregated_named(&self) -> &Aggregated {
        self.named.get_or_init(|| aggregated::document(&self.named_entries()))
    }

    fn core_entries(&self) -> Vec<Entry<'_>> {
        self.list.iter().filter(|group| group.name.is_empty()).map(aggregated::current).collect()
    }

    fn named_entries(&self) -> Vec<Entry<'_>> {
        let own = self.named(registrations::GROUP).into_iter().map(aggregated::current);
        let others = registrations::by_priority_and_name(&self.registered).into_iter();
        let others = others.filter_map(|(group, versions)| {
            let known = self.named(&group).into_iter().flat_map(|group| &group.versions);
            let served: HashMap<&str, &Version> = known.map(|version| (&*version.version, version)).collect();
            let versions = versions.into_iter().filter_map(|registered| {
                let content = match registered.is_remote {
                    true => None,
                    false => Some(*served.get(&*registered.version)?),
                };
                Some(VersionEntry { version: registered.version.clone(), content })
            });
            let versions: Vec<_> = versions.collect();
            (!versions.is_empty()).then_some(Entry { group, versions })
        });
        own.chain(others).collect()
    }
}

impl Groups {
    /// The paths of the groups and of their versions.
    pub(in crate::embedded) fn paths(&self) -> impl Iterator<Item = String> {
        let named = self.names.iter().flat_map(|(group, versions)| {
            let versions = versions.iter().map(move |version| format!("/apis/{group}/{version}"));
            std::iter::once(format!("/apis/{group}")).chain(versions)
        });
        let core = self.list.iter().filter(|group| group.name.is_empty()).flat_map(|group| &group.versions);
        core.map(|version| format!("/api/{}", version.version)).chain(named)
    }
}

/// The response to a GET of a discovery path; `None` for other paths.
///
/// [`document::conditional`] checks whether the client has the document already.
pub(in crate::embedded) fn respond(
    groups: &Groups,
    release: EmulatedRelease,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let path = uri.path().strip_suffix('/').unwrap_or(uri.path());
    let mut segments = path.strip_prefix('/')?.split('/');
    let wanted = Wanted { headers, uri };
    match (segments.next()?, segments.next(), segments.next(), segments.next()) {
        ("version", None, ..) => {
            Some(wanted.routed(&["application/json"]).unwrap_or_else(|| version_document(release)))
        }
        ("api", None, ..) => Some(wanted.routed(ALL).unwrap_or_else(|| {
            root(wanted, &api_versions(groups), || groups.aggregated_core(), || groups.core_entries())
        })),
        ("apis", None, ..) => {
            Some(root(wanted, &api_group_list(groups), || groups.aggregated_named(), || groups.named_entries()))
        }
        ("api", Some(version), None, _) => {
            let core = groups.list.iter().find(|group| group.name.is_empty())?;
            let list = resource_list(core, of_name(core, version)?);
            Some(wanted.routed(ALL).unwrap_or_else(|| plain(wanted, &list)))
        }
        ("apis", Some(group), None, _) => Some(plain(wanted, &groups.group_document(group)?)),
        ("apis", Some(group), Some(version), None) if !groups.is_remote(group, version) => {
            let found = groups.named(group)?;
            let list = resource_list(found, of_name(found, version)?);
            // The versions of custom resources have no routes.
            let refused = is_built_in_group(group).then(|| wanted.routed(ALL)).flatten();
            Some(refused.unwrap_or_else(|| plain(wanted, &list)))
        }
        _ => None,
    }
}

/// The parts of a request from which the encoding of its answer follows.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
}

impl Wanted<'_> {
    fn agreed(self, answer: AnswerType) -> Option<Agreed> {
        accept::negotiate(self.headers, self.uri, answer, MediaTypes::default())
    }

    /// The refusal of a form that no route has.
    fn routed(self, produced: &[&str]) -> Option<Response<Body>> {
        accept::check_routes(self.headers, produced).err().map(|status| self.refusal(&status))
    }

    fn refusal(self, status: &Status) -> Response<Body> {
        response::status(status, ResponseForm::of(self.headers, self.uri, MediaTypes::default()))
    }
}

fn of_name<'a>(group: &'a Group, name: &str) -> Option<&'a Version> {
    group.versions.iter().find(|version| version.version == name)
}

/// Responds to `/api` and `/apis`, which have two forms (`aggregated.WrappedHandler`): the aggregated one if the client accepts it at all. A 1.36
/// server no longer supports `v2beta1`.
fn root<'g>(
    wanted: Wanted<'_>,
    document: &impl Serialize,
    aggregated: impl FnOnce() -> &'g Aggregated,
    entries: impl FnOnce() -> Vec<Entry<'g>>,
) -> Response<Body> {
    match wanted.agreed(AnswerType::AggregatedDiscovery) {
        Some(agreed) => aggregated().response(agreed, entries),
        None => plain(wanted, document),
    }
}

fn plain(wanted: Wanted<'_>, document: &impl Serialize) -> Response<Body> {
    match wanted.agreed(AnswerType::Failure) {
        Some(agreed) => document::document(agreed.media_type.as_str(), encoded(document, agreed)),
        None => wanted.refusal(&Status::not_acceptable(ALL)),
    }
}

/// A document in an encoding.
fn encoded(document: &impl Serialize, agreed: Agreed) -> Vec<u8> {
    // Strings, numbers and lists of them always encode.
    let value = || serde_json::to_value(document).unwrap_or_default();
    match agreed.media_type {
        MediaType::Yaml => response::yaml_document(&value()).into_bytes(),
        MediaType::Protobuf => value().as_object().and_then(protobuf::encode_answer).unwrap_or_default(),
        MediaType::Json | MediaType::Cbor => answer(document, agreed.is_pretty),
    }
}

fn version_document(emulated: EmulatedRelease) -> Response<Body> {
    let info = VersionInfo {
        major: "1",
        minor: release::minor().to_string(),
        emulation_major: "1",
        emulation_minor: emulated.minor.to_string(),
        min_compatibility_major: "1",
        min_compatibility_minor: emulated.min_compatibility.to_string(),
        git_version: format!("v{}", release::version()),
        git_commit: "",
        git_tree_state: "clean",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: "linux/amd64",
    };
    document::document("application/json", serde_json::to_vec_pretty(&info).unwrap_or_default())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    major: &'static str,
    minor: String,
    emulation_major: &'static str,
    emulation_minor: String,
    min_compatibility_major: &'static str,
    min_compatibility_minor: String,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: &'static str,
}

/// `metav1.APIVersions`, without an `apiVersion`, as in kube-apiserver's response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersions<'a> {
    kind: &'static str,
    versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: [ServerAddress; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'static str,
}

fn api_versions(groups: &Groups) -> ApiVersions<'_> {
    let core = groups.list.iter().filter(|group| group.name.is_empty());
    ApiVersions {
        kind: "APIVersions",
        versions: core.flat_map(|group| &group.versions).map(|version| &*version.version).collect(),
        // The server inside the process has no address; clients have ignored this field for years.
        server_addresses: [ServerAddress { client_cidr: "0.0.0.0/0", server_address: "127.0.0.1:443" }],
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

/// `metav1.APIGroup` as an item of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_version: Option<GroupVersion<'a>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

/// `metav1.APIGroup` as a response of its own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupDocument<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    group: ApiGroup<'a>,
}

impl<'a> ApiGroup<'a> {
    fn of(name: &'a Name, versions: impl Iterator<Item = &'a Name>) -> Self {
        let version =
            |version: &'a Name| GroupVersion { group_version: crate::kind::api_version(name, version), version };
        let versions: Vec<GroupVersion<'a>> = versions.map(version).collect();
        Self { name, preferred_version: versions.first().cloned(), versions }
    }
}

fn api_group_list(groups: &Groups) -> ApiGroupList<'_> {
    let named = groups.names.iter().map(|(group, versions)| ApiGroup::of(group, versions.iter()));
    ApiGroupList { kind: "APIGroupList", api_version: "v1", groups: named.collect() }
}

/// `metav1.APIResourceList`; the list of the core group has no `apiVersion` (`discovery.NewAPIVersionHandler`).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: &'a [ApiResource],
}

fn resource_list<'a>(group: &Group, version: &'a Version) -> ApiResourceList<'a> {
    ApiResourceList {
        kind: "APIResourceList",
        api_version: (!group.name.is_empty()).then_some("v1"),
        group_version: crate::kind::api_version(&group.name, &version.version),
        resources: &version.resources,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::catalog;
    use http::header::ACCEPT;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    fn respond(path: &str, accept: &str) -> Option<Response<Body>> {
        let groups = catalog::groups(&[], &Default::default());
        let registered = registrations::built_in(&groups);
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let (groups, uri) = (Groups::new(groups, registered), path.parse().unwrap_or_default());
        super::respond(&groups, EmulatedRelease::default(), &uri, &headers)
    }

    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

    fn recorded() -> Value {
        serde_json::from_str(catalog::recorded()).unwrap()
    }

    async fn text(response: Response<Body>) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    async fn json_at(path: &str, accept: &str) -> Value {
        let response = respond(path, accept).unwrap_or_else(|| panic!("no answer at {path}"));
        assert_eq!(response.status(), 200, "{path}");
        serde_json::from_str(&text(response).await).unwrap()
    }

    #[tokio::test]
    async fn every_resource_list_is_the_recorded_one() {
        for group in recorded().as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let (group, name) = (group["name"].as_str().unwrap(), version["version"].as_str().unwrap());
                let answer = json_at(&catalog::group_version_path(group, name), "").await;
                assert_eq!(answer["resources"], version["resources"]);
                assert_eq!(answer["groupVersion"], crate::kind::api_version(group, name));
                assert_eq!(answer.get("apiVersion"), (!group.is_empty()).then_some(&json!("v1")));
            }
        }
    }

    #[tokio::test]
    async fn groups_come_in_the_recorded_order() {
        let names = |list: &Value, pointer: &str| -> Vec<Value> {
            list.as_array().unwrap().iter().map(|item| item.pointer(pointer).cloned().unwrap_or_default()).collect()
        };
        let recorded = names(&recorded(), "/name");
        assert_eq!(names(&json_at("/apis", "application/json").await["groups"], "/name"), recorded[1..]);
        assert_eq!(names(&json_at("/apis", V2).await["items"], "/metadata/name"), recorded[1..]);
        assert_eq!(json_at("/api", V2).await["items"].as_array().unwrap().len(), 1);
        let autoscaling = json_at("/apis/autoscaling/", "").await;
        assert_eq!(autoscaling["preferredVersion"], json!({"groupVersion": "autoscaling/v2", "version": "v2"}));
        assert_eq!(autoscaling["kind"], "APIGroup");
    }

    #[tokio::test]
    async fn the_aggregated_document_equals_the_resource_lists() {
        let mut count = 0;
        for path in ["/api", "/apis"] {
            for group in json_at(path, V2).await["items"].as_array().unwrap() {
                for version in group["versions"].as_array().unwrap() {
                    let group = group["metadata"]["name"].as_str().unwrap_or_default();
                    count += same_as_resource_list(group, version).await;
                }
            }
        }
        assert_eq!(count, catalog::resources().len());
    }

    async fn same_as_resource_list(group: &str, version: &Value) -> usize {
        let path = catalog::group_version_path(group, version["version"].as_str().unwrap());
        let mut plain = Vec::new();
        for resource in version["resources"].as_array().unwrap() {
            let namespaced = resource["scope"] == "Namespaced";
            plain.push((resource["resource"].as_str().unwrap().to_owned(), resource.clone(), namespaced));
            for below in resource["subresources"].as_array().into_iter().flatten() {
                let name =
                    format!("{}/{}", resource["resource"].as_str().unwrap(), below["subresource"].as_str().unwrap());
                plain.push((name, below.clone(), namespaced));
            }
        }
        let legacy = json_at(&path, "").await;
        let legacy = legacy["resources"].as_array().unwrap();
        assert_eq!(plain.len(), legacy.len(), "{path}");
        for ((name, aggregated, namespaced), legacy) in plain.iter().zip(legacy) {
            assert_eq!((legacy["name"].as_str(), &legacy["namespaced"]), (Some(name.as_str()), &json!(namespaced)));
            assert_eq!(aggregated["verbs"], legacy["verbs"], "{name}");
            assert_eq!(aggregated["responseKind"]["kind"], legacy["kind"], "{name}");
            assert_eq!(aggregated.get("shortNames"), legacy.get("shortNames"), "{name}");
            assert_eq!(aggregated.get("categories"), legacy.get("categories"), "{name}");
        }
        version["resources"].as_array().unwrap().len()
    }

    #[tokio::test]
    async fn fields_come_in_the_order_of_kube_apiserver() {
        let pods = concat!(
            r#"{"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","#,
            r#""singularResource":"pod","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"#,
            r#""shortNames":["po"],"categories":["all"],"subresources":[{"subresource":"attach""#
        );
        assert!(text(respond("/api", V2).unwrap()).await.contains(pods));
        let start = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","singularName":"binding","#;
        assert!(text(respond("/api/v1", "").unwrap()).await.starts_with(start));
        let group = r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","#;
        assert!(text(respond("/apis/apps", "").unwrap()).await.starts_with(group));
        let api = r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","#;
        assert!(text(respond("/api", "*/*").unwrap()).await.starts_with(api));
    }

    #[test]
    fn the_accept_header_decides_the_form() {
        let form = |path: &str, accept: &str| {
            let response = respond(path, accept).unwrap();
            let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
            (response.status().as_u16(), content_type)
        };
        let json = "application/json".to_owned();
        let aggregated = V2.to_owned();
        assert_eq!(form("/apis", &format!("{V2},application/json")), (200, aggregated.clone()));
        // The aggregated form comes first, wherever it stands.
        assert_eq!(form("/apis", &format!("application/json,{V2}")), (200, aggregated.clone()));
        assert_eq!(form("/apis", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io").1, aggregated);
        let protobuf = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(form("/apis", protobuf), (200, protobuf.to_owned()));
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(form("/apis", &format!("{beta},application/json")), (200, json.clone()));
        assert_eq!(form("/apis", beta), (406, json.clone()));
        assert_eq!(form("/apis/apps", V2), (406, json.clone()));
        assert_eq!(form("/api/v1", "text/html"), (406, json.clone()));
        assert_eq!(form("/version", "application/yaml"), (406, "application/yaml".to_owned()));
        assert_eq!(form("/version", ""), (200, json));
        for encoding in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
            assert_eq!(form("/api/v1", encoding), (200, encoding.to_owned()));
        }
    }

    #[test]
    fn an_aggregated_document_can_be_cached() {
        let response = respond("/apis", V2).unwrap();
        assert_eq!(response.headers()["vary"], "Accept");
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(tag.len(), 130);
        assert_eq!(document::conditional(response, &tag).status(), 304);
    }

    #[test]
    fn other_paths_are_not_answered() {
        for path in
            ["", "/", "/apix", "/api/v2", "/apis//v1", "/apis/nope", "/apis/apps/v2", "/apis/apps/v1/x", "/api/v1/pods"]
        {
            assert!(respond(path, "").is_none(), "{path}");
        }
    }

    #[tokio::test]
    async fn the_version_is_that_of_the_recorded_server() {
        let version = json_at("/version", "").await;
        assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
        assert_eq!(version["gitVersion"], "v1.36.3");
        assert_eq!((&version["emulationMinor"], &version["minCompatibilityMinor"]), (&json!("36"), &json!("35")));
        let emulated = version_document(EmulatedRelease::new(34)).into_body();
        let emulated: Value = serde_json::from_slice(&emulated.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!((&emulated["minor"], &emulated["emulationMinor"]), (&json!("36"), &json!("34")));
    }
}
