//! Filter on nodes as they would be: what a PostFilter plugin asks before it takes pods away.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, NodeIdx, Pod, PodIdx};

use super::{Attempt, NominatedPods, PluginBits, filter::broken};
use crate::{
    manifest::Point,
    plugin::{Call, DryRun, DryRunCase, Removal},
    profile::{PluginIdx, Profile},
    status::Status,
};

/// In one call; more than preemption asks at once about a node.
const MAX_CASES_PER_NODE: usize = 64;

/// Filters nodes without some of their pods, for the pod whose attempt this is.
///
/// # Errors
/// A plugin broke.
pub fn dry_run(
    profile: &mut Profile,
    call: &Call<'_>,
    attempt: &Attempt,
    nominated: &NominatedPods<'_>,
    cases: &[Removal],
) -> Result<Vec<Status>, Status> {
    let skipped_filters = &attempt.skipped_filters;
    Trial::new(profile, *call, skipped_filters, nominated).dry_run(cases)
}

/// The Filter plugins of a profile, for one pod.
pub(super) struct Trial<'a> {
    profile: &'a mut Profile,
    call: Call<'a>,
    skipped_filters: &'a PluginBits,
    /// The case of each node that pods are nominated to.
    crowds: BTreeMap<NodeIdx, &'a DryRunCase>,
    cast: Cast<'a>,
}

/// The pods that cases index into: nominated ones, then those that are away in some case so far. It only grows, so that a
/// plugin that is asked again has seen the first ones.
struct Cast<'a> {
    pods: Vec<&'a Pod>,
    /// By slot: the pod's place in `pods` plus one, 0 for a pod that is not there.
    places: Vec<u32>,
}

/// Cases, and for each its place among the removals.
#[derive(Default)]
struct Round {
    at: Vec<usize>,
    cases: Vec<DryRunCase>,
}

impl DryRun for Trial<'_> {
    /// Each node must pass twice if pods are nominated to it: with them, then without.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.check(cases)?;
        let mut statuses = vec![Status::success(); cases.len()];
        let alone = self.cast.spell_out(self.call.table, cases);
        let crowded = self.crowded(&alone);
        self.filter(crowded, &mut statuses)?;
        let alone = alone.retain(|at| statuses.get(at).is_some_and(Status::is_success));
        self.filter(alone, &mut statuses)?;
        Ok(statuses)
    }
}

impl<'a> Cast<'a> {
    /// The cases as if no pods were nominated.
    fn spell_out(&mut self, table: &'a ClusterTable, removals: &[Removal]) -> Round {
        let mut alone = Round::default();
        for (at, removal) in removals.iter().enumerate() {
            let mut minus = Vec::with_capacity(removal.pods.len());
            minus.extend(removal.pods.iter().filter_map(|&idx| self.place_of(table, idx)));
            alone.push(at, DryRunCase { node: removal.node, minus, plus: Vec::new() });
        }
        alone
    }

    /// Where the pod is in `pods`; `None` for a slot without one.
    fn place_of(&mut self, table: &'a ClusterTable, idx: PodIdx) -> Option<u32> {
        if let Some(place) = self.places.get(idx.index()).and_then(|place| place.checked_sub(1)) {
            return Some(place);
        }
        let (pod, _) = table.pods().get(idx)?;
        self.pods.push(pod);
        let n_pods = u32::try_from(self.pods.len()).ok()?;
        if idx.index() >= self.places.len() {
            self.places.resize(idx.index() + 1, 0);
        }
        *self.places.get_mut(idx.index())? = n_pods;
        n_pods.checked_sub(1)
    }
}

impl Round {
    fn push(&mut self, at: usize, case: DryRunCase) {
        self.at.push(at);
        self.cases.push(case);
    }

    fn retain(self, keeps: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        let standing = self.at.into_iter().zip(self.cases).filter(|(at, _)| keeps(*at));
        standing.for_each(|(at, case)| kept.push(at, case));
        kept
    }
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        profile: &'a mut Profile,
        call: Call<'a>,
        skipped_filters: &'a PluginBits,
        nominated: &'a NominatedPods<'a>,
    ) -> Self {
        let crowds = nominated.cases().iter().map(|case| (case.node, case)).collect();
        let cast = Cast { pods: nominated.competing().to_vec(), places: Vec::new() };
        Self { profile, call, skipped_filters, crowds, cast }
    }

    /// A component may ask anything, and those who answer pay for it.
    fn check(&self, cases: &[Removal]) -> Result<(), Status> {
        let nodes = self.call.table.nodes();
        if let Some(stray) = cases.iter().find(|case| !nodes.contains(case.node)) {
            return Err(Status::error(format!("dry run of row {}, which holds no node", stray.node.0)));
        }
        let limit = nodes.len().saturating_mul(MAX_CASES_PER_NODE);
        if cases.len() > limit {
            return Err(Status::error(format!("{} dry runs at once, more than {limit}", cases.len())));
        }
        Ok(())
    }

    /// The same cases with nominated pods, where there are any.
    fn crowded(&self, alone: &Round) -> Round {
        let mut crowded = Round::default();
        if self.crowds.is_empty() {
            return crowded;
        }
        for (&at, case) in alone.at.iter().zip(&alone.cases) {
            if let Some(crowd) = self.crowds.get(&case.node) {
                crowded.push(at, DryRunCase { plus: crowd.plus.clone(), ..case.clone() });
            }
        }
        crowded
    }

    fn filter(&mut self, mut standing: Round, statuses: &mut [Status]) -> Result<(), Status> {
        for position in 0..self.profile.plugins.at(Point::Filter).len() {
            if standing.cases.is_empty() {
                break;
            }
            let Some(plugin) = self.profile.plugins.at(Point::Filter).get(position).copied() else { break };
            let Some(answers) = self.ask(plugin, &standing.cases)? else { continue };
            let mut kept = Round::default();
            for ((at, case), status) in standing.at.into_iter().zip(standing.cases).zip(answers) {
                if status.is_success() {
                    kept.push(at, case);
                    continue;
                }
                // What breaks about one node is no word about the others.
                let says_no = status.code.is_rejected();
                if let Some(slot) = statuses.get_mut(at) {
                    *slot = if says_no { status } else { broken(self.profile, plugin, &status) };
                }
            }
            standing = kept;
        }
        Ok(())
    }

    /// `None` if the plugin has nothing to say in this cycle.
    fn ask(&mut self, plugin: PluginIdx, cases: &[DryRunCase]) -> Result<Option<Vec<Status>>, Status> {
        if self.skipped_filters.contains(plugin) {
            return Ok(None);
        }
        let Some(point) = self.profile.get(plugin).and_then(|plugin| plugin.filter()) else { return Ok(None) };
        let statuses = match point.dry_run(&self.call, &self.cast.pods, cases) {
            Ok(statuses) => statuses,
            Err(status) => return Err(broken(self.profile, plugin, &status)),
        };
        if statuses.len() != cases.len() {
            let text = format!("{} statuses for {} cases", statuses.len(), cases.len());
            return Err(broken(self.profile, plugin, &Status::error(text)));
        }
        Ok(Some(statuses))
    }
}
