//! Patterns in Go's syntax: whatever is taken can be matched, and the ways to ask agree.

#![no_main]

use kube_admission_proxy::cel::re2::Regex;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, text) = input;
    let Ok(regex) = Regex::compile(pattern) else { return };
    assert_eq!(regex.find(text).is_some(), regex.is_match(text));
    assert_eq!(regex.find_all(text).next(), regex.find(text));
});
