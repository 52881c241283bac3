//! Regular expressions in the syntax of Go's `regexp`, matched by the `regex` crate.
//!
//! What the two read differently is settled here: a pattern is parsed by Go's rules and handed on in a form that leaves no
//! choice. What Go rejects is rejected in Go's words, and so is what is not understood.

mod class;
mod parse;
mod unicode;

use super::work;
use moka::sync::Cache;
use regex::RegexBuilder;
use std::fmt;
use std::sync::LazyLock;

/// Bytes of a pattern. Go has no such limit, and nobody such a pattern.
const MAX_PATTERN_BYTES: usize = 128 << 10;
/// Ranges of characters in a pattern: each is written out.
const MAX_RANGES: usize = 256 << 10;
/// How deep a pattern may nest. Go allows 1,000; deeper trees would need a larger stack here.
const MAX_HEIGHT: usize = 250;
/// Bytes of a compiled pattern: tried in turn, so that it is known how large it is. What is larger counts as too large in Go's
/// sense, whose own limit is 128 MiB.
const COMPILED_BYTES: [usize; 2] = [2 << 20, 16 << 20];
/// Bytes of a compiled pattern that is kept.
const MAX_KEPT_BYTES: usize = 256 << 10;
/// What the compilation of such a pattern counts as, bytes; that of a larger one as what it may come to.
const SMALL_WORK: usize = 64 << 10;
/// Compiled patterns that are kept.
const KEPT_PATTERNS: u64 = 128;

static KEPT: LazyLock<Cache<String, Regex>> = LazyLock::new(|| Cache::new(KEPT_PATTERNS));

/// A compiled pattern. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Regex(regex::Regex);

/// Why a text is no pattern: `regexp/syntax.Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    why: &'static str,
    expression: String,
}

impl Regex {
    /// Compiles a pattern (`regexp.Compile`), or takes it from those that were compiled lately.
    ///
    /// # Errors
    /// In Go's words, when Go does not take it, or when it is larger than what is matched here.
    pub fn compile(pattern: &str) -> Result<Self, Error> {
        if let Some(kept) = KEPT.get(pattern) {
            return Ok(kept);
        }
        let too_large = || Error::new(parse::TOO_LARGE, pattern);
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(too_large());
        }
        let tree = parse::parse(pattern)?.to_string();
        let compile = |bytes, counted| {
            work::write(counted).map_err(|_| too_large())?;
            // Several nodes of the other syntax may stand for one of ours.
            let built = RegexBuilder::new(&tree).nest_limit(8 * MAX_HEIGHT as u32).size_limit(bytes).build();
            // Whatever else it should not like about its own notation is not understood either.
            built.map(Self).map_err(|_| too_large())
        };
        if let Ok(small) = compile(MAX_KEPT_BYTES, SMALL_WORK) {
            KEPT.insert(pattern.to_owned(), small.clone());
            return Ok(small);
        }
        COMPILED_BYTES.into_iter().find_map(|bytes| compile(bytes, bytes).ok()).ok_or_else(too_large)
    }

    /// Whether it matches anywhere (`MatchString`).
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The first match; the leftmost, and of those the preferred one (`FindString`).
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|found| found.as_str())
    }

    /// The matches that do not overlap (`FindAllString`).
    pub fn find_all<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.0.find_iter(text).map(|found| found.as_str())
    }
}

impl Error {
    fn new(why: &'static str, expression: &str) -> Self {
        Self { why, expression: expression.to_owned() }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.why, self.expression)
    }
}

#[cfg(test)]
mod tests;
