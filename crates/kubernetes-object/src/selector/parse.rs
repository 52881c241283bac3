//! The syntax of label selectors in query strings (`labels.Parse`).

use super::{InvalidSelector, LabelRequirement, Operator, Origin, invalid};
use crate::names::qualified_name_errors;

const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

/// Splits a selector into symbols and words (`labels.Lexer`); the parser distinguishes `in` and `notin` from labels by their position. A
/// NUL ends the text at the start of a token, and separates tokens elsewhere.
fn tokens(text: &str) -> Vec<&str> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while let Some(first) = rest.chars().next().filter(|first| *first != '\0') {
        let length = match first {
            '=' if rest.starts_with("==") => 2,
            '!' if rest.starts_with("!=") => 2,
            c if SYMBOLS.contains(&c) => 1,
            _ => rest.find(|c| c == '\0' || blank(c) || SYMBOLS.contains(&c)).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.strip_prefix('\0').unwrap_or(after).trim_start_matches(blank);
    }
    tokens
}

/// Parses requirements from left to right (`labels.Parser`).
pub(super) struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

/// The end of the text is an empty token, since no word is empty.
impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { tokens: tokens(text), at: 0 }
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn is_word(token: &str) -> bool {
        !token.is_empty() && !token.starts_with(SYMBOLS)
    }

    pub(super) fn requirements(&mut self) -> Result<Vec<LabelRequirement>, InvalidSelector> {
        let mut requirements = Vec::new();
        let first = self.peek();
        if first.is_empty() {
            return Ok(requirements);
        }
        if !Self::is_word(first) && first != "!" {
            return Err(InvalidSelector(format!("found '{first}', expected: !, identifier, or 'end of string'")));
        }
        loop {
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|error| InvalidSelector(format!("unable to parse requirement: {error}")))?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {
                    let next = self.peek();
                    if !Self::is_word(next) && next != "!" {
                        return Err(InvalidSelector(format!("found '{next}', expected: identifier after ','")));
                    }
                }
                other => return Err(InvalidSelector(format!("found '{other}', expected: ',' or 'end of string'"))),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, InvalidSelector> {
        let absent = self.peek() == "!";
        if absent {
            self.at += 1;
        }
        let key = self.next();
        if !Self::is_word(key) {
            return Err(InvalidSelector(format!("found '{key}', expected: identifier")));
        }
        let why = qualified_name_errors(key);
        if !why.is_empty() {
            return Err(InvalidSelector(invalid("<nil>", key, &why.join("; "))));
        }
        if absent {
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new(), Origin::Other);
        }
        if matches!(self.peek(), "" | ",") {
            return LabelRequirement::new(key, Operator::Exists, Vec::new(), Origin::Other);
        }
        let (operator, origin) = match self.next() {
            "in" => (Operator::In, Origin::Other),
            "notin" => (Operator::NotIn, Origin::Other),
            "=" | "==" => (Operator::In, Origin::Exact),
            "!=" => (Operator::NotIn, Origin::Exact),
            ">" => (Operator::GreaterThan, Origin::Other),
            "<" => (Operator::LessThan, Origin::Other),
            other => return Err(InvalidSelector(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"))),
        };
        let set = matches!(operator, Operator::In | Operator::NotIn) && origin == Origin::Other;
        let mut values = if set { self.values()? } else { vec![self.exact_value()?] };
        values.sort();
        values.dedup();
        LabelRequirement::new(key, operator, values, origin)
    }

    fn exact_value(&mut self) -> Result<String, InvalidSelector> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.next();
        if Self::is_word(value) {
            Ok(value.to_owned())
        } else {
            Err(InvalidSelector(format!("found '{value}', expected: identifier")))
        }
    }

    /// Parses `(a,b)`; a missing value between commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, InvalidSelector> {
        let open = self.next();
        if open != "(" {
            return Err(InvalidSelector(format!("found '{open}' expected: '('")));
        }
        let mut values = Vec::new();
        match self.peek() {
            ")" => {
                self.at += 1;
                return Ok(vec![String::new()]);
            }
            first if first != "," && !Self::is_word(first) => {
                return Err(InvalidSelector(format!("found '{first}', expected: ',', ')' or identifier")));
            }
            _ => {}
        }
        loop {
            match self.next() {
                "," => {
                    if values.is_empty() || matches!(self.peek(), ")" | ",") {
                        values.push(String::new());
                    }
                    if self.peek() == ")" {
                        break;
                    }
                }
                word if Self::is_word(word) => {
                    values.push(word.to_owned());
                    match self.peek() {
                        "," => {}
                        ")" => break,
                        other => return Err(InvalidSelector(format!("found '{other}', expected: ',' or ')'"))),
                    }
                }
                other => return Err(InvalidSelector(format!("found '{other}', expected: ',', or identifier"))),
            }
        }
        self.at += 1;
        Ok(values)
    }
}
