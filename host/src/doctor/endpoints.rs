//! A running scheduler: is it well, and does every plugin serve?

use std::{net::SocketAddr, path::PathBuf};

use berth_lifecycle::PluginState;
use berth_plugin_cli::AdminClient;
use berth_plugin_host::PluginReport;

use super::{Area, Findings, IN_NO_PROFILE};

pub(super) async fn look(address: SocketAddr, socket: PathBuf, findings: &mut Findings) {
    let client = AdminClient::over_http(&address.to_string());
    if let Err(error) = client.check("/healthz").await {
        let fix = "is `berth run` running with this --metrics-address? Its log says why not";
        return findings.problem(Area::Scheduler, format!("{error:#}"), fix);
    }
    match client.check("/readyz").await {
        Ok(()) => findings.ok(Area::Scheduler, format!("{address}: alive and ready")),
        Err(error) => {
            let fix = "its log says which kinds cannot be listed";
            findings.problem(Area::Scheduler, format!("{address} is not ready: {error:#}"), fix);
        }
    }
    let client = AdminClient::on_socket(socket);
    match client.settings().await {
        Ok(settings) => {
            if let Some(error) = settings.error {
                let text = format!("its plugin configuration is not taken over: {error}");
                findings.problem(Area::Scheduler, text, "correct the file; it is read again when it changes");
            }
        }
        Err(error) => findings.warning(Area::Scheduler, format!("{error:#}"), "is it another version of berth?"),
    }
    match client.list().await {
        Ok(plugins) => look_at_plugins(&plugins, findings),
        Err(error) => findings.problem(
            Area::Scheduler,
            format!("{error:#}"),
            "is it the scheduler of this user? --admin-socket is where it listens",
        ),
    }
}

fn look_at_plugins(plugins: &[PluginReport], findings: &mut Findings) {
    let mut n_serving = 0;
    let is_built_in = |plugin: &PluginReport| matches!(plugin.source.as_str(), "native" | "embedded");
    for PluginReport { name, .. } in plugins.iter().filter(|it| it.state == PluginState::Unused && !is_built_in(it)) {
        findings.warning(Area::Scheduler, format!("plugin {name} is in no profile"), IN_NO_PROFILE);
    }
    for plugin in plugins.iter().filter(|plugin| !plugin.profiles.is_empty()) {
        let reason = plugin.reason.as_deref().unwrap_or("no reason is known");
        let (name, state) = (&plugin.name, plugin.state.as_str());
        match plugin.state {
            PluginState::Serving | PluginState::Probation => n_serving += 1,
            // No profile uses it.
            PluginState::Unused => {}
            PluginState::Quarantined | PluginState::Restarting | PluginState::Refused => {
                let fix = "replace its file; `berth plugin describe` says more";
                findings.problem(Area::Scheduler, format!("plugin {name} is {state}: {reason}"), fix);
            }
            PluginState::Loading => {
                let fix = "wait, and look at `berth plugin list` again";
                findings.warning(Area::Scheduler, format!("plugin {name} is being loaded"), fix);
            }
            PluginState::Missing => {
                let fix = "put its file into the plugins directory, or disable it in the profile";
                findings.warning(Area::Scheduler, format!("plugin {name} is missing"), fix);
            }
            PluginState::Disabled => {
                let fix = format!("`berth plugin enable {name}` when it is to run again");
                findings.warning(Area::Scheduler, format!("plugin {name} is disabled by an operator"), fix);
            }
        }
        if plugin.refused_digest.is_some() && plugin.state == PluginState::Serving {
            let text = format!("plugin {name} serves, but its newest file was refused: {reason}");
            findings.warning(Area::Scheduler, text, "replace the file");
        }
    }
    findings.ok(Area::Scheduler, format!("{n_serving} plugins serve"));
}
