//! The policies of one plugin with their bindings: compiled when they change, mostly by a task of their own, and swapped as one.
//! Those from files come first.

use super::Audience;
use super::binding::Binding;
use super::expression::Expression;
use super::files::Files;
use crate::admission::Attributes;
use crate::cel::work;
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Need, Parameters, Projection};
use crate::manifests;
use crate::object::{GroupVersionKind, split_api_version};
use crate::webhooks::criteria::Criteria;
use crate::webhooks::derived::Derived;
use crate::webhooks::index::Index;
use k8s_openapi::api::admissionregistration::v1::ParamKind;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// From a change to the compilation: changes come in groups.
const INTERVAL: Duration = Duration::from_millis(20);

/// `paramKind`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterKind {
    api_version: String,
    kind: String,
}

impl From<&ParamKind> for ParameterKind {
    fn from(kind: &ParamKind) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { api_version: text(&kind.api_version), kind: text(&kind.kind) }
    }
}

impl ParameterKind {
    /// As group, version and kind; none where the version has two slashes.
    pub fn parsed(&self) -> Option<GroupVersionKind> {
        let (group, version) = split_api_version(&self.api_version);
        (!version.contains('/')).then(|| GroupVersionKind::new(group, version, &*self.kind))
    }
}

/// `ParamKind.String`
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "&ParamKind{{APIVersion:{},Kind:{},}}", self.api_version, self.kind)
    }
}

/// A policy that can be asked.
pub trait Compiled: fmt::Debug + Send + Sync + 'static {
    /// What it is compiled from.
    type Source: Projection;

    /// Compiles it. What does not compile is kept as the reason.
    fn compile(source: &Self::Source) -> Self;
    /// Its name.
    fn name(&self) -> &str;
    /// Which requests it is for; none is a mistake in it.
    fn criteria(&self) -> Option<&Criteria>;
    /// The kind of its parameters.
    fn parameter_kind(&self) -> Option<&ParameterKind>;
    /// All its expressions.
    fn expressions(&self) -> impl Iterator<Item = &Expression>;
}

/// A policy with its bindings.
#[derive(Debug)]
pub struct Hook<C, A> {
    /// The policy.
    pub policy: Arc<C>,
    /// Its bindings, by name.
    pub bindings: Vec<Arc<Binding<A>>>,
    /// The objects of its parameters' kind; an error where they cannot be followed.
    pub parameters: Option<Result<Arc<Parameters>, String>>,
    /// Whether it is from a file.
    is_static: bool,
}

/// The policies from files, by name, then those of the API that have bindings, by name (`compositePolicySource`).
#[derive(Debug)]
pub struct Policies<C: Compiled, A> {
    files: Arc<Files<C, A>>,
    hooks: Vec<Hook<C, A>>,
    index: Index,
    /// Every policy of the API with what it was compiled from, to compile again only what changes.
    compiled: Vec<(Arc<C::Source>, Arc<C>)>,
}

impl<C: Compiled, A> Default for Policies<C, A> {
    fn default() -> Self {
        Self { files: Arc::default(), hooks: Vec::new(), index: Index::default(), compiled: Vec::new() }
    }
}

impl<C: Compiled, A> Policies<C, A> {
    /// The policies that may be for such a request.
    pub(super) fn candidates(
        &self,
        audience: Audience,
        of: &Attributes,
    ) -> impl Iterator<Item = &Hook<C, A>> + use<'_, C, A> {
        let positions = self.index.candidates(&of.resource.resource, of.operation);
        let hooks = positions.filter_map(|position| self.hooks.get(position));
        hooks.filter(move |hook| audience == Audience::All || hook.is_static)
    }

    /// Every policy with a mistake in it, and what it is.
    pub fn problems(&self) -> impl Iterator<Item = (&str, String)> {
        self.hooks.iter().filter_map(|hook| {
            let compile = hook.policy.expressions().find_map(Expression::compile_error).map(str::to_owned);
            let unknown = || match hook.parameters.as_ref()? {
                Err(why) => Some(why.clone()),
                Ok(parameters) if parameters.is_unknown() => Some(unknown_kind(parameters.kind())),
                Ok(_) => None,
            };
            Some((hook.policy.name(), compile.or_else(unknown)?))
        })
    }
}

/// `failed to find resource referenced by paramKind` of `ensureParamsForPolicyLocked`.
pub fn unknown_kind(kind: &GroupVersionKind) -> String {
    let api_version = kind.api_version();
    let api_version = if kind.group.is_empty() { format!("/{api_version}") } else { api_version };
    format!("failed to find resource referenced by paramKind: '{api_version}, Kind={}'", kind.kind)
}

/// What the policies are made of: those from files, those of the API, and the bindings of these.
type Sources<C, A> = (Arc<Files<C, A>>, Arc<Vec<Arc<<C as Compiled>::Source>>>, Arc<Vec<Arc<Binding<A>>>>);

/// Knows the policies as they are now.
pub struct Source<C: Compiled, A: 'static> {
    inner: Arc<Inner<C, A>>,
    // Ends with the value.
    _compiling: Option<AbortOnDropHandle<()>>,
}

struct Inner<C: Compiled, A: 'static> {
    cluster: Arc<Cluster>,
    discovery: Arc<Discovery>,
    files: manifests::Source<Files<C, A>>,
    policies: Derived<Sources<C, A>, Policies<C, A>>,
    /// Whether the task has compiled what there was when the caches were filled, and goes on to do so.
    is_kept: AtomicBool,
}

impl<C: Compiled, A: 'static> Source<C, A>
where
    Binding<A>: Projection,
{
    /// The policies of these files and this cluster; on a tokio runtime they are compiled before a request asks for them.
    pub fn new(cluster: Arc<Cluster>, discovery: Arc<Discovery>, files: manifests::Source<Files<C, A>>) -> Self {
        let is_kept = AtomicBool::new(false);
        let inner = Arc::new(Inner { cluster, discovery, files, policies: Derived::default(), is_kept });
        let compiling = Handle::try_current().ok().map(|runtime| {
            let inner = inner.clone();
            AbortOnDropHandle::new(runtime.spawn(async move { inner.keep_compiled().await }))
        });
        Self { inner, _compiling: compiling }
    }

    /// Which of them the request is shown to, if there are any such.
    pub(super) fn audience(&self, attributes: &Attributes) -> Option<Audience> {
        Audience::of(attributes).filter(|audience| *audience == Audience::All || self.inner.files.is_followed())
    }

    /// The policies as they are now; those of the API may be those of a moment ago: no request waits for what is being compiled.
    pub fn policies(&self) -> Arc<Policies<C, A>> {
        if self.inner.is_kept.load(Ordering::Acquire) {
            let last = self.inner.policies.last();
            if Arc::ptr_eq(&last.files, &self.inner.files.load()) {
                return last;
            }
        }
        self.inner.policies()
    }
}

impl<C: Compiled, A: 'static> Inner<C, A>
where
    Binding<A>: Projection,
{
    fn policies(&self) -> Arc<Policies<C, A>> {
        let present = || (self.files.load(), self.cluster.all::<C::Source>(), self.cluster.all::<Binding<A>>());
        let same = |a: &Sources<C, A>, b: &Sources<C, A>| {
            Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1) && Arc::ptr_eq(&a.2, &b.2)
        };
        self.policies.get(present, same, |sources, before| self.compile(sources, before))
    }

    async fn keep_compiled(self: Arc<Self>) {
        let mut changes = self.cluster.changes(&[C::Source::NEED, Binding::<A>::NEED]);
        while !self.cluster.wait_synced().await {}
        loop {
            let inner = self.clone();
            // Compiling takes its time.
            if tokio::task::spawn_blocking(move || drop(inner.policies())).await.is_err() {
                break;
            }
            self.is_kept.store(true, Ordering::Release);
            if !changes.next().await {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        // Nothing changes any more, or nobody compiles: requests look for themselves.
        self.is_kept.store(false, Ordering::Release);
    }

    fn compile(&self, (files, policies, bindings): &Sources<C, A>, before: &Policies<C, A>) -> Policies<C, A> {
        let mut by_policy: HashMap<&str, Vec<Arc<Binding<A>>>> = HashMap::new();
        for binding in bindings.iter() {
            by_policy.entry(&binding.policy).or_default().push(binding.clone());
        }
        let before: HashMap<_, _> = before.compiled.iter().map(|(of, policy)| (Arc::as_ptr(of), policy)).collect();
        let mut hooks: Vec<Hook<C, A>> = Vec::new();
        let mut compiled = Vec::new();
        for (policy, bindings) in &files.policies {
            let (policy, bindings) = (policy.clone(), bindings.clone());
            hooks.push(Hook { policy, bindings, parameters: None, is_static: true });
        }
        for source in policies.iter() {
            let unchanged = before.get(&Arc::as_ptr(source)).map(|policy| Arc::clone(policy));
            let policy = unchanged.unwrap_or_else(|| Arc::new(work::bounded(|| C::compile(source))));
            compiled.push((source.clone(), policy.clone()));
            let Some(bindings) = by_policy.remove(policy.name()) else { continue };
            let parameters = policy.parameter_kind().map(|kind| self.parameters(kind));
            hooks.push(Hook { policy, bindings, parameters, is_static: false });
        }
        let rules = hooks.iter().map(|hook: &Hook<C, A>| hook.policy.criteria().and_then(Criteria::rules));
        let index = Index::new(rules);
        Policies { files: files.clone(), hooks, index, compiled }
    }

    fn parameters(&self, kind: &ParameterKind) -> Result<Arc<Parameters>, String> {
        let parsed = kind.parsed().ok_or_else(|| format!("unexpected GroupVersion string: {}", kind.api_version))?;
        let followed = self.cluster.parameters(&parsed, &self.discovery);
        followed.ok_or_else(|| format!("too many kinds of parameters are in use to follow `{kind}`"))
    }
}

/// What the two plugins' policies need of the cluster.
pub const VALIDATING_NEEDS: &[Need] = &[Need::Namespaces, Need::ValidatingPolicies, Need::ValidatingBindings];
/// The same of mutating ones.
pub const MUTATING_NEEDS: &[Need] = &[Need::Namespaces, Need::MutatingPolicies, Need::MutatingBindings];
