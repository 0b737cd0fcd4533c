//! Coscheduling: either all pods of a PodGroup are bound, or none of them.
//!
//! A pod with the label `scheduling.x-k8s.io/pod-group: NAME` belongs to the PodGroup of that name in its namespace
//! (`podgroup.yaml` has the custom resource's definition). Members gather at Permit. Each member holds its place on a
//! node until `spec.minMember` members have a place. Then all members are released. A pod that waits longer than
//! `spec.scheduleTimeoutSeconds` (or the argument `permitWaitingTimeSeconds`, 60 by default) is rejected. If a member
//! fits nowhere, the other members are rejected immediately, so that their places are free again.
//!
//! Groups gather one after the other, because two groups that each held half of the cluster would both wait until their
//! time ends. A group that gave up rests as a whole for `podGroupBackoffSeconds` (10 by default), or until another pod
//! leaves or a node comes.

mod gathering;
mod groups;
mod rest;

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Code, Configure, ConfigureError, CycleId, DryRun, Effect, EndCycle, Failure, Manifest,
        Needs, ObjectKind, Permit, PermitVerdict, PostFilter, PostFilterOutcome, PreFilter, Reserve, Status,
    },
    model::NodeIdx,
};
use serde::Deserialize;

use crate::{
    gathering::Gathering,
    groups::{API_VERSION, GroupName, Groups, KIND},
    rest::Rest,
};

berth_sdk::plugin!(Coscheduling: PreFilter, PostFilter, Reserve, Permit; EndCycle);
berth_sdk::export!(Coscheduling);

/// `pluginConfig` of Coscheduling.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Args {
    permit_waiting_time_seconds: u64,
    pod_group_backoff_seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { permit_waiting_time_seconds: 60, pod_group_backoff_seconds: 10 }
    }
}

/// The plugin: the groups, the pods that wait, and the groups that rest.
#[derive(Debug)]
pub struct Coscheduling {
    args: Args,
    groups: Groups,
    gathering: Gathering,
    rest: Rest,
    /// The number of nodes at the last call of [`Self::refresh`].
    n_nodes: usize,
    /// Milliseconds since 1970.
    clock: fn() -> u64,
}

impl Coscheduling {
    /// Reads the changes of the cluster. A group that rests may try again when there is more room.
    fn refresh(&mut self, call: &Call<'_>) {
        let now = (self.clock)();
        let rest = &mut self.rest;
        let has_room = self.groups.refresh(call.table, |group| !rest.contains(group, now));
        let n_nodes = call.table.n_nodes();
        if has_room || n_nodes > self.n_nodes {
            self.rest.end_all();
        }
        self.n_nodes = n_nodes;
    }

    /// Begins the rest of a group that gave up.
    fn begin_rest(&mut self, group: &GroupName) {
        let milliseconds = self.args.pod_group_backoff_seconds.saturating_mul(1000);
        self.rest.begin(group, (self.clock)().saturating_add(milliseconds));
    }
}

impl Configure for Coscheduling {
    fn describe() -> Manifest {
        let kind = ObjectKind { api_version: API_VERSION.to_owned(), kind: KIND.to_owned() };
        let group_events = ClusterEvent::new("podgroups.v1alpha1.scheduling.x-k8s.io", ClusterEvent::ALL);
        Manifest {
            name: "Coscheduling".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { pods: true, objects: vec![kind], ..Needs::default() },
            events_to_register: Some(vec![
                group_events,
                ClusterEvent::new("Pod", ClusterEvent::ADD | ClusterEvent::DELETE),
                ClusterEvent::new("Node", ClusterEvent::ADD),
            ]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        let args: Args = berth_sdk::decode_args(args)?;
        if args.permit_waiting_time_seconds == 0 {
            return Err("permitWaitingTimeSeconds: must be greater than zero".into());
        }
        let (groups, gathering, rest) = (Groups::default(), Gathering::default(), Rest::default());
        Ok(Self { args, groups, gathering, rest, n_nodes: 0, clock: berth_sdk::now })
    }
}

impl EndCycle for Coscheduling {
    fn end_cycle(&mut self, cycle: CycleId) {
        self.gathering.leave(cycle);
    }
}

impl PreFilter for Coscheduling {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.refresh(call);
        let Some(group) = self.groups.of(call) else { return Ok(None) };
        if self.groups.get(&group).is_none() {
            return Err(Status::unresolvable(format!("waiting for pod group {group} to be created")));
        }
        if self.rest.contains(&group, (self.clock)()) {
            return Err(Status::unresolvable(format!("pod group {group} did not fit lately")));
        }
        match self.gathering.group() {
            Some(other) if *other != group => {
                Err(Status::unresolvable(format!("waiting for pod group {other}, which is gathering")))
            }
            _ => Ok(None),
        }
    }
}

impl PostFilter for Coscheduling {
    /// If one member fits nowhere, the other members need not hold their places.
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let nothing = Status { code: Code::Unschedulable, reasons: Vec::new() };
        let mut outcome = PostFilterOutcome { status: nothing, nominate: None, effects: Vec::new() };
        let Some(group) = self.groups.of(call) else { return Ok(outcome) };
        let reason = format!("pod group {group}: {} fits nowhere", call.pod.name);
        let waiting = self.gathering.waiting_of(&group);
        outcome.effects = waiting.map(|uid| Effect::Reject { uid: uid.to_string(), reason: reason.clone() }).collect();
        self.begin_rest(&group);
        if !outcome.effects.is_empty() {
            outcome.status = Status::unschedulable(format!("pod group {group} was sent back"));
        }
        Ok(outcome)
    }
}

impl Reserve for Coscheduling {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        self.refresh(call);
        if let Some(group) = self.groups.of(call) {
            self.gathering.join(group, call.cycle, &call.pod.uid);
        }
        Status::success()
    }

    /// If the time of a waiting member ended or the member was rejected, its group begins its rest.
    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        if self.gathering.is_waiting(call.cycle)
            && let Some(group) = self.groups.of(call)
        {
            self.begin_rest(&group);
        }
        self.gathering.leave(call.cycle);
        Vec::new()
    }
}

impl Permit for Coscheduling {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let Some(group) = self.groups.of(call) else { return (PermitVerdict::Allow, Vec::new()) };
        let Some(spec) = self.groups.get(&group) else {
            let status = Status::unschedulable(format!("pod group {group} was deleted"));
            return (PermitVerdict::Deny(status), Vec::new());
        };
        let n_members = self.groups.count_with(call.table, &group, self.gathering.waiting_of(&group));
        if n_members >= spec.min_member {
            let others = self.gathering.waiting_of(&group).filter(|uid| **uid != call.pod.uid);
            let effects = others.map(|uid| Effect::Allow { uid: uid.to_string() }).collect();
            self.gathering.complete();
            return (PermitVerdict::Allow, effects);
        }
        let seconds = spec.schedule_timeout_seconds.unwrap_or(self.args.permit_waiting_time_seconds);
        (PermitVerdict::Wait(seconds.saturating_mul(1000)), Vec::new())
    }
}

#[cfg(test)]
mod tests;
