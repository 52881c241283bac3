//! The values of JSON, and of YAML that has the same form: every text that is not a plain word is in double quotes.

use super::{ENTRY, ITEM, LIST, MAP, TEXT};
use memchr::memchr2;

/// The levels that a document may have; decoders refuse more.
const DEPTH: usize = u128::BITS as usize;
/// The entries of a map that need no further node, besides the first one.
const FREE: u8 = 10;

/// A position in the document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// For each level whether it is a map; the innermost is the lowest bit.
    maps: u128,
    depth: usize,
    /// The entries that the current map may have more without a further node.
    free: u8,
    last: Last,
    /// The start of the last text.
    text: Text,
    /// True if the last map is the value of a path element of `fieldsV1`. Such a map has no defaults.
    is_path: bool,
    is_in_text: bool,
    is_escaped: bool,
}

/// The last byte outside of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Start,
    Open,
    Comma,
    Colon,
    Text,
    Word,
    Close,
}

/// The first two bytes of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Text {
    start: [u8; 2],
    length: usize,
}

impl Text {
    /// True if the text is a path element of `fieldsV1`, such as `f:spec`.
    fn is_path_element(self) -> bool {
        matches!((self.length, self.start), (1.., [b'.', _]) | (2.., [b'f' | b'k' | b'v' | b'i', b':']))
    }
}

impl Flow {
    /// Adds data, and returns the rest that has another form.
    pub(super) fn add<'d>(&mut self, data: &'d [u8], values: &mut usize) -> &'d [u8] {
        let mut at = 0;
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            if self.is_in_text {
                at += self.text(rest);
                continue;
            }
            let Some(&byte) = rest.first() else { break };
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') && !self.structure(byte, values) {
                return rest;
            }
            at += 1;
        }
        &[]
    }

    /// Reads a part of a text, and returns its length.
    fn text(&mut self, data: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = data.get(at).copied().filter(|_| self.is_escaped || self.text.length < 2) {
            if byte == b'"' && !self.is_escaped {
                break;
            }
            if let Some(start) = self.text.start.get_mut(self.text.length) {
                *start = byte;
                self.text.length += 1;
            }
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            at += 1;
        }
        let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) else { return at };
        match memchr2(b'"', b'\\', rest) {
            None => data.len(),
            Some(found) => {
                match rest.get(found) {
                    Some(b'"') => (self.is_in_text, self.last) = (false, Last::Text),
                    _ => self.is_escaped = true,
                }
                at + found + 1
            }
        }
    }

    /// Adds a byte outside of texts. Returns whether the document has this form.
    fn structure(&mut self, byte: u8, values: &mut usize) -> bool {
        let is_in_map = self.maps & 1 == 1;
        if self.depth == 0 && self.last != Last::Start {
            return false;
        }
        if self.last == Last::Open && !matches!(byte, b'}' | b']') {
            *values += if is_in_map { MAP } else { LIST + ITEM };
            if is_in_map {
                self.free = FREE;
            }
        }
        let may_start = matches!(self.last, Last::Start | Last::Open | Last::Comma | Last::Colon);
        match byte {
            b'"' if may_start => {
                (self.is_in_text, self.text) = (true, Text::default());
                *values += TEXT;
                return true;
            }
            b'{' | b'[' if may_start && self.depth < DEPTH => {
                self.is_path = is_in_map && self.text.is_path_element();
                self.maps = self.maps << 1 | u128::from(byte == b'{');
                self.depth += 1;
                self.last = Last::Open;
            }
            b'}' if is_in_map => {
                match self.last {
                    Last::Open if self.is_path => {}
                    Last::Open => *values += MAP,
                    _ => self.free = 0,
                }
                self.close();
            }
            b']' if !is_in_map => self.close(),
            b',' if is_in_map => {
                match self.free.checked_sub(1) {
                    Some(free) => self.free = free,
                    None => *values += ENTRY,
                }
                self.last = Last::Comma;
            }
            b',' => {
                *values += ITEM;
                self.last = Last::Comma;
            }
            b':' if is_in_map && self.last == Last::Text => self.last = Last::Colon,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.' if may_start || self.last == Last::Word => {
                // In a list of structs, null is an empty struct, which gets defaults.
                if byte == b'n' && !is_in_map && may_start {
                    *values += MAP;
                }
                self.last = Last::Word;
            }
            _ => return false,
        }
        true
    }

    fn close(&mut self) {
        self.maps >>= 1;
        self.depth -= 1;
        self.last = Last::Close;
    }
}
