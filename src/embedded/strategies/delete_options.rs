//! The options of a deletion.

use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::{FOREGROUND, ORPHAN};
use crate::object::Object;
use crate::request::body::WriteOptions;
use crate::status::Status;
use serde_json::Value;

/// The longest grace period, in seconds: 100 years, so that timestamps do not overflow.
pub(super) const MAX_GRACE_SECONDS: i64 = 100 * 365 * 24 * 3600;

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(in crate::embedded) struct Options {
    pub(super) grace_seconds: Option<i64>,
    pub(in crate::embedded) orphan: Option<bool>,
    policy: Option<String>,
    pub(in crate::embedded) uid: Option<String>,
    pub(in crate::embedded) resource_version: Option<String>,
    pub(in crate::embedded) dry_run: bool,
}

impl Options {
    /// Options with a propagation policy alone.
    pub(in crate::embedded) fn with_policy(policy: &str) -> Self {
        Self { policy: Some(policy.to_owned()), ..Self::default() }
    }

    /// Options of a controller that deletes all objects of a collection. Without kubelets no pod needs time to stop.
    pub(in crate::embedded) fn at_once() -> Self {
        Self { grace_seconds: Some(0), ..Self::with_policy("Background") }
    }

    /// The options of a request.
    pub(in crate::embedded) fn of(options: WriteOptions) -> Self {
        let precondition = |name: &str| {
            let value = options.preconditions.as_ref()?.get(name)?.as_str()?;
            Some(value.to_owned())
        };
        Self {
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: options.is_dry_run(),
            // Negative values count as one second.
            grace_seconds: options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s.min(MAX_GRACE_SECONDS) }),
            orphan: options.orphan_dependents,
            policy: options.propagation_policy,
        }
    }

    /// Whether the request says what happens to the dependents.
    pub(super) fn has_policy(&self) -> bool {
        self.policy.is_some() || self.orphan.is_some()
    }

    /// Checks the preconditions (`rest.BeforeDelete`).
    ///
    /// # Errors
    /// 409 if one fails.
    pub(super) fn check_object(&self, resource: &ServedResource, object: &Object) -> Result<(), Status> {
        let conflict = |why: String| Err(Status::conflict(&resource.group, &resource.kind, object.name(), &why));
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != object.uid()) {
            return conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                object.uid()
            ));
        }
        if let Some(version) = self.resource_version.as_deref().filter(|version| *version != object.resource_version())
        {
            return conflict(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                object.resource_version()
            ));
        }
        Ok(())
    }

    /// The finalizers of the object after a deletion with these options (`deletionFinalizersForGarbageCollection`). `orphans` says what a deletion
    /// without a policy does.
    pub(super) fn finalizers(&self, orphans: bool, object: &Object) -> Vec<Value> {
        let finalizers = object.items(&["metadata", "finalizers"]);
        let is_decided = finalizers.iter().any(|finalizer| finalizer == ORPHAN || finalizer == FOREGROUND);
        let wanted = match (self.policy.as_deref(), self.orphan) {
            (None, None) if !is_decided && orphans => Some(ORPHAN),
            (None, None) => return finalizers.to_vec(),
            (Some("Orphan"), _) | (None, Some(true)) => Some(ORPHAN),
            (Some("Foreground"), _) => Some(FOREGROUND),
            _ => None,
        };
        let others = finalizers.iter().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND).cloned();
        others.chain(wanted.map(Value::from)).collect()
    }
}
