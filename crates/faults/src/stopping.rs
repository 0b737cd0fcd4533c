//! Waits for the end of the server that injects faults.

use tokio::sync::watch;

/// Waits until the server stops or is dropped.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
