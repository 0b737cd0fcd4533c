//! `berth plugin describe`.

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use berth_plugin_host::{GrantsReport, NeedsReport, PluginReport, QuarantinedBinary, ServingBinary};
use berth_telemetry::notices::{MeasuredCalls, PastEvent, PointLatency};
use comfy_table::Table;

use crate::{list::short, one::One, output::Output, table};

pub(super) async fn run(one: &One) -> Result<()> {
    let plugins = one.server.client().await?.list().await?;
    let Some(plugin) = plugins.iter().find(|plugin| plugin.name == one.name) else {
        let known: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let meant = berth_config::nearest(&one.name, &known);
        let meant = meant.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
        bail!("unknown plugin {:?}{meant}; `berth plugin list` shows all plugins", one.name);
    };
    let mut out = io::stdout().lock();
    match one.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, plugin)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}", table::text(&rows(plugin)))?;
            for table in [latencies(plugin), history(plugin), stack(plugin)].into_iter().flatten() {
                writeln!(out, "\n{}", table::text(&table))?;
            }
            if plugin.fault_stack.iter().any(|function| has_no_name(function)) {
                writeln!(out, "\n{NO_NAMES}")?;
            }
        }
    }
    Ok(())
}

fn rows(plugin: &PluginReport) -> Table {
    let mut table = table::new();
    let PluginReport { needs, limits, .. } = plugin;
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    };
    let profiles = plugin.profiles.iter().map(|(profile, digest)| match digest.as_str() {
        "" => format!("{profile} (nothing)"),
        digest => format!("{profile} ({})", short(digest)),
    });
    let rows = [
        ("Name", plugin.name.clone()),
        ("State", plugin.state.as_str().to_owned()),
        ("Reason", none(plugin.reason.clone().unwrap_or_default())),
        ("Last trouble", none(plugin.last_reason.clone().unwrap_or_default())),
        ("Quarantined", none(plugin.quarantined.as_ref().map(out_of_service).unwrap_or_default())),
        ("Restarting", none(plugin.restarting.as_ref().map(out_of_service).unwrap_or_default())),
        ("On probation until", none(plugin.probation.as_ref().map(ToString::to_string).unwrap_or_default())),
        ("Source", plugin.source.clone()),
        ("Reference", none(plugin.reference.clone().unwrap_or_default())),
        ("Signed by", none(plugin.signed_by.join(", "))),
        ("Version", none(plugin.version.clone())),
        ("Digest", none(plugin.digest.clone())),
        ("Previous", none(plugin.previous_digest.clone().unwrap_or_default())),
        ("Refused", none(plugin.refused_digest.clone().unwrap_or_default())),
        ("Profiles", none(profiles.collect::<Vec<_>>().join(", "))),
        ("Exports", none(plugin.exports.join(", "))),
        ("Needs", none(list_of_needs(needs))),
        ("Time per call", format!("{} ms", limits.call_milliseconds)),
        ("Memory", format!("{} bytes", limits.memory_bytes)),
        ("Output", format!("{} bytes, {} elements", limits.output_bytes, limits.output_elements)),
        ("Log lines", format!("{} per second, {} dropped", limits.log_lines_per_second, plugin.dropped_log_lines)),
        ("Failure policy", plugin.failure_policy.clone()),
        ("Calls", plugin.calls.to_string()),
        ("Faults", none(counts(&plugin.faults))),
        ("Refused effects", none(counts(&plugin.effects_refused))),
    ];
    for (what, value) in rows.into_iter().map(|(what, value)| (what.to_owned(), value)).chain(granted(plugin)) {
        table.add_row([format!("{what}:"), value]);
    }
    table
}

/// The times of the plugin's calls, beside the times of the previous binary. `None` if the plugin was asked about no
/// pod.
fn latencies(plugin: &PluginReport) -> Option<Table> {
    if plugin.latencies.is_empty() {
        return None;
    }
    let mean = |calls: &MeasuredCalls| match calls.calls {
        0 => "<none>".to_owned(),
        n_calls => format!("{:.1} µs ({n_calls} measured)", calls.mean_microseconds),
    };
    let mut table = table::new();
    table.set_header(["EXTENSION POINT", "MEAN TIME", "BEFORE THE LAST SWAP"]);
    for PointLatency { extension_point, current, previous } in &plugin.latencies {
        table.add_row([extension_point.clone(), mean(current), mean(&previous.unwrap_or_default())]);
    }
    Some(table)
}

fn history(plugin: &PluginReport) -> Option<Table> {
    if plugin.history.is_empty() {
        return None;
    }
    let mut table = table::new();
    table.set_header(["TIME", "HISTORY"]);
    for PastEvent { time, text } in &plugin.history {
        table.add_row([time, text]);
    }
    Some(table)
}

fn stack(plugin: &PluginReport) -> Option<Table> {
    if plugin.fault_stack.is_empty() {
        return None;
    }
    let mut table = table::new();
    table.set_header(["STACK OF THE LAST FAULT"]);
    for line in stack_lines(&plugin.fault_stack) {
        table.add_row([line]);
    }
    Some(table)
}

/// The sentence under a stack that has functions without a name.
const NO_NAMES: &str = "The component has no names for some functions. In Python and JavaScript these are functions of the \
                        interpreter; the reason of the fault has the line of the plugin, except after a time-out.";

/// The functions, the innermost first. Functions without a name that follow each other share a line, because their
/// numbers do not help a reader.
fn stack_lines(stack: &[String]) -> Vec<String> {
    let runs = stack.chunk_by(|one, next| has_no_name(one) && has_no_name(next));
    let line = |run: &[String]| match run {
        [first, .., _] => format!("{} functions without a name, the innermost is {first}", run.len()),
        [only] => only.clone(),
        [] => String::new(),
    };
    runs.map(line).collect()
}

/// Whether the component has no name for the function. The scheduler then shows the function's number.
fn has_no_name(function: &str) -> bool {
    function.strip_prefix("function ").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn out_of_service(binary: &QuarantinedBinary) -> String {
    let QuarantinedBinary { version, digest, until } = binary;
    format!("{digest} (version {version}) until {until}")
}

/// The data that a manifest asks to read. Labels and annotations are named by their keys, as in `inspect`.
fn list_of_needs(needs: &NeedsReport) -> String {
    let columns = needs.columns.iter().flat_map(|column| {
        let (what, keys) = match column.as_str() {
            "Labels" => ("label", needs.label_keys.as_slice()),
            "Annotations" => ("annotation", needs.annotation_keys.as_slice()),
            _ => ("", <&[String]>::default()),
        };
        let keys: Vec<String> = keys.iter().map(|key| format!("{what} {key}")).collect();
        if keys.is_empty() { vec![column.clone()] } else { keys }
    });
    let pods = [(needs.pods, "pods on nodes"), (needs.pod_json, "pending pods as JSON")];
    let pods = pods.into_iter().filter(|(wanted, _)| *wanted).map(|(_, what)| what);
    let all = columns.chain(pods.map(str::to_owned)).chain(needs.objects.iter().cloned());
    all.collect::<Vec<_>>().join(", ")
}

/// The grants of each serving binary. If no binary serves, the grants that a new binary would get.
fn granted(plugin: &PluginReport) -> Vec<(String, String)> {
    if let [] | [_] = plugin.binaries.as_slice() {
        return grant_rows(&plugin.grants, "");
    }
    let of_binary = |binary: &ServingBinary| {
        let place = format!(" ({}, {})", binary.source, binary.profiles.join(", "));
        grant_rows(&binary.grants, &place)
    };
    plugin.binaries.iter().flat_map(of_binary).collect()
}

fn grant_rows(grants: &GrantsReport, place: &str) -> Vec<(String, String)> {
    let json = grants.pod_json.then(|| "pending pods as JSON".to_owned());
    let reads = grants.reads.iter().cloned().chain(json).collect::<Vec<_>>().join(", ");
    let rows =
        [("May read", reads), ("May ask for", grants.effects.join(", ")), ("May change", grants.rules.join("\n"))];
    rows.map(|(what, value)| (format!("{what}{place}"), none(value))).to_vec()
}

fn none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_a_name_share_a_line() {
        let stack = ["function 645", "function 7", "berth:scheduler/score@0.2.0#score", "function 109", "main"];
        let lines = [
            "2 functions without a name, the innermost is function 645",
            "berth:scheduler/score@0.2.0#score",
            "function 109",
            "main",
        ];
        assert_eq!(stack_lines(&stack.map(str::to_owned)), lines);
        assert!(!has_no_name("function of mine"));
    }

    #[test]
    fn labels_and_annotations_are_named_by_their_keys() {
        let text = str::to_owned;
        let needs = NeedsReport {
            columns: ["Names", "Labels", "Annotations"].map(text).to_vec(),
            label_keys: vec![text("zone")],
            annotation_keys: ["cost", "team"].map(text).to_vec(),
            pods: true,
            objects: vec![text("v1/ConfigMap")],
            ..NeedsReport::default()
        };
        let shown = "Names, label zone, annotation cost, annotation team, pods on nodes, v1/ConfigMap";
        assert_eq!(list_of_needs(&needs), shown);
        let all_labels = NeedsReport { label_keys: Vec::new(), ..needs };
        assert!(list_of_needs(&all_labels).starts_with("Names, Labels, annotation cost"));
    }
}
