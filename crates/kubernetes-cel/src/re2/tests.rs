//! Tests of features that the vectors of the libraries do not cover.

use super::*;
use proptest::prelude::*;

fn refused(pattern: &str) -> String {
    Regex::compile(pattern).map_or_else(|error| error.to_string(), |_| panic!("{pattern} is a pattern"))
}

#[test]
fn patterns_that_the_two_syntaxes_read_differently_are_read_as_in_go() {
    for (pattern, text, found) in [
        (r"[a&&b]+", "x&a", Some("&a")),
        (r"[a-z--b]+", "c-b", Some("c-b")),
        (r"[[a]+", "[a", Some("[a")),
        (r"[]a]+", "]a", Some("]a")),
        (r"\Qa.b\E+", "a.bbb", Some("a.bbb")),
        (r"\w+", "éa", Some("a")),
        (r"\s", "\u{b}", None),
        (r"[[:space:]]", "\u{b}", Some("\u{b}")),
        (r"\d", "٣", None),
        (r"\bb", "éb", Some("b")),
        (r"\07", "\u{7}", Some("\u{7}")),
        (r"\<a", "<a", Some("<a")),
        (r"a{,2}", "a{,2}", Some("a{,2}")),
        (r"a#b c", "a#b c", Some("a#b c")),
        (r"a$", "a\n", None),
        (r"(?m)a$", "a\n", Some("a")),
        (r"(?i)[\W]", "ſ", None),
        (r"(?U)a+", "aaa", Some("a")),
        (r"a|ab", "ab", Some("a")),
        (r"(a+)?", "aab", Some("aa")),
        (r"(a{2})?", "b", Some("")),
        (r"(a??)?b", "ab", Some("ab")),
        (r"[^\x{d7fe}-\x{e001}]+", "\u{d7ff}a", Some("a")),
        (r"\x{d800}", "a", None),
        (r"\p{Lm}", "\u{a7cb}", None),
    ] {
        assert_eq!(Regex::compile(pattern).map(|regex| regex.find(text)), Ok(found), "{pattern} in {text:?}");
    }
}

#[test]
fn patterns_that_go_rejects_are_rejected_with_its_text() {
    for (pattern, why) in [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        (r"\u0061", r"invalid escape sequence: `\u`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"a\", "trailing backslash at end of expression: ``"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        (r"\p{Script=Greek}", r"invalid character class range: `\p{Script=Greek}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
    ] {
        assert_eq!(refused(pattern), format!("error parsing regexp: {why}"));
    }
}

#[test]
fn a_pattern_that_is_too_deep_or_too_large_is_refused() {
    let deep = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Regex::compile(&deep(MAX_HEIGHT - 2)).is_ok());
    for pattern in
        [deep(MAX_HEIGHT + 1), format!("{}a", "(".repeat(MAX_HEIGHT + 1)), format!("a{}", "*(?i)".repeat(300))]
    {
        assert!(refused(&pattern).contains("expression nests too deeply"), "{pattern}");
    }
    assert!(refused(r"\pL{1000}").contains("expression too large"));
}

/// With quadratic parsing, each pattern took minutes, or all of the memory.
#[test]
fn long_patterns_are_read_in_one_go() {
    let distinct = |from: u32| (from..from + 20_000).filter_map(char::from_u32).step_by(2).collect::<String>();
    let classes = r"\pL".repeat(40_000);
    for (pattern, is_pattern) in [
        (format!("[{}a]", "[:".repeat(60_000)), true),
        (format!("{}]", "[".repeat(120_000)), true),
        (format!("[{}]", distinct(0x4e00)), true),
        (format!("[{classes}]"), false),
        (classes, false),
        ("{1".repeat(60_000), true),
        ("a".repeat(MAX_PATTERN_BYTES + 1), false),
    ] {
        assert_eq!(Regex::compile(&pattern).is_ok(), is_pattern, "{pattern:.20}");
    }
}

proptest! {
    #[test]
    fn no_pattern_panics(pattern in r"([a-c\[\](){}|*+?.^$\\,:<>=!&~\-0-9xpPQEdDwWsSbBAzCimsU]|\(\?|\[\[:|é){0,24}", text in "\\PC{0,12}") {
        if let Ok(regex) = Regex::compile(&pattern) {
            prop_assert_eq!(regex.find(&text).is_some(), regex.is_match(&text));
            prop_assert_eq!(regex.find(&text), regex.find_all(&text).next());
        }
    }
}
