//! CBOR as Go reads it into `interface{}`: custom resources, apply configurations and raw JSON.

use super::{FALSE, Failure, First, NULL, Reader, SELF_DESCRIBED_BYTES, TRUE, integer, unknown_simple};
use crate::go_text::time::{self, ParseTimeError};
use ciborium_ll::Header;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// Whether the bytes have the tag that marks CBOR.
pub fn is_cbor(bytes: &[u8]) -> bool {
    bytes.starts_with(&SELF_DESCRIBED_BYTES)
}

/// The reason why bytes are no CBOR of an object, with the text of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCbor(Failure);

/// Decodes a body into a map (`modes.Decode` into `map[string]interface{}`); `None` for null.
///
/// # Errors
/// If the body is no map or has a duplicate key.
pub fn decode(bytes: &[u8]) -> Result<Option<Map<String, Value>>, InvalidCbor> {
    let read = || {
        let mut reader = Reader::new(bytes)?;
        reader.document()
    };
    read().map_err(InvalidCbor)
}

const MAP: &str = "map[string]interface {}";
const INT64: &str = "int64";

impl Reader<'_> {
    /// `parseToValue` of a map.
    fn document(&mut self) -> Result<Option<Map<String, Value>>, Failure> {
        self.skip_self_described();
        self.check_tags()?;
        match self.head() {
            Header::Tag(tag) => self.tagged(tag, Self::document),
            Header::Map(length) => self.map(length).map(Some),
            Header::Simple(NULL) => Ok(None),
            header => Err(self.misfit(header, MAP)),
        }
    }

    /// The failure of an item of an unexpected type, whose header was read. Skips the item.
    pub(crate) fn misfit(&mut self, header: Header, expected: &str) -> Failure {
        match header {
            Header::Bytes(length) => drop(self.string(length)),
            Header::Text(length) => {
                if let Err(failure) = self.text(length) {
                    return failure;
                }
            }
            Header::Array(mut length) => {
                while self.has_next(&mut length) {
                    self.skip(1);
                }
            }
            Header::Map(mut length) => self.skip_pairs(&mut length),
            Header::Simple(value) if !matches!(value, FALSE | TRUE | NULL) => return unknown_simple(value),
            Header::Negative(_) => {
                if let Err(number) = integer(header) {
                    return Failure::of_type_why(header, expected, format!("{number} overflows Go's int64"));
                }
            }
            _ => {}
        }
        Failure::of_type(header, expected)
    }

    /// `decoder.parse`
    pub(crate) fn any(&mut self) -> Result<Value, Failure> {
        self.check_tags()?;
        let header = self.head();
        match header {
            Header::Positive(_) | Header::Negative(_) => match integer(header) {
                Ok(number) => Ok(number.into()),
                Err(number) => Err(Failure::of_type_why(header, INT64, format!("{number} overflows Go's int64"))),
            },
            Header::Bytes(length) => Ok(self.bytes_as_text(length).into()),
            Header::Text(length) => self.text(length).map(Value::String),
            Header::Tag(tag @ (0 | 1)) => self.time(tag).map(Value::String),
            Header::Tag(tag) => self.tagged(tag, Self::any),
            Header::Array(mut length) => {
                let (mut items, mut first) = (Vec::new(), First::default());
                while self.has_next(&mut length) {
                    items.extend(first.note(self.any()));
                }
                first.or(Value::Array(items))
            }
            Header::Map(length) => self.map(length).map(Value::Object),
            Header::Float(float) => Ok(Number::from_f64(float).map_or(Value::Null, Value::Number)),
            Header::Simple(FALSE) => Ok(false.into()),
            Header::Simple(TRUE) => Ok(true.into()),
            Header::Simple(NULL) => Ok(Value::Null),
            Header::Simple(value) => Err(unknown_simple(value)),
            Header::Break => Ok(Value::Null),
        }
    }

    /// `decoder.parseMapToMap`. Stops at a duplicate key.
    fn map(&mut self, mut length: Option<usize>) -> Result<Map<String, Value>, Failure> {
        let (mut map, mut first) = (Map::new(), First::default());
        let (mut index, mut key) = (0, String::new());
        while self.has_next(&mut length) {
            // In Go a null key leaves the variable unchanged, so that the previous key counts.
            match first.note(self.go_string("string")) {
                Some(Some(found)) => key = found,
                Some(None) => {}
                None => {
                    self.skip(1);
                    index += 1;
                    continue;
                }
            }
            if let Some(value) = first.note(self.any())
                && map.insert(key.clone(), value).is_some()
            {
                self.skip_pairs(&mut length);
                return Err(Failure::duplicate(&key, index));
            }
            index += 1;
        }
        first.or(map)
    }

    /// `parseToValue` of a string; `None` if Go's variable stays unchanged.
    pub(crate) fn go_string(&mut self, go_type: &str) -> Result<Option<String>, Failure> {
        self.skip_self_described();
        self.check_tags()?;
        match self.head() {
            Header::Tag(tag) => self.tagged(tag, |reader| reader.go_string(go_type)),
            Header::Text(length) => self.text(length).map(Some),
            Header::Bytes(length) => Ok(Some(self.bytes_as_text(length))),
            Header::Simple(NULL) => Ok(None),
            header => Err(self.misfit(header, go_type)),
        }
    }

    /// Reads raw JSON, as an `UnmarshalCBOR` does.
    pub(crate) fn raw(&mut self) -> Result<Value, Failure> {
        self.skip_self_described();
        self.any()
    }

    /// Converts a tagged time to text (`TimeTagToRFC3339Nano`).
    fn time(&mut self, tag: u64) -> Result<String, Failure> {
        let header = self.head();
        if let (0, Header::Text(length)) = (tag, header) {
            let text = self.text(length)?;
            let wrong = |why: ParseTimeError| Failure::Other(format!("cbor: cannot set {text} for time.Time: {why}"));
            return time::rfc3339_nano(&text).map_err(wrong);
        }
        let time = match header {
            Header::Float(float) => {
                // Uses `math.Modf`; a fraction of a nanosecond is truncated.
                let nanos = (float.fract() * 1e9) as i32;
                Timestamp::new(float.trunc() as i64, nanos).ok()
            }
            header => integer(header)
                .map_err(|number| Failure::of_type_why(header, "time.Time", format!("{number} overflows Go's int64")))
                .map(|seconds| Timestamp::from_second(seconds).ok())?,
        };
        time.filter(|time| *time >= FIRST).map(|time| time.to_string()).ok_or_else(|| {
            let why = "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
                       Time.MarshalText: year outside of range [0,9999]";
            Failure::Other(why.to_owned())
        })
    }
}

/// The year 0.
const FIRST: Timestamp = Timestamp::constant(-62_167_219_200, 0);
