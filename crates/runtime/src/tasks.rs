//! The tasks that a running scheduler consists of.
//!
//! None of them ends while the scheduler runs. One that does, by a panic or because what it works on is gone, leaves a process
//! that looks alive and schedules nothing, so its owner waits for the first end and ends the process.

use std::{any::Any, collections::HashMap};

use tokio::task::{Id, JoinError, JoinSet};

/// Running tasks, by name. Dropping it aborts them.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A part of the scheduler ended before it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndedEarly {
    #[error("{part} panicked: {message}; exiting so that the process is restarted")]
    Panicked { part: &'static str, message: String },
    /// The part returned although nothing stopped it. What it serves is gone, usually because another part panicked.
    #[error("{part} ended; exiting so that the process is restarted")]
    Returned { part: &'static str },
}

impl Tasks {
    /// Must be called inside a tokio runtime.
    pub(crate) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = async move {
            panic_if_asked(name);
            task.await;
        };
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits for the first task to end; for ever if there is none. Dropping the future loses nothing.
    pub(crate) async fn first_end(&mut self) -> EndedEarly {
        let Some(ended) = self.running.join_next_with_id().await else { return std::future::pending().await };
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let part = self.names.get(&id).copied().unwrap_or("a task");
        match ended.map_err(JoinError::try_into_panic) {
            Err(Ok(panic)) => EndedEarly::panicked(part, panic.as_ref()),
            Ok(_) | Err(Err(_)) => EndedEarly::Returned { part },
        }
    }
}

impl EndedEarly {
    pub(crate) fn panicked(part: &'static str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self::Panicked { part, message }
    }
}

/// Panics in the part that `BERTH_PANIC_IN` names: nothing from outside makes a part panic, and tests must see what the process
/// makes of it. Builds without debug assertions do not look.
pub(crate) fn panic_if_asked(part: &str) {
    let is_asked = cfg!(debug_assertions) && std::env::var("BERTH_PANIC_IN").is_ok_and(|asked| asked == part);
    assert!(!is_asked, "BERTH_PANIC_IN asks for it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_that_ends_is_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("the watch", std::future::pending());
        tasks.spawn("the executor", async { panic!("no {}", "slot") });
        let ended = tasks.first_end().await;
        assert_eq!(ended, EndedEarly::Panicked { part: "the executor", message: "no slot".to_owned() });
        tasks.spawn("the endpoints", async {});
        assert_eq!(tasks.first_end().await, EndedEarly::Returned { part: "the endpoints" });
    }
}
