//! The tenants of a gateway: the format of their files, and the decisions which tenant a request is of, which namespaces a tenant has, and what
//! it may do there. Pure code: the parts of the pipeline are built and swapped in `app/tenancy.rs`, and `pipeline/tenancy.rs` asks here.
//!
//! The tenant of a request follows from its address, its caller and its namespace, in fixed steps. The choice of a client can
//! only narrow the result, and a request that cannot be decided is refused.

mod address;
mod folder;
mod guard;
mod members;
mod metrics;
mod namespaces;
pub mod profile;
mod rate;
mod scope;

pub use address::{Addressed, Misaddressed, TenantAddresses, split_path};
pub use folder::{Fault, Files, MAX_TENANTS, TenantFile, read, read_again};
pub use guard::Guard;
pub use members::{Members, Membership, Origin};
pub use metrics::TenantMetrics;
pub use namespaces::{Owner, Owners};
pub use rate::Rate;
pub use scope::{NamespaceNeed, need};

/// The tenant of callers and namespaces without another tenant.
pub const DEFAULT: &str = "default";
/// The tenant whose members change the tenants of namespaces.
pub const OPERATORS: &str = "operators";
/// The base of admission without plugins, which is therefore no tenant's name.
pub const NONE: &str = "none";
/// The label of a Namespace with its tenant; also the audit annotation with a request's tenant.
pub const LABEL: &str = "kube-admission-proxy.dev/tenant";

#[cfg(test)]
mod tests;
