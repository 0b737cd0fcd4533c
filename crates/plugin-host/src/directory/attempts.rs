//! Runs many tasks at the same time, each with growing effort. Tasks that need little effort are done first, and no
//! task waits for a task that needs much effort.
//!
//! Several threads make the small attempts, and one thread makes all larger attempts. Each thread takes the task with
//! the least effort so far. Of several such tasks, the thread takes the task that has waited longest.

use std::{
    collections::BTreeMap,
    io,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use berth_wasm_host::LoadEffort;

/// One attempt of a task. After `Continue`, another attempt with more effort follows.
pub(super) type Work = Box<dyn FnMut(LoadEffort) -> ControlFlow<()> + Send>;

/// The threads. When this value is dropped, the threads finish their current attempts and end.
#[derive(Debug)]
pub(super) struct Attempts {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<(LoadEffort, u64), Task>,
    /// The names of the tasks that threads are working on.
    running: Vec<String>,
    last_number: u64,
    is_closed: bool,
}

struct Task {
    name: String,
    /// Whether even small attempts need so much memory that only one attempt is made at a time.
    is_large: bool,
    work: Work,
}

/// The kind of attempts that a thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Small,
    Other,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "State({} waiting, {} running)", self.waiting.len(), self.running.len())
    }
}

impl Attempts {
    /// Starts the threads. `n_small` of them make small attempts.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(super) fn start(n_small: usize) -> io::Result<Self> {
        let attempts = Self { shared: Arc::default() };
        for lane in std::iter::repeat_n(Lane::Small, n_small).chain([Lane::Other]) {
            let shared = Arc::clone(&attempts.shared);
            berth_threads::spawn_background("plugin-loading", move || shared.work(lane))?;
        }
        Ok(attempts)
    }

    /// Adds a task. There must be no task of this name. If `is_large`, no other large task is attempted at the same
    /// time.
    pub(super) fn add(&self, name: String, is_large: bool, work: Work) {
        self.shared.lock().add(LoadEffort::FIRST, Task { name, is_large, work });
        self.shared.changed.notify_all();
    }

    /// Removes the waiting task of this name. Returns whether no task of this name is left; the result is false while a
    /// thread works on such a task.
    pub(super) fn withdraw(&self, name: &str) -> bool {
        let mut state = self.shared.lock();
        state.waiting.retain(|_, task| task.name != name);
        !state.running.iter().any(|running| running == name)
    }

    /// Waits until all tasks are done.
    pub(super) fn wait_for_all(&self) {
        let is_at_work = |state: &mut State| !state.waiting.is_empty() || !state.running.is_empty();
        let state = self.shared.changed.wait_while(self.shared.lock(), is_at_work);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, lane: Lane) {
        while let Some((effort, mut task)) = self.next(lane) {
            // A panic ends only this task, as on a separate thread.
            let attempted = catch_unwind(AssertUnwindSafe(|| (task.work)(effort)));
            if attempted.is_err() {
                tracing::error!(plugin = task.name, "loading a plugin panicked");
            }
            let mut state = self.lock();
            state.running.retain(|name| *name != task.name);
            if let (Ok(ControlFlow::Continue(())), Some(effort)) = (attempted, effort.next()) {
                state.add(effort, task);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for the next attempt; `None` once the directory is no longer watched.
    fn next(&self, lane: Lane) -> Option<(LoadEffort, Task)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(next) = state.take(lane) {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn add(&mut self, effort: LoadEffort, task: Task) {
        self.last_number += 1;
        self.waiting.insert((effort, self.last_number), task);
    }

    fn take(&mut self, lane: Lane) -> Option<(LoadEffort, Task)> {
        let next = self.waiting.iter().find(|((effort, _), task)| task.lane(*effort) == lane).map(|(at, _)| *at)?;
        let task = self.waiting.remove(&next)?;
        self.running.push(task.name.clone());
        Some((next.0, task))
    }
}

impl Task {
    fn lane(&self, effort: LoadEffort) -> Lane {
        if effort.is_small() && !self.is_large { Lane::Small } else { Lane::Other }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Receiver, Sender, channel},
        time::Duration,
    };

    use super::*;

    /// Much longer than any step takes.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// Tasks that report each attempt, and continue when the test allows it.
    struct Bench {
        attempts: Attempts,
        sender: Sender<(String, LoadEffort)>,
        told: Receiver<(String, LoadEffort)>,
    }

    impl Bench {
        fn new() -> Self {
            let (sender, told) = channel();
            Self { attempts: Attempts::start(2).expect("threads"), sender, told }
        }

        /// Adds a task that is complete after an attempt with the effort `done_with`. Attempts with `stuck_at` wait
        /// until the sender is dropped.
        fn add(&self, name: &str, is_large: bool, done_with: LoadEffort, stuck_at: Option<LoadEffort>) -> Sender<()> {
            let (release, released) = channel::<()>();
            let (sender, called) = (self.sender.clone(), name.to_owned());
            let work = move |effort| {
                sender.send((called.clone(), effort)).expect("the test listens");
                if stuck_at == Some(effort) {
                    let _ = released.recv();
                }
                if effort >= done_with { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            self.attempts.add(name.to_owned(), is_large, Box::new(work));
            release
        }

        fn next(&self) -> (String, LoadEffort) {
            self.told.recv_timeout(PATIENCE).expect("an attempt")
        }

        fn until(&self, name: &str, effort: LoadEffort) {
            while self.next() != (name.to_owned(), effort) {}
        }
    }

    #[test]
    fn what_needs_all_effort_holds_up_nothing_that_needs_less() {
        let bench = Bench::new();
        let slow = bench.add("slow", false, LoadEffort::Full, Some(LoadEffort::Full));
        bench.until("slow", LoadEffort::Full);
        let _also_slow = bench.add("also slow", false, LoadEffort::Full, Some(LoadEffort::Full));
        for number in 0..20 {
            bench.add(&format!("quick {number}"), false, LoadEffort::Small, None);
        }
        let quick = |told: &(String, LoadEffort)| told.0.starts_with("quick") && told.1 == LoadEffort::Small;
        let mut n_done = 0;
        while n_done < 20 {
            let told = bench.next();
            assert_ne!(told, ("also slow".to_owned(), LoadEffort::Full), "one at a time");
            n_done += usize::from(quick(&told));
        }
        drop(slow);
        bench.until("also slow", LoadEffort::Full);
    }

    #[test]
    fn one_that_is_stuck_in_a_small_attempt_leaves_another_thread() {
        let bench = Bench::new();
        let _stuck = bench.add("stuck", false, LoadEffort::Small, Some(LoadEffort::Small));
        bench.until("stuck", LoadEffort::Small);
        bench.add("other", false, LoadEffort::Small, None);
        bench.until("other", LoadEffort::Small);
    }

    #[test]
    fn of_large_ones_there_is_one_at_a_time_and_the_least_effort_comes_first() {
        let bench = Bench::new();
        let first = bench.add("first", true, LoadEffort::Cached, Some(LoadEffort::Cached));
        bench.until("first", LoadEffort::Cached);
        let _second = bench.add("second", true, LoadEffort::Small, None);
        let _third = bench.add("third", true, LoadEffort::Cached, None);
        drop(first);
        let order: Vec<_> = (0..3).map(|_| bench.next()).collect();
        let told = |name: &str, effort| (name.to_owned(), effort);
        let wanted =
            [told("second", LoadEffort::Cached), told("third", LoadEffort::Cached), told("second", LoadEffort::Small)];
        assert_eq!(order, wanted);
    }

    #[test]
    fn a_task_is_taken_back_while_it_waits_and_not_while_it_runs() {
        let bench = Bench::new();
        let running = bench.add("running", true, LoadEffort::Cached, Some(LoadEffort::Cached));
        bench.until("running", LoadEffort::Cached);
        let _waiting = bench.add("waiting", true, LoadEffort::Cached, None);
        assert!(bench.attempts.withdraw("waiting"));
        assert!(!bench.attempts.withdraw("running"));
        drop(running);
        bench.attempts.wait_for_all();
        assert!(bench.told.try_recv().is_err(), "it was taken back");
        assert!(bench.attempts.withdraw("running"));
    }

    #[test]
    fn a_panic_costs_the_task_alone() {
        let bench = Bench::new();
        bench.attempts.add("bad".to_owned(), false, Box::new(|_| panic!("on purpose")));
        for number in 0..3 {
            bench.add(&number.to_string(), false, LoadEffort::Small, None);
        }
        bench.attempts.wait_for_all();
        assert_eq!(bench.told.try_iter().count(), 6);
    }
}
