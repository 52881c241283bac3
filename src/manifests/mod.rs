//! Admission configurations from files (KEP-5793, `k8s.io/apiserver/pkg/admission/plugin/manifest`): the objects that a
//! folder holds, decoded strictly, defaulted and validated as by the API, and followed while the process runs.
//!
//! A plugin gets a [`Source`] with the [`Set`] of its kinds. What is wrong with the folder at the start is the caller's error;
//! later it is logged and counted, and the set stays as it was.

mod folder;
mod document;
pub mod validation;
mod set;
pub mod webhooks;
pub mod policies;
mod source;
mod metrics;
mod names;

pub use folder::documents_of;
pub use metrics::Metrics;
pub use names::ReservedNames;
pub use set::{LoadError, Set};
pub use source::{Loaded, Source};

use crate::config::FeatureGates;
use std::path::{Path, PathBuf};

/// What the names of objects from files end with, and no other's (`StaticConfigSuffix`).
pub const SUFFIX: &str = ".static.k8s.io";

/// The gate without which there are none.
const GATE: &str = "ManifestBasedAdmissionControlConfig";

/// The folder that a plugin's `staticManifestsDir` names (`ValidateStaticManifestsDir`); none if it is empty.
///
/// # Errors
/// In kube-apiserver's words: when the feature gate is off, the path is not absolute, or no folder is there.
pub fn folder(given: &str, gates: &FeatureGates) -> Result<Option<PathBuf>, String> {
    if given.is_empty() {
        return Ok(None);
    }
    if !gates.is_on(GATE) {
        let why = format!("staticManifestsDir requires the {GATE} feature gate to be enabled");
        return Err(format!("staticManifestsDir: Forbidden: {why}"));
    }
    let invalid = |why: &str| Err(format!("staticManifestsDir: Invalid value: {given:?}: {why}"));
    let path = Path::new(given);
    if !path.is_absolute() {
        return invalid("must be an absolute file path");
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Some(path.to_owned())),
        Ok(_) => invalid("must be a directory"),
        Err(error) => invalid(&format!("unable to read: stat {given}: {}", go_error(&error))),
    }
}

/// A system error without Rust's number behind it, in lower case as Go writes it.
fn go_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_needs_the_gate_and_must_be_there() {
        let gates = FeatureGates::parse("ManifestBasedAdmissionControlConfig=true").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let given = directory.path().to_str().unwrap();
        assert_eq!(folder("", &FeatureGates::default()), Ok(None));
        assert_eq!(folder(given, &gates), Ok(Some(directory.path().to_owned())));
        for (given, gates, fault) in [
            (
                given,
                &FeatureGates::default(),
                "Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
            ),
            ("rel", &gates, "Invalid value: \"rel\": must be an absolute file path"),
            (
                "/not/there",
                &gates,
                "Invalid value: \"/not/there\": unable to read: stat /not/there: no such file or directory",
            ),
            ("/etc/passwd", &gates, "Invalid value: \"/etc/passwd\": must be a directory"),
        ] {
            assert_eq!(folder(given, gates), Err(format!("staticManifestsDir: {fault}")));
        }
    }
}
