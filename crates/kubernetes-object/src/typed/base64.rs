//! Base64 as Go decodes it: line breaks are ignored, and an error names the byte's position.

use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `base64.CorruptInputError`: the position of the wrong byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub(super) struct CorruptInput(usize);

/// The text that Go writes for the decoded bytes of a text.
///
/// # Errors
/// If the text is no base64.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, CorruptInput> {
    if STANDARD.decode(text).is_ok() {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = decode(text.as_bytes())?;
    Ok(Cow::Owned(encode(&bytes)))
}

/// `Encoding.Decode`
fn decode(source: &[u8]) -> Result<Vec<u8>, CorruptInput> {
    let mut bytes = Vec::with_capacity(source.len() / 4 * 3);
    let mut at = 0;
    let mut quantum = [0; 4];
    let mut filled = 0;
    loop {
        let Some(byte) = source.get(at) else {
            return if filled == 0 { Ok(bytes) } else { Err(CorruptInput(at - filled)) };
        };
        at += 1;
        match (digit(*byte), byte) {
            (Some(digit), _) => {
                if let Some(place) = quantum.get_mut(filled) {
                    *place = digit;
                }
                filled += 1;
            }
            (_, b'\n' | b'\r') => (),
            (_, b'=') if filled >= 2 => {
                end(source, at, filled)?;
                bytes.extend(three(quantum).iter().take(filled - 1));
                return Ok(bytes);
            }
            _ => return Err(CorruptInput(at - 1)),
        }
        if filled == 4 {
            bytes.extend(three(quantum));
            (quantum, filled) = ([0; 4], 0);
        }
    }
}

/// Checks the text after the first `=`.
fn end(source: &[u8], at: usize, filled: usize) -> Result<(), CorruptInput> {
    let skip = |from: usize| {
        let rest = source.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count()
    };
    let mut at = skip(at);
    if filled == 2 {
        match source.get(at) {
            None => return Err(CorruptInput(source.len())),
            Some(b'=') => at = skip(at + 1),
            Some(_) => return Err(CorruptInput(at - 1)),
        }
    }
    if at < source.len() { Err(CorruptInput(at)) } else { Ok(()) }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn three([a, b, c, d]: [u8; 4]) -> [u8; 3] {
    [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_go_does() {
        for (text, expected) in [
            ("", Ok("")),
            ("YWJj", Ok("YWJj")),
            ("YW\nJj\r\n", Ok("YWJj")),
            ("YR==", Ok("YQ==")),
            ("YQ=\n=\n", Ok("YQ==")),
            ("Y", Err(0)),
            ("YQ", Err(0)),
            ("YWJjYQ=", Err(7)),
            ("YQ=a", Err(2)),
            ("YQ==a", Err(4)),
            ("YWJjY===", Err(5)),
            ("YW!j", Err(2)),
            ("=", Err(0)),
        ] {
            let expected = expected.map(str::to_owned).map_err(CorruptInput);
            assert_eq!(canonical(text).map(Cow::into_owned), expected, "{text}");
        }
    }
}
