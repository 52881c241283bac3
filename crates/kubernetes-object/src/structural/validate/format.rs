//! The formats of texts that kube-apiserver checks (`supportedVersionedFormats`, `strfmt`).

mod email;
mod network;
mod uri;

use crate::go_text::duration;
use crate::names;
use regex::Regex;
use std::sync::LazyLock;

pub(crate) use uri::{Url, is_request_uri};

/// A test of a text.
pub(super) type Format = fn(&str) -> bool;

/// The formats, without dashes.
const FORMATS: [(&str, Format); 26] = [
    ("bsonobjectid", |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())),
    ("uri", is_request_uri),
    ("email", email::is_email),
    ("hostname", network::is_hostname),
    ("ipv4", network::is_ipv4),
    ("ipv6", network::is_ipv6),
    ("cidr", network::is_cidr),
    ("mac", network::is_mac),
    ("uuid", |text| is_uuid(text, "")),
    ("uuid3", |text| is_uuid(text, "3")),
    ("uuid4", |text| is_uuid(text, "4")),
    ("uuid5", |text| is_uuid(text, "5")),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| text.len() == 11 && SOCIAL_SECURITY.is_match(text)),
    ("hexcolor", |text| HEX_COLOR.is_match(text)),
    ("rgbcolor", |text| RGB_COLOR.is_match(text)),
    ("byte", |text| BASE64.is_match(text)),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", names::is_dns_1123_label),
    ("k8slongname", names::is_dns_1123_subdomain),
];

static SOCIAL_SECURITY: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    pattern(&format!(r"^rgb\({number},{number},{number}\)$"))
});
static BASE64: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|\
         3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static DATE_TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static DURATION: LazyLock<Regex> = LazyLock::new(|| pattern("([0-9]+)[\t\n\x0c\r ]*([A-Za-zµ]+)"));

/// Compiles a pattern of this file.
fn pattern(text: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "the patterns are constants, which the tests compile")]
    Regex::new(text).expect("a valid pattern")
}

/// The test of a format of texts, whose name may have dashes anywhere.
pub(super) fn of(format: &str) -> Option<Format> {
    let name = format.replace('-', "");
    FORMATS.iter().find(|(other, _)| *other == name).map(|(_, is_valid)| *is_valid)
}

/// Whether kube-apiserver checks a format of values of these types; it ignores any other format.
pub(super) fn is_supported(types: &[Box<str>], format: &str) -> bool {
    match types {
        [one] => is_supported_of(one, format),
        _ => of(format).is_some(),
    }
}

/// As [`is_supported`], for one type.
pub(crate) fn is_supported_of(of_type: &str, format: &str) -> bool {
    match of_type {
        "" | "string" => of(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether the text is a UUID, of this version if one is given.
fn is_uuid(text: &str, version: &str) -> bool {
    // Dashes are optional between the groups.
    let mut rest = text;
    let mut groups = Vec::new();
    for length in [8, 4, 4, 4, 12] {
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        groups.push(group);
        rest = if length == 12 { after } else { after.strip_prefix('-').unwrap_or(after) };
    }
    let variant = groups.get(3).and_then(|group| group.bytes().next()).unwrap_or_default();
    let has_variant = !matches!(version, "4" | "5") || b"89abAB".contains(&variant);
    rest.is_empty() && has_variant && groups.get(2).is_some_and(|group| group.starts_with(version))
}

/// The digits of an ISBN, without spaces and dashes.
fn isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !b"\t\n\x0c\r -".contains(byte)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn(text);
    let [first @ .., last] = &*digits else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(first).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights.zip(&digits).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let weights = [1, 2].into_iter().cycle();
    let sum: u32 = weights
        .zip(digits.bytes().rev())
        .map(|(weight, digit)| weight * u32::from(digit - b'0'))
        .map(|doubled| if doubled >= 10 { doubled % 10 + 1 } else { doubled })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

/// `2006-01-02`
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = bytes else { return false };
    let number = |digits: &[&u8]| -> Option<i16> {
        digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i16::from(**digit - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2])) else {
        return false;
    };
    jiff::civil::Date::new(year, month as i8, day as i8).is_ok()
}

/// `strfmt.IsDateTime`
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = DATE_TIME.captures(time) else { return false };
    let at_most = |group: usize, most: &str| found.get(group).is_some_and(|number| number.as_str() <= most);
    text.len() >= 4 && is_date(date) && at_most(1, "23") && at_most(2, "59") && at_most(3, "59")
}

/// `strfmt.ParseDuration`: a duration of Go, or numbers with units in words anywhere in the text.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if duration::nanoseconds(text).is_ok() {
        return true;
    }
    let mut has_unit = false;
    for found in DURATION.captures_iter(text) {
        let (_, [number, unit]) = found.extract();
        if number.parse::<i64>().is_err() {
            return false;
        }
        let unit = unit.to_lowercase();
        has_unit |= UNITS
            .iter()
            .any(|names| names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last)));
    }
    has_unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for pattern in [&SOCIAL_SECURITY, &HEX_COLOR, &RGB_COLOR, &BASE64, &CREDIT_CARD, &DATE_TIME, &DURATION] {
            assert!(!pattern.is_match(""));
        }
    }

    #[test]
    fn dashes_in_the_name_of_a_format_do_not_count() {
        assert!(of("date-time").is_some() && of("ipv-4").is_some() && of("k8s-short-name").is_some());
        assert!(of("int32").is_none() && of("").is_none());
    }
}
