//! A write, as strategies see it.

use crate::config::Limits;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::settings::Settings;
use crate::embedded::store::Store;
use crate::user::UserInfo;

/// A write of an object, as far as strategies depend on it.
pub(in crate::embedded) struct Context<'a> {
    /// What is stored. It is read without the lock, so that it may change: see [`depends_on_others`](super::strategy::Strategy::depends_on_others).
    pub(in crate::embedded) store: &'a Store,
    pub(in crate::embedded) settings: &'a Settings,
    pub(in crate::embedded) limits: &'a Limits,
    pub(in crate::embedded) resource: &'a ServedResource,
    pub(in crate::embedded) namespace: &'a str,
    /// The name in the URL; empty for a create.
    pub(in crate::embedded) name: &'a str,
    pub(in crate::embedded) subresource: &'a str,
    pub(in crate::embedded) caller: &'a UserInfo,
    pub(in crate::embedded) dry_run: bool,
    pub(in crate::embedded) warnings: &'a dyn Warn,
}

/// A receiver of warnings for a client.
pub(in crate::embedded) trait Warn {
    /// Adds a warning, once (`warning.AddWarning`).
    fn warn(&self, text: String);
}

/// The warnings of a write of the server itself, which nobody reads.
pub(in crate::embedded) struct Silent;

impl Warn for Silent {
    fn warn(&self, _: String) {}
}
