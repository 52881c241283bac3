//! The values of YAML, at most: the indentation of a line shows whether its key starts a map. A text can have the same characters, so that
//! the values of texts with many of them are overestimated.

use super::{ENTRY, ITEM, LIST, MAP, TEXT};

/// The memory that aliases may add to a document (`object::decode::yaml`).
const ALIASED: usize = 16 << 20;

/// A position in the document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    line: Line,
    /// The indentation of the last key.
    key_indent: Option<usize>,
    /// True after the first list in brackets, in which every key may be a map of its own (`[a: 0, b: 0]`).
    is_in_list: bool,
    /// The last byte that is no whitespace.
    last: u8,
    previous: u8,
    has_anchor: bool,
    /// The memory of the aliases so far.
    aliased: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    indent: usize,
    has_dash: bool,
    is_comment: bool,
    has_begun: bool,
    has_key: bool,
}

impl Block {
    /// The rest of a document that began with a bracket.
    pub(super) fn within_flow() -> Self {
        Self { is_in_list: true, ..Self::default() }
    }

    /// Adds data, all of which has this form.
    pub(super) fn add<'d>(&mut self, data: &'d [u8], values: &mut usize) -> &'d [u8] {
        // Characters of UTF-16 have bytes of zeros.
        for byte in data.iter().filter(|byte| **byte != 0) {
            *values += self.byte(*byte) + self.alias(*byte, *values);
            self.bytes += 1;
            self.previous = *byte;
        }
        &[]
    }

    /// An alias is at most as large as all before it.
    fn alias(&mut self, byte: u8, before: usize) -> usize {
        match self.previous {
            b'&' => self.has_anchor |= byte.is_ascii_alphanumeric(),
            b'*' if self.has_anchor && byte.is_ascii_alphanumeric() => {
                let added = (before + self.bytes).min(ALIASED - self.aliased);
                self.aliased += added;
                return added;
            }
            _ => {}
        }
        0
    }

    fn byte(&mut self, byte: u8) -> usize {
        self.is_in_list |= self.last == b'[' && byte != b']';
        let after = self.last;
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        if byte == b'\n' || byte == b'\r' {
            self.line = Line::default();
            return 0;
        }
        if !self.line.has_begun {
            match byte {
                b' ' => self.line.indent += 1,
                b'-' => {
                    self.line.indent += 1;
                    self.line.has_dash = true;
                    self.key_indent = None;
                    return MAP + LIST + ITEM + TEXT;
                }
                _ => {
                    self.line.has_begun = true;
                    self.line.is_comment = byte == b'#';
                }
            }
        }
        match byte {
            b':' => self.key() + TEXT + TEXT,
            b'{' | b'?' | b'~' => MAP + ITEM,
            b'[' => LIST + ITEM,
            b',' => ENTRY + TEXT,
            b'n' | b'N' if matches!(after, b',' | b'[') => MAP,
            _ => 0,
        }
    }

    fn key(&mut self) -> usize {
        let is_first = !std::mem::replace(&mut self.line.has_key, true);
        if self.is_in_list {
            return MAP + ENTRY;
        }
        if !is_first || self.line.is_comment {
            return ENTRY;
        }
        let is_same_map = self.line.has_dash || self.key_indent.is_some_and(|indent| self.line.indent <= indent);
        self.key_indent = Some(self.line.indent);
        if is_same_map { ENTRY } else { MAP + ENTRY }
    }
}
