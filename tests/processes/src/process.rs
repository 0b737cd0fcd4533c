//! One process: its lines as they arrive, and its end.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{sync::watch, time::timeout};

use crate::DEADLINE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// A process, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    title: String,
    /// The lines. The channel is closed when the process has closed both streams.
    lines: watch::Receiver<Vec<(Stream, String)>>,
}

/// The whole output of a process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Process {
    /// Starts a program without input, and reads its output.
    pub fn start(mut command: Command) -> Result<Self> {
        let title = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {title}"))?;
        let (sender, lines) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        collect(child.stdout.take().context("standard output")?, Stream::Out, Arc::clone(&sender));
        collect(child.stderr.take().context("standard error")?, Stream::Err, sender);
        Ok(Self { child, title, lines })
    }

    /// Waits for a line that contains `part`, including earlier lines. Fails if the process ends without it.
    pub async fn line(&self, part: &str) -> Result<String> {
        let found = |lines: &[(Stream, String)]| {
            lines.iter().find(|(_, line)| line.contains(part)).map(|(_, line)| line.clone())
        };
        let mut lines = self.lines.clone();
        let waited = timeout(DEADLINE, lines.wait_for(|lines| found(lines).is_some())).await;
        if let Ok(Ok(lines)) = waited
            && let Some(line) = found(&lines)
        {
            return Ok(line);
        }
        bail!("{} did not write `{part}` but\n{}", self.title, self.text())
    }

    /// Waits for the end of the process. Kills it and fails after `limit`.
    pub async fn ended(mut self, limit: Duration) -> Result<Ended> {
        let mut lines = self.lines.clone();
        let closed = timeout(limit, async { while lines.changed().await.is_ok() {} }).await;
        ensure!(closed.is_ok(), "{} did not end within {limit:?} but wrote\n{}", self.title, self.text());
        let status = self.child.wait()?;
        Ok(Ended { status, out: self.stream(Stream::Out), err: self.stream(Stream::Err) })
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Asks the process to end, as Kubernetes does.
    pub fn terminate(&self) -> Result<()> {
        self.signal("-TERM")
    }

    /// Sends a signal to the process, written as for `kill`: `-STOP`, `-CONT`, `-USR2`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().context("kill")?;
        ensure!(status.success(), "{} could not be sent {signal}: it has ended\n{}", self.title, self.text());
        Ok(())
    }

    /// Ends the process as in a crash, and returns when it has ended.
    pub fn kill(mut self) {
        self.end();
    }

    /// The process's id, for `/proc`.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The whole output so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.borrow().iter().map(|(_, line)| format!("{line}\n")).collect()
    }

    /// The last lines of the output.
    #[must_use]
    pub fn last_lines(&self, n_lines: usize) -> String {
        let lines = self.lines.borrow();
        lines.iter().skip(lines.len().saturating_sub(n_lines)).map(|(_, line)| format!("{line}\n")).collect()
    }

    fn stream(&self, wanted: Stream) -> String {
        let lines = self.lines.borrow();
        lines.iter().filter(|(stream, _)| *stream == wanted).map(|(_, line)| format!("{line}\n")).collect()
    }

    fn end(&mut self) {
        // The process may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
