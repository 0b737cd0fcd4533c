//! Watches: the cluster's pods, nodes and whatever else was asked for, as one stream of [`WatchEvent`]s.
//!
//! Each kind has a task of its own that lists, watches, reconnects and relists (`watch/session.rs`). All feed one
//! bounded channel. When its reader is slow the tasks wait, and so, in the end, does the API server: nothing is
//! dropped.
//!
//! Promises to the reader: an object is applied before it is deleted; one that vanished while no watch was open is
//! still reported as deleted; one that was replaced under its name is first deleted, then applied; nothing is applied
//! twice in the same resource version, unless [`WatchHandle::tell_pods_again`] asks for it; each kind says after its
//! first complete list, and after each that [`WatchHandle::relist`] or [`WatchHandle::tell_pods_again`] asked for, that
//! it is synced, or that it may not be listed.
//!
//! `kube::runtime::watcher` isn't used. It relists at resource version 0, which may go back in time after an API
//! server failed over; it restarts at once and for ever when a server keeps hanging up; and one object that it can't
//! decode loses the whole page.

use std::{fmt, sync::Arc};

use berth_model::{KindRef, api};
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{Kinds, end_as};

use kind::Kind;
use session::Session;

mod kind;
mod known_objects;
mod reconnect_backoff;
mod session;
#[cfg(test)]
mod tests;
mod wire;

/// Something changed in the cluster.
///
/// A deleted object is its last state, as the API server sent it. If it vanished unseen, only `name`, `namespace` and
/// `uid` of its metadata are set.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    PodApplied(Box<api::Pod>),
    PodDeleted(Box<api::Pod>),
    NodeApplied(Box<api::Node>),
    NodeDeleted(Box<api::Node>),
    /// Every pod that existed when the list was made has been applied.
    PodsSynced,
    NodesSynced,
    ObjectApplied {
        kind: Arc<KindRef>,
        /// Empty for objects without a namespace.
        namespace: String,
        name: String,
        /// The whole object but `metadata.managedFields`.
        json: serde_json::Value,
    },
    ObjectDeleted {
        kind: Arc<KindRef>,
        namespace: String,
        name: String,
    },
    /// Every object of the kind that existed when the list was made has been applied, or the server does not serve the kind.
    Synced {
        kind: Arc<KindRef>,
    },
    /// This user may not list and watch the kind, so nothing is known of its objects; `Synced` follows once it may. Told
    /// again for each list that [`WatchHandle::relist`] asked for. Of pods and nodes only the log tells it.
    Forbidden {
        kind: Arc<KindRef>,
        /// What its ClusterRole lacks.
        rule: String,
    },
}

/// What to watch, in all namespaces.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// All pods that have not run to their end: a pod that succeeds or fails is reported as deleted.
    pub pods: bool,
    /// Pending pods come with the whole JSON in [`berth_model::api::Pod::json`].
    pub pod_json: bool,
    pub nodes: bool,
    pub kinds: Vec<KindRef>,
}

/// The running watches. Dropping it ends them.
pub struct WatchHandle {
    tasks: JoinSet<()>,
    client: Client,
    kinds: Kinds,
    sink: mpsc::Sender<WatchEvent>,
    relists: watch::Sender<RelistRequests>,
}

/// Counts the requests for new lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RelistRequests {
    lists: u64,
    /// How many of these lists report every pod again.
    whole_lists_of_pods: u64,
}

impl WatchHandle {
    /// Starts a watch of one more kind.
    ///
    /// Must be called inside a tokio runtime.
    pub fn add(&mut self, kind: KindRef) {
        self.spawn(Kind::Other(Arc::new(kind)));
    }

    /// Lists every kind again: what a watch has not told so far, for whatever reason, is told before the kind says once
    /// more that it is synced. What has not changed is not told again.
    pub fn relist(&self) {
        self.relists.send_modify(|requests| requests.lists += 1);
    }

    /// Like [`Self::relist`], and every pod is told again, changed or not: for a reader that has not kept them all.
    pub fn tell_pods_again(&self) {
        self.relists.send_modify(|requests| {
            requests.lists += 1;
            requests.whole_lists_of_pods += 1;
        });
    }

    fn spawn(&mut self, kind: Kind) {
        let (client, kinds, sink) = (self.client.clone(), self.kinds.clone(), self.sink.clone());
        self.tasks.spawn(Session::new(client, kinds, kind, sink, self.relists.subscribe()).run());
    }

    /// Waits until a watch ends that goes on for ever as long as its events have a receiver; passes its panic on. Dropping the
    /// future loses nothing.
    pub async fn ended(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                // A kind whose name makes no path is not watched.
                Ok(()) if !self.sink.is_closed() => {}
                Ok(()) => return,
                Err(error) => end_as(error),
            }
        }
        self.sink.closed().await;
    }

    /// Ends all watches and waits until no more events can come.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("n_tasks", &self.tasks.len()).finish()
    }
}

/// Starts a watch for each kind asked for. They run until the handle or the channel's receiver is dropped; no failure
/// of the API server ends them.
///
/// Must be called inside a tokio runtime.
pub fn spawn_watches(client: &Client, watches: Watches, sink: &mpsc::Sender<WatchEvent>) -> WatchHandle {
    let pods = watches.pods.then_some(Kind::Pods { keep_json: watches.pod_json });
    let nodes = watches.nodes.then_some(Kind::Nodes);
    let others = watches.kinds.into_iter().map(|kind| Kind::Other(Arc::new(kind)));
    let kinds = Kinds::new(client.clone());
    let (relists, _) = watch::channel(RelistRequests::default());
    let mut handle = WatchHandle { tasks: JoinSet::new(), client: client.clone(), kinds, sink: sink.clone(), relists };
    pods.into_iter().chain(nodes).chain(others).for_each(|kind| handle.spawn(kind));
    handle
}
