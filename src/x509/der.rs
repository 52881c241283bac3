//! DER as Go's cryptobyte reads it: tags below 31, definite lengths in their shortest form.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const NUMERIC_STRING: u8 = 0x12;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const T61_STRING: u8 = 0x14;
pub(super) const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(super) const BMP_STRING: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Returns the context-specific tag of a primitive value.
pub(super) const fn context(number: u8) -> u8 {
    0x80 | number
}

/// Returns the context-specific tag of a constructed value.
pub(super) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// A tag with its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    /// Tag, length and value.
    pub(super) whole: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The rest of an input. A method that returns `None` found something else, and the input is not used any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether the next value has this tag (`PeekASN1Tag`).
    pub(super) fn has(self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// Reads any value (`readASN1`).
    pub(super) fn any(&mut self) -> Option<Element<'a>> {
        let (&tag, &first) = (self.0.first()?, self.0.get(1)?);
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (head, length) = match first {
            0..0x80 => (2, usize::from(first)),
            _ => {
                let count = usize::from(first & 0x7f);
                if !(1..=4).contains(&count) {
                    return None;
                }
                let bytes = self.0.get(2..2 + count)?;
                let length = bytes.iter().fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
                // A shorter form exists.
                if length < 0x80 || bytes.first() == Some(&0) {
                    return None;
                }
                (2 + count, length)
            }
        };
        let end = head.checked_add(length)?;
        let (whole, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(Element { tag, whole, value: whole.get(head..)? })
    }

    /// Reads a value with this tag.
    pub(super) fn element(&mut self, tag: u8) -> Option<Element<'a>> {
        self.has(tag).then(|| self.any()).flatten()
    }

    /// Reads a value with this tag; returns a reader of the value.
    pub(super) fn read(&mut self, tag: u8) -> Option<Self> {
        Some(Self(self.element(tag)?.value))
    }

    /// Reads a value that may be missing (`ReadOptionalASN1`).
    #[expect(clippy::option_option, reason = "malformed, missing, present")]
    pub(super) fn optional(&mut self, tag: u8) -> Option<Option<Self>> {
        if self.has(tag) { self.read(tag).map(Some) } else { Some(None) }
    }

    /// Reads an integer (`ReadASN1Integer`): its two's complement in the fewest bytes.
    pub(super) fn integer(&mut self) -> Option<&'a [u8]> {
        self.integer_with(INTEGER)
    }

    fn integer_with(&mut self, tag: u8) -> Option<&'a [u8]> {
        let value = self.element(tag)?.value;
        match value {
            [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => None,
            _ => Some(value),
        }
    }

    /// Reads an integer with this tag that fits into 64 bits (`ReadASN1Int64WithTag`).
    pub(super) fn small_integer(&mut self, tag: u8) -> Option<i64> {
        let value = self.integer_with(tag)?;
        let sign = if value.first()? & 0x80 == 0 { 0 } else { -1 };
        (value.len() <= 8).then(|| value.iter().fold(sign, |number, byte| (number << 8) | i64::from(*byte)))
    }

    /// Reads `ReadASN1Boolean`.
    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.element(BOOLEAN)?.value {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// Reads a bit string (`ReadASN1BitString`): the number of unused bits in the last byte, which are 0, and the bytes.
    pub(super) fn bits(&mut self) -> Option<(u8, &'a [u8])> {
        let (&unused, bytes) = self.element(BIT_STRING)?.value.split_first()?;
        let last = bytes.last().copied();
        let is_valid = match last {
            None => unused == 0,
            Some(last) => unused <= 7 && last & ((1 << unused) - 1) == 0,
        };
        is_valid.then_some((unused, bytes))
    }

    /// Reads an object identifier (`ReadASN1ObjectIdentifier`), which has one encoding only: equal bytes are equal identifiers.
    pub(super) fn oid(&mut self) -> Option<&'a [u8]> {
        let value = self.element(OBJECT_IDENTIFIER)?.value;
        is_oid(value).then_some(value)
    }

    /// Reads a time, as seconds since 1970.
    pub(super) fn time(&mut self) -> Option<i64> {
        let Element { tag, value, .. } = self.any()?;
        match tag {
            UTC_TIME => utc_time(value),
            GENERALIZED_TIME => generalized_time(value),
            _ => None,
        }
    }
}

/// Whether each number is complete, in its shortest form, and below 2³¹ (`readBase128Int`).
fn is_oid(value: &[u8]) -> bool {
    let mut number: Option<u32> = None;
    for byte in value {
        if (number.is_none() && *byte == 0x80) || number.is_some_and(|number| number >= 1 << 24) {
            return false;
        }
        let next = (number.unwrap_or(0) << 7) | u32::from(byte & 0x7f);
        number = (byte & 0x80 != 0).then_some(next);
    }
    !value.is_empty() && number.is_none()
}

/// Reads `YYMMDDhhmm[ss](Z|±hhmm)` (`ReadASN1UTCTime`).
fn utc_time(text: &[u8]) -> Option<i64> {
    let (year, rest) = text.split_at_checked(2)?;
    let year = number(year)?;
    let year = if year < 50 { 2000 + year } else { 1900 + year };
    let (date_time, zone) = split_zone(rest)?;
    let mut all = [*b"00"; 5];
    let parts = date_time.chunks(2);
    if !matches!(date_time.len(), 8 | 10) {
        return None;
    }
    for (part, given) in all.iter_mut().zip(parts) {
        *part = given.try_into().ok()?;
    }
    seconds(year, all, zone)
}

/// Reads `YYYYMMDDhhmmss(Z|±hhmm)` (`ReadASN1GeneralizedTime`).
fn generalized_time(text: &[u8]) -> Option<i64> {
    let (year, rest) = text.split_at_checked(4)?;
    let (date_time, zone) = split_zone(rest)?;
    let mut all = [*b"00"; 5];
    if date_time.len() != 10 {
        return None;
    }
    for (part, given) in all.iter_mut().zip(date_time.chunks(2)) {
        *part = given.try_into().ok()?;
    }
    seconds(number(year)?, all, zone)
}

/// Splits the zone from the end; returns its distance from UTC in seconds. UTC itself is written `Z`.
fn split_zone(text: &[u8]) -> Option<(&[u8], i64)> {
    if let Some(utc) = text.strip_suffix(b"Z") {
        return Some((utc, 0));
    }
    let (date_time, zone) = text.split_at_checked(text.len().checked_sub(5)?)?;
    let (sign, digits) = zone.split_first()?;
    let (hours, minutes) = digits.split_at_checked(2)?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let distance = (hours * 60 + minutes) * 60;
    let is_valid = hours <= 24 && minutes < 60 && distance > 0;
    match sign {
        b'+' if is_valid => Some((date_time, distance)),
        b'-' if is_valid => Some((date_time, -distance)),
        _ => None,
    }
}

/// Returns the seconds since 1970 of a year, with month, day, hour, minute and second in two digits each.
fn seconds(year: i64, [month, day, hour, minute, second]: [[u8; 2]; 5], zone: i64) -> Option<i64> {
    let (month, day) = (number(&month)?, number(&day)?);
    let (hour, minute, second) = (number(&hour)?, number(&minute)?, number(&second)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days since 1970-01-01, in years that begin in March.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * months + 2) / 5 + day - 1;
    let days =
        365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400) + day_of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - zone)
}

fn number(digits: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    digits.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_shortest_form() {
        let read = |input: &[u8]| Reader::new(input).any().map(|element| element.value.len());
        assert_eq!(read(&[4, 0]), Some(0));
        assert_eq!(read(&[4, 1, 7]), Some(1));
        assert_eq!(read(&[&[4, 0x81, 0x80][..], &[0; 128]].concat()), Some(128));
        for wrong in
            [&[4][..], &[4, 1], &[4, 0x80, 0, 0], &[4, 0x81, 1, 7], &[4, 0x82, 0, 0x80], &[0x1f, 1, 1], &[4, 0x85, 1]]
        {
            assert_eq!(read(wrong), None, "{wrong:x?}");
        }
        assert_eq!(read(&[4, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn numbers_have_their_shortest_form() {
        let integer = |value: &[u8]| {
            let input = [&[2, u8::try_from(value.len()).unwrap()][..], value].concat();
            Reader::new(&input).small_integer(INTEGER)
        };
        for (value, wanted) in [
            (&[0][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0, 0x80], Some(128)),
            (&[0x80], Some(-128)),
            (&[0xff, 0x7f], Some(-129)),
            (&[], None),
            (&[0, 1], None),
            (&[0xff, 0x80], None),
            (&[1; 9], None),
        ] {
            assert_eq!(integer(value), wanted, "{value:x?}");
        }
        for (value, wanted) in [
            (&[0x55, 4, 3][..], true),
            (&[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2], true),
            (&[0x87, 0xff, 0xff, 0xff, 0x7f], true),
            (&[0x88, 0x80, 0x80, 0x80, 0], false),
            (&[], false),
            (&[0x80, 1], false),
            (&[0x55, 0x84], false),
        ] {
            assert_eq!(is_oid(value), wanted, "{value:x?}");
        }
    }

    #[test]
    fn unused_bits_are_zero() {
        let bits = |value: &[u8]| {
            let input = [&[3, u8::try_from(value.len()).unwrap()][..], value].concat();
            Reader::new(&input).bits().map(|(unused, bytes)| (unused, bytes.to_vec()))
        };
        assert_eq!(bits(&[0]), Some((0, vec![])));
        assert_eq!(bits(&[5, 0xa0]), Some((5, vec![0xa0])));
        for wrong in [&[][..], &[1], &[8, 0], &[5, 0xa1]] {
            assert_eq!(bits(wrong), None, "{wrong:x?}");
        }
    }

    #[test]
    fn times_are_those_of_go() {
        let time = |tag: u8, text: &str| {
            let input = [&[tag, u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
            Reader::new(&input).time()
        };
        for (text, wanted) in [
            ("700101000000Z", Some(0)),
            ("691231235959Z", Some(-1)),
            ("500101000000Z", Some(-631_152_000)),
            ("491231235959Z", Some(2_524_607_999)),
            ("0002290000Z", Some(951_782_400)),
            ("700101010000+0100", Some(0)),
            ("691231233000-0030", Some(0)),
            ("000230000000Z", None),
            ("010229000000Z", None),
            ("700101240000Z", None),
            ("700101000060Z", None),
            ("700101000000+0000", None),
            ("700101000000", None),
            ("7001010000000Z", None),
            ("70010100000xZ", None),
            ("Z", None),
            ("", None),
        ] {
            assert_eq!(time(UTC_TIME, text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("19700101000000Z", Some(0)),
            ("99991231235959Z", Some(253_402_300_799)),
            ("00000101000000Z", Some(-62_167_219_200)),
            ("19000228235959Z", Some(-2_203_891_201)),
            ("19000229000000Z", None),
            ("197001010000Z", None),
            ("19700101000000.5Z", None),
        ] {
            assert_eq!(time(GENERALIZED_TIME, text), wanted, "{text}");
        }
    }
}
