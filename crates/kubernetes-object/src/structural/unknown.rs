//! The unknown fields that decoding finds.

/// How much of them is kept: an object of a few long keys has long paths by the thousand.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Paths of unknown fields.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    paths: Vec<String>,
    bytes: usize,
}

impl Unknown {
    /// Notes a path, given in parts. The first one always: that nothing is unknown must not be said of what has an endless key.
    pub(super) fn record(&mut self, parts: &[&str]) {
        let path = parts.concat();
        if self.paths.is_empty() || self.bytes + path.len() <= MAX_BYTES {
            self.bytes += path.len();
            self.paths.push(path);
        }
    }

    /// How many there are, to sort those that come after.
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Sorts the paths from this one on.
    pub(super) fn sort_from(&mut self, first: usize) {
        if let Some(paths) = self.paths.get_mut(first..) {
            paths.sort_unstable();
        }
    }

    /// In the words of strict decoding.
    pub(super) fn into_errors(self) -> Vec<String> {
        self.paths.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_unknown_however_long_its_path() {
        let mut unknown = Unknown::default();
        unknown.record(&[&"x".repeat(MAX_BYTES + 1)]);
        unknown.record(&["y"]);
        assert_eq!(unknown.into_errors().len(), 1);
    }
}
