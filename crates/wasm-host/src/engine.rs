//! The wasmtime engine that all plugins share.
//!
//! A call may use a limited amount of processor time, and checks it at each epoch of the [`Ticker`]. [`Engine::load`]
//! compiles components on the thread that calls it. This takes about 1 ms for each kilobyte, so the caller must not be
//! the scheduling thread. Components that are not part of the program are compiled in a separate process, if the
//! options contain such a process.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use berth_framework::SchedulingTime;
use berth_model::Digest;
use wasmtime::component::{HasSelf, Linker};

use crate::{
    artefacts::{ArtefactError, Artefacts},
    bindings::All,
    clock::Clock,
    compile_turns::CompileTurns,
    compiler_process::{CompileLimits, CompilerProcess},
    fault::FaultSink,
    host_state::HostState,
    limits::Limits,
    log_budget::LogBudgets,
    settings,
    ticker::Ticker,
};

/// The limits of a file before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    pub max_bytes: u64,
    /// The limits of compiling, if there is a [`CompilerProcess`].
    pub compile: CompileLimits,
}

impl Default for FileLimits {
    /// The default is several times the need of a plugin with an interpreter of Python or JavaScript.
    fn default() -> Self {
        let compile = CompileLimits { cpu_time: Duration::from_secs(120), memory_bytes: 4 << 30 };
        Self { max_bytes: 128 << 20, compile }
    }
}

/// The options of an [`Engine`].
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The limits of plugins without separate limits.
    pub limits: Limits,
    /// Limits by plugin name.
    pub plugin_limits: BTreeMap<String, Limits>,
    /// The directory in which compiled artefacts are kept over restarts; `None` compiles at each start. Only this user
    /// can enter the directory, because a user who can write to the directory can run code in the scheduler.
    pub artefacts: Option<PathBuf>,
    /// The limits of files of a plugins directory.
    pub files: FileLimits,
    /// The digests of files of a plugins directory that are refused before they are compiled.
    pub denied: BTreeSet<Digest>,
    /// The process that compiles binaries that are not part of this program; `None` compiles them in this process.
    pub compiler: Option<CompilerProcess>,
    /// The receiver of faults of plugins in service. Faults while a binary is loaded or an instance is made are
    /// returned as errors.
    pub faults: FaultSink,
    /// The accounts to which calls at extension points are charged. By default, they are not charged.
    pub time: SchedulingTime,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("wasmtime cannot be set up: {0}")]
    Wasmtime(String),
    #[error("the directory for compiled plugins cannot be used")]
    Artefacts(#[from] ArtefactError),
    #[error("cannot start a thread to measure the plugins' time")]
    Ticker(#[source] std::io::Error),
}

/// Loads components. Cloning is cheap; one engine serves the whole process.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<HostState>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) artefacts: Option<Artefacts>,
    pub(crate) compiler: Option<CompilerProcess>,
    pub(crate) faults: FaultSink,
    limits: RwLock<LimitsByName>,
    pub(crate) time: SchedulingTime,
    pub(crate) log_budgets: LogBudgets,
    pub(crate) compile_turns: CompileTurns,
    files: RwLock<FileLimits>,
    denied: RwLock<BTreeSet<Digest>>,
}

impl Shared {
    pub(crate) fn limits_of(&self, plugin: &str) -> Limits {
        self.limits.read().unwrap_or_else(PoisonError::into_inner).of(plugin).clone()
    }

    pub(crate) fn file_limits(&self) -> FileLimits {
        *self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_denied(&self, digest: Digest) -> bool {
        self.denied.read().unwrap_or_else(PoisonError::into_inner).contains(&digest)
    }
}

/// The limits of each plugin.
#[derive(Debug)]
struct LimitsByName {
    default: Limits,
    plugins: BTreeMap<String, Limits>,
}

impl LimitsByName {
    fn of(&self, plugin: &str) -> &Limits {
        self.plugins.get(plugin).unwrap_or(&self.default)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("artefacts", &self.shared.artefacts).finish_non_exhaustive()
    }
}

impl Engine {
    /// # Errors
    /// wasmtime refuses this machine, or the artefact directory cannot be made private.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let wasmtime =
            wasmtime::Engine::new(&settings::config()).map_err(|error| EngineError::Wasmtime(error.to_string()))?;
        let mut linker = Linker::new(&wasmtime);
        All::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)
            .map_err(|error| EngineError::Wasmtime(error.to_string()))?;
        let clock = Arc::new(Clock::new());
        let ticker = Arc::new(Ticker::start(&wasmtime).map_err(EngineError::Ticker)?);
        let artefacts = options.artefacts.map(|dir| Artefacts::open(dir, &wasmtime)).transpose()?;
        let EngineOptions { limits, plugin_limits, faults, compiler, files, denied, time, .. } = options;
        let limits = RwLock::new(LimitsByName { default: limits, plugins: plugin_limits });
        let (files, denied) = (RwLock::new(files), RwLock::new(denied));
        let (log_budgets, compile_turns) = (LogBudgets::default(), CompileTurns::default());
        let shared = Shared {
            wasmtime,
            linker,
            clock,
            ticker,
            artefacts,
            compiler,
            faults,
            limits,
            time,
            log_budgets,
            compile_turns,
            files,
            denied,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The accounts to which calls at extension points are charged.
    #[must_use]
    pub fn time(&self) -> &SchedulingTime {
        &self.shared.time
    }

    /// Sets the limits for the files that are read from now on.
    pub fn set_file_limits(&self, files: FileLimits) {
        *self.shared.files.write().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// The maximum number of bytes that a plugin may have at present.
    #[must_use]
    pub fn max_file_bytes(&self) -> u64 {
        self.shared.file_limits().max_bytes
    }

    /// Sets the digests to refuse, for the files that are read from now on.
    pub fn set_denied(&self, digests: BTreeSet<Digest>) {
        *self.shared.denied.write().unwrap_or_else(PoisonError::into_inner) = digests;
    }

    /// Sets the answer of `host.now`: milliseconds since 1970 at the start of the cycle.
    pub fn set_now(&self, milliseconds: u64) {
        self.shared.clock.set_now(milliseconds);
    }

    /// Sets the limits for components that are loaded from now on. Loaded components keep their limits; see
    /// [`ComponentFactory::with_limits`](crate::ComponentFactory::with_limits).
    pub fn set_limits(&self, limits: Limits, plugin_limits: BTreeMap<String, Limits>) {
        let limits = LimitsByName { default: limits, plugins: plugin_limits };
        *self.shared.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}
