//! Resources that share their storage under several groups or versions, and the conversion of their objects. Webhooks and
//! policies with `matchPolicy: Equivalent` need both (`admission.ObjectInterfaces`).
//!
//! Conversion follows kube-apiserver: native code (`object/convert.rs`) converts built-in kinds, and the definition's strategy
//! converts custom resources. Conversion neither defaults nor prunes.

mod equivalents;
mod custom;
mod review;
mod versioned;

pub(crate) use crate::admission::metrics::conversions::Metrics;
pub(crate) use custom::{NoAddress, WebhookFault};
pub(crate) use equivalents::Equivalent;
pub(crate) use review::NoObject;
pub(crate) use versioned::{Objects, Versioned};

use crate::backend::{Clients, Kubeconfig, SetupError};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Conversion, ConversionWebhook};
use crate::config::Limits;
use crate::embedded;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::round_trip::RoundTripError;
use crate::object::{Object, convert};
use crate::status::Status;
use async_trait::async_trait;
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;
use tokio::time::Instant;

/// The reason why an object cannot be converted, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    /// The definition of the resource is not known.
    #[error(transparent)]
    Definition(Box<Status>),
    /// No converter knows both kinds, here with their versions.
    #[error("converting ({from}) to ({to}): unknown conversion")]
    Unknown {
        /// The kind of the object.
        from: String,
        /// The wanted kind.
        to: String,
    },
    /// The internal version cannot hold the object.
    #[error(transparent)]
    RoundTrip(#[from] RoundTripError),
    /// The webhook of a stored definition cannot be decoded.
    #[error("spec.conversion.webhook of the definition: {0}")]
    Stored(serde_json::Error),
    /// The webhook has no address.
    #[error("failed calling webhook \"conversion_webhook_for_{definition}\": {why}")]
    NoAddress {
        /// The name of the definition.
        definition: String,
        /// The error of the address.
        why: NoAddress,
    },
    /// There is no client for the webhook's address.
    #[error(transparent)]
    Client(#[from] SetupError),
    /// The webhook supports no known version of the review.
    #[error("no supported conversion review versions")]
    ReviewVersions,
    /// The webhook does not convert the object.
    #[error("conversion webhook for {}/{}, Kind={} {why}", from.group, from.version, from.kind)]
    Webhook {
        /// The kind of the object.
        from: GroupVersionKind,
        /// The fault of the webhook.
        why: WebhookFault,
    },
    /// The webhook's object cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] NoObject),
}

/// The kinds of an object before and after its conversion.
#[derive(Clone, Copy)]
struct Kinds<'a> {
    from: &'a GroupVersionKind,
    to: &'a GroupVersionKind,
}

/// Finds equivalent resources, and converts objects between their kinds.
pub(crate) struct Converter {
    cluster: Arc<Cluster>,
    discovery: Arc<Discovery>,
    /// The HTTP clients of the webhooks that convert custom resources.
    clients: Clients,
    metrics: Metrics,
}

impl Converter {
    /// A converter for the resources of the upstream API server. `limits` bounds the webhooks' answers.
    pub(crate) fn new(cluster: Arc<Cluster>, discovery: Arc<Discovery>, limits: &Limits, metrics: &Metrics) -> Self {
        // Conversion webhooks are called without credentials (`NewDefaultAuthenticationInfoResolver("")`).
        let clients = Clients::new(limits, Kubeconfig::default());
        Self { cluster, discovery, clients, metrics: metrics.clone() }
    }

    /// Converts an object of the resource from the kind `from` to the kind `to` (`admission.ConvertToGVK`).
    ///
    /// # Errors
    /// If the conversion fails or takes longer than the deadline.
    pub(crate) async fn convert(
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
        let definition = self.cluster.find_definition(resource).await;
        let definition = definition.map_err(|status| ConversionError::Definition(Box::new(status)))?;
        let Some(definition) = definition.filter(|definition| definition.version(&to.version).is_some()) else {
            let [from, to] = [from, to].map(|kind| format!("{}.{}", kind.version, kind.kind));
            return Err(ConversionError::Unknown { from, to });
        };
        match &definition.conversion {
            Conversion::None => Ok(custom::as_version(object, to)),
            Conversion::Webhook(webhook) => {
                let name = format!("{}.{}", resource.resource, resource.group);
                let webhook = custom::Webhook::new(&name, webhook, &self.clients)?;
                let started = Instant::now();
                let converted =
                    webhook.convert(&self.cluster, object, Kinds { from, to }, deadline, &self.metrics).await;
                self.metrics.observe_conversion(
                    &name,
                    [&from.version, &to.version],
                    started.elapsed(),
                    converted.is_ok(),
                );
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
        let webhook = ConversionWebhook {
            client_config: match part("clientConfig") {
                Value::Null => Default::default(),
                config => serde_json::from_value(config).map_err(ConversionError::Stored)?,
            },
            review_versions: serde_json::from_value(part("conversionReviewVersions"))
                .map_err(ConversionError::Stored)?,
        };
        let webhook = custom::Webhook::new(definition.name(), &webhook, &self.clients)?;
        let started = Instant::now();
        let deadline = started + custom::TIMEOUT;
        let converted = webhook.convert(&self.cluster, object, Kinds { from, to }, deadline, &self.metrics).await;
        self.metrics.observe_conversion(
            definition.name(),
            [&from.version, &to.version],
            started.elapsed(),
            converted.is_ok(),
        );
        Ok(converted?)
    }
}

#[cfg(test)]
mod tests;
