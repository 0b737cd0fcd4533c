//! What the engine's API server holds: pods that wait for a node, and the objects that plugins write to.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use berth_framework::Effect;
use berth_model::{ObjectKey, api};
use berth_scheduler::{Event, StatusChange};
use serde_json::{Value, json};

use crate::workload::Change;

#[derive(Debug, Default)]
pub(super) struct ApiServer {
    /// Pods without a node, by uid.
    pending: BTreeMap<String, Box<api::Pod>>,
    objects: BTreeMap<ObjectKey, Value>,
    n_versions: u64,
}

/// A pod that has its node.
pub(super) struct BoundPod {
    /// As the watch shows it.
    pub(super) event: Event,
    /// Whether it was created to be placed, and not to make trouble.
    pub(super) measured: bool,
}

/// Pods whose names begin like this come while others are measured, and do not count.
const CHURN: &str = "churn-";

impl ApiServer {
    /// Takes the object in; what the watch then shows.
    pub(super) fn create(&mut self, object: &Value) -> Result<Event> {
        self.n_versions += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.n_versions.to_string());
        match object["kind"].as_str() {
            Some("Node") => Ok(Event::NodeApplied(Box::new(serde_json::from_value(object)?))),
            Some("Pod") => {
                let pod: Box<api::Pod> = Box::new(serde_json::from_value(object)?);
                if pod.spec.node_name.is_empty() {
                    self.pending.insert(pod.metadata.uid.clone(), pod.clone());
                }
                Ok(Event::PodApplied(pod))
            }
            Some(_) => self.apply(object),
            None => anyhow::bail!("an object without a kind: {object}"),
        }
    }

    pub(super) fn change(&mut self, change: &Change) -> Result<Event> {
        match change {
            Change::Create(object) => self.create(object),
            Change::Delete(object) => self.delete(object),
        }
    }

    pub(super) fn delete(&mut self, object: &Value) -> Result<Event> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Ok(match object["kind"].as_str() {
            Some("Node") => Event::NodeDeleted { name: text("name") },
            Some("Pod") => self.pod_deleted(text("namespace"), text("name"), text("uid")),
            Some(_) => {
                let key = ObjectKey::of(object);
                self.objects.remove(&key);
                Event::ObjectDeleted { resource: resource(&key), key }
            }
            None => anyhow::bail!("an object without a kind: {object}"),
        })
    }

    fn pod_deleted(&mut self, namespace: String, name: String, uid: String) -> Event {
        self.pending.remove(&uid);
        Event::PodDeleted { namespace, name, uid }
    }

    fn apply(&mut self, object: Value) -> Result<Event> {
        let key = ObjectKey::of(&object);
        let json = serde_json::to_vec(&object)?.into();
        self.objects.insert(key.clone(), object);
        Ok(Event::ObjectApplied { resource: resource(&key), key, json })
    }

    /// The pod on its node; `None` if it was deleted meanwhile.
    pub(super) fn bind(&mut self, uid: &str, node: &str) -> Option<BoundPod> {
        let mut pod = self.pending.remove(uid)?;
        node.clone_into(&mut pod.spec.node_name);
        let measured = !pod.metadata.name.starts_with(CHURN);
        Some(BoundPod { event: Event::PodApplied(pod), measured })
    }

    /// The pod with another status; `None` if it is not pending.
    pub(super) fn patch_status(&mut self, uid: &str, change: &StatusChange) -> Option<Event> {
        self.n_versions += 1;
        let pod = self.pending.get_mut(uid)?;
        pod.metadata.resource_version = self.n_versions.to_string();
        if let Some(condition) = &change.condition {
            pod.status.conditions.retain(|known| known.type_ != condition.type_);
            pod.status.conditions.push(condition.clone());
        }
        if let Some(node) = &change.nominated_node_name {
            pod.status.nominated_node_name.clone_from(node);
        }
        Some(Event::PodApplied(pod.clone()))
    }

    /// Does what a plugin wants done; what the watch then shows.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for effect in effects {
            match effect {
                Effect::Evict { namespace, name, uid, .. } => events.push(self.pod_deleted(namespace, name, uid)),
                Effect::Patch { kind, namespace, name, patch, .. } => {
                    let (api_version, kind) = kind.rsplit_once('/').context("a patch of a kind without a version")?;
                    let key = ObjectKey { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace, name };
                    let patch: Value = serde_json::from_slice(&patch)?;
                    events.extend(self.patch(&key, &patch)?);
                }
                // No workload has a plugin ask for one of these.
                Effect::Create { .. }
                | Effect::Delete { .. }
                | Effect::Bind
                | Effect::Allow { .. }
                | Effect::Reject { .. }
                | Effect::Activate { .. }
                | Effect::Nominate { .. }
                | Effect::Event { .. }
                | Effect::Wait { .. } => {}
            }
        }
        Ok(events)
    }

    fn patch(&mut self, key: &ObjectKey, patch: &Value) -> Result<Option<Event>> {
        let Some(mut object) = self.objects.get(key).cloned() else { return Ok(None) };
        json_patch::merge(&mut object, patch);
        self.n_versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.n_versions.to_string());
        self.apply(object).map(Some)
    }
}

/// The name under which plugins register for events of a kind.
fn resource(key: &ObjectKey) -> String {
    match key.api_version.split_once('/') {
        Some((group, _)) => format!("{group}/{}", key.kind),
        None => key.kind.clone(),
    }
}
