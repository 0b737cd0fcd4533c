//! Watches: the cluster's pods, nodes and other requested kinds, as one stream of [`WatchEvent`]s.
//!
//! Each kind has a separate task that lists, watches, reconnects and relists (`watch/session.rs`). All tasks send to
//! one bounded channel. If its reader is slow, the tasks wait, and in the end the API server also waits: nothing is
//! dropped.
//!
//! The watches make the following promises to the reader. An object is applied before it is deleted. An object that
//! vanished while no watch was open is still reported as deleted. An object that was replaced under its name is first
//! deleted, then applied. No object is applied twice in the same resource version, unless
//! [`WatchHandle::tell_pods_again`] or [`WatchHandle::keep_pod_json`] asks for it. Each kind reports after its first
//! complete list that it is synced, or that it may not be listed; the report is repeated after each list that
//! [`WatchHandle::relist`], [`WatchHandle::tell_pods_again`] or [`WatchHandle::keep_pod_json`] asked for. A watch that
//! [`WatchHandle::end`] ends takes its objects back first.
//!
//! [`ConfigMapWatch`] follows one object outside this stream.
//!
//! `kube::runtime::watcher` is not used. That watcher relists at resource version 0, which may go back in time after an
//! API server failed over. That watcher also restarts immediately and for ever if a server keeps closing the
//! connection. If it cannot decode one object, it loses the whole page.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

use berth_model::{KindRef, api};
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{Kinds, end_as};

use kind::Kind;
use session::Session;

pub use config_map::{ConfigMapError, ConfigMapWatch};

mod config_map;
mod error;
mod kind;
mod known_objects;
mod reconnect_backoff;
mod session;
#[cfg(test)]
mod tests;
mod wire;

/// A change in the cluster.
///
/// A deleted object is its last state, as the API server sent it. If the object vanished unseen, only `name`,
/// `namespace` and `uid` of its metadata are set.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    PodApplied(Box<api::Pod>),
    PodDeleted(Box<api::Pod>),
    NodeApplied(Box<api::Node>),
    NodeDeleted(Box<api::Node>),
    /// Every pod that existed at the time of the list has been applied.
    PodsSynced {
        /// Whether every pending pod has been applied with its whole JSON.
        with_json: bool,
    },
    NodesSynced,
    ObjectApplied {
        kind: Arc<KindRef>,
        /// The namespace; empty for objects without a namespace.
        namespace: String,
        name: String,
        /// The whole object without `metadata.managedFields`.
        json: serde_json::Value,
    },
    ObjectDeleted {
        kind: Arc<KindRef>,
        namespace: String,
        name: String,
    },
    /// Every object of the kind that existed at the time of the list has been applied, or the server does not serve the
    /// kind. The event is repeated for each list that [`WatchHandle::relist`] asked for, and when the server begins or
    /// ceases to serve the kind.
    Synced {
        kind: Arc<KindRef>,
        /// The answer of a server that does not serve the kind.
        missing: Option<String>,
    },
    /// The scheduler's user may not list and watch the kind, so the kind's objects are unknown. `Synced` follows once
    /// the user may. The event is repeated for each list that [`WatchHandle::relist`] asked for. Pods and nodes have no
    /// such event: only the log reports them.
    Forbidden {
        kind: Arc<KindRef>,
        /// The rule that the user's ClusterRole lacks.
        rule: String,
    },
    /// The watch of the kind has ended, as [`WatchHandle::end`] asked for. Every object of the kind has been deleted for
    /// the reader. No event of this watch follows.
    Ended {
        /// The kind as [`WatchHandle::add`] or [`Watches::kinds`] named it.
        kind: Arc<KindRef>,
    },
}

/// An observer of the watches. It is called for each event, and must not block.
pub trait WatchObserver: fmt::Debug + Send + Sync + 'static {
    /// Everything about the kind up to this resource version was read.
    fn read_up_to(&self, kind: &KindRef, resource_version: &str);

    /// One more event about the kind waits for the reader.
    fn queued(&self, kind: &KindRef);
}

static PODS: LazyLock<KindRef> = LazyLock::new(|| KindRef::of_kind("v1", "Pod"));
static NODES: LazyLock<KindRef> = LazyLock::new(|| KindRef::of_kind("v1", "Node"));

impl WatchEvent {
    /// The kind that the event is about.
    #[must_use]
    pub fn kind(&self) -> &KindRef {
        match self {
            Self::PodApplied(_) | Self::PodDeleted(_) | Self::PodsSynced { .. } => &PODS,
            Self::NodeApplied(_) | Self::NodeDeleted(_) | Self::NodesSynced => &NODES,
            Self::ObjectApplied { kind, .. }
            | Self::ObjectDeleted { kind, .. }
            | Self::Synced { kind, .. }
            | Self::Forbidden { kind, .. }
            | Self::Ended { kind } => kind,
        }
    }
}

/// The kinds to watch, in all namespaces.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// Whether to watch all pods that have not ended. A pod that succeeds or fails is reported as deleted.
    pub pods: bool,
    /// Whether pending pods come with the whole JSON in [`berth_model::api::Pod::json`].
    pub pod_json: bool,
    pub nodes: bool,
    pub kinds: Vec<KindRef>,
    pub observer: Option<Arc<dyn WatchObserver>>,
}

/// The running watches. Dropping it ends them.
pub struct WatchHandle {
    tasks: JoinSet<()>,
    client: Client,
    kinds: Kinds,
    sink: mpsc::Sender<WatchEvent>,
    relists: watch::Sender<RelistRequests>,
    /// The channels that end the watches of kinds.
    ends: BTreeMap<KindRef, watch::Sender<bool>>,
    observer: Option<Arc<dyn WatchObserver>>,
}

/// The numbers of requests for new lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RelistRequests {
    lists: u64,
    /// The number of requested lists that report every pod again.
    whole_lists_of_pods: u64,
    /// Whether pending pods must come with their whole JSON.
    needs_pod_json: bool,
}

impl WatchHandle {
    /// Starts a watch of one more kind. If a watch of the kind was asked to end, the new watch must not start before
    /// [`WatchEvent::Ended`].
    ///
    /// This must be called inside a tokio runtime.
    pub fn add(&mut self, kind: KindRef) {
        let (sender, end) = watch::channel(false);
        self.ends.insert(kind.clone(), sender);
        self.spawn(Kind::Other(Arc::new(kind)), end);
    }

    /// Ends the watch of a kind that was started under this name. The watch first reports the objects that it knows as
    /// deleted, so that the reader drops them, and then [`WatchEvent::Ended`].
    pub fn end(&mut self, kind: &KindRef) {
        if let Some(end) = self.ends.remove(kind) {
            end.send_replace(true);
        }
    }

    /// Lists every kind again. A watch reports all changes that it has not reported so far before the kind is reported
    /// as synced again. Unchanged objects are not reported again.
    pub fn relist(&self) {
        self.relists.send_modify(|requests| requests.lists += 1);
    }

    /// Relists as [`Self::relist`] does, and reports every pod again, changed or not, for a reader that has not kept
    /// all pods.
    pub fn tell_pods_again(&self) {
        self.relists.send_modify(|requests| {
            requests.lists += 1;
            requests.whole_lists_of_pods += 1;
        });
    }

    /// Relists as [`Self::tell_pods_again`] does. From this list on, pending pods come with their whole JSON, as with
    /// [`Watches::pod_json`].
    pub fn keep_pod_json(&self) {
        self.relists.send_modify(|requests| {
            requests.lists += 1;
            requests.whole_lists_of_pods += 1;
            requests.needs_pod_json = true;
        });
    }

    fn spawn(&mut self, kind: Kind, end: watch::Receiver<bool>) {
        let (client, kinds, sink) = (self.client.clone(), self.kinds.clone(), self.sink.clone());
        let session = Session::new(client, kinds, kind, sink, self.relists.subscribe(), end);
        self.tasks.spawn(session.observed_by(self.observer.clone()).run());
    }

    /// Waits until the receiver of the events is dropped, which ends the watches. Continues the panic of a watch if one
    /// panics. Dropping the future loses nothing.
    pub async fn ended(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                // The end of this watch was requested.
                Ok(()) if !self.sink.is_closed() => {}
                Ok(()) => return,
                Err(error) => end_as(error),
            }
        }
        self.sink.closed().await;
    }

    /// Ends all watches, and waits until no more events can come.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("n_tasks", &self.tasks.len()).finish()
    }
}

/// Starts a watch for each requested kind. The watches run until the handle or the channel's receiver is dropped; no
/// failure of the API server ends them.
///
/// This must be called inside a tokio runtime.
pub fn spawn_watches(client: &Client, watches: Watches, sink: &mpsc::Sender<WatchEvent>) -> WatchHandle {
    let pods = watches.pods.then_some(Kind::Pods { keep_json: watches.pod_json });
    let nodes = watches.nodes.then_some(Kind::Nodes);
    let kinds = Kinds::new(client.clone());
    let (relists, _) = watch::channel(RelistRequests::default());
    let (tasks, client, sink, observer) = (JoinSet::new(), client.clone(), sink.clone(), watches.observer);
    let mut handle = WatchHandle { tasks, client, kinds, sink, relists, ends: BTreeMap::new(), observer };
    // Without a sender, the watches of pods and nodes last as long as the handle.
    let (_, end) = watch::channel(false);
    pods.into_iter().chain(nodes).for_each(|kind| handle.spawn(kind, end.clone()));
    watches.kinds.into_iter().for_each(|kind| handle.add(kind));
    handle
}
