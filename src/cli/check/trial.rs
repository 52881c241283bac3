//! The admission of manifests by an embedded API server in this process, with the whole chain.
//!
//! The server starts up to three times with the same data folder, so that its caches hold what was written before: first without plugins, for
//! the state and the configuration among the files; then with them, for what plugins read, such as quotas; last for the other objects.

use super::manifests::Manifest;
use super::pods;
use super::resources::Definitions;
use crate::app::{self, Config};
use crate::config::Upstream;
use anyhow::{Context as _, Result};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The user without `--as`, whom every authorizer allows everything.
const ADMINISTRATOR: [&str; 2] = ["kubernetes-admin", "system:masters"];
/// The longest wait for a server that is ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two looks whether the server is ready.
const READY_INTERVAL: Duration = Duration::from_millis(1);
/// The kinds of an installation in the order of Helm (`releaseutil.InstallOrder`). Others follow.
const ORDER: [&str; 33] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
/// The kinds that plugins read while they admit other objects.
const READ_BY_PLUGINS: [&str; 13] = [
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "PriorityClass",
    "StorageClass",
    "RuntimeClass",
    "IngressClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "PersistentVolume",
];
/// The groups whose objects configure the chain. They are installed, not admitted.
const CONFIGURATION: [&str; 2] = ["admissionregistration.k8s.io", "apiextensions.k8s.io"];
/// The kinds of webhook configurations.
const WEBHOOKS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// The write that each manifest is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) enum Operation {
    #[default]
    Create,
    Update,
    Delete,
}

/// The user who writes.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Caller {
    /// Empty for the administrator.
    pub(in crate::cli) user: String,
    pub(in crate::cli) groups: Vec<String>,
    pub(in crate::cli) uid: String,
    /// Names and values.
    pub(in crate::cli) extra: Vec<(String, String)>,
}

/// How manifests are admitted.
#[derive(Debug)]
pub(in crate::cli) struct Terms {
    /// The configuration of the server, with its plugins.
    pub(in crate::cli) config: Config,
    pub(in crate::cli) caller: Caller,
    pub(in crate::cli) operation: Operation,
    /// The namespace of objects that name none.
    pub(in crate::cli) namespace: String,
    /// Whether the pods that controllers would make are admitted too.
    pub(in crate::cli) expands: bool,
    /// Whether the webhooks of the configurations among the files are called.
    pub(in crate::cli) calls_webhooks: bool,
}

/// The verdict about a manifest.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The object as it would be stored, and the warnings of the answer.
    Admitted { object: Value, warnings: Vec<String> },
    /// The Status of the refusal, and the warnings of the answer.
    Refused { status: Value, warnings: Vec<String> },
    /// The object cannot be admitted, for this reason.
    NotChecked(String),
}

/// The verdicts about a manifest.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The number of the manifest.
    pub(super) manifest: usize,
    /// The object of the verdict, if it is not the manifest itself: `pod of Deployment "a"`.
    pub(super) of: String,
    pub(super) verdict: Verdict,
}

/// Admits the manifests: the objects among them and the state exist before.
///
/// # Errors
/// If the server does not start.
pub(super) async fn admit(
    terms: &Terms,
    manifests: &[Manifest],
    state: &[Manifest],
    definitions: &Definitions<'_>,
) -> Result<Vec<Outcome>> {
    let folder = Folder::new()?;
    let trial = Trial { terms, definitions, folder: &folder };
    let (configuration, mut admitted): (Vec<usize>, Vec<usize>) =
        (0..manifests.len()).partition(|at| manifests.get(*at).is_some_and(is_configuration));
    let kind = |at: &usize| manifests.get(*at).map_or("", |manifest| &*manifest.kind.kind);
    admitted.retain(|at| manifests.get(*at).is_some_and(|manifest| !super::is_admission_file(manifest)));
    admitted.sort_by_key(|at| ORDER.iter().position(|known| *known == kind(at)).unwrap_or(ORDER.len()));
    let mut outcomes = trial.install(manifests, state, &configuration, &admitted).await?;
    let (first, rest): (Vec<usize>, Vec<usize>) =
        admitted.into_iter().partition(|at| READ_BY_PLUGINS.contains(&kind(at)));
    for stage in [first, rest] {
        if stage.is_empty() {
            continue;
        }
        let server = trial.start(terms.config.clone()).await?;
        for at in stage {
            let Some(manifest) = manifests.get(at) else { continue };
            outcomes.extend(trial.admit_one(&server, at, manifest).await?);
        }
        server.stop().await;
    }
    outcomes.sort_by_key(|outcome| outcome.manifest);
    Ok(outcomes)
}

fn is_configuration(manifest: &Manifest) -> bool {
    CONFIGURATION.contains(&&*manifest.kind.group)
}

/// A folder for the objects, which is removed in the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("kube-admission-proxy-check-{}", uuid::Uuid::new_v4());
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).with_context(|| format!("the folder {}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is below that of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server in this process.
struct Server {
    running: app::Running,
    client: Client,
}

impl Server {
    async fn stop(self) {
        drop(self.client);
        // A failed listener has stopped too.
        let _ = self.running.stop().await;
    }

    /// Sends a request; the headers are those of the caller.
    async fn send(&self, method: Method, path: &str, headers: &HeaderMap, body: Option<&Value>) -> Result<Answer> {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder().method(method).uri(path).header("content-type", content_type);
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
        }
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string().into_bytes())))?;
        let response = self.client.send(request).await.context("the API server of the check")?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.context("the answer of the API server of the check")?.to_bytes();
        let warnings =
            head.headers.get_all("warning").iter().filter_map(|value| warning(value.to_str().ok()?)).collect();
        Ok(Answer { code: head.status, body: serde_json::from_slice(&body).unwrap_or_default(), warnings })
    }
}

struct Answer {
    code: StatusCode,
    body: Value,
    warnings: Vec<String>,
}

impl Answer {
    fn verdict(self) -> Verdict {
        let Self { code, body, warnings } = self;
        match code.is_success() {
            true => Verdict::Admitted { object: body, warnings },
            false => Verdict::Refused { status: body, warnings },
        }
    }

    fn has_failed(&self) -> bool {
        !self.code.is_success() && self.code != StatusCode::CONFLICT
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once(' ')?.1.strip_prefix('"')?;
    let (mut text, mut characters) = (String::new(), quoted.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    Some(text)
}

/// The place of an object at the API server.
struct Place {
    /// The path of the collection.
    collection: String,
    /// The path of the object; `None` for an object without a name.
    object: Option<String>,
    namespace: Option<String>,
}

struct Trial<'a> {
    terms: &'a Terms,
    definitions: &'a Definitions<'a>,
    folder: &'a Folder,
}

impl Trial<'_> {
    async fn start(&self, mut config: Config) -> Result<Server> {
        config.serving.health_address = None;
        if let Upstream::Embedded(embedded) = &mut config.upstream {
            embedded.kubeconfig = None;
            embedded.data_dir = Some(self.folder.path().to_owned());
        }
        let running = app::start(config).await?;
        let ready = async {
            while !running.is_ready() {
                sleep(READY_INTERVAL).await;
            }
        };
        timeout(START_TIMEOUT, ready).await.context("the API server of the check is not ready in time")?;
        let [user, group] = ADMINISTRATOR;
        let kubeconfig = running.kubeconfig(user, group)?.context("the API server of the check has no authority")?;
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Server { running, client: Client::try_from(config)? })
    }

    /// Stores the state, the configuration, and the objects that an update or deletion finds.
    async fn install(
        &self,
        manifests: &[Manifest],
        state: &[Manifest],
        configuration: &[usize],
        admitted: &[usize],
    ) -> Result<Vec<Outcome>> {
        let mut config = self.terms.config.clone();
        config.admission.plugins.clear();
        let server = self.start(config).await?;
        let headers = HeaderMap::new();
        let mut outcomes = Vec::new();
        for at in configuration {
            let Some(manifest) = manifests.get(*at) else { continue };
            if WEBHOOKS.contains(&&*manifest.kind.kind) && !self.terms.calls_webhooks {
                continue;
            }
            let Some(place) = self.place(manifest) else { continue };
            let answer = server.send(Method::POST, &place.collection, &headers, Some(&manifest.value)).await?;
            if answer.has_failed() {
                outcomes.push(Outcome { manifest: *at, of: String::new(), verdict: answer.verdict() });
            }
        }
        self.assume_namespaces(&server, manifests, state).await?;
        let is_deletion = self.terms.operation == Operation::Delete;
        let deleted = admitted.iter().filter(|_| is_deletion).filter_map(|at| manifests.get(*at));
        for manifest in state.iter().chain(deleted) {
            let Some(place) = self.place(manifest) else {
                anyhow::bail!("{}: {}: the kind is unknown", manifest.file.display(), manifest.name);
            };
            let value = without_uid(&manifest.value);
            let answer = server.send(Method::POST, &place.collection, &headers, Some(&value)).await?;
            if answer.has_failed() {
                let why = answer.body.get("message").and_then(Value::as_str).unwrap_or("no answer");
                anyhow::bail!("{}: {}: {why}", manifest.file.display(), manifest.name);
            }
            self.complete(&server, manifest, &place, &answer.body).await?;
        }
        server.stop().await;
        Ok(outcomes)
    }

    /// Creates the namespaces that the objects name and that no file defines.
    async fn assume_namespaces(&self, server: &Server, manifests: &[Manifest], state: &[Manifest]) -> Result<()> {
        let all = || manifests.iter().chain(state);
        let defined: BTreeSet<&str> = all()
            .filter(|manifest| manifest.kind.kind == "Namespace")
            .map(|manifest| text(&manifest.value, "/metadata/name"))
            .collect();
        let named: BTreeSet<String> = all().filter_map(|manifest| self.place(manifest)?.namespace).collect();
        for namespace in named.iter().filter(|name| !defined.contains(name.as_str())) {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            server.send(Method::POST, "/api/v1/namespaces", &HeaderMap::new(), Some(&object)).await?;
            self.create_account(server, namespace).await?;
        }
        Ok(())
    }

    /// Creates the service account `default`, as a controller does after a while.
    async fn create_account(&self, server: &Server, namespace: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        server.send(Method::POST, &path, &HeaderMap::new(), Some(&object)).await.map(drop)
    }

    /// Adds what controllers add to a new object: the account of a namespace, and the usage of a quota.
    async fn complete(&self, server: &Server, manifest: &Manifest, place: &Place, stored: &Value) -> Result<()> {
        let name = text(stored, "/metadata/name");
        match &*manifest.kind.kind {
            "Namespace" => self.create_account(server, name).await,
            "ResourceQuota" => {
                let hard = stored.pointer("/spec/hard").and_then(Value::as_object).cloned().unwrap_or_default();
                let mut used: Map<String, Value> = hard.keys().map(|name| (name.clone(), json!("0"))).collect();
                let known = manifest.value.pointer("/status/used").and_then(Value::as_object).cloned();
                used.extend(known.unwrap_or_default());
                let status = json!({"status": {"hard": hard, "used": used}});
                let path = format!("{}/{name}/status", place.collection);
                server.send(Method::PATCH, &path, &HeaderMap::new(), Some(&status)).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn place(&self, manifest: &Manifest) -> Option<Place> {
        let route = self.definitions.route_of(&manifest.kind)?;
        let named = text(&manifest.value, "/metadata/namespace");
        let namespace =
            route.is_namespaced.then(|| if named.is_empty() { self.terms.namespace.clone() } else { named.to_owned() });
        let root = match &*manifest.kind.group {
            "" => format!("/api/{}", manifest.kind.version),
            group => format!("/apis/{group}/{}", manifest.kind.version),
        };
        let encoded = crate::cluster::segment;
        let collection = match &namespace {
            Some(namespace) => format!("{root}/namespaces/{}/{}", encoded(namespace), route.resource),
            None => format!("{root}/{}", route.resource),
        };
        let name = Some(text(&manifest.value, "/metadata/name")).filter(|name| !name.is_empty());
        let object = name.map(|name| format!("{collection}/{}", encoded(name)));
        Some(Place { collection, object, namespace })
    }

    /// The headers of the caller.
    fn headers(&self) -> Result<HeaderMap> {
        let Caller { user, groups, uid, extra } = &self.terms.caller;
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| -> Result<()> {
            headers.append(http::HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
            Ok(())
        };
        if user.is_empty() {
            return Ok(headers);
        }
        add("impersonate-user", user)?;
        groups.iter().try_for_each(|group| add("impersonate-group", group))?;
        if !uid.is_empty() {
            add("impersonate-uid", uid)?;
        }
        extra.iter().try_for_each(|(name, value)| {
            add(&format!("impersonate-extra-{}", crate::cluster::segment(name)), value)
        })?;
        Ok(headers)
    }

    async fn admit_one(&self, server: &Server, at: usize, manifest: &Manifest) -> Result<Vec<Outcome>> {
        let outcome = |verdict| Outcome { manifest: at, of: String::new(), verdict };
        let Some(place) = self.place(manifest) else {
            let why = "the kind is neither built in nor defined by a CustomResourceDefinition among the files";
            return Ok(vec![outcome(Verdict::NotChecked(why.to_owned()))]);
        };
        let headers = self.headers()?;
        let (method, path, body) = match (self.terms.operation, &place.object) {
            (Operation::Create, _) => {
                (Method::POST, format!("{}?fieldValidation=Strict", place.collection), Some(&manifest.value))
            }
            (_, None) => return Ok(vec![outcome(Verdict::NotChecked("the object has no name".to_owned()))]),
            (Operation::Update, Some(object)) => {
                (Method::PUT, format!("{object}?fieldValidation=Strict"), Some(&manifest.value))
            }
            (Operation::Delete, Some(object)) => (Method::DELETE, object.clone(), None),
        };
        let answer = server.send(method, &path, &headers, body).await?;
        if self.terms.operation == Operation::Update && answer.code == StatusCode::NOT_FOUND {
            let why = "an update needs the object before it: name its file by --state";
            return Ok(vec![outcome(Verdict::NotChecked(why.to_owned()))]);
        }
        let verdict = answer.verdict();
        let mut outcomes = Vec::new();
        if let Verdict::Admitted { object, .. } = &verdict
            && self.terms.operation != Operation::Delete
        {
            self.complete(server, manifest, &place, object).await?;
            if self.terms.expands
                && let Some(made) = pods::made_by(object)
            {
                outcomes.push(self.admit_pod(server, at, manifest, &place, made).await?);
            }
        }
        outcomes.insert(0, outcome(verdict));
        Ok(outcomes)
    }

    /// Admits the pod that a controller would make.
    async fn admit_pod(
        &self,
        server: &Server,
        at: usize,
        manifest: &Manifest,
        place: &Place,
        made: pods::Made,
    ) -> Result<Outcome> {
        let namespace = place.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", crate::cluster::segment(namespace));
        let mut headers = HeaderMap::new();
        let account = format!("system:serviceaccount:kube-system:{}", made.account);
        headers.append("impersonate-user", account.parse()?);
        // The groups of a service account.
        for group in ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"] {
            headers.append("impersonate-group", group.parse()?);
        }
        let answer = server.send(Method::POST, &path, &headers, Some(&made.pod)).await?;
        Ok(Outcome { manifest: at, of: format!("pod of {}", manifest.name), verdict: answer.verdict() })
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object without the fields that a stored object has and that a create refuses.
fn without_uid(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(field);
        }
    }
    value
}
