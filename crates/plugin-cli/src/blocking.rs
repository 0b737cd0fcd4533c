//! Asynchronous work of a command that has nothing else to do.

use anyhow::{Context as _, Result};

/// Runs `work` on a tokio runtime. Its threads only move bytes: plugins and credential plugins run elsewhere.
///
/// # Errors
/// There is no runtime, or what `work` fails with.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    block_on_runtime(&mut tokio::runtime::Builder::new_multi_thread(), work)
}

/// Runs `work` on a runtime of the caller's making.
///
/// # Errors
/// There is no runtime, or `work` fails.
pub fn block_on_runtime<T>(runtime: &mut tokio::runtime::Builder, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.enable_all().build().context("starting tokio")?;
    let outcome = runtime.block_on(work);
    // What still runs has nothing left to say.
    runtime.shutdown_background();
    outcome
}
