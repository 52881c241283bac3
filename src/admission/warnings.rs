//! Warnings for the client (`warning.Recorder`), without duplicates and with kube-apiserver's bounds.

use http::header::WARNING;
use http::{HeaderMap, HeaderValue};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of characters that all texts together may have before each text is cut.
const TOTAL_CHARACTERS: usize = 4096;
/// The number of characters to which each text is cut.
const CUT_CHARACTERS: usize = 256;

/// The warnings of one request, in kube-apiserver's order: the version's deprecation, the warnings before the object is stored,
/// those of the upstream API server, and those after the object is stored.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Texts>);

#[derive(Debug, Default)]
struct Texts {
    deprecation: Option<String>,
    is_deprecation_said: bool,
    all: Vec<String>,
    /// The number of warnings that precede those of the upstream API server.
    before_stored: Option<usize>,
}

impl Warnings {
    /// Adds a warning. Ignores an empty text, a text with control characters, a duplicate, and any text beyond the number that
    /// can be sent.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let mut texts = self.lock();
        let end = texts.all.len();
        texts.insert(end, text.into());
    }

    /// Sets the warning of the version's deprecation. The warning is sent if the proxy itself answers, or if the upstream sends it too.
    pub(crate) fn set_deprecation(&self, text: Option<String>) {
        self.lock().deprecation = text;
    }

    /// Ends the mutating phase: later warnings follow those of the upstream API server.
    pub(crate) fn end_of_mutation(&self) {
        let mut texts = self.lock();
        let count = texts.all.len();
        texts.before_stored.get_or_insert(count);
    }

    /// Removes the warnings that were added after the mutating phase.
    pub(crate) fn forget_validation(&self) {
        let mut texts = self.lock();
        let before = texts.before_stored.unwrap_or(texts.all.len());
        texts.all.truncate(before);
    }

    /// Adds the warnings in the headers of the upstream API server's answer.
    pub(crate) fn add_stored(&self, headers: &HeaderMap) {
        let mut texts = self.lock();
        for text in headers.get_all(WARNING).iter().filter_map(text_of) {
            let at = texts.before_stored.unwrap_or(texts.all.len());
            if texts.deprecation.as_ref() == Some(&text) {
                texts.is_deprecation_said = true;
            } else if texts.insert(at, text) {
                texts.before_stored = texts.before_stored.map(|at| at + 1);
            }
        }
    }

    /// Writes all warnings into the headers of an answer, which is the proxy's own or has warnings of the upstream.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap, is_own: bool) {
        {
            let mut texts = self.lock();
            texts.is_deprecation_said |= is_own;
            if texts.all.is_empty() && texts.deprecation.is_none() {
                return;
            }
        }
        self.add_stored(headers);
        // Warnings in a form that kube-apiserver does not write are kept unchanged.
        let others: Vec<_> =
            headers.get_all(WARNING).iter().filter(|header| text_of(header).is_none()).cloned().collect();
        headers.remove(WARNING);
        for value in self.header_values().into_iter().chain(others) {
            headers.append(WARNING, value);
        }
    }

    /// The texts of the warnings that were added, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.lock().all.clone()
    }

    /// The values of the `Warning` headers, in order.
    pub(crate) fn header_values(&self) -> Vec<HeaderValue> {
        let texts = self.lock();
        let deprecation = || texts.deprecation.iter().filter(|_| texts.is_deprecation_said);
        let all = || deprecation().chain(&texts.all);
        let total: usize = all().map(|text| text.chars().count()).sum();
        let cut = if total > TOTAL_CHARACTERS { CUT_CHARACTERS } else { usize::MAX };
        let mut written = 0;
        let mut values = Vec::with_capacity(texts.all.len() + 1);
        for text in all() {
            let text: String = text.chars().take(cut).collect();
            if written >= TOTAL_CHARACTERS {
                break;
            }
            written += text.chars().count();
            values.extend(header_value(&text));
        }
        values
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Texts {
    /// Inserts the text. Returns whether the text was accepted.
    fn insert(&mut self, at: usize, text: String) -> bool {
        let is_sent = !text.is_empty() && !text.contains(char::is_control) && self.all.len() < TOTAL_CHARACTERS;
        let is_new = is_sent && !self.all.contains(&text);
        if is_new {
            self.all.insert(at, text);
        }
        is_new
    }
}

/// `299 - "<text>"`, quoted as `net.NewWarningHeader` does.
fn header_value(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

/// The text in `299 - "text"`.
fn text_of(header: &HeaderValue) -> Option<String> {
    let quoted = std::str::from_utf8(header.as_bytes()).ok()?.strip_prefix("299 - \"")?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_unquoted() {
        let text = |header: &'static str| text_of(&HeaderValue::from_static(header));
        assert_eq!(text(r#"299 - "say \"no\" \\ twice" "date""#).as_deref(), Some(r#"say "no" \ twice"#));
        assert_eq!(text("299 - open"), None);
        assert_eq!(text(r#"299 - "open"#), None);
    }

    fn answer(texts: &[&str]) -> HeaderMap {
        texts.iter().map(|text| (WARNING, HeaderValue::from_str(&format!("299 - \"{text}\"")).unwrap())).collect()
    }

    /// The `Warning` headers of an answer, with warnings before and after the object is stored.
    fn merged(stored: &[&str], deprecation: Option<&str>, is_own: bool) -> Vec<String> {
        let (warnings, mut headers) = (Warnings::default(), answer(stored));
        headers.append(WARNING, HeaderValue::from_static("199 other \"agent\""));
        warnings.set_deprecation(deprecation.map(str::to_owned));
        warnings.add("before");
        warnings.end_of_mutation();
        warnings.add("after");
        warnings.write_to(&mut headers, is_own);
        let all = headers.get_all(WARNING).iter().map(|value| value.to_str().unwrap());
        all.map(|value| value.trim_start_matches("299 - \"").trim_end_matches('"').to_owned()).collect()
    }

    #[test]
    fn warnings_of_the_upstream_api_server_stand_between_the_phases() {
        let other = "199 other \"agent";
        assert_eq!(merged(&["old", "before", "b"], Some("old"), false), ["old", "before", "b", "after", other]);
        assert_eq!(merged(&[], Some("old"), false), ["before", "after", other]);
        assert_eq!(merged(&["b"], Some("old"), true), ["old", "before", "b", "after", other]);
        assert_eq!(merged(&["b", "c"], None, true), ["before", "b", "c", "after", other]);
        let (nothing, mut headers) = (Warnings::default(), answer(&["theirs"]));
        nothing.write_to(&mut headers, false);
        assert_eq!(headers, answer(&["theirs"]));
    }

    #[test]
    fn warnings_of_the_validating_phase_can_be_taken_back() {
        let warnings = Warnings::default();
        warnings.add("before");
        warnings.forget_validation();
        warnings.end_of_mutation();
        warnings.add("after");
        warnings.add_stored(&answer(&["theirs"]));
        warnings.forget_validation();
        assert_eq!(warnings.header_values(), [r#"299 - "before""#, r#"299 - "theirs""#]);
    }

    #[test]
    fn each_text_is_sent_once_and_quoted() {
        let warnings = Warnings::default();
        warnings.add("say \"no\"");
        warnings.add("say \"no\"");
        warnings.add("");
        warnings.add("two\nlines");
        assert_eq!(warnings.header_values(), [r#"299 - "say \"no\"""#]);
    }

    #[test]
    fn long_texts_are_cut_once_the_total_is_exceeded() {
        let warnings = Warnings::default();
        for i in 0..30 {
            warnings.add(format!("{i:02}{}", "x".repeat(300)));
        }
        let values = warnings.header_values();
        assert_eq!(values.len(), 16);
        assert!(values.iter().all(|value| value.len() == "299 - \"\"".len() + CUT_CHARACTERS));
    }
}
