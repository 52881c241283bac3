//! The documents of discovery, aggregated and legacy, as table entries.

use super::{GroupVersion, Resource, Subresource};
use crate::kind::{GroupVersionKind, split_api_version};
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::sync::Arc;

/// The content of one discovery endpoint.
#[derive(Debug)]
pub(super) enum Document {
    /// Aggregated discovery of all groups. A version with possibly outdated resources is marked as stale.
    Aggregated(Vec<Found>),
    /// The groups and versions, whose resources are read one by one.
    Versions(Vec<(String, String)>),
}

/// One group and version with its resources.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resources: GroupVersion,
    /// Whether the upstream API server could not reach the aggregated API server (`freshness: Stale`).
    pub(super) stale: bool,
}

/// Go writes an empty list as `null`.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Root {
    kind: String,
    #[serde(deserialize_with = "nullable")]
    items: Vec<AggregatedGroup>,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    groups: Vec<LegacyGroup>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedGroup {
    metadata: Named,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedVersion {
    version: String,
    freshness: String,
    #[serde(deserialize_with = "nullable")]
    resources: Vec<AggregatedResource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(deserialize_with = "nullable")]
    response_kind: GroupVersionKindOrNot,
    scope: String,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedSubresource {
    subresource: String,
    #[serde(deserialize_with = "nullable")]
    response_kind: GroupVersionKindOrNot,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionKindOrNot {
    group: String,
    version: String,
    kind: String,
}

impl GroupVersionKindOrNot {
    /// Group and version default to those of the URL.
    fn within(self, group: &str, version: &str) -> GroupVersionKind {
        match (&*self.group, &*self.version) {
            ("", "") => GroupVersionKind::new(group, version, self.kind),
            _ => GroupVersionKind::new(self.group, self.version, self.kind),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LegacyGroup {
    #[serde(deserialize_with = "nullable")]
    versions: Vec<LegacyVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LegacyVersion {
    group_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LegacyList {
    kind: String,
    #[serde(deserialize_with = "nullable")]
    resources: Vec<LegacyResource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LegacyResource {
    name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
}

/// The reason why the resources of a group are unknown.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(super) struct Undiscovered {
    why: String,
    /// Whether the API server gave no answer, which its probe tells.
    pub(super) is_unanswered: bool,
}

impl Undiscovered {
    pub(super) fn of(why: String) -> Self {
        Self { why, is_unanswered: false }
    }

    /// The API server gave no answer.
    pub(super) fn unanswered(why: String) -> Self {
        Self { why, is_unanswered: true }
    }
}

/// Parses the answer of `/api` or `/apis`, aggregated or legacy.
pub(super) fn root(body: &[u8]) -> Result<Document, Undiscovered> {
    let root: Root = serde_json::from_slice(body).map_err(|error| Undiscovered::of(error.to_string()))?;
    match &*root.kind {
        "APIGroupDiscoveryList" => Ok(Document::Aggregated(root.items.into_iter().flat_map(aggregated).collect())),
        "APIVersions" => {
            Ok(Document::Versions(root.versions.into_iter().map(|version| (String::new(), version)).collect()))
        }
        "APIGroupList" => {
            let versions = root.groups.into_iter().flat_map(|group| group.versions);
            let split = |version: LegacyVersion| {
                let (group, version) = split_api_version(&version.group_version);
                (group.to_owned(), version.to_owned())
            };
            Ok(Document::Versions(versions.map(split).collect()))
        }
        kind => Err(Undiscovered::of(format!("unexpected kind {kind:?}"))),
    }
}

fn aggregated(group: AggregatedGroup) -> impl Iterator<Item = Found> {
    let name = group.metadata.name;
    group.versions.into_iter().map(move |found| {
        let resources = found.resources.into_iter().map(|resource| {
            let kind_within = |kind: GroupVersionKindOrNot| kind.within(&name, &found.version);
            let subresources = resource.subresources.into_iter().map(|subresource| {
                let kind = kind_within(subresource.response_kind);
                (subresource.subresource, Subresource { kind, verbs: subresource.verbs })
            });
            let entry = Resource {
                subresources: subresources.collect(),
                kind: kind_within(resource.response_kind),
                namespaced: resource.scope == "Namespaced",
                verbs: resource.verbs,
            };
            (resource.resource, Arc::new(entry))
        });
        let resources = resources.collect();
        Found { group: name.clone(), resources, stale: found.freshness == "Stale", version: found.version }
    })
}

/// Parses the `APIResourceList` of one group and version.
pub(super) fn legacy(body: &[u8], group: &str, version: &str) -> Result<Found, Undiscovered> {
    let list: LegacyList = serde_json::from_slice(body).map_err(|error| Undiscovered::of(error.to_string()))?;
    if list.kind != "APIResourceList" {
        return Err(Undiscovered::of(format!("unexpected kind {:?}", list.kind)));
    }
    let mut resources: HashMap<String, Resource> = HashMap::new();
    for entry in list.resources {
        let kind = GroupVersionKindOrNot { group: entry.group, version: entry.version, kind: entry.kind };
        let kind = kind.within(group, version);
        let (name, subresource) =
            entry.name.split_once('/').map_or((&*entry.name, None), |(name, sub)| (name, Some(sub)));
        // A resource may have subresources only.
        let resource = resources.entry(name.to_owned()).or_insert_with(|| Resource {
            kind: GroupVersionKind::new(group, version, ""),
            namespaced: entry.namespaced,
            verbs: Vec::new(),
            subresources: HashMap::new(),
        });
        match subresource {
            Some(subresource) => {
                resource.subresources.insert(subresource.to_owned(), Subresource { kind, verbs: entry.verbs });
            }
            None => (resource.kind, resource.verbs, resource.namespaced) = (kind, entry.verbs, entry.namespaced),
        }
    }
    let resources = resources.into_iter().map(|(name, resource)| (name, Arc::new(resource))).collect();
    Ok(Found { group: group.to_owned(), version: version.to_owned(), resources, stale: false })
}
