//! PodSecurity: checks pods against the Pod Security policy in their namespace's labels.
//!
//! The plugin refuses pods. For objects with a pod template, the plugin only adds audit annotations and warnings.

mod checks;
mod config;
mod existing;
mod metrics;
mod namespace;
mod pod;
mod policy;
#[cfg(test)]
mod tests;

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, PluginEnvironment,
    Resources, Spec,
};
use crate::cluster::{Cluster, Namespace, Need};
use crate::object::Object;
use crate::plugins::rules::pod::WrongType;
use crate::status::Status;
use async_trait::async_trait;
use checks::{Evaluator, Violations};
use config::Configuration;
use metrics::{Metrics, Mode};
use pod::{Fields, Pod};
use policy::{LabelFault, Level, LevelVersion, Policy, aggregate, policy_of};
use std::sync::Arc;

/// The plugin's facts. The plugin itself skips the resources that it does not handle. It checks unknown subresources of pods,
/// because they may change a pod.
pub(crate) static SPEC: Spec = Spec {
    name: "PodSecurity",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    // All subresources of pods, because a later release may add some that change the spec.
    resources: Resources::Only(&[
        ("", "namespaces", ""),
        ("", "pods", "*"),
        ("", "podtemplates", ""),
        ("", "replicationcontrollers", ""),
        ("apps", "daemonsets", ""),
        ("apps", "deployments", ""),
        ("apps", "replicasets", ""),
        ("apps", "statefulsets", ""),
        ("batch", "cronjobs", ""),
        ("batch", "jobs", ""),
    ]),
    needs: &[Need::NAMESPACES],
    configuration: Some(config::KIND),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses pods that the namespace's Pod Security labels do not allow, and warns of templates of such pods.",
    build,
};

/// Subresources of pods that do not change a pod's spec.
const IGNORED_POD_SUBRESOURCES: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const ENFORCE_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const ERROR: &str = "pod-security.kubernetes.io/error";

struct PodSecurity {
    cluster: Arc<Cluster>,
    configuration: Configuration,
    evaluator: Evaluator,
    metrics: Metrics,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let minor = environment.feature_gates.release().minor;
    let metrics = environment.metrics.registry().once("pod_security", |registry| Metrics::new(registry, minor))?;
    Ok(Box::new(PodSecurity {
        cluster: environment.cluster.clone(),
        configuration: Configuration::read(environment.configuration)?,
        evaluator: Evaluator::of(minor),
        metrics,
    }))
}

#[async_trait]
impl Plugin for PodSecurity {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        match (&*attributes.resource.group, &*attributes.resource.resource) {
            ("", "namespaces") => self.validate_namespace(attributes).await,
            ("", "pods") => self.validate_pod(attributes).await,
            (group, resource) => match template_path(group, resource) {
                Some(path) => {
                    self.validate_controller(attributes, path).await;
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }
}

/// The path of the pod template in an object of the resource (`DefaultPodSpecExtractor`).
fn template_path(group: &str, resource: &str) -> Option<&'static [&'static str]> {
    match (group, resource) {
        ("", "podtemplates") => Some(&["template"]),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => Some(&["spec", "template"]),
        ("batch", "cronjobs") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

impl PodSecurity {
    /// `Admission.ValidatePod`.
    async fn validate_pod(&self, attributes: &Attributes) -> Result<(), Denial> {
        if IGNORED_POD_SUBRESOURCES.contains(&&*attributes.subresource) || self.is_exempt(attributes) {
            return Ok(());
        }
        let namespace = match self.namespace(&attributes.namespace).await {
            Ok(namespace) => namespace,
            Err(why) => {
                let status =
                    Status::internal_error(format_args!("failed to lookup namespace {:?}", attributes.namespace));
                return Err(self.undecidable(attributes, status, Some(&why.message)));
            }
        };
        let (policy, faults) = self.policy_of(&namespace);
        if faults.is_empty() && policy.is_fully_privileged() {
            self.metrics.evaluated(true, policy.enforce, Mode::Enforce, attributes);
            attributes.annotations.add(ENFORCE_POLICY, LevelVersion::PRIVILEGED.to_string());
            return Ok(());
        }
        let undecodable = |text: &str| self.undecidable(attributes, Status::bad_request(text), None);
        let not_a_pod = || undecodable("failed to decode pod");
        let mut pod = read(attributes.object.as_ref()).map_err(|WrongType| not_a_pod())?;
        pod.is_new = attributes.operation == Operation::Create;
        if attributes.operation == Operation::Update {
            let old = read(attributes.old_object.as_deref());
            let old = old.map_err(|WrongType| undecodable("failed to decode old pod"))?;
            if !is_significant(&pod, &old).map_err(|WrongType| not_a_pod())? {
                return Ok(());
            }
        }
        self.evaluate(&policy, &faults, &pod, attributes, true).unwrap_or_else(|WrongType| Err(not_a_pod()))
    }

    /// `Admission.ValidatePodController`: adds warnings and audit annotations, but never refuses.
    async fn validate_controller(&self, attributes: &Attributes, path: &[&str]) {
        if !attributes.subresource.is_empty() || self.is_exempt(attributes) {
            return;
        }
        let failed = |why: String| {
            self.metrics.failed(true, attributes);
            attributes.annotations.add(ERROR, why);
        };
        let namespace = match self.namespace(&attributes.namespace).await {
            Ok(namespace) => namespace,
            Err(why) => return failed(format!("failed to lookup namespace {:?}: {why}", attributes.namespace)),
        };
        let (policy, faults) = self.policy_of(&namespace);
        let asks_for_something = policy.warn.level != Level::Privileged || policy.audit.level != Level::Privileged;
        if faults.is_empty() && !asks_for_something {
            return;
        }
        let evaluated = template(attributes, path).and_then(|template| match template {
            // Only a ReplicationController may lack the template.
            None => Ok(()),
            Some(template) => {
                self.evaluate(&policy, &faults, &Pod::read(template)?, attributes, false).map(|_never_refused| ())
            }
        });
        if let Err(WrongType) = evaluated {
            failed("failed to decode object: a field of its template has another type than it must have".to_owned());
        }
    }

    /// `Admission.EvaluatePod`. The outer error is a wrong type in the pod's JSON, the inner error is a refusal.
    fn evaluate(
        &self,
        policy: &Policy,
        faults: &[LabelFault],
        pod: &Pod<'_>,
        attributes: &Attributes,
        is_enforced: bool,
    ) -> Result<Result<(), Denial>, WrongType> {
        if self.is_exempt_runtime_class(pod.spec)? {
            self.metrics.exempted(attributes);
            attributes.annotations.add(EXEMPT, "runtimeClass");
            return Ok(Ok(()));
        }
        let evaluate = |policy| self.evaluator.evaluate(policy, pod);
        let enforced = if is_enforced { evaluate(policy.enforce)? } else { Violations::default() };
        let same_as_enforced = |other| is_enforced && other == policy.enforce;
        let (of_audit, of_warn);
        let audited = if same_as_enforced(policy.audit) {
            &enforced
        } else {
            of_audit = evaluate(policy.audit)?;
            &of_audit
        };
        let warned = if policy.warn == policy.audit {
            audited
        } else if same_as_enforced(policy.warn) {
            &enforced
        } else {
            of_warn = evaluate(policy.warn)?;
            &of_warn
        };
        if !faults.is_empty() {
            self.metrics.failed(false, attributes);
            attributes.annotations.add(ERROR, format!("Failed to parse policy: {}", aggregate(faults)));
        }
        if is_enforced {
            attributes.annotations.add(ENFORCE_POLICY, policy.enforce.to_string());
            self.metrics.evaluated(enforced.is_empty(), policy.enforce, Mode::Enforce, attributes);
        }
        if !audited.is_empty() {
            self.metrics.evaluated(false, policy.audit, Mode::Audit, attributes);
            attributes.annotations.add(AUDIT_VIOLATIONS, would_violate(policy.audit, audited));
        }
        if !enforced.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, enforced.details());
            let resource = &attributes.resource;
            return Ok(Err(Status::forbidden(&resource.group, &resource.resource, &attributes.name, &why).into()));
        }
        // A refused request needs no warning.
        if !warned.is_empty() {
            self.metrics.evaluated(false, policy.warn, Mode::Warn, attributes);
            attributes.context.warnings.add(would_violate(policy.warn, warned));
        }
        Ok(Ok(()))
    }

    /// Whether the namespace or the user is exempt. If so, counts and annotates the exemption.
    fn is_exempt(&self, attributes: &Attributes) -> bool {
        let why = if self.is_exempt_namespace(&attributes.namespace) {
            "namespace"
        } else if is_among(&self.configuration.usernames, &attributes.context.user.username) {
            "user"
        } else {
            return false;
        };
        self.metrics.exempted(attributes);
        attributes.annotations.add(EXEMPT, why);
        true
    }

    fn is_exempt_namespace(&self, namespace: &str) -> bool {
        is_among(&self.configuration.namespaces, namespace)
    }

    fn is_exempt_runtime_class(&self, spec: Fields<'_>) -> Result<bool, WrongType> {
        Ok(is_among(&self.configuration.runtime_classes, spec.text("runtimeClassName")?))
    }

    /// The namespace, from the cache or from the API server.
    async fn namespace(&self, name: &str) -> Result<Arc<Namespace>, Status> {
        if let Some(namespace) = self.cluster.namespace(name) {
            return Ok(namespace);
        }
        let live = self.cluster.live_namespace(name).await?;
        live.ok_or_else(|| Status::not_found("", "namespaces", name))
    }

    fn policy_of(&self, namespace: &Namespace) -> (Policy, Vec<LabelFault>) {
        policy_of(|label| namespace.labels.get(label), &self.configuration.defaults)
    }

    /// Refuses a request that the plugin cannot check, and annotates the reason.
    fn undecidable(&self, attributes: &Attributes, status: Status, why: Option<&str>) -> Denial {
        self.metrics.failed(true, attributes);
        refusal(attributes, status, why)
    }
}

/// Refuses a request because of a fault in the request or the cluster (`errorResponse`). A status without details gets the
/// details of a refused request.
fn refusal(attributes: &Attributes, mut status: Status, why: Option<&str>) -> Denial {
    let detail = why.map_or_else(|| status.message.clone(), |why| format!("{}: {why}", status.message));
    attributes.annotations.add(ERROR, detail);
    if status.details.is_none() {
        status.details = Denial::forbidden("").into_status(attributes).details;
    }
    status.into()
}

fn would_violate(policy: LevelVersion, violations: &Violations) -> String {
    format!("would violate PodSecurity \"{policy}\": {}", violations.details())
}

fn read(object: Option<&Object>) -> Result<Pod<'_>, WrongType> {
    Pod::read(Fields::of_map(object.ok_or(WrongType)?.fields()))
}

fn is_among(exempt: &[String], name: &str) -> bool {
    !name.is_empty() && exempt.iter().any(|known| known == name)
}

/// The template at the path. `None` if the object lacks the template and the resource permits that.
fn template<'a>(attributes: &'a Attributes, path: &[&str]) -> Result<Option<Fields<'a>>, WrongType> {
    let object = attributes.object.as_ref().ok_or(WrongType)?;
    let Some((last, parents)) = path.split_last() else { return Ok(None) };
    let template = Fields::of_map(object.fields()).at(parents)?.pointer(last)?;
    let is_optional = attributes.resource.resource == "replicationcontrollers";
    Ok(if is_optional { template } else { Some(template.unwrap_or_default()) })
}

/// Whether an update changes a field that policies check (`isSignificantPodUpdate`): the number of containers, an image, or a
/// new ephemeral container.
fn is_significant(pod: &Pod<'_>, old: &Pod<'_>) -> Result<bool, WrongType> {
    for list in ["containers", "initContainers"] {
        let (new, old) = (pod.spec.list(list)?, old.spec.list(list)?);
        if new.len() != old.len() {
            return Ok(true);
        }
        for (new, old) in new.iter().zip(old) {
            if Fields::of(new)?.text("image")? != Fields::of(old)?.text("image")? {
                return Ok(true);
            }
        }
    }
    for container in pod.spec.objects("ephemeralContainers")? {
        let container = container?;
        let mut known = None;
        for old in old.spec.objects("ephemeralContainers")? {
            let old = old?;
            if old.text("name")? == container.text("name")? {
                known = Some(old);
                break;
            }
        }
        match known {
            Some(old) if old.text("image")? == container.text("image")? => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Whether the latest version of a level allows the pod.
#[cfg(test)]
pub(super) fn allows(level: &str, pod: &serde_json::Value) -> bool {
    use crate::config::EmulatedRelease;
    let policy = LevelVersion { level: Level::parse(level).expect("a level"), version: policy::Version::Latest };
    let pod = Fields::of(pod).and_then(Pod::read).expect("a pod");
    Evaluator::of(EmulatedRelease::default().minor).evaluate(policy, &pod).expect("a pod").is_empty()
}
