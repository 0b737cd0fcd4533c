//! Compiling untrusted bytes in a process of its own, whose processor time and memory are bounded.
//!
//! A component of a few megabytes can keep a compiler busy for minutes, and the compiler can use gigabytes for it. In
//! the scheduler's own process that would take the memory of the scheduler; here it costs the one file. The program
//! starts itself again with a command that calls [`compile_for_parent`]: bytes come in on standard input, the length of
//! the compiled component and the component itself go out on standard output, and what is wrong with the bytes on
//! standard error.
//!
//! The kernel's out-of-memory killer takes this process before the scheduler, which shares a container with it.

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

/// How many times the limit of processor time may pass by the clock: on a busy machine, a compiler that gives way to
/// others takes long through no fault of the file.
const CLOCK_FACTOR: u32 = 10;

/// What is kept of the compiler's messages.
const MESSAGE_BYTES: u64 = 4096;

/// What a compiled component may take: about twice what a plugin takes that brings an interpreter of Python or JavaScript.
/// The scheduler has it in memory twice while it loads it, once after that.
const MAX_ARTEFACT_BYTES: u64 = 128 << 20;

/// The part of the memory of the container, or of the machine, that a compiler may use: 1 / 2.
const MEMORY_PARTS: u64 = 2;

/// What compiling one file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// The processor time on all processors together.
    pub cpu_time: Duration,
    /// The most memory that the process can write to (`RLIMIT_DATA`). Half of the memory of the container, or of the machine, is
    /// the limit where that is less.
    pub memory_bytes: u64,
}

impl CompileLimits {
    /// The limits as they hold on this machine, or in this container.
    #[must_use]
    pub fn here(self) -> Self {
        let limits = self.within(available_memory(Path::new("/")));
        if limits != self {
            tracing::debug!(
                "a plugin is compiled within {} bytes of memory, half of what the container or the machine has; \
                 files.compileMemory is {}",
                limits.memory_bytes,
                self.memory_bytes
            );
        }
        limits
    }

    /// The limits on a machine, or in a container, with so many bytes of memory.
    fn within(self, available: Option<u64>) -> Self {
        let part = available.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS);
        Self { memory_bytes: self.memory_bytes.min(part), ..self }
    }
}

/// How to start a process that calls [`compile_for_parent`].
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    /// The program to start: the same as this one, or artefacts do not fit.
    pub program: PathBuf,
    /// What the program shall believe to be called.
    pub arg0: OsString,
    /// The command of the program; seconds and bytes of the limits come after it.
    pub arguments: Vec<OsString>,
}

/// Why there is no compiled component: how the compiler's process ended. Reads on from the plugin's name.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("is not a valid component: {0}")]
    Invalid(String),
    #[error("takes more than {} s of processor time to compile", .0.as_secs())]
    ProcessorTime(Duration),
    #[error("was not compiled within {} s by the clock: the machine gave the compiler too little processor time", .0.as_secs())]
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
    #[error("could not be compiled: the compiler's process crashed by signal {signal}: {message}")]
    Crashed { signal: i32, message: String },
    #[error("could not be compiled: the compiler's process ended with exit code {code}: {message}")]
    ExitCode { code: i32, message: String },
    #[error("could not be compiled: cannot start the compiler's process")]
    Process(#[source] io::Error),
}

impl CompilerProcess {
    /// Compiles the bytes of a component; the answer is what `Engine::precompile_component` gives. The limits are those
    /// that hold [here](CompileLimits::here), or less.
    ///
    /// # Errors
    /// Fails if the bytes are not a valid component, or if compiling them takes more than the limits allow.
    pub(crate) fn compile(&self, component: &[u8], limits: CompileLimits) -> Result<Vec<u8>, CompileError> {
        let mut child = self.start(limits).map_err(CompileError::Process)?;
        let ended = converse(&mut child, component, limits);
        // Whatever happened, no process is left behind.
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
            // mimalloc takes 1 GiB ahead of its use before `main` begins, so that no limit set there bounds it.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

impl CompileError {
    /// Whether the same bytes would end so again within the same limits, whatever else happens on the machine.
    pub(crate) fn is_of_the_bytes(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::ProcessorTime(_) | Self::Memory(_) | Self::ArtefactTooLarge { .. } => true,
            Self::Clock(_) | Self::Killed | Self::Crashed { .. } | Self::ExitCode { .. } | Self::Process(_) => false,
        }
    }

    /// Whether the compiler may end otherwise within larger limits.
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

    /// What the end of a process that gave no artefact says.
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

/// Hands over the bytes and takes what comes back, until the process closes its side or the time is over.
fn converse(child: &mut Child, component: &[u8], limits: CompileLimits) -> io::Result<Conversation> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        // A process that has seen enough closes its side: what it says counts, not that the rest was not taken.
        scope.spawn(move || drop(stdin.write_all(component)));
        let messages = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.take(MESSAGE_BYTES).read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        scope.spawn(move || drop(answer.send(Answer::read(stdout))));
        let answer = answered.recv_timeout(limits.cpu_time * CLOCK_FACTOR).unwrap_or(Ok(Answer::Late));
        if !matches!(answer, Ok(Answer::Nothing)) {
            // There is nothing more to hear. This ends all three pipes, and with them the threads.
            let _ = child.kill();
        }
        let message = messages.join().unwrap_or_default();
        Ok(Conversation { answer: answer?, message })
    })
}

/// What a compiler's process answered.
struct Conversation {
    answer: Answer,
    message: String,
}

/// What came on the standard output of a compiler's process.
enum Answer {
    Artefact(Vec<u8>),
    /// An artefact of so many bytes, which were not read.
    TooLarge(u64),
    /// The process ended, or closed its side, before it had given an artefact.
    Nothing,
    /// The time by the clock was over first.
    Late,
}

impl Answer {
    /// Allocates what the artefact takes once: a list that grows as it is read would take up to three times as much.
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

/// What Rust's allocator, and threads that cannot be started, say.
fn is_out_of_memory(message: &str) -> bool {
    message.contains("memory allocation of") || message.contains("Cannot allocate memory")
}

/// The work of the process that [`CompilerProcess`] starts: limits itself, reads a component from standard input, and
/// writes it to standard output, compiled, after its length.
///
/// # Errors
/// Says what is wrong with the component, or which limits cannot be set.
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

/// Bounds this process. Address space is no measure of memory: the program itself takes some, and what is reserved costs
/// nothing. `RLIMIT_DATA` counts all private memory that can be written to, as Linux does since 4.7.
///
/// # Errors
/// The system refuses a limit.
pub fn confine(limits: CompileLimits) -> io::Result<()> {
    let seconds = limits.cpu_time.as_secs();
    rlimit::setrlimit(rlimit::Resource::CORE, 0, 0)?;
    rlimit::setrlimit(rlimit::Resource::CPU, seconds, seconds + 1)?;
    rlimit::setrlimit(rlimit::Resource::DATA, limits.memory_bytes, limits.memory_bytes)?;
    // A system without the out-of-memory killer has no such file.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

#[cfg(test)]
mod tests;
