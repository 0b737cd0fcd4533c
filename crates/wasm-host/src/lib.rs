//! The host's side of the plugin contract: components behind the framework's traits.
//!
//! This is the only crate that knows wasmtime. An [`Engine`] turns a [`Binary`] into a [`ComponentFactory`], which
//! makes configured plugins. A component has time, memory and output up to its [`Limits`], imports only
//! `berth:scheduler/host`, and can damage only its own instance.
//!
//! Other crates decide what a plugin may ask the cluster to do (the operator's grants), when a new version replaces an
//! old one, and what happens to a plugin that keeps failing.

mod artefacts;
mod available_memory;
mod binary;
mod bindings;
mod clock;
mod compile_turns;
mod compiler_process;
mod component;
mod convert;
mod cpu_time;
mod effort;
mod engine;
mod exports;
mod factory;
mod fault;
mod gated_needs;
mod host_state;
mod instance;
mod limits;
mod loading;
mod log_budget;
mod plugin;
mod precompiled;
mod settings;
mod stats;
mod ticker;

pub use artefacts::{ArtefactError, check_artefacts};
pub use binary::{Binary, LoadError};
pub use compiler_process::{CompileError, CompileLimits, CompilerProcess, compile_for_parent};
pub use convert::{on_one_line, size::delta_bytes};
pub use effort::LoadEffort;
pub use engine::{Engine, EngineError, EngineOptions, FileLimits};
pub use factory::ComponentFactory;
pub use fault::{FaultKind, FaultReport, FaultSink};
pub use host_state::UNDECLARED_READS_TARGET;
pub use limits::{Limits, WhenNotAsked};
pub use precompiled::{PackError, PackedSizes, Precompiled, pack_this_program};
pub use settings::MAX_STACK;
pub use stats::PluginStats;
