//! Uninitialized objects, as in Kubernetes 1.13: lists and watches hide them, and a create waits until its object is initialized.

use crate::embedded::http::call::Call;
use crate::embedded::store::{self, Action, Change, Signal, Start, State, Subscription};
use crate::embedded::strategies;
use crate::embedded::waiting::Place;
use crate::go_text::duration;
use crate::initializers;
use crate::object::Object;
use crate::request::timeout;
use crate::sharer::Sharer;
use crate::status::{Cause, Status, invalid};
use http::StatusCode;
use serde_json::Value;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// The time that a create without `timeout` waits (`handlers.parseTimeout`).
const TIMEOUT: Duration = Duration::from_secs(30);

/// A create that waits for the initializers of its object (`Store.WaitForInitialized`).
pub(in crate::embedded) struct Wait {
    timeout: Duration,
    dry_run: bool,
    _place: Place,
}

impl Wait {
    /// The wait for the object of a create; `None` if the create need not wait.
    ///
    /// # Errors
    /// 429 if too many creates of the user wait.
    pub(in crate::embedded) fn begin(call: &Call, object: &Object, dry_run: bool) -> Result<Option<Self>, Status> {
        if !are_hidden(call) || !initializers::is_uninitialized(object) {
            return Ok(None);
        }
        let timeout = timeout::asked(call.query()).ok().flatten().unwrap_or(TIMEOUT);
        Ok(Some(Self { timeout, dry_run, _place: call.server.waiting.enter(Sharer::named(&call.caller.username))? }))
    }

    /// Waits until the object is initialized, and returns the object as it is then. `changes` begin at the creation.
    ///
    /// # Errors
    /// If the initialization fails or takes too long, or the object is deleted meanwhile.
    pub(in crate::embedded) async fn end(
        self,
        call: &Call,
        created: Arc<Object>,
        changes: Subscription,
    ) -> Result<Arc<Object>, Status> {
        if let Some(result) = initializers::result(&created) {
            return Err(failure(result));
        }
        let outcome = async {
            match self.dry_run {
                // An object that is not stored is not initialized.
                true => pending().await,
                false => outcome(call, &created, changes).await,
            }
        };
        tokio::time::timeout(self.timeout, outcome).await.unwrap_or_else(|_| {
            let timeout = duration::go(i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX));
            Err(Status::timeout(&format!("request did not complete within requested timeout {timeout}")))
        })
    }
}

/// Subscribes to the changes of the call's collection.
///
/// # Errors
/// Never: the changes start now.
pub(in crate::embedded) fn changes(state: &mut State, call: &Call) -> Result<Subscription, Status> {
    let changes = state.subscribe(call.collection(), "", Start::Now);
    changes.map_err(|_| Status::internal_error("the history of changes has no end"))
}

async fn outcome(call: &Call, created: &Object, mut changes: Subscription) -> Result<Arc<Object>, Status> {
    let key = store::key(call.namespace(), created.name());
    loop {
        while let Some(signal) = changes.signals.recv().await {
            if let Signal::Change(change) = signal
                && change.key == key
                && let Some(outcome) = outcome_of(&change)
            {
                return outcome;
            }
        }
        // The queue was full, so that changes are missing.
        let current;
        (current, changes) = call
            .server
            .store
            .with(|state| Ok::<_, Status>((state.object(call.collection(), &key), self::changes(state, call)?)))?;
        match current.filter(|current| current.uid() == created.uid()) {
            Some(current) if initializers::is_uninitialized(&current) => {}
            Some(current) => return Ok(current),
            None => return Err(deleted()),
        }
    }
}

/// The end of a wait; `None` if the wait goes on.
fn outcome_of(change: &Change) -> Option<Result<Arc<Object>, Status>> {
    match initializers::result(&change.object) {
        Some(result) => Some(Err(failure(result))),
        None if change.action == Action::Deleted => Some(Err(deleted())),
        None => (!initializers::is_uninitialized(&change.object)).then(|| Ok(change.object.clone())),
    }
}

fn deleted() -> Status {
    Status::internal_error("object deleted while waiting for creation")
}

/// The Status that an initializer has set (`errors.FromObject`, `responsewriters.ErrorToAPIStatus`).
fn failure(result: &Value) -> Status {
    let mut status: Status = serde_json::from_value(result.clone())
        .unwrap_or_else(|_| Status::plain(result.get("message").and_then(Value::as_str).unwrap_or_default()));
    status.kind = "Status".to_owned();
    status.api_version = "v1".to_owned();
    if status.status.is_empty() {
        status.status = "Failure".to_owned();
    }
    // A code of another kind is no code of a whole response.
    if !(200..600).contains(&status.code) {
        status.code = 500;
    }
    status
}

/// Whether the call hides uninitialized objects.
pub(in crate::embedded) fn are_hidden(call: &Call) -> bool {
    call.server.settings.initializers && !call.flag("includeUninitialized").unwrap_or(false)
}

/// The code of the response to a create: 202 for an uninitialized object.
pub(in crate::embedded) fn code(call: &Call, created: &Object) -> StatusCode {
    match call.server.settings.initializers && initializers::is_uninitialized(created) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::CREATED,
    }
}

/// Checks the initializers of a new object.
///
/// # Errors
/// 422 if a name or the result is invalid.
pub(in crate::embedded) fn check_new(call: &Call, object: &Object) -> Result<(), Status> {
    if !call.server.settings.initializers {
        return Ok(());
    }
    let causes = initializers::invalid_values(object);
    invalid::status(&call.resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// The errors of an update of an object.
pub(in crate::embedded) fn update_causes(call: &Call, object: &Object, current: &Object) -> Vec<Cause> {
    if !call.server.settings.initializers {
        return Vec::new();
    }
    let is_status = call.info.subresource == "status";
    if is_status
        && strategies::of(&call.resource).is_free_until_initialized()
        && !initializers::pending(current).is_empty()
    {
        return vec![invalid::forbidden("status", "must not update status when the object is uninitialized")];
    }
    let mut causes = initializers::invalid_values(object);
    causes.extend(initializers::invalid_change(initializers::of(object), initializers::of(current)));
    // `rest.BeforeUpdate` and the validation of the kind both check the field.
    [causes.clone(), causes].concat()
}

/// Whether the initialization of an object has failed, so that the object is deleted (`shouldDeleteForFailedInitialization`).
pub(in crate::embedded) fn has_failed(call: &Call, object: &Object) -> bool {
    call.server.settings.initializers && initializers::result(object).is_some()
}
