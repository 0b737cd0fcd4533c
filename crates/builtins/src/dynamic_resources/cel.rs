//! Device selectors: CEL expressions over one variable, `device`, as Kubernetes' API reference describes them under
//! `CELDeviceSelector`.
//!
//! `device.driver` is a string. `device.attributes` and `device.capacity` are maps from a domain to the map of values
//! that the domain defines; an unknown domain is an empty map. Quantities and semantic versions are separate types. An
//! expression that is in use is compiled once and evaluated once for each device, because every attempt evaluates the
//! same few expressions for the same devices. The caches are bounded in bytes, and unused entries are freed.
//!
//! An expression is checked before it runs ([`checker`]), as the API server checks it before it stores it.
//!
//! Deliberately absent: the rules of time zones. A function of a timestamp takes an offset such as `+02:00`, and fails with
//! the name of a zone.

mod address;
mod arguments;
mod checker;
mod cost;
mod device_value;
mod library;
mod library_value;
mod macros;
mod named_format;
mod nesting;
mod pattern;
mod program;
mod quantity;
mod recently_used;
mod semantic_version;
#[cfg(test)]
mod tests;
mod times;
mod url;

use std::sync::Arc;

use berth_framework::Deadline;
use berth_model::{Feature, Features, Time};
use cel::Env;

use self::{
    program::{CompileError, Program},
    recently_used::RecentlyUsed,
};
use super::objects::Device;

/// The maximum size of compiled expressions with their regular expressions, in bytes. The largest expression takes
/// about half a megabyte without its regular expressions, and a usual one some kilobytes. kube-scheduler keeps ten
/// (`celCache` in `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`).
const MAX_PROGRAM_BYTES: usize = 32 << 20;
/// The maximum size of results, in bytes. It is enough for a hundred thousand, far more than a cluster needs.
const MAX_RESULT_BYTES: usize = 16 << 20;
/// The maximum size of the texts of selections, in bytes. A claim has at most some megabytes.
const MAX_SELECTION_BYTES: usize = 8 << 20;
/// The size of an entry without its text. Hash tables are half empty at worst.
const OVERHEAD_OF_ENTRY: usize = 128;
/// The milliseconds after which entries are freed that were not used in the meantime.
const TIME_TO_FREE: u64 = 5 * 60 * 1_000;
/// The maximum number of characters in the reason of an error. The pod's condition shows the reason.
const MAX_REASON: usize = 512;

/// The advice of Kubernetes 1.37 (`k8s.io/dynamic-resource-allocation/cel/errors.go`).
const ADVICE_FOR_MISSING_KEY: &str = "consider using CEL optional chaining (.? followed by orValue()) or guarding the \
                                      check with has() for optional fields";

/// Identifies a device in one version of its slice. Keys are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeviceKey(pub(super) u64);

/// Identifies the selectors and tolerations of a request. An id is never reused for another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SelectionId(u64);

/// Identifies a compiled expression. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ProgramId(u64);

/// Whether a selector matches a device.
pub(super) type SelectorResult = Result<bool, SelectorError>;

/// The reason why a selector has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error("CEL compile error: {0}")]
    Compile(Arc<str>),
    #[error("CEL runtime error: {0}")]
    Run(Arc<str>),
}

/// The subject of a selector.
#[derive(Clone, Copy)]
pub(super) struct SelectorSubject<'a> {
    pub(super) driver: &'a str,
    pub(super) device: &'a Device,
}

/// Compiled selectors and their results.
pub(super) struct Selectors {
    env: Arc<Env>,
    /// Whether attributes may be lists.
    with_lists: bool,
    programs: RecentlyUsed<Box<str>, KnownProgram>,
    results: RecentlyUsed<(ProgramId, DeviceKey), SelectorResult>,
    selections: RecentlyUsed<Box<str>, SelectionId>,
    /// The id of the last program.
    last_program: u64,
    /// The id of the last selection.
    last_selection: u64,
    freed_at: Time,
}

/// A compiled expression, or the reason why it cannot be compiled.
type KnownProgram = (ProgramId, Result<Arc<Program>, SelectorError>);

impl std::fmt::Debug for Selectors {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Selectors({} programs, {} results)", self.programs.len(), self.results.len())
    }
}

impl SelectorError {
    fn compile(reason: &str) -> Self {
        Self::Compile(shortened(reason))
    }

    fn run(reason: &str) -> Self {
        Self::Run(shortened(reason))
    }

    /// Whether the selector failed when it ran, and not before.
    pub(super) fn is_of_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }

    /// The error with advice if a key is missing.
    pub(super) fn with_advice(self) -> Self {
        match self {
            Self::Run(reason) if reason.contains("no such key:") => {
                Self::Run(format!("{reason}. {ADVICE_FOR_MISSING_KEY}").into())
            }
            Self::Run(_) | Self::Compile(_) => self,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Compile(reason) | Self::Run(reason) => reason.len(),
        }
    }
}

/// Shortens a reason, since reasons quote the expression and keys that it made.
fn shortened(reason: &str) -> Arc<str> {
    match reason.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &reason[..end]).into(),
        None => reason.into(),
    }
}

impl Default for Selectors {
    fn default() -> Self {
        Self {
            env: library::environment(),
            with_lists: false,
            programs: RecentlyUsed::new(MAX_PROGRAM_BYTES),
            results: RecentlyUsed::new(MAX_RESULT_BYTES),
            selections: RecentlyUsed::new(MAX_SELECTION_BYTES),
            last_program: 0,
            last_selection: 0,
            freed_at: Time(0),
        }
    }
}

impl Selectors {
    pub(super) fn new(features: Features) -> Self {
        let with_lists =
            features.has(Feature::DRAListTypeAttributes) || features.has(Feature::SelectorsSeeListAttributes);
        Self { with_lists, ..Self::default() }
    }

    /// Whether `expression` matches the device. `key` must change when anything in the device changes. `None` means
    /// that the time was over before the result was known.
    pub(super) fn matches(
        &mut self,
        expression: &str,
        subject: SelectorSubject<'_>,
        key: DeviceKey,
        deadline: Deadline<'_>,
    ) -> Option<SelectorResult> {
        let (id, program) = self.program(expression, deadline)?;
        if let Some(result) = self.results.get(&(id, key)) {
            return Some(result.clone());
        }
        let with_lists = self.with_lists;
        let result = program.and_then(|program| program.run(&self.env, subject.driver, subject.device, with_lists));
        let bytes = OVERHEAD_OF_ENTRY + result.as_ref().err().map_or(0, SelectorError::bytes);
        self.results.insert((id, key), result.clone(), bytes);
        Some(result)
    }

    /// The id of the selection with this text. A selection without a text gets a new id.
    pub(super) fn selection(&mut self, text: Option<String>) -> SelectionId {
        if let Some(known) = text.as_ref().and_then(|text| self.selections.get(text.as_str())) {
            return *known;
        }
        self.last_selection += 1;
        let id = SelectionId(self.last_selection);
        if let Some(text) = text {
            let bytes = OVERHEAD_OF_ENTRY + text.len();
            self.selections.insert(text.into(), id, bytes);
        }
        id
    }

    /// Frees entries that were not used for some minutes. The caller calls this from time to time, with the present
    /// time.
    pub(super) fn free_unused(&mut self, now: Time) {
        if now.0.saturating_sub(self.freed_at.0) < TIME_TO_FREE {
            return;
        }
        self.freed_at = now;
        self.programs.age();
        self.results.age();
        self.selections.age();
    }

    fn program(&mut self, expression: &str, deadline: Deadline<'_>) -> Option<KnownProgram> {
        if let Some(known) = self.programs.get(expression) {
            return Some(known.clone());
        }
        let program = match Program::compile(expression, &self.env, self.with_lists, deadline) {
            Err(CompileError::TimedOut) => return None,
            compiled => compiled.map_err(|error| SelectorError::compile(&error.to_string())),
        };
        self.last_program += 1;
        let bytes = program.as_ref().map_or_else(SelectorError::bytes, Program::bytes);
        let known = (ProgramId(self.last_program), program.map(Arc::new));
        self.programs.insert(expression.into(), known.clone(), OVERHEAD_OF_ENTRY + expression.len() + bytes);
        Some(known)
    }
}
