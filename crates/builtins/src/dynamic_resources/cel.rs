//! Device selectors: CEL expressions over one variable, `device`, as Kubernetes' API reference describes them under
//! `CELDeviceSelector`.
//!
//! `device.driver` is a string, `device.attributes` and `device.capacity` are maps from domain to a map of what that
//! domain defines; an unknown domain is an empty map. Quantities and semantic versions are types of their own.
//! Each expression is compiled once and evaluated once for a device; programs and results are kept, since the same few
//! expressions are evaluated for the same devices in every attempt.
//!
//! Deliberately absent: a type checker (the API server runs one), durations and timestamps (devices have none), the
//! libraries for URLs and network addresses, and comprehensions over two variables. An expression that uses one of them
//! fails when it is evaluated, as does one that uses an unknown field.

mod cost;
mod device_value;
mod library;
mod nesting;
mod quantity;
mod semantic_version;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cel::{Context, Env, ExecutionError, Program, Value};
use rustc_hash::FxHashMap;

use super::objects::Device;

/// The longest expression that Kubernetes accepts, in bytes.
const MAX_LENGTH: usize = 10 * 1024;
/// How many results are kept: far more than a cluster needs, and about ten megabytes.
const MAX_RESULTS: usize = 1 << 18;
/// How many programs are kept, since claims may contain any number of different expressions.
const MAX_PROGRAMS: usize = 1 << 12;

/// Identifies a device in one version of its slice. Keys are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeviceKey(pub(super) u64);

/// Identifies the selectors and tolerations of a request. Ids are never reused for different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SelectionId(u64);

/// Whether a selector matches a device.
pub(super) type SelectorResult = Result<bool, SelectorError>;

/// Why a selector has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error("CEL compile error: {0}")]
    Compile(Arc<str>),
    #[error("CEL runtime error: {0}")]
    Run(Arc<str>),
}

/// Compiled selectors and their results.
pub(super) struct Selectors {
    env: Arc<Env>,
    ids: FxHashMap<Box<str>, usize>,
    programs: Vec<Result<Program, Arc<str>>>,
    results: FxHashMap<(usize, DeviceKey), SelectorResult>,
    selections: FxHashMap<Box<str>, SelectionId>,
    n_selections: u64,
}

impl std::fmt::Debug for Selectors {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Selectors({} programs, {} results)", self.programs.len(), self.results.len())
    }
}

impl Default for Selectors {
    fn default() -> Self {
        Self {
            env: library::environment(),
            ids: FxHashMap::default(),
            programs: Vec::new(),
            results: FxHashMap::default(),
            selections: FxHashMap::default(),
            n_selections: 0,
        }
    }
}

impl Selectors {
    /// Whether `expression` matches `device` of `driver`. `key` must change when anything in the device changes.
    pub(super) fn matches(
        &mut self,
        expression: &str,
        driver: &str,
        device: &Device,
        key: DeviceKey,
    ) -> SelectorResult {
        let program_idx = self.program(expression);
        if let Some(result) = self.results.get(&(program_idx, key)) {
            return result.clone();
        }
        let result = match self.programs.get(program_idx) {
            Some(Ok(program)) => run(program, &self.env, driver, device),
            Some(Err(error)) => Err(SelectorError::Compile(Arc::clone(error))),
            None => Ok(false),
        };
        if self.results.len() >= MAX_RESULTS {
            self.results.clear();
        }
        self.results.insert((program_idx, key), result.clone());
        result
    }

    /// The id of the selection with this text; a new id without a text.
    pub(super) fn selection(&mut self, text: Option<String>) -> SelectionId {
        if let Some(known) = text.as_ref().and_then(|text| self.selections.get(&**text)) {
            return *known;
        }
        if self.selections.len() >= MAX_PROGRAMS {
            self.selections.clear();
        }
        self.n_selections += 1;
        if let Some(text) = text {
            self.selections.insert(text.into(), SelectionId(self.n_selections));
        }
        SelectionId(self.n_selections)
    }

    fn program(&mut self, expression: &str) -> usize {
        if let Some(program_idx) = self.ids.get(expression) {
            return *program_idx;
        }
        if self.programs.len() >= MAX_PROGRAMS {
            self.ids.clear();
            self.programs.clear();
            self.results.clear();
        }
        let program_idx = self.programs.len();
        self.programs.push(compile(expression, &self.env));
        self.ids.insert(expression.into(), program_idx);
        program_idx
    }
}

fn compile(expression: &str, env: &Env) -> Result<Program, Arc<str>> {
    if expression.len() > MAX_LENGTH {
        return Err(format!("expression is longer than {MAX_LENGTH} bytes").into());
    }
    if nesting::is_too_deep(expression) {
        return Err(format!("too complex, more than {} operations within each other", nesting::MAX_DEPTH).into());
    }
    let program = env.compile(expression).map_err(|errors| errors.to_string())?;
    cost::check(program.expression()).map_err(|reason| reason.to_string())?;
    Ok(program)
}

fn run(program: &Program, env: &Arc<Env>, driver: &str, device: &Device) -> SelectorResult {
    let mut context = Context::with_env(Arc::clone(env));
    context.add_variable_as_val("device", device_value::of(driver, device));
    match program.execute(&context) {
        Ok(Value::Bool(answer)) => Ok(answer),
        Ok(other) => Err(SelectorError::Run(format!("result of type {} is no bool", other.type_of()).into())),
        Err(error) => Err(SelectorError::Run(message(&error).into())),
    }
}

/// What conditions of pods say: the words of cel-go, where what a device lacks can be the reason.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other error is in the words of the interpreter")]
fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        _ => error.to_string(),
    }
}
