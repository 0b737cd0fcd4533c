//! The plugins: the serving binaries, the state of each plugin, and one plugin with all known facts.

use std::sync::Arc;

use berth_lifecycle::PluginState;
use berth_plugin_host::{PluginReport, ServingBinary};
use berth_telemetry::notices::{MeasuredCalls, PointLatency};
use maud::{Markup, html};

use super::{Parameters, text};
use crate::{
    Source, SourceError,
    forms::order,
    layout::{Age, View, address, nothing, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

pub(super) async fn render<S: Source>(
    page: &Page<S>,
    parameters: &Parameters,
    viewer: &Viewer,
) -> Result<Arc<View>, Refusal> {
    viewer.must(Right::GetPlugins).await?;
    let name = text(parameters, "name");
    page.shared.get(address("/page/plugins", [("name", name)]), super::SECOND, make(page, name)).await
}

async fn make<S: Source>(page: &Page<S>, name: &str) -> Result<View, Refusal> {
    let plugins = page.source.plugins().await?;
    let view = |title: String, filters: Markup, content: Markup| View {
        title,
        filters,
        content,
        age: Age::ago(0),
        every: super::SECOND,
    };
    if name.is_empty() {
        return Ok(view("Plugins".to_owned(), html! {}, list(&plugins)));
    }
    let plugin = plugins.into_iter().find(|plugin| plugin.name == name);
    let plugin = plugin.ok_or_else(|| SourceError::NotFound(format!("plugin {name} not found")))?;
    let filters = html! { p { a href="/page/plugins" { "All plugins" } } };
    Ok(view(format!("Plugin {name}"), filters, one(&plugin)))
}

fn list(plugins: &[PluginReport]) -> Markup {
    if plugins.is_empty() {
        return nothing("The scheduler has no plugins.");
    }
    let (used, unused): (Vec<_>, Vec<_>) = plugins.iter().partition(|plugin| plugin.state != PluginState::Unused);
    html! {
        (table(&used))
        @if !unused.is_empty() {
            details { summary { (thousands(unused.len())) " plugins that no profile uses" } (table(&unused)) }
        }
    }
}

fn table(plugins: &[&PluginReport]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table {
            thead { tr {
                th scope="col" { "Plugin" } th scope="col" { "State" } th scope="col" { "Version" } th scope="col" { "Binary" }
                th scope="col" { "Profiles" } th.number scope="col" { "Calls" } th.number scope="col" { "Faults" } th scope="col" { "Why" }
            } }
            tbody { @for plugin in plugins {
                tr {
                    th scope="row" { a href=(address("/page/plugins", [("name", &*plugin.name)])) { (plugin.name) } }
                    td { (state(plugin)) } td { (plugin.version) } td { (binary(&plugin.digest, &plugin.source)) }
                    td { (plugin.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ")) }
                    td.number { (calls(plugin)) } td.number { (thousands(plugin.faults.values().sum::<u64>())) }
                    td { (plugin.reason.as_deref().unwrap_or_default()) }
                }
            } }
        } }
    }
}

/// The number of calls. The number is not known for native plugins.
fn calls(plugin: &PluginReport) -> String {
    if plugin.source == "native" { "not counted".to_owned() } else { thousands(plugin.calls) }
}

fn state(plugin: &PluginReport) -> Markup {
    let class = match plugin.state {
        PluginState::Serving => "good",
        PluginState::Unused => "idle",
        PluginState::Probation | PluginState::Loading | PluginState::Missing | PluginState::Disabled => "warning",
        PluginState::Quarantined | PluginState::Restarting | PluginState::Refused => "problem",
    };
    html! { span class=(format!("badge {class}")) { (plugin.state.as_str()) } }
}

/// A digest short enough for a table. The whole digest is in its title.
fn binary(digest: &str, source: &str) -> Markup {
    let is_long = digest.len() > 16;
    let short: String = digest.chars().take(if is_long { 12 } else { 16 }).collect();
    html! {
        @if digest.is_empty() { "–" }
        @else if digest == source { (source) }
        @else { code title=(digest) { (short) @if is_long { "…" } } " " small { (source) } }
    }
}

fn one(plugin: &PluginReport) -> Markup {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(kind, count)| format!("{kind}: {}", thousands(*count))).collect::<Vec<_>>().join(", ")
    };
    html! {
        section {
            p { (state(plugin)) " " (text(&plugin.reason)) }
            ul.orders aria-label="Orders" {
                @for (address, verb) in order::offered(plugin) { li { a href=(address) { (verb) } } }
            }
            @for complaint in plugin.complaints() { p.note { strong { (complaint.text) } ". " (complaint.fix) } }
            dl.facts {
                (row("Version", plugin.version.clone()))
                (row("Digest", plugin.digest.clone()))
                (row("Comes from", plugin.source.clone()))
                (row("Artifact", text(&plugin.reference)))
                (row("Signed by", plugin.signed_by.join(", ")))
                (row("Extension points", plugin.exports.join(", ")))
                (row("On failure", plugin.failure_policy.clone()))
                (row("Calls", calls(plugin)))
                (row("Faults", counts(&plugin.faults)))
                (row("Effects refused", counts(&plugin.effects_refused)))
                (row("Log lines dropped", thousands(plugin.dropped_log_lines)))
            }
        }
        (history(plugin))
        @if !plugin.fault_stack.is_empty() {
            section {
                h2 { "Stack of the last fault" }
                p.note {
                    "The functions of the component that were running, the innermost first. The interpreters of Python and "
                    "JavaScript have no names of functions, only numbers."
                }
                ol { @for function in &plugin.fault_stack { li { code { (function) } } } }
            }
        }
        section { h2 { "Latency" } (latencies(&plugin.latencies)) }
        section { h2 { "What serves" } @for binary in &plugin.binaries { (serving(binary)) } @if plugin.binaries.is_empty() { (nothing("Nothing serves.")) } }
        section {
            h2 { "What it sees" }
            dl.facts {
                (row("Columns of nodes", plugin.needs.columns.join(", ")))
                (row("Pods on nodes", if plugin.needs.pods { "yes".to_owned() } else { String::new() }))
                (row("Objects", plugin.needs.objects.join(", ")))
            }
        }
        section {
            h2 { "Limits" }
            dl.facts {
                (row("A call", format!("{} ms", thousands(plugin.limits.call_milliseconds))))
                (row("PostFilter", format!("{} ms", thousands(plugin.limits.post_filter_milliseconds))))
                (row("Time per second of the scheduling thread", format!("{} ms", thousands(plugin.limits.milliseconds_per_second))))
                (row("Memory", berth_explain::amount("memory", i64::try_from(plugin.limits.memory_bytes).unwrap_or(i64::MAX))))
            }
        }
    }
}

/// The history of the plugin, and the consequences of an order.
fn history(plugin: &PluginReport) -> Markup {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    html! {
        section {
            h2 { "History" }
            dl.facts {
                (row("What last happened", text(&plugin.last_reason)))
                (row("A rollback brings back", text(&plugin.previous_digest)))
                (row("Not tried again until its file changes", text(&plugin.refused_digest)))
                @if let Some(out) = plugin.quarantined.as_ref().or(plugin.restarting.as_ref()) {
                    (row("Out of service", format!("{} {} until {}", out.version, out.digest, out.until)))
                }
                @if let Some(probation) = &plugin.probation {
                    (row("On probation until", probation.to_string()))
                }
            }
            @if plugin.history.is_empty() { (nothing("Nothing has happened to it since the start.")) }
            @else {
                p.note { "The newest entry is first. The history begins with the process, and old entries are dropped." }
                div.scroll tabindex="0" role="group" aria-label="History" { table {
                    thead { tr { th scope="col" { "Time" } th scope="col" { "What happened" } } }
                    tbody { @for past in &plugin.history { tr { td { time datetime=(past.time) { (past.time) } } td { (past.text) } } } }
                } }
            }
        }
    }
}

fn row(name: &str, value: String) -> Markup {
    html! { @if !value.is_empty() { dt { (name) } dd { (value) } } }
}

/// The mean time of a call at each extension point, beside the binary before.
fn latencies(latencies: &[PointLatency]) -> Markup {
    let mean = |calls: MeasuredCalls| match calls.calls {
        0 => "–".to_owned(),
        _ => format!("{:.1} µs", calls.mean_microseconds),
    };
    html! {
        @if latencies.is_empty() { (nothing("No call was measured yet. Calls are measured in one attempt in ten.")) }
        @else {
            div.scroll tabindex="0" role="group" aria-label="Latency" { table {
                thead { tr {
                    th scope="col" { "Extension point" } th.number scope="col" { "Mean" } th.number scope="col" { "Measured calls" }
                    th.number scope="col" { "Mean before the last swap" } th.number scope="col" { "Measured calls" }
                } }
                tbody { @for PointLatency { extension_point, current, previous } in latencies { tr {
                    @let previous = previous.unwrap_or_default();
                    th scope="row" { (extension_point) }
                    td.number { (mean(*current)) } td.number { (thousands(current.calls)) }
                    td.number { (mean(previous)) } td.number { (thousands(previous.calls)) }
                } } }
            } }
        }
    }
}

fn serving(binary: &ServingBinary) -> Markup {
    let grants = &binary.grants;
    let mut granted: Vec<String> = grants.effects.clone();
    granted.extend(grants.reads.iter().map(|kind| format!("reads {kind}")));
    granted.extend(grants.rules.clone());
    if grants.pod_json {
        granted.push("reads pending pods as JSON".to_owned());
    }
    html! {
        p { "Profiles " (binary.profiles.join(", ")) ": version " (binary.version) ", " code { (binary.digest) } " (" (binary.source) ")" }
        @if granted.is_empty() { p.note { "It is granted nothing." } }
        @else { ul { @for grant in granted { li { (grant) } } } }
    }
}
