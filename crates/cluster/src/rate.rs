//! A bound on requests per second, as `clientConnection.qps` and `burst` give it.

use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};

/// How many requests may be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// In the long run. Zero or less: as many as there are.
    pub per_second: f64,
    /// At once, after a quiet time.
    pub burst: u32,
}

impl RequestRate {
    /// As fast as the server takes them.
    pub const UNLIMITED: Self = Self { per_second: 0.0, burst: 0 };
}

/// Makes requests wait for their turn.
#[derive(Debug)]
pub(crate) struct Throttle {
    pace: Mutex<Pace>,
    /// Held by the one patient request that has its turn.
    patient: Mutex<()>,
}

#[derive(Debug)]
struct Pace {
    interval: Duration,
    /// How far ahead of an even pace requests may run.
    slack: Duration,
    /// When the next request would be due if all came at an even pace.
    due: Option<Instant>,
}

impl Throttle {
    pub(crate) fn new(rate: RequestRate) -> Self {
        Self { pace: Mutex::new(Pace::new(rate)), patient: Mutex::default() }
    }

    /// From here on this rate holds; requests that wait already go as they were told.
    pub(crate) async fn set(&self, rate: RequestRate) {
        *self.pace.lock().await = Pace::new(rate);
    }

    /// The same for a request that lets others go first: of those that wait patiently one at a time has a turn, so that others
    /// wait for one of them at most.
    pub(crate) async fn wait_patiently(&self) {
        let _turn = self.patient.lock().await;
        self.wait().await;
    }

    /// Waits until one more request may be sent. Requests go in the order in which they came.
    pub(crate) async fn wait(&self) {
        let (turn, slack) = {
            let mut pace = self.pace.lock().await;
            let now = Instant::now();
            let turn = pace.due.map_or(now, |due| due.max(now));
            pace.due = turn.checked_add(pace.interval);
            (turn, pace.slack)
        };
        // Timers have whole milliseconds: even one that is due already would wait for the next.
        let earliest = turn.checked_sub(slack).filter(|earliest| *earliest > Instant::now());
        if let Some(earliest) = earliest {
            tokio::time::sleep_until(earliest).await;
        }
    }
}

impl Pace {
    fn new(rate: RequestRate) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / rate.per_second).unwrap_or_default();
        Self { interval, slack: interval.saturating_mul(rate.burst.saturating_sub(1)), due: None }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    async fn seconds_for(n_requests: u32, rate: RequestRate) -> f64 {
        let throttle = Throttle::new(rate);
        let began = Instant::now();
        for _ in 0..n_requests {
            throttle.wait().await;
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
    async fn patient_requests_let_others_go_first() {
        let throttle = Throttle::new(RequestRate { per_second: 10.0, burst: 1 });
        throttle.wait().await;
        let patient = futures::future::join_all((0..100).map(|_| throttle.wait_patiently()));
        let mut patient = std::pin::pin!(patient);
        assert!(futures::poll!(&mut patient).is_pending());
        let began = Instant::now();
        tokio::select! {
            biased;
            () = throttle.wait() => {}
            _ = &mut patient => panic!("a hundred requests in no time"),
        }
        assert!(began.elapsed().as_secs_f64() < 0.3, "one of them is before it: {:?}", began.elapsed());
        patient.await;
    }

    #[tokio::test(start_paused = true)]
    async fn another_rate_holds_from_then_on() {
        let throttle = Throttle::new(RequestRate { per_second: 0.1, burst: 1 });
        throttle.wait().await;
        throttle.set(RequestRate::UNLIMITED).await;
        assert!(throttle.wait().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_no_bound() {
        for per_second in [0.0, -1.0, f64::NAN] {
            assert!(seconds_for(1000, RequestRate { per_second, burst: 1 }).await < 0.01);
        }
    }

    /// No timer: even one that is due at once fires with the next whole millisecond.
    #[test]
    fn a_request_that_need_not_wait_goes_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            for rate in [RequestRate { per_second: 0.0, burst: 0 }, RequestRate { per_second: 50.0, burst: 100 }] {
                let throttle = Throttle::new(rate);
                assert!(throttle.wait().now_or_never().is_some(), "{rate:?}");
            }
        });
    }
}
