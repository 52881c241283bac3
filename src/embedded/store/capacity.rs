//! The bounds of etcd: the bytes of one request, and of all objects. The errors are those that kube-apiserver returns.

use super::{Collection, State, Store, size};
use crate::body::Weight;
use crate::config::Limits;
use crate::kind::split_api_version;
use crate::object::{Object, decoded_bytes, kinds, protobuf};
use crate::status::Status;

/// The place of the owners of an object's fields.
const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The groups whose objects kube-apiserver stores as JSON, not as protobuf.
pub(in crate::embedded) const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The bytes of the longest message that kube-apiserver sends to etcd (`defaultMaxCallSendMsgSize`).
const SENT_BYTES: usize = 2 << 20;

/// The bytes of the header of a request in etcd's log: its tag and length, and a random identifier.
const LOG_HEADER: usize = 14;

/// The write of an object in kube-apiserver's storage.
#[derive(Clone, Copy)]
pub(in crate::embedded) struct Put<'a> {
    pub collection: &'a Collection,
    /// The key of the object in the collection.
    pub key: &'a str,
    /// The path of the collection in kube-apiserver's storage.
    pub path: &'a str,
    /// Whether managedFields must be kept, as by an apply.
    pub is_apply: bool,
}

/// Checks that etcd accepts an object. As kube-apiserver does, drops its managedFields if the object is accepted without them
/// (`isTooLargeError` in `createHandler`); an apply keeps them.
///
/// # Errors
/// 500 if the object is too large, 413 if it takes too much memory.
pub(in crate::embedded) fn fitted(
    store: &Store,
    limits: &Limits,
    put: Put<'_>,
    mut object: Object,
) -> Result<Object, Status> {
    check_memory(store, limits, put.collection, put.key, &object)?;
    let most = limits.stored_object_bytes;
    match check_size(&object, put, most) {
        Err(_) if !put.is_apply && object.remove(&MANAGED_FIELDS).is_some() => {}
        checked => return checked.map(|()| object),
    }
    check_size(&object, put, most).map(|()| object)
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

/// Checks the size of the transaction that writes an object.
///
/// # Errors
/// 500 if kube-apiserver cannot send it, or etcd refuses it.
fn check_size(object: &Object, put: Put<'_>, most: usize) -> Result<(), Status> {
    // An escape has at most 6 bytes, so that most objects need not be looked at.
    if size::of(object) <= most / 7 {
        return Ok(());
    }
    let key = "/registry/".len() + put.path.len() + 1 + put.key.len();
    let bytes = transaction_bytes(key, stored_bytes(object, most), object.resource_version());
    if bytes > SENT_BYTES {
        // `grpc.ErrMsgSizeLimit`
        return Err(Status::plain(format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({bytes} vs. {SENT_BYTES})"
        )));
    }
    if field(bytes) + LOG_HEADER > most { Err(too_large()) } else { Ok(()) }
}

/// The bytes of the transaction that writes a value if its key still has a revision (`kubernetes.Client.OptimisticPut`).
fn transaction_bytes(key: usize, value: usize, resource_version: &str) -> usize {
    let revision: u64 = resource_version.parse().unwrap_or_default();
    // `Compare` has a target and a revision beside its key.
    let compare = field(2 + field(key) + 1 + varint(revision));
    let put = field(field(field(key) + field(value)));
    // An update reads the object if its revision is another one.
    let get = if revision > 0 { field(field(field(key))) } else { 0 };
    compare + put + get
}

/// The bytes of a field of protobuf with this content.
fn field(content: usize) -> usize {
    1 + varint(content as u64) + content
}

fn varint(number: u64) -> usize {
    number.checked_ilog2().map_or(1, |bits| bits as usize / 7 + 1)
}

/// The bytes of an object as kube-apiserver stores it, without its resourceVersion. Of an object that fits as protobuf anyway, those of its
/// JSON.
fn stored_bytes(object: &Object, most: usize) -> usize {
    let (group, _) = split_api_version(object.api_version());
    let version = object.resource_version().len();
    if !kinds::is_built_in_group(group) || STORED_AS_JSON.contains(&group) {
        let of_version = if version > 0 { "\"resourceVersion\":\"\",".len() + version } else { 0 };
        // The encoder ends the line.
        return size::in_go_json(object.as_value()) + 1 - of_version;
    }
    let in_json = size::of(object);
    if in_json <= most / 2 {
        return in_json;
    }
    protobuf::encode_answer(object.fields()).map_or(in_json, |bytes| bytes.len() - version)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static CUSTOM: Collection = Collection::built_in("e.com", "widgets");

    fn put(is_apply: bool) -> Put<'static> {
        Put { collection: &CUSTOM, key: "n/a", path: "e.com/widgets", is_apply }
    }

    fn with(fields: serde_json::Value) -> Object {
        let mut object = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Object::from_value(object).unwrap()
    }

    #[test]
    fn lengths_are_those_of_protobuf() {
        for (number, bytes) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            assert_eq!(varint(number), bytes, "{number}");
        }
        // compare: 0a 09 10 02 1a 03 k e y 30 00; success: 12 0c 12 0a 0a 03 k e y 12 03 v a l
        assert_eq!(transaction_bytes(3, 3, ""), 11 + 14);
        // The revision has one byte more, and a request of the key follows.
        assert_eq!(transaction_bytes(3, 3, "200"), 12 + 14 + 9);
    }

    #[test]
    fn an_object_is_refused_by_the_bytes_of_the_whole_transaction() {
        let refused = |bytes: usize| {
            let object = with(json!({"spec": "x".repeat(bytes)}));
            check_size(&object, put(false), 1536 * 1024).err().map(|status| status.message)
        };
        let (mut fits, mut does_not) = (1_500_000, 1_572_864);
        while does_not - fits > 1 {
            let middle = usize::midpoint(fits, does_not);
            if refused(middle).is_none() { fits = middle } else { does_not = middle }
        }
        // The rest is the object's other fields, two keys, and the messages around them.
        assert!((100..250).contains(&(1_572_864 - does_not)), "{does_not}");
        assert_eq!(refused(does_not).as_deref(), Some("etcdserver: request is too large"));
        let message = refused(2_200_000).unwrap();
        assert!(
            message
                .starts_with("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2200")
        );
        assert!(message.ends_with(" vs. 2097152)"), "{message}");
    }
}
