//! Credentials for the API server. The credentials are renewed when their files change, when the API server refuses the
//! credentials, and upon SIGHUP.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use berth_cluster::Renewal;
use berth_file_watch::FileWatch;
use berth_telemetry::{chain, metrics::Metrics};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

/// The time between two renewals after refusals. If the API server refuses requests for another reason, a new client
/// after each refusal would not help.
const REFUSED_EVERY: Duration = Duration::from_secs(30);

/// Renews the credentials from now on. The future never ends.
///
/// # Errors
/// The signal cannot be watched.
pub(crate) fn follow(renewal: Renewal, metrics: Arc<Metrics>) -> Result<impl Future<Output = ()> + Send + use<>> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let (changed, mut changes) = mpsc::channel(1);
    let mut _watch = watch(&renewal, &changed);
    metrics.rest_client.set_plugin_certificate(renewal.plugin_certificate(), SystemTime::now());
    Ok(async move {
        let mut refusals_count_from = Instant::now();
        loop {
            let why = tokio::select! {
                Some(()) = changes.recv() => "its files have changed",
                _ = hangup.recv() => "SIGHUP",
                () = renewal.runs_out() => "they are about to expire",
                () = async { sleep_until(refusals_count_from).await; renewal.refused().await } => {
                    "the API server rejected them (401 Unauthorized)"
                }
            };
            refusals_count_from = Instant::now() + REFUSED_EVERY;
            match renewal.renew().await {
                Ok(()) => {
                    info!(why, "using the new credentials");
                    metrics.credentials_renewed("renewed");
                    metrics.rest_client.set_plugin_certificate(renewal.plugin_certificate(), SystemTime::now());
                    // The kubeconfig may now name other files.
                    _watch = watch(&renewal, &changed);
                }
                Err(error) => {
                    let reason = chain(&error);
                    warn!(why, reason, "failed to load new credentials; keeping the previous client");
                    metrics.credentials_renewed("failed");
                }
            }
        }
    })
}

/// Watches the files. `None` if there is nothing to watch, or if the watch fails.
fn watch(renewal: &Renewal, changed: &mpsc::Sender<()>) -> Option<FileWatch> {
    let files = renewal.files();
    if files.is_empty() {
        return None;
    }
    let changed = changed.clone();
    // A message that is still in the channel also covers this change.
    let watch = berth_file_watch::watch(files, move || {
        let _ = changed.try_send(());
    });
    watch.inspect_err(|error| warn!(%error, "cannot watch the credential files; send SIGHUP after a change")).ok()
}
