//! `berth plugin list`.

use std::io::{self, Write as _};

use anyhow::Result;
use berth_lifecycle::PluginState;
use berth_plugin_host::PluginReport;
use comfy_table::Table;

use crate::{one::Server, output::Output, table};

pub(super) async fn run(server: &Server) -> Result<()> {
    let client = server.client()?;
    let (plugins, settings) = (client.list().await?, client.settings().await?);
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &plugins)?;
            writeln!(out)?;
        }
        Output::Table => writeln!(out, "{}", table::text(&rows(&plugins)))?,
    }
    if let Some(error) = settings.error {
        // Standard output belongs to the list.
        writeln!(
            io::stderr(),
            "warning: the plugin configuration is not taken over, the settings before it hold: {error}"
        )?;
    }
    Ok(())
}

fn rows(plugins: &[PluginReport]) -> Table {
    let mut table = table::new();
    table.set_header(["NAME", "STATE", "UNTIL", "SOURCE", "SIGNED BY", "VERSION", "DIGEST", "FAULTS", "REASON"]);
    for plugin in plugins {
        let faults: u64 = plugin.faults.values().sum();
        let (until, version, digest) = match &plugin.quarantined {
            Some(it) if plugin.state == PluginState::Quarantined => (it.until.as_str(), &it.version, &it.digest),
            Some(_) | None => ("", &plugin.version, &plugin.digest),
        };
        table.add_row([
            plugin.name.as_str(),
            plugin.state.as_str(),
            until,
            &plugin.source,
            &plugin.signed_by.join(", "),
            version,
            short(digest),
            &faults.to_string(),
            plugin.reason.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

/// Enough of a digest to tell two apart.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
