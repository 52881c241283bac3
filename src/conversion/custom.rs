//! Converts custom resources according to their definition (`crConverter`).

use super::review::{self, Metadata};
use super::{ConversionError, Kinds};
use crate::admission::metrics::conversions::{Failure, Metrics};
use crate::backend::{Client, Clients, Endpoint};
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
        let failed = |why: String| {
            ConversionError(format!("failed calling webhook \"conversion_webhook_for_{definition}\": {why}"))
        };
        let endpoint = match (&config.service, config.url.as_deref()) {
            (Some(service), _) => {
                let port = service.port.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT);
                let path = service.path.as_deref().unwrap_or_default();
                Endpoint::service(&service.namespace, &service.name, port, path, ca)
            }
            (None, None | Some("")) => {
                return Err(failed("webhook configuration must have either service or URL".into()));
            }
            (None, Some(url)) => Endpoint::url(url, ca).map_err(|error| failed(format!("Unparsable URL: {error}")))?,
        };
        Ok(Self {
            client: clients.client(endpoint).map_err(|why| ConversionError(why.to_string()))?,
            review_versions: &webhook.review_versions,
        })
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
            return Err(ConversionError("no supported conversion review versions".into()));
        };
        let deadline = deadline.min(started + TIMEOUT);
        let answer = self.client.post(cluster, request.body.clone(), Some(TIMEOUT.as_secs()), deadline).await;
        let answer = answer.map_err(|error| {
            // In Go, the client's own timeout ends such a call and adds this text.
            let text = error.to_string();
            let waits = if text.ends_with("context deadline exceeded") {
                " (Client.Timeout exceeded while awaiting headers)"
            } else {
                ""
            };
            (Failure::Call, format!("{text}{waits}"))
        });
        let webhook = format!("conversion webhook for {}/{}, Kind={}", from.group, from.version, from.kind);
        let objects = answer.and_then(|answer| request.objects(&answer));
        let converted = objects.map_err(|(failure, why)| (failure, format!("{webhook} failed: {why}")));
        let converted = converted.and_then(|objects| converted_object(&webhook, objects, object, from, to));
        metrics.observe_call(started.elapsed(), converted.as_ref().err().map(|(failure, _)| *failure));
        converted.map_err(|(_, why)| ConversionError(why))
    }
}

/// The only object of an answer. It must equal the original, except for the fields that a webhook may change.
fn converted_object(
    webhook: &str,
    mut objects: Vec<Value>,
    original: &Object,
    from: &GroupVersionKind,
    to: &GroupVersionKind,
) -> Result<Object, (Failure, String)> {
    if objects.len() != 1 {
        let why = format!("{webhook} returned {} objects, expected 1", objects.len());
        return Err((Failure::PartialResponse, why));
    }
    let invalid = |why: String| (Failure::InvalidConvertedObject, why);
    let converted = review::object(objects.remove(0)).map_err(|ConversionError(why)| invalid(why))?;
    let wanted = to.api_version();
    if converted.api_version() != wanted {
        let got = converted.api_version();
        return Err(invalid(format!(
            "{webhook} returned invalid object at index 0: invalid groupVersion (expected {wanted}, received {got})"
        )));
    }
    if converted.kind() != from.kind {
        let (expected, got) = (&from.kind, converted.kind());
        return Err(invalid(format!(
            "{webhook} returned invalid object at index 0: invalid kind (expected {expected}, received {got})"
        )));
    }
    let metadata = Metadata { original };
    metadata.check(&converted).map_err(|why| invalid(format!("{webhook} returned invalid object: {why}")))?;
    metadata.restore(converted).map_err(|why| invalid(format!("{webhook} returned invalid metadata: {why}")))
}
