//! Compiling untrusted bytes in a process of its own, whose processor time and memory are bounded.
//!
//! A component of a few megabytes can keep a compiler busy for minutes or have it use gigabytes. In the scheduler's own
//! process that would take the memory of the scheduler; here it costs the one file. The program starts itself again with
//! a command that calls [`compile_for_parent`]: bytes come in on standard input, the compiled component goes out on
//! standard output, and what is wrong with the bytes on standard error.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use wasmtime::component::Component;

use crate::settings;

/// How many times the limit of processor time may pass by the clock: on a busy machine, a compiler that gives way to
/// others takes long through no fault of the file.
const CLOCK_FACTOR: u32 = 10;

/// What is kept of the compiler's messages.
const MESSAGE_BYTES: u64 = 4096;

/// What compiling one file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// On all processors together.
    pub cpu_time: Duration,
    /// The most address space, that of the program itself included.
    pub memory_bytes: u64,
}

/// How to start a process that calls [`compile_for_parent`].
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    /// The same program as this one, or artefacts do not fit.
    pub program: PathBuf,
    /// What the program shall believe to be called.
    pub arg0: OsString,
    /// The command of the program; seconds and bytes of the limits come after it.
    pub arguments: Vec<OsString>,
}

/// Why there is no compiled component.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("is no valid component: {0}")]
    Invalid(String),
    #[error("takes more than {} s of processor time to compile", .0.as_secs())]
    Time(Duration),
    #[error("takes more than {0} bytes of memory to compile")]
    Memory(u64),
    #[error("could not be compiled: the compiler's process ended with {status}: {message}")]
    Crashed { status: ExitStatus, message: String },
    #[error("could not be compiled: no process for the compiler")]
    Process(#[source] io::Error),
}

impl CompilerProcess {
    /// Compiles the bytes of a component; the answer is what `Component::serialize` gives.
    ///
    /// # Errors
    /// They are no valid component, or compiling them takes more than the limits allow.
    pub(crate) fn compile(&self, component: &[u8], limits: CompileLimits) -> Result<Vec<u8>, CompileError> {
        let mut child = self.start(limits).map_err(CompileError::Process)?;
        let ended = converse(&mut child, component, limits);
        // Whatever happened, no process is left behind.
        let _ = child.kill();
        let status = child.wait().map_err(CompileError::Process)?;
        let Conversation { artefact, message } = ended.map_err(CompileError::Process)?;
        match artefact {
            None => Err(CompileError::Time(limits.cpu_time)),
            Some(artefact) if status.success() => Ok(artefact),
            Some(_) => Err(reason(limits, status, message)),
        }
    }

    fn start(&self, limits: CompileLimits) -> io::Result<Child> {
        Command::new(&self.program)
            .arg0(&self.arg0)
            .args(&self.arguments)
            .arg(limits.cpu_time.as_secs().to_string())
            .arg(limits.memory_bytes.to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Hands over the bytes and takes what comes back, until the process closes its side or the time is over.
fn converse(child: &mut Child, component: &[u8], limits: CompileLimits) -> io::Result<Conversation> {
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
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
        scope.spawn(move || {
            let mut artefact = Vec::new();
            let read = stdout.read_to_end(&mut artefact).map(|_| artefact);
            let _ = answer.send(read);
        });
        let artefact = answered.recv_timeout(limits.cpu_time * CLOCK_FACTOR).ok();
        if artefact.is_none() {
            // This ends all three pipes, and with them the threads.
            let _ = child.kill();
        }
        let message = messages.join().unwrap_or_default();
        Ok(Conversation { artefact: artefact.transpose()?, message })
    })
}

fn reason(limits: CompileLimits, status: ExitStatus, message: String) -> CompileError {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => CompileError::Time(limits.cpu_time),
        Some(libc::SIGABRT | libc::SIGSEGV | libc::SIGBUS) if is_out_of_memory(&message) => {
            CompileError::Memory(limits.memory_bytes)
        }
        None if is_out_of_memory(&message) => CompileError::Memory(limits.memory_bytes),
        None if status.code() == Some(1) => CompileError::Invalid(message),
        _ => CompileError::Crashed { status, message },
    }
}

/// What a compiler's process answered.
struct Conversation {
    /// `None` if the time was over first.
    artefact: Option<Vec<u8>>,
    message: String,
}

/// What Rust's allocator, and threads that cannot be started, say.
fn is_out_of_memory(message: &str) -> bool {
    message.contains("memory allocation of") || message.contains("Cannot allocate memory")
}

/// The work of the process that [`CompilerProcess`] starts: limits itself, reads a component from standard input, and
/// writes it to standard output, compiled.
///
/// # Errors
/// What is wrong with the component, or the limits that cannot be set.
pub fn compile_for_parent(limits: CompileLimits) -> Result<(), CompileError> {
    let seconds = limits.cpu_time.as_secs();
    let set = rlimit::setrlimit(rlimit::Resource::CORE, 0, 0)
        .and_then(|()| rlimit::setrlimit(rlimit::Resource::CPU, seconds, seconds + 1))
        .and_then(|()| rlimit::setrlimit(rlimit::Resource::AS, limits.memory_bytes, limits.memory_bytes));
    set.map_err(CompileError::Process)?;
    let invalid = |error: wasmtime::Error| CompileError::Invalid(format!("{error:#}"));
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(CompileError::Process)?;
    let engine = wasmtime::Engine::new(&settings::config()).map_err(invalid)?;
    let artefact = Component::from_binary(&engine, &bytes).and_then(|component| component.serialize());
    io::stdout().lock().write_all(&artefact.map_err(invalid)?).map_err(CompileError::Process)
}
