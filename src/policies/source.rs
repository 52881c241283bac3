//! The policies of one plugin with their bindings: compiled when they change, usually by a task of their own, and swapped as one value.
//! Policies from files come first.

use super::Audience;
use super::binding::{Binding, MUTATING_BINDINGS, VALIDATING_BINDINGS};
use super::files::Files;
use super::policy::{ParameterKind, Policy, Rules, UnusableKind};
use crate::admission::Attributes;
use crate::admission::shadow::{self, ShadowNames};
use crate::cel::{Release, work};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Need, Parameters, Projection, Scope};
use crate::derived::Derived;
use crate::expressions::expression::Expression;
use crate::logging::cut;
use crate::look::listed;
use crate::manifests;
use crate::matching::{Candidates, Index};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// The delay from a change to the compilation, since changes come in groups.
const INTERVAL: Duration = Duration::from_millis(20);

/// A policy with its bindings (`generic.PolicyHook`).
#[derive(Debug)]
pub(super) struct PolicyHook<R, A> {
    pub(crate) policy: Arc<Policy<R>>,
    /// The bindings, by name.
    bindings: Box<[Arc<Binding<A>>]>,
    /// The bindings for which the policy is in shadow mode.
    shadows: Box<[Arc<Binding<A>>]>,
    /// The objects of the parameters' kind; an error if they cannot be followed.
    pub(crate) parameters: Option<Result<Arc<Parameters>, UnusableKind>>,
    /// Whether the policy or one of its bindings is in shadow mode.
    is_shadow: bool,
}

impl<R, A> PolicyHook<R, A> {
    /// Returns the bindings, each with whether it is in shadow mode; bindings in shadow mode come last.
    pub(super) fn bound(&self) -> impl Iterator<Item = (&Binding<A>, bool)> {
        let bindings = self.bindings.iter().map(|binding| (&**binding, false));
        bindings.chain(self.shadows.iter().map(|binding| (&**binding, true)))
    }

    /// The reason why the policy cannot be evaluated.
    fn fault(&self) -> Option<String>
    where
        R: Rules,
    {
        let compile = self.policy.expressions().find_map(Expression::compile_error).map(str::to_owned);
        let unknown = || match self.parameters.as_ref()? {
            Err(why) => Some(why.to_string()),
            Ok(parameters) if parameters.is_unknown() => {
                Some(UnusableKind::Unknown(parameters.kind().clone()).to_string())
            }
            Ok(_) => None,
        };
        compile.or_else(unknown)
    }

    /// Whether the policy is in shadow mode for all its bindings.
    pub(super) fn is_shadow(&self) -> bool {
        self.is_shadow && self.bindings.is_empty()
    }
}

/// A compiled policy with its source.
type Made<R> = (Arc<<R as Rules>::Source>, Arc<Policy<R>>);

/// The policies from files, by name, then those of the API that have bindings, by name (`compositePolicySource`).
#[derive(Debug)]
pub(super) struct Policies<R: Rules, A> {
    files: Arc<Files<R, A>>,
    hooks: Vec<PolicyHook<R, A>>,
    index: Index,
    /// Every compiled policy of the API with its source, so that only changed policies are compiled again.
    compiled: Vec<Made<R>>,
}

impl<R: Rules, A> Default for Policies<R, A> {
    fn default() -> Self {
        Self { files: Arc::default(), hooks: Vec::new(), index: Index::default(), compiled: Vec::new() }
    }
}

impl<R: Rules, A> Policies<R, A> {
    /// Returns the policies that may match the request, whatever its object contains.
    pub(super) fn candidates(
        &self,
        audience: Audience,
        of: &Attributes,
        cluster: &Cluster,
    ) -> Candidates<'_, PolicyHook<R, A>> {
        let candidates = self.index.candidates(&self.hooks, |hook| hook.policy.criteria.as_ref(), of, cluster);
        match audience {
            Audience::All => candidates,
            Audience::Files => candidates.among_first(self.files.policies.len()),
        }
    }

    /// The policies with their bindings.
    pub(super) fn look(&self) -> Value {
        let policies = self.hooks.iter().map(|hook| {
            let bindings =
                hook.bound().map(|(binding, is_shadow)| json!({"name": &*binding.name, "shadow": is_shadow}));
            json!({
                "name": &*hook.policy.name,
                "failurePolicy": if hook.policy.ignores_failure { "Ignore" } else { "Fail" },
                "fault": hook.fault().map(|fault| cut(&fault)),
                "shadow": hook.is_shadow(),
                "bindings": listed(bindings),
            })
        });
        json!({"policies": listed(policies)})
    }

    /// Returns every invalid policy with its error.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&str, String)> {
        self.hooks.iter().filter_map(|hook| Some((&*hook.policy.name, hook.fault()?)))
    }
}

/// The sources of the compiled value: policies from files, policies of the API, and bindings of the API.
type Sources<R, A> = (Arc<Files<R, A>>, Arc<Vec<Arc<<R as Rules>::Source>>>, Arc<Vec<Arc<Binding<A>>>>);

/// The present policies of one plugin.
pub(super) struct Source<R: Rules, A: 'static> {
    inner: Arc<Inner<R, A>>,
    // The task ends when the value is dropped.
    _compiling: Option<AbortOnDropHandle<()>>,
}

/// The policies in shadow mode, and the metrics that count them.
pub(super) struct Shadowing {
    /// The policies that the command line names.
    pub(crate) named: ShadowNames,
    /// The plugin's type, as metrics label it.
    pub(crate) step: &'static str,
    pub(crate) metrics: shadow::Metrics,
}

struct Inner<R: Rules, A: 'static> {
    /// The release whose rules expressions follow.
    release: Release,
    cluster: Arc<Cluster>,
    discovery: Arc<Discovery>,
    files: manifests::Source<Files<R, A>>,
    policies: Derived<Sources<R, A>, Policies<R, A>>,
    shadows: Shadowing,
    /// Whether the task has compiled the policies after the caches were filled, and still compiles every change.
    is_kept: AtomicBool,
}

impl<R: Rules, A: 'static> Source<R, A>
where
    Binding<A>: Projection,
{
    /// Creates the source for these files and this cluster; inside a tokio runtime, a task compiles the policies before a request needs
    /// them.
    pub(super) fn new(
        release: Release,
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        files: manifests::Source<Files<R, A>>,
        shadows: Shadowing,
    ) -> Self {
        let (policies, is_kept) = (Derived::default(), AtomicBool::new(false));
        let inner = Arc::new(Inner { release, cluster, discovery, files, policies, shadows, is_kept });
        let compiling = Handle::try_current().ok().map(|runtime| {
            let inner = inner.clone();
            AbortOnDropHandle::new(runtime.spawn(async move { inner.keep_compiled().await }))
        });
        Self { inner, _compiling: compiling }
    }

    /// Returns the policies that may match the request, if there are any.
    pub(super) fn audience(&self, attributes: &Attributes) -> Option<Audience> {
        Audience::of(attributes).filter(|audience| *audience == Audience::All || self.inner.files.is_followed())
    }

    /// Returns the present policies. Those of the API may be slightly old: no request waits for a compilation.
    pub(super) fn policies(&self) -> Arc<Policies<R, A>> {
        if self.inner.is_kept.load(Ordering::Acquire) {
            let last = self.inner.policies.last();
            if Arc::ptr_eq(&last.files, &self.inner.files.load()) {
                return last;
            }
        }
        self.inner.policies()
    }
}

impl<R: Rules, A: 'static> Inner<R, A>
where
    Binding<A>: Projection,
{
    fn policies(&self) -> Arc<Policies<R, A>> {
        let present = || (self.files.load(), self.cluster.all::<R::Source>(), self.cluster.all::<Binding<A>>());
        let same = |a: &Sources<R, A>, b: &Sources<R, A>| {
            Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1) && Arc::ptr_eq(&a.2, &b.2)
        };
        self.policies.get(present, same, |sources, before| self.compile(sources, before))
    }

    async fn keep_compiled(self: Arc<Self>) {
        let mut changes = self.cluster.changes(&[R::Source::NEED, Binding::<A>::NEED]);
        while !self.cluster.wait_synced().await {}
        loop {
            let inner = self.clone();
            // A compilation may take long.
            if tokio::task::spawn_blocking(move || drop(inner.policies())).await.is_err() {
                break;
            }
            self.is_kept.store(true, Ordering::Release);
            if !changes.next().await {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        // Either no further changes come, or the task has failed: requests compile for themselves again.
        self.is_kept.store(false, Ordering::Release);
    }

    fn compile(&self, (files, policies, bindings): &Sources<R, A>, before: &Policies<R, A>) -> Policies<R, A> {
        let mut by_policy: HashMap<&str, Vec<Arc<Binding<A>>>> = HashMap::new();
        for binding in bindings.iter() {
            by_policy.entry(&binding.policy).or_default().push(binding.clone());
        }
        let before: HashMap<_, _> = before.compiled.iter().map(|(of, policy)| (Arc::as_ptr(of), policy)).collect();
        let bound = files.policies.iter().map(|(policy, bindings)| self.hook(policy.clone(), bindings.clone()));
        let mut hooks: Vec<PolicyHook<R, A>> = bound.collect();
        let mut compiled = Vec::with_capacity(policies.len());
        for source in policies.iter() {
            let unchanged = before.get(&Arc::as_ptr(source)).map(|policy| Arc::clone(policy));
            let policy = unchanged.unwrap_or_else(|| {
                let compile = || work::bounded(|| Policy::<R>::compile(source, self.release));
                self.cluster.made_once(source, compile)
            });
            compiled.push((source.clone(), policy.clone()));
            let bindings = by_policy.remove(&*policy.name);
            hooks.extend(bindings.map(|bindings| self.hook(policy, bindings)));
        }
        self.count_shadows(&hooks);
        let index = Index::new(hooks.iter().map(|hook| hook.policy.criteria.as_ref()));
        Policies { files: files.clone(), hooks, index, compiled }
    }

    fn hook(&self, policy: Arc<Policy<R>>, bindings: Vec<Arc<Binding<A>>>) -> PolicyHook<R, A> {
        let references = || bindings.iter().filter_map(|binding| binding.parameters.as_deref());
        let scope = Scope::of(references().map(|reference| reference.namespace.as_deref()));
        let parameters = policy.parameter_kind.as_ref().map(|kind| self.parameters(kind, &scope));
        let (named, obeyed) = (&self.shadows.named, self.shadows.named.obey_annotations());
        let is_whole = (policy.is_shadow && obeyed) || named.contain(&policy.name, "");
        let is_one = |binding: &Arc<Binding<A>>| {
            is_whole || (binding.is_shadow && obeyed) || named.contain(&policy.name, &binding.name)
        };
        let (shadows, bindings): (Vec<_>, Vec<_>) = bindings.into_iter().partition(is_one);
        let is_shadow = is_whole || !shadows.is_empty();
        PolicyHook { policy, bindings: bindings.into(), shadows: shadows.into(), parameters, is_shadow }
    }

    /// Counts the policies, and the bindings of other policies, that annotations put in shadow mode.
    fn count_shadows(&self, hooks: &[PolicyHook<R, A>]) {
        let Shadowing { named, step, metrics } = &self.shadows;
        let mut annotated = BTreeSet::new();
        for hook in hooks.iter().filter(|_| named.obey_annotations()) {
            if hook.policy.is_shadow {
                annotated.insert(hook.policy.name.to_string());
                continue;
            }
            let bindings = hook.shadows.iter().filter(|binding| binding.is_shadow);
            annotated.extend(bindings.map(|binding| format!("{}/{}", hook.policy.name, binding.name)));
        }
        metrics.annotated("policy", step, annotated);
    }

    fn parameters(&self, kind: &ParameterKind, scope: &Scope) -> Result<Arc<Parameters>, UnusableKind> {
        let parsed = kind.parsed()?;
        let followed = self.cluster.parameters(&parsed, scope, &self.discovery);
        followed.ok_or_else(|| UnusableKind::TooMany(kind.clone()))
    }
}

/// The cluster state that validating policies need.
pub(crate) const VALIDATING_NEEDS: &[Need] = &[Need::NAMESPACES, Need::VALIDATING_POLICIES, VALIDATING_BINDINGS];
/// The cluster state that mutating policies need.
pub(crate) const MUTATING_NEEDS: &[Need] = &[Need::NAMESPACES, Need::MUTATING_POLICIES, MUTATING_BINDINGS];
