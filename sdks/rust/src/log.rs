//! Logging through the host, and a panic hook that logs the reason before the trap.

use std::{panic::PanicHookInfo, sync::Once};

use berth_framework::Status;

use crate::bindings::shared::berth::scheduler::host;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Information for debugging the plugin.
    Debug,
    /// Information for operators.
    Info,
    /// A problem after which the plugin continues.
    Warn,
    /// A failure. The last line at this level of a call that traps is part of the fault's reason.
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

/// Logs a warning.
#[cfg(target_family = "wasm")]
pub(crate) fn warn(message: &str) {
    log(Level::Warn, message);
}

/// Prints the warning, because there is no scheduler in the plugin's own tests.
#[cfg(not(target_family = "wasm"))]
#[expect(clippy::print_stderr, reason = "the output of a test")]
pub(crate) fn warn(message: &str) {
    eprintln!("warning: {message}");
}

/// Installs the hook. A trap itself only says `unreachable`; the line that was logged before it gives the reason.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| log(Level::Error, &last_words(panic)))));
}

/// The message and the line, in the same form as in the SDKs of the other languages.
fn last_words(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("panicked");
    match panic.location() {
        Some(place) => format!("{message}, at {}:{}", place.file(), place.line()),
        None => message.to_owned(),
    }
}

/// Logs the error of a call that cannot return it in its answer.
pub(crate) fn failure(call: &str, outcome: Result<(), Status>) {
    if let Err(status) = outcome {
        log(Level::Error, &format!("{call}: {}", status.message()));
    }
}
