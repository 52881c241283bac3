//! What plugins read of the cluster: watch caches, started only for what enabled plugins need, and discovery.

mod cache;
mod pods;
mod projections;
mod texts;
mod custom_resources;
mod quotas;
mod parameters;
mod endpoints;
pub mod discovery;

pub use endpoints::Endpoints;
pub use parameters::{Parameter, Parameters};
pub use pods::PodPage;

use crate::object::Object;
use crate::policies::Binding;
use crate::status::Status;
use crate::upstream::chain;
use cache::Cache;
pub(crate) use cache::Projection;
pub(crate) use custom_resources::Definition;
use custom_resources::Definitions;
pub use custom_resources::{Conversion, ConversionWebhook, CustomResource};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace as KubeNamespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::DeviceClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha2::{PodGroup, Workload};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use kube::Resource;
use kube::api::{Api, GetParams, ListParams, PostParams, Request};
use kube::core::ObjectList;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
pub(crate) use quotas::{OwnedClaim, WholePod};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
pub use texts::Texts;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What a segment of a path does not have as it is (RFC 3986, `unreserved`).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A cache that a plugin reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Namespaces: labels, annotations, phase.
    Namespaces,
    /// MutatingWebhookConfigurations.
    MutatingWebhooks,
    /// ValidatingWebhookConfigurations.
    ValidatingWebhooks,
    /// Services, for webhooks' client configurations.
    Services,
    /// EndpointSlices, where Services are called at their endpoints.
    EndpointSlices,
    /// Pods: what binds them to nodes and what they mount.
    Pods,
    /// Nodes: labels, what they declare and what they can allocate.
    Nodes,
    /// ServiceAccounts.
    ServiceAccounts,
    /// LimitRanges.
    LimitRanges,
    /// ResourceQuotas.
    ResourceQuotas,
    /// PriorityClasses.
    PriorityClasses,
    /// StorageClasses.
    StorageClasses,
    /// IngressClasses.
    IngressClasses,
    /// RuntimeClasses.
    RuntimeClasses,
    /// PersistentVolumes.
    PersistentVolumes,
    /// PersistentVolumeClaims.
    PersistentVolumeClaims,
    /// CSIDrivers.
    CsiDrivers,
    /// Workloads, of an alpha API.
    Workloads,
    /// PodGroups, of an alpha API.
    PodGroups,
    /// CustomResourceDefinitions: what custom resources are decoded by.
    CustomResourceDefinitions,
    /// DeviceClasses: which resources of pods they stand for.
    DeviceClasses,
    /// ResourceClaims: whose they are.
    ResourceClaims,
    /// ValidatingAdmissionPolicies.
    ValidatingPolicies,
    /// ValidatingAdmissionPolicyBindings.
    ValidatingBindings,
    /// MutatingAdmissionPolicies.
    MutatingPolicies,
    /// MutatingAdmissionPolicyBindings.
    MutatingBindings,
    /// Objects of a kind that policies take their parameters from; started on demand.
    Parameters,
}

impl Need {
    /// Starts its cache, unless that is started on demand.
    fn start(
        self,
        client: &kube::Client,
        limits: Limits,
        watches: &mut Vec<AbortOnDropHandle<()>>,
    ) -> Option<Arc<dyn Kept>> {
        Some(match self {
            Self::Namespaces => spawn::<Namespace>(client, limits, watches),
            Self::MutatingWebhooks => spawn::<MutatingWebhookConfiguration>(client, limits, watches),
            Self::ValidatingWebhooks => spawn::<ValidatingWebhookConfiguration>(client, limits, watches),
            Self::Services => spawn::<Service>(client, limits, watches),
            Self::EndpointSlices => spawn::<Endpoints>(client, limits, watches),
            Self::Pods => spawn::<Pod>(client, limits, watches),
            Self::Nodes => spawn::<Node>(client, limits, watches),
            Self::ServiceAccounts => spawn::<ServiceAccount>(client, limits, watches),
            Self::LimitRanges => spawn::<LimitRange>(client, limits, watches),
            Self::ResourceQuotas => spawn::<ResourceQuota>(client, limits, watches),
            Self::PriorityClasses => spawn::<PriorityClass>(client, limits, watches),
            Self::StorageClasses => spawn::<StorageClass>(client, limits, watches),
            Self::IngressClasses => spawn::<IngressClass>(client, limits, watches),
            Self::RuntimeClasses => spawn::<RuntimeClass>(client, limits, watches),
            Self::PersistentVolumes => spawn::<PersistentVolume>(client, limits, watches),
            Self::PersistentVolumeClaims => spawn::<PersistentVolumeClaim>(client, limits, watches),
            Self::CsiDrivers => spawn::<CSIDriver>(client, limits, watches),
            Self::Workloads => spawn::<Workload>(client, limits, watches),
            Self::PodGroups => spawn::<PodGroup>(client, limits, watches),
            Self::CustomResourceDefinitions => spawn::<Definition>(client, limits, watches),
            Self::DeviceClasses => spawn::<DeviceClass>(client, limits, watches),
            Self::ResourceClaims => spawn::<OwnedClaim>(client, limits, watches),
            Self::ValidatingPolicies => spawn::<ValidatingAdmissionPolicy>(client, limits, watches),
            Self::ValidatingBindings => spawn::<Binding<ValidatingAdmissionPolicyBinding>>(client, limits, watches),
            Self::MutatingPolicies => spawn::<MutatingAdmissionPolicy>(client, limits, watches),
            Self::MutatingBindings => spawn::<Binding<MutatingAdmissionPolicyBinding>>(client, limits, watches),
            Self::Parameters => return None,
        })
    }
}

/// A cache of any kind.
pub(crate) trait Kept: Any + Debug + Send + Sync {
    /// Why it is not synced; none if it is.
    fn problem(&self) -> Option<String>;
    /// Whether it is synced, and when it comes to be.
    fn synced(&self) -> watch::Receiver<bool>;
    /// How often its objects changed so far, and when they do.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
    /// The whole as JSON, without managed fields and owners; empty where only the rest is known.
    pub whole: Box<str>,
}

/// How long the cluster's own calls may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A single call to the API server.
    pub call_timeout: Duration,
    /// A page of a list; one that stalls longer is begun anew.
    pub list_timeout: Duration,
    /// [`Cluster::wait_synced`], as `admission.Handler.WaitForReady`.
    pub ready_timeout: Duration,
    /// How long it is remembered what the API server said of a definition that its cache lacks.
    pub definition_ttl: Duration,
    /// Kinds that policies may take parameters from at the same time.
    pub parameter_kinds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            list_timeout: Duration::from_secs(90),
            ready_timeout: Duration::from_secs(10),
            definition_ttl: Duration::from_secs(5),
            parameter_kinds: 256,
        }
    }
}

/// A cluster that does not change by itself: for tests and for the chain without a server.
#[derive(Clone, Debug, Default)]
pub struct FixedState {
    /// The namespaces in the cache.
    pub namespaces: Vec<Namespace>,
    /// The namespaces that the API server has, where they are not those of the cache.
    pub live_namespaces: Option<Vec<Namespace>>,
    /// The MutatingWebhookConfigurations.
    pub mutating_webhooks: Vec<MutatingWebhookConfiguration>,
    /// The ValidatingWebhookConfigurations.
    pub validating_webhooks: Vec<ValidatingWebhookConfiguration>,
    /// The Services.
    pub services: Vec<Service>,
    /// The pods that the API server lists; `None` where it lists none, for there is no API server.
    pub pods: Option<Vec<Object>>,
    /// Whether the caches never get their first list.
    pub unsynced: bool,
    /// Objects of any kind, which policies may take their parameters from.
    pub parameters: Vec<serde_json::Value>,
    /// What the API server answers to the first updates of a quota's status, instead of doing them.
    pub refused_updates: Vec<Status>,
    /// The caches of other kinds.
    pub(crate) cached: HashMap<Need, Arc<dyn Kept>>,
    /// What the API server has of them, where that is something else.
    pub(crate) live: HashMap<Need, Arc<dyn Kept>>,
}

#[cfg(test)]
impl FixedState {
    /// With these objects in the cache, and at the API server unless [`Self::live`] says otherwise.
    #[must_use]
    pub(crate) fn with<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.cached.insert(P::NEED, Arc::new(fixed::<P>(objects, !self.unsynced)));
        self
    }

    /// With these objects of the kind at the API server, whatever the cache holds.
    #[must_use]
    pub(crate) fn live<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.live.insert(P::NEED, Arc::new(fixed::<P>(objects, true)));
        self
    }
}

/// The cluster as plugins see it.
pub struct Cluster {
    live: Live,
    limits: Limits,
    caches: HashMap<Need, Arc<dyn Kept>>,
    definitions: Definitions,
    parameters: parameters::Registry,
    /// Whether every cache was seen to hold its first list, which it does not lose again.
    seen_synced: AtomicBool,
    /// [`FixedState::refused_updates`].
    refused_updates: Mutex<VecDeque<Status>>,
    // Aborts the watches when the cluster goes.
    _watches: Vec<AbortOnDropHandle<()>>,
}

/// Tells when objects change.
pub struct Changes(Vec<watch::Receiver<u64>>);

impl Changes {
    /// Waits for a change since the last call. Answers whether there was one: not when there is nothing left that could change.
    pub async fn next(&mut self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let changes = self.0.iter_mut().map(|changes| Box::pin(changes.changed()));
        futures_util::future::select_all(changes).await.0.is_ok()
    }
}

/// Who answers what is asked past the caches.
enum Live {
    ApiServer(kube::Client),
    Fixed {
        namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
        cached: HashMap<Need, Arc<dyn Kept>>,
        pods: Option<Vec<Object>>,
        parameters: Vec<serde_json::Value>,
    },
}

impl Cluster {
    /// Starts the caches that are needed; they end with the cluster. Must be called on a tokio runtime.
    pub fn start(client: kube::Client, needs: &[Need], limits: Limits) -> Arc<Self> {
        let mut watches = Vec::new();
        let mut caches = HashMap::new();
        for need in needs {
            if !caches.contains_key(need) {
                caches.extend(need.start(&client, limits, &mut watches).map(|cache| (*need, cache)));
            }
        }
        Arc::new(Self {
            live: Live::ApiServer(client),
            limits,
            caches,
            definitions: Definitions::new(),
            parameters: Default::default(),
            seen_synced: AtomicBool::new(false),
            refused_updates: Mutex::default(),
            _watches: watches,
        })
    }

    /// A cluster that holds this state. Namespaces that are created in it are there when asked of the API server.
    pub fn fixed(state: FixedState) -> Arc<Self> {
        let live = state.live_namespaces.as_ref().unwrap_or(&state.namespaces);
        let namespaces = live.iter().map(|namespace| (namespace.name.clone(), Arc::new(namespace.clone()))).collect();
        let synced = !state.unsynced;
        let mut live = state.cached.clone();
        live.extend(state.live);
        let mut caches = state.cached;
        let cached = state.namespaces.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        caches.insert(Need::Namespaces, Arc::new(Cache::fixed(cached, synced)));
        let mutating = fixed::<MutatingWebhookConfiguration>(state.mutating_webhooks, synced);
        caches.insert(Need::MutatingWebhooks, Arc::new(mutating));
        let validating = fixed::<ValidatingWebhookConfiguration>(state.validating_webhooks, synced);
        caches.insert(Need::ValidatingWebhooks, Arc::new(validating));
        caches.insert(Need::Services, Arc::new(fixed::<Service>(state.services, synced)));
        let (pods, parameters) = (state.pods, state.parameters);
        let live = Live::Fixed { namespaces: Mutex::new(namespaces), cached: live, pods, parameters };
        Arc::new(Self {
            live,
            limits: Limits::default(),
            caches,
            definitions: Definitions::new(),
            parameters: Default::default(),
            seen_synced: AtomicBool::new(false),
            refused_updates: Mutex::new(state.refused_updates.into()),
            _watches: Vec::new(),
        })
    }

    fn cache<P: Projection>(&self) -> Option<&Cache<P>> {
        of_kind(&self.caches)
    }

    /// What the cache keeps of an object; the namespace is empty for kinds of the cluster's scope.
    pub(crate) fn find<P: Projection>(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.find(&cache::key(namespace, name))
    }

    /// The same if the object has this index: of a Pod, if it is bound to this node.
    pub(crate) fn indexed<P: Projection>(&self, index: &str, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.indexed(index, &cache::key(namespace, name))
    }

    /// All objects of a kind, sorted by namespace and name; the same `Arc` as long as none changed.
    pub(crate) fn all<P: Projection>(&self) -> Arc<Vec<Arc<P>>> {
        self.cache::<P>().map(|cache| cache.sorted()).unwrap_or_default()
    }

    /// The objects of a kind in a namespace, sorted by name.
    pub(crate) fn in_namespace<P: Projection>(&self, namespace: &str) -> Vec<Arc<P>> {
        self.cache::<P>().map(|cache| cache.in_namespace(namespace)).unwrap_or_default()
    }

    /// An object, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub(crate) async fn find_live<P: Projection>(&self, namespace: &str, name: &str) -> Result<Option<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let client = match &self.live {
            Live::Fixed { cached: live, .. } => {
                return Ok(of_kind::<P>(live).and_then(|cache| cache.find(&cache::key(namespace, name))));
            }
            Live::ApiServer(client) => client,
        };
        let request = Request::new(path::<P>(namespace))
            .get(&utf8_percent_encode(name, SEGMENT).to_string(), &GetParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        match self.call(client.request::<P::Object>(request)).await {
            Ok(object) => Ok(Some(Arc::new(P::project(object).1))),
            Err(CallError::Kube(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into_status()),
        }
    }

    /// The objects of a kind in a namespace, asked of the API server.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub(crate) async fn list_live<P: Projection>(&self, namespace: &str) -> Result<Vec<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let client = match &self.live {
            Live::Fixed { cached: live, .. } => {
                return Ok(of_kind::<P>(live).map(|cache| cache.in_namespace(namespace)).unwrap_or_default());
            }
            Live::ApiServer(client) => client,
        };
        let request = Request::new(path::<P>(namespace)).list(&ListParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        let list = self.call(client.request::<ObjectList<P::Object>>(request)).await;
        let list = list.map_err(CallError::into_status)?;
        Ok(list.items.into_iter().map(|object| Arc::new(P::project(object).1)).collect())
    }

    /// The namespace, from the cache.
    pub fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.find("", name)
    }

    /// The namespace, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        match &self.live {
            Live::Fixed { namespaces: live, .. } => {
                Ok(live.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
            }
            Live::ApiServer(client) => {
                let api: Api<KubeNamespace> = Api::all(client.clone());
                let found = self.call(api.get_opt(name)).await.map_err(CallError::into_status)?;
                Ok(found.map(|namespace| Arc::new(Namespace::from(namespace))))
            }
        }
    }

    /// Creates a namespace. One that exists already is no error.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn create_namespace(&self, name: &str) -> Result<(), Status> {
        match &self.live {
            Live::Fixed { namespaces: live, .. } => {
                let namespace = || Arc::new(Namespace { name: name.to_owned(), ..Namespace::default() });
                live.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert_with(namespace);
                Ok(())
            }
            Live::ApiServer(client) => {
                let api: Api<KubeNamespace> = Api::all(client.clone());
                let mut namespace = KubeNamespace::default();
                namespace.metadata.name = Some(name.to_owned());
                match self.call(api.create(&PostParams::default(), &namespace)).await {
                    Ok(_) => Ok(()),
                    Err(CallError::Kube(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(()),
                    Err(error) => Err(error.into_status()),
                }
            }
        }
    }

    async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        match tokio::time::timeout(self.limits.call_timeout, call).await {
            Ok(answer) => answer.map_err(CallError::Kube),
            Err(_) => Err(CallError::Timeout),
        }
    }

    /// All MutatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn mutating_webhooks(&self) -> Arc<Vec<Arc<MutatingWebhookConfiguration>>> {
        self.all()
    }

    /// All ValidatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>> {
        self.all()
    }

    /// A Service, from the cache.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.find(namespace, name)
    }

    /// Whether every cache that was asked for holds its first list.
    pub fn is_synced(&self) -> bool {
        if !self.seen_synced.load(Ordering::Relaxed) && self.unsynced().is_empty() {
            self.seen_synced.store(true, Ordering::Relaxed);
        }
        self.seen_synced.load(Ordering::Relaxed)
    }

    /// The caches that have no first list yet, each with the reason as far as it is known.
    pub fn unsynced(&self) -> Vec<(Need, String)> {
        self.caches.iter().filter_map(|(need, cache)| Some((*need, cache.problem()?))).collect()
    }

    /// The changes of these kinds' objects from now on.
    pub fn changes(&self, needs: &[Need]) -> Changes {
        Changes(needs.iter().filter_map(|need| self.caches.get(need)).map(|cache| cache.changes()).collect())
    }

    /// Waits until [`Self::is_synced`], at most 10 s as `admission.Handler.WaitForReady`; answers whether it came so far.
    pub async fn wait_synced(&self) -> bool {
        if self.is_synced() {
            return true;
        }
        let all = async {
            for cache in self.caches.values() {
                // The cache lives as long as `self`, so this ends only when it is synced.
                let _ = cache.synced().wait_for(|synced| *synced).await;
            }
        };
        tokio::time::timeout(self.limits.ready_timeout, all).await.is_ok()
    }
}

/// The cache of a kind among these.
fn of_kind<P: Projection>(caches: &HashMap<Need, Arc<dyn Kept>>) -> Option<&Cache<P>> {
    let cache: &dyn Any = &**caches.get(&P::NEED)?;
    cache.downcast_ref()
}

/// The path of a kind's objects.
fn path<P: Projection>(namespace: &str) -> String
where
    P::Object: Resource<DynamicType = ()>,
{
    P::Object::url_path(&(), (!namespace.is_empty()).then_some(namespace))
}

fn spawn<P: Projection>(
    client: &kube::Client,
    limits: Limits,
    watches: &mut Vec<AbortOnDropHandle<()>>,
) -> Arc<dyn Kept>
where
    P::Object: Resource<DynamicType = ()>,
{
    let cache = Arc::new(Cache::<P>::new());
    let (followed, api) = (cache.clone(), Api::all(client.clone()));
    let task = async move { followed.follow(&P::Object::kind(&()), api, |_| (), limits.list_timeout).await };
    watches.push(AbortOnDropHandle::new(tokio::spawn(task)));
    cache
}

fn fixed<P: Projection>(objects: Vec<P::Object>, synced: bool) -> Cache<P> {
    Cache::fixed(objects.into_iter().map(P::project), synced)
}

/// Why a call of our own brought nothing.
enum CallError {
    Kube(kube::Error),
    Timeout,
}

impl CallError {
    /// The API server's own Status where it sent one; 503 where it could not be reached.
    fn into_status(self) -> Status {
        match self {
            Self::Timeout => Status::timeout("the API server did not answer in time"),
            Self::Kube(error) => status_of(error),
        }
    }
}

/// The Status in a client error, or one that says that the API server could not be asked.
fn status_of(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => {
            let status = *status;
            let fallback = Status::failure(status.code, &status.reason, status.message.clone());
            let carried = serde_json::to_value(&status).ok().and_then(|value| serde_json::from_value(value).ok());
            carried.unwrap_or(fallback)
        }
        error => {
            // Where the API server is and why it does not answer is not the client's business.
            tracing::warn!(error = chain(&error), "no answer from the API server");
            Status::service_unavailable("the API server behind the proxy could not be asked")
        }
    }
}

#[cfg(test)]
mod tests;
