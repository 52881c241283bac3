//! What a request's selectors require, for authorizers that let a user see only some objects.
//!
//! A selector that cannot be read gives no requirements: the question is then about all objects, which is never less.

use crate::impersonation::is_subdomain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldSelectorRequirement, LabelSelectorRequirement};

/// `fields.ParseSelector` and `fieldSelectorToAuthorizationAPI`.
pub(super) fn fields(selector: &str) -> Vec<FieldSelectorRequirement> {
    let mut terms = split_unescaped(selector);
    terms.sort_unstable();
    terms.into_iter().filter(|term| !term.is_empty()).map(field).collect::<Option<_>>().unwrap_or_default()
}

fn field(term: &str) -> Option<FieldSelectorRequirement> {
    let equals = term.find('=')?;
    let at = if term[..equals].ends_with('!') { equals - 1 } else { equals };
    let (key, rest) = term.split_at(at);
    let (operator, value) = if let Some(value) = rest.strip_prefix("!=") {
        ("NotIn", value)
    } else {
        ("In", rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?)
    };
    Some(FieldSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![unescape(value)?]),
    })
}

/// Characters and where they are, without the escaped ones and their backslashes.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.char_indices().filter(move |(_, character)| {
        let plain = !escaped && *character != '\\';
        escaped = !escaped && *character == '\\';
        plain
    })
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in unescaped(text).filter(|(_, character)| *character == ',') {
        parts.push(&text[start..at]);
        start = at + 1;
    }
    parts.push(&text[start..]);
    parts
}

/// `fields.UnescapeValue`: backslashes go before backslash, comma and equals sign only.
fn unescape(value: &str) -> Option<String> {
    let (mut text, mut characters) = (String::with_capacity(value.len()), value.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                escaped @ ('\\' | ',' | '=') => text.push(escaped),
                _ => return None,
            },
            ',' | '=' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}

/// `labels.Parse` and `labelSelectorToAuthorizationAPI`: sorted by key, without the comparisons of numbers.
pub(super) fn labels(selector: &str) -> Vec<LabelSelectorRequirement> {
    let mut tokens = Tokens { rest: selector };
    let mut requirements: Vec<(LabelSelectorRequirement, bool)> = Vec::new();
    if matches!(tokens.clone().next(), Token::End) {
        return Vec::new();
    }
    loop {
        match requirement(&mut tokens) {
            Some(requirement) => requirements.push(requirement),
            None => return Vec::new(),
        }
        match tokens.next() {
            Token::End => break,
            Token::Symbol(",") if !matches!(tokens.clone().next(), Token::End) => {}
            _ => return Vec::new(),
        }
    }
    requirements.sort_by(|a, b| a.0.key.cmp(&b.0.key));
    requirements.into_iter().filter(|(_, known)| *known).map(|(requirement, _)| requirement).collect()
}

/// One requirement, and whether authorizers know its operator.
fn requirement(tokens: &mut Tokens<'_>) -> Option<(LabelSelectorRequirement, bool)> {
    let made = |key: &str, operator: &str, values: Vec<String>| {
        let values = (!values.is_empty()).then_some(values);
        Some(LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values })
    };
    let key = match tokens.next() {
        Token::Word(key) => key,
        Token::Symbol("!") => match tokens.next() {
            Token::Word(key) if is_key(key) => return Some((made(key, "DoesNotExist", Vec::new())?, true)),
            _ => return None,
        },
        _ => return None,
    };
    if !is_key(key) {
        return None;
    }
    let after = tokens.clone().next();
    if matches!(after, Token::End | Token::Symbol(",")) {
        return Some((made(key, "Exists", Vec::new())?, true));
    }
    tokens.next();
    match after {
        Token::Word(operator @ ("in" | "notin")) => {
            let name = if operator == "in" { "In" } else { "NotIn" };
            Some((made(key, name, set(tokens)?)?, true))
        }
        Token::Symbol("=" | "==") => Some((made(key, "In", vec![value(tokens)?])?, true)),
        Token::Symbol("!=") => Some((made(key, "NotIn", vec![value(tokens)?])?, true)),
        Token::Symbol(">" | "<") => {
            value(tokens)?.parse::<i64>().ok().and_then(|_| Some((made(key, "", Vec::new())?, false)))
        }
        _ => None,
    }
}

/// The value after an operator; nothing is the empty one.
fn value(tokens: &mut Tokens<'_>) -> Option<String> {
    match tokens.clone().next() {
        Token::End | Token::Symbol(",") => Some(String::new()),
        Token::Word(word) if is_value(word) => {
            tokens.next();
            Some(word.to_owned())
        }
        _ => None,
    }
}

/// `(a,b)`, sorted and without doubles.
fn set(tokens: &mut Tokens<'_>) -> Option<Vec<String>> {
    let Token::Symbol("(") = tokens.next() else { return None };
    let (mut values, mut word) = (Vec::new(), "");
    loop {
        match tokens.next() {
            Token::Word(next) if word.is_empty() && is_value(next) => word = next,
            Token::Symbol(symbol @ ("," | ")")) => {
                values.push(std::mem::take(&mut word).to_owned());
                if symbol == ")" {
                    break;
                }
            }
            _ => return None,
        }
    }
    values.sort();
    values.dedup();
    Some(values)
}

#[derive(Clone)]
struct Tokens<'a> {
    rest: &'a str,
}

enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if text.is_empty() {
            self.rest = text;
            return Token::End;
        }
        let symbols = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
        if let Some(symbol) = symbols.into_iter().find(|symbol| text.starts_with(symbol)) {
            let (symbol, rest) = text.split_at(symbol.len());
            self.rest = rest;
            return Token::Symbol(symbol);
        }
        let end = text.find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        Token::Word(word)
    }
}

/// `validation.IsQualifiedName`.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_value(name) && prefix.is_none_or(is_subdomain)
}

/// `validation.IsValidLabelValue`.
fn is_value(value: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && edge(bytes.first())
        && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_field_selectors() {
        type Row = (&'static str, &'static [(&'static str, &'static str, &'static str)]);
        let table: &[Row] = &[
            ("", &[]),
            ("metadata.name=x", &[("metadata.name", "In", "x")]),
            ("a==x,b!=y,,c=", &[("a", "In", "x"), ("b", "NotIn", "y"), ("c", "In", "")]),
            (r"a=x\,y\=z\\", &[("a", "In", r"x,y=z\")]),
            ("a", &[]),
            ("a=x,b", &[]),
            ("a=b=c", &[]),
            (r"a=\x", &[]),
        ];
        for (selector, wanted) in table {
            let found = fields(selector);
            let found: Vec<_> = found
                .iter()
                .map(|r| (r.key.as_str(), r.operator.as_str(), r.values.as_ref().unwrap()[0].as_str()))
                .collect();
            assert_eq!(found, *wanted, "{selector}");
        }
    }

    #[test]
    fn reads_label_selectors() {
        let table = [
            ("", ""),
            ("b=x,a", "a Exists []; b In [x]"),
            ("!a, b==x ,c!=y", "a DoesNotExist []; b In [x]; c NotIn [y]"),
            ("x.io/a in (q, p,q), b notin ( )", "b NotIn []; x.io/a In [p,q]"),
            ("a=", "a In []"),
            ("a>5,b", "b Exists []"),
            ("a>x,b", ""),
            ("in in (in)", "in In [in]"),
            ("a,", ""),
            ("a b", ""),
            ("-a=x", ""),
            ("a=x/y", ""),
            ("a in p", ""),
            ("a in (p", ""),
            ("a in (p q)", ""),
            ("UP/a", ""),
        ];
        for (selector, wanted) in table {
            let found: Vec<_> = labels(selector)
                .iter()
                .map(|r| format!("{} {} [{}]", r.key, r.operator, r.values.clone().unwrap_or_default().join(",")))
                .collect();
            assert_eq!(found.join("; "), wanted, "{selector}");
        }
    }
}
