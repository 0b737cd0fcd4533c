//! What `/healthz`, `/livez` and `/readyz` say, and what keeps it true.
//!
//! The scheduling thread beats with each turn of its loop, at least once a second. A loop that has not turned for a while hangs,
//! and only a new process helps. Before its first turn the process starts: it is alive, and not ready.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use berth_cluster::Leadership;

/// A turn takes microseconds; one that fills new instances of all plugins takes seconds. The kubelet asks three times before it
/// acts: a pod whose loop hangs is replaced within a minute.
const LONGEST_TURN: Duration = Duration::from_secs(30);

/// How often a wait is reported.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Shared by the parts that report and the endpoints that ask. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    readiness: Readiness,
    /// `None`: the loop has not begun.
    last_turn: Option<Instant>,
    /// `None`: there is no election.
    leadership: Option<Leadership>,
}

/// An endpoint that answers with checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    Healthz,
    Livez,
    Readyz,
}

/// One thing that was looked at. The names are kube-scheduler's, but for `scheduling-loop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub result: Result<(), Unhealthy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    #[error("the scheduling loop has not turned for {seconds} s")]
    Hangs { seconds: u64 },
    #[error("the lease expired long ago and was not renewed")]
    LeaseNotRenewed,
    #[error("the initial lists are not complete")]
    Listing,
    #[error("the scheduler is stopping")]
    Stopping,
}

/// Whether the scheduler does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// The first lists are not complete.
    Listing,
    Ready,
    /// The process was told to stop, or a part of it ended.
    Stopping,
}

impl Default for Health {
    /// The process starts.
    fn default() -> Self {
        let state = State { readiness: Readiness::Listing, last_turn: None, leadership: None };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl Health {
    /// Every object that existed at the start is known.
    pub fn synced(&self) {
        let mut state = self.state();
        if state.readiness == Readiness::Listing {
            state.readiness = Readiness::Ready;
        }
    }

    /// The process is not ready any more from here on.
    pub fn stopping(&self) {
        self.state().readiness = Readiness::Stopping;
    }

    /// There is an election, and this is how it stands.
    pub fn follow(&self, leadership: Leadership) {
        self.state().leadership = Some(leadership);
    }

    /// Whether this replica schedules, as far as the election goes.
    pub fn is_leading(&self) -> bool {
        self.state().leadership.as_ref().is_none_or(Leadership::is_leading)
    }

    /// The scheduling loop has turned.
    pub fn beat(&self, now: Instant) {
        self.state().last_turn = Some(now);
    }

    /// Waits for an answer that is bounded otherwise: the scheduling loop, which waits for it, does not hang.
    pub async fn while_waiting<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        let mut every = tokio::time::interval(BEAT_EVERY);
        loop {
            tokio::select! {
                biased;
                _ = every.tick() => self.beat(Instant::now()),
                answer = &mut answer => return answer,
            }
        }
    }

    /// What the endpoint looks at. A missing leader is no fault of a replica that stands by.
    pub fn checks(&self, probe: Probe, now: Instant) -> Vec<Check> {
        let state = self.state();
        let mut checks = vec![Check { name: "ping", result: Ok(()) }];
        let mut add = |name, result| checks.push(Check { name, result });
        if probe != Probe::Livez
            && let Some(leadership) = &state.leadership
        {
            let result = if leadership.is_healthy() { Ok(()) } else { Err(Unhealthy::LeaseNotRenewed) };
            add("leaderElection", result);
        }
        match probe {
            Probe::Healthz | Probe::Livez => add("scheduling-loop", state.turns(now)),
            Probe::Readyz => {
                let is_stopping = state.readiness == Readiness::Stopping;
                add("shutdown", if is_stopping { Err(Unhealthy::Stopping) } else { Ok(()) });
                let is_listing = state.readiness == Readiness::Listing;
                add("sched-handler-sync", if is_listing { Err(Unhealthy::Listing) } else { Ok(()) });
            }
        }
        checks
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn turns(&self, now: Instant) -> Result<(), Unhealthy> {
        let silent = self.last_turn.map_or(Duration::ZERO, |last_turn| now.saturating_duration_since(last_turn));
        if silent > LONGEST_TURN { Err(Unhealthy::Hangs { seconds: silent.as_secs() }) } else { Ok(()) }
    }
}

impl Probe {
    /// Its path, without the slash.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_for_a_bounded_answer_does_not_hang() {
        let health = Health::default();
        let long_ago = Instant::now().checked_sub(2 * LONGEST_TURN).expect("the machine is up for longer");
        health.beat(long_ago);
        let is_alive = |health: &Health| health.checks(Probe::Livez, Instant::now()).iter().all(|it| it.result.is_ok());
        assert!(!is_alive(&health));
        let answer = async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            is_alive(&health)
        };
        assert!(health.while_waiting(answer).await);
    }

    /// The check's result, if the endpoint makes it.
    fn result(health: &Health, probe: Probe, name: &str, now: Instant) -> Option<Result<(), Unhealthy>> {
        health.checks(probe, now).into_iter().find(|check| check.name == name).map(|check| check.result)
    }

    #[test]
    fn a_loop_that_does_not_turn_is_not_alive() {
        let health = Health::default();
        let start = Instant::now();
        let turns = |now| result(&health, Probe::Livez, "scheduling-loop", now);
        assert_eq!(turns(start + 2 * LONGEST_TURN), Some(Ok(())), "it has not begun");
        health.beat(start);
        assert_eq!(turns(start + Duration::from_secs(30)), Some(Ok(())));
        assert_eq!(turns(start + Duration::from_secs(31)), Some(Err(Unhealthy::Hangs { seconds: 31 })));
        let later = start + 2 * LONGEST_TURN;
        assert_eq!(turns(later), Some(Err(Unhealthy::Hangs { seconds: 2 * LONGEST_TURN.as_secs() })));
        health.beat(later);
        assert_eq!(turns(later), Some(Ok(())));
    }

    #[test]
    fn lists_that_complete_during_a_stop_make_nothing_ready() {
        let health = Health::default();
        let ready = |name| result(&health, Probe::Readyz, name, Instant::now());
        assert_eq!(ready("sched-handler-sync"), Some(Err(Unhealthy::Listing)));
        health.synced();
        assert_eq!((ready("sched-handler-sync"), ready("shutdown")), (Some(Ok(())), Some(Ok(()))));
        health.stopping();
        health.synced();
        assert_eq!(ready("shutdown"), Some(Err(Unhealthy::Stopping)));
        assert_eq!(ready("leaderElection"), None, "there is no election");
    }
}
