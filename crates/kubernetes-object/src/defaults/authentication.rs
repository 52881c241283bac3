//! Defaults of the authentication.k8s.io group.

use super::fields::{Fields, embedded, if_nil};

pub(super) fn apply(kind: &str, object: &mut Fields) {
    if kind == "TokenRequest"
        && let Some(spec) = embedded(object, "spec")
    {
        if_nil(spec, "expirationSeconds", 3600);
    }
}
