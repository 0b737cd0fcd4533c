//! Runs asynchronous work of a command. The command waits for the end of the work.

use anyhow::{Context as _, Result};

/// Runs `work` on a tokio runtime. Its threads only transfer bytes: plugins and credential plugins run on other
/// threads.
///
/// # Errors
/// There is no runtime, or `work` fails.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    block_on_runtime(&mut tokio::runtime::Builder::new_multi_thread(), work)
}

/// Runs `work` on a runtime from the caller's builder.
///
/// # Errors
/// There is no runtime, or `work` fails.
pub fn block_on_runtime<T>(runtime: &mut tokio::runtime::Builder, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(work);
    // Tasks that still run have nothing left to report.
    runtime.shutdown_background();
    outcome
}
