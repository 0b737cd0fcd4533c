//! DefaultPreemption: if a pod fits on no node, this plugin finds pods of lower priority to evict, so that the pod
//! fits.
//!
//! The scheduler keeps the pod out of activeQ while the victims terminate. This plugin only names the victims.
//!
//! kube-scheduler: `pkg/scheduler/framework/preemption/preemption.go` and
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`. Documentation:
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>.

mod budgets;
mod ranking;
#[cfg(test)]
mod tests;
mod victims;

use berth_framework::{
    Call, ClusterEvent, Code, ConfigureError, DryRun, Effect, Failure, HintCall, Permission, PostFilter,
    PostFilterOutcome, QueueingHint, Status, run,
};
use berth_model::{Column, DisruptionBudgets, Feature, Features, NodeIdx, NodeSet, Pod};
use serde::Deserialize;

use self::victims::{Candidate, Victim};
use crate::{
    args::{self, ArgsError},
    built_in::{BuiltIn, Descriptor, plugin},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct DefaultPreemptionArgs {
    min_candidate_nodes_percentage: Option<i32>,
    min_candidate_nodes_absolute: Option<i32>,
}

/// Finds the node where evictions do the least harm.
#[derive(Debug)]
pub struct DefaultPreemption {
    /// The percentage of the nodes where evictions may help. This share of candidates is enough, but at least
    /// `min_absolute` candidates are needed.
    min_percentage: usize,
    min_absolute: usize,
    budgets: DisruptionBudgets,
    features: Features,
}

impl BuiltIn for DefaultPreemption {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "DefaultPreemption",
        columns: &[Column::Name],
        pods: true,
        objects: &[budgets::KIND],
        events_to_register: &[("Pod", ClusterEvent::DELETE)],
        effects: &[Permission::Evict, Permission::Nominate],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features): (DefaultPreemptionArgs, _) = args::parse_with_features(Self::NAME, args)?;
        let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
        let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
        let invalid_percentage = |why| ArgsError::invalid("minCandidateNodesPercentage", percentage, why);
        let min_percentage = usize::try_from(percentage).ok().filter(|percentage| *percentage <= 100);
        let min_percentage = min_percentage.ok_or_else(|| invalid_percentage("not in valid range [0, 100]"))?;
        let min_absolute = usize::try_from(absolute)
            .map_err(|_| ArgsError::invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)"))?;
        if min_percentage == 0 && min_absolute == 0 {
            return Err(invalid_percentage("cannot be zero at the same time as minCandidateNodesAbsolute").into());
        }
        Ok(Self { min_percentage, min_absolute, budgets: DisruptionBudgets::default(), features })
    }
}

plugin!(DefaultPreemption: PostFilter, QueueingHint);

/// The dry runs of preemption on some nodes.
#[derive(Debug, Default)]
struct CandidateSearch {
    /// Nodes on which preemption helps.
    candidates: Vec<Candidate>,
    /// The reasons why preemption does not help on nodes that are not candidates.
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
            return Ok(only_status(Status::unschedulable(format!("preemption: {reason}"))));
        }
        self.budgets.refresh(call.table.objects());
        let nodes = resolvable_nodes(call, failure);
        let search = match self.search(call, &nodes, dry_run) {
            Ok(search) => search,
            Err(status) => return Ok(only_status(error_status(&[status.message()]))),
        };
        if search.candidates.is_empty() {
            return Ok(search.no_candidate(call));
        }
        let preemptions = search.candidates.iter().map(Candidate::preemption).collect();
        let candidates: Vec<Candidate> = match dry_run.ask_extenders(preemptions) {
            Ok(agreed) => agreed.iter().filter_map(|preemption| Candidate::of(preemption, call.table)).collect(),
            Err(status) => return Ok(only_status(error_status(&[status.message()]))),
        };
        let Some(best) = ranking::best(&candidates) else {
            return Ok(only_status(Status::unschedulable("preemption: no candidate node for preemption")));
        };
        Ok(PostFilterOutcome {
            status: self.found(call, best),
            nominate: Some(Some(best.node)),
            effects: make_room(call, failure, best),
        })
    }
}

impl QueueingHint for DefaultPreemption {
    /// DefaultPreemption never rejects a pod, so no event is a reason to try a pod again. The hints of the plugins that
    /// rejected the pod decide.
    fn queueing_hint(&mut self, _: &HintCall<'_>) -> bool {
        false
    }
}

impl DefaultPreemption {
    /// Tries nodes until there are enough candidates, and one candidate violates no disruption budget. The first node
    /// differs from cycle to cycle.
    fn search(&self, call: &Call<'_>, nodes: &[NodeIdx], dry_run: &mut dyn DryRun) -> Result<CandidateSearch, Status> {
        let enough = self.n_candidates(nodes.len());
        let (before, after) = nodes.split_at(start_offset(seed_of(&call.pod.uid), nodes.len()));
        let order: Vec<NodeIdx> = after.iter().chain(before).copied().collect();
        let mut search = CandidateSearch::default();
        for batch in order.chunks(enough.max(1)) {
            for answer in victims::dry_run(call, batch, &self.budgets, dry_run)? {
                match answer {
                    Ok(candidate) => search.candidates.push(candidate),
                    Err(status) => search.statuses.push(status),
                }
            }
            let some_without_violation = search.candidates.iter().any(|candidate| candidate.n_violations == 0);
            if some_without_violation && search.candidates.len() >= enough {
                break;
            }
        }
        Ok(search)
    }

    /// The status of a preemption that helps, with the message for the pod's condition.
    fn found(&self, call: &Call<'_>, best: &Candidate) -> Status {
        if !self.features.has(Feature::PreemptionHasMessage) {
            return Status::success();
        }
        let (node, n_victims) = (call.table.symbols.text(call.table.name(best.node)), best.victims.len());
        let text =
            format!("preemption: found a potential placement for pod on node {node}, preempting {n_victims} victims");
        Status::new(Code::Success, vec![text])
    }

    fn n_candidates(&self, n_nodes: usize) -> usize {
        (n_nodes * self.min_percentage / 100).max(self.min_absolute).min(n_nodes)
    }
}

impl CandidateSearch {
    fn no_candidate(self, call: &Call<'_>) -> PostFilterOutcome {
        let mut errors: Vec<String> = Vec::new();
        for error in self.statuses.iter().filter(|status| status.code == Code::Error).map(Status::message) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        // The reasons are sorted, because the first node differs from attempt to attempt and the pod's condition should
        // stay the same.
        errors.sort_unstable();
        if !errors.is_empty() {
            return only_status(error_status(&errors));
        }
        let n_nodes = call.table.n_nodes();
        let others = Status::unresolvable("Preemption is not helpful for scheduling");
        let n_others = n_nodes.saturating_sub(self.statuses.len());
        let tried = self.statuses.iter().map(|status| (status, 1));
        let reasons = run::histogram(tried.chain([(&others, n_others)]));
        let status = Status::unschedulable(format!("preemption: 0/{n_nodes} nodes are available: {reasons}."));
        PostFilterOutcome { nominate: Some(None), ..only_status(status) }
    }
}

/// An outcome with neither a nomination nor effects.
fn only_status(status: Status) -> PostFilterOutcome {
    PostFilterOutcome { status, nominate: None, effects: Vec::new() }
}

fn error_status(errors: &[String]) -> Status {
    match errors {
        [only] => Status::error(format!("preemption: {only}")),
        several => Status::error(format!("preemption: [{}]", several.join(", "))),
    }
}

/// The reason why the pod may not preempt, if there is such a reason. While victims of the pod terminate, the pod must
/// not get more victims.
fn why_not_eligible(call: &Call<'_>, failure: &Failure<'_>) -> Option<&'static str> {
    if call.pod.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = call.pod.nominated_node_name;
    let node = call.table.find(nominated).filter(|_| !nominated.is_none())?;
    if status_of(failure, node).is_none_or(|status| status.code == Code::UnschedulableAndUnresolvable) {
        return None;
    }
    let is_victim = |pod: &Pod| pod.terminating && pod.is_preempted && pod.priority < call.pod.priority;
    let is_waiting = call.table.pods().on(node).any(|(_, pod)| is_victim(pod));
    is_waiting.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// The status with which Filter rejected the node.
fn status_of<'a>(failure: &Failure<'a>, node: NodeIdx) -> Option<&'a Status> {
    let rejection = failure.rejections.iter().find(|rejection| rejection.nodes.contains(node));
    rejection.map(|rejection| &rejection.status).or(failure.absent)
}

/// The nodes that were rejected with `Unschedulable`, because evictions may help on these nodes. The first rejection of
/// a node counts.
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

/// A number that differs from pod to pod. For one pod, it is the same on every machine.
fn seed_of(uid: &str) -> u64 {
    uid.bytes().fold(0, |bits: u64, byte| bits.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The position of the first node to try. It is pseudo-random, so that all nodes get their turn. It is the same when an
/// attempt is repeated, as in a recording or a simulation.
fn start_offset(seed: u64, n_nodes: usize) -> usize {
    // The finaliser of SplitMix64.
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let n_nodes = u64::try_from(n_nodes).unwrap_or(u64::MAX);
    (bits ^ (bits >> 31)).checked_rem(n_nodes).and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
}

/// Clears the nominations of pods with lower priority for the node, then evicts the victims. Victims that already
/// terminate are not evicted again. If all victims terminate, there are no effects.
fn make_room(call: &Call<'_>, failure: &Failure<'_>, best: &Candidate) -> Vec<Effect> {
    let symbols = &call.table.symbols;
    let message = format!("{}: preempting to accommodate a higher priority pod", symbols.text(call.pod.scheduler_name));
    let evictions: Vec<Effect> = best
        .victims
        .iter()
        .filter(|Victim { pod, .. }| !pod.terminating)
        .map(|Victim { pod, .. }| Effect::Evict {
            namespace: symbols.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            message: message.clone(),
        })
        .collect();
    if evictions.is_empty() {
        return Vec::new();
    }
    let lower = failure.nominated.iter().filter(|(node, pod)| *node == best.node && pod.priority < call.pod.priority);
    let cleared = lower.map(|(_, pod)| Effect::Nominate { uid: pod.uid.to_string(), node: None });
    cleared.chain(evictions).collect()
}
