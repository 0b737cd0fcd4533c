//! A running scheduler. The checks ask whether it is healthy, and whether every plugin serves.

use std::{net::SocketAddr, path::PathBuf};

use berth_lifecycle::PluginState;
use berth_plugin_cli::AdminClient;
use berth_plugin_host::{Complaint, PluginReport};

use crate::findings::{Area, Findings, IN_NO_PROFILE};

pub(crate) async fn look(address: SocketAddr, socket: PathBuf, findings: &mut Findings) {
    let client = AdminClient::over_http(&address.to_string());
    if let Err(error) = client.check("/healthz").await {
        let fix =
            "check that `berth run` is running with this --metrics-address; if it does not start, its log says why";
        return findings.problem(Area::Scheduler, format!("{error:#}"), fix);
    }
    match client.check("/readyz").await {
        Ok(()) => findings.ok(Area::Scheduler, format!("{address}: alive and ready")),
        Err(error) => {
            let fix = "look in the scheduler's log: it names the kinds that cannot be listed";
            findings.problem(Area::Scheduler, format!("{address} is not ready: {error:#}"), fix);
        }
    }
    let client = AdminClient::on_socket(socket);
    match client.settings().await {
        Ok(settings) => {
            if let Some(error) = settings.error {
                let text = format!("the scheduler rejected its plugin configuration: {error}");
                findings.problem(Area::Scheduler, text, "correct the file; it is read again when it changes");
            }
        }
        Err(error) => findings.warning(
            Area::Scheduler,
            format!("{error:#}"),
            "check whether the scheduler is another version of berth",
        ),
    }
    match client.list().await {
        Ok(plugins) => look_at_plugins(&plugins, findings),
        Err(error) => findings.problem(
            Area::Scheduler,
            format!("{error:#}"),
            "set --admin-socket to that scheduler's socket, and run this command as the user of that scheduler",
        ),
    }
}

fn look_at_plugins(plugins: &[PluginReport], findings: &mut Findings) {
    let mut n_serving = 0;
    let is_built_in = |plugin: &PluginReport| matches!(plugin.source.as_str(), "native" | "embedded");
    for PluginReport { name, .. } in plugins.iter().filter(|it| it.state == PluginState::Unused && !is_built_in(it)) {
        findings.warning(Area::Scheduler, format!("plugin {name} is not used: no profile enables it"), IN_NO_PROFILE);
    }
    for plugin in plugins.iter().filter(|plugin| !plugin.profiles.is_empty()) {
        n_serving += usize::from(matches!(plugin.state, PluginState::Serving | PluginState::Probation));
        for Complaint { is_problem, text, fix } in plugin.complaints() {
            if is_problem {
                findings.problem(Area::Scheduler, text, fix);
            } else {
                findings.warning(Area::Scheduler, text, fix);
            }
        }
    }
    findings.ok(Area::Scheduler, format!("{n_serving} plugins serve"));
}
