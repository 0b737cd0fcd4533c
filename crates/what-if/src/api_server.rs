//! An API server in memory that accepts every request immediately, and the controllers that pods with volumes need.
//!
//! The API server contains pods that wait for a node, and the objects that plugins write to. It returns each change as
//! the scheduler's [`Event`], as if a watch had reported the change.

mod strategic;
mod take_over;

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{Effect, PatchType};
use berth_model::{KindRef, ObjectKey, api};
use berth_scheduler::{Action, Event, HostObjects, PodRef, PodRequest, Request, StatusChange};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

pub use self::strategic::merge_strategically;
use crate::volumes;

/// The pods that wait for a node, and the objects that plugins write to.
#[derive(Debug, Default)]
pub struct ApiServer {
    /// The pods without a node, by uid.
    pending: FxHashMap<String, Box<api::Pod>>,
    objects: BTreeMap<ObjectKey, Value>,
    n_versions: u64,
    /// The objects before each change since [`Self::begin_journal`].
    journal: Option<Journal>,
}

/// The objects before each change; `None` for an object that did not exist.
pub(crate) type Journal = Vec<(ObjectKey, Option<Value>)>;

/// A change that the scheduler caused to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pod was bound to its node.
    Bound {
        /// The pod.
        pod: PodRef,
        /// `metadata.name` of the node.
        node: Arc<str>,
    },
    /// The pod made room for another pod, and no longer exists.
    Evicted {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// `metadata.uid`.
        uid: String,
    },
}

/// The reason why the API server did not fulfil a request.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// An object cannot be read.
    #[error("{object}: {error}")]
    Object {
        /// The object as JSON.
        object: String,
        /// The error in the object.
        #[source]
        error: serde_json::Error,
    },
    /// An object has no kind.
    #[error("the object has no kind: {0}")]
    NoKind(String),
    /// A plugin asks for an object that is invalid.
    #[error("a plugin asked for an invalid change of {kind}: {reason}")]
    Effect {
        /// `apiVersion/kind`.
        kind: String,
        /// The mistake in the object.
        reason: String,
    },
    /// A plugin must be prepared with data that no longer exists.
    #[error("the data to prepare a plugin with was already used")]
    Preparation,
}

type Result<T, E = ApiServerError> = std::result::Result<T, E>;

impl ApiServer {
    /// Adds the object, and returns the event of the watch.
    ///
    /// # Errors
    /// The object has no kind, or is a pod or node that cannot be read.
    pub fn create(&mut self, object: &Value) -> Result<Event> {
        match object["kind"].as_str() {
            Some("Node") => Ok(Event::NodeApplied(Box::new(self.decode(object)?))),
            Some("Pod") => {
                let pod = self.decode(object)?;
                Ok(self.create_pod(Box::new(pod)))
            }
            Some(_) => Ok(self.apply(object.clone())),
            None => Err(ApiServerError::NoKind(object.to_string())),
        }
    }

    fn decode<T: serde::de::DeserializeOwned>(&mut self, object: &Value) -> Result<T> {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        T::deserialize(&object).map_err(|error| ApiServerError::Object { object: object.to_string(), error })
    }

    /// Adds a pod that was read before. Its resource version stays unchanged.
    pub fn create_pod(&mut self, pod: Box<api::Pod>) -> Event {
        if pod.spec.node_name.is_empty() {
            self.pending.insert(pod.metadata.uid.clone(), pod.clone());
        }
        Event::PodApplied(pod)
    }

    /// Removes the object, and returns the event of the watch.
    ///
    /// # Errors
    /// The object has no kind.
    pub fn delete(&mut self, object: &Value) -> Result<Event> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str() {
            Some("Node") => Ok(Event::NodeDeleted { name: text("name") }),
            Some("Pod") => Ok(self.delete_pod(text("namespace"), text("name"), text("uid"))),
            Some(_) => Ok(self.remove(ObjectKey::of(object))),
            None => Err(ApiServerError::NoKind(object.to_string())),
        }
    }

    /// Removes a pod by its names.
    pub fn delete_pod(&mut self, namespace: String, name: String, uid: String) -> Event {
        self.pending.remove(&uid);
        Event::PodDeleted { namespace, name, uid }
    }

    /// An object that is neither a pod nor a node.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key)
    }

    /// Carries out the scheduler's request. Events for the scheduler are added to `events`, and changes of pods to
    /// `changes`.
    ///
    /// # Errors
    /// The effect of a plugin cannot be read.
    pub fn perform(
        &mut self,
        action: Action,
        objects: &HostObjects,
        events: &mut Vec<Event>,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        match action {
            Action::Pod(PodRequest { pod, request: Request::Bind { cycle, node }, .. }) => {
                events.push(Event::BindFinished { cycle, uid: pod.uid.clone(), result: Ok(()) });
                if let Some(bound) = self.bind(&pod.uid, &node) {
                    events.push(bound);
                    changes.push(Change::Bound { pod, node });
                }
            }
            Action::Pod(PodRequest { pod, request: Request::PatchStatus(change), .. }) => {
                events.extend(self.patch_status(&pod.uid, &change));
            }
            Action::Pod(PodRequest { request: Request::Effects(requested), .. }) => {
                self.carry_out(requested.effects.into_iter().map(|granted| granted.effect), events, changes)?;
            }
            Action::Pod(PodRequest { pod, request: Request::AwaitedEffects(requested), .. }) => {
                self.carry_out(requested.effects.into_iter().map(|granted| granted.effect), events, changes)?;
                let (cycle, plugin) = (requested.cycle, requested.plugin);
                events.push(Event::EffectsFinished { cycle, uid: pod.uid, plugin, result: Ok(()) });
            }
            Action::PreparePlugin { preparation, .. } => {
                let preparation = objects.take(preparation).ok_or(ApiServerError::Preparation)?;
                events.push(Event::plugin_prepared(objects, preparation.run()));
            }
            // A simulation has no extenders.
            Action::Pod(PodRequest { request: Request::BindByExtender { .. }, .. })
            | Action::Supervise(_)
            | Action::Notice(_)
            | Action::Traced(_) => {}
        }
        Ok(())
    }

    /// Sets the pod's node. `None` if the pod was deleted before the binding.
    fn bind(&mut self, uid: &str, node: &str) -> Option<Event> {
        let mut pod = self.pending.remove(uid)?;
        node.clone_into(&mut pod.spec.node_name);
        Some(Event::PodApplied(pod))
    }

    /// Changes the pod's status; `None` if the pod is not pending.
    fn patch_status(&mut self, uid: &str, change: &StatusChange) -> Option<Event> {
        let version = self.next_version();
        let pod = self.pending.get_mut(uid)?;
        pod.metadata.resource_version = version;
        if let Some(condition) = &change.condition {
            pod.status.conditions.retain(|known| known.type_ != condition.type_);
            pod.status.conditions.push(condition.clone());
        }
        if let Some(node) = &change.nominated_node_name {
            pod.status.nominated_node_name.clone_from(node);
        }
        Some(Event::PodApplied(pod.clone()))
    }

    fn carry_out(
        &mut self,
        effects: impl Iterator<Item = Effect>,
        events: &mut Vec<Event>,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        for effect in effects {
            match effect {
                Effect::Evict { namespace, name, uid, .. } => {
                    events.push(self.delete_pod(namespace.clone(), name.clone(), uid.clone()));
                    changes.push(Change::Evicted { namespace, name, uid });
                }
                Effect::Patch { kind, namespace, name, patch, patch_type, .. } => {
                    self.patch(key(&kind, namespace, name)?, patch_type, &read(&kind, &patch)?, events);
                }
                Effect::Create { kind, namespace, body } => {
                    events.push(self.create_of_plugin(&kind, &namespace, read(&kind, &body)?)?);
                }
                Effect::Delete { kind, namespace, name } => events.push(self.remove(key(&kind, namespace, name)?)),
                // The scheduler carries out the other effects itself, or these effects change nothing in the cluster.
                Effect::Bind
                | Effect::Allow { .. }
                | Effect::Reject { .. }
                | Effect::Activate { .. }
                | Effect::Nominate { .. }
                | Effect::Event { .. }
                | Effect::Wait { .. } => {}
            }
        }
        Ok(())
    }

    fn create_of_plugin(&mut self, kind: &str, namespace: &str, mut object: Value) -> Result<Event> {
        let ObjectKey { api_version, kind, .. } = key(kind, String::new(), String::new())?;
        (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
        let version = self.next_version();
        let metadata = &mut object["metadata"];
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["uid"] = json!(format!("made-{version}"));
        if let Some(prefix) = metadata["generateName"].as_str().filter(|_| metadata["name"].is_null()) {
            metadata["name"] = json!(format!("{prefix}{version}"));
        }
        Ok(self.apply(object))
    }

    fn patch(&mut self, key: ObjectKey, patch_type: PatchType, patch: &Value, events: &mut Vec<Event>) {
        let Some(mut object) = self.objects.get(&key).cloned() else { return };
        match patch_type {
            PatchType::Merge => json_patch::merge(&mut object, patch),
            PatchType::StrategicMerge => merge_strategically(&mut object, patch),
        }
        let followers = volumes::followers(&mut object, &self.objects);
        events.push(self.apply(object));
        events.extend(followers.into_iter().map(|object| self.apply(object)));
    }

    /// Adds or changes an object that is neither a pod nor a node.
    pub(crate) fn apply(&mut self, mut object: Value) -> Event {
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        let key = ObjectKey::of(&object);
        let json = object.to_string().into_bytes().into();
        let before = self.objects.insert(key.clone(), object);
        if let Some(journal) = &mut self.journal {
            journal.push((key.clone(), before));
        }
        Event::ObjectApplied { resource: resource(&key), key, json }
    }

    /// Begins to record the state of objects before they change.
    pub(crate) fn begin_journal(&mut self) {
        self.journal = Some(Journal::new());
    }

    /// The recorded states. The first change comes first.
    pub(crate) fn end_journal(&mut self) -> Journal {
        self.journal.take().unwrap_or_default()
    }

    /// Reverts a change, and returns the event of the watch.
    pub(crate) fn restore(&mut self, key: ObjectKey, before: Option<Value>) -> Event {
        match before {
            Some(object) => self.apply(object),
            None => self.remove(key),
        }
    }

    fn remove(&mut self, key: ObjectKey) -> Event {
        let before = self.objects.remove(&key);
        if let Some(journal) = &mut self.journal {
            journal.push((key.clone(), before));
        }
        Event::ObjectDeleted { resource: resource(&key), key }
    }

    fn next_version(&mut self) -> String {
        self.n_versions += 1;
        self.n_versions.to_string()
    }
}

/// The name under which plugins register for events of a kind.
fn resource(key: &ObjectKey) -> String {
    let mut kind = KindRef::of_kind(&key.api_version, &key.kind);
    kind.plural = kind.likely_plural();
    kind.resource()
}

/// The key of an object. `kind` is an `apiVersion/kind`, as in effects.
fn key(kind: &str, namespace: String, name: String) -> Result<ObjectKey> {
    let (api_version, short) = kind
        .rsplit_once('/')
        .ok_or_else(|| ApiServerError::Effect { kind: kind.to_owned(), reason: "apiVersion is missing".to_owned() })?;
    Ok(ObjectKey { api_version: api_version.to_owned(), kind: short.to_owned(), namespace, name })
}

fn read(kind: &str, json: &[u8]) -> Result<Value> {
    serde_json::from_slice(json)
        .map_err(|error| ApiServerError::Effect { kind: kind.to_owned(), reason: error.to_string() })
}
