//! Runs the plugins of a profile on one pod: a scheduling cycle without queue, cache or effects.
//!
//! [`place`] does the whole work from a pod to a node: [`pre_filter`], [`list_candidates`], [`filter`], then either
//! [`score`] and [`Attempt::choose`] or, when no node passed, [`diagnose`]. All of these functions write into one
//! [`Attempt`]. [`place`] returns what the cycle decided as a [`Decision`].

mod bind;
mod class_answers;
mod decision;
mod diagnosis;
mod dry_run;
mod extend;
mod filter;
mod kept_answers;
mod nominated;
mod place;
mod pre_bind;
mod pre_filter;
mod score;
mod score_column;
mod select;
mod sign;
#[cfg(test)]
mod tests;

use std::iter;

use berth_model::{NodeIdx, NodeSet};

pub use self::{
    bind::{BindRun, PermitRun, bind, permit, permit_again, post_bind, post_filter, reserve, unreserve},
    class_answers::ClassAnswers,
    decision::{
        Decision, EarlierAnswers, Findings, HintOutcome, NoNode, NodeVerdict, PluginScores, PreFilterAnswer,
        Restriction, Sample, SearchRange,
    },
    diagnosis::{Diagnosis, PostFilterRun, Rejection, histogram},
    dry_run::dry_run,
    filter::{diagnose, diagnose_every_plugin, filter, filter_one, list_candidates},
    nominated::NominatedPods,
    place::{Hint, NodeSearch, place},
    pre_bind::{PreBindRun, PreFlights, pre_bind, pre_bind_again, pre_bind_pre_flight},
    pre_filter::{PreFilterOutcome, pre_filter},
    score::{MAX_SCORE, score},
    select::Ranking,
    sign::{Signature, sign, signs_by_class},
};
pub use crate::profile::Refusal;
use crate::{
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// A set of plugins of one profile. A set for a profile with up to 64 plugins needs no heap memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginBits {
    first: u64,
    /// The plugins after the first 64.
    others: Vec<u64>,
}

impl PluginBits {
    /// Whether `plugin` is in the set.
    #[must_use]
    pub fn contains(&self, plugin: PluginIdx) -> bool {
        let (word, bit) = (plugin.index() / 64, plugin.index() % 64);
        let word = word.checked_sub(1).map_or(Some(self.first), |at| self.others.get(at).copied());
        word.is_some_and(|word| word >> bit & 1 == 1)
    }

    /// Whether no plugin is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// Adds `plugin`. [`PluginIdx::NOBODY`] is in no set and changes nothing.
    pub fn insert(&mut self, plugin: PluginIdx) {
        if plugin == PluginIdx::NOBODY {
            return;
        }
        let (word, bit) = (plugin.index() / 64, plugin.index() % 64);
        if word > self.others.len() {
            self.others.resize(word, 0);
        }
        let word = word.checked_sub(1).map_or(Some(&mut self.first), |at| self.others.get_mut(at));
        if let Some(word) = word {
            *word |= 1 << bit;
        }
    }

    /// Empties the set, and keeps its buffer.
    pub fn clear(&mut self) {
        self.first = 0;
        self.others.clear();
    }

    /// The members in the order of the profile.
    pub fn iter(&self) -> impl Iterator<Item = PluginIdx> + '_ {
        let bits =
            |(at, word): (u32, u64)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit);
        (0..).zip(self.words()).flat_map(bits).map(PluginIdx)
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// The working state of a cycle: its findings so far, and buffers that the next cycle reuses.
///
/// [`place`] moves the findings into its [`Decision`]. The steps may also be called one by one. Each step needs the
/// findings of the steps before it.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    findings: Findings,
    /// The nodes to look at, in the cluster's order. The list is empty in a cycle that found a node by earlier answers.
    candidates: Vec<NodeIdx>,
    batch: NodeSet,
    before: NodeSet,
}

impl Attempt {
    /// Empties everything, and keeps the buffers.
    pub fn clear(&mut self) {
        self.findings.clear();
        self.candidates.clear();
    }

    /// Reuses the buffers of a decision that is no longer read.
    pub fn recycle(&mut self, decision: Decision) {
        self.findings = decision.findings;
    }

    /// The findings of the cycle so far. After [`place`] the findings are in the [`Decision`].
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The nodes to look at, in the cluster's order.
    #[must_use]
    pub fn candidates(&self) -> &[NodeIdx] {
        &self.candidates
    }

    /// Sets the nodes that [`filter`] looks at.
    pub fn set_candidates(&mut self, nodes: &[NodeIdx]) {
        self.candidates.clear();
        self.candidates.extend_from_slice(nodes);
    }

    /// Sets the nodes that [`score`] asks about, as if they had passed in the order of their rows.
    pub fn set_feasible(&mut self, nodes: NodeSet) {
        self.findings.clear_verdicts();
        self.findings.feasible_order.extend(nodes.iter());
        self.findings.feasible = nodes;
    }

    /// Chooses a node among the nodes that [passed](Findings::feasible); `None` if no node passed. If several nodes
    /// have the highest [total](Findings::totals), their places in [`Findings::feasible_order`] decide, as in
    /// kube-scheduler.
    pub fn choose(&mut self) -> Option<NodeIdx> {
        let Self { findings: Findings { feasible_order, feasible, totals, .. }, batch, .. } = self;
        select::select(feasible_order, feasible, totals, batch)
    }
}

impl Refusal {
    /// The refusal of a plugin. A rejection stays unchanged. Any other status becomes an error that names the plugin.
    fn new(profile: &Profile, plugin: PluginIdx, status: Status, doing: &str) -> Self {
        if status.code.is_rejected() {
            return Self { plugin, status };
        }
        let text = match status.code {
            Code::Error => status.message(),
            Code::Success
            | Code::Unschedulable
            | Code::UnschedulableAndUnresolvable
            | Code::Wait
            | Code::Skip
            | Code::Pending => format!("unexpected status {}: {}", status.code.as_str(), status.message()),
        };
        Self { plugin, status: Status::error(format!("running {doing} plugin \"{}\": {text}", profile.name(plugin))) }
    }
}

/// Informs a plugin that the pod of an open cycle has changed.
fn tell_pod_changed(
    profile: &mut Profile,
    plugin: PluginIdx,
    call: &crate::Call<'_>,
    doing: &str,
) -> Result<(), Refusal> {
    let hosted = profile.get(plugin).and_then(|plugin| plugin.hosted());
    let told = hosted.map_or(Ok(()), |hosted| hosted.pod_changed(call));
    told.map_err(|status| Refusal::new(profile, plugin, status, doing))
}
