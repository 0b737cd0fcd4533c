//! What a plugin may ask the scheduler besides logging.

use crate::bindings::shared::berth::scheduler::host;

/// Milliseconds since 1970, as of the start of this cycle: a recorded run replays with the same answers.
#[must_use]
pub fn now() -> u64 {
    host::now()
}

/// Adds to a counter of the plugin's own.
pub fn count(name: &str, amount: u64) {
    host::count(name, amount);
}
