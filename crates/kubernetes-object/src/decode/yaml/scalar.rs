//! The meaning of a YAML scalar in `goyaml` v2 (`resolve`), and its JSON value in `sigs.k8s.io/yaml`.

use super::InvalidYaml;
use serde_json::{Number, Value};

/// The meaning of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    /// `<<` as a key.
    Merge,
}

/// Resolves a scalar. `tag` is the suffix of one of YAML's own tags, or empty for another tag.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Resolved, InvalidYaml> {
    let string = || Ok(Resolved::Text(text.to_owned()));
    let tag = match tag {
        None if !plain => return string(),
        None => return Ok(resolve_plain(text)),
        Some(tag @ ("bool" | "int" | "float" | "null" | "timestamp" | "merge")) => tag,
        Some("binary") => {
            use base64::Engine;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', ' '], ""));
            let bytes =
                bytes.map_err(|_| InvalidYaml("yaml: !!binary value contains invalid base64 data".to_owned()))?;
            return Ok(Resolved::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        Some(_) => return string(),
    };
    match (tag, resolve_plain(text)) {
        ("timestamp", _) => string(),
        ("bool", resolved @ Resolved::Boolean(_))
        | ("int", resolved @ (Resolved::Integer(_) | Resolved::Unsigned(_)))
        | ("float", resolved @ Resolved::Float(_))
        | ("null", resolved @ Resolved::Null)
        | ("merge", resolved @ Resolved::Merge) => Ok(resolved),
        ("float", Resolved::Integer(number)) => Ok(Resolved::Float(number as f64)),
        (tag, resolved) => Err(InvalidYaml(format!("yaml: cannot decode !!{} `{text}` as a !!{tag}", kind(&resolved)))),
    }
}

fn kind(resolved: &Resolved) -> &'static str {
    match resolved {
        Resolved::Null => "null",
        Resolved::Boolean(_) => "bool",
        Resolved::Integer(_) | Resolved::Unsigned(_) => "int",
        Resolved::Float(_) => "float",
        Resolved::Text(_) => "str",
        Resolved::Merge => "merge",
    }
}

fn resolve_plain(text: &str) -> Resolved {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Resolved::Boolean(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Boolean(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        "<<" => Resolved::Merge,
        _ => number(text).unwrap_or_else(|| Resolved::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Resolved> {
    match text.as_bytes().first()? {
        b'.' if is_float(text) => return text.parse().ok().map(Resolved::Float),
        b'+' | b'-' | b'0'..=b'9' => {}
        _ => return None,
    }
    let plain = text.replace('_', "");
    if let Some(integer) = integer(&plain) {
        return Some(integer);
    }
    let float = || plain.parse::<f64>().ok().filter(|number| number.is_finite()).map(Resolved::Float);
    if is_float(&plain) { float() } else { None }
}

/// `strconv.ParseInt` with base 0, then `ParseUint`.
fn integer(text: &str) -> Option<Resolved> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("+", text.get(1..)?),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        (8, digits)
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    if let Ok(number) = i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        return Some(Resolved::Integer(number));
    }
    if sign.is_empty() { u64::from_str_radix(digits, radix).ok().map(Resolved::Unsigned) } else { None }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
    are_digits(whole)
        && fraction.is_none_or(are_digits)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && are_digits(exponent))
        && !(whole.is_empty() && fraction.is_none_or(str::is_empty))
}

/// Converts a scalar to JSON. Whole floats become integers, as after Go's encoding and decoding.
pub(super) fn value(resolved: Resolved) -> Result<Value, InvalidYaml> {
    Ok(match resolved {
        Resolved::Null => Value::Null,
        Resolved::Boolean(boolean) => boolean.into(),
        Resolved::Integer(number) => number.into(),
        Resolved::Unsigned(number) => number.into(),
        // Beyond 2^63 the conversion saturates, and the comparison fails.
        Resolved::Float(number) if number == (number as i64) as f64 && number.abs() < 9e18 => (number as i64).into(),
        Resolved::Float(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None if number.is_nan() => return Err(InvalidYaml("json: unsupported value: NaN".to_owned())),
            None => {
                return Err(InvalidYaml(format!(
                    "json: unsupported value: {}Inf",
                    if number > 0.0 { '+' } else { '-' }
                )));
            }
        },
        Resolved::Text(text) => text.into(),
        Resolved::Merge => "<<".into(),
    })
}

/// Converts a scalar to the key of a map.
pub(super) fn key(resolved: Resolved) -> Result<String, InvalidYaml> {
    Ok(match resolved {
        Resolved::Null => return Err(InvalidYaml("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned())),
        Resolved::Boolean(boolean) => boolean.to_string(),
        Resolved::Integer(number) => number.to_string(),
        Resolved::Unsigned(number) => {
            return Err(InvalidYaml(format!("unsupported map key of type: uint64, key: {number:#x}")));
        }
        Resolved::Float(number) if number.is_nan() => ".nan".to_owned(),
        Resolved::Float(number) if number.is_infinite() => if number > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        Resolved::Float(number) => (number as f32).to_string(),
        Resolved::Text(text) => text,
        Resolved::Merge => "<<".to_owned(),
    })
}
