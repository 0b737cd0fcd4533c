//! One pod: the last decision about it, and the plugins' current answers.

use std::sync::Arc;

use berth_explain::{
    Analysis, DecisionRecord, EarlierAttempt, Explanation, NearNode, NodeReport, Outcome, PluginScore, PodState,
    RankedNode, amount,
};
use maud::{Markup, html};

use super::{Parameters, field, pod_name, text};
use crate::{
    Source,
    layout::{Age, View, address, duration, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

pub(super) async fn render<S: Source>(
    page: &Page<S>,
    parameters: &Parameters,
    viewer: &Viewer,
) -> Result<Arc<View>, Refusal> {
    let (namespace, name) = pod_name(text(parameters, "pod"))?;
    viewer.must(Right::GetPod { namespace, name }).await?;
    let node = Some(text(parameters, "node")).filter(|node| !node.is_empty());
    let explained = page.source.explain(namespace, name, node.map(str::to_owned), viewer.user()).await?;
    let pod = format!("{namespace}/{name}");
    let filters = html! {
        form.filters method="get" action="/page/pod" {
            input type="hidden" name="pod" value=(pod);
            (field("Why not on node", "node", node.unwrap_or_default(), "a node's name"))
            button { "Ask" }
            a href=(address("/page/nodes", [("pod", &*pod)])) { "Where it fits, as a map" }
        }
    };
    let as_of = Age::ago(explained.age_milliseconds);
    Ok(Arc::new(View {
        title: format!("Pod {pod}"),
        filters,
        content: content(&explained),
        age: as_of,
        every: super::SELDOM,
    }))
}

fn content(explained: &Explanation) -> Markup {
    let analysis = explained.analysis.as_ref();
    html! {
        section.answer {
            p { strong { (explained.message) } " " span.badge { (format!("{:?}", explained.reason)) } }
            (state(explained))
            @for note in &explained.notes { p.note { "Note: " (note) } }
        }
        @if let Some(report) = analysis.and_then(|analysis| analysis.node.as_ref()) {
            section { h2 { "Node " (report.node) } (node_report(report)) }
        }
        @if let Some(analysis) = analysis {
            @for said in analysis.words.iter().filter(|said| said.node.is_some()) {
                p { (said.plugin) " says about " (said.node.as_deref().unwrap_or_default()) ": " q { (said.text) } }
            }
        }
        @if let Some(decision) = &explained.decision {
            section {
                h2 { "The last decision" }
                (decided(decision, explained.decided_milliseconds_ago))
                (earlier(&explained.earlier_attempts))
            }
        }
        @if let Some(analysis) = analysis {
            section { h2 { "What plugins say now" } (says_now(analysis)) }
        }
    }
}

fn state(explained: &Explanation) -> Markup {
    let subject = &explained.subject;
    html! {
        dl.facts {
            dt { "Scheduler" } dd { (subject.scheduler_name) }
            dt { "Priority" } dd { (subject.priority) }
            @match &subject.state {
                PodState::Bound { node } => { dt { "Node" } dd { (node) } }
                PodState::Binding { node, waits_for } => {
                    dt { "Node" } dd { (node) ", not bound yet" }
                    dt { "Waits for" } dd { (format!("{waits_for:?}")) }
                }
                PodState::Queued { queue, since_milliseconds, backoff_ends_in_milliseconds, behind } => {
                    dt { "Queue" } dd { (queue) ", for " (duration(*since_milliseconds)) }
                    @if let Some(ends) = backoff_ends_in_milliseconds { dt { "Backoff ends in" } dd { (duration(*ends)) } }
                    @if let Some(behind) = behind { dt { "Behind" } dd { (thousands(*behind)) " pods" } }
                }
                PodState::Unscheduled => { dt { "Queue" } dd { "none, it is not to be scheduled" } }
                PodState::NotCreated => { dt { "Queue" } dd { "none, it does not exist" } }
            }
            @if !matches!(subject.state, PodState::Bound { .. } | PodState::NotCreated) { dt { "Attempts" } dd { (subject.attempts) } }
            @if let Some(node) = &subject.nominated_node { dt { "Nominated to" } dd { (node) } }
            @for holder in &subject.holders {
                dt { "Held by" }
                dd {
                    (holder) ", for " (duration(holder.since_milliseconds))
                    @if let Some(ends) = holder.ends_in_milliseconds { ", at most for another " (duration(ends)) }
                    @if let Some(message) = &holder.message { ": " (message) }
                    @if holder.would_let_go { ". It would let the pod go now." }
                }
            }
            @for retry in &subject.retries { dt { "Tried again after" } dd { (retry.events.join(", ")) " (" (retry.plugin) ")" } }
        }
    }
}

fn decided(decision: &DecisionRecord, ago: Option<u64>) -> Markup {
    let sampled = decision.sampled;
    html! {
        p {
            (numbered(decision.attempt, &decision.brought_by)) ", " (duration(ago.unwrap_or_default())) " ago: "
            @match &decision.outcome {
                Outcome::Placed { node } => { "chose node " strong { (node) } "." }
                Outcome::Rejected { message } | Outcome::Failed { message } => { (message) }
            }
        }
        @if let Some(not_bound) = &decision.not_bound { p { "Then " (not_bound) } }
        @if let Outcome::Placed { .. } = decision.outcome {
            p.note {
                @if sampled.is_hinted { "The scheduler took the next node in the ranking of the previous pod, which is equivalent. It examined no other node." }
                @else {
                    "The attempt looked at " (thousands(sampled.visited.max(sampled.feasible))) " of " (thousands(sampled.nodes))
                    " nodes, and " (thousands(sampled.feasible)) " of them fit."
                    @if sampled.tied > 1 { " Of these, " (thousands(sampled.tied)) " had the best total, and their order in the search decided." }
                    @if sampled.has_earlier_answers { " Some answers were cached for equivalent pods." }
                }
            }
        }
        @if !decision.rejected.is_empty() {
            div.scroll tabindex="0" role="group" aria-label="Table" { table {
                thead { tr { th scope="col" { "Refused by" } th.number scope="col" { "Nodes" } th scope="col" { "Why" } th scope="col" { "Such as" } } }
                tbody { @for rejected in &decision.rejected {
                    tr {
                        th scope="row" { @if rejected.plugin.is_empty() { "an extender" } @else { (rejected.plugin) } }
                        td.number { (thousands(rejected.nodes)) } td { (rejected.message) } td { (rejected.examples.join(", ")) }
                    }
                } }
            } }
        }
        (ranking(&decision.best, "The best nodes, as scored then"))
    }
}

/// Writes `Attempt 2 after NodeAdd`, or `Attempt 2` if only time brought the pod back.
fn numbered(attempt: u32, brought_by: &str) -> Markup {
    html! { "Attempt " (attempt) @if !brought_by.is_empty() { " after " (brought_by) } }
}

fn earlier(attempts: &[EarlierAttempt]) -> Markup {
    html! {
        @if !attempts.is_empty() {
            h3 { "Earlier attempts" }
            ul { @for earlier in attempts { li {
                (numbered(earlier.attempt, &earlier.brought_by)) ", " (duration(earlier.milliseconds_ago)) " ago: "
                @match &earlier.outcome {
                    Outcome::Placed { node } => { "chose node " (node) }
                    Outcome::Rejected { message } | Outcome::Failed { message } => { (message) }
                }
                @if let Some(not_bound) = &earlier.not_bound { ", then " (not_bound) }
            } } }
        }
    }
}

/// The scores of nodes and plugins: weighted, normalized and raw.
fn ranking(best: &[RankedNode], caption: &str) -> Markup {
    let Some(first) = best.iter().find(|node| node.total.is_some()) else { return html! {} };
    let cell = |score: &PluginScore| {
        html! {
            td.number {
                (score.weighted)
                small { " of " (score.normalized) " normalized, " (score.raw) " raw" }
            }
        }
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table.scores {
            caption { (caption) }
            thead { tr {
                th scope="col" { "Node" } th.number scope="col" { "Total" }
                @for score in &first.scores { th.number scope="col" { (score.plugin) } }
            } }
            tbody { @for (place, node) in best.iter().enumerate() {
                tr.chosen[place == 0] {
                    th scope="row" { (node.node) }
                    td.number { @if let Some(total) = node.total { (total) } @else { "–" } }
                    @for score in &node.scores { (cell(score)) }
                }
            } }
        } }
    }
}

fn says_now(analysis: &Analysis) -> Markup {
    html! {
        p { strong { (thousands(analysis.feasible)) " of " (thousands(analysis.nodes)) " nodes fit." } " Worked out on a copy of the cluster." }
        @if let Some(error) = &analysis.error { p.refused { "A plugin failed, so its other answers are unknown: " (error) } }
        @if let Some(rejected) = &analysis.pod_rejected {
            p { "No node is looked at: " (rejected.message) " (" (rejected.plugins.join(", ")) ")" }
        }
        @for missing in &analysis.missing_nodes {
            p { "PreFilter of " (missing.plugin) " restricts the pod to nodes of which " (thousands(missing.nodes)) " do not exist, such as " (missing.examples.join(", ")) "." }
        }
        @if !analysis.plugins.is_empty() {
            div.scroll tabindex="0" role="group" aria-label="Table" { table {
                caption { "Each plugin by itself" }
                thead { tr {
                    th scope="col" { "Plugin" } th.number scope="col" { "Refuses" } th.number scope="col" { "Alone" } th scope="col" { "Why" }
                } }
                tbody { @for report in &analysis.plugins {
                    tr {
                        th scope="row" { (report.plugin) }
                        td.number { (thousands(report.rejected)) } td.number { (thousands(report.alone)) }
                        td { ul.plain { @for reason in &report.reasons {
                            li { (thousands(reason.nodes)) ": " (reason.reason) small { " such as " (reason.examples.join(", ")) } }
                        } } }
                    }
                } }
            } }
        }
        @if analysis.words.iter().any(|said| said.node.is_none()) {
            h3 { "In the plugins' own words" }
            dl.facts { @for said in analysis.words.iter().filter(|said| said.node.is_none()) {
                dt { (said.plugin) } dd { (said.text) }
            } }
        }
        @if analysis.combinations.iter().any(|combination| combination.plugins.len() > 1) {
            div.scroll tabindex="0" role="group" aria-label="Table" { table {
                caption { "Plugins that refuse the same nodes" }
                thead { tr { th scope="col" { "Plugins" } th.number scope="col" { "Nodes" } th scope="col" { "Such as" } } }
                tbody { @for combination in &analysis.combinations {
                    tr { th scope="row" { (combination.plugins.join(" and ")) } td.number { (thousands(combination.nodes)) } td { (combination.examples.join(", ")) } }
                } }
            } }
        }
        @if analysis.reserved_for_nominated > 0 {
            p { (thousands(analysis.reserved_for_nominated)) " nodes have no room next to the pods nominated to them." }
        }
        @if analysis.feasible == 0 && !analysis.nearest.is_empty() {
            h3 { "The nearest nodes" }
            ul { @for near in &analysis.nearest { li { strong { (near.node) } ": " (lacks(near)) } } }
        }
        @if !analysis.suggestions.is_empty() {
            h3 { "What would help" }
            ul { @for suggestion in &analysis.suggestions { li {
                (suggestion.change) ": " (thousands(suggestion.nodes)) " nodes fit then, such as " (suggestion.examples.join(", "))
            } } }
        }
        (preemption(analysis))
        (ranking(&analysis.best, "The best nodes, as scored now"))
    }
}

fn preemption(analysis: &Analysis) -> Markup {
    let Some(preemption) = &analysis.preemption else { return html! {} };
    html! {
        @match &preemption.node {
            Some(node) if preemption.victims > 0 => {
                p {
                    "Preemption would have " (thousands(preemption.victims)) " pods leave node " (node) ": "
                    (preemption.examples.join(", "))
                    @if preemption.unnamed > 0 { " and " (thousands(preemption.unnamed)) " that you may not see" } "."
                }
            }
            Some(node) => { p { "Pods are leaving node " (node) " already." } }
            None => { @if !preemption.message.is_empty() { p { "Preemption: " (preemption.message) } } }
        }
        @for budget in &preemption.violated_budgets {
            p {
                "PodDisruptionBudget " (budget.namespace) "/" (budget.name) " allows " (budget.allowed)
                " evictions at the moment, and " (thousands(budget.victims)) " of these pods belong to it."
            }
        }
    }
}

fn lacks(near: &NearNode) -> String {
    let lacks = near.lacks.iter().map(|lack| {
        let (missing, free) = (amount(&lack.resource, lack.missing), amount(&lack.resource, lack.free));
        format!("lacks {missing} {} ({free} left)", lack.resource)
    });
    let reasons = near.reasons.iter().map(|reason| format!("{} ({})", reason.message, reason.plugin));
    lacks.chain(reasons).collect::<Vec<_>>().join("; ")
}

fn node_report(report: &NodeReport) -> Markup {
    html! {
        @if !report.exists { p { "Node not found." } }
        @else if let Some(rank) = report.rank {
            p { "It fits, and ranks " (rank) " of the nodes that fit." }
            @if let Some(scores) = &report.scores {
                (compared(scores, report.winner.as_ref()))
            }
        } @else {
            p { "It does not fit: " (lacks(&NearNode { node: report.node.clone(), reasons: report.reasons.clone(), lacks: report.lacks.clone() })) }
        }
    }
}

/// The scores of a node, beside [`NodeReport::winner`].
fn compared(scores: &RankedNode, winner: Option<&RankedNode>) -> Markup {
    let caption = match winner {
        Some(_) => "Its scores now, beside the node that the pod has or would get",
        None => "Its scores now",
    };
    let nodes: Vec<RankedNode> = winner.into_iter().chain([scores]).cloned().collect();
    ranking(&nodes, caption)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(node: &str, total: i64) -> RankedNode {
        RankedNode { node: node.into(), total: Some(total), scores: Vec::new() }
    }

    #[test]
    fn a_node_is_shown_beside_the_best_one() {
        let rows = |winner: Option<RankedNode>| {
            let report = NodeReport {
                node: "other".to_owned(),
                exists: true,
                reasons: Vec::new(),
                lacks: Vec::new(),
                scores: Some(ranked("other", 150)),
                rank: Some(2),
                winner,
            };
            let text = node_report(&report).into_string();
            text.matches("<th scope=\"row\">").count()
        };
        assert_eq!((rows(Some(ranked("best", 200))), rows(None)), (2, 1));
    }
}
