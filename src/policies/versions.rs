//! The objects of a request in the versions that policies want to see.

use crate::admission::Attributes;
use crate::cluster::Cluster;
use crate::object::{GroupVersionKind, GroupVersionResource, Object};
use crate::webhooks::rules::Match;

/// The versions that were made so far.
#[derive(Debug, Default)]
pub struct Versions;

/// What is looked at: kind and resource, and the objects as that kind.
pub type View<'a> = ((&'a GroupVersionKind, &'a GroupVersionResource), (Option<&'a Object>, Option<&'a Object>));

impl Versions {
    /// Has the objects at hand as what matched.
    ///
    /// # Errors
    /// When they cannot be converted.
    pub async fn prepare(
        &mut self,
        _attributes: &Attributes,
        matched: &Match,
        _cluster: &Cluster,
    ) -> Result<(), String> {
        match matched {
            Match::Exact | Match::No => Ok(()),
            Match::Equivalent(other) => {
                let other = format!("{}/{}, Resource={}", other.group, other.version, other.resource);
                Err(format!("unable to convert to {other}: unknown conversion"))
            }
        }
    }

    /// The objects as what matched, which was prepared.
    pub fn find<'a>(&'a self, attributes: &'a Attributes, _matched: &'a Match) -> View<'a> {
        let objects = (attributes.object.as_ref(), attributes.old_object.as_deref());
        ((&attributes.kind, &attributes.resource), objects)
    }
}
