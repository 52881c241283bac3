//! The usage of a pod (`podEvaluator`).

use super::evaluator::{Gates, Subject};
use super::scopes::PodScopes;
use crate::admission::Attributes;
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::extended_resource_toleration::is_extended;
use crate::plugins::rules::pod::asks_for_nothing;
use crate::plugins::rules::resources::{ResourceList, add, aggregate, is_pod_level, is_sidecar, raise, resource_list};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

const COUNT: &str = "count/pods";
/// The prefix of a device class's name in a resource name (`ResourceDeviceClassPrefix`).
pub(super) const OF_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
const HUGE_PAGES: &str = "hugepages-";
const NAMES: [&str; 11] = [
    COUNT,
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// The resources that every container must specify if a quota counts them (`validationSet`).
pub(super) const MUST_BE_SAID: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const MEASURED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn counts(name: &str) -> bool {
    let is_huge = |name: &str| name.starts_with(HUGE_PAGES);
    NAMES.contains(&name)
        || is_huge(name)
        || name.strip_prefix("requests.").is_some_and(|of| is_huge(of) || of.starts_with(OF_DEVICE_CLASS))
        || is_extended_in_quota(name)
}

/// `isExtendedResourceNameForQuota`, without the resources of device classes.
pub(super) fn is_extended_in_quota(name: &str) -> bool {
    name.starts_with("requests.") && name.contains('/') && !name.contains("kubernetes.io/")
}

/// Whether an update moves the pod into another scope.
pub(super) fn changes_scope(attributes: &Attributes) -> bool {
    match (&attributes.object, &attributes.old_object) {
        (Some(pod), Some(old)) => is_terminating(pod) != is_terminating(old),
        _ => false,
    }
}

pub(super) fn subject(desired: &Object, observed: Option<&Object>, gates: &Gates) -> Subject {
    let observed_class = observed.map(|pod| pod.str(&["status", "qosClass"])).unwrap_or_default();
    let is_best_effort = match observed_class {
        "" => asks_for_nothing(desired),
        class => class == "BestEffort",
    };
    let class = desired.str(&["spec", "priorityClassName"]);
    let scopes = PodScopes {
        is_terminating: is_terminating(desired),
        is_best_effort,
        crosses_namespaces: crosses_namespaces(desired),
        priority_class: (!class.is_empty()).then(|| class.to_owned()),
    };
    let containers = containers(desired, gates);
    Subject { usage: usage(desired, observed, gates), scoped: scopes.into(), containers }
}

/// The usage of a pod. A finished pod, or a pod past its deletion grace period, counts only as an object (`PodUsageFunc`).
pub(super) fn usage(desired: &Object, observed: Option<&Object>, gates: &Gates) -> ResourceList {
    let mut usage = ResourceList::from([(COUNT.to_owned(), Quantity::whole(1))]);
    if observed.is_none_or(|pod| is_alive(pod, (gates.now)())) {
        let effective = Effective::new(desired, observed, gates);
        usage.append(&mut of_resources(&effective.requests(desired, gates), &effective.limits(desired, gates)));
    }
    usage
}

/// `QuotaV1Pod`
fn is_alive(pod: &Object, now: Timestamp) -> bool {
    if ["Failed", "Succeeded"].contains(&pod.str(&["status", "phase"])) {
        return false;
    }
    let deleted = pod.str(&["metadata", "deletionTimestamp"]).parse::<Timestamp>();
    let grace = pod.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let (Ok(deleted), Some(grace)) = (deleted, grace) else { return true };
    deleted.saturating_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now <= end)
}

fn is_terminating(pod: &Object) -> bool {
    pod.get(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Whether a term of the pod's affinity selects other namespaces (`usesCrossNamespacePodAffinity`).
fn crosses_namespaces(pod: &Object) -> bool {
    let crosses = |term: &Value| {
        let lists = term.get("namespaces").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
        lists || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|affinity| {
        let terms = |strength: &str| pod.items(&["spec", "affinity", affinity, strength]).iter();
        let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution");
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || preferred.filter_map(|term| term.get("podAffinityTerm")).any(crosses)
    })
}

fn listed(container: &Value, field: &str) -> ResourceList {
    resource_list(container.get("resources").and_then(|resources| resources.get(field)))
}

/// The containers that must specify resources; empty if the pod specifies them at pod level (`Constraints`).
fn containers(pod: &Object, gates: &Gates) -> Vec<(String, BTreeSet<String>)> {
    let of_pod = |field| resource_list(pod.get(&["spec", "resources", field]));
    if gates.pod_level_resources && has_pod_level(&of_pod("requests")) | has_pod_level(&of_pod("limits")) {
        return Vec::new();
    }
    let lists = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(&["spec", list]));
    let said = |container: &Value| {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let usage = of_resources(&listed(container, "requests"), &listed(container, "limits"));
        (name, usage.into_keys().collect())
    };
    lists.map(said).collect()
}

fn has_pod_level(list: &ResourceList) -> bool {
    list.keys().any(|name| is_pod_level(name))
}

/// The usage of requests and limits, by the names in quotas (`podComputeUsageHelper`).
fn of_resources(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::from([("pods".to_owned(), Quantity::whole(1))]);
    for (name, request) in requests {
        let (is_measured, is_huge) = (MEASURED.contains(&&**name), name.starts_with(HUGE_PAGES));
        if is_measured || is_huge {
            usage.insert(name.clone(), *request);
        }
        if is_measured || is_huge || is_extended(name) || name.starts_with(OF_DEVICE_CLASS) {
            usage.insert(format!("requests.{name}"), *request);
        }
    }
    let measured = limits.iter().filter(|(name, _)| MEASURED.contains(&&***name));
    usage.extend(measured.map(|(name, limit)| (format!("limits.{name}"), *limit)));
    usage
}

/// The effective resources of containers during a resize: the largest of the desired, the allocated and the actual resources.
struct Effective<'a> {
    /// The statuses of the containers, by container name; before 1.37, of those that can be resized.
    statuses: HashMap<&'a str, &'a Value>,
    /// Whether the desired resize is infeasible.
    is_infeasible: bool,
}

/// The source of a container's resources.
#[derive(Clone, Copy)]
enum Source {
    /// The container itself.
    Spec,
    /// The resources that the node has reserved.
    Allocated,
    /// The resources that the container runs with.
    Actual,
}

impl<'a> Effective<'a> {
    fn new(desired: &Object, observed: Option<&'a Object>, gates: &Gates) -> Self {
        let name = |item: &'a Value| item.get("name").and_then(Value::as_str).unwrap_or_default();
        let observed = observed.filter(|_| gates.in_place_resize);
        let lists = observed.into_iter().flat_map(|pod| {
            ["containerStatuses", "initContainerStatuses"].into_iter().flat_map(|list| pod.items(&["status", list]))
        });
        let mut statuses: HashMap<&str, &Value> = lists.map(|status| (name(status), status)).collect();
        if !gates.since_1_37 {
            let init = desired.items(&["spec", "initContainers"]).iter();
            for container in init.filter(|container| !is_sidecar(container)) {
                statuses.remove(name_of(container));
            }
        }
        let mut conditions = observed.into_iter().flat_map(|pod| pod.items(&["status", "conditions"]));
        let pending = conditions.find(|condition| condition.get("type").is_some_and(|kind| kind == "PodResizePending"));
        let is_infeasible =
            pending.is_some_and(|condition| condition.get("reason").is_some_and(|why| why == "Infeasible"));
        Self { statuses, is_infeasible }
    }

    /// `PodRequests`
    fn requests(&self, pod: &Object, gates: &Gates) -> ResourceList {
        let mut total = match gates.since_1_37 {
            true => self.largest(pod, "requests", &[Source::Spec, Source::Actual, Source::Allocated]),
            false => aggregate(pod, |container| self.of_container(container, "requests")),
        };
        let own = resource_list(pod.get(&["spec", "resources", "requests"]));
        total.extend(own.into_iter().filter(|(name, _)| gates.pod_level_resources && is_pod_level(name)));
        add(&mut total, &resource_list(pod.get(&["spec", "overhead"])));
        total
    }

    /// `PodLimits`: overhead is added only to resources that have a limit.
    fn limits(&self, pod: &Object, gates: &Gates) -> ResourceList {
        let mut total = match gates.since_1_37 {
            true => self.largest(pod, "limits", &[Source::Spec, Source::Actual]),
            false => aggregate(pod, |container| self.of_container(container, "limits")),
        };
        let own = resource_list(pod.get(&["spec", "resources", "limits"]));
        total.extend(own.into_iter().filter(|(name, _)| gates.pod_level_resources && is_pod_level(name)));
        let mut overhead = resource_list(pod.get(&["spec", "overhead"]));
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
        add(&mut total, &overhead);
        total
    }

    /// The largest of the sums over all containers, since 1.37 (`AggregateContainerRequests`, `AggregateContainerLimits`). The desired resources
    /// do not count if they are infeasible.
    fn largest(&self, pod: &Object, field: &str, sources: &[Source]) -> ResourceList {
        let counts = |source: &&Source| !(self.is_infeasible && matches!(source, Source::Spec));
        let mut total = ResourceList::new();
        for source in sources.iter().filter(counts) {
            raise(&mut total, &aggregate(pod, |container| self.of_source(container, field, *source)));
        }
        total
    }

    /// `containerSpecRequests`, `containerAllocatedRequests`, `containerActuatedRequests`, `containerSpecLimits`, `containerActuatedLimits`
    fn of_source(&self, container: &Value, field: &str, source: Source) -> ResourceList {
        let list = |value: Option<&'a Value>| value.filter(|value| value.is_object());
        let status = self.statuses.get(name_of(container)).copied();
        let allocated = || list(status?.get("allocatedResources"));
        let actual = || list(status?.get("resources")?.get(field));
        let found = match source {
            Source::Spec => return listed(container, field),
            Source::Allocated => allocated(),
            Source::Actual => actual().or_else(|| allocated().filter(|_| field == "requests")),
        };
        match found {
            Some(found) => resource_list(Some(found)),
            None if self.is_infeasible => ResourceList::new(),
            None => listed(container, field),
        }
    }

    /// The largest resources of one container, before 1.37 (`determineEffectiveRequests`, `determineEffectiveLimits`).
    fn of_container(&self, container: &Value, field: &str) -> ResourceList {
        let asked = listed(container, field);
        let status = self.statuses.get(name_of(container));
        let status = status.filter(|status| status.get("resources").is_some_and(Value::is_object));
        let Some(status) = status else { return asked };
        let mut effective = if self.is_infeasible { ResourceList::new() } else { asked };
        raise(&mut effective, &listed(status, field));
        if field == "requests" {
            raise(&mut effective, &resource_list(status.get("allocatedResources")));
        }
        effective
    }
}

fn name_of(container: &Value) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FeatureGates;
    use serde_json::json;

    fn gates() -> Gates {
        Gates { now: || "2026-01-01T00:01:00Z".parse().unwrap(), ..Gates::new(&FeatureGates::default()) }
    }

    fn print(usage: &ResourceList) -> String {
        let usage: Vec<String> = usage.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
        usage.join(" ")
    }

    fn seen(pod: Value) -> String {
        seen_by(pod, &gates())
    }

    fn seen_by(pod: Value, gates: &Gates) -> String {
        let pod = Object::from_value(pod).unwrap();
        print(&usage(&pod, Some(&pod), gates))
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn requests_and_limits_are_counted_under_their_names() {
        let requests = json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi", "hugepages-2Mi": "4Mi",
            "example.com/gpu": "2", "deviceclass.resource.kubernetes.io/big": "1", "kubernetes.io/x": "9"});
        let limits = json!({"cpu": "2", "memory": "2Gi", "ephemeral-storage": "3Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"});
        assert_eq!(
            seen(json!({"spec": {"containers": [container("a", requests, limits)]}})),
            "count/pods=1 cpu=1 ephemeral-storage=2Gi hugepages-2Mi=4Mi limits.cpu=2 limits.ephemeral-storage=3Gi \
             limits.memory=2Gi memory=1Gi pods=1 requests.cpu=1 requests.deviceclass.resource.kubernetes.io/big=1 \
             requests.ephemeral-storage=2Gi requests.example.com/gpu=2 requests.hugepages-2Mi=4Mi requests.memory=1Gi"
        );
    }

    #[test]
    fn init_containers_sidecars_overhead_and_the_pods_own_resources_count() {
        let of = |cpu: &str| container("c", json!({ "cpu": cpu }), json!({ "cpu": cpu }));
        let mut sidecar = of("1");
        sidecar["restartPolicy"] = json!("Always");
        let cpu = |spec: Value| {
            let seen = seen(json!({ "spec": spec }));
            let of = |name: &str| seen.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or("-").to_owned();
            (of("requests.cpu="), of("limits.cpu="))
        };
        let pair = |request: &str, limit: &str| (request.to_owned(), limit.to_owned());
        assert_eq!(cpu(json!({"containers": [of("1")], "initContainers": [of("2")]})), pair("2", "2"));
        assert_eq!(cpu(json!({"containers": [of("1")], "initContainers": [sidecar, of("2")]})), pair("3", "3"));
        let overhead = json!({"cpu": "250m"});
        assert_eq!(cpu(json!({"containers": [of("1")], "overhead": overhead})), pair("1250m", "1250m"));
        assert_eq!(cpu(json!({"containers": [{}], "overhead": overhead})), pair("250m", "-"));
        let own = json!({"requests": {"cpu": "5"}, "limits": {"cpu": "6", "example.com/gpu": "1"}});
        assert_eq!(
            cpu(json!({"containers": [of("1")], "resources": own, "overhead": overhead})),
            pair("5250m", "6250m")
        );
    }

    #[test]
    fn a_container_during_a_resize_counts_with_its_largest_resources() {
        let resized = |infeasible: bool, init: bool| {
            let spec = json!({"containers": [container("a", json!({"cpu": "3"}), json!({"cpu": "3"}))],
                "initContainers": if init { json!([container("b", json!({"cpu": "1"}), json!({}))]) } else { json!([]) }});
            let status = json!({"name": "a", "allocatedResources": {"cpu": "2"},
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}});
            let of_init = json!({"name": "b", "resources": {"requests": {"cpu": "9"}}});
            let reason = if infeasible { "Infeasible" } else { "Deferred" };
            let status = json!({"containerStatuses": [status], "initContainerStatuses": [of_init],
                "conditions": [{"type": "PodResizePending", "reason": reason}]});
            seen(json!({"spec": spec, "status": status}))
        };
        assert_eq!(resized(false, false), "count/pods=1 cpu=3 limits.cpu=4 pods=1 requests.cpu=3");
        assert_eq!(resized(true, false), "count/pods=1 cpu=2 limits.cpu=4 pods=1 requests.cpu=2");
        assert_eq!(resized(false, true), "count/pods=1 cpu=3 limits.cpu=4 pods=1 requests.cpu=3");
    }

    /// The requested and limited CPU of a pod with these containers and statuses, in 1.36 and in 1.37.
    fn cpu(containers: Value, init: Value, statuses: Value, status: Value) -> [(String, String); 2] {
        [false, true].map(|since_1_37| {
            let mut status = status.clone();
            status["containerStatuses"] = statuses.clone();
            status["initContainerStatuses"] = statuses.clone();
            let spec = json!({"containers": containers, "initContainers": init});
            let seen = seen_by(json!({"spec": spec, "status": status}), &Gates { since_1_37, ..gates() });
            let of = |name: &str| seen.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or("-").to_owned();
            (of("requests.cpu="), of("limits.cpu="))
        })
    }

    #[test]
    fn since_1_37_a_resized_pod_counts_with_the_largest_of_its_sums() {
        let cpu_of = |amount: &str| json!({ "cpu": amount });
        let asks = |name: &str, amount: &str| container(name, cpu_of(amount), cpu_of(amount));
        let runs = |name: &str, allocated: &str, actual: &str| {
            let resources = json!({"requests": cpu_of(actual), "limits": cpu_of(actual)});
            json!({"name": name, "allocatedResources": cpu_of(allocated), "resources": resources})
        };
        let pair = |request: &str, limit: &str| (request.to_owned(), limit.to_owned());
        let infeasible = json!({"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]});
        let none = || json!([]);
        // One container grows while the other shrinks.
        let both = json!([asks("a", "3"), asks("b", "1")]);
        let statuses = json!([runs("a", "1", "1"), runs("b", "3", "3")]);
        assert_eq!(cpu(both.clone(), none(), statuses.clone(), json!({})), [pair("6", "6"), pair("4", "4")]);
        assert_eq!(cpu(both.clone(), none(), statuses.clone(), infeasible.clone()), [pair("4", "4"), pair("4", "4")]);
        // The node has reserved more than the containers ask for, or run with.
        let reserved = json!([runs("a", "5", "1"), runs("b", "1", "2")]);
        assert_eq!(cpu(both.clone(), none(), reserved, json!({})), [pair("7", "5"), pair("6", "4")]);
        // A container without a status counts as it asks, unless that is infeasible.
        let one = json!([runs("a", "1", "1")]);
        assert_eq!(cpu(both.clone(), none(), one.clone(), json!({})), [pair("4", "4"), pair("4", "4")]);
        assert_eq!(cpu(both.clone(), none(), one, infeasible.clone()), [pair("2", "2"), pair("1", "1")]);
        // Without actual requests, the reserved ones count.
        let allocated = json!([{"name": "a", "allocatedResources": cpu_of("9")}]);
        assert_eq!(cpu(both, none(), allocated, json!({})), [pair("4", "4"), pair("10", "4")]);
        // The status of an init container that is no sidecar counts too.
        let init = json!([asks("i", "2")]);
        let statuses = json!([runs("i", "4", "4")]);
        assert_eq!(cpu(json!([asks("a", "1")]), init, statuses, json!({})), [pair("2", "2"), pair("4", "4")]);
    }

    #[test]
    fn a_pod_that_is_through_counts_as_an_object_only() {
        for phase in ["Failed", "Succeeded"] {
            assert_eq!(seen(json!({"status": {"phase": phase}})), "count/pods=1");
        }
        let deleted = |time: &str, grace: Value| {
            seen(json!({"metadata": {"deletionTimestamp": time, "deletionGracePeriodSeconds": grace}}))
        };
        assert_eq!(deleted("2026-01-01T00:00:00Z", json!(30)), "count/pods=1");
        assert_eq!(deleted("2026-01-01T00:00:00Z", json!(60)), "count/pods=1 pods=1");
        assert_eq!(deleted("2026-01-01T00:00:00Z", json!(null)), "count/pods=1 pods=1");
    }

    #[test]
    fn a_new_pod_counts_although_its_phase_is_final() {
        let pod = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0},
            "status": {"phase": "Failed", "qosClass": "BestEffort"},
            "spec": {"containers": [container("a", json!({"cpu": "1"}), json!({}))]}});
        let subject = subject(&Object::from_value(pod).unwrap(), None, &gates());
        assert_eq!(print(&subject.usage), "count/pods=1 cpu=1 pods=1 requests.cpu=1");
        let super::super::scopes::Scoped::Pod(scopes) = subject.scoped else { panic!("no pod") };
        assert!(!scopes.is_best_effort);
    }

    #[test]
    fn a_term_that_selects_other_namespaces_crosses_namespaces() {
        let required = |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let preferred =
            |term: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]});
        for (affinity, want) in [
            (json!({"podAffinity": required(json!({"namespaces": ["a"]}))}), true),
            (json!({"podAntiAffinity": required(json!({"namespaceSelector": {}}))}), true),
            (json!({"podAntiAffinity": preferred(json!({"namespaces": ["a"]}))}), true),
            (json!({"podAffinity": preferred(json!({"namespaceSelector": {}}))}), true),
            (json!({"podAffinity": required(json!({"namespaces": [], "namespaceSelector": null}))}), false),
            (json!({"nodeAffinity": {}}), false),
            (json!("x"), false),
        ] {
            let pod = Object::from_value(json!({"spec": {"affinity": affinity}})).unwrap();
            assert_eq!(crosses_namespaces(&pod), want, "{affinity}");
        }
    }

    #[test]
    fn names_that_pods_are_counted_by() {
        for (name, want) in [
            ("pods", true),
            ("count/pods", true),
            ("limits.ephemeral-storage", true),
            ("hugepages-2Mi", true),
            ("requests.hugepages-1Gi", true),
            ("requests.example.com/gpu", true),
            ("requests.deviceclass.resource.kubernetes.io/big", true),
            ("limits.example.com/gpu", false),
            ("requests.kubernetes.io/x", false),
            ("example.com/gpu", false),
            ("requests.storage", false),
            ("services", false),
        ] {
            assert_eq!(counts(name), want, "{name}");
        }
    }

    #[test]
    fn wrong_types_count_for_nothing() {
        let pod = json!({"spec": {"containers": [1, {"name": 2, "resources": "x"}], "initContainers": {}, "overhead": [],
            "resources": 5, "activeDeadlineSeconds": "x"}, "status": {"containerStatuses": ["y"], "conditions": 1}});
        assert_eq!(seen(pod), "count/pods=1 pods=1");
    }
}
