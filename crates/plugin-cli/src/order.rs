//! `berth plugin reload`, `enable`, `disable` and `rollback`: one request, and the plugin's new state.

use std::io::{self, Write as _};

use anyhow::Result;
use berth_lifecycle::PluginState;

use crate::{list::short, one::One, output::Output};

pub(super) async fn run(one: &One, order: &str) -> Result<()> {
    let report = one.server.client().await?.order(&one.name, order).await?;
    let plugin = &report.plugin;
    let released = released(report.released_from_permit);
    let mut out = io::stdout().lock();
    match one.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Output::Table if order == "reload" => {
            writeln!(
                out,
                "{}: reading its file, or asking its registry, again; `berth plugin list` shows the result",
                plugin.name
            )?;
        }
        Output::Table => match plugin.state {
            PluginState::Serving | PluginState::Probation => {
                let (name, source, digest) = (&plugin.name, &plugin.source, short(&plugin.digest));
                writeln!(out, "{name}: {} ({source}, {digest}){released}", plugin.state.as_str())?;
            }
            PluginState::Quarantined
            | PluginState::Restarting
            | PluginState::Refused
            | PluginState::Loading
            | PluginState::Missing
            | PluginState::Unused
            | PluginState::Disabled => {
                writeln!(out, "{}: {}{released}", plugin.name, plugin.state.as_str())?;
            }
        },
    }
    Ok(())
}

/// The number of pods that continue without the plugin, as the rest of a line; empty if this number is 0.
fn released(n_pods: Option<usize>) -> String {
    match n_pods {
        None | Some(0) => String::new(),
        Some(1) => "; 1 pod that it held at Permit goes on without its answer".to_owned(),
        Some(n_pods) => format!("; {n_pods} pods that it held at Permit go on without its answer"),
    }
}
