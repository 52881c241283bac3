//! Schedules and time zones of CronJobs (`github.com/robfig/cron/v3`).

use super::super::node::{Causes, Node};
use crate::go_text::go_quote;
use jiff::tz::TimeZone;

/// `validateScheduleFormat`
pub(super) fn schedule(spec: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let schedule = spec.at("schedule");
    if !out.require(&schedule) {
        return;
    }
    let text = schedule.text();
    if let Err(why) = parse(text) {
        out.text(&schedule, &why.to_string());
    }
    let had_zone = old.is_some_and(|old| old.at("schedule").text().contains("TZ"));
    if !text.contains("TZ") {
        return;
    }
    if !had_zone {
        out.text(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if spec.at("timeZone").is_given() {
        out.text(&schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

/// `validateTimeZone`
pub(super) fn time_zone(zone: &Node<'_>, out: &mut Causes) {
    let Some(name) = zone.optional_text() else { return };
    if name.is_empty() {
        return out.text(zone, "timeZone must be nil or non-empty string");
    }
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !name.split('/').all(is_part) {
        return out.text(zone, &format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        out.text(zone, why);
    }
    let is_known = matches!(name, "UTC" | "Local") || TimeZone::get(name).is_ok();
    if !is_known {
        out.text(zone, &format!("unknown time zone {name}"));
    }
}

/// The bounds of a field and the names of its values.
struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds {
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The reason why a text is no schedule, with the text of the library that Kubernetes uses.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
struct InvalidSchedule(String);

/// Checks a schedule as `cron.ParseStandard` reads it.
fn parse(text: &str) -> Result<(), InvalidSchedule> {
    let mut rest = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (zone, after) =
            text.split_once(' ').ok_or_else(|| InvalidSchedule(format!("unrecognized descriptor: {text}")))?;
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        if !matches!(name, "UTC" | "Local" | "") && TimeZone::get(name).is_err() {
            return Err(InvalidSchedule(format!("provided bad location {name}: unknown time zone {name}")));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown: Vec<_> = fields.iter().map(|field| (*field).to_owned()).collect();
        return Err(InvalidSchedule(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            shown.join(" ")
        )));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            self::range(range, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), InvalidSchedule> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    if let Some(duration) = text.strip_prefix("@every ") {
        let parsed = crate::go_text::duration::parse(duration);
        return parsed.map(drop).map_err(|why| InvalidSchedule(format!("failed to parse duration {text}: {why}")));
    }
    Err(InvalidSchedule(format!("unrecognized descriptor: {text}")))
}

fn range(text: &str, bounds: &Bounds) -> Result<(), InvalidSchedule> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let is_single = ends.len() == 1;
    let is_any = matches!(ends[..], ["*"] | ["?"]);
    let (start, mut end) = match ends[..] {
        _ if matches!(ends.first(), Some(&("*" | "?"))) => (bounds.least, bounds.most),
        [one] => {
            let one = number(one, bounds)?;
            (one, one)
        }
        [first, last] => (number(first, bounds)?, number(last, bounds)?),
        _ => return Err(InvalidSchedule(format!("too many hyphens: {text}"))),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if is_single && !is_any {
                end = bounds.most;
            }
            integer(step)?
        }
        _ => return Err(InvalidSchedule(format!("too many slashes: {text}"))),
    };
    if start < bounds.least {
        return Err(InvalidSchedule(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.least)));
    }
    if end > bounds.most {
        return Err(InvalidSchedule(format!("end of range ({end}) above maximum ({}): {text}", bounds.most)));
    }
    if start > end {
        return Err(InvalidSchedule(format!("beginning of range ({start}) beyond end of range ({end}): {text}")));
    }
    if step == 0 {
        return Err(InvalidSchedule(format!("step of range should be a positive number: {text}")));
    }
    Ok(())
}

fn number(text: &str, bounds: &Bounds) -> Result<u64, InvalidSchedule> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(place) => Ok(place as u64 + bounds.least),
        None => integer(text),
    }
}

fn integer(text: &str) -> Result<u64, InvalidSchedule> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| InvalidSchedule(format!("negative number ({number}) not allowed: {text}"))),
        Err(_) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            Err(InvalidSchedule(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {}: {why}",
                go_quote(text)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_five_fields_in_their_bounds() {
        for (text, error) in [
            ("*/5 0-3 1,15 jan MON", None),
            ("@every 1h", None),
            ("TZ=UTC * * * * *", None),
            ("* * * *", Some("expected exactly 5 fields, found 4: [* * * *]")),
            ("60 * * * *", Some("end of range (60) above maximum (59): 60")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("5-1 * * * *", Some("beginning of range (5) beyond end of range (1): 5-1")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("x * * * *", Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax")),
            ("@never", Some("unrecognized descriptor: @never")),
        ] {
            assert_eq!(parse(text).err().map(|why| why.0).as_deref(), error, "{text}");
        }
    }
}
