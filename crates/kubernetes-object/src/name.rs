//! Generated names, and names that no URL path can have.

use crate::names::path_segment_errors;

/// Letters and digits of generated names (`rand.alphanums`), without vowels and without characters that look alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// `names.randomLength`.
const RANDOM_LENGTH: usize = 5;
/// The number of bytes of the prefix that are kept (`names.MaxGeneratedNameLength`).
const MAX_GENERATED_PREFIX: usize = 63 - RANDOM_LENGTH;

/// Generates a name with this prefix (`names.SimpleNameGenerator.GenerateName`).
pub fn generate_name(prefix: &str) -> String {
    let prefix = prefix.split_at(prefix.floor_char_boundary(MAX_GENERATED_PREFIX)).0;
    let letter = |_| ALPHABET.get(rand::random_range(0..ALPHABET.len())).copied().map_or('x', char::from);
    prefix.chars().chain((0..RANDOM_LENGTH).map(letter)).collect()
}

/// The reason why no URL path can have a name, with the text of client-go's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidName(String);

/// Checks a name as client-go checks the names in its URLs (`rest.Request.Name`).
///
/// # Errors
/// If no URL path can have the name.
pub fn check_path_segment(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName("resource name may not be empty".to_owned()));
    }
    let faults = path_segment_errors(name);
    if faults.is_empty() {
        return Ok(());
    }
    Err(InvalidName(format!("invalid resource name {name:?}: [{}]", faults.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_keeps_its_beginning_within_the_limit() {
        assert_eq!(generate_name("a-").len(), 7);
        assert!(generate_name(&"x".repeat(80)).starts_with(&"x".repeat(58)));
        assert_eq!(generate_name(&"é".repeat(40)).chars().count(), 29 + 5);
    }
}
