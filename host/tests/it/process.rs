//! One `berth` process: its lines as they come, and its end. It is killed at the end of the test.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

/// No step of these tests takes nearly as long, on however slow a machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    title: String,
    /// Closed when the process has closed both streams.
    lines: watch::Receiver<Vec<(Stream, String)>>,
}

/// All that a process wrote until it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Process {
    /// Starts `berth` with an environment in which it finds neither a cluster nor options.
    pub(crate) fn berth<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::berth_with(arguments, &[])
    }

    /// The same with these variables besides.
    pub(crate) fn berth_with<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments);
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "BERTH_LOG", "BERTH_SERVER", "BERTH_ADMIN_SOCKET"] {
            command.env_remove(variable);
        }
        // Compiled plugins are kept from one test to the next, and away from the user's.
        command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
        command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
        // Schedulers that are told of no other socket share this one: all but the first go without.
        command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
        command.envs(variables.iter().copied());
        Self::start(command)
    }

    /// Starts anything else.
    pub(crate) fn start(mut command: Command) -> Self {
        let title = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the process starts");
        let (sender, lines) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        collect(child.stdout.take().expect("piped"), Stream::Out, Arc::clone(&sender));
        collect(child.stderr.take().expect("piped"), Stream::Err, sender);
        Self { child, title, lines }
    }

    /// Waits for a line that contains `part`, past or future.
    pub(crate) async fn line(&mut self, part: &str) -> String {
        let found = |lines: &[(Stream, String)]| {
            lines.iter().find(|(_, line)| line.contains(part)).map(|(_, line)| line.clone())
        };
        let mut lines = self.lines.clone();
        let waited = timeout(DEADLINE, lines.wait_for(|lines| found(lines).is_some())).await;
        match waited {
            Ok(Ok(lines)) => found(&lines).expect("waited for"),
            _ => panic!("{} did not write `{part}` but\n{}", self.title, self.text()),
        }
    }

    /// Waits for its end; kills it and fails after `limit`.
    pub(crate) async fn ended(mut self, limit: Duration) -> Ended {
        let mut lines = self.lines.clone();
        let closed = timeout(limit, async { while lines.changed().await.is_ok() {} }).await;
        assert!(closed.is_ok(), "{} did not end within {limit:?} but wrote\n{}", self.title, self.text());
        let status = self.child.wait().expect("a child of ours");
        Ended { status, out: self.stream(Stream::Out), err: self.stream(Stream::Err) }
    }

    /// Asks it to end, as Kubernetes does.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends it a signal, as `kill` names it.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Ends it as a crash does, and returns once it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything it wrote so far.
    pub(crate) fn text(&self) -> String {
        self.lines.borrow().iter().map(|(_, line)| format!("{line}\n")).collect()
    }

    fn stream(&self, wanted: Stream) -> String {
        let lines = self.lines.borrow();
        lines.iter().filter(|(stream, _)| *stream == wanted).map(|(_, line)| format!("{line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn collect(stream: impl Read + Send + 'static, kind: Stream, lines: Arc<watch::Sender<Vec<(Stream, String)>>>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.send_modify(|lines| lines.push((kind, line)));
        }
    });
}
