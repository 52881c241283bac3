//! The values of CBOR: the head of each value has its length.

use super::{ITEM, LIST, MAP, TEXT};

/// A position in the document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cbor {
    /// The bytes of the current text that are missing.
    left: u64,
    /// True for a byte string, which JSON has in base64, false for a text string.
    is_bytes: bool,
    kind: u8,
    /// The bytes of the argument of the current head that are missing.
    missing: u8,
    argument: u64,
}

impl Cbor {
    /// Adds data, all of which has this form.
    pub(super) fn add<'d>(&mut self, mut data: &'d [u8], values: &mut usize) -> &'d [u8] {
        while let Some((&byte, rest)) = data.split_first() {
            if self.left > 0 {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.len());
                self.left -= length as u64;
                *values += if self.is_bytes { length / 2 } else { 0 };
                data = data.get(length..).unwrap_or_default();
                continue;
            }
            data = rest;
            if self.missing > 0 {
                self.missing -= 1;
                self.argument = self.argument << 8 | u64::from(byte);
            } else {
                self.kind = byte >> 5;
                (self.missing, self.argument) = match byte & 0x1f {
                    short @ 0..24 => (0, u64::from(short)),
                    long @ 24..28 => (1 << (long - 24), 0),
                    // A value of unknown length ends with a head of its own.
                    _ => (0, 0),
                };
            }
            if self.missing == 0 {
                *values += self.value();
            }
        }
        data
    }

    fn value(&mut self) -> usize {
        match self.kind {
            2 | 3 => {
                (self.left, self.is_bytes) = (self.argument, self.kind == 2);
                ITEM + TEXT
            }
            4 => ITEM + LIST,
            5 => ITEM + MAP,
            // A tag has no memory of its own.
            6 => 0,
            // In a list of structs, null is an empty struct, which gets defaults.
            7 if self.argument == 22 => ITEM + MAP,
            _ => ITEM,
        }
    }
}
