//! The rules for paths of files (`core/validation`).

use super::Causes;

/// `validatePathNoBacksteps`
pub(super) fn without_backsteps(path: &str, field: &str, causes: &mut Causes) {
    if path.split('/').any(|part| part == "..") {
        causes.invalid(field, path, "must not contain '..'");
    }
}

/// `validateLocalDescendingPath`
pub(super) fn descending(path: &str, field: &str, causes: &mut Causes) {
    if path.starts_with('/') {
        causes.invalid(field, path, "must be a relative path");
    }
    without_backsteps(path, field, causes);
}

/// `validateLocalNonReservedPath`
pub(super) fn non_reserved(path: &str, field: &str, causes: &mut Causes) {
    descending(path, field, causes);
    if path.starts_with("..") && !path.starts_with("../") {
        causes.invalid(field, path, "must not start with '..'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_descend() {
        let (relative, contain, start) =
            ("must be a relative path", "must not contain '..'", "must not start with '..'");
        for (path, expected) in [
            ("", vec![]),
            ("a/..b/c..", vec![]),
            ("/a", vec![relative]),
            ("a/../../b", vec![contain]),
            ("/..", vec![relative, contain]),
            ("../a", vec![contain]),
            ("..", vec![contain, start]),
            ("..a", vec![start]),
        ] {
            let mut causes = Causes::default();
            non_reserved(path, "f", &mut causes);
            let messages: Vec<_> = causes.0.into_iter().map(|cause| cause.message).collect();
            let expected: Vec<_> = expected.iter().map(|why| format!("Invalid value: \"{path}\": {why}")).collect();
            assert_eq!(messages, expected, "{path}");
        }
    }
}
