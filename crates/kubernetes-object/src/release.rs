//! The release of Kubernetes whose kinds, types and rules this process has.
//!
//! The recorded tables have the lines of all recorded releases; a line that not all of them have starts with a mark (`tools/union.py`). A
//! table is parsed once in a process, without the lines of other releases.

use std::sync::OnceLock;

/// The releases that the tables were recorded from: the minor version, and the version.
const OLDER: (u16, &str) = (36, "1.36.3");
const NEWER: (u16, &str) = (37, "1.37.2");

/// The minor version of the emulated release, which may be older than the recorded ones.
static CHOSEN: OnceLock<u16> = OnceLock::new();

/// Another release is in use already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the release of this process is 1.{in_use} already, so that it cannot be 1.{wanted}")]
pub struct InUse {
    in_use: u16,
    wanted: u16,
}

/// Chooses Kubernetes 1.`minor` as the release of this process, with the kinds of the nearest recorded one. Without a choice the release is
/// 1.36.
///
/// # Errors
/// If another release was chosen, or used, before.
pub fn choose(minor: u16) -> Result<(), InUse> {
    let in_use = *CHOSEN.get_or_init(|| minor);
    if in_use == minor { Ok(()) } else { Err(InUse { in_use, wanted: minor }) }
}

/// The minor version of the release of this process.
pub fn emulated() -> u16 {
    *CHOSEN.get_or_init(|| OLDER.0)
}

/// The minor version of the recorded release whose kinds this process has.
pub fn minor() -> u16 {
    emulated().clamp(OLDER.0, NEWER.0)
}

/// The version whose kinds this process has: `1.36.3`.
pub fn version() -> &'static str {
    if minor() == NEWER.0 { NEWER.1 } else { OLDER.1 }
}

/// Whether this process has the kinds of 1.`minor` or of a later release.
pub fn since(minor: u16) -> bool {
    self::minor() >= minor
}

/// The lines of a recorded table that the release of this process has, without their marks.
pub fn lines(table: &str) -> impl DoubleEndedIterator<Item = &str> {
    lines_of(table, minor())
}

fn lines_of(table: &str, minor: u16) -> impl DoubleEndedIterator<Item = &str> {
    table.lines().filter_map(move |line| {
        if !line.starts_with(['+', '-']) {
            return Some(line);
        }
        let (mark, line) = line.split_once(' ')?;
        let (since, until) = mark.split_once('-').unwrap_or((mark, ""));
        let is_since = since.strip_prefix('+').is_none_or(|first| first.parse().is_ok_and(|first: u16| minor >= first));
        let is_until = until.is_empty() || until.parse().is_ok_and(|gone: u16| minor < gone);
        (is_since && is_until).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_own_lines_of_a_table() {
        let table = "a\n+37 b c\n-37 d\n+36-38 e\n+38 f";
        for (minor, expected) in [(35, "a d"), (36, "a d e"), (37, "a b c e"), (38, "a b c f")] {
            assert_eq!(lines_of(table, minor).collect::<Vec<_>>().join(" "), expected, "{minor}");
        }
    }

    #[test]
    fn the_release_of_a_process_is_chosen_once() {
        assert_eq!((minor(), version()), OLDER);
        assert!(since(36) && !since(37));
        assert_eq!(choose(36), Ok(()));
        assert_eq!(choose(37), Err(InUse { in_use: 36, wanted: 37 }));
    }
}
