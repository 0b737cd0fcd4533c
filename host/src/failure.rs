//! A command that fails prints one message. The exit code is 2 for a wrong command line, and 1 for every other failure.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use berth_config::Usage;
use berth_plugin_host::PluginHostError;

/// Writes the message and picks the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        // The reader has closed the output, so further output is not needed.
        return ExitCode::SUCCESS;
    }
    // The message is lost if standard error is closed.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    if is_usage(error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Whether the operator can correct the mistake on the command line or in a file that the command line names.
fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>() || matches!(error.downcast_ref(), Some(PluginHostError::Usage(_)))
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(broken)
        || error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind)
            == Some(io::ErrorKind::BrokenPipe)
}
