//! Semantic versions: `library.SemverLib` of Kubernetes in version 1.

use super::{Result, opaque, overload, same, traversal_of_first};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use kubernetes_object::go_text::go_quote;
use std::cmp::Ordering;
use std::sync::Arc;

/// Functions that make and compare versions.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        overloads: &[
            overload("string_to_semver", "semver(string): kubernetes.Semver"),
            overload("string_bool_to_semver", "semver(string, bool): kubernetes.Semver"),
        ],
        call: |arguments| match read(arguments)? {
            Ok(version) => Ok(Value::Opaque(Arc::new(version))),
            Err(error) => Err(Error::new(error.0)),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "isSemver",
        overloads: &[
            overload("is_semver_string", "isSemver(string): bool"),
            overload("is_semver_string_bool", "isSemver(string, bool): bool"),
        ],
        call: |arguments| Ok(Value::Bool(read(arguments)?.is_ok())),
        cost: Some(traversal_of_first),
    },
    Function {
        name: "isGreaterThan",
        overloads: &[overload("semver_is_greater_than", "kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool")],
        call: |arguments| Ok(Value::Bool(compare(arguments)?.is_gt())),
        cost: None,
    },
    Function {
        name: "isLessThan",
        overloads: &[overload("semver_is_less_than", "kubernetes.Semver.isLessThan(kubernetes.Semver): bool")],
        call: |arguments| Ok(Value::Bool(compare(arguments)?.is_lt())),
        cost: None,
    },
    Function {
        name: "compareTo",
        overloads: &[overload("semver_compare_to", "kubernetes.Semver.compareTo(kubernetes.Semver): int")],
        call: |arguments| Ok(Value::Int(compare(arguments)? as i64)),
        cost: None,
    },
    Function {
        name: "major",
        overloads: &[overload("semver_major", "kubernetes.Semver.major(): int")],
        call: |arguments| part(arguments, 0),
        cost: None,
    },
    Function {
        name: "minor",
        overloads: &[overload("semver_minor", "kubernetes.Semver.minor(): int")],
        call: |arguments| part(arguments, 1),
        cost: None,
    },
    Function {
        name: "patch",
        overloads: &[overload("semver_patch", "kubernetes.Semver.patch(): int")],
        call: |arguments| part(arguments, 2),
        cost: None,
    },
];

/// `kubernetes.Semver`. The text after a plus sign is validated and dropped, since it does not affect comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    prerelease: Vec<Prerelease>,
}

/// The reason why a text is no version, with the text of `github.com/blang/semver`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidVersion(String);

/// A part of a prerelease. Numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prerelease {
    Number(u64),
    Word(String),
}

impl Version {
    /// `semver.Parse`.
    fn parse(text: &str) -> std::result::Result<Self, InvalidVersion> {
        if text.is_empty() {
            return Err(InvalidVersion("Version string empty".to_owned()));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(InvalidVersion("No Major.Minor.Patch elements found".to_owned()));
        };
        let (major, minor) = (number("Major", major)?, number("Minor", minor)?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, prerelease)| (patch, Some(prerelease)));
        let patch = number("Patch", patch)?;
        let prerelease = prerelease.into_iter().flat_map(|parts| parts.split('.').map(Prerelease::parse));
        let prerelease = prerelease.collect::<std::result::Result<_, _>>()?;
        for part in build.into_iter().flat_map(|parts| parts.split('.')) {
            if part.is_empty() {
                return Err(InvalidVersion("Build meta data is empty".to_owned()));
            }
            if !is_word(part) {
                return Err(InvalidVersion(format!(
                    "Invalid character(s) found in build meta data {}",
                    go_quote(part)
                )));
            }
        }
        Ok(Self { numbers: [major, minor, patch], prerelease })
    }

    /// `normalizeAndParse`: also accepts a missing minor and patch, a leading `v` and leading zeros.
    fn parse_tolerantly(text: &str) -> std::result::Result<Self, InvalidVersion> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<_> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(InvalidVersion("short version cannot contain PreRelease/Build meta data".to_owned()));
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// `Version.Compare`: a version sorts after its prereleases.
    fn compare(&self, other: &Self) -> Ordering {
        let is_release = |version: &Self| version.prerelease.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| is_release(self).cmp(&is_release(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

fn without_leading_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    if part.len() < 2 || rest.starts_with(|c: char| c.is_ascii_digit()) {
        return if part.len() < 2 { part.to_owned() } else { rest.to_owned() };
    }
    format!("0{rest}")
}

impl Prerelease {
    fn parse(text: &str) -> std::result::Result<Self, InvalidVersion> {
        if text.is_empty() {
            return Err(InvalidVersion("Prerelease is empty".to_owned()));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if has_leading_zero(text) {
                let quoted = go_quote(text);
                return Err(InvalidVersion(format!(
                    "Numeric PreRelease version must not contain leading zeroes {quoted}"
                )));
            }
            return parse_number(text).map(Self::Number);
        }
        if is_word(text) {
            return Ok(Self::Word(text.to_owned()));
        }
        Err(InvalidVersion(format!("Invalid character(s) found in prerelease {}", go_quote(text))))
    }
}

fn number(part: &str, text: &str) -> std::result::Result<u64, InvalidVersion> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let part = part.to_ascii_lowercase();
        return Err(InvalidVersion(format!("Invalid character(s) found in {part} number {}", go_quote(text))));
    }
    if has_leading_zero(text) {
        return Err(InvalidVersion(format!("{part} number must not contain leading zeroes {}", go_quote(text))));
    }
    parse_number(text)
}

/// `strconv.ParseUint`, for digits.
fn parse_number(digits: &str) -> std::result::Result<u64, InvalidVersion> {
    digits.parse().map_err(|_| {
        let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
        InvalidVersion(format!("strconv.ParseUint: parsing {}: {why}", go_quote(digits)))
    })
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Opaque for Version {
    fn r#type(&self) -> Type {
        Type::opaque("kubernetes.Semver")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        Ok(self.compare(same(other)?).is_eq())
    }
}

/// Parses a version. The outer error means that no overload takes the arguments.
fn read(arguments: &[Value<'_>]) -> std::result::Result<std::result::Result<Version, InvalidVersion>, Error> {
    match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_tolerantly(text)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn compare(arguments: &[Value<'_>]) -> std::result::Result<Ordering, Error> {
    match arguments {
        [a, b] => match (opaque::<Version>(a), opaque(b)) {
            (Some(a), Some(b)) => Ok(a.compare(b)),
            _ => Err(Error::NoSuchOverload),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

/// A part of a version. Go converts to a signed number without a check.
fn part<'a>(arguments: &[Value<'a>], at: usize) -> Result<'a> {
    match arguments {
        [value] => {
            let number = opaque(value).and_then(|version: &Version| version.numbers.get(at));
            number.map(|number| Value::Int(*number as i64)).ok_or(Error::NoSuchOverload)
        }
        _ => Err(Error::NoSuchOverload),
    }
}
