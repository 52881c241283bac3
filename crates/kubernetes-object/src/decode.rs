//! Decodes bytes into JSON values as kube-apiserver's decoders do: JSON here, YAML in `decode/yaml.rs`.
//!
//! The parser is our own because clients see two features of `sigs.k8s.io/json` that no serde parser has: the texts of its errors, and
//! U+FFFD instead of an error for broken UTF-8 and lone surrogates. The parser also records duplicate keys, which `fieldValidation`
//! reports.

mod yaml;

pub use yaml::{InvalidYaml, is_yaml_text, yaml};

use crate::go_text::{go_quote, quote_character};
use memchr::memchr2;
use serde_json::{Map, Number, Value};

/// The number of levels that a document may nest. All code that walks a value is recursive; this limit bounds its stack.
///
/// The proxy reads responses of the API server to 127 levels. In a list of objects, the managedFields of an object are up to seven levels
/// deeper than the object. The proxy must be able to read every accepted object again, to change or delete it.
pub const MAX_DEPTH: usize = 120;

/// The number of duplicate keys to record (`sigs.k8s.io/json` stops at 100 strict errors).
const MAX_DUPLICATES: usize = 100;

/// A decoded document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The document.
    pub value: Value,
    /// Paths of keys that occur more than once (the last value counts), as Kubernetes' strict decoding names them:
    /// `spec.containers[0].image`. For YAML the whole texts of `goyaml`.
    pub duplicates: Vec<String>,
}

/// The reason why bytes are no JSON, with the text of Go's `encoding/json`; or that the document nests too deep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJson(String);

/// Decodes one JSON document.
///
/// # Errors
/// If the bytes are no JSON, with the text of Go's `encoding/json`; or if the document nests too deep.
pub fn json(bytes: &[u8]) -> Result<Decoded, InvalidJson> {
    let mut parser = Parser { bytes, ..Parser::default() };
    let value = parser.document()?;
    if !parser.has_duplicates {
        return Ok(Decoded { value, duplicates: Vec::new() });
    }
    // Only a document with duplicate keys is parsed again, with the paths of its values.
    let mut parser = Parser { bytes, path: Some(Vec::new()), ..Parser::default() };
    let value = parser.document()?;
    Ok(Decoded { value, duplicates: parser.duplicates })
}

/// The strict decoding errors of a JSON patch whose operations have these fields, in the order of the text: `duplicate field "…"` and
/// `unknown field "…"`, each once. Empty for a document that [`json()`] does not read.
pub fn strict_operations(bytes: &[u8], fields: &'static [&'static str]) -> Vec<String> {
    let mut parser = Parser { bytes, path: Some(Vec::new()), operation_fields: Some(fields), ..Parser::default() };
    parser.document().map(|_| parser.duplicates).unwrap_or_default()
}

/// Whether a value nests deeper than `limit` levels.
pub fn is_deeper(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(|item| is_deeper(item, limit - 1)),
        Value::Object(map) => limit == 0 || map.values().any(|value| is_deeper(value, limit - 1)),
        _ => false,
    }
}

enum Step {
    Key(String),
    Index(usize),
}

#[derive(Default)]
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    has_duplicates: bool,
    /// The path of the current value; `None` if the parser does not record paths.
    path: Option<Vec<Step>>,
    /// The fields of an operation if the document is a JSON patch. `duplicates` then holds complete error texts.
    operation_fields: Option<&'static [&'static str]>,
    duplicates: Vec<String>,
    seen_duplicates: usize,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Value, InvalidJson> {
        let value = self.value()?;
        self.skip_whitespace();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.invalid("after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error of Go's scanner for the byte at the current position.
    fn invalid(&self, context: &str) -> InvalidJson {
        InvalidJson(match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'\'') => format!("invalid character '\\'' {context}"),
            Some(byte @ 0x80..=0x9f) => format!("invalid character '\\u{byte:04x}' {context}"),
            Some(0xa0) => format!("invalid character '\\u00a0' {context}"),
            Some(0xad) => format!("invalid character '\\u00ad' {context}"),
            Some(byte) => {
                let mut quoted = String::new();
                quote_character(&mut quoted, char::from(byte), '\'');
                format!("invalid character '{quoted}' {context}")
            }
        })
    }

    fn value(&mut self) -> Result<Value, InvalidJson> {
        self.skip_whitespace();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Value, InvalidJson>) -> Result<Value, InvalidJson> {
        if self.depth == MAX_DEPTH {
            return Err(InvalidJson("exceeded max depth".to_owned()));
        }
        self.at += 1;
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, InvalidJson> {
        let mut map = Map::new();
        self.skip_whitespace();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_whitespace();
            if self.peek() != Some(b'"') {
                return Err(self.invalid("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_whitespace();
            if self.peek() != Some(b':') {
                return Err(self.invalid("after object key"));
            }
            self.at += 1;
            let mut outside = None;
            if let Some(path) = &mut self.path {
                path.push(Step::Key(key.clone()));
                if self.is_unknown() {
                    self.note("unknown");
                    // Go decodes no value of an unknown field, so that duplicate keys in it are not reported.
                    outside = self.path.take();
                } else if map.contains_key(&key) {
                    self.note("duplicate");
                }
            }
            let value = self.value()?;
            if outside.is_some() {
                self.path = outside;
            }
            self.leave();
            self.has_duplicates |= map.insert(key, value).is_some();
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.invalid("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Value, InvalidJson> {
        let mut items = Vec::new();
        self.skip_whitespace();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            if let Some(path) = &mut self.path {
                path.push(Step::Index(items.len()));
            }
            items.push(self.value()?);
            self.leave();
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.invalid("after array element")),
            }
        }
    }

    fn leave(&mut self) {
        if let Some(path) = &mut self.path {
            path.pop();
        }
    }

    /// Whether the current key is a field that no operation has.
    fn is_unknown(&self) -> bool {
        match (self.operation_fields, self.path.as_deref()) {
            (Some(fields), Some([Step::Index(_), Step::Key(key)])) => !fields.contains(&key.as_str()),
            _ => false,
        }
    }

    fn note(&mut self, what: &str) {
        // Repeated duplicates count too, since each one would build its path again.
        if self.seen_duplicates >= MAX_DUPLICATES {
            return;
        }
        self.seen_duplicates += 1;
        let mut path = String::new();
        for step in self.path.iter().flatten() {
            match step {
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let noted = match self.operation_fields {
            Some(_) => format!("{what} field {}", go_quote(&path)),
            None => path,
        };
        if !self.duplicates.contains(&noted) {
            self.duplicates.push(noted);
        }
    }

    fn literal(&mut self, literal: &str, value: Value) -> Result<Value, InvalidJson> {
        for expected in literal.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {literal} (expecting '{}')", char::from(expected));
                return Err(self.invalid(&context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, InvalidJson> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.invalid("in numeric literal")),
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.invalid("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.invalid("in exponent of numeric literal"));
            }
            self.digits();
        }
        let text = self.bytes.get(start..self.at).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
        if whole {
            if let Ok(number) = text.parse::<i64>() {
                return Ok(Value::Number(number.into()));
            }
            if let Ok(number) = text.parse::<u64>() {
                return Ok(Value::Number(number.into()));
            }
        }
        let number = text.parse::<f64>().ok().and_then(Number::from_f64);
        number
            .map(Value::Number)
            .ok_or_else(|| InvalidJson(format!("json: cannot unmarshal number {text} into Go value of type float64")))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<String, InvalidJson> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let mut plain = rest.get(..plain_length(rest)).unwrap_or_default();
            let end = rest.get(plain.len());
            if end == Some(&b'"') && text.is_empty() {
                self.at += plain.len() + 1;
                push_lossy(&mut text, plain);
                return Ok(text);
            }
            if end.is_some_and(|byte| !byte.is_ascii()) {
                plain = memchr2(b'"', b'\\', rest).map_or(rest, |end| rest.get(..end).unwrap_or_default());
                if let Some(control) = plain.iter().position(|byte| *byte < 0x20) {
                    plain = plain.get(..control).unwrap_or_default();
                }
            }
            push_lossy(&mut text, plain);
            self.at += plain.len();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let character = self.escape()?;
                    text.push(character);
                }
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, InvalidJson> {
        let character = match self.peek() {
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.invalid("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, InvalidJson> {
        let first = self.four_digits()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let before = self.at;
        if self.bytes.get(self.at..self.at + 2) == Some(b"\\u".as_slice()) && first < 0xdc00 {
            self.at += 2;
            if let Ok(second @ 0xdc00..=0xdfff) = self.four_digits()
                && let Some(character) = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(character);
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, InvalidJson> {
        let mut number = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => number = number * 16 + digit,
                None => return Err(self.invalid("in \\u hexadecimal character escape")),
            }
            self.at += 1;
        }
        Ok(number)
    }
}

/// The number of bytes at the start that are printable ASCII and neither a quote nor a backslash. Checks eight bytes at a time.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES << 7;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (at, chunk) in chunks.iter().enumerate() {
        let eight = u64::from_le_bytes(*chunk);
        // The lowest high bit is exact; the bits above it may come from a carry.
        let zeros = |eight: u64| eight.wrapping_sub(ONES) & !eight;
        let controls = eight.wrapping_sub(ONES * 0x20) & !eight;
        let found = (zeros(eight ^ (ONES * 0x22)) | zeros(eight ^ (ONES * 0x5c)) | controls | eight) & HIGHS;
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7f) && !matches!(byte, b'"' | b'\\');
    bytes.len() - rest.len() + rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len())
}

/// Appends bytes as Go does: every byte that is no part of a character becomes one U+FFFD.
pub(super) fn push_lossy(text: &mut String, bytes: &[u8]) {
    if let Ok(valid) = std::str::from_utf8(bytes) {
        return text.push_str(valid);
    }
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn error(text: &str) -> String {
        json(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn broken_json_is_named_as_go_names_it() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\"", "unexpected end of JSON input"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 1}", "invalid character '1' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
            ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn broken_text_becomes_replacement_characters() {
        assert_eq!(json(b"\"a\xff\xfeb\"").unwrap().value, json!("a\u{fffd}\u{fffd}b"));
        assert_eq!(
            json(br#""\ud800\/\udc00\ud83d\ude00\ud800A""#).unwrap().value,
            json!("\u{fffd}/\u{fffd}😀\u{fffd}A")
        );
    }

    #[test]
    fn duplicate_keys_are_named_and_the_last_one_counts() {
        let decoded = json(br#"{"a":1,"spec":{"containers":[{"image":1,"image":2,"image":3}]},"a":{"b":1}}"#).unwrap();
        assert_eq!(decoded.value, json!({"a": {"b": 1}, "spec": {"containers": [{"image": 3}]}}));
        assert_eq!(decoded.duplicates, ["spec.containers[0].image", "a"]);
    }

    #[test]
    fn numbers_keep_what_they_are() {
        let value =
            json(b"[0,-0,9223372036854775807,18446744073709551615,1.0,1e2,36893488147419103232]").unwrap().value;
        assert_eq!(value, json!([0, 0, i64::MAX, u64::MAX, 1.0, 100.0, 36893488147419103232.0]));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(error(&nested(MAX_DEPTH + 1)), "exceeded max depth");
        assert_eq!(error(&"[".repeat(1_000_000)), "exceeded max depth");
    }

    proptest! {
        #[test]
        fn plain_text_ends_before_the_first_byte_that_is_not_plain(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let is_plain = |byte: &u8| (0x20..0x80).contains(byte) && *byte != b'"' && *byte != b'\\';
            let expected = bytes.iter().position(|byte| !is_plain(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(&bytes), expected);
            let mostly_plain: Vec<u8> = bytes.iter().map(|byte| if byte % 16 == 1 { *byte } else { b'a' }).collect();
            let expected = mostly_plain.iter().position(|byte| !is_plain(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(&mostly_plain), expected);
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = json(&bytes);
        }

        #[test]
        fn random_json_like_text_is_judged_as_serde_json_judges_it(text in r#"([\[\]{}:,"0-9a\\.eE -]|true|null|"a"|:1)*"#) {
            let theirs = serde_json::from_str::<Value>(&text);
            let ours = json(text.as_bytes());
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", ours);
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                // -0 is the only number that differs: an integer in Go, a float in serde_json.
                prop_assert!(ours.value == theirs || text.contains("-0"));
            }
        }
    }
}
