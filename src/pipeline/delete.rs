//! DELETE of one object.

use super::Exchange;
use super::deletion::{Deletion, admitted_states};
use super::gateway::Answer;
use super::unknown_fields;
use super::write::{Attempts, Write, is_conflict};
use crate::admission::Operation;
use crate::body::Body;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::request::body::{MediaType, OptionsKind, WriteOptions};
use crate::status::Status;
use bytes::Bytes;
use http::Response;
use serde_json::Value;
use std::sync::Arc;

/// The warning for the deletion of a job without a propagation policy, given before admission (`REST.Delete` of jobs).
const KEPT_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                         remove them or set propagationPolicy=Orphan to suppress this warning";

/// The deletion of one object in progress.
pub(super) struct Delete<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Delete<'_> {
    /// Admits and deletes the object. After a conflict with the proxy's own resourceVersion, retries with the fresh object.
    pub(super) async fn run(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let options = delete_options(self.write, exchange)?;
        let mut attempts = Attempts::new(&self.write.pipeline.limits);
        loop {
            let old = self.write.old_object().await?.ok_or_else(|| self.write.not_found())?;
            let version = old.resource_version().to_owned();
            check_preconditions(self.write, &options, &old, Deletion::OfOne)?;
            let (answer, retry) = self.delete_existing(&options, old, exchange).await?;
            if !retry || !attempts.start_over(self.write, &version).await {
                return Ok(answer.into_response());
            }
        }
    }

    async fn delete_existing(
        &self,
        options: &Object,
        mut old: Object,
        exchange: &mut Exchange,
    ) -> Result<(Answer, bool), Status> {
        unknown_fields::hide(self.write, &mut old);
        let old = Arc::new(old);
        let outgoing = self.write.outgoing(delete_body(options, &old, Pinned::Version)?);
        let shown = completed(self.write.target.kind(), options, &old, Deletion::OfOne);
        for state in admitted_states(self.write.target.kind(), &shown, &old, Deletion::OfOne) {
            let mut attributes = self.write.attributes(Operation::Delete, None, Some(state), shown.clone());
            self.write.admit(&mut attributes, exchange).await?;
            self.write.validate(&mut attributes, exchange).await?;
        }
        let mut answer = self.write.forward(outgoing).await?;
        if lost_the_version(&answer, options, &old) {
            answer = self.write.forward(self.write.outgoing(delete_body(options, &old, Pinned::Uid)?)).await?;
        }
        let retry = is_conflict(&answer) && !names_a_version(options);
        Ok((answer, retry))
    }
}

/// Reads the DeleteOptions from the body, or from the query if there is no body.
pub(super) fn delete_options(write: &Write<'_>, exchange: &mut Exchange) -> Result<Object, Status> {
    let media_type = if write.body.is_empty() { MediaType::Json } else { write.media_type()? };
    let query = write.parts.uri.query().unwrap_or_default();
    let options = WriteOptions::for_delete(&write.body, media_type, query)?.as_options_object(OptionsKind::Delete);
    if let (Some(event), false) = (&mut exchange.event, write.body.is_empty()) {
        event.set_request_object(&options);
    }
    let (group, kind) = (&*write.target.kind().group, &*write.target.kind().kind);
    let says = |field: &str| options.get(&[field]).is_some_and(|value| !value.is_null());
    if (group, kind) == ("batch", "Job") && !says("propagationPolicy") && !says("orphanDependents") {
        write.warnings.add(KEPT_PODS);
    }
    Ok(options)
}

/// Checks the preconditions: a mismatch is a 409 before any plugin runs (`rest.BeforeDelete`).
pub(super) fn check_preconditions(
    write: &Write<'_>,
    options: &Object,
    old: &Object,
    deletion: Deletion,
) -> Result<(), Status> {
    let said = |field: &str| options.get(&["preconditions", field]).and_then(Value::as_str);
    let kind = write.target.kind();
    for (field, name, stored, fate) in [
        ("uid", "UID", old.uid(), "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", old.resource_version(), "modified"),
    ] {
        let Some(wanted) = said(field).filter(|wanted| *wanted != stored) else { continue };
        if deletion == Deletion::OfOne && is_deleted_in_its_own_way(kind) {
            return Err(write.conflict(&format!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {stored}"
            )));
        }
        let why = format!(
            "the {name} in the precondition ({wanted}) does not match the {name} in record ({stored}). The object might have been {fate}"
        );
        // The API server names the kind here, not the resource.
        return Err(Status::conflict(&kind.group, &kind.kind, old.name(), &why));
    }
    Ok(())
}

/// The precondition on the admitted object that a delete carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pinned {
    /// The uid and the resourceVersion.
    Version,
    /// Only the uid.
    Uid,
}

/// Builds DeleteOptions that delete only the admitted object.
pub(super) fn delete_body(options: &Object, old: &Object, what: Pinned) -> Result<Bytes, Status> {
    let mut options = options.clone();
    let version = Value::from(old.resource_version());
    let pinned = options.set(&["preconditions", "uid"], Value::from(old.uid()))
        && (what == Pinned::Uid || options.set(&["preconditions", "resourceVersion"], version))
        && options.set(&["kind"], Value::from("DeleteOptions"))
        && options.set(&["apiVersion"], Value::from("v1"));
    if !pinned {
        return Err(Status::bad_request("preconditions is not an object"));
    }
    serde_json::to_vec(&options).map(Bytes::from).map_err(Status::internal_error)
}

/// Whether the API server found the admitted version of the object, and lost that version on the way. A delete with a
/// resourceVersion always ends so if its options remove the last finalizer: `Store.Delete` deletes the object without an update,
/// and then compares the empty version of the omitted update. The client sees this error only if the client named a version;
/// otherwise the proxy deletes the object by its uid.
pub(super) fn lost_the_version(answer: &Answer, options: &Object, old: &Object) -> bool {
    let lost =
        || format!("ResourceVersion in precondition: , ResourceVersion in object meta: {}", old.resource_version());
    !names_a_version(options)
        && is_conflict(answer)
        && answer.status().is_some_and(|status| status.message.ends_with(&lost()))
}

/// Completes the options for plugins: in kube-apiserver the storage completes them before admission.
pub(super) fn completed(kind: &GroupVersionKind, options: &Object, old: &Object, deletion: Deletion) -> Object {
    let mut options = options.clone();
    let asked = options.get(&["gracePeriodSeconds"]).and_then(Value::as_i64);
    let period = match (&*kind.group, &*kind.kind) {
        ("", "Pod") if old.str(&["metadata", "deletionTimestamp"]).is_empty() => Some(pod_period(asked, old)),
        _ => asked,
    };
    if let Some(period) = period {
        // `rest.BeforeDelete` treats a negative period as one second.
        let period = if period < 0 { 1 } else { period };
        let _options_are_an_object = options.set(&["gracePeriodSeconds"], period.into());
    }
    if is_deleted_in_its_own_way(kind)
        && deletion == Deletion::OfOne
        && options.str(&["preconditions", "uid"]).is_empty()
    {
        let _preconditions_are_an_object = options.set(&["preconditions", "uid"], old.uid().into());
    }
    options
}

/// Whether the kind's own `REST.Delete` checks preconditions and pins the uid. The deletion of a collection does not call this
/// method.
fn is_deleted_in_its_own_way(kind: &GroupVersionKind) -> bool {
    matches!((&*kind.group, &*kind.kind), ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition"))
}

/// Returns the grace period of a pod in seconds (`podStrategy.CheckGracefulDelete`).
fn pod_period(asked: Option<i64>, pod: &Object) -> i64 {
    if pod.str(&["spec", "nodeName"]).is_empty() || matches!(pod.str(&["status", "phase"]), "Failed" | "Succeeded") {
        return 0;
    }
    asked.or_else(|| pod.get(&["spec", "terminationGracePeriodSeconds"])?.as_i64()).unwrap_or(0)
}

/// Whether the client's options have a resourceVersion.
pub(super) fn names_a_version(options: &Object) -> bool {
    !options.str(&["preconditions", "resourceVersion"]).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_completed_as_the_storage_of_the_kind_does() {
        let pod = |spec: Value, status: Value| json!({"metadata": {"uid": "u"}, "spec": spec, "status": status});
        let on_a_node = pod(json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}), json!({}));
        let ended = pod(json!({"nodeName": "n"}), json!({"phase": "Failed"}));
        let going =
            json!({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"}});
        let (grace, uid) =
            (|seconds: i64| json!({"gracePeriodSeconds": seconds}), json!({"preconditions": {"uid": "u"}}));
        let plain = json!({"metadata": {"uid": "u"}});
        for (group, kind, old, options, deletion, expected) in [
            ("", "Pod", &on_a_node, json!({}), Deletion::OfOne, grace(30)),
            ("", "Pod", &on_a_node, grace(-5), Deletion::OfCollection, grace(1)),
            ("", "Pod", &ended, grace(5), Deletion::OfOne, grace(0)),
            ("", "Pod", &plain, json!({}), Deletion::OfOne, grace(0)),
            ("", "Pod", &going, json!({}), Deletion::OfOne, json!({})),
            ("", "ConfigMap", &plain, json!({}), Deletion::OfOne, json!({})),
            ("", "ConfigMap", &plain, grace(-5), Deletion::OfOne, grace(1)),
            ("", "Namespace", &plain, json!({}), Deletion::OfOne, uid.clone()),
            ("apiextensions.k8s.io", "CustomResourceDefinition", &plain, json!({}), Deletion::OfOne, uid.clone()),
            ("apiextensions.k8s.io", "CustomResourceDefinition", &plain, json!({}), Deletion::OfCollection, json!({})),
        ] {
            let (old, options) = (Object::from_value(old.clone()).unwrap(), Object::from_value(options).unwrap());
            let shown = completed(&GroupVersionKind::new(group, "v1", kind), &options, &old, deletion);
            assert_eq!(shown.into_value(), expected, "{kind}");
        }
    }
}
