//! Delete and deletecollection, and the deletion of an evicted pod.

use super::attempts;
use super::custom::convert;
use super::list_options::ListOptions;
use super::read;
use super::select::Selection;
use crate::body::Body;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::http::body;
use crate::embedded::http::call::Call;
use crate::embedded::http::respond;
use crate::embedded::store::{self, State, Writer};
use crate::embedded::strategies;
use crate::embedded::strategies::collections::PODS;
use crate::embedded::strategies::deletion::{Deletion, Options, Outcome, commit, planned};
use crate::object::Object;
use crate::processor;
use crate::request::body::{MediaType, WriteOptions};
use crate::status::Status;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Responds to a delete.
///
/// # Errors
/// If the object does not exist, or a precondition fails.
pub(in crate::embedded) async fn delete(call: &Call) -> Result<Response<Body>, Status> {
    let options = options(call, &call.body, body::media_type(call)?)?;
    warn_of(call, &options);
    let (collection, key) = (call.collection(), call.key());
    attempts::expect(call, call.server.store.with(|state| state.bytes_of(collection, &key))).await;
    let outcome = delete_object(call, &key, &options)?.ok_or_else(|| call.not_found())?;
    // `DeleteResource`: a cascade by `orphanDependents`, the old option, has a status code of its own.
    let code = if !outcome.is_deleted && options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let ServedResource { group, name, .. } = &*call.resource;
    if !outcome.is_deleted || call.resource.facts().is_returned(&call.resource.version) {
        let object = convert::shown_to(call, outcome.object).await?;
        return Ok(respond::object(call, code, &object));
    }
    let mut details = json!({"name": outcome.object.name(), "kind": &**name, "uid": outcome.object.uid()});
    if let (false, Some(details)) = (group.is_empty(), details.as_object_mut()) {
        details.insert("group".into(), Value::from(&**group));
    }
    Ok(respond::success(call, code, Some(details)))
}

/// Reads the options of a deletion from the body, or from the query if the body is empty.
///
/// # Errors
/// 400 if they cannot be read.
pub(in crate::embedded) fn options(call: &Call, body: &[u8], media_type: MediaType) -> Result<Options, Status> {
    Ok(Options::of(WriteOptions::for_delete(body, media_type, call.query())?))
}

fn warn_of(call: &Call, options: &Options) {
    let warning = strategies::of(&call.resource).deletion_warning(options);
    warning.into_iter().for_each(|warning| call.warn(warning.to_owned()));
}

/// Deletes an object for a client; `None` if it does not exist.
///
/// # Errors
/// If a precondition fails.
fn delete_object(call: &Call, key: &str, options: &Options) -> Result<Option<Outcome>, Status> {
    let collection = call.collection();
    let plan = |current: &Arc<Object>| {
        strategies::of(&call.resource).check_preconditions(options, &call.resource, current)?;
        Ok(planned(collection, current, options))
    };
    call.change(collection, key, plan, |state, current, deletion| match options.dry_run {
        true => tried(current, deletion),
        false => commit(state, collection, key, current, deletion),
    })
}

/// Responds to a deletecollection with the list of the deleted objects (`Store.DeleteCollection`).
///
/// # Errors
/// If an option is invalid, or a deletion fails.
pub(in crate::embedded) async fn delete_collection(call: &Call) -> Result<Response<Body>, Status> {
    let mut list = ListOptions::of(call)?;
    list.is_read_in_pages = list.limit == 0;
    let options = options(call, &call.body, body::media_type(call)?)?;
    warn_of(call, &options);
    // The work grows with the collection, not with the request.
    processor::expect_long().await;
    let selection = Selection::of(call, &list).with_uninitialized();
    let (metadata, objects) = read::selected(call, &list, &selection).await?;
    for object in &objects {
        // Another request may have deleted the object.
        delete_object(call, &store::key(call.namespace(), object.name()), &options)?;
    }
    Ok(respond::list(call, &metadata, &objects))
}

/// The deletion of a pod for an eviction, after a change of its status (`addConditionAndDeletePod`).
pub(in crate::embedded) struct Eviction {
    changed: Option<Object>,
    deletion: Deletion,
}

impl Eviction {
    /// Computes the eviction without the lock of the store.
    ///
    /// # Errors
    /// If a precondition fails.
    pub(in crate::embedded) fn new(
        call: &Call,
        pod: &Arc<Object>,
        options: &Options,
        change: impl FnOnce(&mut Object),
    ) -> Result<Self, Status> {
        strategies::of(&call.resource).check_preconditions(options, &call.resource, pod)?;
        if options.dry_run {
            return Ok(Self { changed: None, deletion: Deletion::Unchanged });
        }
        let mut changed = Object::clone(pod);
        change(&mut changed);
        let changed = Arc::new(changed);
        let deletion = planned(call.collection(), &changed, options);
        let changed = Some(changed).filter(|changed| changed != pod).and_then(Arc::into_inner);
        Ok(Self { changed, deletion })
    }

    /// Stores the change and the deletion of the pod with this key.
    pub(in crate::embedded) fn commit(self, state: &mut State, key: &str, pod: &Arc<Object>) {
        let pod = self.changed.map_or_else(|| pod.clone(), |changed| state.put(PODS, key, changed));
        commit(state, PODS, key, &pod, self.deletion);
    }
}

/// The outcome of a dry run.
fn tried(current: &Arc<Object>, deletion: Deletion) -> Outcome {
    match deletion {
        Deletion::Gone(last) => Outcome { object: Arc::new(last.into_object()), is_deleted: true },
        Deletion::Marked(object) => Outcome { object: Arc::new(object.into_object()), is_deleted: false },
        Deletion::Unchanged => Outcome { object: current.clone(), is_deleted: false },
    }
}
