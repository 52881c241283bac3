//! The CA bundles of the proxy's own webhook configurations: the authority of the serving certificate that the proxy makes, which
//! the author of the configurations does not know.

use super::keeping::{Keeper, Keeping};
use crate::body::chain;
use crate::server::health::Unhealthy;
use crate::upstream::ServingCertificates;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// A task that keeps the CA bundles. Dropping the value ends it; the configurations stay.
#[derive(Debug)]
pub(crate) struct CaBundles(Keeping);

impl CaBundles {
    /// Compares the bundles in the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of this name with the authorities of
    /// the certificates at once, and then again every `every`. A missing configuration is left out. `patience` bounds one call. Must
    /// be called inside a tokio runtime.
    pub(crate) fn keep(
        client: Client,
        name: String,
        certificates: ServingCertificates,
        every: Duration,
        patience: Duration,
    ) -> Self {
        Self(Keeping::start(Bundles { client, name, certificates, patience }, every))
    }

    /// Checks that all bundles were those of the proxy the last time.
    ///
    /// # Errors
    /// If the last comparison failed, with the reason.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        self.0.check()
    }
}

struct Bundles {
    client: Client,
    name: String,
    certificates: ServingCertificates,
    patience: Duration,
}

impl Keeper for Bundles {
    const WHAT: &'static str = "the CA bundles of the webhook configurations";

    async fn round(&mut self) -> Result<(), Unhealthy> {
        let mutating = self.keep_in(|configuration: &MutatingWebhookConfiguration| {
            let hooks = configuration.webhooks.iter().flatten();
            hooks.map(|hook| (hook.name.clone(), hook.client_config.clone())).collect()
        });
        let mutating = mutating.await;
        let validating = self.keep_in(|configuration: &ValidatingWebhookConfiguration| {
            let hooks = configuration.webhooks.iter().flatten();
            hooks.map(|hook| (hook.name.clone(), hook.client_config.clone())).collect()
        });
        mutating.and(validating.await)
    }
}

impl Bundles {
    /// Writes the bundle into the webhooks of a configuration that have another one.
    async fn keep_in<K>(
        &self,
        webhooks: impl Fn(&K) -> Vec<(String, WebhookClientConfig)> + Send,
    ) -> Result<(), Unhealthy>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let Some(stored) = self.call(api.get_opt(&self.name)).await? else { return Ok(()) };
        let bundle = ByteString(self.certificates.authorities_pem().into_bytes());
        let others = webhooks(&stored).into_iter().filter(|(_, client)| client.ca_bundle.as_ref() != Some(&bundle));
        let changed: Vec<_> =
            others.map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": &bundle}})).collect();
        if changed.is_empty() {
            return Ok(());
        }
        // Webhooks are merged by their names. Other fields stay with the managers that wrote them.
        let patch = Patch::Strategic(json!({"webhooks": changed}));
        self.call(api.patch(&self.name, &PatchParams::default(), &patch)).await?;
        tracing::info!(kind = %K::kind(&()), name = self.name, "wrote the CA bundle");
        Ok(())
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
    use crate::server::renewal::Renewable;
    use crate::upstream::{from_fn, kube_client};
    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use serde_json::Value;
    use std::sync::{Arc, Mutex};

    /// An API server with one configuration of two webhooks. Patches are recorded, and the first webhook gets their bundle.
    fn server(configuration: &Arc<Mutex<Value>>, patches: &Arc<Mutex<Vec<Value>>>) -> Client {
        let (configuration, patches) = (configuration.clone(), patches.clone());
        kube_client(from_fn(move |request: Request<Body>| {
            let (configuration, patches) = (configuration.clone(), patches.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                if !head.uri.path().ends_with("/mutatingwebhookconfigurations/proxy") {
                    let missing = json!({"code": 404, "reason": "NotFound", "message": "", "status": "Failure"});
                    return Ok(Response::builder().status(404).body(full(missing.to_string())).unwrap());
                }
                let mut stored = configuration.lock().unwrap();
                if head.method == Method::PATCH {
                    assert_eq!(head.headers["content-type"], "application/strategic-merge-patch+json");
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    stored["webhooks"][0]["clientConfig"]["caBundle"] =
                        patch["webhooks"][0]["clientConfig"]["caBundle"].clone();
                    patches.lock().unwrap().push(patch);
                }
                Ok(Response::new(full(stored.to_string())))
            }
        }))
    }

    #[tokio::test]
    async fn webhooks_without_the_bundle_get_it() {
        let certificate = Renewable::create(&["proxy.example".to_owned()]).unwrap();
        let bundle = json!(ByteString(certificate.authorities_pem.clone().into_bytes()));
        let hook = |name: &str, bundle: Value| json!({"name": name, "clientConfig": {"caBundle": bundle}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        let configuration = json!({
            "metadata": {"name": "proxy"}, "webhooks": [hook("a.example.com", Value::Null), hook("b.example.com", bundle.clone())],
        });
        let (configuration, patches) = (Arc::new(Mutex::new(configuration)), Arc::new(Mutex::new(Vec::new())));
        let mut bundles = Bundles {
            client: server(&configuration, &patches),
            name: "proxy".to_owned(),
            certificates: ServingCertificates::fixed(certificate),
            patience: Duration::from_secs(5),
        };
        bundles.round().await.unwrap();
        let expected = json!({"webhooks": [{"name": "a.example.com", "clientConfig": {"caBundle": bundle}}]});
        assert_eq!(std::mem::take(&mut *patches.lock().unwrap()), [expected]);
        bundles.round().await.unwrap();
        assert!(patches.lock().unwrap().is_empty());
    }
}
