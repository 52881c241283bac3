//! YAML as `sigs.k8s.io/yaml` reads it.

use super::Decoded;

/// Decodes the first YAML document.
///
/// # Errors
/// When the bytes are no YAML.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    super::json(bytes)
}
