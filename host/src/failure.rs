//! How a command fails: with one message; exit code 2 for a wrong command line, 1 for everything else.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use berth_config::Usage;

/// Writes the message and picks the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        // The reader of the output has seen enough.
        return ExitCode::SUCCESS;
    }
    // With standard error closed there is no place to write to.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(broken)
        || error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind)
            == Some(io::ErrorKind::BrokenPipe)
}
