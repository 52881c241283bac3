//! Watches: a stream of events, one JSON document for each line, or one frame of protobuf.

use super::custom::convert;
use super::list_options::{self, ListOptions};
use super::read;
use super::select::Selection;
use crate::body::{Body, BoxError};
use crate::embedded::http::call::Call;
use crate::embedded::http::negotiate::{self, Form};
use crate::embedded::http::respond::{self, Shown, unread};
use crate::embedded::store::{self, Action, Change, Expired, Signal, Slot, Start, Subscription};
use crate::object::{Object, typed};
use crate::processor;
use crate::status::Status;
use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Responds to a watch; the events follow in the response's body.
///
/// # Errors
/// If the options are invalid. Later errors are events.
pub(in crate::embedded) async fn watch(call: Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::of(&call)?;
    let content_type = negotiate::of_events(call.encoding)?;
    let selection = Selection::of(&call, &options);
    let with_bookmarks = options.allows_bookmarks;
    let initial_events = options.initial_events;
    let wanted = list_options::revision(&options.resource_version).map_err(|error| Status::plain(error.to_string()))?;
    read::check_key(&call)?;
    if let Form::Table(_) = call.form {
        list_options::check_table_options(&call)?;
    }
    if initial_events == Some(true)
        && let Err(status) = call.server.store.with(|state| read::not_in_the_future(wanted, state))
    {
        return Ok(failed(&call, content_type, &status));
    }
    let start = match (initial_events, wanted) {
        (Some(true), _) | (None, 0) => Start::State,
        (Some(false), 0) => Start::Now,
        (_, revision) => Start::After(revision),
    };
    let collection = call.collection();
    let prefix = store::prefix(call.namespace());
    let subscribed = call.server.store.with(|state| state.subscribe(collection, &prefix, start));
    let deadline = Instant::now() + lifetime(&call, options.timeout_seconds);
    let subscription = match subscribed {
        Ok(subscription) => subscription,
        Err(Expired { oldest }) => return Ok(expired(&call, content_type, start, oldest)),
    };
    call.server.store.reached(subscription.revision).await.map_err(unread)?;
    let next_bookmark = Instant::now() + call.server.limits.bookmark_interval;
    let Subscription { state, backlog, signals, revision, id } = subscription;
    let mut watch = Watch {
        selection,
        prefix,
        after: if let Start::After(revision) = start { revision } else { 0 },
        with_bookmarks,
        has_sent_columns: false,
        deadline,
        next_bookmark,
        signals,
        id,
        pending: VecDeque::new(),
        call,
    };
    watch.begin(state, backlog, initial_events == Some(true) && with_bookmarks, revision);
    // An object that its webhook does not convert is an error of the request.
    let first = watch.pending().await?;
    let events = stream::unfold((watch, first), |(mut watch, first)| async move {
        let bytes = match first {
            Some(first) => first,
            None => watch.next().await?,
        };
        Some((Ok::<_, BoxError>(Frame::data(bytes)), (watch, None)))
    });
    let mut response = respond::of_type(StatusCode::OK, content_type, Bytes::new());
    *response.body_mut() = StreamBody::new(events).boxed_unsync();
    Ok(response)
}

struct Watch {
    call: Call,
    selection: Selection,
    prefix: String,
    /// Changes up to this version are not sent, for a client that starts in the future.
    after: u64,
    with_bookmarks: bool,
    has_sent_columns: bool,
    deadline: Instant,
    next_bookmark: Instant,
    signals: tokio::sync::mpsc::Receiver<Signal>,
    id: u64,
    /// Events to send before signals are read: bounded by the objects and the history at the start. An event is encoded when the client takes
    /// it, so that a watch that nobody reads holds what the store shares.
    pending: VecDeque<Pending>,
}

/// An event that is not encoded yet.
enum Pending {
    Object(Slot),
    /// The bookmark after the objects, with this resourceVersion.
    End(u64),
    Change(Arc<Change>),
}

impl Watch {
    fn begin(&mut self, state: Vec<Slot>, backlog: VecDeque<Arc<Change>>, mark_end: bool, revision: u64) {
        self.pending.extend(state.into_iter().map(Pending::Object));
        self.pending.extend(mark_end.then_some(Pending::End(revision)));
        self.pending.extend(backlog.into_iter().map(Pending::Change));
    }

    /// Encodes the next pending event; `None` if none is left.
    ///
    /// # Errors
    /// If a webhook does not convert the object.
    async fn pending(&mut self) -> Result<Option<Bytes>, Status> {
        while let Some(pending) = self.pending.pop_front() {
            let event = match pending {
                Pending::Object(slot) => {
                    let object = convert::shown_to(&self.call, slot.object()).await?;
                    self.selection.matches(&object).then(|| self.event("ADDED", &object))
                }
                Pending::End(revision) => {
                    let annotations = json!({"k8s.io/initial-events-end": "true"});
                    Some(self.bookmark(revision, Some(annotations)))
                }
                Pending::Change(change) => self.change(&change).await?,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // A watch ends with an object that its webhook does not convert.
            if let Some(event) = self.pending().await.ok()? {
                return Some(event);
            }
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return None,
                () = sleep_until(self.next_bookmark), if self.with_bookmarks => {
                    self.next_bookmark = Instant::now() + self.call.server.limits.bookmark_interval;
                    // The progress returns as a signal, after all changes before it.
                    let (collection, id) = (self.call.collection(), self.id);
                    self.call.server.store.with(|state| state.report_progress(collection, id));
                }
                signal = self.signals.recv() => match signal? {
                    Signal::Change(change) => {
                        self.call.server.store.reached(change.revision).await.ok()?;
                        self.pending.push_back(Pending::Change(change));
                    }
                    Signal::Progress(revision) => {
                        self.call.server.store.reached(revision).await.ok()?;
                        return Some(self.bookmark(revision, None));
                    }
                },
            }
        }
    }

    /// Converts a change to the event for a client that sees only selected objects (`cacheWatcher.convertToWatchEvent`).
    ///
    /// # Errors
    /// If a webhook does not convert the object.
    async fn change(&mut self, change: &Change) -> Result<Option<Bytes>, Status> {
        if change.revision <= self.after || !change.key.starts_with(&self.prefix) {
            return Ok(None);
        }
        let object = convert::shown_to(&self.call, change.object.clone()).await?;
        let before = match &change.before {
            Some(before) => Some(convert::shown_to(&self.call, before.clone()).await?),
            None => None,
        };
        Ok(processor::block(change.bytes, || self.event_of(change, object, before)))
    }

    /// The event of a change whose states are in the client's version.
    fn event_of(&mut self, change: &Change, object: Arc<Object>, before: Option<Arc<Object>>) -> Option<Bytes> {
        let was = before.as_ref().is_some_and(|before| self.selection.matches(before));
        let is = change.action != Action::Deleted && self.selection.matches(&object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.event("ADDED", &object)),
            (true, true) => Some(self.event("MODIFIED", &object)),
            (true, false) if change.action == Action::Deleted => Some(self.event("DELETED", &object)),
            // The object is no longer selected: the event has its last selected state, with the version of the change.
            (true, false) => {
                let mut last = Object::clone(before?.as_ref());
                let _ = last.set(&["metadata", "resourceVersion"], Value::from(change.revision.to_string()));
                Some(self.event("DELETED", &last))
            }
        }
    }

    fn event(&mut self, kind: &str, object: &Object) -> Bytes {
        let with_columns = !std::mem::replace(&mut self.has_sent_columns, true);
        respond::event(&self.call, kind, &Shown { call: &self.call, object, with_columns })
    }

    /// A bookmark: an object of the kind with only a resourceVersion, up to which all changes have been sent.
    fn bookmark(&mut self, revision: u64, annotations: Option<Value>) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let (Some(annotations), Some(metadata)) = (annotations, metadata.as_object_mut()) {
            metadata.insert("annotations".into(), annotations);
        }
        let kind = self.call.resource.gvk();
        let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata});
        if self.call.resource.custom.is_none() {
            // Go's empty object of the kind.
            typed::encode(&kind, &mut object);
        }
        match self.call.form {
            // No schema completes the object.
            Form::Object | Form::MetadataList(_) => respond::event(&self.call, "BOOKMARK", &object),
            Form::Table(_) | Form::Metadata(_) => {
                self.event("BOOKMARK", &Object::from_value(object).unwrap_or_default())
            }
        }
    }
}

/// The response to a watch from a version that is too old: an error event (`cacher.newErrWatcher`).
fn expired(call: &Call, content_type: &'static str, start: Start, oldest: u64) -> Response<Body> {
    let wanted = if let Start::After(revision) = start { revision } else { 0 };
    failed(
        call,
        content_type,
        &Status::failure(410, "Expired", format!("too old resource version: {wanted} ({oldest})")),
    )
}

/// The response to a watch that ends with an error at its start.
fn failed(call: &Call, content_type: &'static str, status: &Status) -> Response<Body> {
    let status = serde_json::to_value(status).unwrap_or_default();
    respond::of_type(StatusCode::OK, content_type, respond::event(call, "ERROR", &status))
}

/// The duration of a watch: that of the client, or a random one, so that not all clients reconnect at once.
fn lifetime(call: &Call, seconds: Option<i64>) -> Duration {
    let seconds = seconds.filter(|seconds| *seconds != 0).map(|seconds| u64::try_from(seconds).unwrap_or_default());
    let seconds = seconds.unwrap_or_else(|| {
        let shortest = call.server.limits.watch_timeout.as_secs().max(1);
        rand::random_range(shortest..=shortest.saturating_mul(2))
    });
    // A timer cannot be longer.
    Duration::from_secs(seconds.min(u64::from(u32::MAX)))
}
