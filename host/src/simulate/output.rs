//! Output of the result, for people and for programs.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use berth_plugin_cli::table;
use berth_what_if::{PodOutcome, Report, ResourceUse, Spread, Utilization};
use serde::Serialize;

use super::Format;

pub(super) fn write(report: &Report, format: Format) -> Result<()> {
    match format {
        Format::Table => write_tables(&mut io::stdout().lock(), report),
        Format::Json | Format::Yaml => write_data(report, format),
    }
}

/// Anything as JSON or YAML.
pub(super) fn write_data(data: &impl Serialize, format: Format) -> Result<()> {
    let mut out = io::stdout().lock();
    if format == Format::Yaml {
        let text = serde_saphyr::to_string(data).context("cannot write the result as YAML")?;
        return Ok(write!(out, "{text}")?);
    }
    serde_json::to_writer_pretty(&mut out, data).context("cannot write the result")?;
    Ok(writeln!(out)?)
}

fn write_tables(out: &mut impl Write, report: &Report) -> Result<()> {
    if !report.pods.is_empty() {
        let mut pods = table::new();
        pods.set_header(["NAMESPACE", "POD", "NODE", "WHY"]);
        for pod in &report.pods {
            pods.add_row([&pod.namespace, &pod.name, pod.node.as_deref().unwrap_or("<pending>"), &why(pod)]);
        }
        writeln!(out, "{}\n", table::text(&pods))?;
    }
    for pod in &report.evictions {
        writeln!(out, "{}/{} makes room on {}", pod.namespace, pod.name, pod.node)?;
    }
    let summary = &report.summary;
    writeln!(
        out,
        "{} of {} pods are placed on {} of {} nodes; {} stay pending, {} make room\n",
        summary.placed,
        report.pods.len(),
        summary.nodes_used,
        summary.nodes,
        summary.pending,
        summary.evicted
    )?;
    write_utilization(out, report)?;
    for warning in &report.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

fn why(pod: &PodOutcome) -> String {
    match (&pod.choice, &pod.refusal) {
        (_, Some(refusal)) => refusal.message.clone(),
        (Some(choice), None) => choice.why(),
        (None, None) => String::new(),
    }
}

fn write_utilization(out: &mut impl Write, report: &Report) -> Result<()> {
    let (before, after) = (&report.utilization.before, &report.utilization.after);
    let mut rows = table::new();
    rows.set_header(["ZONE", "RESOURCE", "ALLOCATABLE", "REQUESTED", "BEFORE", "AFTER", "LARGEST FREE"]);
    add_rows(&mut rows, "<all>", &before.resources, &after.resources);
    for zone in &after.zones {
        let known = before.zones.iter().find(|it| it.zone == zone.zone).map_or(&[][..], |zone| &zone.resources);
        let name = if zone.zone.is_empty() { "<none>" } else { &zone.zone };
        add_rows(&mut rows, name, known, &zone.resources);
    }
    writeln!(out, "{}", table::text(&rows))?;
    if let Some(fragmentation) = &after.fragmentation {
        writeln!(
            out,
            "\nFragmentation: {} % (before: {} %). The free CPU and memory of all nodes would hold {} pods with the mean request \
             ({} cpu, {} memory), but only {} of these pods fit on the nodes",
            fragmentation.percent,
            before.fragmentation.as_ref().map_or(0.0, |before| before.percent),
            fragmentation.fit_in_sum,
            fragmentation.cpu,
            fragmentation.memory,
            fragmentation.fit_on_nodes
        )?;
    }
    if let Some(spread) = after.spread {
        writeln!(out, "Spread: {} (before: {})", shares(spread), before.spread.map_or_else(String::new, shares))?;
    }
    writeln!(out, "{}", empty_nodes(before, after))?;
    Ok(())
}

fn shares(Spread { lowest, median, highest }: Spread) -> String {
    format!("the emptiest node is at {lowest} %, half of the nodes at most at {median} %, the fullest at {highest} %")
}

fn empty_nodes(before: &Utilization, after: &Utilization) -> String {
    format!(
        "{} of {} nodes have only pods of DaemonSets, or none (before: {})",
        after.empty_nodes, after.nodes, before.empty_nodes
    )
}

fn add_rows(rows: &mut comfy_table::Table, zone: &str, before: &[ResourceUse], after: &[ResourceUse]) {
    for resource in after {
        let known = before.iter().find(|it| it.resource == resource.resource);
        let percent = known.map_or(0.0, |known| known.percent);
        rows.add_row([
            zone,
            &resource.resource,
            &resource.allocatable,
            &resource.requested,
            &format!("{percent} %"),
            &format!("{} %", resource.percent),
            &resource.largest_free,
        ]);
    }
}
