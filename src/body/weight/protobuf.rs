//! The values of protobuf, whose messages are not marked: bytes that can be a message count as one. A text of some length is almost never one.

use super::{ENTRY, MAP, TEXT, Weight};

/// The levels of messages; within more, all bytes count as empty messages.
const DEPTH: usize = 64;

/// The memory of the values of a message; `None` if the bytes are none.
pub(super) fn values(message: &[u8]) -> Option<usize> {
    of_message(message, 0)
}

fn of_message(mut bytes: &[u8], depth: usize) -> Option<usize> {
    let mut values = MAP;
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        if tag >> 3 == 0 {
            return None;
        }
        values += ENTRY;
        match tag & 7 {
            0 => drop(number(&mut bytes)?),
            1 => drop(take(&mut bytes, 8)?),
            5 => drop(take(&mut bytes, 4)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                values = values.saturating_add(of_field(take(&mut bytes, length)?, depth + 1));
            }
            // The fields of a group count as those of the message.
            3 | 4 => {}
            _ => return None,
        }
    }
    Some(values)
}

fn of_field(bytes: &[u8], depth: usize) -> usize {
    if depth == DEPTH {
        return bytes.len().saturating_mul(MAP) / 2;
    }
    of_message(bytes, depth).unwrap_or_else(|| {
        // Some fields are JSON in a text.
        let mut weight = Weight::default();
        if let Some(b'{' | b'[') = bytes.first() {
            weight.add(bytes);
        }
        TEXT + weight.values
    })
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
