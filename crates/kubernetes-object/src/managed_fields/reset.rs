//! The fields that a write never changes, so that the writer does not own them (`GetResetFields` of each kind's strategy).

use super::set::Path;
use crate::kind::GroupVersionKind;
use crate::kinds;

/// The paths that a comparison ignores.
#[derive(Debug)]
pub(super) enum Reset {
    /// These paths and all below them.
    Fields(&'static [kinds::FieldPath]),
    /// As [`Reset::Fields`], of custom resources.
    Custom(&'static [&'static [&'static str]]),
}

impl Reset {
    pub(super) fn takes(&self, path: &Path) -> bool {
        match self {
            Self::Fields(fields) => fields.iter().any(|field| is_at_or_below(path, field)),
            Self::Custom(fields) => fields.iter().any(|field| is_at_or_below(path, field)),
        }
    }
}

fn is_at_or_below<S: AsRef<str>>(path: &Path, start: &[S]) -> bool {
    start.len() <= path.len() && start.iter().zip(path).all(|(start, element)| *start.as_ref() == **element)
}

/// The fields that a write of the kind, or of one of its subresources, does not change. The storages of `pods/resize` and
/// `pods/ephemeralcontainers` do not pass the filters of their strategies (`GetResetFieldsFilter`) on, so that such a write owns all it sends.
pub(super) fn fields(kind: &GroupVersionKind, subresource: &str, has_status: bool) -> Reset {
    match (kinds::of_kind(&kind.group, &kind.kind), subresource) {
        (Some(built_in), _) => Reset::Fields(built_in.resets(subresource)),
        // `customResourceStrategy.GetResetFields`, `statusStrategy.GetResetFields`
        (None, "") if has_status => Reset::Custom(&[&["f:status"]]),
        (None, "status") => Reset::Custom(&[&["f:metadata"], &["f:spec"]]),
        (None, _) => Reset::Custom(&[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_owns_nothing_that_its_strategy_resets() {
        // For each write a path that it resets, and one that it does not.
        for (group, kind, subresource, taken, left) in [
            ("", "Pod", "", "status", "spec"),
            ("", "Pod", "status", "metadata.deletionTimestamp", "metadata.labels"),
            ("", "Namespace", "finalize", "status.phase", "spec.finalizers"),
            ("apps", "Deployment", "status", "metadata.labels.a", "metadata.annotations"),
            ("certificates.k8s.io", "CertificateSigningRequest", "", "spec.request", "metadata"),
            ("certificates.k8s.io", "CertificateSigningRequest", "approval", "status.certificate", "status.conditions"),
            ("certificates.k8s.io", "CertificateSigningRequest", "status", "status.conditions", "status.certificate"),
            ("certificates.k8s.io", "PodCertificateRequest", "status", "spec.nodeName", "status.conditions"),
            ("scheduling.k8s.io", "PodGroup", "status", "metadata.labels", "status"),
            ("storagemigration.k8s.io", "StorageVersionMigration", "status", "metadata.labels", "status"),
            ("e.com", "Widget", "", "status.a", "spec"),
            ("e.com", "Widget", "status", "metadata.labels", "status"),
        ] {
            let reset = fields(&GroupVersionKind::new(group, "v1", kind), subresource, true);
            let path = |text: &str| -> Path { text.split('.').map(|name| format!("f:{name}").into()).collect() };
            assert!(reset.takes(&path(taken)), "{kind}/{subresource} {taken}");
            assert!(!reset.takes(&path(left)), "{kind}/{subresource} {left}");
        }
        for subresource in ["resize", "ephemeralcontainers"] {
            let reset = fields(&GroupVersionKind::new("", "v1", "Pod"), subresource, true);
            assert!(!reset.takes(&vec!["f:spec".into(), "f:nodeName".into()]), "{subresource}");
        }
        for (kind, path) in [("ClusterTrustBundle", "f:spec"), ("PodCertificateRequest", "f:spec")] {
            let reset = fields(&GroupVersionKind::new("certificates.k8s.io", "v1beta1", kind), "", true);
            assert!(!reset.takes(&vec![path.into()]), "{kind}");
        }
        assert!(!fields(&GroupVersionKind::new("e.com", "v1", "Widget"), "", false).takes(&vec!["f:status".into()]));
    }
}
