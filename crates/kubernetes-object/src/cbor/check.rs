//! Checks that bytes are one well-formed item (`decoder.wellformed`), before any item is decoded.

use super::{Failure, Reader, type_name, type_of_byte};
use crate::decode::MAX_DEPTH;
use ciborium_ll::Header;

/// Kubernetes' `MaxNestedLevels`. The limit here is [`MAX_DEPTH`], as for JSON; the error text is Kubernetes'.
const MAX_NESTED_LEVELS: usize = 10_000;
/// `MaxArrayElements`
const MAX_ARRAY_ELEMENTS: u64 = i32::MAX as u64;
/// `MaxMapPairs`
const MAX_MAP_PAIRS: u64 = 2_097_152;

impl Reader<'_> {
    /// `decoder.wellformedInternal`
    pub(super) fn check(&mut self, depth: usize) -> Result<(), Failure> {
        let header = self.checked_head()?;
        self.items += 1;
        let deeper = |depth: usize| match depth < MAX_DEPTH {
            true => Ok(depth + 1),
            false => Err(Failure::Other(format!("cbor: exceeded max nested level {MAX_NESTED_LEVELS}"))),
        };
        match header {
            Header::Bytes(Some(length)) | Header::Text(Some(length)) => self.check_text(header, length),
            Header::Bytes(None) | Header::Text(None) => self.check_chunks(header),
            Header::Array(Some(length)) | Header::Map(Some(length)) => {
                let depth = deeper(depth)?;
                self.check_length(header, length)?;
                let is_map = matches!(header, Header::Map(_));
                for _ in 0..length {
                    self.check(depth)?;
                    if is_map {
                        self.check(depth)?;
                    }
                }
                Ok(())
            }
            Header::Array(None) | Header::Map(None) => {
                let depth = deeper(depth)?;
                let mut count = 0_usize;
                while !self.rest().is_empty() {
                    if !self.ends() {
                        self.check(depth)?;
                        count += 1;
                    } else if matches!(header, Header::Map(_)) && count % 2 == 1 {
                        return Err(unexpected_break());
                    } else {
                        return Ok(());
                    }
                }
                Err(Failure::Other("unexpected EOF".to_owned()))
            }
            Header::Tag(mut number) => {
                let mut depth = depth;
                loop {
                    if self.rest().is_empty() {
                        return Err(Failure::Other("unexpected EOF".to_owned()));
                    }
                    if matches!(number, 2 | 3) {
                        return Err(Failure::unacceptable("tag", "bignum"));
                    }
                    if self.first_byte() >> 5 != 6 {
                        return self.check(depth);
                    }
                    if let Header::Tag(next) = self.checked_head()? {
                        number = next;
                    }
                    depth = deeper(depth)?;
                }
            }
            Header::Break => Err(unexpected_break()),
            _ => Ok(()),
        }
    }

    fn check_text(&mut self, header: Header, length: usize) -> Result<(), Failure> {
        if i64::try_from(length).is_err() {
            let why = format!("cbor: {} length {length} is too large, causing integer overflow", type_name(header));
            return Err(Failure::Other(why));
        }
        if self.rest().len() < length {
            return Err(Failure::Other("unexpected EOF".to_owned()));
        }
        self.at += length;
        Ok(())
    }

    /// `decoder.wellformedIndefiniteString`
    fn check_chunks(&mut self, whole: Header) -> Result<(), Failure> {
        let name = type_name(whole);
        loop {
            if self.rest().is_empty() {
                return Err(Failure::Other("unexpected EOF".to_owned()));
            }
            if self.ends() {
                return Ok(());
            }
            let first = self.first_byte();
            let found = type_of_byte(first);
            if found != name {
                let why = format!("cbor: wrong element type {found} for indefinite-length {name}");
                return Err(Failure::Other(why));
            }
            if first & 0x1f == 0x1f {
                let why = format!("cbor: indefinite-length {name} chunk is not definite-length");
                return Err(Failure::Other(why));
            }
            self.check(0)?;
        }
    }

    fn check_length(&self, header: Header, length: usize) -> Result<(), Failure> {
        let (length, is_map) = (length as u64, matches!(header, Header::Map(_)));
        let why = if i64::try_from(length).is_err() {
            let name = type_name(header);
            format!("cbor: {name} length {length} is too large, it would cause integer overflow")
        } else if is_map && length > MAX_MAP_PAIRS {
            format!("cbor: exceeded max number of key-value pairs {MAX_MAP_PAIRS} for CBOR map")
        } else if !is_map && length > MAX_ARRAY_ELEMENTS {
            format!("cbor: exceeded max number of elements {MAX_ARRAY_ELEMENTS} for CBOR array")
        } else {
            return Ok(());
        };
        Err(Failure::Other(why))
    }
}

fn unexpected_break() -> Failure {
    Failure::Other("cbor: unexpected \"break\" code".to_owned())
}
