//! A running component: its store, its functions, and the one method that calls them.

use std::time::{Duration, Instant};

use berth_model::Time;
use wasmtime::Store;

use crate::{
    binary::LoadError,
    component::LoadedComponent,
    cpu_time::CallTime,
    exports::Exports,
    fault::{CallError, CallTraces, FaultKind, InstanceFault, Refused},
    host_state::HostState,
    limits::Limits,
};

pub(crate) struct Instance {
    store: Store<HostState>,
    exports: Exports,
    /// The time of the last call.
    last_call: Duration,
    start: Start,
}

/// The time from the start of an instance to its first question.
#[derive(Clone, Copy, Debug)]
enum Start {
    UnderWay(Duration),
    Over(Duration),
}

/// The time limit of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeLimit {
    /// [`Limits::call_timeout`].
    Call,
    /// [`Limits::post_filter_timeout`].
    PostFilter,
    /// [`Limits::once_an_instance`].
    Lifecycle,
    /// The rest of [`Self::Lifecycle`] for the portions of the first delta.
    FirstDelta(Duration),
    /// The remaining time of [`Self::Lifecycle`], for a later delta that is full or has several portions. Such a delta
    /// is charged like a call.
    Delta(Duration),
}

/// The data for a call.
pub(crate) struct CallContext<'a> {
    pub(crate) store: &'a mut Store<HostState>,
    pub(crate) exports: &'a Exports,
    pub(crate) limits: &'a Limits,
}

/// An interface that the caller knows to be exported.
pub(crate) fn guest<T>(interface: &Option<T>) -> Result<&T, CallError> {
    interface.as_ref().ok_or_else(|| CallError::Answer(Refused("no such interface".to_owned())))
}

impl Instance {
    pub(crate) fn new(component: &LoadedComponent) -> Result<Self, LoadError> {
        let LoadedComponent { pre, indices, limits, clock, ticker, stats, log_budget, name, .. } = component;
        let state = HostState::new(name.clone(), limits, clock.clone(), stats.clone(), log_budget.clone());
        let mut store = Store::new(pre.engine(), state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(limits.output_bytes);
        store.epoch_deadline_callback(|mut context| context.data_mut().time.at_tick());
        store.data_mut().time = CallTime::new(limits.once_an_instance());
        store.set_epoch_deadline(1);
        let began = Instant::now();
        let instance = match ticker.during(|| pre.instantiate(&mut store)) {
            Ok(instance) => instance,
            Err(error) => {
                let fault =
                    InstanceFault::new(CallError::Wasm(error), "instantiation", store.data().traces(), Duration::ZERO);
                stats.record_fault(fault.kind);
                return Err(fault.into());
            }
        };
        let exports = indices.load(&mut store, &instance)?;
        let start = Start::UnderWay(store.data().time.used(began.elapsed()));
        Ok(Self { store, exports, last_call: Duration::ZERO, start })
    }

    /// Sets the time of the cycle for the next calls.
    pub(crate) fn set_cycle_time(&mut self, time: Time) {
        self.store.data_mut().set_cycle_time(time);
    }

    /// The time of the calling thread that the last call used.
    pub(crate) fn last_call(&self) -> Duration {
        self.last_call
    }

    /// Calls `function` by running `ask`, with a time limit. After a fault the instance must be dropped. The time of
    /// calls at extension points and of deltas is charged to the plugin's share of the scheduling thread.
    pub(crate) fn call<R>(
        &mut self,
        component: &LoadedComponent,
        function: &'static str,
        limit: TimeLimit,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, InstanceFault> {
        let LoadedComponent { limits, ticker, stats, .. } = component;
        let timeout = match limit {
            TimeLimit::Call => limits.call_timeout,
            TimeLimit::PostFilter => limits.post_filter_timeout,
            TimeLimit::Lifecycle => limits.once_an_instance(),
            TimeLimit::FirstDelta(duration) | TimeLimit::Delta(duration) => duration,
        };
        // The first check is at the next tick. From then on the processor time counts.
        self.store.set_epoch_deadline(1);
        let state = self.store.data_mut();
        (state.time, state.last_words) = (CallTime::new(timeout), None);
        let started = Instant::now();
        let context = CallContext { store: &mut self.store, exports: &self.exports, limits };
        let answer = ticker.during(|| ask(context));
        let elapsed = started.elapsed();
        stats.record_call(elapsed, self.store.data().meter.memory());
        let used = self.store.data().time.used(elapsed);
        self.last_call = used;
        if answer.is_ok() {
            self.store.data_mut().write_held_back();
        }
        match limit {
            TimeLimit::Call | TimeLimit::PostFilter | TimeLimit::Delta(_) => component.charge(used),
            TimeLimit::Lifecycle | TimeLimit::FirstDelta(_) => {}
        }
        self.start = match (self.start, limit) {
            (Start::UnderWay(so_far), TimeLimit::Lifecycle | TimeLimit::FirstDelta(_)) if answer.is_ok() => {
                Start::UnderWay(so_far + used)
            }
            (start, _) => Start::Over(start.took()),
        };
        answer.map_err(|error| {
            let delta = match limit {
                TimeLimit::FirstDelta(_) | TimeLimit::Delta(_) => Some(limits.whole_delta()),
                TimeLimit::Call | TimeLimit::PostFilter | TimeLimit::Lifecycle => None,
            };
            let traces = CallTraces { delta, ..self.store.data().traces() };
            let fault = InstanceFault::new(error, function, traces, used);
            match fault.kind {
                FaultKind::Trap => self.store.data_mut().forget_held_back(),
                FaultKind::Timeout | FaultKind::Memory | FaultKind::WrongAnswer => {
                    self.store.data_mut().write_held_back();
                }
            }
            stats.record_fault(fault.kind);
            fault
        })
    }

    /// The processor time that the instance took to start: instantiation, `configure` and the first delta. The next
    /// instance takes the same time.
    pub(crate) fn start_time(&self) -> Duration {
        self.start.took()
    }
}

impl Start {
    fn took(self) -> Duration {
        match self {
            Start::UnderWay(took) | Start::Over(took) => took,
        }
    }
}
