//! Tests of the plugins directory through the interface that the other parts of the process use.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails is a test that fails")]

mod directory;
mod fuzz;

use std::time::Duration;

use berth_wasm_host::{Engine, EngineOptions, Limits};

/// An engine with limits under which a test of limits ends soon, but which a busy machine meets.
fn engine() -> Engine {
    let call_timeout = Duration::from_millis(500);
    let limits = Limits { call_timeout, lifecycle_timeout: call_timeout, memory_bytes: 96 << 20, ..Limits::default() };
    Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap()
}
