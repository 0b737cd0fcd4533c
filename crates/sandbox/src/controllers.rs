//! Simulated controllers: what a cluster's controller manager does with the objects that a scheduler works with.
//!
//! All of them live in one task. It follows the collections named here; each change is shown to each controller, which
//! names the objects that need a look; those are then brought into order one after the other. A controller derives
//! everything from the stored objects and keeps nothing, so looking once too often does no harm. Workloads are as simple as
//! examples of scheduling need them; jobs, daemon sets and the general garbage collector are deliberately absent.

mod claim_templates;
mod dependents;
mod deployments;
mod disruption;
mod ephemeral_volumes;
mod owners;
mod provisioner;
mod replica_sets;
mod resource_claims;
mod stateful_sets;
mod volume_claims;
mod volume_match;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::select_all;
use serde_json::Value;

use crate::api::Api;
use crate::follow::Follower;
use crate::kinds::Kind;
use crate::object::{Object, as_map, metadata_mut};
use crate::status::{Answer, StatusError};
use crate::store::{ChangeKind, Collection, Forgotten, key};
use crate::write;

const PODS: &str = "pods";
const VOLUMES: &str = "persistentvolumes";
const VOLUME_CLAIMS: &str = "persistentvolumeclaims";
const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
const CLAIM_TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";
const BUDGETS: &str = "poddisruptionbudgets.policy";
const DEPLOYMENTS: &str = "deployments.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const SCALED: [&str; 4] = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, "replicationcontrollers"];

const CONTROLLERS: [&dyn Controller; 10] = [
    &ephemeral_volumes::EphemeralVolumes,
    &volume_claims::ClaimBinder,
    &volumes::VolumeKeeper,
    &claim_templates::ClaimTemplates,
    &resource_claims::ClaimKeeper,
    &disruption::BudgetKeeper,
    // Those that make pods, from here on: see `N_WITHOUT_WORKLOADS`.
    &deployments::Deployments,
    &replica_sets::ReplicaSets,
    &stateful_sets::StatefulSets,
    &dependents::Dependents,
];

/// So many come first that make no pods.
const N_WITHOUT_WORKLOADS: usize = 6;

/// Keeps one sort of objects in order.
trait Controller: Sync {
    /// The keys of the objects to look at after an observation.
    fn concerned(&self, api: &Api, observed: &Observed<'_>) -> Vec<String>;

    /// Looks at one object, which may be gone, and writes what is missing.
    fn reconcile(&self, api: &Api, key: &str) -> Answer<()>;
}

/// An object that has changed, or that is there when the controllers start.
#[derive(Debug)]
struct Observed<'a> {
    collection: &'static str,
    object: &'a Object,
    before: Option<&'a Object>,
    gone: bool,
}

impl Observed<'_> {
    fn key(&self) -> String {
        key(self.object.namespace(), self.object.name())
    }

    /// The state before, where there is one, and the state after.
    fn versions(&self) -> impl Iterator<Item = &Object> {
        self.before.into_iter().chain([self.object])
    }
}

/// What is to be looked at: the position of the controller, and the object's key.
type Work = BTreeSet<(usize, String)>;

/// Runs the controllers until the server stops: all, or all but those that make pods.
pub(crate) async fn run(api: Arc<Api>, with_workloads: bool) {
    let n_controllers = if with_workloads { CONTROLLERS.len() } else { N_WITHOUT_WORKLOADS };
    let single = [PODS, VOLUMES, VOLUME_CLAIMS, STORAGE_CLASSES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, BUDGETS];
    let follower = |name: &'static str| (name, Follower::new(api.store.collection(name)));
    let mut followers: Vec<(&'static str, Follower)> = single.into_iter().chain(SCALED).map(follower).collect();
    let mut stopping = api.stopping.clone();
    let mut work = everything(&api, &mut followers);
    loop {
        for (position, key) in std::mem::take(&mut work) {
            let Some(controller) = CONTROLLERS.get(position).filter(|_| position < n_controllers) else { continue };
            if let Err(error) = controller.reconcile(&api, &key) {
                tracing::debug!(key, ?error, "controller failed");
            }
        }
        work = changed(&api, &mut followers).unwrap_or_else(|_| everything(&api, &mut followers));
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

/// Work for all objects there are.
fn everything(api: &Api, followers: &mut [(&'static str, Follower)]) -> Work {
    let mut work = Work::new();
    for (collection, follower) in followers {
        for object in follower.state() {
            observe(api, &Observed { collection, object: &object, before: None, gone: false }, &mut work);
        }
    }
    work
}

/// Work after the latest changes.
fn changed(api: &Api, followers: &mut [(&'static str, Follower)]) -> Result<Work, Forgotten> {
    let mut work = Work::new();
    for (collection, follower) in followers {
        for change in follower.changes()? {
            let gone = change.kind == ChangeKind::Deleted;
            let observed = Observed { collection, object: &change.object, before: change.before.as_deref(), gone };
            observe(api, &observed, &mut work);
        }
    }
    Ok(work)
}

fn observe(api: &Api, observed: &Observed<'_>, work: &mut Work) {
    for (position, controller) in CONTROLLERS.iter().enumerate() {
        work.extend(controller.concerned(api, observed).into_iter().map(|key| (position, key)));
    }
}

/// Edits an object, again and again while others write it too. An edit that changes nothing writes nothing.
fn change(collection: &Collection, key: &str, edit: impl Fn(&mut Value)) {
    while let Some(current) = collection.get(key) {
        let mut next = current.value.clone();
        edit(&mut next);
        if next == current.value || write::commit(collection, key, &current, next).is_some() {
            return;
        }
    }
}

/// A built-in kind, which a controller needs for creating and deleting.
fn kind(api: &Api, group: &str, plural: &str) -> Answer<Arc<Kind>> {
    api.registry.built_in(group, plural).ok_or_else(StatusError::no_such_resource)
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default()
}

fn annotate(object: &mut Value, name: &str, text: &str) {
    let annotations = as_map(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    annotations.insert(name.to_owned(), text.into());
}

/// Removes an annotation, and the map of annotations with the last one.
fn remove_annotation(object: &mut Value, name: &str) {
    let metadata = metadata_mut(object);
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(name);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn is_leaving(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}
