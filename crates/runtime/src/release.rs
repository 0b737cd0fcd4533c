//! The Kubernetes release that the scheduler emulates: the release that was asked for, or the API server's release.

use std::time::Duration;

use anyhow::Result;
use berth_cluster::{Connection, server_info};
use berth_config::{
    Usage,
    emulation::{Emulated, Emulation, KubernetesVersion},
};
use berth_model::Release;
use tracing::{info, warn};

/// The first wait for an API server that does not answer, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Decides how to schedule on this cluster. If the release depends on the API server, this function waits for the API
/// server, because the scheduler could schedule nothing without it. The log shows the decision, which holds until the
/// process ends.
///
/// # Errors
/// The release does not have a gate that was asked for.
pub async fn of_cluster(connection: &Connection, emulation: &Emulation) -> Result<Emulated> {
    let (version, said_by) = match emulation.version() {
        Some(version) => (version, "--emulated-version"),
        None => (server_version(connection).await, "the API server"),
    };
    let emulated = emulation.resolve(version).map_err(|error| Usage(error.to_string()))?;
    info!(
        release = emulated.gates.release().as_str(),
        version = %version,
        said_by,
        "making the decisions of kube-scheduler of this release until the next start"
    );
    emulated.warnings.iter().for_each(|warning| warn!("{warning}"));
    Ok(emulated)
}

async fn server_version(connection: &Connection) -> KubernetesVersion {
    let client = connection.client();
    let (mut wait, longest) = WAITS;
    loop {
        match server_info(&client).await {
            Ok(server) => match server.version.parse() {
                Ok(version) => return version,
                Err(error) => return by_default(&error.to_string()),
            },
            Err(error) if error.is_refusal() => return by_default(&error.to_string()),
            Err(error) => warn!(server = connection.server, reason = %error, "waiting for the API server's version"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}

fn by_default(reason: &str) -> KubernetesVersion {
    let release = Release::default();
    warn!(
        reason,
        "the API server's version is unknown; making the decisions of Kubernetes {}; --emulated-version sets another \
         release",
        release.as_str()
    );
    release.into()
}
