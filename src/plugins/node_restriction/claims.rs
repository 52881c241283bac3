//! PersistentVolumeClaims: a node may update a claim's capacity and the state of its resize.

use super::{claim_diff, no_object, read};
use crate::admission::{Attributes, Denial, Operation};
use crate::go_text::go_quote;
use crate::object::Object;
use crate::object::quantity::Quantity;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// The parts of a claim that a node must not change. Empty values are removed.
#[derive(Clone, PartialEq)]
pub(super) struct Claim {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: PersistentVolumeClaimSpec,
    pub(super) status: PersistentVolumeClaimStatus,
}

/// Checks a request for a claim or a subresource of a claim (`admitPVCStatus`).
pub(super) fn check(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.subresource != "status" {
        return Err(Denial::forbidden("may only update PVC status"));
    }
    if attributes.operation != Operation::Update {
        return Err(Denial::forbidden(format!("unexpected operation {}", go_quote(attributes.operation.as_str()))));
    }
    let (old, new) = (attributes.old_object.as_deref(), attributes.object.as_ref());
    let (Some(old), Some(new)) = (old, new) else { return Err(no_object()) };
    let (old, new) = (Claim::read(old)?, Claim::read(new)?);
    match old.is_same(&new) {
        true => Ok(()),
        false => Err(Denial::forbidden(format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions: {}",
            go_quote(node),
            claim_diff::of(&old, &new)
        ))),
    }
}

impl Claim {
    fn read(claim: &Object) -> Result<Self, Denial> {
        let mut metadata: ObjectMeta = read::part(claim, &["metadata"])?;
        metadata.resource_version = None;
        metadata.managed_fields = None;
        let ObjectMeta { name, generate_name, namespace, self_link, uid, .. } = &mut metadata;
        [name, generate_name, namespace, self_link, uid].into_iter().for_each(drop_empty);
        metadata.generation = metadata.generation.filter(|&generation| generation != 0);
        drop_empty_map(&mut metadata.labels);
        drop_empty_map(&mut metadata.annotations);
        drop_empty_list(&mut metadata.owner_references);
        drop_empty_list(&mut metadata.finalizers);

        let mut spec: PersistentVolumeClaimSpec = read::part(claim, &["spec"])?;
        drop_empty(&mut spec.volume_name);
        drop_empty_list(&mut spec.access_modes);
        let resources = spec.resources.get_or_insert_default();
        drop_empty_map(&mut resources.limits);
        drop_empty_map(&mut resources.requests);
        if let Some(selector) = &mut spec.selector {
            drop_empty_map(&mut selector.match_labels);
            drop_empty_list(&mut selector.match_expressions);
        }

        let mut status: PersistentVolumeClaimStatus = read::part(claim, &["status"])?;
        status.capacity = None;
        status.conditions = None;
        // The feature gate `RecoverVolumeExpansionFailure`, which is locked to on, lets a node change both fields.
        status.allocated_resources = None;
        status.allocated_resource_statuses = None;
        drop_empty(&mut status.phase);
        drop_empty_list(&mut status.access_modes);
        if let Some(modified) = &mut status.modify_volume_status {
            drop_empty(&mut modified.target_volume_attributes_class_name);
        }
        Ok(Self { metadata, spec, status })
    }

    /// `apiequality.Semantic.DeepEqual`: compares quantities as numbers.
    fn is_same(&self, other: &Self) -> bool {
        let without_resources = |claim: &Self| {
            let mut claim = claim.clone();
            claim.spec.resources = None;
            claim
        };
        without_resources(self) == without_resources(other) && are_same(&self.spec.resources, &other.spec.resources)
    }
}

fn are_same(old: &Option<VolumeResourceRequirements>, new: &Option<VolumeResourceRequirements>) -> bool {
    type Amounts = Option<BTreeMap<String, resource::Quantity>>;
    let same_amount = |old: &resource::Quantity, new: &resource::Quantity| {
        old == new || matches!((Quantity::parse(&old.0), Quantity::parse(&new.0)), (Ok(old), Ok(new)) if old == new)
    };
    let same_amounts = |old: &Amounts, new: &Amounts| {
        let (old, new) = (old.iter().flatten(), new.iter().flatten());
        let same = |((a, old), (b, new)): ((&String, &_), (&String, &_))| a == b && same_amount(old, new);
        old.clone().count() == new.clone().count() && old.zip(new).all(same)
    };
    let (old, new) = (old.clone().unwrap_or_default(), new.clone().unwrap_or_default());
    same_amounts(&old.limits, &new.limits) && same_amounts(&old.requests, &new.requests)
}

fn drop_empty(text: &mut Option<String>) {
    text.take_if(|text| text.is_empty());
}

fn drop_empty_map<V>(map: &mut Option<BTreeMap<String, V>>) {
    map.take_if(|map| map.is_empty());
}

fn drop_empty_list<V>(list: &mut Option<Vec<V>>) {
    list.take_if(|list| list.is_empty());
}

#[cfg(test)]
mod tests;
