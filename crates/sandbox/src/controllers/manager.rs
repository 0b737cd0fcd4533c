//! The task that the controllers share: it follows their collections and reconciles what changes affect.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::select_all;
use tokio::sync::watch;

use super::collections::{
    BUDGETS, CLAIM_TEMPLATES, PODS, RESOURCE_CLAIMS, SCALED, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES,
};
use super::controller::{Controller, Observed};
use super::{devices, disruption_budgets, volumes, workloads};
use crate::state::ClusterState;
use crate::storage::{ChangeKind, Follower, Forgotten};

/// The controllers, in the order in which they reconcile.
const CONTROLLERS: [&dyn Controller; 10] = [
    &volumes::ephemeral::EphemeralVolumeController,
    &volumes::claims::ClaimBinder,
    &volumes::phases::VolumePhaseController,
    &devices::claim_templates::ClaimTemplateController,
    &devices::claims::DeviceClaimController,
    &disruption_budgets::DisruptionBudgetController,
    // Those that make pods, from here on: see `N_WITHOUT_WORKLOADS`.
    &workloads::deployments::DeploymentController,
    &workloads::replica_sets::ReplicaSetController,
    &workloads::stateful_sets::StatefulSetController,
    &workloads::dependents::DependentController,
];

/// How many of the controllers, from the first on, make no pods.
const N_WITHOUT_WORKLOADS: usize = 6;

/// What is to be looked at: the position of the controller, and the object's key.
type PendingWork = BTreeSet<(usize, String)>;

/// Runs the controllers until the server stops: all, or all but those that make pods.
pub(crate) async fn run(state: Arc<ClusterState>, mut stopping: watch::Receiver<bool>, with_workloads: bool) {
    let n_controllers = if with_workloads { CONTROLLERS.len() } else { N_WITHOUT_WORKLOADS };
    let single = [PODS, VOLUMES, VOLUME_CLAIMS, STORAGE_CLASSES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, BUDGETS];
    let follower = |name: &'static str| (name, Follower::new(state.collection(name)));
    let mut followers: Vec<(&'static str, Follower)> = single.into_iter().chain(SCALED).map(follower).collect();
    let mut work = everything(&state, &mut followers);
    loop {
        for (position, key) in std::mem::take(&mut work) {
            let Some(controller) = CONTROLLERS.get(position).filter(|_| position < n_controllers) else { continue };
            if let Err(error) = controller.reconcile(&state, &key) {
                tracing::debug!(key, ?error, "controller failed");
            }
        }
        work = changed(&state, &mut followers).unwrap_or_else(|_| everything(&state, &mut followers));
        if !work.is_empty() {
            continue;
        }
        let more = select_all(followers.iter_mut().map(|(_, follower)| Box::pin(follower.changed())));
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            (more, _, _) = more => if !more { return },
        }
    }
}

/// The work for all objects there are.
fn everything(state: &ClusterState, followers: &mut [(&'static str, Follower)]) -> PendingWork {
    let mut work = PendingWork::new();
    for (collection, follower) in followers {
        for object in follower.state() {
            observe(state, &Observed { collection, object: &object, before: None, gone: false }, &mut work);
        }
    }
    work
}

/// Work after the latest changes.
fn changed(state: &ClusterState, followers: &mut [(&'static str, Follower)]) -> Result<PendingWork, Forgotten> {
    let mut work = PendingWork::new();
    for (collection, follower) in followers {
        for change in follower.changes()? {
            let gone = change.kind == ChangeKind::Deleted;
            let observed = Observed { collection, object: &change.object, before: change.before.as_deref(), gone };
            observe(state, &observed, &mut work);
        }
    }
    Ok(work)
}

fn observe(state: &ClusterState, observed: &Observed<'_>, work: &mut PendingWork) {
    for (position, controller) in CONTROLLERS.iter().enumerate() {
        work.extend(controller.affected(state, observed).into_iter().map(|key| (position, key)));
    }
}
