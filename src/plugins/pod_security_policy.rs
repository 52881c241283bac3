//! PodSecurityPolicy: applies and enforces the PodSecurityPolicies that the user or the service account may use.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.24. The differences are those that an API server of today
//! needs: `seccomp` and `app_armor` name them.

mod app_armor;
mod authorization;
mod capabilities;
mod containers;
mod defaults;
mod groups;
mod pod;
mod policy;
mod report;
mod review;
mod se_linux;
mod seccomp;
#[cfg(test)]
mod tests;
mod users;
mod volumes;

use crate::admission::{
    Attributes, Denial, FrontEndSupport, Operation, Operations, Phase, Phases, Plugin, Removed, Resources, Spec,
};
use crate::cluster::{Cluster, Need, Projection};
use crate::manifests::RemovedObjects;
use crate::object::Object;
use async_trait::async_trait;
use authorization::{Subjects, Ways};
use defaults::Defaults;
use pod::{Pod, Undecodable};
pub(crate) use policy::PodSecurityPolicy;
use report::Report;
use review::review;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodSecurityPolicy",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[NEED],
    configuration: Some("PodSecurityPolicyConfiguration"),
    removed: Some(Removed { since: "1.3", until: "1.24", successor: "PodSecurity" }),
    front_end: FrontEndSupport::Full,
    about: "Applies and enforces the PodSecurityPolicies that the user or the service account may use.",
    build: |environment| {
        let policies = RemovedObjects::only(environment, SPEC.name, "PodSecurityPolicyConfiguration")?;
        Ok(Box::new(PodSecurityPolicyPlugin { cluster: environment.cluster.clone(), policies, ways: Ways::default() }))
    },
};

const NEED: Need = <PodSecurityPolicy as Projection>::NEED;
/// The annotation with the name of the policy that admitted the pod (`ValidatedPSPAnnotation`).
const ANNOTATION: &str = "kubernetes.io/psp";
const ADMIT_POLICY: &str = "podsecuritypolicy.policy.k8s.io/admit-policy";
const VALIDATE_POLICY: &str = "podsecuritypolicy.policy.k8s.io/validate-policy";
/// The number of refused policies whose permissions are checked at the same time for the text of a refusal.
const REPORTED_AT_ONCE: usize = 8;

struct PodSecurityPolicyPlugin {
    cluster: Arc<Cluster>,
    policies: RemovedObjects<PodSecurityPolicy>,
    ways: Ways,
}

/// A policy that admits the pod, and the values that it sets.
struct Choice {
    policy: Arc<PodSecurityPolicy>,
    defaults: Defaults,
}

#[async_trait]
impl Plugin for PodSecurityPolicyPlugin {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let Choice { policy, defaults } = self.choose(attributes, Phase::Admit).await?;
        if let Some(pod) = &mut attributes.object {
            let is_set = defaults.apply(pod) && set_annotation(pod, ANNOTATION, &policy.name);
            if !(is_set && seccomp::fill_fields(pod)) {
                return Err(Denial::forbidden("PodSecurityPolicy: a field of the pod that must be an object is none"));
            }
        }
        attributes.annotations.add(ADMIT_POLICY, &*policy.name);
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if attributes.operation == Operation::Update && changes_only_references(attributes) {
            return Ok(());
        }
        let choice = self.choose(attributes, Phase::Validate).await?;
        attributes.annotations.add(VALIDATE_POLICY, &*choice.policy.name);
        Ok(())
    }

    /// The policies that cannot be applied. As in kube-apiserver, the plugin skips them.
    fn problems(&self) -> Vec<String> {
        let policies = self.policies();
        let unusable = policies.iter().filter_map(|policy| policy.rules.as_ref().err().map(|why| (&policy.name, why)));
        unusable.map(|(name, why)| format!("PodSecurityPolicy {name:?} is not used: {why}")).collect()
    }
}

impl PodSecurityPolicyPlugin {
    #[cfg(test)]
    fn new(cluster: Arc<Cluster>) -> Self {
        Self { policies: RemovedObjects::ApiServer(cluster.clone()), cluster, ways: Ways::default() }
    }

    /// All policies, sorted by name.
    fn policies(&self) -> Arc<Vec<Arc<PodSecurityPolicy>>> {
        self.policies.all()
    }

    /// The policy for the pod (`computeSecurityContext`): the first policy that leaves the pod unchanged; in the mutating phase,
    /// else the first policy that admits the pod with changes.
    ///
    /// Permissions are checked only for policies on which the result depends.
    async fn choose(&self, attributes: &Attributes, phase: Phase) -> Result<Choice, Denial> {
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        self.cluster.check_decodable(&[NEED], "")?;
        let pod = attributes.object.as_ref().ok_or(Undecodable::Missing).and_then(Pod::read);
        let pod =
            pod.map_err(|why| Denial::forbidden(format!("PodSecurityPolicy: the pod cannot be decoded: {why}")))?;
        let policies = self.policies();
        if policies.iter().all(|policy| policy.rules.is_err()) {
            return Err(Denial::forbidden("PodSecurityPolicy: no providers available to validate pod request"));
        }
        let subjects = Subjects::new(attributes, pod.service_account(), &self.ways);
        let (mut changing, mut refusing) = (None, Vec::new());
        // In the validating phase, the policy that admitted the pod is the likely one.
        let first = pod.annotation(ANNOTATION).filter(|_| phase == Phase::Validate);
        for policy in in_order(&policies, first) {
            let Ok(rules) = &policy.rules else { continue };
            let mut report = Report::brief();
            let defaults = review(rules, &pod, phase, &mut report);
            if report.is_refused() {
                refusing.push(policy);
                continue;
            }
            let is_unchanged = defaults.is_empty();
            let may_be_chosen = is_unchanged || (phase == Phase::Admit && changing.is_none());
            if may_be_chosen && subjects.may_use(&policy.name).await {
                let choice = Choice { policy: policy.clone(), defaults };
                if is_unchanged {
                    return Ok(choice);
                }
                changing = Some(choice);
            }
        }
        match changing {
            Some(choice) => Ok(choice),
            None => Err(refusal(&refusing, &pod, phase, &subjects).await),
        }
    }
}

/// The policies in the order of their review: by name, but the policy with the name `first` before all others.
fn in_order<'a>(
    policies: &'a [Arc<PodSecurityPolicy>],
    first: Option<&'a str>,
) -> impl Iterator<Item = &'a Arc<PodSecurityPolicy>> {
    let is_first = move |policy: &&Arc<PodSecurityPolicy>| first == Some(&*policy.name);
    policies.iter().filter(is_first).chain(policies.iter().filter(move |policy| !is_first(policy)))
}

/// The refusal with the violations of every policy that may be used. Go lists the policies in random order; here they are
/// sorted by name.
async fn refusal(refusing: &[&Arc<PodSecurityPolicy>], pod: &Pod<'_>, phase: Phase, subjects: &Subjects<'_>) -> Denial {
    let mut report = Report::full();
    for policies in refusing.chunks(REPORTED_AT_ONCE) {
        let usable = futures_util::future::join_all(policies.iter().map(|policy| subjects.may_use(&policy.name))).await;
        for (policy, _) in policies.iter().zip(usable).filter(|(_, is_usable)| *is_usable) {
            if let Ok(rules) = &policy.rules {
                review(rules, pod, phase, &mut report);
            }
        }
    }
    let step = match phase {
        Phase::Admit => "admit",
        Phase::Validate => "validate",
    };
    Denial::forbidden(format!("PodSecurityPolicy: unable to {step} pod: [{}]", report.into_text()))
}

/// Metadata that an update may change freely (`rbacregistry.IsOnlyMutatingGCFields`), and metadata that only the API server
/// sets in an update.
const IGNORED_METADATA: [&str; 10] = [
    "ownerReferences",
    "finalizers",
    "selfLink",
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Whether the update changes at most owner references and finalizers. The status does not count: an update of the pod keeps
/// the stored status.
fn changes_only_references(attributes: &Attributes) -> bool {
    let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return false };
    new.get(&["spec"]) == old.get(&["spec"]) && significant_metadata(new) == significant_metadata(old)
}

fn significant_metadata(pod: &Object) -> BTreeMap<&str, &Value> {
    let fields = pod.get(&["metadata"]).and_then(Value::as_object).into_iter().flatten();
    let fields = fields.map(|(field, value)| (field.as_str(), value));
    fields.filter(|(field, value)| !IGNORED_METADATA.contains(field) && !is_empty(value)).collect()
}

/// Whether Go's semantic equality takes the value for a missing one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Sets an annotation, unless the annotation has the value. Returns `false` if the annotations are no object.
#[must_use]
fn set_annotation(pod: &mut Object, key: &str, value: &str) -> bool {
    let path = ["metadata", "annotations", key];
    pod.get(&path).and_then(Value::as_str) == Some(value) || pod.set(&path, value.into())
}
