//! What becomes of a task when one that it waits for ends early.

use std::{any::Any, panic};

use tokio::task::JoinError;

/// Takes the panic of another task over. If that task was cancelled, the runtime is going down: this one ends with it, and
/// nothing is printed.
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
