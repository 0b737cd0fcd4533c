//! How a command fails: with one message, and 2 for a wrong command line, 1 for everything else.

use std::{
    fmt,
    io::{self, Write as _},
    process::ExitCode,
};

/// The command line, or a file that it names, makes no sense: nothing was started.
#[derive(Debug)]
pub(crate) struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Writes the message and picks the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(broken)
        || error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind)
            == Some(io::ErrorKind::BrokenPipe)
}
