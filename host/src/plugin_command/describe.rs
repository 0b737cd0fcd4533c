//! `berth plugin describe`.

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use comfy_table::{ContentArrangement, Table, presets};

use super::{One, list::short};
use crate::{options::Output, plugin_supervisor::PluginReport};

pub(super) async fn run(one: &One) -> Result<()> {
    let plugins = one.server.client()?.list().await?;
    let Some(plugin) = plugins.iter().find(|plugin| plugin.name == one.name) else {
        bail!("there is no plugin {:?}; `berth plugin list` shows those that there are", one.name);
    };
    let mut out = io::stdout().lock();
    match one.server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, plugin)?;
            writeln!(out)?;
        }
        Output::Table => writeln!(out, "{}", table(plugin))?,
    }
    Ok(())
}

fn table(plugin: &PluginReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    let PluginReport { needs, grants, limits, .. } = plugin;
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    };
    let profiles = plugin.profiles.iter().map(|(profile, digest)| match digest.as_str() {
        "" => format!("{profile} (nothing)"),
        digest => format!("{profile} ({})", short(digest)),
    });
    let none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let json = grants.pod_json.then(|| "pending pods as JSON".to_owned());
    let reads = grants.reads.iter().cloned().chain(json).collect::<Vec<_>>().join(", ");
    let rows = [
        ("Name", plugin.name.clone()),
        ("State", plugin.state.as_str().to_owned()),
        ("Reason", none(plugin.last_reason.clone().unwrap_or_default())),
        ("Source", plugin.source.clone()),
        ("Version", none(plugin.version.clone())),
        ("Digest", none(plugin.digest.clone())),
        ("Previous", none(plugin.previous_digest.clone().unwrap_or_default())),
        ("Refused", none(plugin.refused_digest.clone().unwrap_or_default())),
        ("Profiles", none(profiles.collect::<Vec<_>>().join(", "))),
        ("Exports", none(plugin.exports.join(", "))),
        ("Needs", none([needs.columns.join(", "), needs.objects.join(", ")].join(" ").trim().to_owned())),
        ("May read", none(reads)),
        ("May ask for", none(grants.effects.join(", "))),
        ("May change", none(grants.rules.join("\n"))),
        ("Time per call", format!("{} ms", limits.call_milliseconds)),
        ("Memory", format!("{} bytes", limits.memory_bytes)),
        ("Output", format!("{} bytes, {} elements", limits.output_bytes, limits.output_elements)),
        ("Log lines", format!("{} per second, {} dropped", limits.log_lines_per_second, plugin.dropped_log_lines)),
        ("Failure policy", plugin.failure_policy.clone()),
        ("Calls", plugin.calls.to_string()),
        ("Faults", none(counts(&plugin.faults))),
        ("Refused effects", none(counts(&plugin.effects_refused))),
    ];
    for (what, value) in rows {
        table.add_row([format!("{what}:"), value]);
    }
    table
}
