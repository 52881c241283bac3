//! The lines of the log about requests that admission refuses. Those of a sharer are few, because a client causes refusals at will; from `--v=2`
//! on each refusal has a line.

use crate::logging::{Sampling, cut};
use crate::sharer::Sharer;
use crate::status::Status;
use crate::user::UserInfo;
use std::sync::Arc;
use std::time::Instant;

/// The number of sharers that cause lines in a minute, and of the lines of each.
const SHARERS: usize = 100;
const LINES: usize = 20;

/// A refusal by admission.
#[derive(Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    pub(crate) user: &'a Arc<UserInfo>,
    pub(crate) tenant: Option<&'a str>,
    /// The plugin; `None` for the guard of a tenant.
    pub(crate) plugin: Option<&'static str>,
    pub(crate) refusal: &'a Status,
    pub(crate) audit_id: Option<&'a str>,
    /// The UID of a review.
    pub(crate) uid: Option<&'a str>,
}

/// The lines about refusals.
pub struct RefusalLog(Sampling);

impl Default for RefusalLog {
    fn default() -> Self {
        Self(Sampling::new(SHARERS, LINES))
    }
}

impl RefusalLog {
    /// Writes a line about the refusal.
    pub(crate) fn note(&self, refused: &Refused<'_>) {
        // The users of a tenant do not silence one another.
        let left_out = self.0.take(Sharer::User(refused.user.clone()), Instant::now());
        let Refused { verb, path, user, tenant, plugin, refusal, audit_id, uid } = refused;
        macro_rules! write {
            ($level:ident, $left_out:expr) => {
                tracing::$level!(
                    verb,
                    path = cut(path),
                    user = cut(&user.username),
                    tenant,
                    plugin,
                    code = refusal.code,
                    reason = cut(&refusal.message),
                    "audit-ID" = audit_id,
                    uid,
                    left_out = $left_out,
                    "refused by admission"
                )
            };
        }
        match left_out {
            Some(left_out) => write!(info, (left_out > 0).then_some(left_out)),
            None => write!(debug, None::<u64>),
        }
    }
}
