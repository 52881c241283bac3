//! The whole pipeline in front of an embedded API server, with the plugins that are on by default and their caches, for counting
//! allocations and measuring times.

use async_trait::async_trait;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kube_admission_proxy::internal::admission::Metrics;
use kube_admission_proxy::internal::admission::{Attributes, Chain, Operation, PluginEnvironment, RequestContext};
use kube_admission_proxy::internal::authn::{self, Authenticator, Schemes};
use kube_admission_proxy::internal::authz::{self, AccessReviews, Authorizer, Mode, Reviewer};
use kube_admission_proxy::internal::body::full;
use kube_admission_proxy::internal::cluster::Discovery;
use kube_admission_proxy::internal::cluster::{Cluster, Need};
use kube_admission_proxy::internal::config::{FeatureGates, Limits, Writes};
use kube_admission_proxy::internal::embedded;
use kube_admission_proxy::internal::front_end::{self, FrontEnd, ReviewingTenants, Seats};
use kube_admission_proxy::internal::metrics::Registry;
use kube_admission_proxy::internal::pipeline::{Known, Parts, Pipeline, Process};
use kube_admission_proxy::internal::plugins;
use kube_admission_proxy::internal::request::BodyRoom;
use kube_admission_proxy::internal::server::{Connection, Drain};
use kube_admission_proxy::internal::upstream::{
    CallerIdentity, Forwarder, SharedTransport, UpstreamRelease, kube_client,
};
use kube_admission_proxy::internal::{Arrivals, Audit, Processor, Sharing, UserInfo};
use kubernetes_object::Object;
use kubernetes_object::kind::{GroupVersionKind, GroupVersionResource};
use kubernetes_object::status::Status;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A pod that a ReplicaSet creates, in Go's JSON: 3.7 KB.
#[allow(dead_code, reason = "not every user of this module needs it")]
pub(crate) const POD_JSON: &[u8] = include_bytes!("../../e2e/bench/pod.json");
/// The pod of [`POD_JSON`] in protobuf.
#[allow(dead_code, reason = "not every user of this module needs it")]
pub(crate) const POD_PROTOBUF: &[u8] = include_bytes!("../../e2e/bench/pod.pb");

/// The admission attributes of this object's create.
#[allow(dead_code, reason = "not every user of this module needs it")]
pub(crate) fn create(kind: &str, resource: &str, object: Object) -> Attributes {
    let (kind, resource) = (GroupVersionKind::new("", "v1", kind), GroupVersionResource::new("", "v1", resource));
    let deadline = Instant::now() + Duration::from_secs(600);
    let context = RequestContext::new(Arc::new(UserInfo::anonymous()), deadline);
    let mut attributes = Attributes::new(Operation::Create, kind, resource, context);
    attributes.namespace = object.namespace().to_owned();
    attributes.name = object.name().to_owned();
    attributes.object = Some(object);
    attributes
}

/// A configuration of `count` webhooks for creates of a resource, each for a namespace that does not exist.
#[allow(dead_code, reason = "not every user of this module needs it")]
pub(crate) fn hooks_elsewhere(resource: &str, count: usize) -> String {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}]);
    let hook = |number: usize| {
        json!({"name": format!("hook-{number}.elsewhere.test"), "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": rules,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": format!("elsewhere-{number}")}}})
    };
    let hooks: Vec<_> = (0..count).map(hook).collect();
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "elsewhere"}, "webhooks": hooks})
    .to_string()
}

/// The URL path of validating webhook configurations.
#[allow(dead_code, reason = "not every user of this module needs it")]
pub(crate) const VALIDATING_HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The authentication of nobody: every caller is anonymous.
fn anyone() -> Arc<Schemes> {
    let mut config = authn::Config::default();
    config.anonymous = true;
    Schemes::new(config)
}

/// The only tenant, which has no plugins.
struct WithoutPlugins(Arc<Chain>);

#[async_trait]
impl ReviewingTenants for WithoutPlugins {
    async fn plugins(&self, _: &Attributes) -> Result<Option<Arc<Chain>>, Status> {
        Ok(Some(self.0.clone()))
    }
}

pub(crate) struct Front {
    pipeline: Pipeline,
    pub chain: Arc<Chain>,
    reviews: Arc<AccessReviews>,
    connection: Arc<Connection>,
    drain: Drain,
}

impl Front {
    /// Waits until all caches of the pipeline are synced. `wrap` may wrap the transport to the server.
    pub(crate) async fn new(
        server: &Arc<embedded::Server>,
        wrap: impl FnOnce(SharedTransport) -> SharedTransport,
    ) -> Self {
        let transport = wrap(Arc::new(server.clone()));
        let client = kube_client(Arc::new(server.clone()));
        let discovery = Discovery::start(Arc::new(server.clone()), client.clone(), Arc::default());
        discovery.wait_synced().await;
        let on: Vec<_> = plugins::ALL.iter().copied().filter(|spec| spec.default_on).collect();
        let needs: Vec<_> =
            on.iter().flat_map(|spec| spec.needs).copied().chain([Need::CUSTOM_RESOURCE_DEFINITIONS]).collect();
        let cluster = Cluster::start(client.clone(), &needs, Arc::default());
        assert!(cluster.wait_synced().await, "{:?}", cluster.unsynced());
        let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
        // The test's only client sends more requests at a time than one user may.
        let mut limits = Limits::default();
        (limits.requests_inflight, limits.mutating_requests_inflight) = (0, 0);
        (limits.response_bytes, limits.long_work) = (1 << 20, 0);
        let chain = Chain::build(&on, metrics.clone(), |_| {
            let mut environment = PluginEnvironment::with_defaults(cluster.clone(), discovery.clone(), metrics.clone());
            environment.limits = &limits;
            environment
        });
        let drain = Drain::new();
        let forwarder = Forwarder::new(transport.clone(), CallerIdentity::Impersonate, drain.clone());
        let process = Process::new(&limits, Arc::default(), Writes::default(), &Registry::new()).unwrap();
        let chain = Arc::new(chain.unwrap());
        let reviews = AccessReviews::new(authz::Config::new(Mode::Unrestricted, Reviewer::Subject(client), &limits));
        let parts = Parts {
            tenant: Arc::default(),
            schemes: anyone(),
            tenant_ca: None,
            reviews: reviews.clone(),
            discovery,
            cluster,
            chain: chain.clone(),
            feature_gates: &FeatureGates::default(),
            admitted_mark: None,
            transport,
            forwarder,
            release: Arc::new(UpstreamRelease::known()),
            audit: Audit::off(),
            keeps_initializers: false,
            limits: Arc::new(limits),
        };
        let pipeline = Pipeline::new(&process, parts);
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        let (certificates, kept, state) = Default::default();
        let connection = Arc::new(Connection { remote, certificates, kept, server_name: None, is_http2: false, state });
        Self { pipeline, chain, reviews, connection, drain }
    }

    /// Sends one request and returns the code and body of the response.
    pub(crate) async fn ask(&self, method: &str, uri: &str, content_type: &str, body: Bytes) -> (u16, Bytes) {
        let mut request = Request::builder().method(method).uri(uri);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let mut request = request.body(full(body)).unwrap();
        request.extensions_mut().insert(self.connection.clone());
        let (parts, body) = self.pipeline.handle(request, Known::default(), &self.drain).await.into_parts();
        (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
    }

    /// The webhook front end without plugins.
    #[allow(dead_code, reason = "not every user of this module needs it")]
    pub(crate) fn front_end(&self) -> FrontEnd {
        let metrics = front_end::FrontEndMetrics::register(&Registry::new()).unwrap();
        FrontEnd {
            authenticator: Authenticator::new(anyone(), &Sharing::ByUser, None),
            allowed_names: Vec::new(),
            tenants: Arc::new(WithoutPlugins(Arc::new(self.chain.part(&[])))),
            authorizer: Arc::new(Authorizer::new(self.reviews.clone(), Sharing::ByUser)),
            processor: Processor::new(0),
            own_user: Arc::default(),
            refusals: Default::default(),
            arriving: Arrivals::new(1, 1),
            seats: Seats::new(1, 1),
            bodies: BodyRoom::new(&Limits::default()),
            metrics,
            limits: Arc::default(),
        }
    }

    /// Sends a review to the front end and returns the code and body of the response.
    #[allow(dead_code, reason = "not every user of this module needs it")]
    pub(crate) async fn review(&self, front_end: &FrontEnd, path: &str, body: Bytes) -> (u16, Bytes) {
        let request = Request::post(path).header("content-type", "application/json").extension(self.connection.clone());
        let (parts, body) = front_end.handle(request.body(full(body)).unwrap()).await.into_parts();
        (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
    }
}
