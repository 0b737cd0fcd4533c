//! The end of a task if another task that it waits for has ended early.

use std::{any::Any, panic};

use tokio::task::JoinError;

/// Continues the panic of another task. If that task was cancelled, the runtime is shutting down, and this task also
/// ends, without printing anything.
pub fn end_as(error: JoinError) -> ! {
    let cause: Box<dyn Any + Send> = error.try_into_panic().unwrap_or_else(|cancelled| Box::new(cancelled));
    panic::resume_unwind(cause)
}

#[cfg(test)]
mod tests {
    use std::{future, panic::AssertUnwindSafe};

    use super::*;

    #[tokio::test]
    async fn a_cancelled_task_is_no_panic() {
        let task = tokio::spawn(future::pending::<()>());
        task.abort();
        let error = task.await.unwrap_err();
        let cause = panic::catch_unwind(AssertUnwindSafe(|| end_as(error))).unwrap_err();
        assert!(cause.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
    }
}
