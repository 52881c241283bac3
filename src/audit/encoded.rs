//! An event in the forms in which backends write it.

use super::event::Event;
use crate::config::AuditTruncate;
use crate::go_text::go_quote;
use jiff::Timestamp;
use std::borrow::Cow;

/// The annotation of an event without its objects (`truncate.annotationKey`).
pub(super) const TRUNCATED_ANNOTATION: &str = "audit.k8s.io/truncated";

/// An event at one of its stages.
pub(crate) struct Encoded<'a> {
    event: &'a Event,
    received: Timestamp,
    json: String,
}

/// The reason why a backend does not write an event.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unencodable {
    #[error("event is too large even after truncating")]
    TooLarge,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl<'a> Encoded<'a> {
    pub(super) fn new(event: &'a Event, received: Timestamp) -> serde_json::Result<Self> {
        Ok(Self { event, received, json: serde_json::to_string(event)? })
    }

    /// The event as JSON.
    #[cfg(test)]
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// The event as JSON for a backend that truncates (`truncate.backend.ProcessEvents`).
    ///
    /// # Errors
    /// If the event is too large without its objects too.
    pub(super) fn truncated(&self, truncate: Option<&AuditTruncate>) -> Result<Cow<'_, str>, Unencodable> {
        // kube-apiserver counts the end of the line too.
        let fits = |json: &str| truncate.is_none_or(|most| (json.len() as u64) < most.event_bytes);
        if fits(&self.json) {
            return Ok(Cow::Borrowed(&self.json));
        }
        if self.event.may_have_objects() {
            let json = serde_json::to_string(&self.event.without_objects())?;
            if fits(&json) {
                return Ok(Cow::Owned(json));
            }
        }
        Err(Unencodable::TooLarge)
    }

    /// The event as a line of text (`audit.EventString`).
    pub(super) fn legacy(&self) -> String {
        let event = self.event;
        let or = |text: &str, otherwise: &str| go_quote(if text.is_empty() { otherwise } else { text });
        let list = |groups: &[String]| groups.iter().map(|group| go_quote(group)).collect::<Vec<_>>().join(",");
        let groups = match event.user.username.is_empty() || event.user.groups.is_empty() {
            true => "<none>".to_owned(),
            false => list(&event.user.groups),
        };
        let (as_user, as_groups) = match &event.impersonated_user {
            Some(user) if user.groups.is_empty() => (user.username.as_str(), "<lookup>".to_owned()),
            Some(user) => (user.username.as_str(), list(&user.groups)),
            None => ("<self>", "<lookup>".to_owned()),
        };
        let namespace = event.object_ref.as_ref().map_or("", |reference| &reference.namespace);
        let response = event.response_status.as_ref().map_or("<deferred>".to_owned(), |status| status.code.to_string());
        let ip = event.source_ips.first().map_or("<unknown>".to_owned(), ToString::to_string);
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} uri={} response=\"{response}\"",
            self.received,
            go_quote(&event.audit_id),
            go_quote(event.stage),
            go_quote(&ip),
            go_quote(&event.verb),
            or(&event.user.username, "<none>"),
            go_quote(&groups),
            go_quote(as_user),
            go_quote(&as_groups),
            go_quote(&event.user_agent),
            or(namespace, "<none>"),
            go_quote(&event.request_uri),
        )
    }
}
