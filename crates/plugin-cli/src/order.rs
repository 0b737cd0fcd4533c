//! `berth plugin reload`, `enable`, `disable` and `rollback`: one request, and the plugin's new state.

use std::io::{self, Write as _};

use anyhow::Result;
use berth_lifecycle::PluginState;

use crate::{list::short, one::One, output::Output};

pub(super) async fn run(one: &One, order: &str) -> Result<()> {
    let plugin = one.server.client().await?.order(&one.name, order).await?;
    let mut out = io::stdout().lock();
    match one.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &plugin)?;
            writeln!(out)?;
        }
        Output::Table if order == "reload" => {
            writeln!(out, "{}: reading its file again; `berth plugin list` shows the result", plugin.name)?;
        }
        Output::Table => match plugin.state {
            PluginState::Serving | PluginState::Probation => {
                let (name, source, digest) = (&plugin.name, &plugin.source, short(&plugin.digest));
                writeln!(out, "{name}: {} ({source}, {digest})", plugin.state.as_str())?;
            }
            PluginState::Quarantined
            | PluginState::Restarting
            | PluginState::Refused
            | PluginState::Loading
            | PluginState::Missing
            | PluginState::Unused
            | PluginState::Disabled => {
                writeln!(out, "{}: {}", plugin.name, plugin.state.as_str())?;
            }
        },
    }
    Ok(())
}
