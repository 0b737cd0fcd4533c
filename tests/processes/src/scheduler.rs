//! `berth run` as a process with endpoints.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{Endpoints, Process};

/// The program of this name that was built beside the running program.
pub fn beside(name: &str) -> Result<PathBuf> {
    let program = env::current_exe()?.with_file_name(name);
    ensure!(program.is_file(), "{} is not there; the cargo xtask command builds it", program.display());
    Ok(program)
}

/// The variable that names the program `confined`, followed by a colon and the memory limit in bytes for each scheduler
/// of a test.
pub const CONFINED: &str = "BERTH_CONFINED";

/// A command for a scheduler, in its own cgroup if [`CONFINED`] is set.
#[must_use]
pub fn scheduler_command(program: &Path) -> Command {
    let asked = env::var(CONFINED).ok();
    match asked.as_deref().and_then(|asked| asked.rsplit_once(':')) {
        Some((confined, memory)) => {
            let mut command = Command::new(confined);
            command.arg(memory).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// [`berth`] for a scheduler, which may have a memory limit.
#[must_use]
pub fn berth_scheduler(program: &Path, home: &Path) -> Command {
    without_surroundings(scheduler_command(program), home)
}

/// A command that finds neither a cluster nor options in its environment. Its cache and the socket for its orders are
/// in `home`.
#[must_use]
pub fn berth(program: &Path, home: &Path) -> Command {
    without_surroundings(Command::new(program), home)
}

fn without_surroundings(mut command: Command, home: &Path) -> Command {
    for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "BERTH_LOG", "BERTH_SERVER", "BERTH_ADMIN_SOCKET"] {
        command.env_remove(variable);
    }
    command.env("HOME", home).env("XDG_CACHE_HOME", home.join("cache")).env("XDG_RUNTIME_DIR", home);
    command
}

/// A scheduler, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Scheduler {
    pub process: Process,
    pub endpoints: Endpoints,
}

impl Scheduler {
    /// Runs `berth run` with these arguments and with endpoints on a free port, and waits until the endpoints answer.
    pub async fn start<A: AsRef<OsStr>>(mut berth: Command, arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        berth.args(["run", "--metrics-address", "127.0.0.1:0"]).args(arguments);
        let process = Process::start(berth)?;
        let line = process.line("serving /metrics").await?;
        let address = line.split_once("address=").context("the address of /metrics")?.1;
        let address = address.split_whitespace().next().unwrap_or_default();
        let endpoints = Endpoints::new(address.parse().with_context(|| line.clone())?);
        Ok(Self { process, endpoints })
    }

    /// Waits until the scheduler has seen all objects.
    pub async fn ready(&self) -> Result<()> {
        let is_ready = self.endpoints.until("/readyz", |answer| answer.ends_with("ok")).await;
        is_ready.with_context(|| self.process.text())?;
        Ok(())
    }
}
