//! Questions about a cluster, apart from the placement of its pods.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail, ensure};
use berth_config::Usage;
use berth_plugin_cli::table;
use berth_simulator::Simulator;
use berth_what_if::{
    Arrival, Cluster, Comparison, Consolidation, Drain, HowMany, Move, MovedPod, Questions, RefusalReason,
    WhatIfAnswer, WhatIfRequest, consolidate, drain, how_many, place_and_ask,
};
use clap::Args;

use super::{Format, Simulated, output::write_data};

#[derive(Args, Debug)]
#[group(multiple = false)]
pub(super) struct Question {
    /// Say how many more pods like the pod in FILE fit after the pending pods are placed, and which resource is then
    /// scarce
    #[arg(long, value_name = "FILE")]
    how_many: Option<PathBuf>,
    /// Drain this node under the PodDisruptionBudgets, and show where its pods go and which pods may not be evicted.
    /// Can be repeated
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// Plan moves that empty nodes, each checked by all plugins and PodDisruptionBudgets
    #[arg(long)]
    consolidate: bool,
    /// Compare with another KubeSchedulerConfiguration: pods that move, and the plugins that make the difference
    #[arg(long, value_name = "CONFIG")]
    compare: Option<PathBuf>,
    /// Answer the what-if questions of this file, a WhatIf in JSON or YAML; `-` is standard input
    #[arg(long, value_name = "FILE")]
    what_if: Option<PathBuf>,
    /// Compare with another folder of plugins
    #[arg(long, value_name = "DIR")]
    compare_plugins_dir: Option<PathBuf>,
    /// Compare with the rules of another Kubernetes release, 1.36 or 1.37
    #[arg(long, value_name = "VERSION")]
    compare_emulated_version: Option<String>,
}

/// A question, with the options that describe it.
pub(super) enum Asked<'a> {
    HowMany(&'a Path),
    Drain(&'a [String]),
    Consolidate,
    WhatIf(&'a Path),
    Compare(Simulated),
}

/// A simulator, the cluster, and the condition for giving up.
pub(super) struct Setup<'a> {
    pub(super) simulator: Simulator,
    pub(super) cluster: Cluster,
    pub(super) arrival: Arrival,
    pub(super) n_most: usize,
    pub(super) is_over: &'a dyn Fn() -> bool,
    pub(super) format: Format,
}

impl Question {
    /// The question of the command line, if any. A comparison is made with `scheduler`.
    pub(super) fn asked(&self, scheduler: &Simulated) -> Option<Asked<'_>> {
        if let Some(file) = &self.how_many {
            return Some(Asked::HowMany(file));
        }
        if !self.drain.is_empty() {
            return Some(Asked::Drain(&self.drain));
        }
        if self.consolidate {
            return Some(Asked::Consolidate);
        }
        if let Some(file) = &self.what_if {
            return Some(Asked::WhatIf(file));
        }
        let mut other = scheduler.clone();
        if let Some(config) = &self.compare {
            other.config = Some(config.clone());
        }
        if let Some(dir) = &self.compare_plugins_dir {
            other.plugins_dir = Some(dir.clone());
        }
        if let Some(version) = &self.compare_emulated_version {
            other.emulated_version = Some(version.clone());
        }
        let is_asked =
            self.compare.is_some() || self.compare_plugins_dir.is_some() || self.compare_emulated_version.is_some();
        is_asked.then_some(Asked::Compare(other))
    }
}

impl Setup<'_> {
    pub(super) fn answer(mut self, asked: &Asked<'_>) -> Result<()> {
        let format = self.format;
        match asked {
            Asked::HowMany(file) => {
                let answer = self.how_many(file)?;
                show(&answer, format, |out| show_how_many(out, &answer))
            }
            Asked::Drain(nodes) => {
                let answer = self.drain(nodes)?;
                show(&answer, format, |out| show_drain(out, &answer))
            }
            Asked::Consolidate => {
                let conditions = self.simulator.conditions(Arrival::Together, self.is_over)?;
                let answer = consolidate(&self.cluster, conditions)?;
                show(&answer, format, |out| show_consolidation(out, &answer))
            }
            Asked::WhatIf(file) => {
                let answer = self.what_if(file)?;
                show(&answer, format, |out| show_what_if(out, &answer))
            }
            Asked::Compare(other) => {
                let answer = self.compare(other)?;
                show(&answer, format, |out| show_comparison(out, &answer))
            }
        }
    }

    fn how_many(&mut self, file: &Path) -> Result<HowMany> {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|error| Usage(format!("--how-many: {name}: {error}")))?;
        let pods = self.cluster.read_pods(&name, &text).map_err(|errors| {
            Usage(format!("--how-many: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
        })?;
        let [pod, ..] = pods.as_slice() else {
            bail!(Usage(format!("--how-many: {name} contains neither a pod nor a workload")));
        };
        let mut pod = pod.clone();
        if let Some(scheduler_name) = self.simulator.serves_all() {
            pod = pod.served_by(&scheduler_name);
        }
        let conditions = self.simulator.conditions(self.arrival, self.is_over)?;
        Ok(how_many(&self.cluster, &pod, self.n_most, conditions)?)
    }

    fn drain(&mut self, nodes: &[String]) -> Result<Drain> {
        for node in nodes {
            let is_there = self.cluster.nodes().iter().any(|it| it.node.metadata.name == *node);
            ensure!(is_there, Usage(format!("--drain: node {node} not found")));
        }
        let conditions = self.simulator.conditions(self.arrival, self.is_over)?;
        Ok(drain(&self.cluster, nodes, conditions)?)
    }

    fn what_if(&mut self, file: &Path) -> Result<WhatIfAnswer> {
        let name = file.display();
        let text = if file == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(file) };
        let text = text.map_err(|error| Usage(format!("--what-if: {name}: {error}")))?;
        let request = WhatIfRequest::read(&text).map_err(|error| Usage(format!("--what-if: {name}: {error}")))?;
        self.simulator.what_if(&self.cluster, &request, self.is_over).map_err(|error| match error.downcast::<Usage>() {
            Ok(usage) => Usage(format!("--what-if: {name}: {usage}")).into(),
            Err(error) => error,
        })
    }

    fn compare(mut self, other: &Simulated) -> Result<Comparison> {
        let mut other_simulator = other.open()?;
        let mut other_cluster = self.cluster.clone();
        other_simulator.adopt(&mut other_cluster);
        let (arrival, is_over) = (self.arrival, self.is_over);
        let first = self.simulator.place(&self.cluster, arrival, is_over)?;
        let second = other_simulator.place(&other_cluster, arrival, is_over)?;
        let questions = Questions::between(&first, &second);
        let conditions = self.simulator.conditions(arrival, is_over)?;
        let (_, of_first) = place_and_ask(&self.cluster, conditions, questions.clone())?;
        let (_, of_second) = place_and_ask(&other_cluster, other_simulator.conditions(arrival, is_over)?, questions)?;
        Ok(Comparison::new(&first, &second, [of_first, of_second]))
    }
}

fn show(
    answer: &impl serde::Serialize,
    format: Format,
    tables: impl FnOnce(&mut io::StdoutLock<'_>) -> Result<()>,
) -> Result<()> {
    match format {
        Format::Table => tables(&mut io::stdout().lock()),
        Format::Json | Format::Yaml => write_data(answer, format),
    }
}

fn show_how_many(out: &mut io::StdoutLock<'_>, answer: &HowMany) -> Result<()> {
    let mut rows = table::new();
    rows.set_header(["NODE", "PODS"]);
    for (node, n) in &answer.nodes {
        rows.add_row([node, &n.to_string()]);
    }
    writeln!(out, "{}\n\n{} more pods fit on {} nodes", table::text(&rows), answer.fit, answer.nodes.len())?;
    if answer.pending > 0 {
        writeln!(out, "{} pods that waited before stay pending", answer.pending)?;
    }
    match &answer.refusal {
        Some(refusal) => writeln!(out, "the next does not: {}", refusal.message)?,
        None => writeln!(out, "no more were tried: raise --at-most to try more")?,
    }
    Ok(())
}

fn show_moves(out: &mut io::StdoutLock<'_>, moves: &[&Move]) -> Result<()> {
    let mut rows = table::new();
    rows.set_header(["NAMESPACE", "POD", "FROM", "TO", "WHY"]);
    for pod in moves {
        let why = pod.refusal.as_ref().map_or("", |refusal| &refusal.message);
        rows.add_row([&pod.namespace, &pod.name, &pod.from, pod.to.as_deref().unwrap_or("<pending>"), why]);
    }
    Ok(writeln!(out, "{}\n", table::text(&rows))?)
}

fn show_drain(out: &mut io::StdoutLock<'_>, answer: &Drain) -> Result<()> {
    show_moves(out, &answer.moves.iter().collect::<Vec<_>>())?;
    for pod in &answer.blocked {
        writeln!(out, "{}/{} stays on {}: {}", pod.namespace, pod.name, pod.node, pod.reason)?;
    }
    let n_pending = answer.moves.iter().filter(|pod| pod.to.is_none()).count();
    writeln!(
        out,
        "{} nodes are drained: {} pods are evicted, {n_pending} of them stay pending; {} may not be evicted",
        answer.drained.len(),
        answer.moves.len(),
        answer.blocked.len()
    )?;
    Ok(())
}

fn show_consolidation(out: &mut io::StdoutLock<'_>, answer: &Consolidation) -> Result<()> {
    show_moves(out, &answer.steps.iter().flat_map(|step| &step.moves).collect::<Vec<_>>())?;
    let nodes: Vec<&str> = answer.steps.iter().map(|step| step.node.as_str()).collect();
    if !nodes.is_empty() {
        writeln!(out, "emptied, in this order: {}", nodes.join(", "))?;
    }
    writeln!(
        out,
        "{} moves empty {} nodes; {} are empty already, {} are kept",
        answer.moves,
        nodes.len(),
        answer.empty.len(),
        answer.kept
    )?;
    Ok(())
}

fn show_what_if(out: &mut io::StdoutLock<'_>, answer: &WhatIfAnswer) -> Result<()> {
    if !answer.variants.is_empty() {
        let mut rows = table::new();
        rows.set_header(["VARIANT", "PLACED", "PENDING", "NODES USED", "WHY PENDING"]);
        for variant in &answer.variants {
            let refusal = variant.pods.iter().find_map(|pod| pod.refusal.as_ref());
            let why = refusal.map_or("", |refusal| &refusal.message);
            let numbers = [variant.placed, variant.pending, variant.nodes_used.len()].map(|number| number.to_string());
            rows.add_row([&variant.name, &numbers[0], &numbers[1], &numbers[2], why]);
        }
        writeln!(out, "{}\n", table::text(&rows))?;
    }
    if !answer.node_groups.is_empty() {
        let mut rows = table::new();
        rows.set_header(["NODE GROUP", "NODES", "PLACED", "PENDING"]);
        for group in &answer.node_groups {
            let numbers = [group.nodes, group.placed, group.pending.len()].map(|number| number.to_string());
            rows.add_row([&group.name, &numbers[0], &numbers[1], &numbers[2]]);
        }
        writeln!(out, "{}\n", table::text(&rows))?;
    }
    for warning in &answer.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(writeln!(out, "the cluster is in state {}; nothing is reserved", answer.cluster_state)?)
}

fn show_comparison(out: &mut io::StdoutLock<'_>, answer: &Comparison) -> Result<()> {
    let mut rows = table::new();
    rows.set_header(["NAMESPACE", "POD", "FIRST", "SECOND", "PLUGIN"]);
    for MovedPod { namespace, name, first, second, plugin } in &answer.moved {
        let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "<pending>".to_owned());
        let is_without_profile = [first, second].iter().any(|side| side.refusal == Some(RefusalReason::NotServed));
        let cause = if is_without_profile { "<no profile>" } else { "<earlier pods>" };
        rows.add_row([namespace, name, &node(&first.node), &node(&second.node), plugin.as_deref().unwrap_or(cause)]);
    }
    writeln!(out, "{}\n", table::text(&rows))?;
    writeln!(out, "{} pods are placed alike, {} are not", answer.alike, answer.moved.len())?;
    for (plugin, n) in &answer.by_plugin {
        writeln!(out, "{plugin} makes the difference for {n}")?;
    }
    Ok(())
}
