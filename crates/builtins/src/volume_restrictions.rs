//! VolumeRestrictions: keeps pods apart that cannot share a volume. Some in-tree disks cannot be used by two pods on one
//! node, and a claim with access mode `ReadWriteOncePod` cannot be used by two pods anywhere.

mod usage;

use std::sync::Arc;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, EventSubject, Filter, Follow, HintCall, PreFilter, QueueingHint,
    RejectedNodes, Status,
};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, ObjectView, Pod};

use self::usage::{Usage, conflicts_between};
use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    case_walk::CaseWalk,
    hints,
    node_check::check_each,
    storage::{self, ClaimError, PersistentVolumeClaim},
};

/// Compares the pod's volumes with the volumes of placed pods.
#[derive(Debug)]
pub struct VolumeRestrictions {
    claims: ObjectView<PersistentVolumeClaim>,
    usage: Usage,
    /// Claims of the cycle's pod that no other pod may use.
    exclusive: Vec<Arc<str>>,
    /// The number of exclusive claims that placed pods use.
    n_taken: i64,
    /// Nodes with a pod that uses one of the pod's disks.
    blocked: NodeSet,
}

impl BuiltIn for VolumeRestrictions {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "VolumeRestrictions",
        columns: &[Column::Name],
        pods: true,
        objects: &[storage::CLAIM],
        events_to_register: &[
            ("Pod", ClusterEvent::DELETE),
            ("Node", ClusterEvent::ADD),
            ("PersistentVolumeClaim", ClusterEvent::ADD),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self {
            claims: storage::CLAIM.view(),
            usage: Usage::default(),
            exclusive: Vec::new(),
            n_taken: 0,
            blocked: NodeSet::default(),
        })
    }
}

plugin!(VolumeRestrictions: PreFilter, Filter, QueueingHint, Sign; Follow, Reuse);

impl Follow for VolumeRestrictions {
    fn follow(&mut self, table: &ClusterTable) {
        self.claims.refresh(table.objects());
        self.usage.follow(table.pods());
    }
}

impl VolumeRestrictions {
    fn find_exclusive_claims(&mut self, call: &Call<'_>) -> Result<(), Status> {
        self.exclusive.clear();
        let namespace = storage::namespace(call.pod, &call.table.symbols);
        for name in storage::named_claims(call.pod) {
            let Some(claim) = self.claims.get(namespace, name) else {
                return Err(Status::unresolvable(ClaimError::not_found(name).to_string()));
            };
            let is_exclusive = claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
            if is_exclusive && !self.is_exclusive(name) {
                self.exclusive.push(Arc::from(name));
            }
        }
        Ok(())
    }

    fn is_exclusive(&self, claim: &str) -> bool {
        self.exclusive.iter().any(|exclusive| **exclusive == *claim)
    }

    /// The number of claims in [`Self::exclusive`] that the pod uses. The namespace of the pod is not compared, as in
    /// kube-scheduler (`pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`,
    /// `conflictingPVCRefCountForPod`).
    fn n_taken_by(&self, pod: &Pod) -> i64 {
        storage::named_claims(pod).filter(|claim| self.is_exclusive(claim)).map(|_| 1).sum()
    }

    /// Whether the node has conflicts after `change` conflicts were added. If `change` is negative, conflicts were
    /// removed.
    fn is_blocked_after(&self, call: &Call<'_>, node: NodeIdx, change: i64) -> bool {
        let is_blocked = self.blocked.contains(node);
        let n_now = if is_blocked { self.usage.n_conflicts(call.pod, node) } else { 0 };
        count(n_now).saturating_add(change) > 0
    }
}

fn count(n_conflicts: usize) -> i64 {
    i64::try_from(n_conflicts).unwrap_or(i64::MAX)
}

fn verdict(is_blocked: bool, n_taken: i64) -> Status {
    if is_blocked {
        Status::unschedulable("node(s) had no available disk")
    } else if n_taken > 0 {
        Status::unschedulable(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        )
    } else {
        Status::success()
    }
}

impl VolumeRestrictions {
    fn check(&self, node: NodeIdx) -> Status {
        verdict(self.blocked.contains(node), self.n_taken)
    }
}

impl PreFilter for VolumeRestrictions {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        Follow::follow(self, call.table);
        self.find_exclusive_claims(call)?;
        let in_use = self.exclusive.iter().filter(|claim| self.usage.is_claim_used(call.pod.namespace, claim));
        self.n_taken = in_use.map(|_| 1).sum();
        self.blocked.clear();
        let has_disks = self.usage.block(call.pod, &mut self.blocked);
        if !has_disks && self.n_taken == 0 { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for VolumeRestrictions {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        if self.n_taken > 0 {
            candidates.clear();
        } else {
            candidates.subtract(&self.blocked);
        }
        Ok(())
    }

    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(check_each(rejected, |node| self.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let n_taken_now = if self.exclusive.is_empty() { 0 } else { self.n_taken };
        let (mut walk, mut n_conflicts, mut n_taken) = (CaseWalk::new(pods), 0, n_taken_now);
        let check = |case| {
            walk.step(case, |pod, sign| {
                n_conflicts += sign * count(conflicts_between(call.pod, pod));
                n_taken += sign * self.n_taken_by(pod);
            });
            verdict(self.is_blocked_after(call, case.node, n_conflicts), n_taken)
        };
        Ok(cases.iter().map(check).collect())
    }
}

impl QueueingHint for VolumeRestrictions {
    /// Whether a removed pod of the same namespace used one of the pod's disks or claims, or a claim of the pod
    /// appeared.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        match call.subject {
            EventSubject::Pod { old: Some(old), new: None } => {
                let shares_claim = || storage::named_claims(old).any(|claim| names(call.pod, claim));
                old.namespace == call.pod.namespace && (conflicts_between(call.pod, old) > 0 || shares_claim())
            }
            EventSubject::Object { key, .. } => hints::names_claim(call.pod, key, &call.table.symbols),
            EventSubject::Pod { .. } | EventSubject::Node { .. } | EventSubject::Hidden => true,
        }
    }
}

fn names(pod: &Pod, claim: &str) -> bool {
    storage::named_claims(pod).any(|name| name == claim)
}

#[cfg(test)]
mod tests;
