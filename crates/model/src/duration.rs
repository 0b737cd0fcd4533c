//! Durations as Go, and therefore Kubernetes, writes them: `15s`, `1m30s`, `1.5h`, `-2ms` (Go's `time.ParseDuration`).
//!
//! Values are whole nanoseconds in an `i64`. Negative values are accepted here, so that a caller can refuse `-5s` with
//! "must be greater than zero" instead of "not a duration".

use std::time::Duration;

/// The nanoseconds of a second.
pub const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;

/// The units. The parser takes the first unit that fits, so `ms` comes before `m` and `s`.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("m", NANOS_PER_MINUTE),
    ("h", NANOS_PER_HOUR),
];

/// Reads a duration as Go writes it, such as `1m30s`. Returns nanoseconds, which may be negative, or `None` if `text`
/// is not a duration or is too long for 64 bits.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_i64;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest)?;
        nanos = nanos.checked_add(part)?;
        rest = after;
    }
    Some(if negative { -nanos } else { nanos })
}

/// A duration of `nanos` nanoseconds; zero if they are negative.
#[must_use]
pub fn from_nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// The duration in the spelling of Kubernetes: `10m0s`, `1.5s`, `300ms`.
#[must_use]
pub fn render_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    if seconds == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", with_fraction(u64::from(nanos / 1_000), nanos % 1_000, 3)),
            _ => format!("{}ms", with_fraction(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6)),
        };
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let below = format!("{}s", with_fraction(seconds % 60, nanos, 9));
    match (hours, minutes) {
        (0, 0) => below,
        (0, _) => format!("{minutes}m{below}"),
        _ => format!("{hours}h{minutes}m{below}"),
    }
}

/// Reads one number with its unit. Also returns the text after the unit.
fn parse_part(text: &str) -> Option<(i64, &str)> {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_len);
    let (unit, nanos_per_unit) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut nanos = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(*nanos_per_unit)? };
    let mut place = *nanos_per_unit;
    for digit in fraction.chars() {
        place /= 10;
        nanos = nanos.checked_add(i64::from(digit.to_digit(10)?).checked_mul(place)?)?;
    }
    Some((nanos, rest.strip_prefix(unit)?))
}

fn with_fraction(whole: u64, fraction: u32, width: usize) -> String {
    let digits = format!("{fraction:0width$}");
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() { whole.to_string() } else { format!("{whole}.{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_render_as_in_kubernetes() {
        let cases = [
            ("15s", 15 * NANOS_PER_SECOND, "15s"),
            ("1m30s", 90 * NANOS_PER_SECOND, "1m30s"),
            ("600s", 10 * NANOS_PER_MINUTE, "10m0s"),
            ("1.5h", 90 * NANOS_PER_MINUTE, "1h30m0s"),
            (".5s", NANOS_PER_SECOND / 2, "500ms"),
            ("1.25s", NANOS_PER_SECOND + NANOS_PER_SECOND / 4, "1.25s"),
            ("1500us", 1_500_000, "1.5ms"),
            ("2µs", 2_000, "2µs"),
            ("7ns", 7, "7ns"),
            ("0", 0, "0s"),
        ];
        for (text, nanos, rendered) in cases {
            assert_eq!(parse_duration(text), Some(nanos), "{text}");
            assert_eq!(render_duration(from_nanos(nanos)), rendered, "{text}");
        }
        assert_eq!(parse_duration("-2s"), Some(-2 * NANOS_PER_SECOND));
        for text in ["", "s", "15", "1 s", "1.2.3s", ".s", "5d", "-", "9999999999h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
