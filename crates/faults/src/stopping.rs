//! The end of the server.

use tokio::sync::watch;

/// Waits until the server stops or is dropped.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
