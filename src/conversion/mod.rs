//! Resources that share their storage under several groups or versions, and the conversion of their objects. Webhooks and
//! policies with `matchPolicy: Equivalent` need both (`admission.ObjectInterfaces`).
//!
//! Conversion follows kube-apiserver: native code (`object/convert.rs`) converts built-in kinds, and the definition's strategy
//! converts custom resources. Conversion neither defaults nor prunes.

mod equivalents;
mod custom;
mod metrics;
mod review;
mod versioned;

pub use equivalents::{Equivalent, cohabiting_groups};
pub use metrics::Metrics;
pub use versioned::{Objects, Versioned};

use crate::backend::{Clients, Kubeconfig};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Conversion, ConversionWebhook};
use crate::config::Limits;
use crate::embedded;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::round_trip::RoundTripError;
use crate::object::{Object, convert};
use async_trait::async_trait;
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;
use tokio::time::Instant;

/// The reason why an object cannot be converted, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConversionError(String);

impl From<RoundTripError> for ConversionError {
    fn from(why: RoundTripError) -> Self {
        Self(why.to_string())
    }
}

/// The kinds of an object before and after its conversion.
#[derive(Clone, Copy)]
struct Kinds<'a> {
    from: &'a GroupVersionKind,
    to: &'a GroupVersionKind,
}

/// Finds equivalent resources, and converts objects between their kinds.
pub struct Converter {
    cluster: Arc<Cluster>,
    discovery: Arc<Discovery>,
    /// The HTTP clients of the webhooks that convert custom resources.
    clients: Clients,
    metrics: Metrics,
}

impl Converter {
    /// A converter for the resources of the upstream API server. `limits` bounds the webhooks' answers.
    pub fn new(cluster: Arc<Cluster>, discovery: Arc<Discovery>, limits: &Limits, metrics: &Metrics) -> Self {
        // Conversion webhooks are called without credentials (`NewDefaultAuthenticationInfoResolver("")`).
        let clients = Clients::new(limits, Kubeconfig::default());
        Self { cluster, discovery, clients, metrics: metrics.clone() }
    }

    /// Converts an object of the resource from the kind `from` to the kind `to` (`admission.ConvertToGVK`).
    ///
    /// # Errors
    /// If the conversion fails or takes longer than the deadline.
    pub async fn convert(
        &self,
        object: &Object,
        resource: &GroupVersionResource,
        from: &GroupVersionKind,
        to: &GroupVersionKind,
        deadline: Instant,
    ) -> Result<Object, ConversionError> {
        if from == to {
            return Ok(object.clone());
        }
        if let Some(converted) = convert::built_in(object, from, to) {
            return Ok(converted);
        }
        let definition =
            self.cluster.find_definition(resource).await.map_err(|status| ConversionError(status.message))?;
        let Some(definition) = definition.filter(|definition| definition.version(&to.version).is_some()) else {
            let (from_version, to_version) = (&from.version, &to.version);
            return Err(ConversionError(format!(
                "converting ({from_version}.{}) to ({to_version}.{}): unknown conversion",
                from.kind, to.kind
            )));
        };
        match &definition.conversion {
            Conversion::None => Ok(custom::as_version(object, to)),
            Conversion::Webhook(webhook) => {
                let name = format!("{}.{}", resource.resource, resource.group);
                let webhook = custom::Webhook::new(&name, webhook, &self.clients)?;
                let started = Instant::now();
                let converted =
                    webhook.convert(&self.cluster, object, Kinds { from, to }, deadline, &self.metrics).await;
                self.metrics.observe_conversion(&name, Kinds { from, to }, started.elapsed(), converted.is_ok());
                converted
            }
        }
    }
}

/// The conversion of the objects that the embedded API server stores.
#[async_trait]
impl embedded::Webhooks for Converter {
    async fn convert(
        &self,
        definition: &Object,
        object: &Object,
        from: &GroupVersionKind,
        to: &GroupVersionKind,
    ) -> Result<Object, Box<dyn Error + Send + Sync>> {
        let written = definition.get(&["spec", "conversion", "webhook"]);
        let part = |name: &str| written.and_then(|webhook| webhook.get(name)).cloned().unwrap_or_default();
        let unreadable =
            |error: serde_json::Error| ConversionError(format!("spec.conversion.webhook of the definition: {error}"));
        let webhook = ConversionWebhook {
            client_config: match part("clientConfig") {
                Value::Null => Default::default(),
                config => serde_json::from_value(config).map_err(unreadable)?,
            },
            review_versions: serde_json::from_value(part("conversionReviewVersions")).map_err(unreadable)?,
        };
        let webhook = custom::Webhook::new(definition.name(), &webhook, &self.clients)?;
        let started = Instant::now();
        let deadline = started + custom::TIMEOUT;
        let converted = webhook.convert(&self.cluster, object, Kinds { from, to }, deadline, &self.metrics).await;
        self.metrics.observe_conversion(definition.name(), Kinds { from, to }, started.elapsed(), converted.is_ok());
        Ok(converted?)
    }
}

#[cfg(test)]
mod tests;
