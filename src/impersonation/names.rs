//! User names that say what they are: service accounts and nodes.

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const NODE_PREFIX: &str = "system:node:";

/// Namespace and name of a service account (`serviceaccount.SplitUsername`).
pub(super) fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

/// The groups of every service account of a namespace (`serviceaccount.MakeGroupNames`).
pub(super) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// Name of a node (`impersonation.isNodeUsername`).
pub(super) fn node(username: &str) -> Option<&str> {
    username.strip_prefix(NODE_PREFIX).filter(|name| is_subdomain(name))
}

/// `validation.IsDNS1123Label`.
fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| inner(byte) || *byte == b'-')
        && bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
}

/// `validation.IsDNS1123Subdomain`, whose labels may be longer than a label.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let inner = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let label = |label: &str| {
        let bytes = label.as_bytes();
        inner(bytes.first()) && inner(bytes.last()) && bytes.iter().all(|byte| inner(Some(byte)) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}
