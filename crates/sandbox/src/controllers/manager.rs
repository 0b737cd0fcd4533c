//! The task that the controllers share. The task follows their collections and reconciles the objects that a change
//! affects.

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

/// The controllers that create no pods, in the order in which they reconcile.
const CONTROLLERS: [&dyn Controller; 6] = [
    &volumes::ephemeral::EphemeralVolumeController,
    &volumes::claims::ClaimBinder,
    &volumes::phases::VolumePhaseController,
    &devices::claim_templates::ClaimTemplateController,
    &devices::claims::DeviceClaimController,
    &disruption_budgets::DisruptionBudgetController,
];

/// The controllers that create and remove pods. These controllers reconcile after the others.
const WORKLOAD_CONTROLLERS: [&dyn Controller; 4] = [
    &workloads::deployments::DeploymentController,
    &workloads::replica_sets::ReplicaSetController,
    &workloads::stateful_sets::StatefulSetController,
    &workloads::dependents::DependentController,
];

/// The reconciliations to do: the position of the controller, and the object's key.
type PendingWork = BTreeSet<(usize, String)>;

/// Runs the controllers until the server stops. If `with_workloads` is false, the controllers that create pods are left
/// out.
pub(crate) async fn run(state: Arc<ClusterState>, mut stopping: watch::Receiver<bool>, with_workloads: bool) {
    let workload_controllers = WORKLOAD_CONTROLLERS.into_iter().filter(|_| with_workloads);
    let mut manager = Manager::new(&state, CONTROLLERS.into_iter().chain(workload_controllers).collect());
    let mut work = manager.work_for_all();
    loop {
        manager.reconcile(work);
        work = manager.work_for_changes().unwrap_or_else(|_| manager.work_for_all());
        if !work.is_empty() {
            continue;
        }
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            more = manager.changed() => if !more { return },
        }
    }
}

struct Manager<'a> {
    state: &'a ClusterState,
    controllers: Vec<&'static dyn Controller>,
    /// One follower for each collection that a controller reads, with the name of the collection.
    followers: Vec<(&'static str, Follower)>,
}

impl<'a> Manager<'a> {
    fn new(state: &'a ClusterState, controllers: Vec<&'static dyn Controller>) -> Self {
        let unscaled = [PODS, VOLUMES, VOLUME_CLAIMS, STORAGE_CLASSES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, BUDGETS];
        let follower = |name: &'static str| (name, Follower::new(state.collection(name)));
        let followers = unscaled.into_iter().chain(SCALED).map(follower).collect();
        Self { state, controllers, followers }
    }

    fn reconcile(&self, work: PendingWork) {
        for (position, key) in work {
            let Some(controller) = self.controllers.get(position) else { continue };
            if let Err(error) = controller.reconcile(self.state, &key) {
                tracing::debug!(key, ?error, "controller failed");
            }
        }
    }

    /// The work for all objects that exist.
    fn work_for_all(&mut self) -> PendingWork {
        let mut work = PendingWork::new();
        for (collection, follower) in &mut self.followers {
            for object in follower.state() {
                let observed = Observed { collection, object: &object, before: None, gone: false };
                add_work(self.state, &self.controllers, &observed, &mut work);
            }
        }
        work
    }

    /// The work for the changes since the last call.
    fn work_for_changes(&mut self) -> Result<PendingWork, Forgotten> {
        let mut work = PendingWork::new();
        for (collection, follower) in &mut self.followers {
            for change in follower.changes()? {
                let gone = change.kind == ChangeKind::Deleted;
                let observed = Observed { collection, object: &change.object, before: change.before.as_deref(), gone };
                add_work(self.state, &self.controllers, &observed, &mut work);
            }
        }
        Ok(work)
    }

    /// Waits until a collection changes; false if there will be no further changes.
    async fn changed(&mut self) -> bool {
        let (more, _, _) =
            select_all(self.followers.iter_mut().map(|(_, follower)| Box::pin(follower.changed()))).await;
        more
    }
}

fn add_work(
    state: &ClusterState,
    controllers: &[&'static dyn Controller],
    observed: &Observed<'_>,
    work: &mut PendingWork,
) {
    for (position, controller) in controllers.iter().enumerate() {
        work.extend(controller.affected(state, observed).into_iter().map(|key| (position, key)));
    }
}
