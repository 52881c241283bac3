//! Paths to fields of a schema, as selectable fields and rules have them (`cel.ValidFieldPath`).

use super::internal::Fields;
use serde_json::Value;

/// A field at a valid path.
pub(super) struct Found<'a> {
    /// The path in the form of errors.
    pub(super) path: String,
    /// The first name of the path.
    pub(super) root: String,
    /// The schema of the field; `None` if its schema allows any value.
    pub(super) schema: Option<Fields<'a>>,
}

/// The reason why a path is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidPath(String);

/// Finds the field at a path in a schema.
///
/// # Errors
/// If the path has another form, or leads to no field.
pub(super) fn find<'a>(path: &str, schema: Fields<'a>, allows_brackets: bool) -> Result<Found<'a>, InvalidPath> {
    let mut found = Found { path: String::new(), root: String::new(), schema: Some(schema) };
    let mut tokens = Tokens { rest: path };
    let unexpected_end = || InvalidPath("unexpected end of JSON path".to_owned());
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !allows_brackets => return Err(InvalidPath("array notation is not allowed".to_owned())),
            "[" => {
                let token = tokens.next().ok_or_else(unexpected_end)?;
                let quoted = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\''));
                unescape(quoted.ok_or_else(|| InvalidPath(format!("expected single quoted string but got {token}")))?)?
            }
            "." => tokens.next().ok_or_else(unexpected_end)?.to_owned(),
            other => return Err(InvalidPath(format!("expected [ or . but got: {other}"))),
        };
        found.step(&name)?;
        if token == "[" {
            match tokens.next() {
                None => return Err(unexpected_end()),
                Some("]") => {}
                Some(other) => return Err(InvalidPath(format!("expected ] but got {other}"))),
            }
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), InvalidPath> {
        let missing = || InvalidPath("does not refer to a valid field".to_owned());
        let schema = self.schema.ok_or_else(missing)?;
        let dot = if self.path.is_empty() { "" } else { "." };
        if schema.has_any("properties") {
            self.path.extend([dot, name]);
            self.schema = Some(schema.object("properties").and_then(|fields| fields.object(name)).ok_or_else(missing)?);
        } else if schema.given("additionalProperties").is_some_and(|value| !matches!(value, Value::Null)) {
            self.path.extend(["[", name, "]"]);
            self.schema = schema.object("additionalProperties");
        } else {
            return Err(missing());
        }
        if self.root.is_empty() {
            self.root = name.to_owned();
        }
        Ok(())
    }
}

/// The tokens of a path: dots, brackets, quoted texts and the texts between them.
struct Tokens<'p> {
    rest: &'p str,
}

impl<'p> Tokens<'p> {
    fn next(&mut self) -> Option<&'p str> {
        let bytes = self.rest.as_bytes();
        let first = *bytes.first()?;
        let end = match first {
            b'.' | b'[' | b']' => 1,
            b'\'' => {
                let is_end =
                    |at: &usize| bytes.get(*at) == Some(&b'\'') && bytes.get(at.wrapping_sub(1)) != Some(&b'\\');
                (1..bytes.len()).find(is_end).map_or(bytes.len(), |at| at + 1)
            }
            _ => bytes.iter().position(|byte| b".[]".contains(byte)).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(token)
    }
}

/// `unescapeSingleQuote`
fn unescape(text: &str) -> Result<String, InvalidPath> {
    let mut unescaped = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unescaped.push(character);
            continue;
        }
        unescaped.push(match characters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(InvalidPath(format!("invalid string literal: invalid escape char \\{other}"))),
            None => '\\',
        });
    }
    Ok(unescaped)
}
