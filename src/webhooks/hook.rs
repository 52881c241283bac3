//! Webhook configurations, compiled once per change: matchers prepared, and an index by resource and operation.

use crate::admission::Attributes;
use crate::admission::metrics::{MatchConditions, Metrics};
use crate::admission::shadow::{self, Shadows};
use crate::backend::{Client, Clients, Endpoint};
use crate::cluster::Cluster;
use crate::expressions::{Conditions, Verdict};
use crate::kind::GroupVersionKind;
use crate::matching::{Candidates, Criteria, Index, View, is_exempt};
use crate::object::Object;
use crate::object::patch::admission;
use crate::status::Status;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How long a hook may take if its configuration does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The port of a service if its configuration does not say.
const DEFAULT_SERVICE_PORT: i32 = 443;

/// An AdmissionReview version that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    /// The version as a review writes it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// What a hook says of its side effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffects {
    /// Nothing: an error in a dry run.
    Unset,
    /// None in a dry run.
    None,
    /// Some: a dry run cannot be sent.
    Some,
}

/// One webhook, ready to be matched and called.
#[derive(Debug)]
pub struct Hook {
    /// `<configuration>/<hook>/<n-th of that name>`, and `manifest/` before it where the configuration is from a file.
    pub uid: String,
    /// Whether it is called without deciding anything.
    pub is_shadow: bool,
    /// Name of its configuration.
    pub configuration: String,
    /// Its own name.
    pub name: String,
    /// Both, as audit annotations have them.
    pub audit_text: String,
    /// Whether a failed call is ignored.
    pub ignores_failure: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// What it says of its side effects.
    pub side_effects: SideEffects,
    /// The first version that it accepts and that is known here.
    pub review_version: Option<ReviewVersion>,
    /// Which requests it wants.
    pub criteria: Criteria,
    /// What else must hold for it to be called.
    pub conditions: Conditions,
    /// Whether it is called again when a later change asks for it.
    pub reinvocable: bool,
    /// Where it is; or why it cannot be called.
    pub client: Result<Arc<Client>, String>,
}

/// The fields that both kinds of webhook have.
struct Fields<'a> {
    name: &'a str,
    client_config: &'a WebhookClientConfig,
    failure_policy: Option<&'a str>,
    match_policy: Option<&'a str>,
    namespace_selector: Option<&'a LabelSelector>,
    object_selector: Option<&'a LabelSelector>,
    rules: &'a [RuleWithOperations],
    side_effects: &'a str,
    timeout_seconds: Option<i32>,
    review_versions: &'a [String],
    match_conditions: &'a [MatchCondition],
    reinvocation_policy: Option<&'a str>,
}

impl<'a> From<&'a MutatingWebhook> for Fields<'a> {
    fn from(hook: &'a MutatingWebhook) -> Self {
        Self {
            name: &hook.name,
            client_config: &hook.client_config,
            failure_policy: hook.failure_policy.as_deref(),
            match_policy: hook.match_policy.as_deref(),
            namespace_selector: hook.namespace_selector.as_ref(),
            object_selector: hook.object_selector.as_ref(),
            rules: hook.rules.as_deref().unwrap_or_default(),
            side_effects: &hook.side_effects,
            timeout_seconds: hook.timeout_seconds,
            review_versions: &hook.admission_review_versions,
            match_conditions: hook.match_conditions.as_deref().unwrap_or_default(),
            reinvocation_policy: hook.reinvocation_policy.as_deref(),
        }
    }
}

impl<'a> From<&'a ValidatingWebhook> for Fields<'a> {
    fn from(hook: &'a ValidatingWebhook) -> Self {
        Self {
            name: &hook.name,
            client_config: &hook.client_config,
            failure_policy: hook.failure_policy.as_deref(),
            match_policy: hook.match_policy.as_deref(),
            namespace_selector: hook.namespace_selector.as_ref(),
            object_selector: hook.object_selector.as_ref(),
            rules: hook.rules.as_deref().unwrap_or_default(),
            side_effects: &hook.side_effects,
            timeout_seconds: hook.timeout_seconds,
            review_versions: &hook.admission_review_versions,
            match_conditions: hook.match_conditions.as_deref().unwrap_or_default(),
            reinvocation_policy: None,
        }
    }
}

impl Hook {
    fn new(uid: String, configuration: &str, fields: &Fields<'_>, clients: &Clients) -> Self {
        let known = |version: &String| match &**version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        };
        Self {
            uid,
            is_shadow: false,
            configuration: configuration.to_owned(),
            name: fields.name.to_owned(),
            audit_text: admission::of_hook(configuration, fields.name),
            ignores_failure: fields.failure_policy == Some("Ignore"),
            timeout: fields
                .timeout_seconds
                .map_or(DEFAULT_TIMEOUT, |s| Duration::from_secs(u64::try_from(s).unwrap_or(0))),
            side_effects: match fields.side_effects {
                "" => SideEffects::Unset,
                "None" | "NoneOnDryRun" => SideEffects::None,
                _ => SideEffects::Some,
            },
            review_version: fields.review_versions.iter().find_map(known),
            criteria: Criteria::of_webhook(
                fields.rules,
                fields.match_policy,
                fields.namespace_selector,
                fields.object_selector,
            ),
            conditions: Conditions::of_webhook(fields.match_conditions, fields.failure_policy),
            reinvocable: fields.reinvocation_policy == Some("IfNeeded"),
            client: endpoint(fields.name, fields.client_config).and_then(|endpoint| clients.client(endpoint)),
        }
    }
}

/// Where the hook is (`ClientManager.hookClientConfig`).
fn endpoint(name: &str, config: &WebhookClientConfig) -> Result<Endpoint, String> {
    let ca = config.ca_bundle.as_ref().map(|ByteString(ca)| ca.clone()).unwrap_or_default();
    if let Some(service) = &config.service {
        let port = service.port.filter(|port| *port != 0).unwrap_or(DEFAULT_SERVICE_PORT);
        let path = service.path.as_deref().unwrap_or_default();
        return Ok(Endpoint::service(&service.namespace, &service.name, port, path, ca));
    }
    match config.url.as_deref() {
        None | Some("") => {
            Err(format!("failed calling webhook \"{name}\": webhook configuration must have either service or URL"))
        }
        Some(url) => Endpoint::url(url, ca)
            .map_err(|error| format!("failed calling webhook \"{name}\": Unparsable URL: {error}")),
    }
}

/// All hooks of one kind at one time, in the order in which they are called.
#[derive(Debug, Default)]
pub struct Hooks {
    all: Vec<Hook>,
    /// How many of them, the first, are from files.
    from_files: usize,
    index: Index,
}

impl Hooks {
    /// Compiles MutatingWebhookConfigurations from files and from the API.
    pub fn mutating(
        manifests: &[Arc<MutatingWebhookConfiguration>],
        stored: &[Arc<MutatingWebhookConfiguration>],
        clients: &Clients,
    ) -> Self {
        Self::compile(clients, [manifests, stored], |configuration| {
            (&configuration.metadata, configuration.webhooks.as_deref().unwrap_or_default())
        })
    }

    /// Compiles ValidatingWebhookConfigurations from files and from the API.
    pub fn validating(
        manifests: &[Arc<ValidatingWebhookConfiguration>],
        stored: &[Arc<ValidatingWebhookConfiguration>],
        clients: &Clients,
    ) -> Self {
        Self::compile(clients, [manifests, stored], |configuration| {
            (&configuration.metadata, configuration.webhooks.as_deref().unwrap_or_default())
        })
    }

    /// Those from files come first (`compositeWebhookSource`).
    fn compile<C, H: 'static>(
        clients: &Clients,
        [manifests, stored]: [&[Arc<C>]; 2],
        parts: impl Fn(&C) -> (&ObjectMeta, &[H]),
    ) -> Self
    where
        for<'a> Fields<'a>: From<&'a H>,
    {
        let (mut all, mut from_files) = (Vec::new(), 0);
        for (of, is_static) in [(manifests, true), (stored, false)] {
            let named = of.iter().map(|configuration| parts(configuration));
            let mut sorted: Vec<_> = named
                .map(|(metadata, hooks)| (metadata.name.as_deref().unwrap_or_default(), metadata, hooks))
                .collect();
            sorted.sort_by_key(|(name, ..)| *name);
            let prefix = if is_static { "manifest/" } else { "" };
            for (configuration, metadata, hooks) in sorted {
                let (shadows, mut seen) = (shadow::of_hooks(metadata), HashMap::new());
                for fields in hooks.iter().map(Fields::from) {
                    let nth: &mut usize = seen.entry(fields.name).or_default();
                    let uid = format!("{prefix}{configuration}/{}/{nth}", fields.name);
                    *nth += 1;
                    let is_shadow = shadow::is_annotated(fields.name, shadows);
                    all.push(Hook { is_shadow, ..Hook::new(uid, configuration, &fields, clients) });
                }
            }
            if is_static {
                from_files = all.len();
            }
        }
        let index = Index::new(all.iter().map(|hook: &Hook| Some(&hook.criteria)));
        Self { all, from_files, index }
    }

    /// Hooks that these name, or an annotation where it is obeyed, decide nothing. Hooks of this type that are annotated are counted.
    #[must_use]
    pub fn with_shadows(mut self, shadows: &Shadows, step: &'static str, metrics: &shadow::Metrics) -> Self {
        let mut annotated = BTreeSet::new();
        for hook in &mut self.all {
            hook.is_shadow &= shadows.obey_annotations();
            if hook.is_shadow {
                annotated.insert(format!("{}/{}", hook.configuration, hook.name));
            }
            hook.is_shadow |= shadows.contain(&hook.configuration, &hook.name);
        }
        metrics.annotated("webhook", step, annotated);
        self
    }

    /// The hook at this position.
    pub fn at(&self, position: usize) -> Option<&Hook> {
        self.all.get(position)
    }

    /// The hooks that may want this request, whatever is in its object. What configures admission itself only hooks from files
    /// see, so that nobody locks himself out (`Webhook.Dispatch`).
    pub fn candidates(&self, attributes: &Attributes, cluster: &Cluster) -> Candidates<'_, Hook> {
        let candidates = self.index.candidates(&self.all, |hook| Some(&hook.criteria), attributes, cluster);
        if is_exempt(attributes) { candidates.among_first(self.from_files) } else { candidates }
    }
}

/// Whether a hook's matchConditions let it be called. `step` is what metrics call it.
///
/// # Errors
/// When nobody can tell, and the hook minds.
pub async fn meets_conditions(
    step: &'static str,
    hook: &Hook,
    attributes: &Attributes,
    (kind, object, old_object): (&GroupVersionKind, Option<&Object>, Option<&Object>),
    metrics: &Metrics,
) -> Result<bool, Status> {
    let Attributes { operation, resource, name, .. } = attributes;
    let labels = MatchConditions { name: &hook.name, kind: "webhook", step, operation: *operation };
    match hook.conditions.ask(attributes, View { kind, resource, object, old_object }, &labels, metrics).await {
        Verdict::Matches => Ok(true),
        Verdict::Excluded => {
            metrics.observe_match_condition_exclusion(&labels);
            Ok(false)
        }
        Verdict::Failed(why) => Err(Status::forbidden(&resource.group, &resource.resource, name, &why)),
    }
}
