//! Initializers: keeps new objects hidden until the initializers of InitializerConfigurations have acted.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.13. The embedded API server hides the objects, and lets a create wait.

use crate::admission::{
    Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Removed, Resources, Spec,
};
use crate::authz;
use crate::cluster::{Cluster, Need, Projection, RemovedKind};
use crate::initializers;
use crate::kind::GroupVersionResource;
use crate::manifests::RemovedObjects;
use crate::object::Object;
use crate::removed::{self, Api};
use crate::status::{Cause, Details, Status, invalid};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: initializers::PLUGIN,
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::All,
    needs: &[InitializerConfiguration::NEED],
    configuration: Some("InitializersConfiguration"),
    removed: Some(Removed { since: "1.7", until: "1.13", successor: "MutatingAdmissionWebhook" }),
    front_end: FrontEndSupport::Refused("it works with the embedded API server only"),
    about: "Keeps new objects hidden until the initializers of InitializerConfigurations have acted.",
    build: |environment| {
        let configurations = RemovedObjects::only(environment, SPEC.name, "InitializersConfiguration")?;
        Ok(Box::new(Initializers { cluster: environment.cluster.clone(), configurations }))
    },
};

/// The annotation of a mirror pod (`v1.MirrorPodAnnotationKey`).
const MIRROR: &str = "kubernetes.io/config.mirror";

struct Initializers {
    cluster: Arc<Cluster>,
    configurations: RemovedObjects<InitializerConfiguration>,
}

/// The state for the second pass: the first pass has set or removed the initializers.
struct Decided;

/// An InitializerConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct InitializerConfiguration {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    initializers: Option<Vec<Initializer>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

/// An initializer, and the resources whose new objects it initializes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Initializer {
    name: String,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    api_groups: Option<Vec<String>>,
    #[serde(default)]
    api_versions: Option<Vec<String>>,
    #[serde(default)]
    resources: Option<Vec<String>>,
}

impl Projection for InitializerConfiguration {
    const NEED: Need = Need::removed::<Self>("InitializerConfigurations");
    const FIELDS: &'static [&'static str] = &["metadata.name", "initializers"];
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (object.metadata.name.clone(), object)
    }
}

impl RemovedKind for InitializerConfiguration {
    const API: &'static Api = &removed::INITIALIZER_CONFIGURATIONS;
}

#[async_trait]
impl Plugin for Initializers {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if !attributes.subresource.is_empty() {
            return Ok(());
        }
        match attributes.operation {
            Operation::Create => self.admit_create(attributes).await,
            Operation::Update => admit_update(attributes).await,
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }
}

impl Initializers {
    async fn admit_create(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(object) = &attributes.object else { return Ok(()) };
        if let Some(Decided) = attributes.reinvocation.take(initializers::PLUGIN) {
            return Ok(());
        }
        if let Some(own) = initializers::of(object) {
            // An administrator may choose the initializers, or none.
            let is_empty = initializers::is_empty(own);
            may_initialize(attributes, "", "create with initializers denied").await?;
            if is_empty {
                remove(attributes);
                attributes.reinvocation.leave(initializers::PLUGIN, Decided);
            }
            return Ok(());
        }
        let configurations = self.configurations(attributes).await?;
        // The API server does not store a review.
        if is_review(&attributes.resource) || is_mirror_pod(&attributes.resource, object) {
            return Ok(());
        }
        let all = configurations.iter().flat_map(|configuration| configuration.initializers.iter().flatten());
        let wanted = all.filter(|initializer| initializer.matches(&attributes.resource));
        let pending: Vec<Value> = wanted.map(|initializer| json!({"name": initializer.name})).collect();
        if pending.is_empty() {
            return Ok(());
        }
        if let Some(object) = &mut attributes.object {
            initializers::put(object, Some(json!({ "pending": pending })));
        }
        attributes.reinvocation.leave(initializers::PLUGIN, Decided);
        Ok(())
    }

    /// Returns all configurations, sorted by name.
    async fn configurations(&self, attributes: &Attributes) -> Result<Arc<Vec<Arc<InitializerConfiguration>>>, Denial> {
        if !self.cluster.wait_synced().await {
            let message = "Waiting for initialization configuration to load: configuration is not ready";
            let cause = "The server is waiting for the initializer configuration to be loaded.";
            return Err(loading(attributes, message.to_owned(), "InitializerConfigurationPending", cause));
        }
        self.cluster.check_decodable(&[InitializerConfiguration::NEED], "").map_err(|why| {
            let message = format!("Unable to refresh the initializer configuration: {}", why.message);
            let cause = "An error has occurred while refreshing the initializer configuration, no resources can be created until a \
                refresh succeeds.";
            loading(attributes, message, "InitializerConfigurationFailure", cause)
        })?;
        Ok(self.configurations.all())
    }
}

async fn admit_update(attributes: &mut Attributes) -> Result<(), Denial> {
    let (Some(object), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
    let sent = initializers::of(object);
    // A manifest with an empty list stays applicable after the initialization.
    let is_done = sent.is_some_and(initializers::is_empty);
    let (new, old) = (sent.filter(|_| !is_done), initializers::of(old));
    if new.is_some() || old.is_some() {
        let causes = initializers::invalid_change(new, old);
        if let Some(refusal) = invalid::status(&attributes.kind, &attributes.name, causes) {
            return Err(refusal.into());
        }
        may_initialize(attributes, &attributes.name, "update to uninitialized resource denied").await?;
    }
    if is_done {
        remove(attributes);
    }
    Ok(())
}

fn remove(attributes: &mut Attributes) {
    if let Some(object) = &mut attributes.object {
        initializers::take(object);
    }
}

/// Checks that the caller has the verb `initialize` (`initializer.canInitialize`). kube-apiserver takes `name` from the URL, so a create
/// has none.
async fn may_initialize(attributes: &Attributes, name: &str, message: &str) -> Result<(), Denial> {
    let GroupVersionResource { group, version, resource } = &attributes.resource;
    // A namespace is not in a namespace.
    let namespace = if attributes.writes_namespace() { String::new() } else { attributes.namespace.clone() };
    let question = authz::AccessAttributes {
        is_resource_request: true,
        verb: "initialize".to_owned(),
        namespace,
        api_group: group.clone(),
        api_version: version.clone(),
        resource: resource.clone(),
        name: name.to_owned(),
        ..authz::AccessAttributes::default()
    };
    match attributes.context.authorizer.check(&question).await {
        Ok(decision) if decision.allowed => Ok(()),
        Ok(decision) => {
            Err(Status::forbidden(group, resource, name, &format!("{message}: {}", decision.reason)).into())
        }
        Err(error) => Err(Denial::Plain(error.to_string())),
    }
}

/// `NewServerTimeout` with another reason and message (`initializer.readConfig`).
fn loading(attributes: &Attributes, message: String, reason: &str, cause: &str) -> Denial {
    let GroupVersionResource { group, resource, .. } = &attributes.resource;
    let details = Details {
        name: "create".to_owned(),
        group: group.clone(),
        kind: resource.clone(),
        causes: vec![Cause { reason: reason.to_owned(), message: cause.to_owned(), field: String::new() }],
        retry_after_seconds: 1,
        ..Details::default()
    };
    Status::failure(500, "LoadingConfiguration", message).with_details(details).into()
}

fn is_review(resource: &GroupVersionResource) -> bool {
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
        || (&*resource.group, &*resource.resource) == ("", "bindings")
}

/// A kubelet has initialized a mirror pod before its API object exists.
fn is_mirror_pod(resource: &GroupVersionResource, object: &Object) -> bool {
    (&*resource.group, &*resource.resource) == ("", "pods")
        && object.annotations().is_some_and(|annotations| annotations.contains_key(MIRROR))
}

impl Initializer {
    /// Whether the initializer acts on new objects of the resource: every rule must match, and there must be one (`matchRule`).
    fn matches(&self, resource: &GroupVersionResource) -> bool {
        let mut rules = self.rules.iter().flatten().peekable();
        rules.peek().is_some() && rules.all(|rule| rule.matches(resource))
    }
}

impl Rule {
    /// Whether the rule matches a resource. Only the first entry of a list may be a wildcard.
    fn matches(&self, resource: &GroupVersionResource) -> bool {
        let has = |list: &Option<Vec<String>>, wildcards: &[&str], wanted: &str| {
            let list = list.as_deref().unwrap_or_default();
            list.first().is_some_and(|first| wildcards.contains(&first.as_str()))
                || list.iter().any(|entry| entry == wanted)
        };
        has(&self.api_groups, &["*"], &resource.group)
            && has(&self.api_versions, &["*"], &resource.version)
            && has(&self.resources, &["*", "*/*"], &resource.resource)
    }
}

#[cfg(test)]
mod tests;
