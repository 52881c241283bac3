//! Translates the `cel` crate's errors to cel-go's.

use crate::source::{Errors, Position, Source};
use cel::ParseError;

/// The text with reserved words replaced by underscores, if these words are the only errors.
pub(super) fn without_reserved(found: &[ParseError], source: &Source<'_>) -> Option<String> {
    let mut text = source.characters().to_vec();
    for error in found {
        let word = error.msg.strip_prefix("reserved identifier: ")?.trim_start_matches('.');
        let begin = source.offset(position(error)?);
        text.get_mut(begin..begin + word.len())?.fill('_');
    }
    Some(text.into_iter().collect())
}

/// Adds the `cel` crate's errors, in the order of their positions, with cel-go's texts.
pub(super) fn syntax_errors(found: &[ParseError], source: &Source<'_>, errors: &mut Errors) {
    if found.iter().any(|error| error.msg.contains("ecursion limit of")) {
        return errors.add(None, format!("expression recursion limit exceeded: {}", super::MAX_DEPTH));
    }
    // Unrecognized and extraneous tokens are treated as absent.
    let mut text = source.characters().to_vec();
    for error in found {
        let skipped = error.msg.strip_prefix("Syntax error: token recognition error at: '").or_else(|| {
            let input = error.msg.strip_prefix("Syntax error: extraneous input '")?;
            input.split_once("' expecting").map(|(input, _)| input)
        });
        let begin = position(error).map_or(text.len(), |position| source.offset(position));
        let skipped = skipped.map_or(0, |skipped| skipped.trim_end_matches('\'').chars().count().max(1));
        text.iter_mut().skip(begin).take(skipped).for_each(|c| *c = ' ');
    }
    // cel-go reports the parser's errors before those of the tree's construction.
    let (syntax, others): (Vec<_>, Vec<_>) = found.iter().partition(|error| error.msg.starts_with("Syntax error"));
    let mut ended = Vec::new();
    for error in syntax.into_iter().chain(others) {
        syntax_error(error, source, &text, &mut ended, errors);
    }
}

fn position(error: &ParseError) -> Option<Position> {
    usize::try_from(error.pos.0).ok().zip(usize::try_from(error.pos.1 - 1).ok())
}

/// Adds one error. `ended` are the code points at which the parser gave up the construct of an earlier error.
fn syntax_error(error: &ParseError, source: &Source<'_>, tokens: &[char], ended: &mut Vec<usize>, errors: &mut Errors) {
    let text = source.characters();
    let message = error.msg.as_str();
    let position = position(error);
    let offset = position.map_or(0, |position| source.offset(position));
    if let Some((input, expected)) = message.split_once(" expecting {")
        && message.starts_with("Syntax error: mismatched input")
        && expected.contains("'==', '!='")
    {
        let (before, after) = tokens.split_at(offset.min(tokens.len()));
        let wanted = wanted(before, ended);
        errors.add(position, format!("{input} expecting {wanted}"));
        if wanted == "<EOF>" && count(after) > super::MAX_SKIPPED {
            errors.add(None, format!("error recovery token lookahead limit exceeded: {}", super::MAX_SKIPPED));
        }
        ended.push(offset);
    } else if closes(message) {
        ended.push(offset);
        errors.add(position, message);
    } else if let Some(input) = message.strip_prefix("Syntax error: no viable alternative at input '")
        && let Some(word) = ["true'", "false'", "null'"].iter().find(|word| input.chars().skip(1).eq(word.chars()))
    {
        errors.add(position, format!("Syntax error: mismatched input '{word} expecting IDENTIFIER"));
    } else if let Some(word) = message.strip_prefix("reserved identifier: .") {
        let dot = text.iter().take(offset).rposition(|c| *c == '.').map(|dot| source.position(dot));
        errors.add(dot.or(position), format!("reserved identifier: {word}"));
    } else if message == "unsupported ident kind" {
        let name = text.iter().skip(offset).position(|c| !c.is_whitespace() && !matches!(c, '.' | '?'));
        errors.add(Some(source.position(name.map_or(text.len(), |found| offset + found))), message);
    } else if message.starts_with("invalid string literal") || message.starts_with("invalid bytes literal") {
        errors
            .add(position, escape_error(text.get(offset..).unwrap_or_default()).unwrap_or("unable to unescape string"));
    } else if matches!(message, "invalid int literal" | "invalid double literal") {
        errors.add(sign_before(text, offset).map(|sign| source.position(sign)).or(position), message);
    } else if !message.starts_with("No `") && !message.starts_with("Incomplete ") {
        errors.add(position, message);
    }
}

/// Whether an error of the parser ends the innermost list, map or call.
fn closes(message: &str) -> bool {
    let ends = |text: &str| [")'", "]'", "}'"].iter().any(|end| text.starts_with(end));
    let missing = message.strip_prefix("Syntax error: missing '");
    let expected = message
        .strip_prefix("Syntax error: mismatched input '")
        .and_then(|rest| Some(rest.split_once("expecting {'")?.1));
    missing.is_some_and(ends) || expected.is_some_and(ends)
}

/// The position of a negative number's minus, which ends before this code point: a minus without an operand before it.
pub(super) fn sign_before(text: &[char], offset: usize) -> Option<usize> {
    let before = text.get(..offset)?;
    let sign = before.iter().rposition(|c| !c.is_whitespace())?;
    let (character, before) = (before.get(sign)?, before.get(..sign)?);
    let operand = before.iter().rev().find(|c| !c.is_whitespace());
    let binary = operand.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '}' | '\'' | '"' | '`'));
    (*character == '-' && !binary).then_some(sign)
}

/// The tokens that must follow this text if its last expression is complete. The `cel` crate's parser lists the operators too, cel-go's
/// does not. `ended` are the positions at which an unclosed construct was given up.
fn wanted(text: &[char], ended: &[usize]) -> &'static str {
    /// An open bracket.
    struct Open {
        bracket: char,
        /// The number of `?` without their `:`.
        conditions: usize,
        /// Whether the entry has had its `:`.
        colon: bool,
    }
    let follows = |rest: &[char]| rest.first().is_some_and(|c| "+-*/%=<>&|.[?,)]}:".contains(*c));
    let mut open = vec![Open { bracket: ' ', conditions: 0, colon: false }];
    let mut previous = ' ';
    let mut at = 0;
    let mut ended = ended.iter().peekable();
    while let Some(rest @ [c, after @ ..]) = text.get(at..) {
        let c = *c;
        let mut skips = false;
        while ended.next_if(|end| **end <= at).is_some() {
            skips = true;
            let nested = open.len() > 1;
            match open.last_mut() {
                Some(inner) if inner.conditions > 0 => inner.conditions -= 1,
                Some(Open { bracket: '{', colon: colon @ false, .. }) => *colon = true,
                Some(_) if nested => drop(open.pop()),
                _ => {}
            }
        }
        if skips {
            // A token that cannot follow is skipped, and opens no bracket.
            while let Some(rest @ [c, ..]) = text.get(at..).filter(|rest| !follows(rest)) {
                at += if matches!(c, '\'' | '"') { string_length(rest, ' ') } else { 1 };
            }
            continue;
        }
        let Some(inner) = open.last_mut() else { break };
        at += match c {
            '\'' | '"' => string_length(rest, previous),
            '`' => name_length(rest),
            '/' if after.first() == Some(&'/') => rest.iter().take_while(|c| **c != '\n').count(),
            _ => 1,
        };
        match c {
            '?' if !matches!(previous, '.' | '[' | '{' | ',') => inner.conditions += 1,
            ':' if inner.conditions > 0 => inner.conditions -= 1,
            ':' => inner.colon = true,
            ',' => (inner.colon, inner.conditions) = (false, 0),
            '(' | '[' | '{' => open.push(Open { bracket: c, conditions: 0, colon: false }),
            ')' | ']' | '}' if open.len() > 1 => drop(open.pop()),
            _ => {}
        }
        if !c.is_whitespace() {
            previous = c;
        }
    }
    match open.last() {
        Some(Open { conditions: 1.., .. } | Open { bracket: '{', colon: false, .. }) => "':'",
        Some(Open { bracket: '(', .. }) => "')'",
        Some(Open { bracket: '[', .. }) => "']'",
        Some(Open { bracket: '{', .. }) => "'}'",
        _ => "<EOF>",
    }
}

/// The number of tokens.
fn count(text: &[char]) -> usize {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let (mut tokens, mut at) = (0, 0);
    while let Some(rest @ [c, ..]) = text.get(at..) {
        let (length, is_token) = match c {
            '\'' | '"' => (string_length(rest, before(text, at)), true),
            '`' => (name_length(rest), true),
            '/' if rest.get(1) == Some(&'/') => (rest.iter().take_while(|c| **c != '\n').count(), false),
            '&' | '|' | '=' | '!' | '<' | '>' if matches!(rest.get(1), Some('&' | '|' | '=')) => (2, true),
            c if word(c) => {
                let length = rest.iter().take_while(|c| word(c)).count();
                // The prefix of a string is a part of the string's token.
                (length, !matches!(rest.get(length), Some('\'' | '"')))
            }
            c => (1, !c.is_whitespace()),
        };
        tokens += usize::from(is_token);
        at += length;
    }
    tokens
}

/// The code point before a position; a blank at the start.
pub(super) fn before(text: &[char], at: usize) -> char {
    at.checked_sub(1).and_then(|before| text.get(before)).copied().unwrap_or(' ')
}

/// The number of code points of the name in back-ticks at the start of the text.
pub(super) fn name_length(text: &[char]) -> usize {
    let name = text.iter().skip(1).position(|c| *c == '`');
    name.map_or(1, |length| length + 2)
}

/// The number of code points of the string literal at the start of the text.
pub(super) fn string_length(text: &[char], before: char) -> usize {
    let Some(quote) = text.first().copied() else { return 0 };
    let width = if text.get(1) == Some(&quote) && text.get(2) == Some(&quote) { 3 } else { 1 };
    let mut at = width;
    while let Some(rest @ [c, ..]) = text.get(at..) {
        if *c == '\\' && !matches!(before, 'r' | 'R') {
            at += 2;
        } else if rest.iter().take(width).filter(|c| **c == quote).count() == width {
            return at + width;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The error that cel-go reports for the escapes of the string or bytes literal at the start of the text (`unescape`).
pub(super) fn escape_error(text: &[char]) -> Option<&'static str> {
    const WRONG: &str = "unable to unescape string";
    const OCTAL: &str = "unable to unescape octal sequence in string";
    let quote = text.iter().position(|c| matches!(c, '"' | '\''))?;
    let (prefix, literal) = text.split_at(quote);
    if prefix.iter().any(|c| matches!(c, 'r' | 'R')) {
        return None;
    }
    let bytes = prefix.iter().any(|c| matches!(c, 'b' | 'B'));
    let mut rest = literal.get(..string_length(literal, ' ')).unwrap_or(literal);
    while let Some(escape) = rest.iter().position(|c| *c == '\\') {
        let (width, radix) = match rest.get(escape + 1)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '\'' | '"' | '`' | '?' => (0, 16),
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => (2, 8),
            _ => return Some(WRONG),
        };
        rest = rest.get(escape + 2..)?;
        let digits = rest.get(..width).filter(|digits| digits.iter().all(|c| c.is_digit(radix)));
        let Some(digits) = digits else { return Some(if radix == 8 { OCTAL } else { WRONG }) };
        let code = digits.iter().try_fold(0u32, |code, c| code.checked_mul(radix)?.checked_add(c.to_digit(radix)?));
        if !bytes && code.and_then(char::from_u32).is_none() {
            return Some("invalid unicode code point");
        }
        rest = rest.get(width..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn characters(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn the_expected_token_closes_the_innermost_part() {
        for (text, expected) in [
            ("a ", "<EOF>"),
            ("f(a ", "')'"),
            ("f(a, [1] ", "')'"),
            ("[(1), 2 ", "']'"),
            ("{a ", "':'"),
            ("{'}': {1: 2}, ?b: a ? 1 : 2 ", "'}'"),
            ("a ? b ", "':'"),
            ("a ? b : c ", "<EOF>"),
            ("a.?b[?c] // (", "<EOF>"),
            ("f(a.`b//c/d`)[a.`e` ", "']'"),
        ] {
            assert_eq!(wanted(&characters(text), &[]), expected, "{text}");
        }
        assert_eq!(wanted(&characters("(f(a b) "), &[5]), "<EOF>");
    }

    #[test]
    fn escapes_are_cel_gos() {
        for (text, expected) in [
            (r"'\n\x41\u00e9\101'", None),
            (r"'\q'", Some("unable to unescape string")),
            (r"'\x+1'", Some("unable to unescape string")),
            (r"'\18'", Some("unable to unescape octal sequence in string")),
            (r"'\ud800'", Some("invalid unicode code point")),
            (r"b'\u00e9'", Some("unable to unescape string")),
            (r"r'\q'", None),
        ] {
            assert_eq!(escape_error(&characters(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_minus_after_an_operand_is_no_sign() {
        assert_eq!(sign_before(&characters("1 - 2"), 4), None);
        assert_eq!(sign_before(&characters("(- 2"), 3), Some(1));
    }
}
