//! The levels of klog: how much is logged, and by which modules more (`k8s.io/klog/v2/internal/verbosity`).

use super::REQUEST_LOG;
use crate::go_text::go_quote;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::{Level, Metadata};

const OWN: &str = env!("CARGO_CRATE_NAME");
/// The crates that log whole answers that they cannot decode.
const SILENT: [&str; 2] = ["kube_client", "kube_core"];

/// How much is logged.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    level: AtomicU32,
    modules: Modules,
}

impl Levels {
    pub(crate) fn new(level: u32, modules: Modules) -> Self {
        Self { level: level.into(), modules }
    }

    /// Whether the event, or the events of a place in the code, are logged (`VState.Enabled`). A question about events is no event.
    pub(super) fn allow(&self, metadata: &Metadata<'_>) -> bool {
        let Some(level) = level_of(metadata).filter(|_| !metadata.is_span()) else { return false };
        self.level.load(Ordering::Relaxed) >= level
            || self.modules.level(module_of(metadata)).is_some_and(|of_module| of_module >= level)
    }

    pub(super) fn set(&self, level: u32) {
        self.level.store(level, Ordering::Relaxed);
    }
}

/// The level of an event: from 0 on for operators, from 2 on with decisions, from 3 on with every request, from 6 on with other crates.
/// `None` if the event is never logged.
pub(super) fn level_of(metadata: &Metadata<'_>) -> Option<u32> {
    let crate_name = metadata.target().split("::").next().unwrap_or_default();
    if SILENT.contains(&crate_name) {
        return None;
    }
    let (of_info, of_debug) = match metadata.target() {
        REQUEST_LOG => (3, 3),
        _ if crate_name == OWN => (0, 2),
        _ => (6, 8),
    };
    match *metadata.level() {
        Level::ERROR | Level::WARN => Some(0),
        Level::INFO => Some(of_info),
        Level::DEBUG => Some(of_debug),
        Level::TRACE => None,
    }
}

/// The name of the module that logs: that of its file, as in klog, except that a file `mod.rs` has the name of its folder.
fn module_of<'a>(metadata: &Metadata<'a>) -> &'a str {
    let path = metadata.module_path().unwrap_or_else(|| metadata.target());
    path.rsplit("::").next().unwrap_or_default()
}

/// The levels of single modules (`--vmodule`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modules(Vec<(String, u32)>);

impl Modules {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The level of the first pattern that matches the name of the module.
    fn level(&self, module: &str) -> Option<u32> {
        let module: Vec<char> = module.chars().collect();
        let matches = |pattern: &str| matches(&pattern.chars().collect::<Vec<_>>(), &module);
        // klog leaves out patterns of level 0 (`moduleSpec.Set`).
        self.0.iter().find(|(pattern, level)| *level > 0 && matches(pattern)).map(|(_, level)| *level)
    }

    /// The patterns of several flags in order.
    pub(crate) fn joined(flags: impl IntoIterator<Item = Self>) -> Self {
        Self(flags.into_iter().flat_map(|flag| flag.0).collect())
    }
}

impl fmt::Display for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (pattern, level)) in self.0.iter().enumerate() {
            write!(f, "{}{pattern}={level}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// The reason why a list of modules is refused, with kube-apiserver's text (`vmoduleConfigurationPFlag.Set`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseModulesError {
    #[error("{} does not have the pattern=N format", go_quote(.0))]
    Format(String),
    #[error("parsing verbosity in {}: {why}", go_quote(.item))]
    Level { item: String, why: SetLevelError },
}

impl FromStr for Modules {
    type Err = ParseModulesError;

    fn from_str(text: &str) -> Result<Self, ParseModulesError> {
        let items = text.split(',').filter(|item| !item.is_empty()).map(|item| {
            let malformed = || ParseModulesError::Format(item.to_owned());
            let (pattern, level) = item.split_once('=').ok_or_else(malformed)?;
            if pattern.is_empty() || level.is_empty() || level.contains('=') {
                return Err(malformed());
            }
            let level = unsigned(level, i32::MAX as u32);
            let level = level.map_err(|why| ParseModulesError::Level { item: item.to_owned(), why })?;
            Ok((pattern.to_owned(), level))
        });
        items.collect::<Result<_, _>>().map(Self)
    }
}

/// The reason why a level is refused, with Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SetLevelError {
    #[error("strconv.ParseUint: parsing {}: invalid syntax", go_quote(.0))]
    Syntax(String),
    #[error("strconv.ParseUint: parsing {}: value out of range", go_quote(.0))]
    Range(String),
    #[error("failed set klog.logging.verbosity {level}: strconv.ParseInt: parsing {}: value out of range", go_quote(.level))]
    Signed { level: String },
}

/// Parses a level as `logs.GlogSetter`.
///
/// # Errors
/// If it is no number, or one that klog does not take.
pub(super) fn parse(text: &str) -> Result<u32, SetLevelError> {
    let level = unsigned(text, u32::MAX)?;
    if level > i32::MAX as u32 { Err(SetLevelError::Signed { level: text.to_owned() }) } else { Ok(level) }
}

/// `strconv.ParseUint`.
fn unsigned(text: &str, most: u32) -> Result<u32, SetLevelError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SetLevelError::Syntax(text.to_owned()));
    }
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| SetLevelError::Range(text.to_owned()))
}

/// Whether the pattern matches the whole name (`filepath.Match`); a malformed pattern matches nothing.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|at| matches(rest, name.get(at..).unwrap_or_default())),
        ['?', rest @ ..] => name.split_first().is_some_and(|(_, others)| matches(rest, others)),
        ['[', rest @ ..] => name.split_first().is_some_and(|(first, others)| {
            class(rest, *first).is_some_and(|(is_in, rest)| is_in && matches(rest, others))
        }),
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
            name.split_first().is_some_and(|(first, others)| first == literal && matches(rest, others))
        }
    }
}

/// Whether a class of characters, whose bracket is read, has the character; and the rest of the pattern.
fn class(pattern: &[char], character: char) -> Option<(bool, &[char])> {
    let (is_negated, mut rest) = match pattern {
        ['^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut is_in, mut is_empty) = (false, true);
    loop {
        match rest {
            [']', after @ ..] if !is_empty => return Some((is_in != is_negated, after)),
            [from, '-', to, after @ ..] if *from != ']' && *to != ']' => {
                is_in |= (*from..=*to).contains(&character);
                rest = after;
            }
            ['\\', one, after @ ..] => {
                is_in |= *one == character;
                rest = after;
            }
            [one, after @ ..] if !matches!(one, ']' | '-' | '\\') => {
                is_in |= *one == character;
                rest = after;
            }
            _ => return None,
        }
        is_empty = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_parsed_and_refused_as_by_kube_apiserver() {
        let parsed =
            |text: &str| text.parse::<Modules>().map(|modules| modules.to_string()).map_err(|why| why.to_string());
        for (text, outcome) in [
            ("", Ok("")),
            ("a=2,b*=3,", Ok("a=2,b*=3")),
            ("a", Err(r#""a" does not have the pattern=N format"#)),
            ("=2", Err(r#""=2" does not have the pattern=N format"#)),
            ("a=1=2", Err(r#""a=1=2" does not have the pattern=N format"#)),
            ("a=-1", Err(r#"parsing verbosity in "a=-1": strconv.ParseUint: parsing "-1": invalid syntax"#)),
            ("a=x", Err(r#"parsing verbosity in "a=x": strconv.ParseUint: parsing "x": invalid syntax"#)),
            (
                "a=99999999999",
                Err(
                    r#"parsing verbosity in "a=99999999999": strconv.ParseUint: parsing "99999999999": value out of range"#,
                ),
            ),
        ] {
            assert_eq!(parsed(text), outcome.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn levels_are_parsed_and_refused_as_by_kube_apiserver() {
        for (text, outcome) in [
            ("4", Ok(4)),
            ("2147483647", Ok(2_147_483_647)),
            ("x", Err(r#"strconv.ParseUint: parsing "x": invalid syntax"#)),
            ("-1", Err(r#"strconv.ParseUint: parsing "-1": invalid syntax"#)),
            ("+4", Err(r#"strconv.ParseUint: parsing "+4": invalid syntax"#)),
            ("", Err(r#"strconv.ParseUint: parsing "": invalid syntax"#)),
            ("99999999999999", Err(r#"strconv.ParseUint: parsing "99999999999999": value out of range"#)),
            (
                "4294967295",
                Err(
                    r#"failed set klog.logging.verbosity 4294967295: strconv.ParseInt: parsing "4294967295": value out of range"#,
                ),
            ),
        ] {
            assert_eq!(parse(text).map_err(|why| why.to_string()), outcome.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn patterns_match_as_those_of_go() {
        for (pattern, name, outcome) in [
            ("request_log", "request_log", true),
            ("request_log", "request", false),
            ("request*", "request_log", true),
            ("*", "", true),
            ("*_log", "request_log", true),
            ("r?quest_log", "request_log", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[ab]", "b", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("[a", "a", false),
            ("[]a]", "a", false),
        ] {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(matches(&characters(pattern), &characters(name)), outcome, "{pattern} {name}");
        }
    }

    #[test]
    fn the_first_pattern_decides() {
        let modules: Modules = "zero=0,a*=1,ab=5,zero=3".parse().unwrap();
        for (name, level) in [("a", Some(1)), ("ab", Some(1)), ("b", None), ("zero", Some(3))] {
            assert_eq!(modules.level(name), level, "{name}");
        }
    }
}
