//! The parts that mutating and validating policies share (`generic.Plugin`): the policies of one kind, and their match with requests.

use super::Audience;
use super::binding::Binding;
use super::files::{Files, follow};
use super::metrics::Checks;
use super::misconfigured::Misconfigured;
use super::parameters::check_kind;
use super::policy::Rules;
use super::source::{Policies, PolicyHook, Shadowing, Source};
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, BuildError, Denial, PluginEnvironment};
use crate::cluster::{Cluster, Projection};
use crate::config::FeatureGates;
use crate::conversion::Converter;
use crate::manifests;
use crate::matching::{Content, InvocationKind, Matcher};
use crate::sharer::Sharer;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The policies of one kind, with bindings of the kind `A`. The phases are in `mutating/` and `validating/`.
pub(crate) struct AdmissionPolicies<R: Rules, A: 'static> {
    pub(super) cluster: Arc<Cluster>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) checks: Checks,
    pub(super) converter: Converter,
    pub(super) source: Source<R, A>,
    /// The gates, and the release that is emulated.
    pub(super) gates: FeatureGates,
}

impl<R, A> AdmissionPolicies<R, A>
where
    R: Rules<Source: manifests::policies::Policy<Binding = A>>,
    A: Clone,
    Binding<A>: Projection<Object = A>,
{
    /// Follows the folder of static manifests that the plugin's configuration names, if it names one.
    ///
    /// # Errors
    /// If the files in the folder cannot be used.
    pub(crate) fn files(
        folder: Option<PathBuf>,
        environment: &PluginEnvironment<'_>,
    ) -> Result<manifests::Source<Files<R, A>>, BuildError> {
        follow(folder, R::KIND, environment)
    }

    /// Creates the plugin from the cluster's state and the policies from files.
    ///
    /// # Errors
    /// If the plugin's metrics are registered already.
    pub(crate) fn new(
        environment: &PluginEnvironment<'_>,
        files: manifests::Source<Files<R, A>>,
    ) -> prometheus::Result<Self> {
        let PluginEnvironment { cluster, discovery, metrics, limits, policies, feature_gates, .. } = environment;
        let shadows = Shadowing { named: policies.shadows.clone(), step: R::STEP, metrics: metrics.shadows().clone() };
        Ok(Self {
            checks: R::checks(metrics.registry())?,
            converter: Converter::new(cluster.clone(), discovery.clone(), limits, metrics.conversions()),
            source: Source::new(feature_gates.expressions(), cluster.clone(), discovery.clone(), files, shadows),
            cluster: cluster.clone(),
            metrics: metrics.clone(),
            gates: environment.feature_gates.clone(),
        })
    }

    /// Returns the invalid policies, each with its error.
    pub(crate) fn problems(&self) -> Vec<String> {
        let policies = self.source.policies();
        policies.problems().map(|(name, why)| format!("{} {name}: {why}", R::KIND)).collect()
    }

    /// What people see who look into the process.
    pub(crate) fn look(&self) -> Value {
        self.source.policies().look()
    }

    /// Whether a policy may match the request; matchConditions are not evaluated.
    pub(crate) fn may_match(&self, attributes: &Attributes, content: Content) -> bool {
        let Some(audience) = self.source.audience(attributes) else { return false };
        let (policies, matcher) = (self.source.policies(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = policies.candidates(audience, attributes, &self.cluster);
        if content == Content::Present {
            candidates.narrow(attributes, attributes.object.as_ref());
        }
        let may_be = |(_, hook): (usize, &PolicyHook<R, A>)| {
            hook.policy.criteria.as_ref().is_none_or(|criteria| matcher.may_match(criteria, attributes, content))
        };
        (audience == Audience::All && !self.cluster.is_synced()) || candidates.any(may_be)
    }

    /// Returns the policies that may match the request, once the policies are known; `None` if no policy may match it.
    ///
    /// # Errors
    /// If the policies of the cluster are not known.
    pub(super) async fn ready_policies(
        &self,
        attributes: &Attributes,
    ) -> Result<Option<(Audience, Arc<Policies<R, A>>)>, Denial> {
        let Some(audience) = self.source.audience(attributes) else { return Ok(None) };
        // A request on policies or bindings matches only policies from files, so it does not wait for the cluster's policies.
        if audience == Audience::All && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if audience == Audience::All {
            self.cluster.check_decodable(&[R::Source::NEED, Binding::<A>::NEED], "")?;
        }
        Ok(Some((audience, self.source.policies())))
    }

    /// Returns the sharer whose parameters are read from the API server if no cache has them, as since 1.37 (`CollectParams`).
    pub(super) fn reader(&self, attributes: &Attributes) -> Option<Sharer> {
        self.gates.since(37).then(|| attributes.context.sharer())
    }

    /// Returns the kind and resource in which the policy gets the request; `None` if the policy does not match.
    ///
    /// # Errors
    /// If the policy is misconfigured.
    pub(super) async fn wants(
        hook: &PolicyHook<R, A>,
        attributes: &Attributes,
        matcher: &mut Matcher<'_>,
    ) -> Result<Option<InvocationKind>, Misconfigured> {
        let Some(criteria) = &hook.policy.criteria else {
            return Err(Misconfigured::NoMatchConstraints);
        };
        let wanted = matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
        let Some(wanted) = wanted.map_err(Misconfigured::Unmatchable)? else { return Ok(None) };
        check_kind(hook.parameters.as_ref()).await?;
        Ok(Some(wanted))
    }
}

/// Whether the binding matches the request.
///
/// # Errors
/// If the binding is misconfigured.
pub(super) async fn binding_matches<A>(
    binding: &Binding<A>,
    attributes: &Attributes,
    matcher: &mut Matcher<'_>,
) -> Result<bool, Misconfigured> {
    let Some(criteria) = &binding.criteria else { return Ok(true) };
    let wanted = matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
    wanted.map(|wanted| wanted.is_some()).map_err(Misconfigured::Unmatchable)
}
