//! The tasks of a running scheduler.
//!
//! No task ends while the scheduler runs. If a task ends, because of a panic or because its subject no longer exists,
//! the process would look alive but schedule nothing. The owner therefore waits for the first end, and then ends the
//! process.

use std::{any::Any, collections::HashMap};

use tokio::task::{Id, JoinError, JoinSet};

/// Running tasks, by name. They are aborted when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A part of the scheduler that ended unexpectedly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndedEarly {
    #[error("{part} panicked: {message}; exiting so that the process is restarted")]
    Panicked { part: &'static str, message: String },
    /// The part returned before it was stopped. Its subject no longer exists, usually because another part panicked.
    #[error("{part} ended; exiting so that the process is restarted")]
    Returned { part: &'static str },
}

impl Tasks {
    /// Starts a task. This must be called inside a tokio runtime.
    pub(crate) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = async move {
            panic_if_asked(name);
            task.await;
        };
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits for the first task to end, or forever if there are no tasks. The future can be dropped without loss.
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

/// Panics in the part that `BERTH_PANIC_IN` names. Tests need this variable, because no input makes a part of the
/// scheduler panic. Builds without debug assertions ignore the variable.
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
