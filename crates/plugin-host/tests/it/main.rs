//! The plugins directory as the rest of the process sees it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails is a test that fails")]

mod directory;
mod fuzz;

use std::time::Duration;

use berth_wasm_host::{Engine, EngineOptions, Limits};

/// Limits under which a test of them ends soon, and a busy machine passes.
fn engine() -> Engine {
    let call_timeout = Duration::from_millis(500);
    let limits = Limits { call_timeout, lifecycle_timeout: call_timeout, memory_bytes: 96 << 20, ..Limits::default() };
    Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap()
}
