//! Custom resources in discovery (`DiscoveryController.sync`).

use crate::embedded::api::catalog::{ApiResource, Group, ServedResource, Version};
use crate::embedded::custom::resource::{VERBS, VERBS_OF_TERMINATING};
use crate::embedded::name::Name;
use crate::object::version::newness;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups of the resources, sorted by name, each with its newest version first.
pub(in crate::embedded) fn groups<'r>(resources: impl Iterator<Item = &'r Arc<ServedResource>>) -> Vec<Group> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Version>> = BTreeMap::new();
    for resource in resources {
        let Some(custom) = resource.custom.as_ref().filter(|custom| custom.definition.is_established) else { continue };
        let versions = groups.entry(&resource.group).or_default();
        let version = versions
            .entry(&resource.version)
            .or_insert_with(|| Version { version: resource.version.clone(), resources: Vec::new() });
        let is_terminating = custom.definition.is_terminating;
        version.resources.push(ApiResource {
            verbs: if is_terminating { VERBS_OF_TERMINATING.to_vec() } else { VERBS.to_vec() },
            singular_name: resource.singular.clone(),
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            storage_version_hash: storage_version_hash(resource),
            ..entry(resource, resource.name.clone())
        });
        for subresource in &resource.subresources {
            let mut entry = entry(resource, format!("{}/{}", resource.name, subresource.name).into());
            entry.verbs = subresource.verbs.clone();
            if subresource.kind.group != *resource.group {
                entry.group = subresource.kind.group.clone().into();
                entry.version = subresource.kind.version.clone().into();
                entry.kind = subresource.kind.kind.clone().into();
            }
            version.resources.push(entry);
        }
    }
    let group = |(name, versions): (&str, BTreeMap<&str, Version>)| {
        let mut versions: Vec<_> = versions.into_values().collect();
        versions.sort_by_cached_key(|version| Reverse(newness_of(&version.version)));
        Group { name: name.to_owned().into(), versions }
    };
    groups.into_iter().map(group).collect()
}

/// The rank of a version, which owns its text.
fn newness_of(version: &str) -> (Option<(u8, u32, u32)>, Reverse<String>) {
    let (stability, Reverse(text)) = newness(version);
    (stability, Reverse(text.to_owned()))
}

fn entry(resource: &ServedResource, name: Name) -> ApiResource {
    ApiResource {
        name,
        singular_name: Name::default(),
        namespaced: resource.namespaced,
        group: Name::default(),
        version: Name::default(),
        kind: resource.kind.clone(),
        place: Some((resource.group.clone(), resource.version.clone())),
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: Name::default(),
    }
}

/// `discovery.StorageVersionHash`
fn storage_version_hash(resource: &ServedResource) -> Name {
    let Some(custom) = &resource.custom else { return Name::default() };
    if !custom.definition.serves_storage {
        return Name::default();
    }
    let stored = format!("{}/{}/{}", resource.group, custom.definition.storage, resource.kind);
    let hash = Sha256::digest(stored.as_bytes());
    STANDARD.encode(hash.get(..8).unwrap_or_default()).into()
}
