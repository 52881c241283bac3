//! Objects with values that the types here do not accept, of every cached kind. Such objects must not affect other objects.

use super::cache::{Cache, Projection};
use super::custom_resources::Definition;
use super::decode::decode;
use super::follow::Follower;
use super::quotas::OwnedClaim;
use super::tests::client;
use super::*;
use crate::logging::{self, Format, Levels, Modules};
use crate::policies::{Binding, MUTATING_BINDINGS, VALIDATING_BINDINGS};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{LimitRange, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::DeviceClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Mutex;
use tracing_subscriber::layer::SubscriberExt as _;

const LATE: &str = "9999-12-31T23:59:59Z";

/// Runs a function for every cached kind, with the fields that the kind requires beside metadata.
macro_rules! every_kind {
    ($function:ident, $($argument:expr),*) => {{
        let group = json!({"spec": {"group": "g.io", "names": {"kind": "K", "plural": "ks"}, "versions": []}});
        $function::<Namespace>(json!({}), $($argument),*);
        $function::<MutatingWebhookConfiguration>(json!({"webhooks": []}), $($argument),*);
        $function::<ValidatingWebhookConfiguration>(json!({"webhooks": []}), $($argument),*);
        $function::<Service>(json!({"spec": {}}), $($argument),*);
        $function::<Endpoints>(json!({"addressType": "IPv4", "endpoints": []}), $($argument),*);
        $function::<Pod>(json!({"spec": {"nodeName": "n", "containers": []}}), $($argument),*);
        $function::<Node>(json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": LATE}]}}), $($argument),*);
        $function::<ServiceAccount>(json!({}), $($argument),*);
        $function::<LimitRange>(json!({"spec": {"limits": []}}), $($argument),*);
        $function::<PriorityClass>(json!({"value": 1}), $($argument),*);
        $function::<StorageClass>(json!({"provisioner": "p"}), $($argument),*);
        $function::<IngressClass>(json!({"spec": {}}), $($argument),*);
        $function::<RuntimeClass>(json!({"handler": "h"}), $($argument),*);
        $function::<PersistentVolume>(json!({"spec": {}}), $($argument),*);
        $function::<PersistentVolumeClaim>(json!({"spec": {}}), $($argument),*);
        $function::<CSIDriver>(json!({"spec": {}}), $($argument),*);
        $function::<DeviceClass>(json!({"spec": {}}), $($argument),*);
        $function::<OwnedClaim>(json!({"spec": {}}), $($argument),*);
        $function::<ValidatingAdmissionPolicy>(json!({"spec": {}}), $($argument),*);
        $function::<Binding<ValidatingAdmissionPolicyBinding>>(json!({"spec": {}}), $($argument),*);
        $function::<MutatingAdmissionPolicy>(json!({"spec": {}}), $($argument),*);
        $function::<Binding<MutatingAdmissionPolicyBinding>>(json!({"spec": {}}), $($argument),*);
        $function::<Definition>(group, $($argument),*);
        $function::<Parameter>(json!({"data": {"a": "b"}}), $($argument),*);
    }};
}

fn has_namespace<P: Projection>() -> bool {
    let namespaced = [
        Need::SERVICES,
        Need::ENDPOINT_SLICES,
        Need::PODS,
        Need::SERVICE_ACCOUNTS,
        Need::LIMIT_RANGES,
        Need::RESOURCE_QUOTAS,
        Need::PERSISTENT_VOLUME_CLAIMS,
        Need::RESOURCE_CLAIMS,
        Need::PARAMETERS,
    ];
    namespaced.contains(&P::NEED)
}

fn key<P: Projection>(name: &str) -> String {
    if has_namespace::<P>() { format!("n/{name}") } else { name.to_owned() }
}

fn object<P: Projection>(mut body: Value, name: &str, metadata: &Value) -> String {
    let mut metadata = metadata.clone();
    metadata["name"] = name.into();
    if has_namespace::<P>() {
        metadata["namespace"] = "n".into();
    }
    body["metadata"] = metadata;
    body.to_string()
}

/// The object is kept in a list and in a watch, and so are the other objects.
fn is_kept<P: Projection>(body: Value, metadata: &Value, status: Option<&Value>) {
    let plain = |name: &str| object::<P>(body.clone(), name, &json!({}));
    let mut odd = body.clone();
    if let Some(status) = status.filter(|_| P::NEED != Need::NAMESPACES) {
        odd["status"] = status.clone();
    }
    let odd = object::<P>(odd, "odd", metadata);
    let cache = Cache::<P>::within(&CacheRoom::new(usize::MAX));
    let mut following = cache.following("K", |_| ());
    following.begin();
    for item in [&plain("a"), &odd, &plain("z")] {
        following.item(item);
    }
    following.end();
    for name in ["a", "odd", "z"] {
        assert!(cache.find(&key::<P>(name)).is_some(), "{name} of {:?}: {odd}", P::NEED);
    }
    following.deleted(&odd);
    following.applied(&odd);
    following.applied(&plain("later"));
    let has = |name: &str| cache.find(&key::<P>(name)).is_some();
    assert!(has("odd") && has("later"), "{:?}: {odd}", P::NEED);
    assert_eq!(cache.health().undecodable_so_far, 0, "{:?}", P::NEED);
}

/// The object is not kept, but its key is recorded; the other objects are kept.
fn is_known_as_undecodable<P: Projection>(body: Value, field: &str, value: &Value) {
    if !P::FIELDS.contains(&&*format!("metadata.{field}")) {
        return is_kept::<P>(body, &json!({field: value}), None);
    }
    let odd = object::<P>(body.clone(), "odd", &json!({field: value}));
    let is_readable = decode::<P>(&odd).is_ok();
    let cache = Cache::<P>::within(&CacheRoom::new(usize::MAX));
    let mut following = cache.following("K", |_| ());
    following.begin();
    following.item(&odd);
    following.item(&object::<P>(body.clone(), "z", &json!({})));
    following.end();
    let has = |name: &str| cache.find(&key::<P>(name)).is_some();
    assert!(cache.is_synced() && has("z"), "{:?}", P::NEED);
    assert!(has("odd") == is_readable && cache.is_unknown(&key::<P>("odd")) != is_readable, "{:?}", P::NEED);
    following.applied(&object::<P>(body, "odd", &json!({})));
    assert!(has("odd") && !cache.is_unknown(&key::<P>("odd")), "{:?}", P::NEED);
}

fn times() -> impl Strategy<Value = String> {
    let late = Just(LATE.to_owned());
    prop_oneof![late, Just("9999-12-31T23:59:59-12:00".to_owned()), Just("0000-01-01T00:00:00Z".to_owned()), ".{0,20}"]
}

/// Metadata as kube-apiserver stores it, with fields that clients may and may not write.
fn metadata() -> impl Strategy<Value = Value> {
    let managed = (times(), ".{0,40}", any::<i64>()).prop_map(|(time, text, number)| {
        json!([{"manager": text, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {"n": number}}}])
    });
    let texts = proptest::collection::btree_map("[a-z]{1,9}", ".{0,3000}", 0..4);
    (managed, any::<i64>(), texts, ".{0,9}").prop_map(|(managed, generation, texts, text)| {
        json!({
            "managedFields": managed, "generation": generation, "annotations": texts, "labels": texts,
            "deletionGracePeriodSeconds": generation, "resourceVersion": text, "selfLink": text, "generateName": text,
            "finalizers": [text], "creationTimestamp": null,
            "ownerReferences": [{"apiVersion": text, "kind": text, "name": text, "uid": text}],
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn metadata_that_is_stored_hides_no_object(metadata in metadata(), time in times()) {
        let mut quota_metadata = metadata.clone();
        quota_metadata["managedFields"][0]["time"] = time.as_str().into();
        every_kind!(is_kept, &metadata, Some(&json!({"startTime": time, "conditions": [{"type": "T", "status": "True", "lastTransitionTime": time}]})));
        // The cache reads the status of a quota.
        is_kept::<ResourceQuota>(json!({"spec": {}}), &quota_metadata, None);
    }

    #[test]
    fn metadata_that_cannot_be_decoded_hides_no_other_object(field in 0..11_usize, value in prop_oneof![
        Just(json!(5)), Just(json!(LATE)), Just(json!([{"time": LATE}])), Just(json!({"a": 1})), Just(json!(1e300)), Just(json!(true))
    ]) {
        let field = [
            "managedFields", "ownerReferences", "generation", "annotations", "labels", "creationTimestamp", "deletionTimestamp",
            "finalizers", "uid", "deletionGracePeriodSeconds", "selfLink",
        ][field];
        every_kind!(is_known_as_undecodable, field, &value);
    }
}

#[tokio::test]
async fn no_content_of_an_object_is_logged_at_any_level() {
    let marker = "secret-marker";
    let needs = [
        Need::NAMESPACES,
        Need::MUTATING_WEBHOOKS,
        Need::VALIDATING_WEBHOOKS,
        Need::SERVICES,
        Need::ENDPOINT_SLICES,
        Need::PODS,
        Need::NODES,
        Need::SERVICE_ACCOUNTS,
        Need::LIMIT_RANGES,
        Need::RESOURCE_QUOTAS,
        Need::PRIORITY_CLASSES,
        Need::STORAGE_CLASSES,
        Need::INGRESS_CLASSES,
        Need::RUNTIME_CLASSES,
        Need::PERSISTENT_VOLUMES,
        Need::PERSISTENT_VOLUME_CLAIMS,
        Need::CSI_DRIVERS,
        Need::CUSTOM_RESOURCE_DEFINITIONS,
        Need::DEVICE_CLASSES,
        Need::RESOURCE_CLAIMS,
        Need::VALIDATING_POLICIES,
        VALIDATING_BINDINGS,
        Need::MUTATING_POLICIES,
        MUTATING_BINDINGS,
    ];
    for verbosity in [0, 6, 10] {
        let lines = Arc::<Mutex<String>>::default();
        let (levels, written) = (Levels::new(verbosity, Modules::default()), lines.clone());
        let write = move |line: String| written.lock().unwrap().push_str(&line);
        let subscriber = tracing_subscriber::registry().with(logging::layer(Format::Text, Arc::new(levels), write));
        let _guard = tracing::subscriber::set_default(subscriber);
        let client = client(move |_, url| {
            let odd = json!({"metadata": {"name": "odd", "namespace": "n", "annotations": marker, "labels": marker, "uid": [marker]},
                "spec": marker, "webhooks": marker, "data": marker});
            if url.contains("watch=true") {
                return None;
            }
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": [odd]});
            Some((200, if url.contains('?') { list } else { odd }))
        });
        let cluster = Cluster::start(client, &needs, Arc::default());
        assert!(cluster.wait_synced().await, "{:?}", cluster.unsynced());
        assert!(cluster.find_live::<Pod>("n", "odd").await.is_err());
        assert!(cluster.list_live::<LimitRange>("n").await.is_err());
        let log = lines.lock().unwrap().clone();
        assert!(log.contains("cannot be decoded") && log.contains("n/odd"), "{log}");
        assert!(!log.contains(marker), "{log}");
    }
}
