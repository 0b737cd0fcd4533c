//! How wasmtime is set up. The process that compiles a file and the one that runs it must agree.

use wasmtime::Config;

/// How deep components may call: bytes of the calling thread's stack. A component that uses up its share traps. Two
/// components may lie on one stack, one that asks and one that answers a dry run, below and above the host's own frames:
/// threads that call components need a good deal more than twice as much.
pub const MAX_STACK: usize = 512 << 10;

pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false).epoch_interruption(true).wasm_component_model(true);
    config.max_wasm_stack(MAX_STACK);
    // Backtraces name functions, not places in their code, so artefacts can do without the map of the latter.
    config.generate_address_map(false);
    config
}
