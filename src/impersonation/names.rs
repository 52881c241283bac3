//! User names with a known form: service accounts and nodes.

use crate::names::{is_dns_1123_label, is_dns_1123_subdomain};

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const NODE_PREFIX: &str = "system:node:";

/// Returns namespace and name of a service account (`serviceaccount.SplitUsername`).
pub(super) fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_1123_label(namespace) && is_dns_1123_subdomain(name)).then_some((namespace, name))
}

/// Returns the groups of every service account of a namespace (`serviceaccount.MakeGroupNames`).
pub(super) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// Returns the name of a node (`impersonation.isNodeUsername`).
pub(super) fn node(username: &str) -> Option<&str> {
    username.strip_prefix(NODE_PREFIX).filter(|name| is_dns_1123_subdomain(name))
}
