//! Admission configurations from files (KEP-5793, `k8s.io/apiserver/pkg/admission/plugin/manifest`): decodes the objects in a
//! folder strictly, defaults and validates them like the API, and watches the folder while the process runs.
//!
//! A plugin gets a [`Source`] with the [`Set`] of its kinds, or the value of one file ([`FollowedFile`]). At the start, an invalid folder is an error for the caller. Later,
//! an invalid folder is logged and counted, and the set stays unchanged.

mod folder;
mod document;
pub(crate) mod validation;
mod set;
pub(crate) mod webhooks;
pub(crate) mod policies;
mod source;
mod removed;
mod file;
mod names;

pub(crate) use crate::admission::metrics::manifests::Metrics;
pub(crate) use file::FollowedFile;
pub(crate) use folder::numbered_documents_of;
pub(crate) use names::ReservedNames;
pub(crate) use removed::RemovedObjects;
pub(crate) use set::{LoadError, Set};
pub(crate) use source::{Loaded, Source};

use crate::config::FeatureGates;
use std::path::{Path, PathBuf};

/// The suffix that names of objects from files must have, and other names must not have (`StaticConfigSuffix`).
pub(crate) const SUFFIX: &str = ".static.k8s.io";

/// The feature gate that enables manifests.
const GATE: &str = "ManifestBasedAdmissionControlConfig";

/// The folder of a plugin's `staticManifestsDir` (`ValidateStaticManifestsDir`). `None` if the setting is empty.
///
/// # Errors
/// If the feature gate is off, the path is not absolute, or the folder does not exist, in kube-apiserver's words.
pub(crate) fn folder(given: &str, gates: &FeatureGates) -> Result<Option<PathBuf>, LoadError> {
    if given.is_empty() {
        return Ok(None);
    }
    if !gates.is_on(GATE) {
        let why = format!("staticManifestsDir requires the {GATE} feature gate to be enabled");
        return Err(LoadError::Setting(format!("Forbidden: {why}")));
    }
    let invalid = |why: &str| Err(LoadError::Setting(format!("Invalid value: {given:?}: {why}")));
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

/// Formats a system error without Rust's error number, in lower case like Go.
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
            assert_eq!(folder(given, gates), Err(LoadError::Setting(fault.to_owned())));
        }
    }
}
