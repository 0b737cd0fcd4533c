//! The turns of compiling. Each compile has a process that may take much memory. So all callers that load binaries,
//! from the plugins directory or a registry, take turns. Several small attempts run at a time. In addition, one attempt
//! runs that may use as much as the limits allow. The attempt with the least effort goes first. Among equal attempts,
//! the attempt that has waited longest goes first.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::effort::LoadEffort;

#[derive(Debug, Default)]
pub(crate) struct CompileTurns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeSet<Place>,
    last_number: u64,
    n_small: usize,
    is_large_at_work: bool,
}

/// A place in the queue. Less effort comes first, then the earlier number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    effort: LoadEffort,
    number: u64,
}

/// The right to compile, which lasts until this value is dropped.
#[derive(Debug)]
pub(crate) struct CompileTurn<'a> {
    turns: &'a CompileTurns,
    is_small: bool,
}

impl CompileTurns {
    /// Waits until an attempt of this effort may begin.
    pub(crate) fn wait(&self, effort: LoadEffort) -> CompileTurn<'_> {
        let mut state = self.lock();
        state.last_number += 1;
        let me = Place { effort, number: state.last_number };
        state.waiting.insert(me);
        while !state.may_begin(me) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.remove(&me);
        let is_small = effort.is_small();
        if is_small {
            state.n_small += 1;
        } else {
            state.is_large_at_work = true;
        }
        drop(state);
        // Another small attempt may also begin.
        self.changed.notify_all();
        CompileTurn { turns: self, is_small }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_begin(&self, me: Place) -> bool {
        let is_small = me.effort.is_small();
        let has_room = if is_small { self.n_small < LoadEffort::small_at_a_time() } else { !self.is_large_at_work };
        let first = self.waiting.iter().find(|place| place.effort.is_small() == is_small);
        has_room && first == Some(&me)
    }
}

impl Drop for CompileTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        if self.is_small {
            state.n_small -= 1;
        } else {
            state.is_large_at_work = false;
        }
        drop(state);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc::channel},
        thread,
        time::Duration,
    };

    use super::*;

    /// Much longer than any step takes.
    const PATIENCE: Duration = Duration::from_secs(120);

    #[test]
    fn there_is_one_large_compile_at_a_time_and_the_least_effort_goes_first() {
        let turns = Arc::new(CompileTurns::default());
        let (began, order) = channel();
        let mut first = Some(turns.wait(LoadEffort::Full));
        let mut threads = Vec::new();
        for (n_before, effort) in [LoadEffort::Full, LoadEffort::Medium].into_iter().enumerate() {
            let (turns, began) = (Arc::clone(&turns), began.clone());
            threads.push(thread::spawn({
                let turns = Arc::clone(&turns);
                move || {
                    let turn = turns.wait(effort);
                    began.send(effort).expect("the test listens");
                    drop(turn);
                }
            }));
            while turns.lock().waiting.len() <= n_before {
                thread::yield_now();
            }
        }
        let small: Vec<_> = (0..LoadEffort::small_at_a_time()).map(|_| turns.wait(LoadEffort::Small)).collect();
        assert!(order.try_recv().is_err(), "small attempts go beside the large one, large ones wait");
        drop((small, first.take()));
        let order: Vec<LoadEffort> = (0..2).map(|_| order.recv_timeout(PATIENCE).expect("both have a turn")).collect();
        assert_eq!(order, [LoadEffort::Medium, LoadEffort::Full]);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
