//! Filter on nodes as they would be: what a PostFilter plugin asks before it takes pods away.

use std::collections::BTreeMap;

use berth_model::{Pod, PodIdx};

use super::{Attempt, Nominated, PluginBits, filter::broken};
use crate::{
    manifest::Point,
    plugin::{Call, DryRun, DryRunCase, Removal},
    profile::{PluginIdx, Profile},
    status::Status,
};

/// Filters nodes without some of their pods, for the pod whose attempt this is.
///
/// # Errors
/// A plugin broke.
pub fn dry_run(
    profile: &mut Profile,
    call: &Call<'_>,
    attempt: &Attempt,
    nominated: &Nominated<'_>,
    cases: &[Removal],
) -> Result<Vec<Status>, Status> {
    let skipped_filters = &attempt.skipped_filters;
    Trial { profile, call: *call, skipped_filters, nominated: *nominated }.dry_run(cases)
}

/// The Filter plugins of a profile, for one pod.
pub(super) struct Trial<'a> {
    pub(super) profile: &'a mut Profile,
    pub(super) call: Call<'a>,
    pub(super) skipped_filters: &'a PluginBits,
    pub(super) nominated: Nominated<'a>,
}

impl DryRun for Trial<'_> {
    /// Each node must pass twice if pods are nominated to it: with them, then without.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        let mut statuses = vec![Status::success(); cases.len()];
        let (pods, crowded, alone) = self.spell_out(cases);
        for round in [crowded, alone] {
            let standing =
                round.into_iter().filter(|(at, _)| statuses.get(*at).is_some_and(Status::is_success)).collect();
            self.filter(&pods, standing, &mut statuses)?;
        }
        Ok(statuses)
    }
}

/// Cases with the positions of their removals.
type Round = Vec<(usize, DryRunCase)>;

impl<'a> Trial<'a> {
    /// The pods that cases index into; the cases with nominated pods, where there are any; and the cases without.
    fn spell_out(&self, removals: &[Removal]) -> (Vec<&'a Pod>, Round, Round) {
        let mut pods: Vec<&Pod> = self.nominated.pods.to_vec();
        let mut known: BTreeMap<PodIdx, u32> = BTreeMap::new();
        let (mut crowded, mut alone) = (Round::new(), Round::new());
        for (at, removal) in removals.iter().enumerate() {
            let mut minus = Vec::with_capacity(removal.pods.len());
            for &idx in &removal.pods {
                let Some((pod, _)) = self.call.snapshot.pods().get(idx) else { continue };
                minus.push(*known.entry(idx).or_insert_with(|| {
                    pods.push(pod);
                    u32::try_from(pods.len() - 1).unwrap_or(u32::MAX)
                }));
            }
            if let Some(nominated) = self.nominated.cases.iter().find(|case| case.node == removal.node) {
                let case = DryRunCase { node: removal.node, minus: minus.clone(), plus: nominated.plus.clone() };
                crowded.push((at, case));
            }
            alone.push((at, DryRunCase { node: removal.node, minus, plus: Vec::new() }));
        }
        (pods, crowded, alone)
    }

    fn filter(&mut self, pods: &[&Pod], mut standing: Round, statuses: &mut [Status]) -> Result<(), Status> {
        for position in 0..self.profile.plugins.at(Point::Filter).len() {
            if standing.is_empty() {
                break;
            }
            let Some(plugin) = self.profile.plugins.at(Point::Filter).get(position).copied() else { break };
            let cases: Vec<DryRunCase> = standing.iter().map(|(_, case)| case.clone()).collect();
            let Some(answers) = self.ask(plugin, pods, &cases)? else { continue };
            let mut kept = Vec::with_capacity(standing.len());
            for ((at, case), status) in standing.into_iter().zip(answers) {
                if status.is_success() {
                    kept.push((at, case));
                } else if status.code.is_rejected() {
                    if let Some(slot) = statuses.get_mut(at) {
                        *slot = status;
                    }
                } else {
                    return Err(broken(self.profile, plugin, &status));
                }
            }
            standing = kept;
        }
        Ok(())
    }

    /// `None` if the plugin has nothing to say in this cycle.
    fn ask(&mut self, plugin: PluginIdx, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Option<Vec<Status>>, Status> {
        if self.skipped_filters.contains(plugin) {
            return Ok(None);
        }
        let Some(point) = self.profile.get(plugin).and_then(|plugin| plugin.filter()) else { return Ok(None) };
        let statuses = match point.dry_run(&self.call, pods, cases) {
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
