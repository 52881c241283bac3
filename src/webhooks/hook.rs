//! Webhook configurations, compiled once per change: prepared matchers, and an index by resource and operation.

use super::calls::Calls;
use super::machinery::Registration;
use crate::admission::Attributes;
use crate::admission::metrics::{MatchConditions, Metrics};
use crate::admission::shadow::{self, ShadowNames};
use crate::backend::{Client, Clients, Endpoint, InvalidAddress, SetupError};
use crate::cel::Release;
use crate::cluster::Cluster;
use crate::expressions::{Conditions, Verdict};
use crate::logging::cut;
use crate::look::listed;
use crate::matching::{Candidates, Criteria, Index, View, is_exempt};
use crate::object::patch::admission;
use crate::status::Status;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a hook without `timeoutSeconds`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The port of a service without `port`.
const DEFAULT_SERVICE_PORT: i32 = 443;

/// An AdmissionReview version that this proxy can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the `apiVersion` of such a review.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The `sideEffects` of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// No value: an error in a dry run.
    Unset,
    /// `None` or `NoneOnDryRun`: no side effects in a dry run.
    None,
    /// Any other value: a dry run cannot be sent.
    Some,
}

/// A compiled webhook, ready to be matched and called.
#[derive(Debug)]
pub(super) struct Hook {
    /// `<configuration>/<hook>/<n-th of that name>`, with the prefix `manifest/` if the configuration is from a file.
    pub(crate) uid: String,
    /// Whether the hook is in shadow mode: it is called, but decides nothing.
    pub(crate) is_shadow: bool,
    /// The name of the hook's configuration.
    pub(crate) configuration: String,
    /// The hook's name.
    pub(crate) name: String,
    /// The names of configuration and hook, as audit annotations have them.
    pub(crate) audit_text: String,
    /// Whether failurePolicy is `Ignore`.
    pub(crate) ignores_failure: bool,
    /// The longest time that a call may take.
    pub(crate) timeout: Duration,
    /// The hook's side effects.
    pub(crate) side_effects: SideEffects,
    /// The first version in `admissionReviewVersions` that this proxy can send.
    pub(crate) review_version: Option<ReviewVersion>,
    /// The rules and selectors of the hook.
    pub(crate) criteria: Criteria,
    /// The hook's matchConditions.
    pub(crate) conditions: Conditions,
    /// Whether reinvocationPolicy is `IfNeeded`: the hook is called again after a later change.
    pub(crate) reinvocable: bool,
    /// The client for the hook's endpoint; or the reason why the hook cannot be called.
    pub(crate) client: Result<Arc<Client>, Uncallable>,
    /// The last calls.
    pub(super) calls: Arc<Calls>,
}

/// The reason why a hook cannot be called.
#[derive(Debug, thiserror::Error)]
pub(super) enum Uncallable {
    /// The hook of this name has neither a Service nor a URL.
    #[error("failed calling webhook \"{0}\": webhook configuration must have either service or URL")]
    NoAddress(String),
    /// The hook's URL is invalid.
    #[error("failed calling webhook \"{name}\": Unparsable URL: {why}")]
    Url {
        /// The name of the hook.
        name: String,
        /// The error in the URL.
        why: InvalidAddress,
    },
    /// There is no client for the address.
    #[error(transparent)]
    Client(#[from] SetupError),
}

/// The fields that both kinds of webhook have.
pub(crate) struct Fields<'a> {
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
    fn look(&self) -> Value {
        let (endpoint, breaker, fault) = match &self.client {
            Ok(client) => (Some(client.address()), client.breaker_state(), None),
            Err(why) => (None, None, Some(cut(&why.to_string()))),
        };
        let mut shown = json!({
            "configuration": self.configuration,
            "name": self.name,
            "endpoint": endpoint,
            "fault": fault,
            "breaker": breaker,
            "failurePolicy": if self.ignores_failure { "Ignore" } else { "Fail" },
            "timeoutSeconds": self.timeout.as_secs(),
            "shadow": self.is_shadow,
        });
        if let (Value::Object(shown), Value::Object(calls)) = (&mut shown, self.calls.look()) {
            shown.extend(calls);
        }
        shown
    }

    fn new(
        uid: String,
        configuration: &str,
        fields: &Fields<'_>,
        (clients, release): (&Clients, Release),
        is_static: bool,
    ) -> Self {
        let of_source = |endpoint: Endpoint| if is_static { endpoint.of_operator() } else { endpoint };
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
            conditions: Conditions::of_webhook(fields.match_conditions, fields.failure_policy, release),
            reinvocable: fields.reinvocation_policy == Some("IfNeeded"),
            client: endpoint(fields.name, fields.client_config)
                .and_then(|endpoint| Ok(clients.client(of_source(endpoint))?)),
            calls: Arc::default(),
        }
    }
}

/// Returns the hook's endpoint (`ClientManager.hookClientConfig`).
fn endpoint(name: &str, config: &WebhookClientConfig) -> Result<Endpoint, Uncallable> {
    let ca = config.ca_bundle.as_ref().map(|ByteString(ca)| ca.clone()).unwrap_or_default();
    if let Some(service) = &config.service {
        let port = service.port.filter(|port| *port != 0).unwrap_or(DEFAULT_SERVICE_PORT);
        let path = service.path.as_deref().unwrap_or_default();
        return Ok(Endpoint::service(&service.namespace, &service.name, port, path, ca));
    }
    match config.url.as_deref() {
        None | Some("") => Err(Uncallable::NoAddress(name.to_owned())),
        Some(url) => Endpoint::url(url, ca).map_err(|why| Uncallable::Url { name: name.to_owned(), why }),
    }
}

/// All hooks of one kind at one time, in the order of their calls.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    all: Vec<Hook>,
    /// The number of hooks from files; they come first.
    from_files: usize,
    index: Index,
}

impl Hooks {
    /// Compiles configurations from files and from the API; those from files come first (`compositeWebhookSource`). Their matchConditions
    /// follow the rules of a release.
    pub(super) fn compile<C: Registration>(
        [manifests, stored]: [&[Arc<C>]; 2],
        clients: &Clients,
        release: Release,
    ) -> Self {
        let (mut all, mut from_files) = (Vec::new(), 0);
        for (of, is_static) in [(manifests, true), (stored, false)] {
            let named = of.iter().map(|of| (of.metadata().name.as_deref().unwrap_or_default(), of));
            let mut sorted: Vec<_> = named.collect();
            sorted.sort_by_key(|(name, _)| *name);
            let prefix = if is_static { "manifest/" } else { "" };
            for (configuration, of) in sorted {
                let (shadows, mut seen) = (shadow::of_hooks(of.metadata()), HashMap::new());
                for fields in of.webhooks().iter().map(C::fields) {
                    let nth: &mut usize = seen.entry(fields.name).or_default();
                    let uid = format!("{prefix}{configuration}/{}/{nth}", fields.name);
                    *nth += 1;
                    let is_shadow = shadow::is_annotated(fields.name, shadows);
                    all.push(Hook {
                        is_shadow,
                        ..Hook::new(uid, configuration, &fields, (clients, release), is_static)
                    });
                }
            }
            if is_static {
                from_files = all.len();
            }
        }
        let index = Index::new(all.iter().map(|hook: &Hook| Some(&hook.criteria)));
        Self { all, from_files, index }
    }

    /// Keeps the calls of hooks that were there before.
    #[must_use]
    pub(super) fn with_calls_of(mut self, before: &Self) -> Self {
        let calls: HashMap<&str, &Arc<Calls>> = before.all.iter().map(|hook| (&*hook.uid, &hook.calls)).collect();
        for hook in &mut self.all {
            if let Some(calls) = calls.get(&*hook.uid) {
                hook.calls = Arc::clone(calls);
            }
        }
        self
    }

    /// Marks the named hooks as shadow hooks, and annotated hooks where annotations are obeyed. Counts the annotated hooks of this type.
    #[must_use]
    pub(super) fn with_shadows(mut self, shadows: &ShadowNames, step: &'static str, metrics: &shadow::Metrics) -> Self {
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

    /// The hooks in the order of their calls.
    pub(super) fn look(&self) -> Value {
        json!({"webhooks": listed(self.all.iter().map(Hook::look))})
    }

    /// Returns the hook at this position.
    pub(super) fn at(&self, position: usize) -> Option<&Hook> {
        self.all.get(position)
    }

    /// Returns the hooks that may match the request, whatever its object contains. A request on admission configuration matches only
    /// hooks from files, so that a hook from the API cannot block its own removal (`Webhook.Dispatch`).
    pub(super) fn candidates(&self, attributes: &Attributes, cluster: &Cluster) -> Candidates<'_, Hook> {
        let candidates = self.index.candidates(&self.all, |hook| Some(&hook.criteria), attributes, cluster);
        if is_exempt(attributes) { candidates.among_first(self.from_files) } else { candidates }
    }
}

/// Whether the request meets the hook's matchConditions. `step` is the step's label in metrics.
///
/// # Errors
/// If a condition cannot be evaluated and failurePolicy is `Fail`.
pub(super) async fn meets_conditions(
    step: &'static str,
    hook: &Hook,
    attributes: &Attributes,
    view: View<'_>,
    metrics: &Metrics,
) -> Result<bool, Status> {
    let Attributes { operation, resource, name, .. } = attributes;
    let labels = MatchConditions { name: &hook.name, kind: "webhook", step, operation: *operation };
    match hook.conditions.ask(attributes, view, &labels, metrics).await {
        Verdict::Matches => Ok(true),
        Verdict::Excluded => {
            metrics.conditions().observe_exclusion(&labels);
            Ok(false)
        }
        Verdict::Failed(why) => Err(Status::forbidden(&resource.group, &resource.resource, name, &why)),
    }
}
