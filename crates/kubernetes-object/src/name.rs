//! Names that are drawn, and names that no URL can have.

use crate::names::path_segment_errors;

/// Letters and digits of generated names (`rand.alphanums`): nothing that makes a word or is taken for another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// `names.randomLength`.
const RANDOM_LENGTH: usize = 5;
/// How much is kept of what the name begins with (`names.MaxGeneratedNameLength`).
const MAX_GENERATED_PREFIX: usize = 63 - RANDOM_LENGTH;

/// A name that begins so (`names.SimpleNameGenerator.GenerateName`).
pub fn generate_name(prefix: &str) -> String {
    let prefix = &prefix[..prefix.floor_char_boundary(MAX_GENERATED_PREFIX)];
    let letter = |_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]);
    prefix.chars().chain((0..RANDOM_LENGTH).map(letter)).collect()
}

/// What client-go says to a name that no URL can have (`rest.Request.Name`).
///
/// # Errors
/// The text of client-go's error.
pub fn check_path_segment(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("resource name may not be empty".to_owned());
    }
    let faults = path_segment_errors(name);
    if faults.is_empty() { Ok(()) } else { Err(format!("invalid resource name {name:?}: [{}]", faults.join(" "))) }
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
