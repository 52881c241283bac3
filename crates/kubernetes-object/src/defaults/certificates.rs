//! Defaults of the certificates.k8s.io group.

use super::fields::{Fields, embedded, if_nil};

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields) {
    if matches!((version, kind), ("v1" | "v1beta1", "PodCertificateRequest"))
        && let Some(spec) = embedded(object, "spec")
    {
        if_nil(spec, "maxExpirationSeconds", 86_400);
    }
}
