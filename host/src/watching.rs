//! What the session watches: pods and nodes, and every kind that a plugin reads or registers events for.

use berth_model::ObjectKey;
use std::{collections::BTreeSet, sync::Arc};

use berth_cluster::{Client, KindRef, WatchEvent, WatchHandle, Watches, spawn_watches};
use berth_framework::{Manifest, ObjectKind, Profile};
use berth_scheduler::Event;
use tokio::sync::mpsc;
use tracing::info;

use crate::{
    extenders::HttpExtenders, health::Health, leader_election::Turn, scheduling::EVENTS_BOUND, watched_kinds::wanted,
};

/// What is to be watched.
pub(crate) struct WatchPlan {
    pod_json: bool,
    kinds: BTreeSet<KindRef>,
    /// Kinds that are read: their first lists must be complete.
    read: BTreeSet<ObjectKind>,
}

/// Turns what the watches see into the scheduler's events, and watches more when plugins want more.
struct Watching {
    watched: mpsc::Receiver<WatchEvent>,
    watches: WatchHandle,
    kinds: BTreeSet<KindRef>,
    /// Kinds that are read. Who only hears of a kind does not wait for it.
    read: BTreeSet<ObjectKind>,
    /// Of these, the ones whose list is not complete.
    unlisted: BTreeSet<ObjectKind>,
    pods_synced: bool,
    nodes_synced: bool,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Listing,
    /// Everything is listed; it is not this replica's turn.
    StandingBy,
    /// It is, and everything is listed again.
    CatchingUp,
    Scheduling,
}

impl WatchPlan {
    /// What the plugins of `profiles` want, and the extenders: these are sent whole pods, and some of them whole nodes,
    /// or whole pods that may be evicted.
    pub(crate) fn new(pod_json: bool, profiles: &[Profile], extenders: Option<&HttpExtenders>) -> Self {
        let plugins = profiles.iter().flat_map(Profile::instances).map(|instance| instance.plugin.manifest());
        let of_extenders = extenders.map(HttpExtenders::manifest);
        let manifests: Vec<&Manifest> = plugins.chain(&of_extenders).collect();
        let kinds = manifests.iter().flat_map(|manifest| wanted(manifest)).collect();
        let read = manifests.iter().flat_map(|manifest| manifest.needs.objects.iter().cloned()).collect();
        Self { pod_json: pod_json || extenders.is_some(), kinds, read }
    }

    /// Whether pending pods are kept whole.
    pub(crate) fn keeps_pods_whole(&self) -> bool {
        self.pod_json
    }

    /// Watches when its turn comes, until it is aborted, nobody takes the events, or a watch panics. `manifests` are those
    /// of plugins that came later.
    pub(crate) async fn run(
        self,
        client: Client,
        events: mpsc::Sender<Event>,
        manifests: mpsc::UnboundedReceiver<Manifest>,
        health: Health,
        mut turn: Turn,
    ) {
        turn.until_watching().await;
        Watching::start(&client, self).run(events, manifests, health, turn).await;
    }
}

impl Watching {
    fn start(client: &Client, WatchPlan { pod_json, kinds, read }: WatchPlan) -> Self {
        let (sink, watched) = mpsc::channel(EVENTS_BOUND);
        let watches = Watches { pods: true, pod_json, nodes: true, kinds: kinds.iter().cloned().collect() };
        let watches = spawn_watches(client, watches, &sink);
        let progress = Progress::Listing;
        let unlisted = read.clone();
        Self { watched, watches, kinds, read, unlisted, pods_synced: false, nodes_synced: false, progress }
    }

    async fn run(
        mut self,
        events: mpsc::Sender<Event>,
        mut manifests: mpsc::UnboundedReceiver<Manifest>,
        health: Health,
        mut turn: Turn,
    ) {
        loop {
            let event = tokio::select! {
                Some(manifest) = manifests.recv() => {
                    self.want(&manifest);
                    continue;
                }
                () = self.watches.ended() => return,
                event = self.watched.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                () = turn.until_scheduling(), if self.progress == Progress::StandingBy => {
                    if turn.follows_others() { self.list_again() } else { Some(self.begin()) }
                }
            };
            // What was listed comes before what follows from it.
            let mut next = vec![event];
            if self.is_listed() {
                match self.progress {
                    Progress::Listing => {
                        info!(kinds = self.kinds.len() + 2, "everything is listed");
                        self.progress = Progress::StandingBy;
                        health.synced();
                        turn.listed();
                    }
                    Progress::CatchingUp => next.push(Some(self.begin())),
                    Progress::StandingBy | Progress::Scheduling => {}
                }
            }
            for event in next.into_iter().flatten() {
                if events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Has everything listed again.
    fn list_again(&mut self) -> Option<Event> {
        info!("listing again before scheduling");
        self.progress = Progress::CatchingUp;
        self.pods_synced = false;
        self.nodes_synced = false;
        self.unlisted.clone_from(&self.read);
        self.watches.relist();
        None
    }

    fn begin(&mut self) -> Event {
        info!("scheduling");
        self.progress = Progress::Scheduling;
        Event::Synced
    }

    fn want(&mut self, manifest: &Manifest) {
        for kind in wanted(manifest) {
            if self.kinds.insert(kind.clone()) {
                info!(plugin = manifest.name, kind = kind.resource(), "watching one more kind");
                self.watches.add(kind);
            }
        }
    }

    fn take(&mut self, event: WatchEvent) -> Option<Event> {
        match event {
            WatchEvent::PodApplied(pod) => return Some(Event::PodApplied(pod)),
            WatchEvent::PodDeleted(pod) => {
                let metadata = pod.metadata;
                let (namespace, name, uid) = (metadata.namespace, metadata.name, metadata.uid);
                return Some(Event::PodDeleted { namespace, name, uid });
            }
            WatchEvent::NodeApplied(node) => return Some(Event::NodeApplied(node)),
            WatchEvent::NodeDeleted(node) => return Some(Event::NodeDeleted { name: node.metadata.name }),
            WatchEvent::ObjectApplied { kind, namespace, name, json } => {
                let json = Arc::from(json.to_string().into_bytes());
                let key = key(&kind, namespace, name);
                return Some(Event::ObjectApplied { resource: resource(&kind), key, json });
            }
            WatchEvent::ObjectDeleted { kind, namespace, name } => {
                return Some(Event::ObjectDeleted { resource: resource(&kind), key: key(&kind, namespace, name) });
            }
            WatchEvent::PodsSynced => self.pods_synced = true,
            WatchEvent::NodesSynced => self.nodes_synced = true,
            WatchEvent::Synced { kind } => {
                self.unlisted.remove(&ObjectKind { api_version: kind.api_version(), kind: kind.kind.clone() });
            }
        }
        None
    }

    fn is_listed(&self) -> bool {
        self.pods_synced && self.nodes_synced && self.unlisted.is_empty()
    }
}

fn key(kind: &KindRef, namespace: String, name: String) -> ObjectKey {
    ObjectKey { api_version: kind.api_version(), kind: kind.kind.clone(), namespace, name }
}

/// Pods and nodes as whole objects are no events of their own: those who registered hear of them already.
fn resource(kind: &KindRef) -> String {
    match kind.resource() {
        resource if resource == "Pod" || resource == "Node" => format!("{}.v1.", kind.plural),
        resource => resource,
    }
}
