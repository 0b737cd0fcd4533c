//! Instances are built and filled on a thread of their own, which hands them to the scheduling thread by itself.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use berth_scheduler::{Event, HostObjects, Preparation, Prepared};
use tokio::sync::mpsc;

/// Runs a preparation elsewhere. Its answer goes to `events`; without a thread it comes back.
///
/// # Errors
/// The answer for a preparation that no thread could be had for.
pub fn prepare(
    preparation: Preparation,
    objects: &HostObjects,
    events: &mpsc::WeakSender<Event>,
) -> Result<(), Box<Prepared>> {
    // Copying it takes time, which the caller may not have.
    let shared = Arc::new(Mutex::new(Some(preparation)));
    let (own, objects, events) = (Arc::clone(&shared), objects.clone(), events.clone());
    let work = move || {
        let Some(preparation) = take(&own) else { return };
        let spare = preparation.clone();
        let prepared = catch_unwind(AssertUnwindSafe(|| preparation.run()));
        let prepared = prepared.unwrap_or_else(|_| spare.failed("preparing an instance panicked"));
        // The scheduling thread ends before its channel does only when the process ends.
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
