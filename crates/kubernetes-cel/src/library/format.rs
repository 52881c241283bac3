//! Named formats of text: `library.Format` of Kubernetes.

use super::{Result, matching, opaque, overload, same, size, url};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use kubernetes_object::names;
use std::sync::Arc;

/// Functions that name formats and validate text.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "format.named",
        overloads: &[overload("format-named", "format.named(string): optional_type(kubernetes.NamedFormat)")],
        call: named,
        cost: None,
    },
    Function {
        name: "validate",
        overloads: &[overload(
            "format-validate",
            "kubernetes.NamedFormat.validate(string): optional_type(list(string))",
        )],
        call: validate,
        cost: Some(|_, arguments, _| {
            arguments
                .first()
                .and_then(opaque)
                .map_or(1, |format: &Format| matching(size(arguments, 1), format.pattern_size))
        }),
    },
    constant(
        "format.dns1123Label",
        &[overload("format.dns1123Label", "format.dns1123Label(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[0])),
    ),
    constant(
        "format.dns1123Subdomain",
        &[overload("format.dns1123Subdomain", "format.dns1123Subdomain(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[1])),
    ),
    constant(
        "format.dns1035Label",
        &[overload("format.dns1035Label", "format.dns1035Label(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[2])),
    ),
    constant(
        "format.qualifiedName",
        &[overload("format.qualifiedName", "format.qualifiedName(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[3])),
    ),
    constant(
        "format.dns1123LabelPrefix",
        &[overload("format.dns1123LabelPrefix", "format.dns1123LabelPrefix(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[4])),
    ),
    constant(
        "format.dns1123SubdomainPrefix",
        &[overload("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[5])),
    ),
    constant(
        "format.dns1035LabelPrefix",
        &[overload("format.dns1035LabelPrefix", "format.dns1035LabelPrefix(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[6])),
    ),
    constant(
        "format.labelValue",
        &[overload("format.labelValue", "format.labelValue(): kubernetes.NamedFormat")],
        |_| Ok(value(&FORMATS[7])),
    ),
    constant("format.uri", &[overload("format.uri", "format.uri(): kubernetes.NamedFormat")], |_| {
        Ok(value(&FORMATS[8]))
    }),
    constant("format.uuid", &[overload("format.uuid", "format.uuid(): kubernetes.NamedFormat")], |_| {
        Ok(value(&FORMATS[9]))
    }),
    constant("format.byte", &[overload("format.byte", "format.byte(): kubernetes.NamedFormat")], |_| {
        Ok(value(&FORMATS[10]))
    }),
    constant("format.date", &[overload("format.date", "format.date(): kubernetes.NamedFormat")], |_| {
        Ok(value(&FORMATS[11]))
    }),
    constant("format.datetime", &[overload("format.datetime", "format.datetime(): kubernetes.NamedFormat")], |_| {
        Ok(value(&FORMATS[12]))
    }),
];

/// A function that returns a format; such a function has no arguments.
const fn constant(
    name: &'static str,
    overloads: &'static [crate::function::Overload],
    call: crate::function::Call,
) -> Function {
    Function { name, overloads, call, cost: None }
}

/// The length of the pattern that estimates the cost of `strfmt`'s dates.
const DATE_TIME_PATTERN: u64 = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$".len() as u64;
const UUID_PATTERN: u64 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$".len() as u64;

/// `ConstantFormats`.
const FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", pattern_size: 30, check: |text| names::dns_1123_label_errors(text) },
    Format { name: "dns1123Subdomain", pattern_size: 60, check: |text| names::dns_1123_subdomain_errors(text) },
    Format { name: "dns1035Label", pattern_size: 30, check: |text| names::dns_1035_label_errors(text) },
    Format { name: "qualifiedName", pattern_size: 60, check: |text| names::qualified_name_errors(text) },
    Format {
        name: "dns1123LabelPrefix",
        pattern_size: 30,
        check: |text| names::dns_1123_label_errors(names::mask_trailing_dash(text)),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        pattern_size: 60,
        check: |text| names::dns_1123_subdomain_errors(names::mask_trailing_dash(text)),
    },
    Format {
        name: "dns1035LabelPrefix",
        pattern_size: 30,
        check: |text| names::dns_1035_label_errors(names::mask_trailing_dash(text)),
    },
    Format { name: "labelValue", pattern_size: 40, check: |text| names::label_value_errors(text) },
    Format {
        name: "uri",
        pattern_size: 1103,
        check: |text| url::check(text).err().iter().map(ToString::to_string).collect(),
    },
    Format {
        name: "uuid",
        pattern_size: UUID_PATTERN,
        check: |text| unless(is_uuid(text), "does not match the UUID format"),
    },
    Format { name: "byte", pattern_size: 84, check: |text| unless(is_base64(text), "invalid base64") },
    Format { name: "date", pattern_size: DATE_TIME_PATTERN, check: |text| unless(is_date(text), "invalid date") },
    Format {
        name: "datetime",
        pattern_size: DATE_TIME_PATTERN,
        check: |text| unless(is_date_time(text), "invalid datetime"),
    },
];

/// `kubernetes.NamedFormat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    name: &'static str,
    /// The length of the format's pattern, for costs.
    pattern_size: u64,
    check: fn(&str) -> Vec<String>,
}

impl Opaque for Format {
    fn r#type(&self) -> Type {
        Type::opaque("kubernetes.NamedFormat")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        Ok(self.name == same::<Self>(other)?.name)
    }
}

fn value(format: &Format) -> Value<'static> {
    Value::Opaque(Arc::new(*format))
}

fn named<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::String(name)] = arguments else { return Err(Error::NoSuchOverload) };
    let found = FORMATS.iter().find(|format| *format.name == **name);
    Ok(found.map_or(Value::Optional(None), |format| Value::some(value(format))))
}

fn validate<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [format, Value::String(text)] = arguments else { return Err(Error::NoSuchOverload) };
    let format: &Format = opaque(format).ok_or(Error::NoSuchOverload)?;
    let wrong = (format.check)(text);
    if wrong.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(wrong.into_iter().map(Value::string).collect())))
}

fn unless(is_one: bool, wrong: &str) -> Vec<String> {
    if is_one { Vec::new() } else { vec![wrong.to_owned()] }
}

/// `strfmt.IsUUID`: any of the hyphens may be missing.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, count) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(count) else { return false };
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// `govalidator.IsBase64`: requires at least four characters.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && !text.is_empty()
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Whether the text is a date: `2006-01-02`.
fn is_date(text: &str) -> bool {
    let [year @ .., b'-', m0, m1, b'-', d0, d1] = text.as_bytes() else { return false };
    let digits = [year, &[*m0, *m1, *d0, *d1]].concat();
    if year.len() != 4 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = |digits: &[u8]| digits.iter().fold(0_i16, |number, digit| number * 10 + i16::from(digit - b'0'));
    let (month, day) = (number(&[*m0, *m1]) as i8, number(&[*d0, *d1]) as i8);
    jiff::civil::Date::new(number(year), month, day).is_ok()
}

/// `strfmt.IsDateTime`. Ignores the text after a second `t`.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    text.len() >= 4 && is_date(date) && is_time(time)
}

/// Whether the text is a time: `23:59:59.5+01:00` or `23:59:59z`.
fn is_time(text: &str) -> bool {
    let is_number = |digits: &[u8], most: &[u8]| digits.iter().all(u8::is_ascii_digit) && digits <= most;
    let [h0, h1, b':', m0, m1, b':', s0, s1, rest @ ..] = text.as_bytes() else { return false };
    if !(is_number(&[*h0, *h1], b"23") && is_number(&[*m0, *m1], b"59") && is_number(&[*s0, *s1], b"59")) {
        return false;
    }
    is_zone(rest) || {
        // Any character may separate the fraction.
        let rest = text.get(8..).unwrap_or_default();
        let mut characters = rest.chars();
        let separated = characters.next().is_some_and(|separator| separator != '\n');
        let rest = characters.as_str();
        let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        separated && zone.len() < rest.len() && is_zone(zone.as_bytes())
    }
}

fn is_zone(text: &[u8]) -> bool {
    match text {
        b"z" => true,
        [b'+' | b'-', h0, h1, b':', m0, m1] => [h0, h1, m0, m1].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}
