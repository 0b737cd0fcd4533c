//! Instances are built and filled on a separate thread, which then passes them to the scheduling thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use berth_scheduler::{Event, HostObjects, Preparation, Prepared};
use tokio::sync::mpsc;

/// Runs a preparation on another thread. The result goes to `events`. Before, the thread calls `until_announced`, which
/// waits until the scheduling thread's channel has the events that must come before the result.
///
/// # Errors
/// No thread can be started. The error is the result of the preparation.
pub fn prepare(
    preparation: Preparation,
    objects: &HostObjects,
    events: &mpsc::WeakSender<Event>,
    until_announced: impl FnOnce() + Send + 'static,
) -> Result<(), Box<Prepared>> {
    // A copy would take time that the caller may not have.
    let shared = Arc::new(Mutex::new(Some(preparation)));
    let (own, objects, events) = (Arc::clone(&shared), objects.clone(), events.clone());
    let work = move || {
        let Some(preparation) = take(&own) else { return };
        let spare = preparation.clone();
        let prepared = catch_unwind(AssertUnwindSafe(|| preparation.run()));
        let prepared = prepared.unwrap_or_else(|_| spare.failed("preparing an instance panicked"));
        until_announced();
        // The scheduling thread ends before its channel only if the process ends.
        if let Some(events) = events.upgrade() {
            let _ = events.blocking_send(Event::plugin_prepared(&objects, prepared));
        }
    };
    match berth_threads::spawn_background("plugin-preparation", work) {
        Ok(()) => Ok(()),
        Err(error) => match take(&shared) {
            Some(preparation) => {
                Err(Box::new(preparation.failed(&format!("cannot start a thread to prepare an instance: {error}"))))
            }
            None => Ok(()),
        },
    }
}

fn take(shared: &Mutex<Option<Preparation>>) -> Option<Preparation> {
    shared.lock().unwrap_or_else(PoisonError::into_inner).take()
}
