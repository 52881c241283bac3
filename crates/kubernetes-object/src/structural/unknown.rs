//! The unknown fields that decoding finds.

/// The number of bytes of paths to keep: an object with a few long keys can have thousands of long paths.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Paths of unknown fields.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    paths: Vec<String>,
    bytes: usize,
}

impl Unknown {
    /// Records a path, given in parts. Records the first path at any length, so that an object with a very long unknown key does not count
    /// as fully known.
    pub(super) fn record(&mut self, parts: &[&str]) {
        let path = parts.concat();
        if self.paths.is_empty() || self.bytes + path.len() <= MAX_BYTES {
            self.bytes += path.len();
            self.paths.push(path);
        }
    }

    /// The number of paths so far, for [`Unknown::sort_from`].
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Sorts the paths from position `first` on.
    pub(super) fn sort_from(&mut self, first: usize) {
        if let Some(paths) = self.paths.get_mut(first..) {
            paths.sort_unstable();
        }
    }

    /// The error texts of strict decoding.
    pub(super) fn into_errors(self) -> Vec<String> {
        self.paths.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_with_a_long_path_is_reported() {
        let mut unknown = Unknown::default();
        unknown.record(&[&"x".repeat(MAX_BYTES + 1)]);
        unknown.record(&["y"]);
        assert_eq!(unknown.into_errors().len(), 1);
    }
}
