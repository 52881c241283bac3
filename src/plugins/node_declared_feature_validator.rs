//! NodeDeclaredFeatureValidator: a pod's update must not require a feature that the pod's node does not declare, and since 1.37, nor must a device of
//! a ResourceSlice.

use super::rules::node_selector;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::quantity::Quantity;
use crate::object::{Object, Step};
use crate::status::Status;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, NodeSelector};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NodeDeclaredFeatureValidator",
    default_on: true,
    phases: Phases::Validating,
    // Of pods, only updates, and before 1.37 nothing else.
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "resize"), ("resource.k8s.io", "resourceslices", "")]),
    needs: &[Need::NODES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Part(
        "a review does not show empty resources of containers, which therefore count as missing ones",
    ),
    about: "Refuses pod updates that need a feature which the pod's node does not declare.",
    build: |environment| {
        let gates = environment.feature_gates;
        Ok(Box::new(NodeDeclaredFeatureValidator {
            cluster: environment.cluster.clone(),
            is_on: gates.is_on("NodeDeclaredFeatures"),
            since_1_37: gates.since(37),
            checks_slices: gates.since(37) && gates.is_on("DRANodeAllocatableResources"),
        }))
    },
};

const INIT_CONTAINERS: [&str; 2] = ["spec", "initContainers"];

struct NodeDeclaredFeatureValidator {
    cluster: Arc<Cluster>,
    is_on: bool,
    since_1_37: bool,
    checks_slices: bool,
}

#[async_trait]
impl Plugin for NodeDeclaredFeatureValidator {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        match &*attributes.resource.resource {
            _ if !self.is_on => Ok(()),
            "pods" => self.validate_pod(attributes).await,
            _ if self.checks_slices => self.validate_slice(attributes).await,
            _ => Ok(()),
        }
    }

    fn leaves_out(&self, operation: Operation) -> bool {
        operation == Operation::Create && !self.since_1_37
    }
}

impl NodeDeclaredFeatureValidator {
    async fn validate_pod(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        let name = new.str(&["spec", "nodeName"]);
        // The generation rises with a changed spec alone (`pod.updatePodGeneration`).
        if name.is_empty() || old.get(&["spec"]) == new.get(&["spec"]) {
            return Ok(());
        }
        let mut missing = required_features(old, new, self.since_1_37);
        if missing.is_empty() {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let node = self.cluster.find::<Node>("", name);
        let node = node.ok_or_else(|| Denial::forbidden(format!("node {name:?} not found")))?;
        let declared = node.status.as_ref().and_then(|status| status.declared_features.as_ref());
        missing.retain(|feature| declared.is_none_or(|declared| !declared.iter().any(|other| other == feature)));
        if missing.is_empty() {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "pod update requires features {} which are not available on node {name:?}",
            missing.join(", ")
        )))
    }

    /// `validateNodeAllocatableDRA`: each node with the device of a slice must declare that it takes part of its resources for devices.
    async fn validate_slice(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(slice) = &attributes.object else { return Ok(()) };
        let is_per_device = slice.get(&["spec", "perDeviceNodeSelection"]) == Some(&Value::Bool(true));
        for device in slice.items(&["spec", "devices"]) {
            // In v1beta1, `basic` has all fields of a device except its name.
            let fields = device.get("basic").filter(|basic| basic.is_object()).unwrap_or(device);
            if !has_entries(fields, "nodeAllocatableResources") {
                continue;
            }
            if !self.cluster.wait_synced().await {
                return Err(Denial::forbidden("not yet ready to handle request"));
            }
            let holder = if is_per_device { Some(fields) } else { slice.get(&["spec"]) };
            let field = |name: &str| holder?.get(name).filter(|value| !value.is_null());
            let name = device.get("name").and_then(Value::as_str).unwrap_or_default();
            let node = field("nodeName").and_then(Value::as_str).filter(|node| !node.is_empty());
            match (node, field("nodeSelector"), field("allNodes")) {
                (Some(node), ..) => {
                    let found = self.cluster.find::<Node>("", node);
                    let missing = || Denial::forbidden(format!("node {node:?} not found for device {name:?}"));
                    must_declare(&*found.ok_or_else(missing)?)?;
                }
                (None, Some(selector), _) => {
                    let why = |why: String| Status::bad_request(format!("failed to create node selector: {why}"));
                    let selector = NodeSelector::deserialize(selector).map_err(|error| why(error.to_string()))?;
                    node_selector::check(&selector).map_err(|error| why(error.to_string()))?;
                    let nodes = self.cluster.all::<Node>();
                    let mut selected = nodes.iter().filter(|node| node_selector::selects(&selector, node));
                    selected.try_for_each(|node| must_declare(node))?;
                }
                (None, None, Some(Value::Bool(true))) => {
                    self.cluster.all::<Node>().iter().try_for_each(|node| must_declare(node))?;
                }
                _ => {
                    return Err(Denial::forbidden(format!(
                        "device {name:?} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The feature of nodes that take part of their resources for devices.
const ALLOCATABLE: &str = "DRANodeAllocatableResources";

/// `validateNodeAllocatableDRADeclaredFeature`
fn must_declare(node: &Node) -> Result<(), Denial> {
    let declared = node.status.as_ref().and_then(|status| status.declared_features.as_deref()).unwrap_or_default();
    if declared.iter().any(|feature| feature == ALLOCATABLE) {
        return Ok(());
    }
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Err(Denial::forbidden(format!("node {name:?} does not support {ALLOCATABLE} feature")))
}

/// Whether a map has an entry.
fn has_entries(holder: &Value, map: &str) -> bool {
    holder.get(map).and_then(Value::as_object).is_some_and(|entries| !entries.is_empty())
}

/// Whether the size limit of a volume in memory changes (`memoryBackedVolumesResizeFeature.InferForUpdate`).
fn resizes_memory_volumes(old: &Object, new: &Object) -> bool {
    let volumes = ["spec", "volumes"];
    let (old, new) = (old.items(&volumes), new.items(&volumes));
    let limit = |volume: &Value| volume.get("emptyDir")?.get("sizeLimit").filter(|limit| !limit.is_null()).cloned();
    let is_in_memory = |volume: &Value| {
        volume.get("emptyDir").and_then(|source| source.get("medium")).is_some_and(|medium| medium == "Memory")
    };
    old.len() == new.len()
        && old.iter().zip(new).any(|(old, new)| {
            let limits = (limit(old), limit(new));
            let (Some(before), Some(after)) = limits else { return false };
            old.get("name") == new.get("name")
                && is_in_memory(new)
                && Quantity::of(Some(&before)) != Quantity::of(Some(&after))
        })
}

/// The features that the update requires of the node, sorted (`nodedeclaredfeatures.InferForPodUpdate`).
fn required_features(old: &Object, new: &Object, since_1_37: bool) -> Vec<&'static str> {
    let mut features = Vec::new();
    if resources(old.get(&["spec"])) != resources(new.get(&["spec"])) {
        features.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let is_sidecar = |container: &Value| container.get("restartPolicy").is_some_and(|policy| policy == "Always");
    let mut pairs = old.items(&INIT_CONTAINERS).iter().zip(new.items(&INIT_CONTAINERS)).enumerate();
    if pairs.any(|(index, (one, other))| !is_sidecar(one) && exactly(old, index, one) != exactly(new, index, other)) {
        features.push("InPlacePodVerticalScalingInitContainers");
    }
    if since_1_37 && resizes_memory_volumes(old, new) {
        features.push("InPlacePodVerticalScalingMemoryBackedVolumes");
    }
    features
}

/// The lists of an init container's resources in Go. Requests that are empty differ from requests that are nil (`reflect.DeepEqual`).
fn exactly<'a>(pod: &Object, index: usize, container: &'a Value) -> [List<'a>; 3] {
    ["limits", "requests", "claims"].map(|field| {
        let path = [
            Step::Field("spec"),
            Step::Field("initContainers"),
            Step::Item(index),
            Step::Field("resources"),
            Step::Field(field),
        ];
        let found = container.get("resources").and_then(|resources| resources.get(field));
        match found.filter(|found| !found.is_null()) {
            Some(found) if !is_empty(found) => List::Of(found),
            None if !pod.unwritten().is_at(&path) => List::Nil,
            _ => List::Empty,
        }
    })
}

/// A list or map in Go.
#[derive(PartialEq)]
enum List<'a> {
    Nil,
    Empty,
    Of(&'a Value),
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// The resources of a pod's spec. `None` if they are empty or null.
fn resources(holder: Option<&Value>) -> Option<&Value> {
    let resources = holder?.get("resources")?;
    resources.as_object().is_none_or(|fields| !fields.is_empty()).then_some(resources).filter(|one| !one.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::cluster::FixedState;
    use crate::plugins::checker::{Checked, attributes, check};
    use serde_json::json;

    fn with_nodes(nodes: Vec<Node>, is_on: bool) -> NodeDeclaredFeatureValidator {
        let cluster = Cluster::fixed(FixedState::default().with::<Node>(nodes));
        NodeDeclaredFeatureValidator { cluster, is_on, since_1_37: false, checks_slices: false }
    }

    fn plugin(is_on: bool) -> NodeDeclaredFeatureValidator {
        let node = |name: &str, features: &[&str]| {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"declaredFeatures": features}}))
                .unwrap()
        };
        let nodes = vec![node("old", &[]), node("new", &["InPlacePodLevelResourcesVerticalScaling"])];
        with_nodes(nodes, is_on)
    }

    fn pod(node: &str, cpu: &str, init_cpu: &str, policy: Option<&str>) -> Value {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let init = json!({"name": "i", "resources": resources(init_cpu), "restartPolicy": policy});
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "resources": resources(cpu), "initContainers": [init]}})
    }

    async fn updated(is_on: bool, old: Value, new: Value) -> Checked {
        check(&plugin(is_on)).validating().subresource("resize").update("", "pods", old, new).await
    }

    #[tokio::test]
    async fn a_nodes_features_bound_what_is_resized() {
        let of = |node: &str, cpu: &str, init: &str| pod(node, cpu, init, None);
        updated(true, of("new", "1", "1"), of("new", "2", "1")).await.stays_unchanged();
        updated(true, of("old", "1", "1"), of("old", "1", "1")).await.stays_unchanged();
        updated(true, of("", "1", "1"), of("", "2", "1")).await.stays_unchanged();
        updated(false, of("old", "1", "1"), of("old", "2", "1")).await.stays_unchanged();
        updated(true, of("old", "1", "1"), of("old", "2", "2")).await.was_refused(
            403,
            "pods \"p\" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling, \
             InPlacePodVerticalScalingInitContainers which are not available on node \"old\"",
        );
        let missing = updated(true, of("gone", "1", "1"), of("gone", "2", "1")).await;
        missing.was_refused(403, "pods \"p\" is forbidden: node \"gone\" not found");
    }

    #[tokio::test]
    async fn empty_resources_of_init_containers_differ_from_missing_ones() {
        // What LimitRanger makes of a container without limits (`mergeContainerResources`).
        let of = |cpu: &str, policy: Option<&str>| {
            let init = json!({"name": "i", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": policy});
            let spec = json!({"nodeName": "old", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                "initContainers": [init]});
            json!({"metadata": {"name": "p"}, "spec": spec})
        };
        let limits = [
            Step::Field("spec"),
            Step::Field("initContainers"),
            Step::Item(0),
            Step::Field("resources"),
            Step::Field("limits"),
        ];
        let missing = "pods \"p\" is forbidden: pod update requires features InPlacePodVerticalScalingInitContainers which are not \
            available on node \"old\"";
        for (cpu, policy, has_empty, expected) in [
            ("2", None, true, Some(missing)),
            ("2", None, false, None),
            ("2", Some("Always"), true, None),
            // The spec does not change.
            ("1", None, true, None),
        ] {
            let mut attributes =
                attributes(Operation::Update, "", "pods", Some(of(cpu, policy)), Some(of("1", policy)));
            attributes.subresource = "resize".into();
            if has_empty {
                attributes.object.as_mut().unwrap().hold_empty_map(&limits);
            }
            let refused = plugin(true).validate(&attributes).await.err();
            let refused = refused.map(|denial| denial.into_status(&attributes).message);
            assert_eq!(refused.as_deref(), expected, "{cpu} {policy:?} {has_empty}");
        }
    }

    #[tokio::test]
    async fn sidecars_are_resized_everywhere() {
        let sidecar = |cpu: &str| pod("old", "1", cpu, Some("Always"));
        updated(true, sidecar("1"), sidecar("2")).await.stays_unchanged();
    }

    #[tokio::test]
    async fn since_1_37_the_limit_of_a_volume_in_memory_needs_a_feature() {
        let pod = |node: &str, volumes: Value| json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "volumes": volumes}});
        let volume = |name: &str, source: Value| json!({"name": name, "emptyDir": source});
        let memory = |limit: Value| volume("m", json!({"medium": "Memory", "sizeLimit": limit}));
        let one = |volume: Value| json!([volume]);
        let disk = |limit: &str| json!([volume("d", json!({"sizeLimit": limit}))]);
        let text = "pods \"p\" is forbidden: pod update requires features InPlacePodVerticalScalingMemoryBackedVolumes which \
                    are not available on node \"old\"";
        for (old, new, is_needed) in [
            (one(memory(json!("1Gi"))), one(memory(json!("2Gi"))), true),
            (one(memory(json!("1Gi"))), one(memory(json!("1024Mi"))), false),
            (one(memory(json!("1Gi"))), one(memory(Value::Null)), false),
            (one(memory(Value::Null)), one(memory(json!("1Gi"))), false),
            (disk("1Gi"), disk("2Gi"), false),
            (json!([memory(json!("1Gi")), volume("e", json!({}))]), one(memory(json!("2Gi"))), false),
            (one(json!({"name": "m", "hostPath": {}})), one(memory(json!("2Gi"))), false),
            (
                json!([volume("e", json!({})), memory(json!("1Gi"))]),
                json!([volume("e", json!({})), memory(json!("2Gi"))]),
                true,
            ),
        ] {
            for since_1_37 in [false, true] {
                let plugin = NodeDeclaredFeatureValidator { since_1_37, ..plugin(true) };
                let check = check(&plugin).validating().subresource("resize");
                let checked = check.update("", "pods", pod("old", old.clone()), pod("old", new.clone())).await;
                match since_1_37 && is_needed {
                    true => _ = checked.was_refused(403, text),
                    false => checked.stays_unchanged(),
                }
            }
        }
    }

    /// Nodes of which `a` and `b` take part of their resources for devices.
    fn with_devices(checks_slices: bool) -> NodeDeclaredFeatureValidator {
        let node = |name: &str, zone: &str, features: &[&str]| {
            let metadata = json!({"name": name, "labels": {"zone": zone}});
            serde_json::from_value(json!({"metadata": metadata, "status": {"declaredFeatures": features}})).unwrap()
        };
        let nodes = vec![node("a", "1", &[ALLOCATABLE]), node("b", "1", &["X", ALLOCATABLE]), node("c", "2", &[])];
        NodeDeclaredFeatureValidator { since_1_37: true, checks_slices, ..with_nodes(nodes, true) }
    }

    #[tokio::test]
    async fn since_1_37_the_nodes_of_a_device_declare_that_they_take_part_of_their_resources() {
        let zone = |zone: &str| {
            let expressions = json!([{"key": "zone", "operator": "In", "values": [zone]}]);
            json!({"nodeSelector": {"nodeSelectorTerms": [{ "matchExpressions": expressions }]}})
        };
        let unsupported =
            |node: &str| Some(format!("node \"{node}\" does not support DRANodeAllocatableResources feature"));
        let unmapped = || {
            Some("device \"d\" in ResourceSlice has NodeAllocatableResources but does not map to any nodes".to_owned())
        };
        for (places, why) in [
            (json!({"nodeName": "a"}), None),
            (json!({"nodeName": "c"}), unsupported("c")),
            (json!({"nodeName": "d"}), Some("node \"d\" not found for device \"d\"".to_owned())),
            (zone("1"), None),
            (zone("2"), unsupported("c")),
            (zone("3"), None),
            (json!({"allNodes": true}), unsupported("c")),
            (json!({"allNodes": false}), unmapped()),
            (json!({}), unmapped()),
        ] {
            for (is_per_device, is_of_v1beta1) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut device = json!({"nodeAllocatableResources": {"cpu": {}}});
                let mut spec = json!({"perDeviceNodeSelection": is_per_device});
                let holder = if is_per_device { &mut device } else { &mut spec };
                holder.as_object_mut().unwrap().extend(places.as_object().unwrap().clone());
                if is_of_v1beta1 {
                    device = json!({"basic": device});
                }
                device["name"] = json!("d");
                spec["devices"] = json!([{"name": "plain"}, {"name": "empty", "nodeAllocatableResources": {}}, device]);
                let slice = || json!({"metadata": {"name": "s"}, "spec": spec});
                let (on, off) = (with_devices(true), with_devices(false));
                let (group, resource) = ("resource.k8s.io", "resourceslices");
                let created = check(&on).validating().create(group, resource, slice()).await;
                let updated = check(&on).validating().update(group, resource, slice(), slice()).await;
                for checked in [created, updated] {
                    let text =
                        why.as_deref().map(|why| format!("resourceslices.resource.k8s.io \"s\" is forbidden: {why}"));
                    assert_eq!(checked.refusal().map(|status| status.message), text, "{spec}");
                }
                check(&off).validating().create(group, resource, slice()).await.stays_unchanged();
            }
        }
    }

    #[tokio::test]
    async fn a_slice_of_another_shape_is_refused_if_a_device_needs_its_nodes() {
        let device = json!({"name": "d", "nodeAllocatableResources": {"cpu": {}}});
        for selector in
            [json!("x"), json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "X"}]}]})]
        {
            let slice = json!({"metadata": {"name": "s"}, "spec": {"nodeSelector": selector, "devices": [device]}});
            let created =
                check(&with_devices(true)).validating().create("resource.k8s.io", "resourceslices", slice).await;
            assert_eq!(created.code(), Some(400));
        }
    }

    #[test]
    fn creates_are_not_counted_before_1_37() {
        let plugin = |since_1_37| NodeDeclaredFeatureValidator { since_1_37, ..plugin(true) };
        let leaves_out = [Operation::Create, Operation::Update].map(|operation| plugin(false).leaves_out(operation));
        assert_eq!(leaves_out, [true, false]);
        assert!(!plugin(true).leaves_out(Operation::Create));
    }
}
