//! LimitRanger: a namespace's LimitRanges set default resources of pods, and limit the resources of pods and claims.

mod constraints;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::derived::Lazy;
use crate::object::{Object, Step};
use crate::status::Status;
use crate::status::invalid::aggregate;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "LimitRanger",
    default_on: true,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "resize"), ("", "persistentvolumeclaims", "")]),
    needs: &[Need::LIMIT_RANGES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives containers the default resources of their namespace, and keeps pods and claims within its limits.",
    build: |environment| Ok(Box::new(LimitRanger::new(environment.cluster.clone()))),
};

/// The annotation that records the defaults.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The number of namespaces whose ranges are cached after a live lookup (`liveLookupCache`).
const LIVE_LOOKUPS: u64 = 10_000;
/// The lifetime of a live lookup (`liveTTL`).
const LIVE_LOOKUP_TIME_TO_LIVE: Duration = Duration::from_secs(30);

type Ranges = Arc<Vec<Arc<LimitRange>>>;

struct LimitRanger {
    cluster: Arc<Cluster>,
    /// The results of live lookups, for namespaces without ranges in the watch cache. Concurrent requests share a lookup.
    live: Lazy<moka::future::Cache<String, Ranges>>,
}

#[async_trait]
impl Plugin for LimitRanger {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if attributes.resource.resource != "pods" || !is_supported(attributes) {
            return Ok(());
        }
        for range in self.ranges(&attributes.namespace).await?.iter() {
            let Some(pod) = &mut attributes.object else { return Ok(()) };
            set_defaults(pod, items(range)).map_err(Denial::forbidden)?;
            if attributes.operation == Operation::Update {
                hold_resources(pod);
            }
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(object) = attributes.object.as_ref().filter(|_| is_supported(attributes)) else { return Ok(()) };
        for range in self.ranges(&attributes.namespace).await?.iter() {
            let violations = match &*attributes.resource.resource {
                "pods" => constraints::of_pod(object, items(range)),
                _ => constraints::of_claim(object, items(range)),
            };
            // The violations of one range are reported together; further ranges are not checked then.
            if let Some(violations) = aggregate(violations) {
                return Err(Denial::forbidden(violations));
            }
        }
        Ok(())
    }
}

/// `SupportsAttributes`: containers' resources change only by a resize, and terminating objects are not checked.
fn is_supported(attributes: &Attributes) -> bool {
    let is_going = |old: &Arc<Object>| old.get(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    let is_update = attributes.operation == Operation::Update;
    let on = match (&*attributes.resource.resource, &*attributes.subresource) {
        ("pods", "") => !is_update,
        ("pods", _) => is_update,
        _ => true,
    };
    on && !attributes.old_object.as_ref().is_some_and(is_going)
}

fn items(range: &LimitRange) -> &[LimitRangeItem] {
    range.spec.as_ref().map(|spec| spec.limits.as_slice()).unwrap_or_default()
}

impl LimitRanger {
    fn new(cluster: Arc<Cluster>) -> Self {
        let live = || {
            let live = moka::future::Cache::builder().max_capacity(LIVE_LOOKUPS);
            live.time_to_live(LIVE_LOOKUP_TIME_TO_LIVE).build()
        };
        Self { cluster, live: Lazy::new(Box::new(live)) }
    }

    /// The namespace's ranges, from the cache. If the cache has none, from the API server, whose answer is cached for
    /// [`LIVE_LOOKUP_TIME_TO_LIVE`].
    async fn ranges(&self, namespace: &str) -> Result<Ranges, Denial> {
        self.cluster.check_decodable(&[Need::LIMIT_RANGES], namespace)?;
        let cached = self.cluster.in_namespace::<LimitRange>(namespace);
        if !cached.is_empty() {
            return Ok(Arc::new(cached));
        }
        let look_up = async { self.cluster.list_live::<LimitRange>(namespace).await.map(Arc::new) };
        let found = self.live.try_get_with_by_ref(namespace, look_up).await;
        found.map_err(|status: Arc<Status>| Denial::forbidden(&status.message))
    }
}

/// A field of the pod has the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misshapen(String);

/// Sets the default resources of containers, and records them in the annotation (`PodMutateLimitFunc`).
fn set_defaults(pod: &mut Object, items: &[LimitRangeItem]) -> Result<(), Misshapen> {
    let mut defaults: [BTreeMap<&str, &str>; 2] = Default::default();
    for item in items.iter().filter(|item| item.type_ == "Container") {
        for (defaults, given) in defaults.iter_mut().zip([&item.default_request, &item.default]) {
            defaults.extend(given.iter().flatten().map(|(name, quantity)| (name.as_str(), quantity.0.as_str())));
        }
    }
    if defaults.iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        if pod.items(&["spec", list]).is_empty() {
            continue;
        }
        let containers = pod.get_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let container =
                container.as_object_mut().ok_or_else(|| Misshapen(format!("spec.{list}: not containers")))?;
            let [requests, limits] = &defaults;
            for (field, defaults) in [("requests", requests), ("limits", limits)] {
                let set = fill(container, field, defaults)?;
                if !set.is_empty() {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    notes.push(format!("{} {} for {what} {name}", set.join(", "), field.trim_end_matches('s')));
                }
            }
        }
    }
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    if notes.is_empty() || pod.set(&["metadata", "annotations", ANNOTATION], note.into()) {
        return Ok(());
    }
    Err(Misshapen("metadata.annotations: not an object".to_owned()))
}

/// Notes that containers without requests or limits have empty ones rather than nil (`mergeContainerResources`), whatever the range
/// says. NodeDeclaredFeatureValidator takes that for a change. In a new pod no plugin sees the difference.
fn hold_resources(pod: &mut Object) {
    for list in ["containers", "initContainers"] {
        for index in 0..pod.items(&["spec", list]).len() {
            for field in ["limits", "requests"] {
                let path = [
                    Step::Field("spec"),
                    Step::Field(list),
                    Step::Item(index),
                    Step::Field("resources"),
                    Step::Field(field),
                ];
                pod.hold_empty_map(&path);
            }
        }
    }
}

/// Adds missing values to a container's requests or limits. Returns the added names, sorted.
fn fill<'a>(
    container: &mut Map<String, Value>,
    field: &str,
    defaults: &BTreeMap<&'a str, &str>,
) -> Result<Vec<&'a str>, Misshapen> {
    let has = |name: &str| container.get("resources").and_then(|all| all.get(field)?.get(name)).is_some();
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !has(name)).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let mut list = container;
    for key in ["resources", field] {
        let child = list.entry(key).or_insert(Value::Null);
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        list = child.as_object_mut().ok_or_else(|| Misshapen(format!("{key}: not an object")))?;
    }
    list.extend(missing.iter().map(|(name, quantity)| ((**name).to_owned(), Value::from(**quantity))));
    Ok(missing.into_iter().map(|(name, _)| *name).collect())
}

#[cfg(test)]
mod tests;
