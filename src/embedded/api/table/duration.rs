//! Durations for people: `duration.HumanDuration`.

use jiff::SignedDuration;

/// Formats a duration with at most two units, coarser for longer durations; up to one second in the future is `0s`.
pub(super) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 60 * 2 => format!("{seconds}s"),
        () if minutes < 10 => with_rest(minutes, "m", seconds % 60, "s"),
        () if minutes < 60 * 3 => format!("{minutes}m"),
        () if hours < 8 => with_rest(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => with_rest(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => with_rest(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn with_rest(count: i64, unit: &str, rest: i64, rest_unit: &str) -> String {
    if rest == 0 { format!("{count}{unit}") } else { format!("{count}{unit}{rest}{rest_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_kubectl_shows_it() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 59, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (8 * hour + 59 * minute, "8h"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + 23 * hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
            (9 * 365 * day + 5 * day, "9y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)), text, "{seconds}");
        }
    }
}
