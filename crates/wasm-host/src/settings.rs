//! The settings of wasmtime. The process that compiles a file and the process that runs it must have the same settings.

use std::env::consts::ARCH;

use wasmtime::Config;

/// The stack of a component's calls, in bytes of the calling thread's stack. A component that exceeds this limit traps.
/// One stack may contain two components, a component that asks for a dry run and a component that answers it, with the
/// host's own frames around them. So threads that call components need considerably more than twice as much.
pub const MAX_STACK: usize = 512 << 10;

pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false).epoch_interruption(true).wasm_component_model(true);
    config.max_wasm_stack(MAX_STACK);
    // Backtraces name only functions, so artefacts do not need the map of code positions.
    config.generate_address_map(false);
    config
}

/// The settings for artefacts that also run on other machines. On x86-64 the artefacts use the instructions of level
/// v2, which processors have had since about 2009. On other architectures the artefacts use the base instructions.
///
/// # Errors
/// There is no compiler for this architecture.
pub(crate) fn portable() -> wasmtime::Result<Config> {
    let mut config = config();
    config.target(&format!("{ARCH}-unknown-linux-gnu"))?;
    if cfg!(target_arch = "x86_64") {
        #[expect(unsafe_code, reason = "the flag only selects instructions, and does not change how components run")]
        // SAFETY: a machine without these instructions refuses the artefact, because each artefact lists the
        // instructions that it needs.
        unsafe {
            config.cranelift_flag_enable("x86-64-v2");
        }
    }
    Ok(config)
}
