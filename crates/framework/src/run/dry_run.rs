//! The questions that a PostFilter plugin asks before it evicts pods. Filter plugins answer for nodes without some of
//! their pods, and extenders answer for preemptions.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, NodeIdx, Pod, PodIdx};

use super::{Findings, NominatedPods, PluginBits, extend::preempt_by_extenders, filter::broken};
use crate::{
    extender::Extenders,
    points::{Call, DryRun, DryRunCase, Filter, Preemption, Removal},
    profile::Profile,
    status::Status,
};

/// The maximum number of cases of one call, for each node of the cluster. Preemption asks about fewer cases in one
/// call.
const MAX_CASES_PER_NODE: usize = 64;

/// Filters nodes without some of their pods, for the pod of `call`. `findings` are the findings of the pod's cycle. The
/// result has one status for each case.
///
/// # Errors
/// A plugin broke.
pub fn dry_run(
    profile: &mut Profile,
    call: &Call<'_>,
    findings: &Findings,
    nominated: &NominatedPods<'_>,
    cases: &[Removal],
) -> Result<Vec<Status>, Status> {
    let skipped_filters = &findings.skipped_filters;
    NodeDryRun::new(profile, *call, skipped_filters, nominated, None).dry_run(cases)
}

/// The Filter plugins of a profile, which filter nodes for one pod.
pub(super) struct NodeDryRun<'a> {
    profile: &'a mut Profile,
    call: Call<'a>,
    skipped_filters: &'a PluginBits,
    /// The case of each node to which competing pods are nominated.
    nominated_cases: BTreeMap<NodeIdx, &'a DryRunCase>,
    pods: CasePods<'a>,
    extenders: Option<&'a dyn Extenders>,
}

/// The pods to which the indexes of cases refer. The list contains the nominated pods, then every pod that a case has
/// removed so far. The list only grows, so that a plugin that is asked again already has the first pods.
struct CasePods<'a> {
    pods: Vec<&'a Pod>,
    /// The index of each pod in `pods` plus one, by the pod's slot in the table; 0 if the pod is not in `pods`.
    places: Vec<u32>,
}

/// The cases that are not decided yet, each with its position among the caller's removals.
#[derive(Default)]
struct OpenCases {
    at: Vec<usize>,
    cases: Vec<DryRunCase>,
}

impl DryRun for NodeDryRun<'_> {
    /// Filters the cases. A node to which pods are nominated must pass twice: first with these pods, then without these
    /// pods.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.check(cases)?;
        let mut statuses = vec![Status::success(); cases.len()];
        let without = self.pods.cases_without_nominated(self.call.table, cases);
        let with = self.with_nominated(&without);
        self.filter(with, &mut statuses)?;
        let without = without.retain(|at| statuses.get(at).is_some_and(Status::is_success));
        self.filter(without, &mut statuses)?;
        Ok(statuses)
    }

    fn ask_extenders(&mut self, preemptions: Vec<Preemption>) -> Result<Vec<Preemption>, Status> {
        let table = self.call.table;
        let is_known = |preemption: &Preemption| {
            let is_there = |idx: &PodIdx| table.pods().get(*idx).is_some_and(|(_, node)| node == preemption.node);
            table.nodes().contains(preemption.node) && preemption.victims.iter().all(is_there)
        };
        if let Some(stray) = preemptions.iter().find(|preemption| !is_known(preemption)) {
            return Err(Status::error(format!("row {} does not contain the pods to preempt", stray.node.0)));
        }
        preempt_by_extenders(self.extenders, &self.call, preemptions)
    }
}

impl<'a> CasePods<'a> {
    /// The cases without nominated pods.
    fn cases_without_nominated(&mut self, table: &'a ClusterTable, removals: &[Removal]) -> OpenCases {
        let mut open = OpenCases::default();
        for (at, removal) in removals.iter().enumerate() {
            let mut minus = Vec::with_capacity(removal.pods.len());
            minus.extend(removal.pods.iter().filter_map(|&idx| self.place_of(table, idx)));
            open.push(at, DryRunCase { node: removal.node, minus, plus: Vec::new() });
        }
        open
    }

    /// The index of the pod in `pods`. A pod that `pods` lacks is added. `None` for a slot without a pod.
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

impl OpenCases {
    fn push(&mut self, at: usize, case: DryRunCase) {
        self.at.push(at);
        self.cases.push(case);
    }

    fn retain(self, keeps: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        let still_open = self.at.into_iter().zip(self.cases).filter(|(at, _)| keeps(*at));
        still_open.for_each(|(at, case)| kept.push(at, case));
        kept
    }
}

impl<'a> NodeDryRun<'a> {
    pub(super) fn new(
        profile: &'a mut Profile,
        call: Call<'a>,
        skipped_filters: &'a PluginBits,
        nominated: &'a NominatedPods<'a>,
        extenders: Option<&'a dyn Extenders>,
    ) -> Self {
        let nominated_cases = nominated.cases().iter().map(|case| (case.node, case)).collect();
        let pods = CasePods { pods: nominated.competing().to_vec(), places: Vec::new() };
        Self { profile, call, skipped_filters, nominated_cases, pods, extenders }
    }

    /// Refuses cases about unknown nodes, and too many cases, because a component may send any cases.
    fn check(&self, cases: &[Removal]) -> Result<(), Status> {
        let nodes = self.call.table.nodes();
        if let Some(stray) = cases.iter().find(|case| !nodes.contains(case.node)) {
            return Err(Status::error(format!("dry run for row {}, which contains no node", stray.node.0)));
        }
        let limit = nodes.len().saturating_mul(MAX_CASES_PER_NODE);
        if cases.len() > limit {
            return Err(Status::error(format!("{} dry runs at once exceed the limit of {limit}", cases.len())));
        }
        Ok(())
    }

    /// The cases of nodes to which competing pods are nominated. The competing pods are added to the cases.
    fn with_nominated(&self, without: &OpenCases) -> OpenCases {
        let mut with = OpenCases::default();
        if self.nominated_cases.is_empty() {
            return with;
        }
        for (&at, case) in without.at.iter().zip(&without.cases) {
            if let Some(nominated) = self.nominated_cases.get(&case.node) {
                with.push(at, DryRunCase { plus: nominated.plus.clone(), ..case.clone() });
            }
        }
        with
    }

    fn filter(&mut self, mut open: OpenCases, statuses: &mut [Status]) -> Result<(), Status> {
        let Self { profile, call, skipped_filters, pods, .. } = self;
        let mut filters = profile.each::<dyn Filter>();
        while !open.cases.is_empty()
            && let Some((plugin, _)) = filters.next_but(profile, |plugin| skipped_filters.contains(plugin))
        {
            // A preemption asks thousands of questions. A plugin that takes long for each question is therefore not
            // asked all of them.
            if let Err(status) = profile.still_has_time(plugin) {
                return Err(broken(profile, plugin, &status));
            }
            let Some(point) = profile.get(plugin).and_then(|plugin| plugin.filter()) else { continue };
            let answers = match point.dry_run(call, &pods.pods, &open.cases) {
                Ok(answers) if answers.len() == open.cases.len() => answers,
                Ok(answers) => {
                    let text = format!("{} statuses for {} cases", answers.len(), open.cases.len());
                    return Err(broken(profile, plugin, &Status::error(text)));
                }
                Err(status) => return Err(broken(profile, plugin, &status)),
            };
            let mut kept = OpenCases::default();
            for ((at, case), status) in open.at.into_iter().zip(open.cases).zip(answers) {
                if status.is_success() {
                    kept.push(at, case);
                    continue;
                }
                // An error about one node says nothing about other nodes.
                let is_rejected = status.code.is_rejected();
                if let Some(slot) = statuses.get_mut(at) {
                    *slot = if is_rejected { status } else { broken(profile, plugin, &status) };
                }
            }
            open = kept;
        }
        Ok(())
    }
}
