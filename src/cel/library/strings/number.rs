//! Doubles as `golang.org/x/text/message` prints them in English.

/// Larger precisions are too large for Go's formats (`tooLarge`).
const MAX_PRECISION: u64 = 1_000_000;

/// `%.2f`: with commas between thousands.
pub(super) fn fixed(value: f64, precision: u64) -> String {
    if let Some(special) = special(value, precision) {
        return special;
    }
    let digits = format!("{:.*}", usize::from(places(precision)), value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}{}", sign(value), kept(fraction, precision))
}

/// `%.2e`: with a power of ten.
pub(super) fn scientific(value: f64, precision: u64) -> String {
    if let Some(special) = special(value, precision) {
        return special;
    }
    let digits = format!("{:.*e}", usize::from(places(precision)), value.abs());
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (minus, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |size| ("\u{207b}", size));
    let raised: String = format!("{exponent:0>2}").chars().map(superscript).collect();
    format!("{}{whole}{}\u{202f}×\u{202f}10{minus}{raised}", sign(value), kept(fraction, precision))
}

/// What has no digits, or a precision that Go's formats do not take.
fn special(value: f64, precision: u64) -> Option<String> {
    if precision > MAX_PRECISION {
        return Some("%!(NOVERB)".to_owned());
    }
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| format!("{}∞", sign(value)))
}

/// Zero has no sign.
fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "" }
}

/// Go keeps the precision in 16 bits.
fn places(precision: u64) -> u16 {
    precision as u16
}

/// The fraction with its point. Zeros at the end are kept up to a precision that Go keeps in 8 bits.
fn kept(fraction: &str, precision: u64) -> String {
    let least = usize::from(precision as u8);
    let length = fraction.trim_end_matches('0').len().max(least.min(fraction.len()));
    if length == 0 { String::new() } else { format!(".{}", &fraction[..length]) }
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}
