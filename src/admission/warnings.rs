//! Warnings for the client (`warning.Recorder`): text by text, each once, bounded as kube-apiserver bounds them.

use http::HeaderValue;
use std::sync::{Mutex, PoisonError};

/// All texts together have at most this many characters; past it each is cut.
const TOTAL_CHARACTERS: usize = 4096;
/// What a text is cut to then.
const CUT_CHARACTERS: usize = 256;

/// The warnings of one request.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning; an empty text, one with control characters or one that is there already is left out, and so is what comes
    /// after more than can be sent.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_sent = !text.is_empty() && !text.contains(char::is_control) && all.len() < TOTAL_CHARACTERS;
        if is_sent && !all.contains(&text) {
            all.push(text);
        }
    }

    /// The values of the `Warning` headers, in order.
    pub fn header_values(&self) -> Vec<HeaderValue> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = all.iter().map(|text| text.chars().count()).sum();
        let cut = if total > TOTAL_CHARACTERS { CUT_CHARACTERS } else { usize::MAX };
        let mut written = 0;
        let mut values = Vec::with_capacity(all.len());
        for text in all.iter() {
            let text: String = text.chars().take(cut).collect();
            if written >= TOTAL_CHARACTERS {
                break;
            }
            written += text.chars().count();
            values.extend(header_value(&text));
        }
        values
    }
}

/// `299 - "<text>"`, quoted as `net.NewWarningHeader` does.
fn header_value(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
