//! Regular expressions in the syntax of Go's `regexp`, matched by the `regex` crate.
//!
//! A pattern is parsed by Go's rules and passed to the crate in a form that both interpret equally. Patterns that Go rejects are rejected
//! with Go's text; so are patterns that this module does not support.

mod class;
mod parse;
mod unicode;

use super::work;
use moka::sync::Cache;
use regex::RegexBuilder;
use std::fmt;
use std::sync::LazyLock;

/// The number of bytes of a pattern. Go has no such limit, but no real pattern is this long.
const MAX_PATTERN_BYTES: usize = 128 << 10;
/// The number of character ranges in a pattern: each is written out.
const MAX_RANGES: usize = 256 << 10;
/// The number of levels that a pattern may nest. Go allows 1,000; deeper trees would need a larger stack here.
const MAX_HEIGHT: usize = 250;
/// The limits on the bytes of a compiled pattern, tried in turn to learn its approximate size. A larger pattern gets Go's error for large
/// patterns, though Go's own limit is 128 MiB.
const COMPILED_BYTES: [usize; 2] = [2 << 20, 16 << 20];
/// The number of bytes of a compiled pattern that is cached.
const MAX_KEPT_BYTES: usize = 256 << 10;
/// The bytes of work that the compilation of a cacheable pattern counts as; a larger pattern counts as its size limit.
const SMALL_WORK: usize = 64 << 10;
/// The number of compiled patterns that are cached.
const KEPT_PATTERNS: u64 = 128;

static KEPT: LazyLock<Cache<String, Regex>> = LazyLock::new(|| Cache::new(KEPT_PATTERNS));

/// A compiled pattern. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Regex(regex::Regex);

/// The reason why a text is no pattern: `regexp/syntax.Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    why: &'static str,
    expression: String,
}

impl Regex {
    /// Compiles a pattern (`regexp.Compile`), or returns it from the cache.
    ///
    /// # Errors
    /// If Go rejects the pattern, with Go's text; or if the pattern exceeds the limits of this module.
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
            // Several nodes of the other syntax may represent one of ours.
            let built = RegexBuilder::new(&tree).nest_limit(8 * MAX_HEIGHT as u32).size_limit(bytes).build();
            // Any other error of the crate about its own notation is reported as a size error too.
            built.map(Self).map_err(|_| too_large())
        };
        if let Ok(small) = compile(MAX_KEPT_BYTES, SMALL_WORK) {
            KEPT.insert(pattern.to_owned(), small.clone());
            return Ok(small);
        }
        COMPILED_BYTES.into_iter().find_map(|bytes| compile(bytes, bytes).ok()).ok_or_else(too_large)
    }

    /// Whether the pattern matches anywhere (`MatchString`).
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The leftmost match; among several, the preferred one (`FindString`).
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|found| found.as_str())
    }

    /// The matches, which do not overlap (`FindAllString`).
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
