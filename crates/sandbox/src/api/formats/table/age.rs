//! Ages as `kubectl` shows them: at most two units, and the second only while the first is small.

use crate::fields::clock;

/// The time since a timestamp, or `<unknown>`.
pub(super) fn since(timestamp: &str) -> String {
    clock::seconds_since(timestamp).map_or_else(|| "<unknown>".to_owned(), |seconds| render(seconds.max(0)))
}

fn render(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, small: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{small}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 8 * 365 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn ages_keep_the_second_unit_while_small() {
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (155, "2m35s"),
            (600, "10m"),
            (11_000, "3h3m"),
            (90_000, "25h"),
            (324 * 86_400, "324d"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(render(seconds), shown);
        }
    }
}
