//! A running scheduler's opinion of a binary that was put into its plugins directory.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use berth_lifecycle::PluginState;
use berth_plugin_host::{PluginReport, QuarantinedBinary};
use tokio::runtime::{Builder, Runtime};

use crate::admin_client::AdminClient;

/// The longest time until the scheduler has accepted a file. The scheduler waits until the file has stopped changing.
/// It then compiles the file, unless this command's result of the compilation is in the cache.
const LONGEST_ACCEPTANCE: Duration = Duration::from_secs(60);

/// Follows the state of one binary in the scheduler.
pub(super) struct StatusWatcher {
    runtime: Runtime,
    socket: PathBuf,
    plugin: String,
    digest: String,
    since: Instant,
    told: Option<String>,
}

impl StatusWatcher {
    /// # Errors
    /// There is no runtime for requests.
    pub(super) fn new(socket: PathBuf, plugin: String, digest: String) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
        Ok(Self { runtime, socket, plugin, digest, since: Instant::now(), told: None })
    }

    /// The scheduler's opinion, if it has changed since the last call.
    pub(super) fn news(&mut self) -> Option<String> {
        let reports = self.runtime.block_on(AdminClient::on_socket(self.socket.clone()).list());
        let opinion = match reports {
            Err(error) => format!("cannot reach the scheduler: {error:#}"),
            Ok(reports) => {
                let report = reports.iter().find(|report| report.name == self.plugin);
                report.and_then(|report| opinion(report, &self.digest)).or_else(|| self.overdue())?
            }
        };
        if self.told.as_ref() == Some(&opinion) {
            return None;
        }
        self.told = Some(opinion.clone());
        Some(opinion)
    }

    /// A message for a binary that the scheduler should know by now, but does not.
    fn overdue(&self) -> Option<String> {
        let is_overdue = self.told.is_none() && self.since.elapsed() > LONGEST_ACCEPTANCE;
        is_overdue.then(|| {
            let socket = self.socket.display();
            format!("the scheduler at {socket} has not read the plugin yet: does it watch this plugins directory?")
        })
    }
}

/// The opinion; `None` if the scheduler has not examined the binary yet.
fn opinion(report: &PluginReport, digest: &str) -> Option<String> {
    let name = &report.name;
    if report.refused_digest.as_deref() == Some(digest) {
        let reason = report.reason.as_deref().unwrap_or("no reason given");
        if let Some((_, reason)) = reason.split_once(" was withdrawn: ") {
            return Some(format!("the scheduler rolled {name} back to the previous binary: {reason}"));
        }
        return Some(format!("the scheduler refused {name}: {reason}"));
    }
    if let Some(QuarantinedBinary { until, .. }) = report.quarantined.as_ref().filter(|it| it.digest == digest) {
        let reason = report.reason.as_deref().unwrap_or_default();
        return Some(format!("the scheduler took {name} out of service until {until}: {reason}"));
    }
    if report.digest != digest {
        return None;
    }
    let profiles: Vec<&str> = report.profiles.keys().map(String::as_str).collect();
    let standing = match (report.state, profiles.as_slice()) {
        (_, []) => return Some(format!("the scheduler accepted {name}, but no profile of its --config names it")),
        (PluginState::Probation, _) => "on probation",
        (state, _) => state.as_str(),
    };
    let n_faults: u64 = report.faults.values().sum();
    let faults = match (n_faults, report.last_reason.as_deref()) {
        (0, _) => String::new(),
        (n_faults, last) => format!("; faults so far: {n_faults}; the last was: {}", last.unwrap_or("unknown")),
    };
    let version = &report.version;
    Some(format!("the scheduler accepted {name} {version}: {standing} in {}{faults}", profiles.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DIGEST: &str = "0123";

    fn serving() -> PluginReport {
        let text = str::to_owned;
        PluginReport {
            name: text("Zone"),
            version: text("0.1.0"),
            digest: text(DIGEST),
            state: PluginState::Probation,
            profiles: BTreeMap::from([(text("default-scheduler"), text(DIGEST))]),
            ..PluginReport::default()
        }
    }

    #[test]
    fn a_binary_is_accepted_refused_or_not_looked_at() {
        let say = |report: &PluginReport| opinion(report, DIGEST).unwrap_or_default();
        assert_eq!(say(&serving()), "the scheduler accepted Zone 0.1.0: on probation in default-scheduler");
        let faulty = PluginReport {
            faults: BTreeMap::from([("trap".to_owned(), 2)]),
            last_reason: Some("trapped in filter".to_owned()),
            ..serving()
        };
        assert!(say(&faulty).ends_with("in default-scheduler; faults so far: 2; the last was: trapped in filter"));
        let unused = PluginReport { profiles: BTreeMap::new(), ..serving() };
        assert!(say(&unused).contains("no profile"));
        let refused = PluginReport {
            digest: "4567".to_owned(),
            refused_digest: Some(DIGEST.to_owned()),
            reason: Some("Zone.wasm in /plugins was withdrawn: 2 faults".to_owned()),
            ..serving()
        };
        assert_eq!(say(&refused), "the scheduler rolled Zone back to the previous binary: 2 faults");
        let refused = PluginReport { reason: Some("Zone.wasm in /plugins is not a component".to_owned()), ..refused };
        assert_eq!(say(&refused), "the scheduler refused Zone: Zone.wasm in /plugins is not a component");
        assert_eq!(say(&PluginReport { digest: "4567".to_owned(), ..serving() }), "");
    }
}
