//! The releases of Kubernetes whose rules expressions follow.

/// A release of Kubernetes, and the functions that expressions may use there. The default is 1.36, for new expressions.
///
/// A release differs from the one before in costs, functions and texts. Names in back-ticks are accepted in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    minor: u16,
    /// The last release whose functions expressions may use.
    functions: u16,
}

impl Default for Release {
    fn default() -> Self {
        Self::of(36)
    }
}

impl Release {
    /// The rules of Kubernetes 1.`minor`, from the ones that this crate knows: 1.36 and 1.37. New expressions have the functions of the
    /// release before (`NewExpressions`), so that the cluster can go back to it.
    pub const fn of(minor: u16) -> Self {
        Self { minor, functions: minor.saturating_sub(1) }
    }

    /// The rules for expressions that are stored: they may also use the functions that the release introduces (`StoredExpressions`).
    #[must_use]
    pub const fn stored(self) -> Self {
        Self { functions: self.minor, ..self }
    }

    /// Whether the release is at least 1.`minor`.
    pub const fn since(self, minor: u16) -> bool {
        self.minor >= minor
    }

    /// Whether expressions may use the functions that 1.`minor` introduces.
    pub(crate) const fn has_functions_of(self, minor: u16) -> bool {
        self.functions >= minor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_first_for_stored_expressions() {
        for (release, expected) in [
            (Release::of(36), false),
            (Release::of(36).stored(), false),
            (Release::of(37), false),
            (Release::of(37).stored(), true),
            (Release::of(38), true),
        ] {
            assert_eq!(release.has_functions_of(37), expected, "{release:?}");
        }
    }
}
