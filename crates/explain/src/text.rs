//! An explanation for people.

use std::fmt::{self, Write as _};

use crate::{
    analysis::{Analysis, MissingNodes, NODE_RESOURCES_FIT, NodeReport, PluginWords, PodRejected, PreemptionReport},
    budgets::ViolatedBudget,
    cause::Cause,
    earlier::EarlierAttempt,
    explanation::Explanation,
    nearest::NearNode,
    record::{DecisionRecord, Outcome, RankedNode},
    resources::{Lack, amount},
    subject::{Holder, PodState, WaitsFor},
    suggestion::Suggestion,
};

/// The number of reasons and combinations that are shown. The JSON has all of them.
const N_SHOWN: usize = 8;

/// The number of plugins that are shown with their time, and the time from which a plugin is shown.
const N_LONGEST: usize = 3;
const LONG_MICROSECONDS: u64 = 100;

impl Explanation {
    /// The reason in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let analysis = self.analysis.as_ref();
        match self.reason {
            Cause::Bound => format!("it is on node {}", self.node()),
            Cause::Binding => format!("it is assigned to node {}, but not bound yet", self.node()),
            Cause::Misconfigured => self.pod_rejected(|it| format!("no node can take it: {}", it.message)),
            Cause::Rejected => self.pod_rejected(|it| {
                format!("it is rejected for every node by {}: {}", it.plugins.join(", "), it.message)
            }),
            Cause::LargerThanAnyNode => analysis.map_or_else(String::new, too_large),
            Cause::Held => {
                let holder = |it: &Holder| {
                    let rest = if it.would_let_go { ", which would let it go now" } else { "" };
                    format!("{it}{rest}")
                };
                let holders: Vec<_> = self.subject.holders.iter().map(holder).collect();
                let verb = if self.subject.state == PodState::NotCreated { "would be" } else { "is" };
                format!("it {verb} held back by {}", holders.join(", "))
            }
            Cause::WaitingForVictims => {
                let node = self.subject.nominated_node.as_deref().unwrap_or_default();
                format!("it waits for pods to leave node {node}")
            }
            Cause::Fragmented => {
                "the nodes together have enough for its requests, but no single node has enough".to_owned()
            }
            Cause::OutOfCapacity => "the nodes that would take it have too little left for its requests".to_owned(),
            Cause::Constrained => match analysis {
                Some(Analysis { nodes: 0, .. }) => "the cluster has no nodes".to_owned(),
                Some(analysis) => format!("all {} nodes are rejected", analysis.nodes),
                None => String::new(),
            },
            Cause::NotYetTried => match self.subject.state {
                PodState::Queued { behind: Some(behind), .. } => {
                    format!("it was not tried yet; pods ahead of it: {behind}")
                }
                PodState::Queued { .. }
                | PodState::Bound { .. }
                | PodState::Binding { .. }
                | PodState::Unscheduled
                | PodState::NotCreated => "it was not tried yet".to_owned(),
            },
            Cause::NotBound => self.not_bound(),
            Cause::Fits => {
                let feasible = analysis.map_or(0, |analysis| analysis.feasible);
                match (&self.subject.state, analysis.and_then(|analysis| analysis.best.first())) {
                    (PodState::NotCreated, Some(best)) => {
                        format!("{} at the moment, and {} is the best", nodes_fit(feasible), best.node)
                    }
                    _ => format!("{} at the moment, and it will be tried again", nodes_fit(feasible)),
                }
            }
            Cause::Unknown => "the reason is unknown".to_owned(),
        }
    }

    /// A sentence about the rejection of the pod at PreFilter.
    fn pod_rejected(&self, sentence: impl Fn(&PodRejected) -> String) -> String {
        let rejected = self.analysis.as_ref().and_then(|analysis| analysis.pod_rejected.as_ref());
        rejected.map_or_else(String::new, sentence)
    }

    /// Names the plugin that rejected the pod, and the node that the pod did not reach.
    fn not_bound(&self) -> String {
        let Some(DecisionRecord { outcome, not_bound: Some(not_bound), .. }) = &self.decision else {
            return String::new();
        };
        let chosen = match outcome {
            Outcome::Placed { node } => format!("node {node} was chosen for it, but "),
            Outcome::Rejected { .. } | Outcome::Failed { .. } => String::new(),
        };
        let feasible = self.analysis.as_ref().map(|analysis| analysis.feasible);
        let now = feasible.map(|feasible| format!("; {} at the moment", nodes_fit(feasible))).unwrap_or_default();
        format!("{chosen}{not_bound}{now}")
    }

    fn node(&self) -> &str {
        match &self.subject.state {
            PodState::Bound { node } | PodState::Binding { node, .. } => node,
            PodState::Queued { .. } | PodState::Unscheduled | PodState::NotCreated => "",
        }
    }

    /// The whole explanation, in lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let pod = &self.subject.pod;
        writeln!(out, "Pod {}/{}: {}", pod.namespace, pod.name, self.message)?;
        let age = duration(self.age_milliseconds);
        writeln!(out, "Reason: {:?} (as of {}, {age} ago)", self.reason, self.as_of)?;
        self.write_state(out)?;
        if let Some(decision) = &self.decision {
            self.write_later_attempts(out, decision.attempt)?;
            write_decision(out, decision, self.decided_milliseconds_ago.unwrap_or(0))?;
        }
        self.earlier_attempts.iter().try_for_each(|attempt| write_earlier(out, attempt))?;
        if let Some(analysis) = &self.analysis {
            write_analysis(out, analysis)?;
        }
        for note in &self.notes {
            writeln!(out, "\nNote: {note}")?;
        }
        Ok(())
    }

    /// Names the attempts after the attempt of the decision. These attempts have no decision, because they ended before
    /// the scheduler looked for a node. For example, pods of the owner are held back after faults.
    fn write_later_attempts(&self, out: &mut String, decided: u32) -> fmt::Result {
        let (PodState::Queued { .. }, last) = (&self.subject.state, self.subject.attempts) else { return Ok(()) };
        let ended = "ended before the scheduler looked for a node";
        match last.saturating_sub(decided) {
            0 => Ok(()),
            1 => writeln!(out, "\nAttempt {last} {ended}"),
            _ => writeln!(out, "\nAttempts {} to {last} {ended}", decided + 1),
        }
    }

    /// Says which events make the scheduler ask a plugin again that would no longer hold the pod. Time alone does not
    /// bring a gated pod back.
    fn asked_again(&self, holder: &Holder) -> String {
        let retry = self.subject.retries.iter().find(|retry| retry.plugin == holder.plugin);
        let events = retry.map(|retry| retry.events.as_slice()).unwrap_or_default();
        let when = match events {
            [] => "but no event makes the scheduler ask it again".to_owned(),
            events => format!("and it is asked again at the next of these events: {}", events.join(", ")),
        };
        format!("it would let the pod go now, {when}")
    }

    fn write_state(&self, out: &mut String) -> fmt::Result {
        let subject = &self.subject;
        match &subject.state {
            PodState::Bound { .. } => {}
            PodState::Binding { waits_for, .. } => writeln!(out, "Waits for: {}", waits_for.text())?,
            PodState::Queued { queue, since_milliseconds, backoff_ends_in_milliseconds, behind } => {
                let since = duration(*since_milliseconds);
                write!(out, "Queue: {queue}, for {since}; attempts so far: {}", subject.attempts)?;
                if let Some(ends) = backoff_ends_in_milliseconds {
                    write!(out, "; its backoff ends in {}", duration(*ends))?;
                }
                if let Some(behind) = behind {
                    write!(out, "; pods before it: {behind}")?;
                }
                writeln!(out)?;
            }
            PodState::Unscheduled => writeln!(out, "Queue: none, it is not to be scheduled")?,
            PodState::NotCreated => writeln!(out, "Queue: none, it does not exist")?,
        }
        if let Some(node) = &subject.nominated_node {
            writeln!(out, "Nominated node: {node}")?;
        }
        for holder in &subject.holders {
            if subject.state == PodState::NotCreated {
                write!(out, "Would be held by: {holder}")?;
            } else {
                write!(out, "Held by: {holder}, for {}", duration(holder.since_milliseconds))?;
            }
            if let Some(ends) = holder.ends_in_milliseconds {
                write!(out, ", at most for another {}", duration(ends))?;
            }
            match &holder.message {
                Some(message) => writeln!(out, ": {message}")?,
                None if holder.would_let_go => writeln!(out, "; {}", self.asked_again(holder))?,
                None => writeln!(out)?,
            }
        }
        for retry in subject.retries.iter().filter(|retry| !retry.events.is_empty()) {
            writeln!(out, "Tried again after: {} ({})", retry.events.join(", "), retry.plugin)?;
        }
        Ok(())
    }
}

impl WaitsFor {
    fn text(self) -> &'static str {
        match self {
            Self::Permit => "Permit plugins",
            Self::PreBind => "PreBind plugins",
            Self::Bind => "its binding",
            Self::Watch => "the API server to show it on the node",
            Self::Shutdown => "the end of this scheduler; the next one finds it pending",
        }
    }
}

fn write_decision(out: &mut String, decision: &DecisionRecord, ago: u64) -> fmt::Result {
    let ago = duration(ago);
    let sampled = decision.sampled;
    let attempt = numbered(decision.attempt, &decision.brought_by);
    match &decision.outcome {
        Outcome::Placed { node } => {
            write!(out, "\n{attempt}, {ago} ago, chose {node}")?;
            if sampled.is_hinted {
                writeln!(
                    out,
                    ": the next node in the ranking of the previous pod, which is equivalent; no other node was examined"
                )?;
            } else {
                let earlier =
                    if sampled.has_earlier_answers { ", with answers cached for equivalent pods" } else { "" };
                let Sampled { feasible, visited, nodes } = Sampled::of(decision);
                let looked_at = match (visited, nodes) {
                    (1, 1) => "1 node".to_owned(),
                    _ if visited < nodes => format!("{visited} of {nodes} nodes"),
                    _ => format!("{visited} nodes"),
                };
                let tied = match sampled.tied {
                    0 | 1 => String::new(),
                    tied => format!("; {tied} have the best total, and their order in the search decided"),
                };
                writeln!(out, ": it looked at {looked_at}, and {feasible} of them fit{earlier}{tied}")?;
            }
        }
        Outcome::Rejected { message } => {
            let earlier =
                if sampled.has_earlier_answers { " (some answers were cached for equivalent pods)" } else { "" };
            writeln!(out, "\n{attempt}, {ago} ago: {message}{earlier}")?;
        }
        Outcome::Failed { message } => writeln!(out, "\n{attempt}, {ago} ago, failed: {message}")?,
    }
    if let Some(trace) = &decision.trace {
        writeln!(out, "  Trace {trace}")?;
    }
    if let Some(not_bound) = &decision.not_bound {
        writeln!(out, "  Then {not_bound}")?;
    }
    if let Outcome::Placed { .. } = decision.outcome {
        for rejected in &decision.rejected {
            let examples = some_of(&rejected.examples, rejected.nodes);
            let by = if rejected.plugin.is_empty() { "an HTTP extender" } else { &rejected.plugin };
            writeln!(out, "  {:>6} refused by {by} ({examples})", rejected.nodes)?;
        }
        write_ranking(out, &decision.best)?;
    }
    Ok(())
}

/// Writes `Attempt 2 after NodeAdd`, or `Attempt 2` if only time brought the pod back.
fn numbered(attempt: u32, brought_by: &str) -> String {
    if brought_by.is_empty() { format!("Attempt {attempt}") } else { format!("Attempt {attempt} after {brought_by}") }
}

fn write_earlier(out: &mut String, earlier: &EarlierAttempt) -> fmt::Result {
    let EarlierAttempt { attempt, milliseconds_ago, brought_by, outcome, not_bound } = earlier;
    write!(out, "{}, {} ago", numbered(*attempt, brought_by), duration(*milliseconds_ago))?;
    match outcome {
        Outcome::Placed { node } => write!(out, ", chose {node}")?,
        Outcome::Rejected { message } => write!(out, ": {message}")?,
        Outcome::Failed { message } => write!(out, ", failed: {message}")?,
    }
    match not_bound {
        Some(not_bound) => writeln!(out, ", then {not_bound}"),
        None => writeln!(out),
    }
}

/// The names, followed by dots if there are more than these names.
fn some_of(names: &[String], n_all: usize) -> String {
    names.join(", ") + if names.len() < n_all { ", ..." } else { "" }
}

struct Sampled {
    feasible: usize,
    visited: usize,
    nodes: usize,
}

impl Sampled {
    fn of(decision: &DecisionRecord) -> Self {
        let sampled = decision.sampled;
        Self { feasible: sampled.feasible, visited: sampled.visited.max(sampled.feasible), nodes: sampled.nodes }
    }
}

fn write_ranking(out: &mut String, best: &[RankedNode]) -> fmt::Result {
    let Some(first) = best.iter().find(|node| node.total.is_some()) else { return Ok(()) };
    let width = best.iter().map(|node| node.node.len()).max().unwrap_or(0).max("NODE".len());
    write!(out, "  {:<width$}  {:>7}", "NODE", "TOTAL")?;
    for score in &first.scores {
        write!(out, "  {}", score.plugin)?;
    }
    writeln!(out, "   (weighted/normalized/raw)")?;
    for node in best {
        write!(out, "  {:<width$}  {:>7}", node.node, node.total.unwrap_or(0))?;
        for score in &node.scores {
            let cell = format!("{}/{}/{}", score.weighted, score.normalized, score.raw);
            write!(out, "  {cell:>column$}", column = score.plugin.len())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_analysis(out: &mut String, analysis: &Analysis) -> fmt::Result {
    writeln!(out, "\nAt the moment {}, of {} (worked out on a copy):", nodes_fit(analysis.feasible), analysis.nodes)?;
    if let Some(error) = &analysis.error {
        writeln!(out, "  a plugin failed, so its other answers are unknown: {error}")?;
    }
    if let Some(rejected) = &analysis.pod_rejected {
        writeln!(out, "  no node is looked at: {} ({})", rejected.message, rejected.plugins.join(", "))?;
    }
    for MissingNodes { plugin, nodes, examples } in &analysis.missing_nodes {
        let examples = some_of(examples, *nodes);
        writeln!(out, "  PreFilter of {plugin} restricts the pod to nodes of which {nodes} do not exist ({examples})")?;
    }
    write_plugins(out, analysis)?;
    let together = || analysis.combinations.iter().filter(|combination| combination.plugins.len() > 1);
    for combination in together().take(N_SHOWN) {
        let plugins = combination.plugins.join(" and ");
        let examples = some_of(&combination.examples, combination.nodes);
        writeln!(out, "  {:>6} refused by {plugins} together ({examples})", combination.nodes)?;
    }
    if analysis.reserved_for_nominated > 0 {
        writeln!(out, "  {:>6} have no room next to the pods nominated to them", analysis.reserved_for_nominated)?;
    }
    if analysis.feasible == 0 && !analysis.nearest.is_empty() {
        writeln!(out, "Nearest nodes:")?;
        analysis.nearest.iter().try_for_each(|near| write_near(out, near))?;
    }
    for Suggestion { change, nodes, examples } in &analysis.suggestions {
        let (fit, examples) = (nodes_fit(*nodes), some_of(examples, *nodes));
        writeln!(out, "Would help: {change}; {fit} then ({examples})")?;
    }
    write_ranking(out, &analysis.best)?;
    let longest = analysis.took.iter().take(N_LONGEST).filter(|it| it.microseconds >= LONG_MICROSECONDS);
    let longest: Vec<_> =
        longest.map(|it| format!("{} at {} {}", it.plugin, it.point, millis(it.microseconds))).collect();
    if !longest.is_empty() {
        writeln!(out, "Longest calls of an attempt that looks at all nodes: {}", longest.join(", "))?;
    }
    analysis.preemption.as_ref().map_or(Ok(()), |preemption| write_preemption(out, preemption))?;
    analysis.node.as_ref().map_or(Ok(()), |node| write_node(out, node))?;
    for PluginWords { plugin, node, text } in &analysis.words {
        if let Some(node) = node {
            writeln!(out, "  {plugin} says about {node}: {text}")?;
        }
    }
    Ok(())
}

fn write_preemption(out: &mut String, preemption: &PreemptionReport) -> fmt::Result {
    match &preemption.node {
        Some(node) if preemption.victims > 0 => {
            let mut examples = preemption.examples.clone();
            if preemption.unnamed > 0 {
                examples.push(format!("{} that you may not see", preemption.unnamed));
            }
            let examples = examples.join(", ");
            let pods = if preemption.victims == 1 { "pod" } else { "pods" };
            writeln!(out, "Preemption: {} {pods} would leave node {node} ({examples})", preemption.victims)?;
        }
        Some(node) => writeln!(out, "Preemption: pods are leaving node {node} already")?,
        None if !preemption.message.is_empty() => writeln!(out, "Preemption: {}", preemption.message)?,
        None => {}
    }
    for ViolatedBudget { namespace, name, allowed, victims } in &preemption.violated_budgets {
        let rest = format!("allows {allowed} evictions at the moment, and {victims} of these pods belong to it");
        writeln!(out, "  against PodDisruptionBudget {namespace}/{name}, which {rest}")?;
    }
    Ok(())
}

/// Writes the refusals of each plugin on its own with their reasons, and the plugins' own words.
fn write_plugins(out: &mut String, analysis: &Analysis) -> fmt::Result {
    for report in &analysis.plugins {
        writeln!(out, "  {:>6} refused by {}, {} of them by it alone", report.rejected, report.plugin, report.alone)?;
        for reason in report.reasons.iter().take(N_SHOWN) {
            let examples = some_of(&reason.examples, reason.nodes);
            writeln!(out, "         {:>6} {} ({examples})", reason.nodes, reason.reason)?;
        }
        for words in about_pod(analysis).filter(|words| words.plugin == report.plugin) {
            writeln!(out, "         says: {}", words.text)?;
        }
    }
    let refuses = |words: &&PluginWords| analysis.plugins.iter().any(|report| report.plugin == words.plugin);
    for words in about_pod(analysis).filter(|words| !refuses(words)) {
        writeln!(out, "  {} says: {}", words.plugin, words.text)?;
    }
    Ok(())
}

/// The plugins' words about the pod as a whole.
fn about_pod(analysis: &Analysis) -> impl Iterator<Item = &PluginWords> {
    analysis.words.iter().filter(|words| words.node.is_none())
}

fn write_near(out: &mut String, near: &NearNode) -> fmt::Result {
    let lacks: Vec<String> = near.lacks.iter().map(lack).collect();
    let others = near.reasons.iter().filter(|reason| near.lacks.is_empty() || reason.plugin != NODE_RESOURCES_FIT);
    let others = others.map(|reason| format!("{} ({})", reason.message, reason.plugin));
    let reasons: Vec<String> = lacks.into_iter().chain(others).collect();
    writeln!(out, "  {}: {}", near.node, reasons.join("; "))
}

fn write_node(out: &mut String, report: &NodeReport) -> fmt::Result {
    if !report.exists {
        return writeln!(out, "Node {}: not found", report.node);
    }
    if let Some(rank) = report.rank {
        writeln!(out, "Node {}: fits, and ranks {rank} of the nodes that fit", report.node)?;
        let compared: Vec<RankedNode> = report.winner.iter().chain(&report.scores).cloned().collect();
        return write_ranking(out, &compared);
    }
    write!(out, "Node {}: does not fit\n  ", report.node)?;
    write_near(
        out,
        &NearNode { node: report.node.clone(), reasons: report.reasons.clone(), lacks: report.lacks.clone() },
    )
}

fn too_large(analysis: &Analysis) -> String {
    let too_large = analysis.resources.iter().filter(|resource| resource.requested > resource.largest_node);
    let texts: Vec<String> = too_large
        .map(|resource| {
            let (requested, largest) = (resource.requested, resource.largest_node);
            let name = &resource.resource;
            format!("{} {name}, but the largest node has {}", amount(name, requested), amount(name, largest))
        })
        .collect();
    format!("it requests {}", texts.join("; it requests "))
}

/// Writes `lacks 300m cpu`.
fn lack(lack: &Lack) -> String {
    let Lack { resource, missing, free, .. } = lack;
    format!("lacks {} {resource} ({} left)", amount(resource, *missing), amount(resource, *free))
}

fn nodes_fit(n_nodes: usize) -> String {
    match n_nodes {
        0 => "no node fits".to_owned(),
        1 => "one node fits".to_owned(),
        _ => format!("{n_nodes} nodes fit"),
    }
}

/// Writes `1.2 ms`.
fn millis(microseconds: u64) -> String {
    format!("{}.{} ms", microseconds / 1000, microseconds % 1000 / 100)
}

/// Writes `1m5s`, with milliseconds below ten seconds.
fn duration(milliseconds: u64) -> String {
    let mut text = String::new();
    let seconds = milliseconds / 1000;
    // Writing to a string cannot fail.
    let _ = match seconds {
        0..10 => write!(text, "{}.{}s", seconds, milliseconds % 1000 / 100),
        10..60 => write!(text, "{seconds}s"),
        60..3600 => write!(text, "{}m{}s", seconds / 60, seconds % 60),
        _ => write!(text, "{}h{}m", seconds / 3600, seconds % 3600 / 60),
    };
    text
}
