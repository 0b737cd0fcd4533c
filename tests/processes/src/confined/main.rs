//! `confined`: runs a program in its own cgroup, like a container with a limit of memory and one processor.
//!
//! The program replaces this process, so it has the same id and signals. If no cgroup can be made, nothing is run, and
//! the exit code is [`NOT_CONFINED`]. Groups that earlier runs left empty are removed.

#![expect(clippy::print_stderr, reason = "the result")]

mod cgroup;

use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

/// The exit code if no cgroup can be made.
const NOT_CONFINED: u8 = 77;

const HELP: &str = "usage: confined MEMORY [PROGRAM ARGUMENT ...]\n\nRuns PROGRAM in a cgroup with MEMORY bytes, on one \
                    processor. Without PROGRAM it says whether that can be done here.";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(memory) = arguments.next().and_then(|memory| memory.parse().ok()) else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    let program: Vec<String> = arguments.collect();
    if let Err(error) = enter(memory, !program.is_empty()) {
        eprintln!("not run: no cgroup can be made here: {error:#}");
        return ExitCode::from(NOT_CONFINED);
    }
    let Some((program, arguments)) = program.split_first() else { return ExitCode::SUCCESS };
    let error = Command::new(program).args(arguments).exec();
    eprintln!("{program}: {error}");
    ExitCode::FAILURE
}

/// Makes a group. If `joins` is set, this process joins it.
fn enter(memory: u64, joins: bool) -> Result<()> {
    let own = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let groups = cgroup::make(Path::new("/sys/fs/cgroup"), &own, memory, std::process::id())?;
    for group in groups {
        if joins {
            fs::write(group.join("cgroup.procs"), "0").with_context(|| format!("cannot join {}", group.display()))?;
        } else {
            fs::remove_dir(&group).with_context(|| format!("cannot remove {}", group.display()))?;
        }
    }
    Ok(())
}
