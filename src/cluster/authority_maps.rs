//! ConfigMaps with the authorities of the proxy's serving certificate, in the namespaces whose pods use the proxy. The proxy writes them
//! as itself, as kube-controller-manager writes `kube-root-ca.crt`.

use super::keeping::{Keeper, Keeping};
use crate::body::chain;
use crate::server::health::Unhealthy;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// The label by which a namespace asks for in-cluster clients that use the proxy, and by which a pod declines.
pub(crate) const INJECT_LABEL: &str = "inject.kube-admission-proxy.dev/clients";
/// The name of the ConfigMaps.
pub(crate) const AUTHORITY_CONFIG_MAP: &str = "kube-admission-proxy-ca";
/// The key of the authorities, that of `kube-root-ca.crt`.
const KEY: &str = "ca.crt";
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// A task that keeps the ConfigMaps. Dropping the value ends it; the ConfigMaps stay.
#[derive(Debug)]
pub(crate) struct AuthorityMaps(Keeping);

impl AuthorityMaps {
    /// Compares the ConfigMaps with the file at once, and then again every `every`. `patience` bounds one call. Must be called inside a
    /// tokio runtime.
    pub(crate) fn keep(client: Client, file: PathBuf, every: Duration, patience: Duration) -> Self {
        Self(Keeping::start(Maps { client, file, patience, authorities: String::new(), seen: HashMap::new() }, every))
    }

    /// Checks that all ConfigMaps were as the file the last time.
    ///
    /// # Errors
    /// If the last comparison failed, with the reason.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        self.0.check()
    }
}

struct Maps {
    client: Client,
    file: PathBuf,
    patience: Duration,
    authorities: String,
    /// The resourceVersion of each ConfigMap that has the authorities, by namespace.
    seen: HashMap<String, String>,
}

impl Keeper for Maps {
    const WHAT: &'static str = "the ConfigMaps with the proxy's authorities";

    async fn round(&mut self) -> Result<(), Unhealthy> {
        let authorities = tokio::fs::read_to_string(&self.file).await;
        let authorities =
            authorities.map_err(|error| Unhealthy::of(format_args!("{}: {error}", self.file.display())))?;
        if authorities != self.authorities {
            self.seen.clear();
            self.authorities = authorities;
        }
        let namespaces = self.namespaces().await?;
        let maps = self.maps().await?;
        self.seen.retain(|namespace, version| maps.get(namespace) == Some(version));
        let mut failure = Ok(());
        for namespace in namespaces {
            if self.seen.contains_key(&namespace) {
                continue;
            }
            match self.write(&namespace, maps.contains_key(&namespace)).await {
                Ok(version) => {
                    self.seen.insert(namespace, version);
                }
                Err(reason) => failure = Err(Unhealthy::of(format_args!("namespace {namespace}: {reason}"))),
            }
        }
        failure
    }
}

impl Maps {
    /// The namespaces that have the label and are not terminating.
    async fn namespaces(&self) -> Result<Vec<String>, Unhealthy> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let mut parameters = ListParams::default().labels(&format!("{INJECT_LABEL}=true")).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = self.call(api.list_metadata(&parameters)).await?;
            let alive = page.items.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
            found.extend(alive.map(ResourceExt::name_any));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// The resourceVersions of all ConfigMaps of the name, by namespace.
    async fn maps(&self) -> Result<HashMap<String, String>, Unhealthy> {
        let api: Api<ConfigMap> = Api::all(self.client.clone());
        let mut parameters = ListParams::default().fields(&format!("metadata.name={AUTHORITY_CONFIG_MAP}")).limit(PAGE);
        let mut found = HashMap::new();
        loop {
            let page = self.call(api.list_metadata(&parameters)).await?;
            let versions = page
                .items
                .iter()
                .map(|map| (map.namespace().unwrap_or_default(), map.resource_version().unwrap_or_default()));
            found.extend(versions);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Writes the authorities unless the ConfigMap has them. Returns the resourceVersion of the ConfigMap.
    async fn write(&self, namespace: &str, exists: bool) -> Result<String, Unhealthy> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams::default();
        let data = Some(BTreeMap::from([(KEY.to_owned(), self.authorities.clone())]));
        if !exists {
            let metadata = ObjectMeta { name: Some(AUTHORITY_CONFIG_MAP.to_owned()), ..ObjectMeta::default() };
            let new = ConfigMap { data, metadata, ..ConfigMap::default() };
            return Ok(self.call(api.create(&parameters, &new)).await?.resource_version().unwrap_or_default());
        }
        let mut stored = self.call(api.get(AUTHORITY_CONFIG_MAP)).await?;
        if stored.data != data || stored.binary_data.is_some() {
            (stored.data, stored.binary_data) = (data, None);
            stored = self.call(api.replace(AUTHORITY_CONFIG_MAP, &parameters, &stored)).await?;
        }
        Ok(stored.resource_version().unwrap_or_default())
    }

    async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Unhealthy> {
        match timeout(self.patience, call).await {
            Ok(answer) => answer.map_err(|error| Unhealthy::of(chain(&error))),
            Err(_) => Err(Unhealthy::of("no answer in time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, full};
    use crate::upstream::{from_fn, kube_client};
    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use std::sync::{Arc, Mutex};

    /// An API server with two labelled namespaces, and its ConfigMaps by namespace.
    fn server(maps: &Arc<Mutex<BTreeMap<String, Value>>>, writes: &Arc<Mutex<Vec<String>>>) -> Client {
        let (maps, writes) = (maps.clone(), writes.clone());
        kube_client(from_fn(move |request: Request<Body>| {
            let (maps, writes) = (maps.clone(), writes.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let mut maps = maps.lock().unwrap();
                let list = |kind: &str, items: Vec<Value>| json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {}, "items": items});
                let namespace =
                    head.uri.path().strip_prefix("/api/v1/namespaces/").and_then(|rest| rest.split('/').next());
                let answer = match (&head.method, namespace) {
                    (&Method::GET, None) if head.uri.path() == "/api/v1/namespaces" => {
                        assert!(head.uri.query().unwrap().contains("labelSelector=inject.kube-admission-proxy.dev"));
                        list(
                            "PartialObjectMetadataList",
                            ["a", "b"].map(|name| json!({"metadata": {"name": name}})).into(),
                        )
                    }
                    (&Method::GET, None) => list(
                        "PartialObjectMetadataList",
                        maps.values().map(|map| json!({"metadata": map["metadata"]})).collect(),
                    ),
                    (&Method::GET, Some(namespace)) => maps[namespace].clone(),
                    (_, Some(namespace)) => {
                        let mut writes = writes.lock().unwrap();
                        writes.push(format!("{} {namespace}", head.method));
                        let mut map: Value = serde_json::from_slice(&body).unwrap();
                        map["metadata"]["namespace"] = namespace.into();
                        map["metadata"]["resourceVersion"] = (writes.len() + 1).to_string().into();
                        maps.insert(namespace.to_owned(), map.clone());
                        map
                    }
                    _ => panic!("{head:?}"),
                };
                Ok(Response::new(full(answer.to_string())))
            }
        }))
    }

    #[tokio::test]
    async fn every_labelled_namespace_has_the_authorities_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        std::fs::write(&file, "one").unwrap();
        let foreign = json!({"metadata": {"name": AUTHORITY_CONFIG_MAP, "namespace": "b", "resourceVersion": "1"}, "data": {"ca.crt": "x"}});
        let maps = Arc::new(Mutex::new(BTreeMap::from([("b".to_owned(), foreign.clone())])));
        let writes = Arc::new(Mutex::new(Vec::new()));
        let client = server(&maps, &writes);
        let patience = Duration::from_secs(5);
        let mut keeper =
            Maps { client, file: file.clone(), patience, authorities: String::new(), seen: HashMap::new() };
        let written = |data: &str, expected: &[&str]| {
            assert_eq!(std::mem::take(&mut *writes.lock().unwrap()), expected);
            assert!(maps.lock().unwrap().values().all(|map| map["data"] == json!({"ca.crt": data})));
        };
        keeper.round().await.unwrap();
        written("one", &["POST a", "PUT b"]);
        keeper.round().await.unwrap();
        written("one", &[]);
        maps.lock().unwrap().insert("b".to_owned(), foreign);
        keeper.round().await.unwrap();
        written("one", &["PUT b"]);
        std::fs::write(&file, "two").unwrap();
        keeper.round().await.unwrap();
        written("two", &["PUT a", "PUT b"]);
        std::fs::remove_file(&file).unwrap();
        assert!(keeper.round().await.unwrap_err().to_string().contains("ca.crt"));
    }
}
