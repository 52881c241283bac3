//! A serving certificate in a Secret of the API server, which all replicas of the proxy share and one of them renews.

use crate::server::Reloading;
use crate::server::renewal::{Renewable, RenewalError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The interval of reads of the Secret, which another replica may have renewed.
const INTERVAL: Duration = Duration::from_secs(60);
/// The interval of attempts until the Secret could be read for the first time.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// The number of writes after which a replica leaves the renewal to the others.
const ATTEMPTS: usize = 5;
/// The bound on a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The keys of the Secret, in the order of [`Renewable`].
const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

/// The Secret with the serving certificate. The ConfigMap with the same name holds the authority's certificate for clients.
pub(crate) struct ServingSecret {
    client: kube::Client,
    namespace: String,
    name: String,
    /// The DNS names and IP addresses of the certificate.
    names: Vec<String>,
}

/// The reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServingSecretError {
    /// The API server refused a call, or there was no answer.
    #[error("the {0} {1}: {2}")]
    Call(&'static str, String, #[source] Box<kube::Error>),
    /// A call took too long.
    #[error("the {0} {1}: no answer in {CALL_TIMEOUT:?}")]
    Timeout(&'static str, String),
    /// No certificate can be issued.
    #[error(transparent)]
    Renewal(#[from] RenewalError),
    /// Other replicas wrote the object each time.
    #[error("the {0} {1}: a conflict with another writer in each of {ATTEMPTS} attempts")]
    Conflict(&'static str, String),
}

impl ServingSecret {
    /// Names the Secret.
    pub(crate) fn new(client: kube::Client, namespace: &str, name: &str, names: Vec<String>) -> Self {
        Self { client, namespace: namespace.to_owned(), name: name.to_owned(), names }
    }

    /// Returns the certificate of the Secret. Waits until there is one; writes it if there is none that can be used.
    pub(crate) async fn first(&self) -> Renewable {
        loop {
            match self.current().await {
                Ok(current) => return current,
                Err(error) => tracing::warn!(%error, "no serving certificate yet"),
            }
            tokio::time::sleep(FIRST_INTERVAL).await;
        }
    }

    /// Follows the Secret from this certificate on, as long as the process runs.
    pub(crate) fn follow(self, first: Renewable) -> ServingCertificates {
        let (known, latest) = watch::channel(first);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                match self.current().await {
                    Ok(current) => {
                        known.send_if_modified(|known| {
                            *known != current && {
                                *known = current;
                                true
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the serving certificate cannot be read; the last one stays in use");
                    }
                }
            }
        });
        ServingCertificates(latest)
    }

    /// Returns the certificate of the Secret, after its renewal if that is due.
    async fn current(&self) -> Result<Renewable, ServingSecretError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        for _ in 0..ATTEMPTS {
            let stored = self
                .call("Secret", api.get_opt(&self.name))
                .await?
                .unwrap_or_else(|| Secret { metadata: self.metadata(), ..Secret::default() });
            let current = match read(&stored) {
                None => Renewable::create(&self.names)?,
                Some(known) => match known.renewed(&self.names, Timestamp::now())? {
                    Some(renewed) => renewed,
                    None => return Ok(self.published(known).await),
                },
            };
            if self.written("Secret", &api, with(stored, &current)).await? {
                return Ok(self.published(current).await);
            }
        }
        Err(ServingSecretError::Conflict("Secret", self.shown()))
    }

    /// Returns the certificate, after an attempt to publish its authority. The proxy serves without the ConfigMap too.
    async fn published(&self, current: Renewable) -> Renewable {
        if let Err(error) = self.publish(&current.authorities_pem).await {
            tracing::warn!(%error, "the authority of the serving certificate cannot be published");
        }
        current
    }

    /// Writes the authority's certificate into the ConfigMap, unless it is there.
    async fn publish(&self, authorities_pem: &str) -> Result<(), ServingSecretError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let stored = self.call("ConfigMap", api.get_opt(&self.name)).await?;
        let mut stored = stored.unwrap_or_else(|| ConfigMap { metadata: self.metadata(), ..ConfigMap::default() });
        let data = stored.data.get_or_insert_default();
        if data.get("ca.crt").is_some_and(|known| known == authorities_pem) {
            return Ok(());
        }
        data.insert("ca.crt".to_owned(), authorities_pem.to_owned());
        // After a conflict the next read of the Secret tries again.
        self.written("ConfigMap", &api, stored).await.map(drop)
    }

    /// Creates or replaces an object. Returns false after a conflict with another writer.
    async fn written<K>(&self, kind: &'static str, api: &Api<K>, object: K) -> Result<bool, ServingSecretError>
    where
        K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let exists = object.meta().resource_version.is_some();
        let parameters = PostParams::default();
        let written = match exists {
            true => self.call(kind, api.replace(&self.name, &parameters, &object)).await,
            false => self.call(kind, api.create(&parameters, &object)).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(ServingSecretError::Call(_, _, error)) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(
        &self,
        kind: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ServingSecretError> {
        match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(|error| ServingSecretError::Call(kind, self.shown(), Box::new(error))),
            Err(_) => Err(ServingSecretError::Timeout(kind, self.shown())),
        }
    }

    fn metadata(&self) -> ObjectMeta {
        let (namespace, name) = (Some(self.namespace.clone()), Some(self.name.clone()));
        ObjectMeta { namespace, name, ..ObjectMeta::default() }
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The latest certificate of a Secret. Clones follow the same Secret.
#[derive(Clone)]
pub(crate) struct ServingCertificates(watch::Receiver<Renewable>);

impl ServingCertificates {
    /// Returns certificates that stay as they are.
    #[cfg(test)]
    pub(crate) fn fixed(certificate: Renewable) -> Self {
        Self(watch::channel(certificate).1)
    }

    /// Returns the authorities, as PEM.
    pub(crate) fn authorities_pem(&self) -> String {
        self.0.borrow().authorities_pem.clone()
    }

    /// Makes a value from the certificate, now and after each change. If a later `make` fails, the value stays as it is, and `make` runs
    /// again after a while. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the first `make` fails.
    pub(crate) fn make<T: Send + Sync + 'static, E: std::fmt::Display + Send>(
        &self,
        make: impl Fn(&Renewable) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Reloading<T>, E> {
        let mut latest = self.0.clone();
        let first = latest.borrow_and_update().clone();
        let made = Reloading::fixed(make(&first)?);
        let current = made.shared();
        tokio::spawn(async move {
            while latest.changed().await.is_ok() {
                let renewed = latest.borrow_and_update().clone();
                match make(&renewed) {
                    Ok(made) => {
                        current.store(Arc::new(made));
                        tracing::info!("a new serving certificate");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the new serving certificate cannot be used");
                        tokio::time::sleep(INTERVAL).await;
                        latest.mark_changed();
                    }
                }
            }
        });
        Ok(made)
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Returns the certificate of a Secret that has all keys.
fn read(secret: &Secret) -> Option<Renewable> {
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok()
    };
    let [authorities_pem, authority_key_pem, certificate_pem, key_pem] = KEYS.map(text);
    Some(Renewable {
        authorities_pem: authorities_pem?,
        authority_key_pem: authority_key_pem?,
        certificate_pem: certificate_pem?,
        key_pem: key_pem?,
    })
}

/// Returns the Secret with another certificate.
fn with(mut secret: Secret, renewed: &Renewable) -> Secret {
    let values = [&renewed.authorities_pem, &renewed.authority_key_pem, &renewed.certificate_pem, &renewed.key_pem];
    let data: &mut BTreeMap<_, _> = secret.data.get_or_insert_default();
    for (key, value) in KEYS.into_iter().zip(values) {
        data.insert(key.to_owned(), ByteString(value.clone().into_bytes()));
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, full};
    use crate::upstream::{from_fn, kube_client};
    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// An API server that has one namespace's objects, with conflicts as a kube-apiserver's.
    fn server(objects: Arc<Mutex<HashMap<String, Value>>>) -> kube::Client {
        kube_client(from_fn(move |request: Request<Body>| {
            let objects = objects.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap_or_default();
                let mut path = head.uri.path().to_owned();
                if head.method == Method::POST {
                    path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                }
                let mut objects = objects.lock().unwrap();
                let known = objects.get(&path).cloned();
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                let (code, answer) = match (head.method, known) {
                    (_, Some(known)) if known["refuses"] == true => {
                        (403, json!({"code": 403, "reason": "Forbidden", "message": "", "status": "Failure"}))
                    }
                    (Method::GET, Some(known)) => (200, known),
                    (Method::GET, None) => {
                        (404, json!({"code": 404, "reason": "NotFound", "message": "", "status": "Failure"}))
                    }
                    (Method::POST, Some(_)) => {
                        (409, json!({"code": 409, "reason": "AlreadyExists", "message": "", "status": "Failure"}))
                    }
                    (Method::PUT, Some(known)) if version(&known) != version(&body) => {
                        (409, json!({"code": 409, "reason": "Conflict", "message": "", "status": "Failure"}))
                    }
                    (_, known) => {
                        let next =
                            known.map_or(1, |known| version(&known).as_str().unwrap().parse::<u64>().unwrap() + 1);
                        let mut written = body;
                        written["metadata"]["resourceVersion"] = json!(next.to_string());
                        objects.insert(path, written.clone());
                        (200, written)
                    }
                };
                Ok(Response::builder().status(code).body(full(answer.to_string())).unwrap())
            }
        }))
    }

    const SECRET: &str = "/api/v1/namespaces/proxy/secrets/tls";
    const CONFIG_MAP: &str = "/api/v1/namespaces/proxy/configmaps/tls";

    fn replica(objects: &Arc<Mutex<HashMap<String, Value>>>, names: &[&str]) -> ServingSecret {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ServingSecret::new(server(objects.clone()), "proxy", "tls", names)
    }

    #[tokio::test]
    async fn replicas_share_what_the_first_of_them_wrote() {
        let objects = Arc::default();
        let (one, other) = (replica(&objects, &["proxy.example"]), replica(&objects, &["proxy.example"]));
        let (first, second) = tokio::join!(one.first(), other.first());
        assert!(first == second);
        assert!(one.current().await.unwrap() == first);
        let published = objects.lock().unwrap()[CONFIG_MAP]["data"]["ca.crt"].clone();
        assert_eq!(published, first.authorities_pem);
    }

    #[tokio::test]
    async fn an_empty_secret_is_filled_and_keeps_its_metadata() {
        let objects: Arc<Mutex<HashMap<String, Value>>> = Arc::default();
        let made_by_helm = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "tls", "namespace": "proxy", "resourceVersion": "1", "labels": {"a": "b"}},
        });
        objects.lock().unwrap().insert(SECRET.to_owned(), made_by_helm);
        let current = replica(&objects, &["proxy.example"]).current().await.unwrap();
        let stored = objects.lock().unwrap()[SECRET].clone();
        assert_eq!(stored["metadata"]["labels"]["a"], "b");
        assert!(read(&serde_json::from_value(stored).unwrap()).unwrap() == current);
    }

    #[tokio::test]
    async fn a_config_map_that_cannot_be_written_does_not_keep_the_proxy_from_serving() {
        let objects: Arc<Mutex<HashMap<String, Value>>> = Arc::default();
        objects.lock().unwrap().insert(CONFIG_MAP.to_owned(), json!({"refuses": true}));
        let replica = replica(&objects, &["proxy.example"]);
        assert!(replica.current().await.unwrap() == replica.first().await);
    }

    #[tokio::test]
    async fn a_replica_with_another_name_renews_the_certificate_under_the_same_authority() {
        let objects = Arc::default();
        let first = replica(&objects, &["one.example"]).current().await.unwrap();
        let second = replica(&objects, &["two.example"]).current().await.unwrap();
        assert!(first.certificate_pem != second.certificate_pem && first.authorities_pem == second.authorities_pem);
        assert!(replica(&objects, &["one.example"]).current().await.unwrap() == second);
    }
}
