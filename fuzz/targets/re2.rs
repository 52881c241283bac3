//! A pattern in Go's syntax on the first line, and a text on the others: all functions of the library agree. If `FUZZ_REGEXP` names the
//! program of `fuzz/regexp`, Go accepts the same patterns, refuses the others with the same errors, and finds the same matches.

#![no_main]

use kubernetes_cel::re2::Regex;
use libfuzzer_sys::fuzz_target;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};

/// The errors of bounds that Go does not have.
const OWN_BOUNDS: [&str; 2] =
    ["error parsing regexp: expression too large", "error parsing regexp: expression nests too deeply"];

static GO: LazyLock<Option<Mutex<Child>>> = LazyLock::new(|| {
    let program = std::env::var_os("FUZZ_REGEXP")?;
    let go = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    Some(Mutex::new(go.expect("FUZZ_REGEXP is a program")))
});

fuzz_target!(|input: &str| {
    let (pattern, text) = input.split_once('\n').unwrap_or((input, ""));
    let regex = Regex::compile(pattern);
    let found = regex.as_ref().map_err(ToString::to_string).map(|regex| {
        assert_eq!(regex.find(text).is_some(), regex.is_match(text));
        assert_eq!(regex.find_all(text).next(), regex.find(text));
        let place = |found: &str| found.as_ptr() as usize - text.as_ptr() as usize;
        regex.find_all(text).map(|found| (place(found), place(found) + found.len())).collect::<Vec<_>>()
    });
    let Some(go) = &*GO else { return };
    let is_own = |why: &String| OWN_BOUNDS.iter().any(|bound| why.starts_with(bound));
    if !found.as_ref().is_err_and(is_own) {
        assert_eq!(found, ask(&mut go.lock().unwrap(), pattern, text), "{pattern:?} in {text:?}");
    }
});

/// Go's matches, or Go's error for the pattern.
fn ask(go: &mut Child, pattern: &str, text: &str) -> Result<Vec<(usize, usize)>, String> {
    let (input, output) = (go.stdin.as_mut().unwrap(), go.stdout.as_mut().unwrap());
    let part = |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
    input.write_all(&[part(pattern), part(text)].concat()).unwrap();
    let mut number = || {
        let mut bytes = [0; 4];
        output.read_exact(&mut bytes).unwrap();
        u32::from_le_bytes(bytes) as usize
    };
    let (is_pattern, count) = (number() == 1, number());
    if is_pattern {
        return Ok((0..count).map(|_| (number(), number())).collect());
    }
    let mut why = vec![0; count];
    output.read_exact(&mut why).unwrap();
    Err(String::from_utf8_lossy(&why).into_owned())
}
