//! Doubles as `golang.org/x/text/message` prints them in English.

/// The largest number that Go's formats accept (`tooLarge`, which is called before the last digit).
const MAX_NUMBER: u64 = 10_000_009;
/// The number of digits after the point of a mantissa.
const MANTISSA: usize = 6;

/// `%.2f`: with commas between thousands.
pub(super) fn fixed(value: f64, precision: u64) -> String {
    if precision > MAX_NUMBER {
        return no_verb(value);
    }
    if let Some(special) = special(value) {
        return special;
    }
    // Go keeps the largest precision in 16 bits and ignores a negative one; it keeps the smallest precision in 8 bits.
    let (most, least) = (precision as i16, usize::from(precision as u8));
    let digits = match usize::try_from(most) {
        Ok(most) => format!("{:.most$}", value.abs()),
        Err(_) => value.abs().to_string(),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = sign(value).to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() || least > 0 {
        text.push_str(&format!(".{fraction:0<least$}"));
    }
    text
}

/// `%.20e`: with a power of ten. Go uses the precision as the width.
pub(super) fn scientific(value: f64, width: u64) -> String {
    if width > MAX_NUMBER {
        return no_verb(value);
    }
    let text = special(value).unwrap_or_else(|| {
        let digits = format!("{:.MANTISSA$e}", value.abs());
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let (minus, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |size| ("\u{207b}", size));
        let raised: String = format!("{exponent:0>2}").chars().map(superscript).collect();
        format!("{}{mantissa}×10{minus}{raised}", sign(value))
    });
    // Go keeps the width in 16 bits.
    format!("{text:>width$}", width = usize::from(width as u16))
}

/// The output of Go's formats if they end within a clause.
fn no_verb(value: f64) -> String {
    format!("%!(NOVERB)%!(EXTRA float64={value})")
}

/// The text of a number without digits.
fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| format!("{}∞", sign(value)))
}

/// The sign; zero has none.
fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "" }
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
