//! Equivalent resources, which share their storage with a resource, and their kinds (`runtime.EquivalentResourceMapper`).

use super::Converter;
use crate::cluster::{CustomResource, Definition};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::kinds::{cohabiting_groups, is_built_in_group};
use crate::object::version::newness;
use crate::status::Status;
use std::sync::Arc;

/// A resource that shares its storage with another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Equivalent {
    pub(crate) resource: GroupVersionResource,
    /// The kind of the objects, or of the subresource's body if a subresource was given.
    pub(crate) kind: GroupVersionKind,
}

impl Converter {
    /// The equivalents of a resource without the resource itself, in kube-apiserver's order. Versions of custom resources that
    /// are not served are included.
    ///
    /// # Errors
    /// If the definition of a custom resource is neither in the cache nor readable from the API server.
    pub(crate) async fn equivalents(
        &self,
        resource: &GroupVersionResource,
        subresource: &str,
    ) -> Result<Vec<Equivalent>, Status> {
        if let Some(known) = self.known_equivalents(resource, subresource) {
            return Ok(known);
        }
        Ok(match self.cluster.find_definition(resource).await? {
            Some(definition) => of_definition(&definition, resource, subresource),
            None => self.served(&resource.group, resource, subresource),
        })
    }

    /// The equivalents that are known without a call to the API server. `None` if the definition is not in the cache.
    pub(crate) fn known_equivalents(
        &self,
        resource: &GroupVersionResource,
        subresource: &str,
    ) -> Option<Vec<Equivalent>> {
        let group = &*resource.group;
        let groups = cohabiting_groups(group, &resource.resource);
        // The group `extensions` has no resources but removed ones.
        if is_built_in_group(group) || group == "extensions" {
            return Some(groups.flat_map(|group| self.served(group, resource, subresource)).collect());
        }
        let definition = self.cluster.definition(resource)?;
        Some(of_definition(&definition, resource, subresource))
    }

    /// The group's versions in discovery that serve the resource, newest first as kube-apiserver installs them (`SetVersionPriority`).
    fn served(&self, group: &str, resource: &GroupVersionResource, subresource: &str) -> Vec<Equivalent> {
        let mut versions = self.discovery.versions(group, &resource.resource);
        versions.sort_by(|(one, _), (other, _)| newness(other).cmp(&newness(one)));
        let equivalent = |(version, facts): (String, Arc<crate::cluster::discovery::Resource>)| {
            let kind = match subresource {
                "" => facts.kind.clone(),
                _ => facts.subresources.get(subresource)?.kind.clone(),
            };
            let other = GroupVersionResource::new(group, version, &*resource.resource);
            (other != *resource && !kind.kind.is_empty()).then_some(Equivalent { resource: other, kind })
        };
        versions.into_iter().filter_map(equivalent).collect()
    }
}

/// The definition's versions that have the subresource, in the definition's order.
fn of_definition(definition: &Definition, resource: &GroupVersionResource, subresource: &str) -> Vec<Equivalent> {
    let equivalent = |version: &Arc<CustomResource>| {
        let kind = match subresource {
            "" => version.kind.clone(),
            "status" if version.has_status => version.kind.clone(),
            "scale" if version.scale.is_some() => GroupVersionKind::new("autoscaling", "v1", "Scale"),
            _ => return None,
        };
        let (group, name) = (&*resource.group, &*resource.resource);
        let other = GroupVersionResource::new(group, &*version.kind.version, name);
        (other != *resource).then_some(Equivalent { resource: other, kind })
    };
    definition.versions.iter().filter_map(equivalent).collect()
}
