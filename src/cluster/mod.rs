//! What plugins read of the cluster: watch caches, started only for what enabled plugins need, and discovery.

mod cache;
mod projections;
pub mod discovery;

use crate::status::Status;
use crate::upstream::chain;
use cache::{Cache, Projection, namespaced_key};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Service};
use kube::api::{Api, PostParams};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

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
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            list_timeout: Duration::from_secs(90),
            ready_timeout: Duration::from_secs(10),
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
    /// Whether the caches never get their first list.
    pub unsynced: bool,
}

/// The cluster as plugins see it.
pub struct Cluster {
    live: Live,
    limits: Limits,
    namespaces: Option<Arc<Cache<Namespace>>>,
    mutating_webhooks: Option<Arc<Cache<MutatingWebhookConfiguration>>>,
    validating_webhooks: Option<Arc<Cache<ValidatingWebhookConfiguration>>>,
    services: Option<Arc<Cache<Service>>>,
    // Aborts the watches when the cluster goes.
    _watches: Vec<AbortOnDropHandle<()>>,
}

/// Who answers what is asked past the caches.
enum Live {
    ApiServer(kube::Client),
    Fixed(Mutex<BTreeMap<String, Arc<Namespace>>>),
}

impl Cluster {
    /// Starts the caches that are needed; they end with the cluster. Must be called on a tokio runtime.
    pub fn start(client: kube::Client, needs: &[Need], limits: Limits) -> Arc<Self> {
        let mut watches = Vec::new();
        let namespaces = needs.contains(&Need::Namespaces).then(|| spawn(&client, limits, &mut watches));
        let mutating_webhooks = needs.contains(&Need::MutatingWebhooks).then(|| spawn(&client, limits, &mut watches));
        let validating_webhooks =
            needs.contains(&Need::ValidatingWebhooks).then(|| spawn(&client, limits, &mut watches));
        let services = needs.contains(&Need::Services).then(|| spawn(&client, limits, &mut watches));
        let live = Live::ApiServer(client);
        Arc::new(Self { live, limits, namespaces, mutating_webhooks, validating_webhooks, services, _watches: watches })
    }

    /// A cluster that holds this state. Namespaces that are created in it are there when asked of the API server.
    pub fn fixed(state: FixedState) -> Arc<Self> {
        let live = state.live_namespaces.as_ref().unwrap_or(&state.namespaces);
        let live = live.iter().map(|namespace| (namespace.name.clone(), Arc::new(namespace.clone()))).collect();
        let synced = !state.unsynced;
        let namespaces = state.namespaces.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        Arc::new(Self {
            live: Live::Fixed(Mutex::new(live)),
            limits: Limits::default(),
            namespaces: Some(Arc::new(Cache::fixed(namespaces, synced))),
            mutating_webhooks: Some(Arc::new(fixed(state.mutating_webhooks, synced))),
            validating_webhooks: Some(Arc::new(fixed(state.validating_webhooks, synced))),
            services: Some(Arc::new(fixed(state.services, synced))),
            _watches: Vec::new(),
        })
    }

    /// The namespace, from the cache.
    pub fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.as_ref()?.find(name)
    }

    /// The namespace, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        match &self.live {
            Live::Fixed(live) => Ok(live.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()),
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
            Live::Fixed(live) => {
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
        self.mutating_webhooks.as_ref().map(|cache| cache.sorted()).unwrap_or_default()
    }

    /// All ValidatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>> {
        self.validating_webhooks.as_ref().map(|cache| cache.sorted()).unwrap_or_default()
    }

    /// A Service, from the cache.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services.as_ref()?.find(&namespaced_key(namespace, name))
    }

    /// Whether every cache that was asked for holds its first list.
    pub fn is_synced(&self) -> bool {
        self.unsynced().is_empty()
    }

    /// The caches that have no first list yet, each with the reason as far as it is known.
    pub fn unsynced(&self) -> Vec<(Need, String)> {
        let problems = [
            (Need::Namespaces, self.namespaces.as_ref().and_then(|cache| cache.problem())),
            (Need::MutatingWebhooks, self.mutating_webhooks.as_ref().and_then(|cache| cache.problem())),
            (Need::ValidatingWebhooks, self.validating_webhooks.as_ref().and_then(|cache| cache.problem())),
            (Need::Services, self.services.as_ref().and_then(|cache| cache.problem())),
        ];
        problems.into_iter().filter_map(|(need, problem)| Some((need, problem?))).collect()
    }

    /// Waits until [`Self::is_synced`], at most 10 s as `admission.Handler.WaitForReady`; answers whether it came so far.
    pub async fn wait_synced(&self) -> bool {
        if self.is_synced() {
            return true;
        }
        let all = async {
            wait(self.namespaces.as_ref()).await;
            wait(self.mutating_webhooks.as_ref()).await;
            wait(self.validating_webhooks.as_ref()).await;
            wait(self.services.as_ref()).await;
        };
        tokio::time::timeout(self.limits.ready_timeout, all).await.is_ok()
    }
}

async fn wait<P: Projection>(cache: Option<&Arc<Cache<P>>>) {
    if let Some(cache) = cache {
        cache.wait_synced().await;
    }
}

fn spawn<P: Projection>(
    client: &kube::Client,
    limits: Limits,
    watches: &mut Vec<AbortOnDropHandle<()>>,
) -> Arc<Cache<P>> {
    let cache = Arc::new(Cache::new());
    let (followed, api) = (cache.clone(), Api::all(client.clone()));
    let task = async move { followed.follow(api, limits.list_timeout).await };
    watches.push(AbortOnDropHandle::new(tokio::spawn(task)));
    cache
}

fn fixed<P: Projection<Object = P>>(objects: Vec<P>, synced: bool) -> Cache<P> {
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
