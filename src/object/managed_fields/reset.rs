//! Which fields a write never changes, so that nobody owns them for it (`GetResetFields` of each kind's strategy).

use super::set::Path;
use crate::kind::GroupVersionKind;

/// What is taken out of a comparison.
#[derive(Debug)]
pub(super) enum Reset {
    /// These paths and all below them.
    Fields(&'static [&'static [&'static str]]),
    /// All but these and what is below them; `*` stands for any element.
    AllBut(&'static [&'static [&'static str]]),
}

impl Reset {
    pub(super) fn takes(&self, path: &Path) -> bool {
        let fits = |pattern: &&[&str]| {
            pattern.iter().zip(path).all(|(pattern, element)| *pattern == "*" || pattern == element)
        };
        match self {
            Self::Fields(fields) => fields.iter().any(|field| field.len() <= path.len() && fits(field)),
            Self::AllBut(fields) => !fields.iter().any(|field| field.len() <= path.len() && fits(field)),
        }
    }
}

const SPEC: &[&str] = &["f:spec"];
const STATUS: &[&str] = &["f:status"];
const METADATA: &[&str] = &["f:metadata"];

/// What a write of the kind, or of a subresource of it, does not change.
pub(super) fn fields(kind: &GroupVersionKind, subresource: &str, has_status: bool) -> Reset {
    let is_request = kind.group == "certificates.k8s.io";
    let names = (kind.group.as_str(), kind.kind.as_str());
    Reset::Fields(match (subresource, names) {
        ("", _) if is_request => &[SPEC, STATUS],
        ("" | "finalize", _) if has_status => &[STATUS],
        ("approval", _) => &[SPEC, &["f:status", "f:certificate"]],
        ("status", _) if is_request => &[SPEC, &["f:status", "f:conditions"]],
        ("status", ("apps", "Deployment")) => &[SPEC, &["f:metadata", "f:labels"]],
        ("status", ("", "Pod")) => {
            &[SPEC, &["f:metadata", "f:deletionTimestamp"], &["f:metadata", "f:ownerReferences"]]
        }
        ("status", _) if keeps_metadata(kind) => &[METADATA, SPEC],
        ("status", _) => &[SPEC],
        ("ephemeralcontainers", _) => return Reset::AllBut(&[&["f:spec", "f:ephemeralContainers"]]),
        ("resize", _) => {
            return Reset::AllBut(&[
                &["f:spec", "f:containers", "*", "f:resources"],
                &["f:spec", "f:containers", "*", "f:resizePolicy"],
                &["f:spec", "f:initContainers", "*", "f:resources"],
                &["f:spec", "f:initContainers", "*", "f:resizePolicy"],
            ]);
        }
        _ => &[],
    })
}

/// Kinds whose status is written without their metadata.
fn keeps_metadata(kind: &GroupVersionKind) -> bool {
    let is_custom = || crate::object::schema::of(kind).is_none();
    match (&*kind.group, &*kind.kind) {
        ("networking.k8s.io", "ServiceCIDR") | ("storage.k8s.io", "VolumeAttachment") => true,
        (
            "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io",
            _,
        ) => true,
        _ => is_custom(),
    }
}
