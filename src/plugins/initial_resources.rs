//! InitialResources: sets resource requests of containers from past usage.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.10. There, flags named the source of the usage (InfluxDB,
//! Google Cloud Monitoring, Hawkular). Here the plugin's configuration names a file or a URL. Without a configuration the plugin
//! sets nothing, as in Kubernetes with the default source.

mod configuration;
mod history;
mod usage;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::object::Object;
use crate::object::quantity::canonical;
use crate::status::Status;
use async_trait::async_trait;
use configuration::Configuration;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;
use usage::{Kind, Question, Source};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "InitialResources",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: Some("config.kube-admission-proxy.dev/v1alpha1 InitialResourcesConfiguration"),
    removed: Some(Removed { since: "1.1", until: "1.10", successor: "the VerticalPodAutoscaler, which is no plugin" }),
    front_end: FrontEndSupport::Full,
    about: "Sets resource requests of containers from past usage.",
    build: |environment| {
        let configuration = Configuration::read(environment.configuration)?;
        let Configuration { percentile, namespace_only, .. } = configuration;
        let source = configuration.source(environment)?;
        if let Source::None = source {
            tracing::warn!("{WITHOUT_SOURCE}");
        }
        Ok(Box::new(InitialResources { source, percentile, namespace_only, now: Timestamp::now }))
    },
};

/// `initialResourcesAnnotation`
const ANNOTATION: &str = "kubernetes.io/initial-resources";
/// The plugin's problem if its configuration names no source.
const WITHOUT_SOURCE: &str = "InitialResources sets nothing: name a source of the usage in the plugin's configuration";
/// The number of samples that end the search (`samplesThreshold`).
const ENOUGH_SAMPLES: i64 = 30;
const WEEK: u8 = 7;
const MONTH: u8 = 30;
/// The time for all questions about one pod. Kubernetes has no bound.
const TIME_FOR_A_POD: Duration = Duration::from_secs(5);
/// The lists of containers, with the word of the annotation.
const LISTS: [([&str; 2], &str); 2] =
    [(["spec", "initContainers"], "init container"), (["spec", "containers"], "container")];

struct InitialResources {
    source: Source,
    percentile: u8,
    /// Whether only the usage in the pod's namespace counts.
    namespace_only: bool,
    now: fn() -> Timestamp,
}

/// The estimates for one pod.
struct Estimates {
    /// The changed lists of containers.
    lists: Vec<([&'static str; 2], Vec<Value>)>,
    /// The texts of the annotation.
    notes: Vec<String>,
}

#[async_trait]
impl Plugin for InitialResources {
    fn has_side_effects(&self, _: &Attributes) -> bool {
        matches!(self.source, Source::Url(_))
    }

    fn problems(&self) -> Vec<String> {
        match self.source {
            Source::None => vec![WITHOUT_SOURCE.to_owned()],
            Source::File(_) | Source::Url(_) => Vec::new(),
        }
    }

    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(pod) = attributes.object.as_ref().filter(|_| !matches!(self.source, Source::None)) else {
            return Ok(());
        };
        let deadline = attributes.context.call_deadline().min(Instant::now() + TIME_FOR_A_POD);
        let Estimates { lists, notes } = self.estimate_pod(pod, &attributes.namespace, deadline).await;
        if notes.is_empty() {
            return Ok(());
        }
        // The annotation of a second pass contains that of the first one.
        let mut all = attributes.reinvocation.take::<Vec<String>>(SPEC.name).unwrap_or_default();
        all.extend(notes);
        let annotation = format!("Initial Resources plugin set: {}", all.join("; "));
        attributes.reinvocation.leave(SPEC.name, all);
        let Some(pod) = &mut attributes.object else { return Ok(()) };
        let are_set = lists.into_iter().all(|(path, list)| pod.set(&path, list.into()));
        match are_set && pod.set(&["metadata", "annotations", ANNOTATION], annotation.into()) {
            true => Ok(()),
            false => {
                Err(Status::bad_request("Resource was marked with kind Pod but was unable to be converted").into())
            }
        }
    }
}

impl InitialResources {
    /// `estimateAndFillResourcesIfNotSet`
    async fn estimate_pod(&self, pod: &Object, namespace: &str, deadline: Instant) -> Estimates {
        let mut estimates = Estimates { lists: Vec::new(), notes: Vec::new() };
        for (path, word) in LISTS {
            let mut containers = pod.items(&path).to_vec();
            let before = estimates.notes.len();
            for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                let set = self.estimate_container(container, namespace, deadline).await;
                if !set.is_empty() {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    estimates.notes.push(format!("{} request for {word} {name}", set.join(", ")));
                }
            }
            if estimates.notes.len() > before {
                estimates.lists.push((path, containers));
            }
        }
        estimates
    }

    /// Sets the requests of a container that has neither a request nor a limit of the kind. Returns the names of the kinds.
    async fn estimate_container(
        &self,
        container: &mut Map<String, Value>,
        namespace: &str,
        deadline: Instant,
    ) -> Vec<&'static str> {
        let image = container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut set = Vec::new();
        for kind in [Kind::Cpu, Kind::Memory] {
            let list =
                |name: &str| container.get("resources").and_then(|resources| resources.get(name)?.get(kind.name()));
            if list("requests").is_some() || list("limits").is_some() {
                continue;
            }
            let Some(quantity) = self.estimate(kind, &image, namespace, deadline).await else { continue };
            if request(container, kind.name(), quantity).is_some() {
                set.push(kind.name());
            }
        }
        set
    }

    /// The estimate of one kind, as a quantity (`getEstimation`). A failure of the source is no estimate.
    async fn estimate(&self, kind: Kind, image: &str, namespace: &str, deadline: Instant) -> Option<String> {
        let bare = usage::without_tag(image);
        let own = Some(namespace);
        let mut searches = vec![(image, own, WEEK), (image, own, MONTH)];
        if self.namespace_only {
            searches.push((bare, own, MONTH));
        } else {
            searches.extend([(image, None, WEEK), (image, None, MONTH), (bare, None, MONTH)]);
        }
        let (last, end) = (searches.len() - 1, (self.now)());
        for (at, (image, namespace, days)) in searches.into_iter().enumerate() {
            let is_exact = at < last;
            let question = Question { kind, image, is_exact, namespace, percentile: self.percentile, days, end };
            let usage = self.source.answer(&question, deadline).await;
            let usage = usage.inspect_err(|why| tracing::debug!(%why, image, "no past usage of a container")).ok()?;
            // The last answer counts even with few samples.
            if usage.samples >= ENOUGH_SAMPLES || (at == last && usage.samples > 0) {
                return canonical(&format!("{}{}", usage.value, kind.unit())).ok();
            }
        }
        None
    }
}

/// Sets a request of a container. `None` if the container's resources are no object.
fn request(container: &mut Map<String, Value>, kind: &str, quantity: String) -> Option<()> {
    let mut fields = container;
    for field in ["resources", "requests"] {
        let child = fields.entry(field).or_insert(Value::Null);
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        fields = child.as_object_mut()?;
    }
    fields.insert(kind.to_owned(), quantity.into());
    Some(())
}

#[cfg(test)]
mod tests;
