//! ServiceAccount: assigns a service account to every pod, mounts its token, and restricts the secrets that the pod may use.

mod secrets;
mod token;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need, ServiceAccount as Account};
use crate::object::{Object, check_path_segment};
use crate::plugins::rules::pod::references_secrets;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ServiceAccount",
    default_on: true,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "ephemeralcontainers")]),
    needs: &[Need::SERVICE_ACCOUNTS],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives pods their service account, its token and its image pull secrets.",
    build: |environment| Ok(Box::new(ServiceAccount(environment.cluster.clone()))),
};

const DEFAULT: &str = "default";
const NAME: [&str; 2] = ["spec", "serviceAccountName"];
/// The former name of `serviceAccountName`; the API sets both to one value.
const DEPRECATED_NAME: [&str; 2] = ["spec", "serviceAccount"];
const MIRROR: [&str; 3] = ["metadata", "annotations", "kubernetes.io/config.mirror"];
/// The number of lookups of the account `default`, which a controller creates.
const DEFAULT_ATTEMPTS: usize = 10;

struct ServiceAccount(Arc<Cluster>);

#[async_trait]
impl Plugin for ServiceAccount {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if !completes_pod(attributes) {
            return Ok(());
        }
        let Some(pod) = &mut attributes.object else { return Ok(()) };
        if is_mirror(pod) {
            return check_mirror(pod);
        }
        if pod.str(&NAME).is_empty() && !(pod.set(&NAME, DEFAULT.into()) && pod.set(&DEPRECATED_NAME, DEFAULT.into())) {
            return Err(Denial::forbidden("spec: not an object"));
        }
        let account = self.account(&attributes.namespace, pod.str(&NAME)).await?;
        let own = pod.get(&["spec", "automountServiceAccountToken"]).and_then(Value::as_bool);
        if own.or(account.automount_token).unwrap_or(true) {
            token::mount(pod).map_err(Denial::forbidden)?;
        }
        let secrets = ["spec", "imagePullSecrets"];
        if pod.items(&secrets).is_empty() && !account.image_pull_secrets.is_empty() {
            let named = account.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
            if !pod.set(&secrets, Value::Array(named)) {
                return Err(Denial::forbidden("spec: not an object"));
            }
        }
        check_secrets(pod, &account)
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(pod) = &attributes.object else { return Ok(()) };
        let is_debugging = attributes.operation == Operation::Update && attributes.subresource == "ephemeralcontainers";
        if !completes_pod(attributes) && !is_debugging {
            return Ok(());
        }
        if is_mirror(pod) && !is_debugging {
            return check_mirror(pod);
        }
        let name = pod.str(&NAME);
        if name.is_empty() {
            let (namespace, pod) = (&attributes.namespace, pod.name());
            return Err(Denial::forbidden(format!("no service account specified for pod {namespace}/{pod}")));
        }
        let account = self.account(&attributes.namespace, name).await?;
        match is_debugging {
            false => check_secrets(pod, &account),
            // In kube-apiserver, this error is not a Status.
            true if enforces_mountable_secrets(&account) => {
                secrets::of_debug_containers(pod, &account).map_err(|why| Denial::Plain(why.to_string()))
            }
            true => Ok(()),
        }
    }
}

impl ServiceAccount {
    /// The account, from the cache or from the API server. The lookup of `default` is retried, because the account may not exist yet.
    async fn account(&self, namespace: &str, name: &str) -> Result<Arc<Account>, Denial> {
        if let Some(account) = self.0.find::<Account>(namespace, name) {
            return Ok(account);
        }
        let looking_up = |why: &dyn Display| {
            Denial::forbidden(format!("error looking up service account {namespace}/{name}: {why}"))
        };
        // client-go refuses such a name before it sends a request.
        check_path_segment(name).map_err(|why| looking_up(&why))?;
        // Jitter, so that concurrent requests do not retry together.
        let interval = Duration::from_millis(rand::random_range(100..200));
        for attempt in 0..if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 } {
            if attempt > 0 {
                tokio::time::sleep(interval).await;
            }
            match self.0.find_live::<Account>(namespace, name).await {
                Ok(Some(account)) => return Ok(account),
                Ok(None) => {}
                Err(status) => return Err(looking_up(&status.message)),
            }
        }
        Err(looking_up(&format_args!("serviceaccount {name:?} not found")))
    }
}

/// Whether the request creates a pod, or updates a pod that has not been initialized, to which an initializer may add containers.
fn completes_pod(attributes: &Attributes) -> bool {
    attributes.operation == Operation::Create || attributes.subresource.is_empty() && attributes.updates_uninitialized()
}

/// Whether the pod is a mirror pod, which represents a static pod of a kubelet.
fn is_mirror(pod: &Object) -> bool {
    pod.get(&MIRROR).is_some()
}

fn check_mirror(pod: &Object) -> Result<(), Denial> {
    if !pod.str(&NAME).is_empty() {
        return Err(Denial::forbidden("a mirror pod may not reference service accounts"));
    }
    if references_secrets(pod) {
        return Err(Denial::forbidden("a mirror pod may not reference secrets"));
    }
    let sources = |volume: &'_ Value| volume.get("projected").and_then(|one| one.get("sources")?.as_array().cloned());
    let has_token = |source: &Value| source.get("serviceAccountToken").is_some_and(|token| !token.is_null());
    if pod.items(&["spec", "volumes"]).iter().filter_map(sources).flatten().any(|source| has_token(&source)) {
        return Err(Denial::forbidden("a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

fn check_secrets(pod: &Object, account: &Account) -> Result<(), Denial> {
    if !enforces_mountable_secrets(account) {
        return Ok(());
    }
    secrets::of_pod(pod, account).map_err(Denial::forbidden)
}

/// Whether the annotation `enforce-mountable-secrets` is true, as `strconv.ParseBool` reads it.
fn enforces_mountable_secrets(account: &Account) -> bool {
    ["1", "t", "T", "true", "TRUE", "True"].contains(&&*account.enforce_mountable_secrets)
}

#[cfg(test)]
mod tests;
