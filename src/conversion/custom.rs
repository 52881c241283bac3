//! Converts custom resources according to their definition (`crConverter`).

use super::review::{self, InvalidMetadata, Metadata, NoObjects};
use super::{ConversionError, Kinds};
use crate::admission::metrics::conversions::{Failure, Metrics};
use crate::backend::{Client, Clients, Endpoint, InvalidAddress};
use crate::cluster::{Cluster, ConversionWebhook};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use k8s_openapi::ByteString;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time of a webhook call, unless the request's deadline is earlier (`rest.Config.Timeout` of webhooks' clients).
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The default port of a service.
const DEFAULT_PORT: i32 = 443;

/// Copies the object with another apiVersion (`nopConverter`).
pub(super) fn as_version(object: &Object, to: &GroupVersionKind) -> Object {
    let mut converted = object.clone();
    converted.fields_mut().insert("apiVersion".into(), to.api_version().into());
    converted
}

/// The reason why a webhook has no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAddress {
    /// The definition has neither.
    #[error("webhook configuration must have either service or URL")]
    Missing,
    /// The URL is invalid.
    #[error("Unparsable URL: {0}")]
    Url(InvalidAddress),
}

/// The fault of a webhook that does not convert an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookFault {
    /// The call gives no objects.
    #[error("failed: {0}")]
    Call(#[from] NoObjects),
    /// The answer has so many objects.
    #[error("returned {0} objects, expected 1")]
    Count(usize),
    /// The object has another apiVersion.
    #[error("returned invalid object at index 0: invalid groupVersion (expected {wanted}, received {got})")]
    Version {
        /// The wanted apiVersion.
        wanted: String,
        /// The apiVersion of the object.
        got: String,
    },
    /// The object has another kind.
    #[error("returned invalid object at index 0: invalid kind (expected {wanted}, received {got})")]
    Kind {
        /// The wanted kind.
        wanted: String,
        /// The kind of the object.
        got: String,
    },
    /// The object is another one.
    #[error("returned invalid object: must have the same {what}: {before} != {after}")]
    Identity {
        /// The name of the field.
        what: &'static str,
        /// The value in the original object.
        before: String,
        /// The value in the converted object.
        after: String,
    },
    /// The object's metadata is invalid.
    #[error("returned invalid metadata: {0}")]
    Metadata(#[from] InvalidMetadata),
}

impl ConversionError {
    /// The label of a failed call in metrics.
    fn label(&self) -> Failure {
        let Self::Webhook { why, .. } = self else { return Failure::InvalidConvertedObject };
        match why {
            WebhookFault::Call(why) if why.is_of_call() => Failure::Call,
            WebhookFault::Call(_) => Failure::MalformedResponse,
            WebhookFault::Count(_) => Failure::PartialResponse,
            _ => Failure::InvalidConvertedObject,
        }
    }
}

/// A conversion webhook (`webhookConverter`).
pub(super) struct Webhook<'a> {
    client: Arc<Client>,
    review_versions: &'a [String],
}

impl<'a> Webhook<'a> {
    /// The webhook of the named definition.
    ///
    /// # Errors
    /// If the webhook has no address, or its certificates are unusable.
    pub(super) fn new(
        definition: &str,
        webhook: &'a ConversionWebhook,
        clients: &Clients,
    ) -> Result<Self, ConversionError> {
        let config = &webhook.client_config;
        let ByteString(ca) = config.ca_bundle.clone().unwrap_or_default();
        // A CA bundle of white space counts as missing.
        let ca = if ca.trim_ascii().is_empty() { Vec::new() } else { ca };
        let failed = |why| ConversionError::NoAddress { definition: definition.to_owned(), why };
        let endpoint = match (&config.service, config.url.as_deref()) {
            (Some(service), _) => {
                let port = service.port.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT);
                let path = service.path.as_deref().unwrap_or_default();
                Endpoint::service(&service.namespace, &service.name, port, path, ca)
            }
            (None, None | Some("")) => return Err(failed(NoAddress::Missing)),
            (None, Some(url)) => Endpoint::url(url, ca).map_err(|why| failed(NoAddress::Url(why)))?,
        };
        Ok(Self { client: clients.client(endpoint)?, review_versions: &webhook.review_versions })
    }

    /// Calls the webhook to convert the object.
    ///
    /// # Errors
    /// If the call fails, or the answer is invalid.
    pub(super) async fn convert(
        &self,
        cluster: &Cluster,
        object: &Object,
        Kinds { from, to }: Kinds<'_>,
        deadline: Instant,
        metrics: &Metrics,
    ) -> Result<Object, ConversionError> {
        let started = Instant::now();
        let Some(request) = review::request(self.review_versions, object, to) else {
            return Err(ConversionError::ReviewVersions);
        };
        let deadline = deadline.min(started + TIMEOUT);
        let answer = self.client.post(cluster, request.body.clone(), Some(TIMEOUT.as_secs()), deadline).await;
        let objects = answer.map_err(NoObjects::NoAnswer).and_then(|answer| request.objects(&answer));
        let of_webhook = |why| ConversionError::Webhook { from: from.clone(), why };
        let converted = objects
            .map_err(|why| of_webhook(why.into()))
            .and_then(|objects| converted_object(objects, object, Kinds { from, to }, &of_webhook));
        metrics.observe_call(started.elapsed(), converted.as_ref().err().map(ConversionError::label));
        converted
    }
}

/// The only object of an answer. It must equal the original, except for the fields that a webhook may change.
fn converted_object(
    mut objects: Vec<Value>,
    original: &Object,
    Kinds { from, to }: Kinds<'_>,
    of_webhook: &impl Fn(WebhookFault) -> ConversionError,
) -> Result<Object, ConversionError> {
    if objects.len() != 1 {
        return Err(of_webhook(WebhookFault::Count(objects.len())));
    }
    let converted = review::object(objects.remove(0))?;
    let wanted = to.api_version();
    if converted.api_version() != wanted {
        let got = converted.api_version().to_owned();
        return Err(of_webhook(WebhookFault::Version { wanted, got }));
    }
    if converted.kind() != from.kind {
        let (wanted, got) = (from.kind.clone(), converted.kind().to_owned());
        return Err(of_webhook(WebhookFault::Kind { wanted, got }));
    }
    let metadata = Metadata { original };
    metadata.check(&converted).map_err(of_webhook)?;
    metadata.restore(converted).map_err(|why| of_webhook(why.into()))
}
