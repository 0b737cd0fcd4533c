//! `berth plugin list`.

use std::io::{self, Write as _};

use anyhow::Result;
use berth_lifecycle::PluginState;
use berth_plugin_host::{PluginReport, ProbationReport};
use comfy_table::Table;

use crate::{one::Server, output::Output, table};

pub(super) async fn run(server: &Server, output: Output) -> Result<()> {
    let client = server.client().await?;
    let (plugins, settings) = (client.list().await?, client.settings().await?);
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &plugins)?;
            writeln!(out)?;
        }
        Output::Table => writeln!(out, "{}", table::text(&rows(&plugins)))?,
    }
    if let Some(error) = settings.error {
        // Standard output is for the list.
        writeln!(
            io::stderr(),
            "warning: the plugin configuration was rejected, the previous settings stay in effect: {error}"
        )?;
    }
    Ok(())
}

fn rows(plugins: &[PluginReport]) -> Table {
    let mut table = table::new();
    table.set_header(["NAME", "STATE", "UNTIL", "SOURCE", "SIGNED BY", "VERSION", "DIGEST", "FAULTS", "REASON"]);
    for plugin in plugins {
        let faults: u64 = plugin.faults.values().sum();
        let out_of_service = match plugin.state {
            PluginState::Quarantined => plugin.quarantined.as_ref(),
            PluginState::Restarting => plugin.restarting.as_ref(),
            PluginState::Serving
            | PluginState::Unused
            | PluginState::Probation
            | PluginState::Refused
            | PluginState::Loading
            | PluginState::Missing
            | PluginState::Disabled => None,
        };
        let (until, version, digest) = match out_of_service {
            Some(it) => (it.until.clone(), &it.version, &it.digest),
            None => (plugin.probation.as_ref().map(probation_end).unwrap_or_default(), &plugin.version, &plugin.digest),
        };
        table.add_row([
            plugin.name.as_str(),
            plugin.state.as_str(),
            &until,
            &plugin.source,
            &plugin.signed_by.join(", "),
            version,
            short(digest),
            &faults.to_string(),
            &reason(plugin),
        ]);
    }
    table
}

/// The reason why the plugin does not serve. For a plugin that serves, the last fault, if the plugin has had a fault.
fn reason(plugin: &PluginReport) -> String {
    let has_faulted = plugin.faults.values().any(|count| *count > 0);
    let last = plugin.last_reason.as_ref().filter(|_| has_faulted).map(|last| format!("last: {last}"));
    plugin.reason.clone().or(last).unwrap_or_default()
}

/// A time, or `120 more calls`. `describe` shows more.
fn probation_end(ProbationReport { until, calls_left, awaits_answer: _ }: &ProbationReport) -> String {
    let calls = calls_left.map(|calls| format!("{calls} more calls"));
    until.clone().or(calls).unwrap_or_default()
}

/// The first digits of a digest, which are enough to distinguish two binaries.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
