//! The bounds of etcd: the bytes of one request, and of all objects. The errors are those that kube-apiserver returns.

use super::{Collection, State, Store, size};
use crate::body::Weight;
use crate::config::Limits;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::{Object, decoded_bytes, kinds, protobuf};
use crate::status::Status;

/// The place of the owners of an object's fields.
const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The groups whose objects kube-apiserver stores as JSON, not as protobuf.
pub(in crate::embedded) const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Checks that etcd accepts an object. As kube-apiserver does, drops its managedFields if the object is accepted without them
/// (`isTooLargeError` in `createHandler`); an apply keeps them.
///
/// # Errors
/// 500 if the object is too large, 413 if it takes too much memory.
pub(in crate::embedded) fn fitted(
    store: &Store,
    limits: &Limits,
    collection: &Collection,
    key: &str,
    mut object: Object,
    is_apply: bool,
) -> Result<Object, Status> {
    check_memory(store, limits, collection, key, &object)?;
    let most = limits.stored_object_bytes;
    if fits(&object, most) {
        return Ok(object);
    }
    if !is_apply && object.remove(&MANAGED_FIELDS).is_some() && fits(&object, most) {
        return Ok(object);
    }
    Err(too_large())
}

/// The most memory that a byte of JSON takes.
const BYTES_OF_BYTE: usize = 100;

/// Checks that a changed object takes no more memory than one body may take: patches of an object must not make it so large that every
/// later write exceeds the memory. An object that becomes smaller is accepted.
fn check_memory(
    store: &Store,
    limits: &Limits,
    collection: &Collection,
    key: &str,
    object: &Object,
) -> Result<(), Status> {
    let (bytes, most) = (size::of(object), Weight::most_decoded(limits.whole_bodies_bytes));
    let is_larger = || store.with(|state| state.bytes_of(collection, key)) < bytes;
    if bytes < most / BYTES_OF_BYTE || memory_of(object) <= most || !is_larger() {
        return Ok(());
    }
    Err(Status::too_large("the object has more values than there is memory for: raise the memory limit"))
}

/// The memory of an object, its managedFields aside: no body has those of its own fields.
fn memory_of(object: &Object) -> usize {
    let owners = object.get(&MANAGED_FIELDS).map_or(0, decoded_bytes);
    decoded_bytes(object.as_value()).saturating_sub(owners)
}

/// `rpctypes.ErrRequestTooLarge`
pub(in crate::embedded) fn too_large() -> Status {
    Status::plain("etcdserver: request is too large")
}

/// Whether etcd accepts an object with this `spec`, as JSON.
pub(in crate::embedded) fn has_fitting_spec(limits: &Limits, object: &Object) -> bool {
    object.get(&["spec"]).map_or(0, size::of_value) <= limits.stored_object_bytes
}

fn fits(object: &Object, most: usize) -> bool {
    // An escape has at most 6 bytes, and protobuf is shorter than JSON, so that most objects need not be looked at.
    size::of(object) <= most / 6 || stored_bytes(object, most) <= most
}

/// The bytes of an object as kube-apiserver stores it. Of an object that fits as protobuf anyway, those of its JSON.
fn stored_bytes(object: &Object, most: usize) -> usize {
    let (group, version) = split_api_version(object.api_version());
    let GroupVersionKind { group, version, kind } = GroupVersionKind::new(group, version, object.kind());
    if !kinds::is_built_in_group(&group) || STORED_AS_JSON.contains(&&*group) {
        return size::in_go_json(object);
    }
    let in_json = size::of(object);
    if in_json <= most {
        return in_json;
    }
    let encoded = protobuf::encode(object, &group, &version, &kind, 0);
    encoded.map_or(in_json, |bytes| bytes.len())
}

/// Checks that the store has room for a new or changed object.
///
/// # Errors
/// 500 if it has none (`rpctypes.ErrNoSpace`).
pub(in crate::embedded) fn check_room(
    state: &State,
    collection: &Collection,
    key: &str,
    bytes: usize,
) -> Result<(), Status> {
    match state.has_room(collection, key, bytes) {
        true => Ok(()),
        false => Err(Status::plain("etcdserver: mvcc: database space exceeded")),
    }
}
