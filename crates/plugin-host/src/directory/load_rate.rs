//! The rate at which a file of the plugins directory is loaded, however often it is rewritten.
//!
//! A load costs the processor time of a compiler, and leads to a swap. A plugin may have [`BURST`] loads in a burst,
//! and then one load in each [`COST`]. A load that takes longer than [`COST`] costs the time that it takes. A file that
//! has to wait is examined again, so that its final content is loaded.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The minimum cost of a load.
pub(super) const COST: Duration = Duration::from_secs(1);

/// The number of loads that need no wait: an operator can correct a file a few times in a row.
pub(super) const BURST: u32 = 5;

/// The time at which the cost of each file's loads is paid off. Files whose cost is paid off are not kept.
#[derive(Debug, Default)]
pub(super) struct LoadRates {
    paid_at: BTreeMap<String, Instant>,
}

impl LoadRates {
    /// Whether the file may be loaded now.
    pub(super) fn may_load(&self, name: &str, now: Instant) -> bool {
        let debt = self.paid_at.get(name).map_or(Duration::ZERO, |paid| paid.saturating_duration_since(now));
        debt <= COST * (BURST - 1)
    }

    /// Records a load of the file and its duration.
    pub(super) fn loaded(&mut self, name: &str, now: Instant, took: Duration) {
        self.paid_at.retain(|_, paid| *paid > now);
        let paid = self.paid_at.entry(name.to_owned()).or_insert(now);
        *paid += took.max(COST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_one_load_a_second() {
        let (mut rates, start) = (LoadRates::default(), Instant::now());
        let mut loads = Vec::new();
        for step in 0..1000 {
            let now = start + Duration::from_millis(10) * step;
            if rates.may_load("Mine", now) {
                rates.loaded("Mine", now, Duration::ZERO);
                loads.push(step);
            }
        }
        assert_eq!(loads.len(), 14, "{loads:?}");
        assert!(rates.may_load("Other", start));
        rates.loaded("Other", start + Duration::from_secs(20), Duration::ZERO);
        assert!(!rates.paid_at.contains_key("Mine"), "it is quiet");
    }

    #[test]
    fn a_long_load_counts_as_long_as_it_took() {
        let (mut rates, start) = (LoadRates::default(), Instant::now());
        rates.loaded("Mine", start, Duration::from_secs(30));
        assert!(!rates.may_load("Mine", start + Duration::from_secs(25)));
        assert!(rates.may_load("Mine", start + Duration::from_secs(26)));
    }
}
