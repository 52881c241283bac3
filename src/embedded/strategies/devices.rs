//! The kinds of dynamic resource allocation (`pkg/registry/resource`). Their expressions select devices; the rules of expressions come from a
//! higher layer, which has the compiler.

use super::context::Context;
use super::disabled::DisabledFields;
use super::fields::put;
use super::registrations::changed;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::object::{Object, release};
use crate::status::{Cause, Status};
use serde_json::Value;
use std::collections::HashSet;

/// A DeviceClass or a ResourceClaimTemplate.
pub(super) struct Devices;

impl Strategy for Devices {
    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        context.settings.registration_causes(object)
    }

    fn validate_update(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        changed(context, object)
    }
}

pub(super) struct ResourceSlices;

impl Strategy for ResourceSlices {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields {
                gate: "DRANodeAllocatableResources",
                paths: &[
                    &["spec", "devices", "*", "nodeAllocatableResourceMappings"],
                    // Its name since 1.37.
                    &["spec", "devices", "*", "nodeAllocatableResources"],
                ],
            },
            DisabledFields { gate: "DRAPartitionableDevicesType", paths: &[&["spec", "partitionTypeAttribute"]] },
            DisabledFields { gate: "DRAOptionalNodeOperations", paths: &[&["spec", "skipNodeOperations"]] },
            DisabledFields {
                gate: "DRADeviceCompatibilityGroups",
                paths: &[&["spec", "devices", "*", "consumesCounters", "*", "compatibilityGroups"]],
            },
            DisabledFields {
                gate: "DRAListTypeAttributes",
                paths: &[
                    &["spec", "devices", "*", "attributes", "*", "bools"],
                    &["spec", "devices", "*", "attributes", "*", "ints"],
                    &["spec", "devices", "*", "attributes", "*", "strings"],
                    &["spec", "devices", "*", "attributes", "*", "versions"],
                ],
            },
        ]
    }

    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        context.settings.registration_causes(object)
    }

    fn validate_update(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        changed(context, object)
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        if release::since(37) {
            &["spec.nodeName", "spec.driver", "spec.pool.name"]
        } else {
            &["spec.nodeName", "spec.driver"]
        }
    }
}

pub(super) struct ResourceClaims;

impl Strategy for ResourceClaims {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields {
                gate: "DRADerivedAttributes",
                paths: &[
                    &["spec", "devices", "requests", "*", "exactly", "derivedAttributes"],
                    &["spec", "devices", "requests", "*", "firstAvailable", "*", "derivedAttributes"],
                ],
            },
            DisabledFields {
                gate: "DRAOptionalNodeOperations",
                paths: &[&["status", "allocation", "devices", "results", "*", "skipNodeOperations"]],
            },
        ]
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        if context.subresource == "status" {
            drop_deallocated(object, current);
        }
        Ok(false)
    }

    /// An update needs no such validation: the spec is immutable.
    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        context.settings.registration_causes(object)
    }
}

/// Removes the status of devices that the claim had and has no longer (`dropDeallocatedStatusDevices`).
fn drop_deallocated(object: &mut Object, current: &Object) {
    type Device = [Value; 4];
    let device = |value: &Value| -> Device {
        ["driver", "pool", "device", "shareID"].map(|field| value.get(field).cloned().unwrap_or_default())
    };
    let results = |object: &Object| -> HashSet<Device> {
        let results = object.items(&["status", "allocation", "devices", "results"]);
        results.iter().map(device).collect()
    };
    let (old, new) = (results(current), results(object));
    let mut devices = object.items(&["status", "devices"]).to_vec();
    let before = devices.len();
    devices.retain(|each| !old.contains(&device(each)) || new.contains(&device(each)));
    match devices.len() {
        0 => drop(object.remove(&["status", "devices"])),
        left if left < before => put(object, &["status", "devices"], Value::Array(devices)),
        _ => {}
    }
}
