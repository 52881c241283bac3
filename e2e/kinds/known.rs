//! The known differences.

use crate::harness::seen::Difference;

/// The checked-in list: lines of kind, step and place, in which `*` matches any text.
pub struct Known<'a> {
    lines: Vec<[&'a str; 3]>,
}

impl<'a> Known<'a> {
    /// Parses the list.
    ///
    /// # Panics
    /// If a line has another form, or has no reason above it.
    pub fn read(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut has_reason = false;
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                has_reason = line.starts_with('#');
                continue;
            }
            assert!(has_reason, "there is no reason above: {line}");
            let words: Vec<&str> = line.split_whitespace().collect();
            lines
                .push(words.try_into().unwrap_or_else(|_| panic!("neither kind, step and place nor a reason: {line}")));
        }
        Self { lines }
    }

    /// The differences that are not listed, and the lines of the list that match no difference.
    pub fn compare<'d>(&self, differences: &'d [Difference]) -> (Vec<&'d Difference>, Vec<String>) {
        let covers = |[kind, step, place]: &[&str; 3], found: &Difference| {
            matches(kind, &found.kind) && matches(step, &found.step) && matches(place, &found.place)
        };
        let new = differences.iter().filter(|found| !self.lines.iter().any(|line| covers(line, found))).collect();
        let gone = self.lines.iter().filter(|line| !differences.iter().any(|found| covers(line, found)));
        (new, gone.map(|line| line.join(" ")).collect())
    }
}

/// Whether the pattern, in which `*` matches any text, matches the text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[test]
fn a_star_stands_for_anything() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*c", "abc", true),
        ("a*c", "ab", false),
        ("a", "ab", false),
        ("*[0]*", "mutating[0].x", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
