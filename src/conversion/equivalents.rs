//! Which resources are stored as one with a resource, and the kinds that they have (`runtime.EquivalentResourceMapper`).

use super::Converter;
use crate::cluster::{CustomResource, Definition};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::kinds::is_built_in_group;
use crate::object::version::newness;
use crate::status::Status;
use std::sync::Arc;

/// A resource that is stored as one with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivalent {
    /// The resource.
    pub resource: GroupVersionResource,
    /// Kind of its objects; of the subresource's body, if it is asked for that.
    pub kind: GroupVersionKind,
}

/// The groups that share a resource's storage; of those that are served still, only events have several
/// (`AddCohabitatingResources`).
const EVENT_GROUPS: [&str; 2] = ["", "events.k8s.io"];

/// The groups under which a resource is stored as one, in kube-apiserver's order.
pub fn cohabiting_groups<'a>(group: &'a str, resource: &str) -> impl Iterator<Item = &'a str> {
    let [core, events] = EVENT_GROUPS;
    let (first, second) =
        if resource == "events" && EVENT_GROUPS.contains(&group) { (core, Some(events)) } else { (group, None) };
    std::iter::once(first).chain(second)
}

impl Converter {
    /// What a resource is equivalent to, itself left out, in kube-apiserver's order. Versions of custom resources that are
    /// not served count as well.
    ///
    /// # Errors
    /// When the definition of a custom resource, which is not in the cache yet, could not be asked for.
    pub async fn equivalents(
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

    /// The same without asking anybody; `None` where that cannot be told.
    pub fn known_equivalents(&self, resource: &GroupVersionResource, subresource: &str) -> Option<Vec<Equivalent>> {
        let group = &*resource.group;
        if is_built_in_group(group) {
            let groups = cohabiting_groups(group, &resource.resource);
            return Some(groups.flat_map(|group| self.served(group, resource, subresource)).collect());
        }
        let definition = self.cluster.definition(resource)?;
        Some(of_definition(&definition, resource, subresource))
    }

    /// The versions of a group that discovery has, newest first as kube-apiserver installs them (`SetVersionPriority`).
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

/// The versions of a definition that have the subresource, in its order.
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
