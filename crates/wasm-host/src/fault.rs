//! How a component fails, and the words for it.

use std::{fmt, sync::Arc, time::Duration};

use berth_model::{Digest, PodUid};
use wasmtime::{Trap, WasmBacktrace};

/// Kinds of faults, as metrics tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A panic, an overflow of the stack, or another trap.
    Trap,
    /// More processor time than its [`Limits`](crate::Limits) allow.
    Timeout,
    /// More memory than [`Limits::memory_bytes`](crate::Limits::memory_bytes).
    Memory,
    /// An answer that breaks the contract, or too large a one.
    WrongAnswer,
}

impl FaultKind {
    pub const ALL: [FaultKind; 4] = [FaultKind::Trap, FaultKind::Timeout, FaultKind::Memory, FaultKind::WrongAnswer];

    /// The label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Trap => "trap",
            FaultKind::Timeout => "timeout",
            FaultKind::Memory => "memory",
            FaultKind::WrongAnswer => "wrong_answer",
        }
    }
}

/// A fault of a plugin in service, for the supervisor, which decides what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    pub plugin: String,
    /// The digest of the binary that faulted.
    pub digest: Digest,
    pub kind: FaultKind,
    /// Reads on from the plugin's name: `trapped in filter: ...`.
    pub reason: String,
    /// Processor time of the call, and of what its instance took to start: another instance takes that again.
    pub took: Duration,
    /// The pod that the call was about, if it was about one.
    pub pod: Option<PodUid>,
}

/// Told of every fault, on the thread that made the call: it must not block.
#[derive(Clone)]
pub struct FaultSink(Arc<dyn Fn(FaultReport) + Send + Sync>);

impl FaultSink {
    pub fn new(sink: impl Fn(FaultReport) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    pub(crate) fn tell(&self, report: FaultReport) {
        (self.0)(report);
    }
}

impl Default for FaultSink {
    /// Faults have no receiver.
    fn default() -> Self {
        Self::new(drop)
    }
}

impl fmt::Debug for FaultSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FaultSink")
    }
}

/// One failed call. Reads on from the plugin's name: `trapped in filter: ...`.
#[derive(Clone, Debug)]
pub(crate) struct InstanceFault {
    pub(crate) kind: FaultKind,
    /// Processor time of the call.
    pub(crate) took: Duration,
    text: String,
}

impl fmt::Display for InstanceFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Why the closure around a call did not produce a value.
#[derive(Debug)]
pub(crate) enum CallError {
    Wasm(wasmtime::Error),
    Answer(Refused),
}

/// Why an answer is refused: it breaks the contract or a limit. Reads on from `answered filter with`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// What an instance leaves behind when a call fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTraces<'a> {
    /// The memory or table that it asked for in vain.
    pub(crate) exceeded: Option<&'a str>,
    /// The last line that it logged as an error.
    pub(crate) last_words: Option<&'a str>,
    /// What the call might take.
    pub(crate) limit: Duration,
}

impl From<wasmtime::Error> for CallError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Wasm(error)
    }
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        Self::Answer(refused)
    }
}

impl InstanceFault {
    /// An answer that passed every check here and was of no use to the framework.
    pub(crate) fn wrong_answer(reason: &str) -> Self {
        Self { kind: FaultKind::WrongAnswer, took: Duration::ZERO, text: format!("answered with {reason}") }
    }

    /// Sorts out what went wrong in `function`, which took so long.
    pub(crate) fn new(error: CallError, function: &str, traces: CallTraces<'_>, took: Duration) -> Self {
        let (kind, text) = sort_out(error, function, traces);
        Self { kind, took, text }
    }
}

fn sort_out(error: CallError, function: &str, traces: CallTraces<'_>) -> (FaultKind, String) {
    let error = match error {
        CallError::Answer(refused) => {
            return (FaultKind::WrongAnswer, format!("answered {function} with {refused}"));
        }
        CallError::Wasm(error) => error,
    };
    if let Some(exceeded) = traces.exceeded {
        return (FaultKind::Memory, format!("{exceeded} in {function}"));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => {
            // Per-node SDKs answer it by asking their Filter again, which a user may not expect.
            let again =
                if function == "node-to-status" { ", which asks why each rejected node was rejected" } else { "" };
            let limit = traces.limit.as_millis();
            (FaultKind::Timeout, format!("took too long in {function}{again} (limit {limit} ms)"))
        }
        Some(trap) => {
            let words = traces.last_words.map_or_else(|| describe(*trap, &error, function), str::to_owned);
            (FaultKind::Trap, format!("trapped in {function}: {words}"))
        }
        None => {
            let text = format!("gave an unreadable answer to {function}: {}", error.root_cause());
            (FaultKind::WrongAnswer, text)
        }
    }
}

/// The trap, and in which function if the component names its functions. A method that the author left out is a function
/// that is not there: which one it was, WebAssembly does not say.
fn describe(trap: Trap, error: &wasmtime::Error, function: &str) -> String {
    if matches!(trap, Trap::IndirectCallToNull | Trap::BadSignature | Trap::TableOutOfBounds) {
        return format!(
            "it called a function that does not exist ({trap}); does the plugin have a method for `{function}`, which \
             its plugin.wit exports?"
        );
    }
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    match frames.iter().find_map(|frame| frame.func_name()) {
        Some(function) => format!("{trap} in {function}"),
        None => trap.to_string(),
    }
}
