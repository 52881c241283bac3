//! The identities of requests: the user that the proxy names, and the tokens of service accounts.

pub(in crate::embedded) mod caller;
pub(in crate::embedded) mod tokens;
