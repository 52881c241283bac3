//! The tenants of a gateway: the format of their files, and the decisions which tenant a request is of, which namespaces a tenant has, and what
//! it may do there. Pure code: the parts of the pipeline are built and swapped in `app/tenancy/folder.rs`, and `pipeline/tenancy.rs` asks here.
//!
//! The tenant of a request follows from its address, its caller and its namespace, in fixed steps. The choice of a client can
//! only narrow the result, and a request that cannot be decided is refused.

mod address;
mod folder;
mod guard;
mod members;
mod metrics;
mod namespaces;
pub(crate) mod profile;
mod rate;
mod scope;

pub(crate) use address::{Addressed, Misaddressed};
pub use address::{TenantAddresses, split_path};
pub use folder::read;
pub(crate) use folder::{Fault, Files, TenantFile, read_again};
pub(crate) use guard::Guard;
pub(crate) use members::Membership;
pub use members::{Members, Origin};
pub(crate) use metrics::TenantMetrics;
pub(crate) use namespaces::Owner;
pub use namespaces::Owners;
pub(crate) use rate::Rate;
pub(crate) use scope::{NamespaceNeed, need};

/// The tenant of callers and namespaces without another tenant.
pub(crate) const DEFAULT: &str = "default";
/// The tenant whose members change the tenants of namespaces.
pub(crate) const OPERATORS: &str = "operators";
/// The base of admission without plugins, which is therefore no tenant's name.
pub(crate) const NONE: &str = "none";
/// The label of a Namespace with its tenant; also the audit annotation with a request's tenant.
pub(crate) const LABEL: &str = "kube-admission-proxy.dev/tenant";

#[cfg(test)]
mod tests;
