//! The process that compiles the files of a plugins directory: this program, started with a hidden command.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process,
    time::Duration,
};

use berth_telemetry::chain;
use berth_wasm_host::{CompileError, CompileLimits, CompilerProcess, compile_for_parent};
use clap::Args;

/// The command's name.
const COMMAND: &str = "compile-component";

/// The command by which the scheduler starts this program to compile a file.
pub(crate) fn compiler_process() -> CompilerProcess {
    CompilerProcess {
        // The file may already hold another version after an upgrade, so its path is not used.
        program: "/proc/self/exe".into(),
        arg0: OsString::from("berth"),
        arguments: vec![OsString::from(COMMAND)],
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompileComponent {
    /// Processor time
    seconds: u64,
    /// Memory that can be written to
    bytes: u64,
}

/// Compiles the component on standard input. The reason for a failure goes to standard error without a prefix: the
/// scheduler that started this process builds its message from this reason.
pub(crate) fn run(arguments: &CompileComponent) -> ! {
    let CompileComponent { seconds, bytes } = *arguments;
    let limits = CompileLimits { cpu_time: Duration::from_secs(seconds), memory_bytes: bytes };
    let reason = match compile_for_parent(limits) {
        Ok(()) => process::exit(0),
        Err(CompileError::Invalid(reason)) => reason,
        Err(error) => chain(&error),
    };
    let _ = writeln!(io::stderr().lock(), "{reason}");
    process::exit(1)
}
