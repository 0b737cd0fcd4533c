//! Logging through the host, and panics that say what went wrong before the trap.

use std::{panic::PanicHookInfo, sync::Once};

use berth_framework::Status;

use crate::bindings::shared::berth::scheduler::host;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For debugging the plugin.
    Debug,
    /// What an operator may want to know.
    Info,
    /// Something is wrong, and the plugin goes on.
    Warn,
    /// Something failed. The last such line of a call that traps is part of the fault's reason.
    Error,
}

/// Writes a line to the scheduler's log, under the plugin's name.
pub fn log(level: Level, message: &str) {
    let level = match level {
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    };
    host::log(level, message);
}

/// A trap by itself reads `unreachable`; the line logged before it tells why.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| log(Level::Error, &last_words(panic)))));
}

/// The message and the line, as the SDKs of the other languages write them.
fn last_words(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("panicked");
    match panic.location() {
        Some(place) => format!("{message}, at {}:{}", place.file(), place.line()),
        None => message.to_owned(),
    }
}

/// Logs what went wrong in a call that has no answer to carry it.
pub(crate) fn failure(call: &str, outcome: Result<(), Status>) {
    if let Err(status) = outcome {
        log(Level::Error, &format!("{call}: {}", status.message()));
    }
}
