//! DefaultPreemption: when a pod fits nowhere, pods of lower priority make room for it.
//!
//! The pod is kept out of activeQ while its victims are on their way out; that is the scheduler's doing, which knows
//! what became of the evictions.

mod budgets;
mod ranking;
#[cfg(test)]
mod tests;
mod victims;

use berth_framework::{
    Call, ClusterEvent, Code, ConfigureError, DryRun, Effect, Failure, Point, PostFilter, PostFilterOutcome,
    QueueingHint, Status, run,
};
use berth_model::{Column, NodeIdx, NodeSet, Pod};
use serde::Deserialize;

use self::{budgets::Budgets, victims::Candidate};
use crate::{
    args,
    built_in::{BuiltIn, Card, plugin},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct DefaultPreemptionArgs {
    min_candidate_nodes_percentage: Option<i32>,
    min_candidate_nodes_absolute: Option<i32>,
}

/// Finds the node where evictions cost least.
#[derive(Debug)]
pub struct DefaultPreemption {
    /// How many nodes to try at least, in percent of those that evictions may help on, and as a number.
    min_percentage: usize,
    min_absolute: usize,
    budgets: Budgets,
}

impl BuiltIn for DefaultPreemption {
    const CARD: Card = Card {
        name: "DefaultPreemption",
        points: &[Point::PostFilter, Point::QueueingHint],
        columns: &[Column::Name],
        pods: true,
        objects: &[Budgets::KIND],
        requeue: &[("Pod", ClusterEvent::DELETE)],
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let args: DefaultPreemptionArgs = args::parse(Self::NAME, args)?;
        let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
        let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
        if !(0..=100).contains(&percentage) {
            return Err(ConfigureError::new(format_args!(
                "minCandidateNodesPercentage: Invalid value: {percentage}: not in valid range [0, 100]"
            )));
        }
        let min_absolute = usize::try_from(absolute).map_err(|_| {
            format!("minCandidateNodesAbsolute: Invalid value: {absolute}: not in valid range [0, inf)")
        })?;
        if percentage == 0 && absolute == 0 {
            return Err(ConfigureError::from(
                "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as \
                 minCandidateNodesAbsolute",
            ));
        }
        let min_percentage = usize::try_from(percentage).unwrap_or(0);
        Ok(Self { min_percentage, min_absolute, budgets: Budgets::new() })
    }
}

plugin!(DefaultPreemption { post_filter: PostFilter, queueing_hint: QueueingHint });

/// Candidates, and what was found out about the other nodes.
#[derive(Debug, Default)]
struct Search {
    candidates: Vec<Candidate>,
    statuses: Vec<Status>,
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        if let Some(reason) = why_not_eligible(call, failure) {
            return Ok(nothing(Status::unschedulable(format!("preemption: {reason}"))));
        }
        self.budgets.refresh(call.table.objects());
        let nodes = resolvable_nodes(call, failure);
        let search = match self.search(call, &nodes, dry_run) {
            Ok(search) => search,
            Err(status) => return Ok(nothing(broken(&[status.message()]))),
        };
        let Some(best) = ranking::best(&search.candidates) else { return Ok(search.no_candidate(call)) };
        Ok(PostFilterOutcome {
            status: Status::success(),
            nominate: Some(Some(best.node)),
            effects: make_room(call, failure, best),
        })
    }
}

impl QueueingHint for DefaultPreemption {
    /// No event brings a pod back that waits for its victims: what the other plugins said does.
    fn queueing_hint(&mut self, _: &Pod, _: &ClusterEvent, _: Option<&[u8]>, _: Option<&[u8]>) -> bool {
        false
    }
}

impl DefaultPreemption {
    /// Tries nodes from a place on that differs from cycle to cycle, until there are enough candidates.
    fn search(&self, call: &Call<'_>, nodes: &[NodeIdx], dry_run: &mut dyn DryRun) -> Result<Search, Status> {
        let enough = self.n_candidates(nodes.len());
        let (before, after) = nodes.split_at(offset(call.cycle.0, nodes.len()));
        let order: Vec<NodeIdx> = after.iter().chain(before).copied().collect();
        let mut search = Search::default();
        for batch in order.chunks(enough.max(1)) {
            for answer in victims::dry_run(call, batch, &self.budgets, dry_run)? {
                match answer {
                    Ok(candidate) => search.candidates.push(candidate),
                    Err(status) => search.statuses.push(status),
                }
            }
            let spares_budgets = search.candidates.iter().any(|candidate| candidate.n_violations == 0);
            if spares_budgets && search.candidates.len() >= enough {
                break;
            }
        }
        Ok(search)
    }

    fn n_candidates(&self, n_nodes: usize) -> usize {
        (n_nodes * self.min_percentage / 100).max(self.min_absolute).min(n_nodes)
    }
}

impl Search {
    fn no_candidate(self, call: &Call<'_>) -> PostFilterOutcome {
        let mut errors: Vec<String> = Vec::new();
        for error in self.statuses.iter().filter(|status| status.code == Code::Error).map(Status::message) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if !errors.is_empty() {
            return nothing(broken(&errors));
        }
        let n_nodes = call.table.n_nodes();
        let others = Status::unresolvable("Preemption is not helpful for scheduling");
        let n_others = n_nodes.saturating_sub(self.statuses.len());
        let tried = self.statuses.iter().map(|status| (status, 1));
        let reasons = run::histogram(tried.chain([(&others, n_others)]));
        let status = Status::unschedulable(format!("preemption: 0/{n_nodes} nodes are available: {reasons}."));
        PostFilterOutcome { nominate: Some(None), ..nothing(status) }
    }
}

fn nothing(status: Status) -> PostFilterOutcome {
    PostFilterOutcome { status, nominate: None, effects: Vec::new() }
}

fn broken(errors: &[String]) -> Status {
    match errors {
        [only] => Status::error(format!("preemption: {only}")),
        several => Status::error(format!("preemption: [{}]", several.join(", "))),
    }
}

/// Why the pod may not evict anyone. A pod whose victims are still leaving must not take more.
fn why_not_eligible(call: &Call<'_>, failure: &Failure<'_>) -> Option<&'static str> {
    if call.pod.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = call.pod.nominated_node_name;
    let node = call.table.find(nominated).filter(|_| !nominated.is_none())?;
    if status_of(failure, node).is_none_or(|status| status.code == Code::UnschedulableAndUnresolvable) {
        return None;
    }
    let leaves = |pod: &Pod| pod.terminating && pod.is_preempted && pod.priority < call.pod.priority;
    let is_waiting = call.table.pods().on(node).any(|(_, pod)| leaves(pod));
    is_waiting.then_some("not eligible due to a terminating pod on the nominated node.")
}

fn status_of<'a>(failure: &Failure<'a>, node: NodeIdx) -> Option<&'a Status> {
    let rejection = failure.rejections.iter().find(|rejection| rejection.nodes.contains(node));
    rejection.map(|rejection| &rejection.status).or(failure.absent)
}

/// The nodes that rejected the pod in a way that evictions may change.
fn resolvable_nodes(call: &Call<'_>, failure: &Failure<'_>) -> Vec<NodeIdx> {
    let mut resolvable = NodeSet::default();
    let mut absent = call.table.nodes().clone();
    for rejection in failure.rejections {
        if rejection.status.code == Code::Unschedulable {
            let mut nodes = rejection.nodes.clone();
            nodes.intersect(&absent);
            resolvable.union(&nodes);
        }
        absent.subtract(&rejection.nodes);
    }
    if failure.absent.is_some_and(|status| status.code == Code::Unschedulable) {
        resolvable.union(&absent);
    }
    resolvable.iter().collect()
}

/// Where to begin: spread over the nodes as if by chance, but the same in a replay.
fn offset(cycle: u64, n_nodes: usize) -> usize {
    // The finaliser of SplitMix64.
    let mut bits = cycle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let n_nodes = u64::try_from(n_nodes).unwrap_or(u64::MAX);
    (bits ^ (bits >> 31)).checked_rem(n_nodes).and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
}

/// Takes back what lesser pods were promised on the node, then evicts. Victims that are leaving already are left
/// alone; if all are, there is nothing to do but wait.
fn make_room(call: &Call<'_>, failure: &Failure<'_>, best: &Candidate) -> Vec<Effect> {
    let symbols = &call.table.symbols;
    let message = format!("{}: preempting to accommodate a higher priority pod", symbols.text(call.pod.scheduler_name));
    let evictions: Vec<Effect> = best
        .victims
        .iter()
        .filter(|victim| !victim.terminating)
        .map(|victim| Effect::Evict {
            namespace: symbols.text(victim.namespace).to_owned(),
            name: victim.name.to_string(),
            uid: victim.uid.to_string(),
            message: message.clone(),
        })
        .collect();
    if evictions.is_empty() {
        return Vec::new();
    }
    let lesser = failure.nominated.iter().filter(|(node, pod)| *node == best.node && pod.priority < call.pod.priority);
    let cleared = lesser.map(|(_, pod)| Effect::Nominate { uid: pod.uid.to_string(), node: None });
    cleared.chain(evictions).collect()
}
