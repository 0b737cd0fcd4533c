//! The state behind `/healthz`, `/livez` and `/readyz`, and the reports that keep it up to date.
//!
//! The scheduling thread reports each turn of its loop, at least once a second. If the loop has no turn for a while,
//! the loop hangs, and only a restart of the process helps. The process is starting until the first turn: it is alive,
//! but not ready.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use berth_cluster::Leadership;

/// The longest time between two turns. A turn takes microseconds; a turn that fills new instances of all plugins takes
/// seconds. The kubelet asks three times before it acts, so a pod with a loop that hangs is replaced within a minute.
const LONGEST_TURN: Duration = Duration::from_secs(30);

/// The time between two reports of a wait.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// The state. The parts that report and the endpoints that ask share it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    readiness: Readiness,
    /// `None` means that the loop has not begun.
    last_turn: Option<Instant>,
    /// `None` means that there is no election.
    leadership: Option<Leadership>,
}

/// An endpoint that runs checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    Healthz,
    Livez,
    Readyz,
}

/// The result of one check. The names are kube-scheduler's, except `scheduling-loop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub result: Result<(), Unhealthy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    #[error("the scheduling loop has been stuck for {seconds} s")]
    Hangs { seconds: u64 },
    #[error("the lease expired long ago and was not renewed")]
    LeaseNotRenewed,
    #[error("the initial lists are not complete")]
    Listing,
    #[error("the LeaseCandidate is not written")]
    NoCandidate,
    #[error("the scheduler is stopping")]
    Stopping,
}

/// Whether the scheduler can do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// The first lists are not complete.
    Listing,
    Ready,
    /// The process was asked to stop, or a part of it ended.
    Stopping,
}

impl Default for Health {
    /// The state of a process that is starting.
    fn default() -> Self {
        let state = State { readiness: Readiness::Listing, last_turn: None, leadership: None };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl Health {
    /// Records that every object that existed at the start is known.
    pub fn synced(&self) {
        let mut state = self.state();
        if state.readiness == Readiness::Listing {
            state.readiness = Readiness::Ready;
        }
    }

    /// Records that the process is no longer ready.
    pub fn stopping(&self) {
        self.state().readiness = Readiness::Stopping;
    }

    /// Records that there is an election, and follows its state.
    pub fn follow(&self, leadership: Leadership) {
        self.state().leadership = Some(leadership);
    }

    /// Whether this replica schedules, according to the election.
    pub fn is_leading(&self) -> bool {
        self.state().leadership.as_ref().is_none_or(Leadership::is_leading)
    }

    /// The identity of the replica that leads; `None` if there is no election, or if the leader is unknown.
    pub fn leader(&self) -> Option<Arc<str>> {
        self.state().leadership.as_ref()?.leader()
    }

    /// Records a turn of the scheduling loop.
    pub fn beat(&self, now: Instant) {
        self.state().last_turn = Some(now);
    }

    /// Waits for an answer with a separate time limit. The scheduling loop does not count as hanging while it waits for
    /// this answer.
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

    /// The checks of the endpoint. A replica that does not lead is healthy even if no replica leads.
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
                if let Some(is_candidate) = state.leadership.as_ref().and_then(Leadership::is_candidate) {
                    add("informer-sync", if is_candidate { Ok(()) } else { Err(Unhealthy::NoCandidate) });
                }
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
    /// The path of the endpoint, without the slash.
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

    /// The result of the check, if the endpoint makes it.
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
