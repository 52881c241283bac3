//! Checks a namespace's existing pods against a new enforce level.

use super::PodSecurity;
use super::pod::{Fields, Pod};
use super::policy::LevelVersion;
use crate::admission::Attributes;
use crate::object::Object;
use crate::plugins::rules::pod::WrongType;
use crate::status::Status;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of checked pods (`defaultNamespaceMaxPodsToCheck`).
const MAX_CHECKED_PODS: usize = 3000;
/// The maximum number of listed pods, among which pods to check are chosen. kube-apiserver has all pods in memory.
const MAX_LISTED_PODS: usize = 12_000;
/// The time limit of all checks together (`defaultNamespacePodCheckTimeout`), and of the list before the checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A pod that violates the policy.
struct Offender {
    name: String,
    reasons: String,
}

/// The checked pods of a namespace. `None` stands for a pod without violations.
#[derive(Default)]
struct Found {
    /// The pods without a controller, and the first pod of each controller.
    first: Vec<Option<Offender>>,
    /// The other pods of controllers.
    further: Vec<Option<Offender>>,
    controllers: HashSet<String>,
    /// The number of pods that were not listed.
    unseen: usize,
}

impl PodSecurity {
    /// `Admission.EvaluatePodsInNamespace`.
    pub(super) async fn warn_of_existing_pods(&self, attributes: &Attributes, namespace: &str, enforce: LevelVersion) {
        let Ok(found) = self.check_pods(attributes, namespace, enforce).await else {
            attributes.context.warnings.add("failed to list pods while checking new PodSecurity enforce level");
            return;
        };
        for warning in found.into_warnings(namespace, enforce) {
            attributes.context.warnings.add(warning);
        }
    }

    /// Checks the pods page by page, so that at most one page is in memory.
    ///
    /// # Errors
    /// If the first page cannot be listed.
    async fn check_pods(
        &self,
        attributes: &Attributes,
        namespace: &str,
        enforce: LevelVersion,
    ) -> Result<Found, Status> {
        let started = Instant::now();
        // The other half of the request's time remains for later steps.
        let half = attributes.context.deadline.saturating_duration_since(started) / 2;
        let (list_until, check_timeout) = (started + half.min(LIST_TIMEOUT), half.min(CHECK_TIMEOUT));
        let mut found = Found::default();
        let (mut listed, mut checking) = (0, Duration::ZERO);
        let mut next = None;
        loop {
            let page = self.cluster.live_pods(namespace, next.as_deref());
            let page = match tokio::time::timeout_at(list_until, page).await {
                Ok(Ok(page)) => page,
                Ok(Err(status)) if listed == 0 => return Err(status),
                Err(_) if listed == 0 => return Err(Status::timeout("the pods were not listed in time")),
                // The violations found so far are worth a warning, whose text contains the number of checked pods.
                Ok(Err(_)) | Err(_) => break,
            };
            listed += page.pods.len();
            found.unseen = page.remaining;
            let begun = Instant::now();
            for pod in &page.pods {
                found.add(self, pod, enforce).map_err(|WrongType| Status::internal_error("a pod cannot be read"))?;
            }
            checking += begun.elapsed();
            next = page.next;
            if next.is_none() || listed >= MAX_LISTED_PODS || checking > check_timeout {
                break;
            }
        }
        Ok(found)
    }
}

impl Found {
    fn add(&mut self, plugin: &PodSecurity, object: &Object, enforce: LevelVersion) -> Result<(), WrongType> {
        let pod = Pod::read(Fields::of_map(object.fields()))?;
        if plugin.is_exempt_runtime_class(pod.spec)? {
            return Ok(());
        }
        let violations = plugin.evaluator.evaluate(enforce, &pod)?;
        let offender = (!violations.is_empty())
            .then(|| Offender { name: object.name().to_owned(), reasons: violations.reasons() });
        match controller(object) {
            Some(uid) if !self.controllers.insert(uid.to_owned()) => self.further.push(offender),
            _ => self.first.push(offender),
        }
        Ok(())
    }

    fn into_warnings(self, namespace: &str, enforce: LevelVersion) -> Vec<String> {
        let total = self.first.len() + self.further.len() + self.unseen;
        let checked: Vec<_> = self.first.into_iter().chain(self.further).take(MAX_CHECKED_PODS).collect();
        let mut warnings = Vec::new();
        if checked.len() < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {} of {total} existing pods",
                checked.len()
            ));
        }
        let mut by_reasons: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for Offender { name, reasons } in checked.into_iter().flatten() {
            let (first, count) = by_reasons.entry(reasons).or_insert_with(|| (name.clone(), 0));
            *count += 1;
            if name < *first {
                *first = name;
            }
        }
        if !by_reasons.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
            ));
        }
        let mut lines: Vec<String> = by_reasons
            .into_iter()
            .map(|(reasons, (name, count))| match count {
                1 => format!("{name}: {reasons}"),
                2 => format!("{name} (and 1 other pod): {reasons}"),
                count => format!("{name} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        lines.sort();
        warnings.extend(lines);
        warnings
    }
}

/// The uid of the pod's controller (`metav1.GetControllerOfNoCopy`).
fn controller(pod: &Object) -> Option<&str> {
    let owners = pod.items(&["metadata", "ownerReferences"]).iter();
    let mut owners = owners.filter(|owner| owner.get("controller").is_some_and(|value| value == true));
    owners.next().map(|owner| owner.get("uid").and_then(serde_json::Value::as_str).unwrap_or_default())
}
