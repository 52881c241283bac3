//! Uninitialized objects, as in Kubernetes 1.13: lists and watches hide them, and a create waits until its object is initialized.

use crate::embedded::http::call::Call;
use crate::embedded::store::{self, Action, Change, Signal, Start, State, Subscription};
use crate::embedded::strategies::initial;
use crate::go_text::duration;
use crate::initializers;
use crate::object::Object;
use crate::request::timeout;
use crate::sharer::Sharer;
use crate::status::{Cause, Status, invalid};
use http::StatusCode;
use serde_json::Value;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time that a create without `timeout` waits (`handlers.parseTimeout`).
const TIMEOUT: Duration = Duration::from_secs(30);

/// The creates that wait: at most a fixed number for each user. The service accounts of a namespace are one user.
pub(in crate::embedded) struct Waiting {
    of_one: usize,
    users: Mutex<HashMap<Sharer, usize>>,
}

/// A place among the creates that wait, free again when dropped.
struct Place {
    waiting: Arc<Waiting>,
    user: Sharer,
}

impl Waiting {
    /// No creates, and a bound for each user.
    pub(in crate::embedded) fn new(of_one: usize) -> Self {
        Self { of_one, users: Mutex::default() }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// 429 if the user has no place left.
    fn enter(self: &Arc<Self>, user: Sharer) -> Result<Place, Status> {
        let mut users = self.users();
        let taken = users.entry(user.clone()).or_default();
        if *taken >= self.of_one {
            return Err(Status::try_again_later());
        }
        *taken += 1;
        Ok(Place { waiting: self.clone(), user })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<Sharer, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.waiting.users();
        let Some(taken) = users.get_mut(&self.user) else { return };
        *taken -= 1;
        if *taken == 0 {
            users.remove(&self.user);
        }
    }
}

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
        Ok(Some(Self { timeout, dry_run, _place: call.waiting.enter(Sharer::named(&call.caller.username))? }))
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
    call.initializers && !call.flag("includeUninitialized").unwrap_or(false)
}

/// The code of the response to a create: 202 for an uninitialized object.
pub(in crate::embedded) fn code(call: &Call, created: &Object) -> StatusCode {
    match call.initializers && initializers::is_uninitialized(created) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::CREATED,
    }
}

/// Checks the initializers of a new object.
///
/// # Errors
/// 422 if a name or the result is invalid.
pub(in crate::embedded) fn check_new(call: &Call, object: &Object) -> Result<(), Status> {
    if !call.initializers {
        return Ok(());
    }
    let causes = initializers::invalid_values(object);
    invalid::status(&call.resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// The errors of an update of an object.
pub(in crate::embedded) fn update_causes(call: &Call, object: &Object, current: &Object) -> Vec<Cause> {
    if !call.initializers {
        return Vec::new();
    }
    let is_pod_status = call.collection() == initial::PODS && call.info.subresource == "status";
    if is_pod_status && !initializers::pending(current).is_empty() {
        return vec![invalid::forbidden("status", "must not update status when the object is uninitialized")];
    }
    let mut causes = initializers::invalid_values(object);
    causes.extend(initializers::invalid_change(initializers::of(object), initializers::of(current)));
    // `rest.BeforeUpdate` and the validation of the kind both check the field.
    [causes.clone(), causes].concat()
}

/// Whether the initialization of an object has failed, so that the object is deleted (`shouldDeleteForFailedInitialization`).
pub(in crate::embedded) fn has_failed(call: &Call, object: &Object) -> bool {
    call.initializers && initializers::result(object).is_some()
}
