//! The faults of components, and their messages.

use std::{fmt, sync::Arc, time::Duration};

use berth_model::{Digest, PodUid};
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

use crate::limits::DeltaTime;

/// The kinds of faults that metrics distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A panic, a stack overflow, or another trap.
    Trap,
    /// The call used more processor time than its [`Limits`](crate::Limits) allow.
    Timeout,
    /// The instance asked for more memory than [`Limits::memory_bytes`](crate::Limits::memory_bytes).
    Memory,
    /// An answer breaks the contract or is too large.
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

/// A report of a fault of a plugin in service. The supervisor decides about the consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    pub plugin: String,
    /// The digest of the binary that faulted.
    pub digest: Digest,
    pub kind: FaultKind,
    /// The reason, as a text that follows the plugin's name: `trapped in filter: ...`.
    pub reason: String,
    /// The processor time of the call, and of the start of its instance; the next instance needs the time of the start
    /// again.
    pub took: Duration,
    /// The pod of the call; `None` if the call was not about a pod.
    pub pod: Option<PodUid>,
    /// The functions of the component that were running, the innermost first. Empty if the call ended by itself.
    pub stack: Vec<String>,
}

/// The receiver of every fault. The receiver runs on the thread that made the call, so it must not block.
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
    /// A sink that drops faults.
    fn default() -> Self {
        Self::new(drop)
    }
}

impl fmt::Debug for FaultSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FaultSink")
    }
}

/// One failed call, as a text that follows the plugin's name: `trapped in filter: ...`.
#[derive(Clone, Debug)]
pub(crate) struct InstanceFault {
    pub(crate) kind: FaultKind,
    /// The processor time of the call.
    pub(crate) took: Duration,
    pub(crate) stack: Vec<String>,
    text: String,
}

impl fmt::Display for InstanceFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The reason why the closure around a call did not return a value.
#[derive(Debug)]
pub(crate) enum CallError {
    Wasm(wasmtime::Error),
    Answer(Refused),
}

/// The reason why an answer is refused: it breaks the contract or a limit. The text follows `answered filter with`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// The traces that an instance leaves when a call fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTraces<'a> {
    /// The memory or table that the instance asked for and did not get.
    pub(crate) exceeded: Option<&'a str>,
    /// The last line that the instance logged as an error.
    pub(crate) last_words: Option<&'a str>,
    /// The time limit of the call.
    pub(crate) limit: Duration,
    /// The time of the delta of which the call brings a portion.
    pub(crate) delta: Option<DeltaTime>,
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
    /// A fault for an answer that passed every check of this crate, and that the framework could not use.
    pub(crate) fn wrong_answer(reason: &str) -> Self {
        let text = format!("answered with {reason}");
        Self { kind: FaultKind::WrongAnswer, took: Duration::ZERO, stack: Vec::new(), text }
    }

    /// A fault of a call of `function`, which used the time `took`.
    pub(crate) fn new(error: CallError, function: &str, traces: CallTraces<'_>, took: Duration) -> Self {
        let stack = match &error {
            CallError::Wasm(error) => stack_of(error),
            CallError::Answer(_) => Vec::new(),
        };
        let (kind, text) = sort_out(error, function, traces);
        Self { kind, took, stack, text }
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
            // Per-node SDKs answer `node-to-status` by asking their Filter again, and a user may not expect this second
            // question.
            let again =
                if function == "node-to-status" { ", which asks why each rejected node was rejected" } else { "" };
            let limit = traces.limit.as_millis();
            let limit = match traces.delta {
                None => format!("limit {limit} ms"),
                Some(DeltaTime { whole, setting }) => format!(
                    "limit {} ms for all portions of a full delta, {setting}; {limit} ms were left for this one",
                    whole.as_millis()
                ),
            };
            (FaultKind::Timeout, format!("took too long in {function}{again} ({limit})"))
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

/// Higher addresses are less than 16 MiB below address 0, where compilers end the stack.
const BELOW_ZERO: u64 = (1 << 32) - (16 << 20);

/// The maximum number of functions in the stack of a fault, and of bytes of a function's name. The author of the
/// component chooses both.
const MAX_FRAMES: usize = 32;
const MAX_FUNCTION_NAME: usize = 200;

/// The functions that were running when the call failed, the innermost first.
fn stack_of(error: &wasmtime::Error) -> Vec<String> {
    let name = |frame: &FrameInfo| match frame.func_name() {
        Some(name) => {
            let name = &name[..name.floor_char_boundary(MAX_FUNCTION_NAME)];
            name.chars().map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }).collect()
        }
        None => format!("function {}", frame.func_index()),
    };
    frames_of(error).iter().take(MAX_FRAMES).map(name).collect()
}

fn frames_of(error: &wasmtime::Error) -> &[FrameInfo] {
    error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames)
}

/// A text with the trap, and with its function if the component has names of functions. A method that the author left
/// out is a missing function, and WebAssembly does not tell which method is missing.
fn describe(trap: Trap, error: &wasmtime::Error, function: &str) -> String {
    if matches!(trap, Trap::IndirectCallToNull | Trap::BadSignature | Trap::TableOutOfBounds) {
        return format!(
            "it called a function that does not exist ({trap}); does the plugin have a method for `{function}`, which \
             its plugin.wit exports?"
        );
    }
    let place = match frames_of(error).iter().find_map(|frame| frame.func_name()) {
        Some(function) => format!("{trap} in {function}"),
        None => trap.to_string(),
    };
    match faulting_address(error) {
        Some(BELOW_ZERO..) => format!("{place} (the address is just below 0: did the component's stack overflow?)"),
        _ => place,
    }
}

/// The address in the component's memory at which an access failed. Only the text of an error in the chain says so.
fn faulting_address(error: &wasmtime::Error) -> Option<u64> {
    error.chain().find_map(|cause| {
        let text = cause.to_string();
        let (address, _) = text.strip_prefix("memory fault at wasm address 0x")?.split_once(' ')?;
        u64::from_str_radix(address, 16).ok()
    })
}
