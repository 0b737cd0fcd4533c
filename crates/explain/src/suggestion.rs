//! Changes with which a pending pod would fit.
//!
//! A change is suggested only if it helps. Every Filter plugin is therefore asked about the changed pod on every node.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{
    Call, CycleId, Profile, Status,
    run::{self, Attempt, PreFilterOutcome, SearchRange},
};
use berth_model::{
    ClusterTable, NodeIdx, NodeSet, Pod, Sym,
    pod::{PodAffinity, Taint, TaintEffect, Toleration, TolerationOperator},
};
use serde::{Deserialize, Serialize};

use crate::{
    question::Question,
    resources::{amount, set_request, shortages},
};

/// The number of taints that are examined, the most frequent first.
const N_TAINTS: usize = 3;

/// The number of nodes that are named.
const N_EXAMPLES: usize = 3;

/// A change to the pod after which it would fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The change, such as `tolerate gpu=true:NoSchedule`.
    pub change: String,
    /// The number of nodes on which the changed pod fits.
    pub nodes: usize,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// A change of a pod.
#[derive(Clone, Debug)]
enum Change {
    /// Request no more than these amounts.
    Requests(Vec<(Sym, i64)>),
    Tolerate(Taint),
    WithoutHostPorts,
    WithoutSpreadConstraints,
    WithoutPodAffinity,
    WithoutNodeRules,
}

/// The reasons why a pod fits on no node.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    /// The nodes that each plugin refuses on its own, by the plugin's name.
    pub(crate) refused: BTreeMap<String, NodeSet>,
    /// The node that comes closest to fitting, among the nodes that lack a resource.
    pub(crate) nearest: Option<NodeIdx>,
}

/// The changes that help, each alone. If no single change helps, all changes together, provided that they help
/// together.
///
/// # Errors
/// The message of a plugin that broke.
pub(crate) fn suggestions(
    profile: &mut Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    obstacles: &Obstacles,
) -> Result<Vec<Suggestion>, Status> {
    let changes = changes(call, obstacles);
    let mut helpful = Vec::new();
    // Each changed pod has a separate cycle, because a component keeps the pod with which a cycle began.
    let mut cycles = (1..).map(|number| Call { cycle: CycleId(call.cycle.0.saturating_add(number)), ..*call });
    for (change, call) in changes.iter().zip(&mut cycles) {
        helpful.extend(confirmed(profile, &call, question, std::slice::from_ref(change))?);
    }
    if let Some(call) = cycles.next().filter(|_| helpful.is_empty() && changes.len() > 1) {
        helpful.extend(confirmed(profile, &call, question, &changes)?);
    }
    Ok(helpful)
}

/// The changes that would remove refusals of Kubernetes' own plugins, the smallest change first.
fn changes(call: &Call<'_>, obstacles: &Obstacles) -> Vec<Change> {
    let (pod, table) = (call.pod, call.table);
    let refuses = |plugin: &str| obstacles.refused.contains_key(plugin);
    let mut changes = Vec::new();
    if refuses("NodeResourcesFit")
        && let Some(node) = obstacles.nearest
    {
        // A smaller request does not help on a node that has nothing left. The number of pods is not a request.
        let shortages = shortages(table, pod, node);
        if !shortages.is_empty() && shortages.iter().all(|(resource, free)| *free > 0 && *resource != Sym::PODS) {
            changes.push(Change::Requests(shortages));
        }
    }
    if let Some(nodes) = obstacles.refused.get("TaintToleration") {
        changes.extend(untolerated(table, pod, nodes).into_iter().map(Change::Tolerate));
    }
    for (plugin, is_there, change) in [
        ("NodePorts", !pod.host_ports.is_empty(), Change::WithoutHostPorts),
        ("PodTopologySpread", !pod.topology_spread.is_empty(), Change::WithoutSpreadConstraints),
        ("InterPodAffinity", !pod.affinity.is_empty(), Change::WithoutPodAffinity),
        (
            "NodeAffinity",
            pod.node_rules.selector.is_some() || pod.node_rules.required.is_some(),
            Change::WithoutNodeRules,
        ),
    ] {
        if refuses(plugin) && is_there {
            changes.push(change);
        }
    }
    changes
}

/// The most frequent taints of the nodes that keep the pod off.
fn untolerated(table: &ClusterTable, pod: &Pod, nodes: &NodeSet) -> Vec<Taint> {
    let mut counts: Vec<(Taint, usize)> = Vec::new();
    for node in nodes.iter() {
        let set = table.taint_set_id(node) as usize;
        for taint in table.taint_sets().get(set).into_iter().flatten() {
            let keeps_off = matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
            if !keeps_off || pod.tolerations.iter().any(|toleration| toleration.tolerates(taint, None)) {
                continue;
            }
            match counts.iter_mut().find(|(known, _)| known == taint) {
                Some((_, count)) => *count += 1,
                None => counts.push((*taint, 1)),
            }
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().take(N_TAINTS).map(|(taint, _)| taint).collect()
}

/// The suggestion of these changes, if the pod fits with all of them.
fn confirmed(
    profile: &mut Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    changes: &[Change],
) -> Result<Option<Suggestion>, Status> {
    let mut pod = Pod::clone(call.pod);
    changes.iter().for_each(|change| change.apply(&mut pod));
    let pod = Arc::new(pod);
    let changed = Call { pod: &pod, ..*call };
    let mut attempt = Attempt::default();
    let asked = fitting(profile, &changed, question, &mut attempt);
    profile.end_cycle(call.cycle);
    let nodes = asked?;
    if nodes.is_empty() {
        return Ok(None);
    }
    let texts: Vec<String> = changes.iter().map(|change| change.text(call.table)).collect();
    let names = nodes.iter().take(N_EXAMPLES);
    Ok(Some(Suggestion {
        change: texts.join(", and "),
        nodes: nodes.len(),
        examples: names.map(|node| call.table.symbols.text(call.table.name(node)).to_owned()).collect(),
    }))
}

/// The nodes that fit.
fn fitting(
    profile: &mut Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    attempt: &mut Attempt,
) -> Result<NodeSet, Status> {
    if let PreFilterOutcome::Rejected { .. } = run::pre_filter(profile, call, attempt)? {
        return Ok(NodeSet::default());
    }
    run::list_candidates(call, question.order, attempt);
    let all = SearchRange { start: 0, n_wanted: question.order.len().max(1) };
    run::filter(profile, call, all, question.nominated, attempt)?;
    Ok(attempt.findings().feasible().clone())
}

impl Change {
    fn apply(&self, pod: &mut Pod) {
        match self {
            Self::Requests(amounts) => {
                amounts.iter().for_each(|(resource, amount)| set_request(pod, *resource, *amount));
            }
            Self::Tolerate(Taint { key, value, effect }) => pod.tolerations.push(Toleration {
                key: *key,
                operator: TolerationOperator::Equal,
                value: *value,
                effect: Some(*effect),
            }),
            Self::WithoutHostPorts => pod.host_ports.clear(),
            Self::WithoutSpreadConstraints => pod.topology_spread.clear(),
            Self::WithoutPodAffinity => pod.affinity = PodAffinity::default(),
            Self::WithoutNodeRules => (pod.node_rules.selector, pod.node_rules.required) = (None, None),
        }
    }

    fn text(&self, table: &ClusterTable) -> String {
        let text = |symbol: Sym| table.symbols.text(symbol);
        match self {
            Self::Requests(amounts) => {
                let amounts = amounts.iter().map(|(resource, value)| {
                    let resource = text(*resource);
                    format!("{} {resource}", amount(resource, *value))
                });
                format!("request no more than {}", amounts.collect::<Vec<_>>().join(" and "))
            }
            Self::Tolerate(Taint { key, value, effect }) => {
                let value = if *value == Sym::NONE { String::new() } else { format!("={}", text(*value)) };
                format!("tolerate {}{value}:{effect:?}", text(*key))
            }
            Self::WithoutHostPorts => "use no host ports".to_owned(),
            Self::WithoutSpreadConstraints => "leave out topologySpreadConstraints".to_owned(),
            Self::WithoutPodAffinity => "leave out podAffinity and podAntiAffinity".to_owned(),
            Self::WithoutNodeRules => "leave out nodeSelector and the required nodeAffinity".to_owned(),
        }
    }
}
