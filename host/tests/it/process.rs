//! One `berth` process of a test. An error of [`berth_test_processes::Process`] fails the test.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
    time::Duration,
};

use berth_test_processes::scheduler_command;

pub(crate) use berth_test_processes::{DEADLINE, Ended, within};

/// A process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process(berth_test_processes::Process);

impl Process {
    /// Starts `berth` in an environment that names neither a cluster nor options.
    pub(crate) fn berth<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::berth_with(arguments, &[])
    }

    /// Starts `berth` with additional environment variables.
    pub(crate) fn berth_with<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Self {
        let arguments: Vec<OsString> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_berth"));
        let schedules = arguments.first().is_some_and(|first| first == "run" || first == "kube-scheduler");
        let mut command = if schedules { scheduler_command(program) } else { Command::new(program) };
        command.args(arguments);
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "BERTH_LOG", "BERTH_SERVER", "BERTH_ADMIN_SOCKET"] {
            command.env_remove(variable);
        }
        // The tests share a cache of compiled plugins, which is not the user's. Tests of the built-in components in other
        // packages use the same cache (`oracle::artefacts_of_tests`).
        command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
        command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
        // Schedulers without an option for the socket share one socket. Only the first scheduler can listen on this
        // socket, and the other schedulers run without a socket.
        command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
        command.envs(variables.iter().copied());
        Self::start(command)
    }

    /// Starts any command.
    pub(crate) fn start(command: Command) -> Self {
        Self(berth_test_processes::Process::start(command).expect("the process starts"))
    }

    /// Waits for a line that contains `part`. Lines that have already come also count.
    pub(crate) async fn line(&mut self, part: &str) -> String {
        self.0.line(part).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits for the end of the process. Kills it and fails after `limit`.
    pub(crate) async fn ended(self, limit: Duration) -> Ended {
        self.0.ended(limit).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Sends SIGTERM, as Kubernetes does.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, which has a name as in `kill`.
    pub(crate) fn signal(&self, signal: &str) {
        self.0.signal(signal).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Kills the process, as a crash does, and returns once it is gone.
    pub(crate) fn kill(self) {
        self.0.kill();
    }

    /// All that the process has written so far.
    pub(crate) fn text(&self) -> String {
        self.0.text()
    }
}
