//! The thread that advances epochs, at which the time of a long call is checked. The thread rests while no component is
//! called.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

/// The time between two checks of time limits. This time is short enough for limits of tens of milliseconds.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// The number of ticks without a call before the thread rests. Waking the thread costs the call a system call.
const IDLE_TICKS: u32 = 40;

/// The time after which a resting thread checks whether the engine still exists.
const REST: Duration = Duration::from_secs(60);

/// Advances the epochs of one engine.
#[derive(Debug)]
pub(crate) struct Ticker {
    calls: Arc<Calls>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
    ticker_rests: AtomicBool,
}

impl Calls {
    /// Whether a call began after the first `seen` calls, or is still running.
    fn want_ticks(&self, seen: u64) -> bool {
        let begun = self.begun.load(Ordering::SeqCst);
        begun != seen || begun != self.ended.load(Ordering::SeqCst)
    }
}

impl Ticker {
    /// Starts the thread. It ends once the engine and everything made from it are gone.
    pub(crate) fn start(engine: &wasmtime::Engine) -> io::Result<Self> {
        let calls = Arc::new(Calls::default());
        let (engine, watched) = (engine.weak(), Arc::clone(&calls));
        let tick = move || {
            let (mut seen, mut n_idle) = (0, 0);
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
                n_idle = if watched.want_ticks(seen) { 0 } else { n_idle + 1 };
                seen = watched.begun.load(Ordering::SeqCst);
                if n_idle < IDLE_TICKS {
                    continue;
                }
                watched.ticker_rests.store(true, Ordering::SeqCst);
                // A call may have begun before it could notice that the thread rests. This check finds such a call.
                if !watched.want_ticks(seen) {
                    thread::park_timeout(REST);
                }
                watched.ticker_rests.store(false, Ordering::SeqCst);
            }
        };
        let thread = thread::Builder::new().name("plugin-epochs".to_owned()).spawn(tick)?.thread().clone();
        Ok(Self { calls, thread })
    }

    /// Runs a call into a component, during which epochs advance.
    pub(crate) fn during<R>(&self, call: impl FnOnce() -> R) -> R {
        self.calls.begun.fetch_add(1, Ordering::SeqCst);
        if self.calls.ticker_rests.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        let answer = call();
        self.calls.ended.fetch_add(1, Ordering::SeqCst);
        answer
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

/// The number of ticks until a call's time is checked again. It covers at least `timeout`, because the current tick
/// does not count.
pub(crate) fn ticks(timeout: Duration) -> u64 {
    let ticks = timeout.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use wasmtime::{Config, Engine, Instance, Module, Store};

    use super::*;

    /// A module whose function `f` never returns: `(loop (br 0))`.
    const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01f\0\0\
                             \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

    #[test]
    fn a_call_is_ended_though_the_ticker_had_come_to_rest() {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let module = Module::new(&engine, ENDLESS).unwrap();
        let ticker = Ticker::start(&engine).unwrap();
        for _ in 0..2 {
            while !ticker.calls.ticker_rests.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(3);
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let endless = instance.get_typed_func::<(), ()>(&mut store, "f").unwrap();
            ticker.during(|| endless.call(&mut store, ())).unwrap_err();
        }
    }
}
