//! A few numbers of the last hour, and all numbers of the last minute. Rates are computed from these numbers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_telemetry::metrics::{Figures, Metrics};
use tokio::time::{Instant, interval};

/// The time between two readings of the metrics.
const EVERY: Duration = Duration::from_secs(5);

/// The number of readings in an hour.
const POINTS: usize = 720;

/// The number of readings in a minute, with the reading before it.
const MINUTE: usize = 13;

/// Recent values of the metrics. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The readings of the last minute, and the reading before it. The newest reading is last.
    minute: VecDeque<(Instant, Figures)>,
    hour: VecDeque<Point>,
}

/// A moment of the last hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// The number of pods bound per second since the previous reading.
    pub bound_per_second: f64,
    /// The number of pods that wait.
    pub pending: u64,
}

/// The changes of the last minute, or of the time since the start if the scheduler started later.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastMinute {
    pub span: Duration,
    pub before: Figures,
}

impl History {
    /// Reads the metrics at intervals, as long as the process runs.
    pub async fn follow(self, metrics: Arc<Metrics>) {
        let mut every = interval(EVERY);
        loop {
            every.tick().await;
            self.enter(Instant::now(), metrics.scheduler.figures());
        }
    }

    fn enter(&self, now: Instant, figures: Figures) {
        let mut kept = self.kept();
        if let Some((then, before)) = kept.minute.back() {
            let seconds = now.duration_since(*then).as_secs_f64();
            let bound = scheduled(&figures).saturating_sub(scheduled(before));
            let pending = figures.pending.values().sum();
            let point = Point { bound_per_second: as_rate(bound, seconds), pending };
            kept.hour.push_back(point);
        }
        kept.minute.push_back((now, figures));
        while kept.minute.len() > MINUTE {
            kept.minute.pop_front();
        }
        while kept.hour.len() > POINTS {
            kept.hour.pop_front();
        }
    }

    pub(crate) fn hour(&self) -> Vec<Point> {
        self.kept().hour.iter().copied().collect()
    }

    pub(crate) fn last_minute(&self) -> LastMinute {
        let kept = self.kept();
        kept.minute.front().map_or_else(LastMinute::default, |(then, figures)| LastMinute {
            span: then.elapsed(),
            before: figures.clone(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attempts that ended with a binding.
pub(crate) fn scheduled(figures: &Figures) -> u64 {
    figures.attempts.get("scheduled").copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with two digits")]
pub(crate) fn as_rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(scheduled: u64) -> Figures {
        let mut figures = Figures::default();
        figures.attempts.insert("scheduled".to_owned(), scheduled);
        figures.pending.insert("active".to_owned(), 7);
        figures
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_is_kept_and_no_more() {
        let history = History::default();
        for look in 0..2_000 {
            history.enter(Instant::now(), figures(look * 50));
            tokio::time::advance(EVERY).await;
        }
        let hour = history.hour();
        assert_eq!(hour.len(), POINTS);
        assert_eq!(hour.last(), Some(&Point { bound_per_second: 10.0, pending: 7 }));
        let minute = history.last_minute();
        assert_eq!((scheduled(&minute.before), minute.span), (1_987 * 50, Duration::from_secs(65)));
    }
}
