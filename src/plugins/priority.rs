//! Priority: sets a pod's priority from its priority class, and allows one default class at most.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::Value;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "Priority",
    default_on: true,
    phases: Phases::Both,
    // Deletes change nothing, but kube-apiserver's plugin handles them too.
    operations: Operations::CREATE.or(Operations::UPDATE).or(Operations::DELETE),
    resources: Resources::Only(&[
        ("", "pods", ""),
        ("scheduling.k8s.io", "podgroups", ""),
        ("scheduling.k8s.io", "compositepodgroups", ""),
        ("scheduling.k8s.io", "priorityclasses", ""),
    ]),
    needs: &[Need::PRIORITY_CLASSES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives pods the priority of their priority class, and allows one default class.",
    build: |environment| {
        let gates = environment.feature_gates;
        // 1.37 merged the gate into the other one.
        let for_groups = match gates.since(37) {
            true => gates.is_on("GenericWorkload"),
            false => gates.is_on("WorkloadAwarePreemption"),
        };
        Ok(Box::new(Priority {
            cluster: environment.cluster.clone(),
            for_groups,
            for_composite_groups: gates.is_on("CompositePodGroup"),
            groups_have_preemption_policy: gates.is_on("PodGroupPreemptionPolicy"),
        }))
    },
};

const CLASS_NAME: [&str; 2] = ["spec", "priorityClassName"];
const PRIORITY: [&str; 2] = ["spec", "priority"];
const PREEMPTION_POLICY: [&str; 2] = ["spec", "preemptionPolicy"];

struct Priority {
    cluster: Arc<Cluster>,
    for_groups: bool,
    /// Since 1.37.
    for_composite_groups: bool,
    /// Since 1.37.
    groups_have_preemption_policy: bool,
}

/// The values of a priority class for an object.
struct Established {
    class: String,
    priority: i32,
    preemption_policy: Option<String>,
}

#[async_trait]
impl Plugin for Priority {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        match (&*attributes.resource.resource, attributes.operation) {
            ("pods", Operation::Create) => self.admit_pod(attributes),
            ("pods", Operation::Update) => keep_priority(attributes),
            ("podgroups", Operation::Create) if self.for_groups => {
                self.admit_group(attributes, "PodGroup", "pod group")
            }
            ("compositepodgroups", Operation::Create) if self.for_composite_groups => {
                self.admit_group(attributes, "CompositePodGroup", "composite pod group")
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let class = attributes.object.as_ref().filter(|_| attributes.resource.resource == "priorityclasses");
        let Some(class) = class.filter(|class| class.get(&["globalDefault"]) == Some(&Value::Bool(true))) else {
            return Ok(());
        };
        match self.default_class() {
            Some(default) if attributes.operation == Operation::Create || default.class != class.name() => {
                Err(Denial::forbidden(format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    default.class
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Priority {
    fn admit_pod(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let pod = attributes.object.as_mut().ok_or_else(|| unreadable("Pod"))?;
        let established = self.establish(pod)?;
        let Established { class, priority, preemption_policy } = established;
        if let Some(given) = given_priority(pod).filter(|given| *given != i64::from(priority)) {
            return Err(Denial::forbidden(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
                 computed {priority} from the given PriorityClass name"
            )));
        }
        set(pod, "Pod", &CLASS_NAME, class.into())?;
        set(pod, "Pod", &PRIORITY, priority.into())?;
        let Some(policy) = preemption_policy else { return Ok(()) };
        if let Some(given) = pod.get(&PREEMPTION_POLICY).and_then(Value::as_str).filter(|given| *given != policy) {
            return Err(Denial::forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            )));
        }
        set(pod, "Pod", &PREEMPTION_POLICY, policy.into())
    }

    /// `admitPodGroup`, `admitCompositePodGroup`. `what` is the kind as errors name it.
    fn admit_group(&self, attributes: &mut Attributes, kind: &str, what: &str) -> Result<(), Denial> {
        let group = attributes.object.as_mut().ok_or_else(|| unreadable(kind))?;
        let Established { class, priority, preemption_policy } = self.establish(group)?;
        if let Some(given) = given_priority(group).filter(|given| *given != i64::from(priority)) {
            return Err(Denial::forbidden(format!(
                "priority set in the {what} ({given}) must match the priority computed ({priority}) based on the \
                 priority class set in the spec"
            )));
        }
        set(group, kind, &PRIORITY, priority.into())?;
        set(group, kind, &CLASS_NAME, class.into())?;
        let Some(policy) = preemption_policy.filter(|_| self.groups_have_preemption_policy) else { return Ok(()) };
        if !["PreemptLowerPriority", "Never"].contains(&&*policy) {
            return Err(Denial::forbidden(format!(
                "preemptionPolicy set in the PriorityClass object ({policy}) must match one of the allowed values of \
                 PreemptionPolicy type in {what}"
            )));
        }
        if let Some(given) = group.get(&PREEMPTION_POLICY).and_then(Value::as_str).filter(|given| *given != policy) {
            return Err(Denial::forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in {what} spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            )));
        }
        set(group, kind, &PREEMPTION_POLICY, policy.into())
    }

    /// The values of the object's class; of the default class if the object names no class.
    fn establish(&self, object: &Object) -> Result<Established, Denial> {
        let name = object.str(&CLASS_NAME);
        if name.is_empty() {
            self.cluster.check_decodable(&[Need::PRIORITY_CLASSES], "")?;
            let none = || Established {
                class: String::new(),
                priority: 0,
                preemption_policy: Some("PreemptLowerPriority".to_owned()),
            };
            return Ok(self.default_class().unwrap_or_else(none));
        }
        match self.cluster.find::<PriorityClass>("", name) {
            Some(class) => Ok(Established::from(&*class)),
            None => Err(Denial::forbidden(format!("no PriorityClass with name {name} was found"))),
        }
    }

    /// The default class with the lowest value, if there are several.
    fn default_class(&self) -> Option<Established> {
        let classes = self.cluster.all::<PriorityClass>();
        let defaults = classes.iter().filter(|class| class.global_default == Some(true));
        defaults.min_by_key(|class| class.value.unwrap_or_default()).map(|class| Established::from(&**class))
    }
}

impl From<&PriorityClass> for Established {
    fn from(class: &PriorityClass) -> Self {
        Self {
            class: class.metadata.name.clone().unwrap_or_default(),
            priority: class.value.unwrap_or_default(),
            preemption_policy: class.preemption_policy.clone(),
        }
    }
}

/// Restores the old priority and preemption policy in an update that omits them, because both are immutable.
fn keep_priority(attributes: &mut Attributes) -> Result<(), Denial> {
    let (Some(pod), Some(old)) = (&mut attributes.object, &attributes.old_object) else {
        return Err(unreadable("Pod"));
    };
    let is_given = |object: &Object, path: &[&str]| object.get(path).is_some_and(|value| !value.is_null());
    for path in [PRIORITY, PREEMPTION_POLICY] {
        if !is_given(pod, &path)
            && let Some(stays) = old.get(&path).filter(|value| !value.is_null())
        {
            set(pod, "Pod", &path, stays.clone())?;
        }
    }
    Ok(())
}

fn given_priority(object: &Object) -> Option<i64> {
    object.get(&PRIORITY).and_then(Value::as_i64)
}

/// Sets a field, unless the field already has the value, or is missing and the value is empty.
fn set(object: &mut Object, kind: &str, path: &[&str; 2], value: Value) -> Result<(), Denial> {
    let is_same = match object.get(path) {
        None => value == "",
        Some(given) => *given == value,
    };
    if is_same || object.set(path, value) { Ok(()) } else { Err(unreadable(kind)) }
}

fn unreadable(kind: &str) -> Denial {
    Status::bad_request(format!("resource was marked with kind {kind} but was unable to be converted")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::PluginEnvironment;
    use crate::admission::metrics::Metrics;
    use crate::cluster::FixedState;
    use crate::cluster::discovery::Discovery;
    use crate::config::FeatureGates;
    use crate::metrics::Registry;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn class(name: &str, value: i32, is_default: bool, policy: Option<&str>) -> PriorityClass {
        let class = json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default, "preemptionPolicy": policy});
        serde_json::from_value(class).unwrap()
    }

    fn plugin(classes: Vec<PriorityClass>) -> Priority {
        Priority {
            cluster: Cluster::fixed(FixedState::default().with::<PriorityClass>(classes)),
            for_groups: true,
            for_composite_groups: true,
            groups_have_preemption_policy: false,
        }
    }

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    #[tokio::test]
    async fn a_pod_gets_the_priority_of_its_class() {
        let classes = || vec![class("high", 10, false, Some("Never")), class("plain", 5, false, None)];
        let created = |spec| async move { check(&plugin(classes())).create("", "pods", pod(spec)).await };
        let named = |name: &str| json!({"priorityClassName": name});
        created(named("high"))
            .await
            .becomes(pod(json!({"priorityClassName": "high", "priority": 10, "preemptionPolicy": "Never"})));
        created(named("plain")).await.becomes(pod(json!({"priorityClassName": "plain", "priority": 5})));
        created(json!({})).await.becomes(pod(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})));
        let missing = created(named("x")).await;
        missing.was_refused(403, "pods \"p\" is forbidden: no PriorityClass with name x was found");
        let other = created(json!({"priorityClassName": "high", "priority": 5})).await;
        other.was_refused(
            403,
            "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission \
             controller computed 10 from the given PriorityClass name",
        );
        let other = created(json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"})).await;
        other.was_refused(
            403,
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod \
             spec; priority admission controller computed Never from the given PriorityClass name",
        );
    }

    #[tokio::test]
    async fn the_least_of_several_default_classes_counts() {
        let classes = vec![class("a", 7, true, None), class("b", 3, true, None), class("c", 1, false, None)];
        let checked = check(&plugin(classes)).create("", "pods", pod(json!({}))).await;
        checked.becomes(pod(json!({"priorityClassName": "b", "priority": 3})));
    }

    #[tokio::test]
    async fn an_update_keeps_what_it_leaves_out() {
        let old = pod(json!({"priority": 5, "preemptionPolicy": "Never"}));
        check(&plugin(vec![])).update("", "pods", old.clone(), pod(json!({}))).await.becomes(old);
        check(&plugin(vec![])).update("", "pods", pod(json!({})), pod(json!({}))).await.stays_unchanged();
    }

    #[tokio::test]
    async fn a_pod_group_must_have_its_classs_priority() {
        let group = |spec| json!({"metadata": {"name": "g"}, "spec": spec});
        let created = |spec| async move {
            let plugin = plugin(vec![class("high", 10, false, None)]);
            check(&plugin).create("scheduling.k8s.io", "podgroups", group(spec)).await
        };
        let full = group(json!({"priorityClassName": "high", "priority": 10}));
        created(json!({"priorityClassName": "high"})).await.becomes(full);
        created(json!({"priorityClassName": "high", "priority": 1})).await.was_refused(
            403,
            "podgroups.scheduling.k8s.io \"g\" is forbidden: priority set in the pod group (1) must match the priority computed \
             (10) based on the priority class set in the spec",
        );
    }

    #[tokio::test]
    async fn groups_have_a_preemption_policy_and_composite_groups_a_priority_by_their_gates() {
        let classes = || {
            vec![
                class("high", 10, false, Some("Never")),
                class("plain", 5, false, None),
                class("odd", 1, false, Some("X")),
            ]
        };
        let created = |resource: &'static str, spec: Value, is_composite: bool, has_policy: bool| async move {
            let (for_composite_groups, groups_have_preemption_policy) = (is_composite, has_policy);
            let plugin = Priority { for_composite_groups, groups_have_preemption_policy, ..plugin(classes()) };
            let group = json!({"metadata": {"name": "g"}, "spec": spec});
            check(&plugin).create("scheduling.k8s.io", resource, group).await
        };
        let named = |name: &str| json!({"priorityClassName": name});
        let becomes = |spec: Value| json!({"metadata": {"name": "g"}, "spec": spec});
        for (resource, what) in [("podgroups", "pod group"), ("compositepodgroups", "composite pod group")] {
            let made = |policy: &str| json!({"priorityClassName": "high", "priority": 10, "preemptionPolicy": policy});
            created(resource, named("high"), true, true).await.becomes(becomes(made("Never")));
            created(resource, json!({}), true, true)
                .await
                .becomes(becomes(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})));
            created(resource, named("plain"), true, true)
                .await
                .becomes(becomes(json!({"priorityClassName": "plain", "priority": 5})));
            let full = json!({"priorityClassName": "high", "priority": 10});
            created(resource, named("high"), true, false).await.becomes(becomes(full));
            let name = format!("{resource}.scheduling.k8s.io \"g\" is forbidden: ");
            created(resource, made("PreemptLowerPriority"), true, true).await.was_refused(
                403,
                &format!(
                    "{name}the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in {what} spec; \
                     priority admission controller computed Never from the given PriorityClass name"
                ),
            );
            created(resource, named("odd"), true, true).await.was_refused(
                403,
                &format!(
                    "{name}preemptionPolicy set in the PriorityClass object (X) must match one of the allowed values of \
                     PreemptionPolicy type in {what}"
                ),
            );
            created(resource, json!({"priorityClassName": "high", "priority": 1}), true, false).await.was_refused(
                403,
                &format!(
                    "{name}priority set in the {what} (1) must match the priority computed (10) based on the priority class \
                     set in the spec"
                ),
            );
        }
        created("compositepodgroups", named("high"), false, true).await.stays_unchanged();
    }

    #[tokio::test]
    async fn pod_groups_have_the_gate_of_their_release() {
        for (minor, gates, is_set) in [
            (36, "WorkloadAwarePreemption=true,GangScheduling=true,GenericWorkload=true", true),
            (36, "GenericWorkload=true", false),
            (37, "GenericWorkload=true", true),
            (37, "", false),
        ] {
            let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
            let cluster = Cluster::fixed(FixedState::default().with::<PriorityClass>(Vec::new()));
            let environment = PluginEnvironment {
                feature_gates: &FeatureGates::of_release(minor, gates),
                ..PluginEnvironment::with_defaults(cluster, Discovery::unconnected(), metrics)
            };
            let plugin = (SPEC.build)(&environment).unwrap();
            let created =
                check(&*plugin).create("scheduling.k8s.io", "podgroups", json!({"metadata": {"name": "g"}})).await;
            assert_eq!(created.after().get("spec").is_some(), is_set, "1.{minor} {gates}");
        }
    }

    #[tokio::test]
    async fn one_class_is_the_default() {
        let text = "is already marked as default. Only one default can exist";
        let is_default = |name: &str| json!({"metadata": {"name": name}, "value": 1, "globalDefault": true});
        let plugin = || plugin(vec![class("first", 1, true, None)]);
        let refused = |name: &str| {
            format!("priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: PriorityClass first {text}")
        };
        let (one, two) = (plugin(), plugin());
        let on = ("scheduling.k8s.io", "priorityclasses");
        let created = check(&one).validating().create(on.0, on.1, is_default("first")).await;
        created.was_refused(403, &refused("first"));
        let updated = check(&two).validating().update(on.0, on.1, is_default("second"), is_default("second")).await;
        updated.was_refused(403, &refused("second"));
        let same = check(&one).validating().update(on.0, on.1, is_default("first"), is_default("first")).await;
        same.stays_unchanged();
        let none = json!({"metadata": {"name": "x"}, "value": 1});
        check(&two).validating().create(on.0, on.1, none).await.stays_unchanged();
    }
}
