//! Questions of a plugin to the scheduler, apart from logging.

use crate::bindings::shared::berth::scheduler::host;

/// Milliseconds since 1970 at the start of this cycle. A replay of a recorded run returns the recorded times.
#[must_use]
pub fn now() -> u64 {
    host::now()
}

/// Increases one of the plugin's own counters.
pub fn count(name: &str, amount: u64) {
    host::count(name, amount);
}
