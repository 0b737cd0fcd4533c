//! Device selectors: CEL expressions over one variable, `device`, as Kubernetes' API reference describes them under
//! `CELDeviceSelector`.
//!
//! `device.driver` is a string, `device.attributes` and `device.capacity` are maps from domain to a map of what that
//! domain defines; an unknown domain is an empty map. Quantities and semantic versions are types of their own.
//! An expression compiles once and answers once for a device: both are remembered, since the same few
//! expressions meet the same devices in every attempt.
//!
//! Deliberately absent: a type checker (the API server has run one), durations and timestamps (no device has any), the
//! libraries for URLs and network addresses, and comprehensions over two variables. Using one of them is an error when
//! the expression runs, as a wrong field is.

mod cost;
mod device_value;
mod library;
mod quantity;
mod semantic_version;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cel::{Context, Env, Program, Value};
use rustc_hash::FxHashMap;

use super::objects::Device;

/// The longest expression that Kubernetes accepts, in bytes.
const MAX_LENGTH: usize = 10 * 1024;
/// Answers remembered at a time: far above what a cluster needs at once, and some ten megabytes.
const MAX_VERDICTS: usize = 1 << 18;
/// Programs remembered at a time; claims may come with ever new expressions.
const MAX_PROGRAMS: usize = 1 << 12;

/// A device in some version of its slice. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeviceKey(pub(super) u64);

/// The selectors and tolerations that a request goes by. Never used twice for different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SelectionId(u64);

/// What a selector says about a device: yes, no, or why it can't tell.
pub(super) type Verdict = Result<bool, SelectorError>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error("CEL compile error: {0}")]
    Compile(Arc<str>),
    #[error("CEL runtime error: {0}")]
    Run(Arc<str>),
}

/// Compiled selectors and what they answered.
pub(super) struct Selectors {
    env: Arc<Env>,
    ids: FxHashMap<Box<str>, usize>,
    programs: Vec<Result<Program, Arc<str>>>,
    verdicts: FxHashMap<(usize, DeviceKey), Verdict>,
    selections: FxHashMap<Box<str>, SelectionId>,
    n_selections: u64,
}

impl std::fmt::Debug for Selectors {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Selectors({} programs, {} verdicts)", self.programs.len(), self.verdicts.len())
    }
}

impl Default for Selectors {
    fn default() -> Self {
        Self {
            env: library::environment(),
            ids: FxHashMap::default(),
            programs: Vec::new(),
            verdicts: FxHashMap::default(),
            selections: FxHashMap::default(),
            n_selections: 0,
        }
    }
}

impl Selectors {
    /// Whether `device` of `driver` satisfies `expression`. `key` stands for the device and everything in it.
    pub(super) fn matches(&mut self, expression: &str, driver: &str, device: &Device, key: DeviceKey) -> Verdict {
        let program_idx = self.program(expression);
        if let Some(verdict) = self.verdicts.get(&(program_idx, key)) {
            return verdict.clone();
        }
        let verdict = match self.programs.get(program_idx) {
            Some(Ok(program)) => run(program, &self.env, driver, device),
            Some(Err(error)) => Err(SelectorError::Compile(Arc::clone(error))),
            None => Ok(false),
        };
        if self.verdicts.len() >= MAX_VERDICTS {
            self.verdicts.clear();
        }
        self.verdicts.insert((program_idx, key), verdict.clone());
        verdict
    }

    /// The id of a selection that is written like this; one of its own for what can't be written.
    pub(super) fn selection(&mut self, written: Option<String>) -> SelectionId {
        if let Some(known) = written.as_ref().and_then(|written| self.selections.get(&**written)) {
            return *known;
        }
        if self.selections.len() >= MAX_PROGRAMS {
            self.selections.clear();
        }
        self.n_selections += 1;
        if let Some(written) = written {
            self.selections.insert(written.into(), SelectionId(self.n_selections));
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
            self.verdicts.clear();
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
    let program = env.compile(expression).map_err(|errors| errors.to_string())?;
    if cost::exceeds_limit(program.expression()) {
        return Err("too complex, exceeds cost limit".into());
    }
    Ok(program)
}

fn run(program: &Program, env: &Arc<Env>, driver: &str, device: &Device) -> Verdict {
    let mut context = Context::with_env(Arc::clone(env));
    context.add_variable_as_val("device", device_value::of(driver, device));
    match program.execute(&context) {
        Ok(Value::Bool(answer)) => Ok(answer),
        Ok(other) => Err(SelectorError::Run(format!("result of type {} is no bool", other.type_of()).into())),
        Err(error) => Err(SelectorError::Run(error.to_string().into())),
    }
}
