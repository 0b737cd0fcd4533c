//! Compiles untrusted bytes in a separate process, with limited processor time and memory.
//!
//! A component of a few megabytes can keep a compiler busy for minutes, and the compiler can use gigabytes. In the
//! scheduler's own process, this would use up the memory of the scheduler. In a separate process, only this file fails.
//! The program starts itself again with a command that calls [`compile_for_parent`]. The process reads the bytes from
//! standard input. It writes the length of the compiled component and the component itself to standard output, and
//! errors about the bytes to standard error.
//!
//! The kernel's out-of-memory killer ends this process before the scheduler, which shares a container with it.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{available_memory::available_memory, settings};

/// The wall-clock limit as a multiple of the limit of processor time. On a busy machine, a compiler may have to wait
/// long for a processor, and the file does not cause this wait.
const CLOCK_FACTOR: u32 = 10;

/// The maximum number of bytes of the compiler's messages that are kept.
const MESSAGE_BYTES: u64 = 4096;

/// The maximum number of bytes of a compiled component: about twice the size of a plugin with an interpreter of Python
/// or JavaScript. The scheduler has the component in memory twice while it loads it, and once afterwards.
const MAX_ARTEFACT_BYTES: u64 = 128 << 20;

/// The divisor of memory: a compiler may use 1 / 2 of the memory of the container, or of the machine.
const MEMORY_PARTS: u64 = 2;

/// The limits of compiling one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// The processor time on all processors together.
    pub cpu_time: Duration,
    /// The maximum memory that the process can write to (`RLIMIT_DATA`). The limit is lower if half of the memory of
    /// the container, or of the machine, is less.
    pub memory_bytes: u64,
}

impl CompileLimits {
    /// The limits on this machine, or in this container.
    #[must_use]
    pub fn here(self) -> Self {
        let limits = self.within(available_memory(Path::new("/")));
        if limits != self {
            tracing::debug!(
                "a plugin is compiled within {} bytes of memory, half of the memory of the container or the machine; \
                 files.compileMemory is {}",
                limits.memory_bytes,
                self.memory_bytes
            );
        }
        limits
    }

    /// The limits on a machine, or in a container, with `available` bytes of memory.
    fn within(self, available: Option<u64>) -> Self {
        let part = available.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS);
        Self { memory_bytes: self.memory_bytes.min(part), ..self }
    }
}

/// The command of a process that calls [`compile_for_parent`].
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    /// The program to start. It must be the program of this process, because artefacts of another program do not fit.
    pub program: PathBuf,
    /// The name by which the program is called.
    pub arg0: OsString,
    /// The arguments of the program, to which the seconds and bytes of the limits are added.
    pub arguments: Vec<OsString>,
}

/// The reason why compiling failed: how the compiler's process ended. The text follows the plugin's name.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("is not a valid component: {0}")]
    Invalid(String),
    #[error("takes more than {} s of processor time to compile", .0.as_secs())]
    ProcessorTime(Duration),
    #[error("was not compiled within {} s: the machine gave the compiler too little processor time", .0.as_secs())]
    Clock(Duration),
    #[error("takes more than {0} bytes of memory to compile")]
    Memory(u64),
    #[error("has {size} bytes when it is compiled, more than the {limit} that a compiled plugin may have")]
    ArtefactTooLarge { size: u64, limit: u64 },
    #[error(
        "could not be compiled: the compiler's process was killed, probably by the kernel for lack of memory: raise the \
         container's memory limit or lower files.compileMemory"
    )]
    Killed,
    #[error("could not be compiled: signal {signal} ended the compiler's process: {message}")]
    Crashed { signal: i32, message: String },
    #[error("could not be compiled: the compiler's process ended with exit code {code}: {message}")]
    ExitCode { code: i32, message: String },
    #[error("could not be compiled: cannot start the compiler's process")]
    Process(#[source] io::Error),
}

impl CompilerProcess {
    /// Compiles the bytes of a component. Returns the result of `Engine::precompile_component`. The limits are at most
    /// the limits that hold [here](CompileLimits::here).
    ///
    /// # Errors
    /// The bytes are not a valid component, or compiling them takes more than the limits allow.
    pub(crate) fn compile(&self, component: &[u8], limits: CompileLimits) -> Result<Vec<u8>, CompileError> {
        let mut child = self.start(limits).map_err(CompileError::Process)?;
        let ended = converse(&mut child, component, limits);
        // The process is ended in any case, so that no process stays behind.
        let _ = child.kill();
        let status = child.wait().map_err(CompileError::Process)?;
        let Conversation { answer, message } = ended.map_err(CompileError::Process)?;
        match answer {
            Answer::Artefact(artefact) => Ok(artefact),
            Answer::TooLarge(size) => Err(CompileError::ArtefactTooLarge { size, limit: MAX_ARTEFACT_BYTES }),
            Answer::Nothing => Err(CompileError::of_end(limits, status, message)),
            Answer::Late => Err(CompileError::Clock(limits.cpu_time * CLOCK_FACTOR)),
        }
    }

    fn start(&self, limits: CompileLimits) -> io::Result<Child> {
        Command::new(&self.program)
            .arg0(&self.arg0)
            .args(&self.arguments)
            .arg(limits.cpu_time.as_secs().to_string())
            .arg(limits.memory_bytes.to_string())
            .env_clear()
            // mimalloc reserves 1 GiB before `main` begins, so that a limit set there would not bound it.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

impl CompileError {
    /// Whether the failure depends only on the bytes and the limits, so that another compilation would end in the same
    /// way.
    pub(crate) fn is_of_the_bytes(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::ProcessorTime(_) | Self::Memory(_) | Self::ArtefactTooLarge { .. } => true,
            Self::Clock(_) | Self::Killed | Self::Crashed { .. } | Self::ExitCode { .. } | Self::Process(_) => false,
        }
    }

    /// Whether compiling may end differently within larger limits.
    pub(crate) fn is_of_the_limits(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::ArtefactTooLarge { .. } | Self::Process(_) => false,
            Self::ProcessorTime(_)
            | Self::Memory(_)
            | Self::Clock(_)
            | Self::Killed
            | Self::Crashed { .. }
            | Self::ExitCode { .. } => true,
        }
    }

    /// Whether compiling the same bytes within the same limits may succeed later, when the machine has more to give.
    pub(crate) fn is_of_the_moment(&self) -> bool {
        match self {
            Self::Clock(_) | Self::Killed | Self::Process(_) => true,
            Self::Invalid(_)
            | Self::ProcessorTime(_)
            | Self::Memory(_)
            | Self::ArtefactTooLarge { .. }
            | Self::Crashed { .. }
            | Self::ExitCode { .. } => false,
        }
    }

    /// The error for the end of a process that gave no artefact.
    fn of_end(limits: CompileLimits, status: ExitStatus, message: String) -> Self {
        match status.signal() {
            Some(libc::SIGXCPU) => Self::ProcessorTime(limits.cpu_time),
            Some(libc::SIGKILL) => Self::Killed,
            Some(libc::SIGABRT | libc::SIGSEGV | libc::SIGBUS) | None if is_out_of_memory(&message) => {
                Self::Memory(limits.memory_bytes)
            }
            Some(signal) => Self::Crashed { signal, message },
            None => match status.code() {
                Some(1) => Self::Invalid(message),
                code => Self::ExitCode { code: code.unwrap_or_default(), message },
            },
        }
    }
}

/// Sends the bytes and reads the answer, until the process closes its side or the time is over.
fn converse(child: &mut Child, component: &[u8], limits: CompileLimits) -> io::Result<Conversation> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        // A process that has read enough closes its side. Its answer counts; the unread rest does not matter.
        scope.spawn(move || drop(stdin.write_all(component)));
        let messages = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.take(MESSAGE_BYTES).read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        scope.spawn(move || drop(answer.send(Answer::read(stdout))));
        let answer = answered.recv_timeout(limits.cpu_time * CLOCK_FACTOR).unwrap_or(Ok(Answer::Late));
        if !matches!(answer, Ok(Answer::Nothing)) {
            // No more output is needed. Ending the process closes all three pipes, which ends the threads.
            let _ = child.kill();
        }
        let message = messages.join().unwrap_or_default();
        Ok(Conversation { answer: answer?, message })
    })
}

/// The answer of a compiler's process.
struct Conversation {
    answer: Answer,
    message: String,
}

/// The content of the standard output of a compiler's process.
enum Answer {
    Artefact(Vec<u8>),
    /// An artefact of this many bytes, which were not read.
    TooLarge(u64),
    /// The process ended, or closed its side, before it gave an artefact.
    Nothing,
    /// The wall-clock limit was reached first.
    Late,
}

impl Answer {
    /// Reads an answer. The memory for the artefact is allocated once, because a list that grows would take up to three
    /// times as much memory.
    fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; size_of::<u64>()];
        match from.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Self::Nothing),
            read => read?,
        }
        let length = u64::from_le_bytes(length);
        let Some(capacity) = usize::try_from(length).ok().filter(|_| length <= MAX_ARTEFACT_BYTES) else {
            return Ok(Self::TooLarge(length));
        };
        let mut artefact = Vec::with_capacity(capacity);
        from.take(length).read_to_end(&mut artefact)?;
        Ok(if artefact.len() == capacity { Self::Artefact(artefact) } else { Self::Nothing })
    }
}

/// Whether the message comes from Rust's allocator, or from a thread that could not be started.
fn is_out_of_memory(message: &str) -> bool {
    message.contains("memory allocation of") || message.contains("Cannot allocate memory")
}

/// Does the work of the process that [`CompilerProcess`] starts: it limits itself, reads a component from standard
/// input, and writes the compiled component, after its length, to standard output.
///
/// # Errors
/// The component is invalid, or a limit cannot be set.
pub fn compile_for_parent(limits: CompileLimits) -> Result<(), CompileError> {
    confine(limits).map_err(CompileError::Process)?;
    let invalid = |error: wasmtime::Error| CompileError::Invalid(format!("{error:#}"));
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(CompileError::Process)?;
    let engine = wasmtime::Engine::new(&settings::config()).map_err(invalid)?;
    let artefact = engine.precompile_component(&bytes).map_err(invalid)?;
    let mut stdout = io::stdout().lock();
    let length = artefact.len() as u64;
    let written = stdout.write_all(&length.to_le_bytes()).and_then(|()| stdout.write_all(&artefact));
    written.and_then(|()| stdout.flush()).map_err(CompileError::Process)
}

/// Limits this process. The size of the address space does not measure memory: the program itself takes space, and
/// reserved space costs nothing. `RLIMIT_DATA` counts all private memory that can be written to, since Linux 4.7.
///
/// # Errors
/// The system refused a limit.
fn confine(limits: CompileLimits) -> io::Result<()> {
    let seconds = limits.cpu_time.as_secs();
    rlimit::setrlimit(rlimit::Resource::CORE, 0, 0)?;
    rlimit::setrlimit(rlimit::Resource::CPU, seconds, seconds + 1)?;
    rlimit::setrlimit(rlimit::Resource::DATA, limits.memory_bytes, limits.memory_bytes)?;
    // A system without the out-of-memory killer does not have the file.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

#[cfg(test)]
mod tests;
