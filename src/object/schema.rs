//! What the built-in kinds look like.

/// A type of the API.
#[derive(Debug)]
pub struct Type {
    name: &'static str,
}

impl Type {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
