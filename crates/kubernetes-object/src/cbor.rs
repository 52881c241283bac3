//! CBOR as kube-apiserver reads and writes it with the feature gate `CBORServingAndStorage` (`apimachinery/pkg/runtime/serializer/cbor`).
//! Its decoder is `fxamacker/cbor`, whose rules and error texts this module follows.
//!
//! The reader first checks a body as a whole, so that a length that a body only declares costs neither time nor memory. `cbor/any.rs`
//! decodes items without a type, `typed/cbor.rs` decodes items into a Go type.

mod failure;
mod check;
mod any;
mod diagnose;
mod encode;

pub use any::{decode, is_cbor};
pub use diagnose::diagnose;
pub use encode::encode;

pub(super) use failure::{Failure, First};

use super::decode::push_lossy;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ciborium_ll::{Decoder, Error, Header};
use std::borrow::Cow;

/// `tagNumSelfDescribedCBOR` and the bytes of the tag.
const SELF_DESCRIBED: u64 = 55799;
const SELF_DESCRIBED_BYTES: [u8; 3] = [0xd9, 0xd9, 0xf7];
/// The number of items that every body may have, and the least number of bytes for each further item, which JSON needs too. A map of one
/// entry has three bytes and takes some hundred bytes in memory.
const MAX_ITEMS: usize = 500_000;
const BYTES_PER_ITEM: usize = 2;

pub(super) const FALSE: u8 = 20;
pub(super) const TRUE: u8 = 21;
pub(super) const NULL: u8 = 22;
pub(super) const UNDEFINED: u8 = 23;

/// The tags that convert byte strings to text: to base64url, base64 (`tagNumExpectedLaterEncodingBase64`) or hexadecimal.
const LATER_ENCODINGS: std::ops::RangeInclusive<u64> = 21..=23;

/// `cborType.String`
fn type_name(header: Header) -> &'static str {
    match header {
        Header::Positive(_) => "positive integer",
        Header::Negative(_) => "negative integer",
        Header::Bytes(_) => "byte string",
        Header::Text(_) => "UTF-8 text string",
        Header::Array(_) => "array",
        Header::Map(_) => "map",
        Header::Tag(_) => "tag",
        Header::Simple(_) | Header::Float(_) | Header::Break => "primitives",
    }
}

/// The name of an item's type by the first byte of the item.
fn type_of_byte(byte: u8) -> &'static str {
    match byte >> 5 {
        0 => "positive integer",
        1 => "negative integer",
        2 => "byte string",
        3 => "UTF-8 text string",
        4 => "array",
        5 => "map",
        6 => "tag",
        _ => "primitives",
    }
}

/// Reads items one after the other. Reads each item to its end, whether the caller wants the item or not.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of items so far.
    items: usize,
    /// The tags around the next item that convert byte strings to text; the last one counts.
    later_encodings: Vec<u64>,
    /// The end of the chain of tags that [`Reader::check_tags`] checked last: each chain is checked once.
    tags_checked: usize,
}

impl<'a> Reader<'a> {
    /// Makes a reader for a body of exactly one item (`decMode.Wellformed`).
    ///
    /// # Errors
    /// If the bytes are not exactly one item, or if the item nests too deep.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Self::unchecked(bytes, 0);
        if bytes.is_empty() {
            return Err(Failure::Other("EOF".to_owned()));
        }
        reader.check(0)?;
        let rest = bytes.len() - reader.at;
        if rest > 0 {
            let why = format!("cbor: {rest} bytes of extraneous data starting at index {}", reader.at);
            return Err(Failure::Other(why));
        }
        if reader.items > MAX_ITEMS.max(bytes.len() / BYTES_PER_ITEM) {
            return Err(Failure::Other(format!("the body has {} data items: send it in JSON", reader.items)));
        }
        reader.at = 0;
        Ok(reader)
    }

    fn unchecked(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, items: 0, later_encodings: Vec::new(), tags_checked: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn first_byte(&self) -> u8 {
        self.rest().first().copied().unwrap_or(0xff)
    }

    /// `decoder.wellformedHead`
    fn checked_head(&mut self) -> Result<Header, Failure> {
        let first = self.first_byte();
        let mut decoder = Decoder::from(self.rest());
        let header = decoder.pull().map_err(|error| {
            Failure::Other(match error {
                Error::Io(_) => "unexpected EOF".to_owned(),
                Error::Syntax(_) => {
                    let (name, information) = (type_of_byte(first), first & 0x1f);
                    format!("cbor: invalid additional information {information} for type {name}")
                }
            })
        })?;
        self.at += decoder.offset();
        match header {
            Header::Simple(value) if first == 0xf8 && value < 32 => {
                Err(Failure::Other(format!("cbor: invalid simple value {value} for type primitives")))
            }
            Header::Float(float) if float.is_nan() => Err(Failure::unacceptable("primitives", "floating-point NaN")),
            Header::Float(float) if float.is_infinite() => {
                Err(Failure::unacceptable("primitives", "floating-point infinity"))
            }
            header => Ok(header),
        }
    }

    /// Reads the end of an item of indefinite length; `false` if the next byte is no end.
    fn ends(&mut self) -> bool {
        let ends = self.first_byte() == 0xff;
        if ends {
            self.at += 1;
        }
        ends
    }

    /// Reads the next header of bytes that were checked before.
    pub(super) fn head(&mut self) -> Header {
        self.checked_head().unwrap_or(Header::Break)
    }

    /// Returns the next header without consuming it.
    pub(super) fn peek(&mut self) -> Header {
        let at = self.at;
        let header = self.head();
        self.at = at;
        header
    }

    /// Whether an array or map has another element. `length` counts the elements left; `None` is an indefinite length.
    pub(super) fn has_next(&mut self, length: &mut Option<usize>) -> bool {
        match length {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => !self.ends() && !self.rest().is_empty(),
        }
    }

    /// Skips the next item, tags included.
    fn leave_out(&mut self) {
        let mut open: Vec<Option<usize>> = vec![Some(1)];
        while let Some(left) = open.last_mut() {
            if !self.has_next(left) {
                open.pop();
                continue;
            }
            match self.head() {
                Header::Bytes(Some(length)) | Header::Text(Some(length)) => self.at += length,
                Header::Bytes(None) | Header::Text(None) | Header::Array(None) | Header::Map(None) => open.push(None),
                Header::Array(length) => open.push(length),
                Header::Map(length) => open.push(length.map(|pairs| pairs * 2)),
                Header::Tag(_) => open.push(Some(1)),
                _ => {}
            }
        }
    }

    /// Skips `count` items.
    pub(super) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.leave_out();
        }
    }

    /// Skips the rest of a map.
    pub(super) fn skip_pairs(&mut self, length: &mut Option<usize>) {
        while self.has_next(length) {
            self.skip(2);
        }
    }

    /// The bytes of a string whose header was read.
    pub(super) fn string(&mut self, length: Option<usize>) -> Cow<'a, [u8]> {
        let Some(length) = length else {
            let mut whole = Vec::new();
            while !self.ends() && !self.rest().is_empty() {
                if let Header::Bytes(Some(length)) | Header::Text(Some(length)) = self.head() {
                    whole.extend_from_slice(self.rest().get(..length).unwrap_or_default());
                    self.at += length;
                }
            }
            return Cow::Owned(whole);
        };
        let bytes = self.rest().get(..length).unwrap_or_default();
        self.at += length;
        Cow::Borrowed(bytes)
    }

    /// The text of a text string whose header was read (`decoder.parseTextString`).
    pub(super) fn text(&mut self, length: Option<usize>) -> Result<String, Failure> {
        let start = self.at;
        let bytes = self.string(length);
        // Each chunk must be valid UTF-8 by itself.
        let is_valid = match length {
            Some(_) => std::str::from_utf8(&bytes).is_ok(),
            None => Self::unchecked(self.bytes, start).chunks_are_texts(),
        };
        let text = String::from_utf8(bytes.into_owned()).ok().filter(|_| is_valid);
        text.ok_or_else(|| Failure::Other("cbor: invalid UTF-8 string".to_owned()))
    }

    fn chunks_are_texts(&mut self) -> bool {
        let mut are_texts = true;
        while !self.ends() && !self.rest().is_empty() {
            if let Header::Text(length @ Some(_)) = self.head() {
                are_texts &= std::str::from_utf8(&self.string(length)).is_ok();
            }
        }
        are_texts
    }

    /// The text of a byte string: converted by the tags around the string, or else the bytes themselves. Bytes that are not UTF-8
    /// become U+FFFD, as in Go's JSON (`decoder.applyByteStringTextConversion`).
    pub(super) fn bytes_as_text(&mut self, length: Option<usize>) -> String {
        let bytes = self.string(length);
        match self.later_encodings.last() {
            Some(21) => URL_SAFE_NO_PAD.encode(bytes),
            Some(22) => STANDARD.encode(bytes),
            Some(_) => hexadecimal(&bytes),
            None => lossy(&bytes),
        }
    }

    /// A byte string as the name of a field.
    pub(super) fn bytes_as_name(&mut self, length: Option<usize>) -> String {
        lossy(&self.string(length))
    }

    /// Whether a tag around the next item converts byte strings to text.
    pub(super) fn is_encoded_later(&self) -> bool {
        !self.later_encodings.is_empty()
    }

    /// Reads the item after the tag whose header was read.
    fn tagged<T>(&mut self, tag: u64, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_encoding = self.begin_tag(tag);
        let value = read(self);
        self.end_tag(is_encoding);
        value
    }

    /// Enters a tag whose header was read. Returns whether the tag converts byte strings to text, for [`Reader::end_tag`].
    pub(super) fn begin_tag(&mut self, tag: u64) -> bool {
        let is_encoding = LATER_ENCODINGS.contains(&tag);
        if is_encoding {
            self.later_encodings.push(tag);
        }
        is_encoding
    }

    /// Leaves the tag of [`Reader::begin_tag`].
    pub(super) fn end_tag(&mut self, is_encoding: bool) {
        if is_encoding {
            self.later_encodings.pop();
        }
    }

    /// Enters an item that decodes itself: tags around the item do not convert its byte strings.
    pub(super) fn begin_item(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.later_encodings)
    }

    /// Leaves the item of [`Reader::begin_item`] and restores the tags around it.
    pub(super) fn end_item(&mut self, around: Vec<u64>) {
        self.later_encodings = around;
    }

    /// The position of the next item.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Returns to a position of [`Reader::place`].
    pub(super) fn go_back(&mut self, place: usize) {
        self.at = place;
    }

    /// Skips tags that mark CBOR.
    pub(super) fn skip_self_described(&mut self) {
        while let Header::Tag(SELF_DESCRIBED) = self.peek() {
            self.head();
        }
    }

    /// Checks that a date or time tag among the next tags has content of its type, and skips the tagged item if not
    /// (`validBuiltinTag`).
    pub(super) fn check_tags(&mut self) -> Result<(), Failure> {
        let start = self.at;
        if start < self.tags_checked {
            return Ok(());
        }
        while let Header::Tag(tag) = self.peek() {
            self.head();
            let expected = match (tag, self.peek()) {
                (0, Header::Text(_)) | (1, Header::Positive(_) | Header::Negative(_) | Header::Float(_)) => continue,
                (0, _) => "text string",
                (1, _) => "integer or floating-point number",
                _ => continue,
            };
            let found = type_name(self.peek());
            self.skip(1);
            return Err(Failure::Other(format!("cbor: tag number {tag} must be followed by {expected}, got {found}")));
        }
        self.tags_checked = self.at;
        self.at = start;
        Ok(())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_lossy(&mut text, bytes);
    text
}

/// The failure of a simple value other than false, true and null.
pub(super) fn unknown_simple(value: u8) -> Failure {
    Failure::unacceptable("primitives", &format!("simple value {value} is not recognized"))
}

/// Converts an integer's header to Go's int64.
pub(super) fn integer(header: Header) -> Result<i64, i128> {
    match header {
        Header::Positive(number) => i64::try_from(number).map_err(|_| i128::from(number)),
        Header::Negative(number) => i64::try_from(-1 - i128::from(number)).map_err(|_| -1 - i128::from(number)),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chain_of_tags_is_checked() {
        // Tag 21 a hundred times before each item.
        let chain = |item: &[u8]| [vec![0xd5; 100].as_slice(), item].concat();
        let in_map = |items: &[Vec<u8>]| [&[0xa1, 0x41, b'a', 0x9f][..], &items.concat(), &[0xff]].concat();
        let encoded = serde_json::json!(["AQ", "AQ", "AQ"]);
        let found = decode(&in_map(&[chain(&[0x41, 1]), chain(&[0x41, 1]), chain(&[0x41, 1])]));
        assert_eq!(found.unwrap().unwrap()["a"], encoded);
        // Tag 0 must be followed by a text; here it is the last tag of the second chain.
        let found = decode(&in_map(&[chain(&[0x41, 1]), chain(&[0xc0, 1])]));
        let refused = found.unwrap_err().to_string();
        assert_eq!(refused, "cbor: tag number 0 must be followed by text string, got positive integer");
    }
}
