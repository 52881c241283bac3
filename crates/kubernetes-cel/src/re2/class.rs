//! Character classes: `[…]`, `\d`, `\pL`, `[:alpha:]`.

use super::parse::{INVALID_ESCAPE, Reader, TOO_LARGE};
use super::{Error, MAX_RANGES, unicode};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

const INVALID_RANGE: &str = "invalid character class range";
const MISSING_BRACKET: &str = "missing closing ]";

const DIGIT: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// Perl's class, without the vertical tab.
const SPACE: &[(char, char)] = &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')];

/// POSIX's classes, which contain only ASCII.
const POSIX: [(&str, &[(char, char)]); 14] = [
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("ascii", &[('\0', '\x7f')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ("digit", DIGIT),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", &[('\t', '\r'), (' ', ' ')]),
    ("upper", &[('A', 'Z')]),
    ("word", WORD),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

/// The range between two code points. Excludes surrogates, since no text contains them.
fn range(from: u32, to: u32) -> ClassUnicode {
    let from = char::from_u32(if is_surrogate(from) { 0xe000 } else { from });
    let to = char::from_u32(if is_surrogate(to) { 0xd7ff } else { to });
    let range = from.zip(to).filter(|(from, to)| from <= to);
    ClassUnicode::new(range.map(|(from, to)| ClassUnicodeRange::new(from, to)))
}

fn is_surrogate(code: u32) -> bool {
    (0xd800..0xe000).contains(&code)
}

/// A character, with its case variants if `folds`.
pub(super) fn character(code: u32, folds: bool) -> ClassUnicode {
    finished(range(code, code), folds, false)
}

/// Folds and negates a class. Folding comes before negation.
fn finished(mut class: ClassUnicode, folds: bool, negated: bool) -> ClassUnicode {
    if folds {
        unicode::fold(&mut class);
    }
    if negated {
        class.negate();
    }
    class
}

fn group(ranges: &[(char, char)], folds: bool, negated: bool) -> ClassUnicode {
    let ranges = ranges.iter().map(|(from, to)| ClassUnicodeRange::new(*from, *to));
    finished(ClassUnicode::new(ranges), folds, negated)
}

/// Parses `[…]`; the reader is at the bracket (`parseClass`).
pub(super) fn bracketed(reader: &mut Reader<'_>, folds: bool) -> Result<ClassUnicode, Error> {
    let whole = reader.rest();
    reader.skip(1);
    let negated = reader.take("^");
    let mut ranges: Vec<ClassUnicodeRange> = Vec::new();
    let mut is_first = true;
    while is_first || !reader.rest().starts_with(']') {
        is_first = false;
        let item = match posix(reader, folds)? {
            Some(item) => Some(item),
            None => escaped(reader, folds)?,
        };
        let item = match item {
            Some(item) => item,
            None => single_or_range(reader, whole, folds)?,
        };
        ranges.extend(item.ranges());
        if ranges.len() > MAX_RANGES {
            return Err(Error::new(TOO_LARGE, whole));
        }
    }
    reader.skip(1);
    Ok(finished(ClassUnicode::new(ranges), false, negated))
}

fn single_or_range(reader: &mut Reader<'_>, whole: &str, folds: bool) -> Result<ClassUnicode, Error> {
    let start = reader.rest();
    let from = single(reader, whole)?;
    let mut to = from;
    // A hyphen before the closing bracket is a plain character.
    if start_of_range(reader.rest()) {
        reader.skip(1);
        to = single(reader, whole)?;
        if to < from {
            return Err(Error::new(INVALID_RANGE, reader.since(start)));
        }
    }
    Ok(finished(range(from, to), folds, false))
}

fn start_of_range(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && !rest.starts_with(']'))
}

/// `parseClassChar`.
fn single(reader: &mut Reader<'_>, whole: &str) -> Result<u32, Error> {
    match reader.rest().chars().next() {
        None => Err(Error::new(MISSING_BRACKET, whole)),
        Some('\\') => reader.escape(),
        Some(character) => {
            reader.skip(character.len_utf8());
            Ok(character.into())
        }
    }
}

/// Parses `[:alpha:]` (`parseNamedClass`); `None` without the closing `:]`.
fn posix(reader: &mut Reader<'_>, folds: bool) -> Result<Option<ClassUnicode>, Error> {
    let Some(rest) = reader.rest().strip_prefix("[:").filter(|_| reader.may_have_name()) else { return Ok(None) };
    let Some((name, _)) = rest.split_once(":]") else { return Ok(None) };
    let (plain, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let whole = reader.rest().get(..name.len() + 4).unwrap_or_default();
    let (_, ranges) = POSIX.iter().find(|(name, _)| *name == plain).ok_or_else(|| Error::new(INVALID_RANGE, whole))?;
    reader.skip(whole.len());
    Ok(Some(group(ranges, folds, negated)))
}

/// Parses `\pL`, `\p{Greek}`, `\d` and similar classes; `None` for other escapes.
pub(super) fn escaped(reader: &mut Reader<'_>, folds: bool) -> Result<Option<ClassUnicode>, Error> {
    let mut characters = reader.rest().chars();
    let (Some('\\'), Some(letter)) = (characters.next(), characters.next()) else { return Ok(None) };
    let ranges = match letter.to_ascii_lowercase() {
        'p' => return named(reader, letter == 'P', folds).map(Some),
        'd' => DIGIT,
        's' => SPACE,
        'w' => WORD,
        _ => return Ok(None),
    };
    reader.skip(2);
    Ok(Some(group(ranges, folds, letter.is_ascii_uppercase())))
}

/// `parseUnicodeClass`.
fn named(reader: &mut Reader<'_>, mut negated: bool, folds: bool) -> Result<ClassUnicode, Error> {
    let start = reader.rest();
    reader.skip(2);
    let name = match reader.rest().chars().next() {
        Some('{') => {
            let end = start.find('}').ok_or_else(|| Error::new(INVALID_RANGE, start))?;
            reader.skip(end - 1);
            start.get(3..end).unwrap_or_default()
        }
        letter => {
            let length = letter.map_or(0, char::len_utf8);
            reader.skip(length);
            start.get(2..2 + length).unwrap_or_default()
        }
    };
    let plain = name.strip_prefix('^').unwrap_or(name);
    negated ^= plain.len() < name.len();
    let class = unicode::class(plain, folds).ok_or_else(|| Error::new(INVALID_RANGE, reader.since(start)))?;
    Ok(finished(class, false, negated))
}

impl Reader<'_> {
    /// Parses an escaped character (`parseEscape`) and returns its code, which may be a surrogate's.
    pub(super) fn escape(&mut self) -> Result<u32, Error> {
        let start = self.rest();
        self.skip(1);
        let Some(letter) = self.next() else { return Err(Error::new("trailing backslash at end of expression", "")) };
        let is_octal = |rest: &str| rest.starts_with(|c: char| matches!(c, '0'..='7'));
        let code = match letter {
            '0' => Some(self.octal(0)),
            // A single digit would be a back reference.
            '1'..='7' if is_octal(self.rest()) => Some(self.octal(u32::from(letter) - u32::from('0'))),
            'x' => self.hexadecimal(),
            'a' => Some(0x07),
            'f' => Some(0x0c),
            'n' => Some(0x0a),
            'r' => Some(0x0d),
            't' => Some(0x09),
            'v' => Some(0x0b),
            other => (other.is_ascii() && !other.is_ascii_alphanumeric()).then(|| other.into()),
        };
        code.ok_or_else(|| Error::new(INVALID_ESCAPE, self.since(start)))
    }

    /// Parses an octal number of at most three digits; `first` is the first digit.
    fn octal(&mut self, first: u32) -> u32 {
        let mut code = first;
        for _ in 0..2 {
            let Some(digit) = self.rest().chars().next().and_then(|digit| digit.to_digit(8)) else { break };
            self.skip(1);
            code = code * 8 + digit;
        }
        code
    }

    /// Parses two hexadecimal digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            // Both characters are consumed, digits or not.
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut code = None;
        loop {
            match self.next()? {
                '}' => return code,
                digit => {
                    let next = code.unwrap_or(0) * 16 + digit.to_digit(16)?;
                    code = Some(next).filter(|code| *code <= char::MAX.into());
                    code?;
                }
            }
        }
    }
}
