//! A bound on requests per second, from `clientConnection.qps` and `burst`, and the order of requests at the bound.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::fair_queue::{FairQueue, Flow};

/// The number of requests that may be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// The number of requests per second in the long run. Zero or less means no bound.
    pub per_second: f64,
    /// The number of requests that may be sent in a burst, after a quiet time.
    pub burst: u32,
}

impl RequestRate {
    /// Requests without a bound.
    pub const UNLIMITED: Self = Self { per_second: 0.0, burst: 0 };
}

/// The priority of a request among the waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Urgent,
    /// The request waits while urgent requests wait. Even then, one request in [`Throttle::PATIENCE`] is a patient
    /// request.
    Patient,
}

/// Makes requests wait for their turn.
#[derive(Debug)]
pub(crate) struct Throttle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signals a change of the rate.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    urgent: FairQueue<oneshot::Sender<()>>,
    patient: FairQueue<oneshot::Sender<()>>,
    /// The number of urgent requests since the last patient request.
    n_urgent: u32,
    /// Whether a task releases due requests.
    is_driven: bool,
}

#[derive(Debug)]
struct Pace {
    interval: Duration,
    /// The time by which requests may be ahead of an even pace.
    slack: Duration,
    /// The time at which the next request would be due at an even pace.
    due: Option<Instant>,
}

/// The next step of the task that drives a throttle.
enum Next {
    /// The caller waits until this time.
    WaitUntil(Instant),
    /// Stop, because no request waits.
    Nothing,
}

impl Throttle {
    /// While urgent requests wait, one request in this many is a patient request.
    const PATIENCE: u32 = 8;

    pub(crate) fn new(rate: RequestRate) -> Self {
        let state = State {
            pace: Pace::new(rate),
            urgent: FairQueue::default(),
            patient: FairQueue::default(),
            n_urgent: 0,
            is_driven: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Sets the rate from this call on, also for waiting requests.
    pub(crate) fn set(&self, rate: RequestRate) {
        self.0.state().pace = Pace::new(rate);
        self.0.changed.notify_one();
    }

    /// Waits until one more request may be sent, and returns the time that this took. Profiles take turns, and
    /// namespaces within a profile take turns.
    pub(crate) async fn wait(&self, urgency: Urgency, flow: &Flow) -> Duration {
        let now = Instant::now();
        let turn = {
            let mut state = self.0.state();
            if state.urgent.is_empty() && state.patient.is_empty() && state.pace.earliest(now) <= now {
                state.pace.take(now);
                return Duration::ZERO;
            }
            let (sender, turn) = oneshot::channel();
            let queue = match urgency {
                Urgency::Urgent => &mut state.urgent,
                Urgency::Patient => &mut state.patient,
            };
            queue.push(flow, sender);
            if !std::mem::replace(&mut state.is_driven, true) {
                drop(tokio::spawn(drive(Arc::clone(&self.0))));
            }
            turn
        };
        // The sender is dropped only with the runtime.
        let _ = turn.await;
        now.elapsed()
    }
}

/// Releases due requests until no request waits.
async fn drive(shared: Arc<Shared>) {
    loop {
        // The guard must be dropped before the wait.
        let next = shared.state().let_go(Instant::now());
        match next {
            Next::Nothing => return,
            // Timers work in whole milliseconds.
            Next::WaitUntil(due) => {
                tokio::select! {
                    () = tokio::time::sleep_until(due) => {}
                    () = shared.changed.notified() => {}
                }
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Releases the requests that are due.
    fn let_go(&mut self, now: Instant) -> Next {
        loop {
            let earliest = self.pace.earliest(now);
            if earliest > now {
                return Next::WaitUntil(earliest);
            }
            let Some(turn) = self.pop() else {
                self.is_driven = false;
                return Next::Nothing;
            };
            // A request that was dropped takes no turn.
            if turn.send(()).is_ok() {
                self.pace.take(now);
            }
        }
    }

    fn pop(&mut self) -> Option<oneshot::Sender<()>> {
        let is_patient =
            !self.patient.is_empty() && (self.urgent.is_empty() || self.n_urgent + 1 >= Throttle::PATIENCE);
        let queue = if is_patient { &mut self.patient } else { &mut self.urgent };
        let (_, turn) = queue.pop(|_| true)?;
        self.n_urgent = if is_patient { 0 } else { self.n_urgent.saturating_add(1) };
        Some(turn)
    }
}

impl Pace {
    fn new(rate: RequestRate) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / rate.per_second).unwrap_or_default();
        Self { interval, slack: interval.saturating_mul(rate.burst.saturating_sub(1)), due: None }
    }

    /// The earliest time at which one more request may be sent.
    fn earliest(&self, now: Instant) -> Instant {
        self.due.and_then(|due| due.checked_sub(self.slack)).unwrap_or(now)
    }

    /// Counts one request that is sent at `now`.
    fn take(&mut self, now: Instant) {
        self.due = self.due.map_or(now, |due| due.max(now)).checked_add(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::join_all};

    use super::*;

    fn flow(profile: &str) -> Flow {
        Flow { profile: Arc::from(profile), namespace: Arc::default() }
    }

    async fn urgent(throttle: &Throttle) {
        throttle.wait(Urgency::Urgent, &Flow::default()).await;
    }

    async fn seconds_for(n_requests: u32, rate: RequestRate) -> f64 {
        let throttle = Throttle::new(rate);
        let began = Instant::now();
        for _ in 0..n_requests {
            urgent(&throttle).await;
        }
        began.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let rate = RequestRate { per_second: 10.0, burst: 20 };
        assert!(seconds_for(20, rate).await < 0.01);
        let seconds = seconds_for(50, rate).await;
        assert!((2.9..3.2).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn patient_requests_let_others_go_first_and_are_not_forgotten() {
        let throttle = Throttle::new(RequestRate { per_second: 10.0, burst: 1 });
        urgent(&throttle).await;
        let by_all = flow("");
        let mut patient = Box::pin(join_all((0..100).map(|_| throttle.wait(Urgency::Patient, &by_all))));
        assert!(futures::poll!(&mut patient).is_pending());
        let began = Instant::now();
        urgent(&throttle).await;
        assert!(began.elapsed().as_secs_f64() < 0.15, "{:?}", began.elapsed());
        let of_another = flow("b");
        let mut first = Box::pin(throttle.wait(Urgency::Patient, &of_another));
        assert!(futures::poll!(&mut first).is_pending());
        let many = join_all((0..100).map(|_| urgent(&throttle)));
        tokio::select! {
            _ = many => panic!("a patient request waits for all urgent ones"),
            _ = first => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_profile_with_many_requests_delays_no_other() {
        let throttle = Throttle::new(RequestRate { per_second: 50.0, burst: 100 });
        let (many, other) = (flow("many"), flow("other"));
        let mut waiting = Box::pin(join_all((0..1000).map(|_| throttle.wait(Urgency::Urgent, &many))));
        assert!(futures::poll!(&mut waiting).is_pending());
        let began = Instant::now();
        for _ in 0..10 {
            throttle.wait(Urgency::Urgent, &other).await;
        }
        assert!(began.elapsed().as_secs_f64() < 0.5, "every second one is another's: {:?}", began.elapsed());
        drop(waiting);
        let began = Instant::now();
        throttle.wait(Urgency::Urgent, &other).await;
        assert!(began.elapsed().as_secs_f64() < 0.1, "a request whose caller no longer waits takes no turn");
    }

    #[tokio::test(start_paused = true)]
    async fn another_rate_holds_from_then_on() {
        let throttle = Throttle::new(RequestRate { per_second: 0.1, burst: 1 });
        urgent(&throttle).await;
        let mut waiting = Box::pin(urgent(&throttle));
        assert!(futures::poll!(&mut waiting).is_pending());
        throttle.set(RequestRate::UNLIMITED);
        let began = Instant::now();
        waiting.await;
        assert!(began.elapsed() < Duration::from_secs(1), "the request that already waits is released");
        assert!(urgent(&throttle).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_no_bound() {
        for per_second in [0.0, -1.0, f64::NAN] {
            assert!(seconds_for(1000, RequestRate { per_second, burst: 1 }).await < 0.01);
        }
    }

    /// A request that is due immediately must not use a timer, which fires only with the next whole millisecond.
    #[test]
    fn a_request_that_need_not_wait_goes_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            for rate in [RequestRate { per_second: 0.0, burst: 0 }, RequestRate { per_second: 50.0, burst: 100 }] {
                let throttle = Throttle::new(rate);
                assert!(urgent(&throttle).now_or_never().is_some(), "{rate:?}");
            }
        });
    }
}
