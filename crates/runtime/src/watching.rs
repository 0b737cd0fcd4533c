//! What the session watches: pods and nodes, and every kind that a plugin reads or registers events for.
//!
//! Scheduling begins when all of them are listed. It does not wait for a kind that may not be listed: whom this concerns is
//! the scheduler's business (`berth_framework::UnlistedKinds`). Pods, nodes and namespaces concern every pod, so for these it
//! waits.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_cluster::{Client, WatchEvent, WatchHandle, Watches, spawn_watches};
use berth_framework::{Manifest, ObjectKind, Profile, UnlistedKind};
use berth_model::{Features, KindRef, ObjectKey};
use berth_plugin_host::watched_kinds::{self, dispensable_for, is_indispensable, wanted};
use berth_scheduler::{Event, HostObjects, Reconfiguration};
use berth_serving::Health;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::{info, warn};

use crate::{election::Turn, extenders::HttpExtenders};

/// Watch events arrive in bursts of a whole list; this many wait in the channel before the watches do.
pub(crate) const EVENTS_BOUND: usize = 512;

/// How long scheduling waits for the plugins that were there at the start: compiled ones take milliseconds, and a file that takes long
/// must not hold up the pods of others.
const PLUGINS_FIRST: Duration = Duration::from_secs(3);

/// What is to be watched.
pub(crate) struct WatchPlan {
    pod_json: bool,
    features: Features,
    kinds: BTreeSet<KindRef>,
    /// Kinds that are read: their first lists must be complete.
    read: BTreeSet<ObjectKind>,
}

/// What the watches wait for before they begin.
pub(crate) struct Begin {
    /// Says that every plugin that was there at the start serves or is refused.
    pub plugins: oneshot::Receiver<()>,
    pub turn: Turn,
}

/// A request to watch more than before.
pub(crate) enum WatchRequest {
    /// What this plugin reads and registers events for.
    Kinds(Box<Manifest>),
    /// Every pod, once more: other profiles serve pods of which nothing was kept before.
    PodsAgain,
}

/// Turns what the watches see into the scheduler's events, and watches more when plugins want more.
struct Watching {
    watched: mpsc::Receiver<WatchEvent>,
    watches: WatchHandle,
    features: Features,
    kinds: BTreeSet<KindRef>,
    /// Kinds that are read. A plugin that only hears of a kind does not wait for it.
    read: BTreeSet<ObjectKind>,
    /// The kinds among these that were neither listed nor refused yet.
    unlisted: BTreeSet<ObjectKind>,
    /// Kinds whose list was complete, since new lists were last requested.
    listed: BTreeSet<ObjectKind>,
    /// Kinds that may not be listed.
    forbidden: BTreeSet<ObjectKind>,
    pods_synced: bool,
    nodes_synced: bool,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Listing,
    /// Everything is listed; it is not this replica's turn.
    StandingBy,
    /// This replica's turn has come, and everything is listed again.
    CatchingUp,
    Scheduling,
}

impl WatchRequest {
    /// What is to be watched once the event is taken in.
    pub(crate) fn of_event(event: &Event, objects: &HostObjects) -> Vec<Self> {
        let kinds = |manifest: &Manifest| Self::Kinds(Box::new(manifest.clone()));
        match event {
            Event::PluginReady { factory, .. } => {
                objects.look(*factory, |factory| kinds(factory.manifest())).into_iter().collect()
            }
            Event::Reconfigured(Reconfiguration { profiles: Some(profiles), .. }) => {
                let plugins = |profiles: &Vec<Profile>| -> Vec<Self> {
                    let plugins = profiles.iter().flat_map(Profile::instances);
                    plugins.map(|instance| kinds(instance.plugin.manifest())).collect()
                };
                let kinds = objects.look(*profiles, plugins).unwrap_or_default();
                kinds.into_iter().chain([Self::PodsAgain]).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl WatchPlan {
    /// What the plugins of `profiles` want, and the extenders: these are sent whole pods, and some of them whole nodes,
    /// or whole pods that may be evicted.
    pub(crate) fn new(
        pod_json: bool,
        features: Features,
        profiles: &[Profile],
        extenders: Option<&HttpExtenders>,
    ) -> Self {
        let plugins = profiles.iter().flat_map(Profile::instances).map(|instance| instance.plugin.manifest());
        let of_extenders = extenders.map(HttpExtenders::manifest);
        let manifests: Vec<&Manifest> = plugins.chain(&of_extenders).collect();
        let kinds = manifests.iter().flat_map(|manifest| wanted(manifest, features)).collect();
        let read = manifests.iter().flat_map(|manifest| watched_kinds::read(manifest, features)).cloned().collect();
        Self { pod_json: pod_json || extenders.is_some(), features, kinds, read }
    }

    fn add(&mut self, request: &WatchRequest) {
        match request {
            WatchRequest::Kinds(manifest) => {
                self.kinds.extend(wanted(manifest, self.features));
                self.read.extend(watched_kinds::read(manifest, self.features).cloned());
            }
            // Nothing is watched yet.
            WatchRequest::PodsAgain => {}
        }
    }

    /// Whether pending pods are kept whole.
    pub(crate) fn keeps_pods_whole(&self) -> bool {
        self.pod_json
    }

    /// Watches when its turn comes, until it is aborted, the receiver of events is gone, or a watch panics. What the first plugins
    /// request is a part of the plan, other `requests` come later.
    pub(crate) async fn run(
        mut self,
        client: Client,
        events: mpsc::Sender<Event>,
        mut requests: mpsc::UnboundedReceiver<WatchRequest>,
        health: Health,
        Begin { plugins, mut turn }: Begin,
    ) {
        if timeout(PLUGINS_FIRST, plugins).await.is_err() {
            warn!("some plugins are still loading; scheduling starts without them and follows their failurePolicy");
        }
        while let Ok(request) = requests.try_recv() {
            self.add(&request);
        }
        turn.until_watching().await;
        Watching::start(&client, self).run(events, requests, health, turn).await;
    }
}

impl Watching {
    fn start(client: &Client, WatchPlan { pod_json, features, kinds, read }: WatchPlan) -> Self {
        let (sink, watched) = mpsc::channel(EVENTS_BOUND);
        let watches = Watches { pods: true, pod_json, nodes: true, kinds: kinds.iter().cloned().collect() };
        let watches = spawn_watches(client, watches, &sink);
        let progress = Progress::Listing;
        let unlisted = read.clone();
        let (listed, forbidden) = (BTreeSet::new(), BTreeSet::new());
        let (pods_synced, nodes_synced) = (false, false);
        Self {
            watched,
            watches,
            features,
            kinds,
            read,
            unlisted,
            listed,
            forbidden,
            pods_synced,
            nodes_synced,
            progress,
        }
    }

    async fn run(
        mut self,
        events: mpsc::Sender<Event>,
        mut requests: mpsc::UnboundedReceiver<WatchRequest>,
        health: Health,
        mut turn: Turn,
    ) {
        loop {
            let event = tokio::select! {
                Some(request) = requests.recv() => {
                    match request {
                        WatchRequest::Kinds(manifest) => self.want(&manifest),
                        WatchRequest::PodsAgain => self.watches.tell_pods_again(),
                    }
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
                        let n_listed = self.kinds.len() + 2 - self.forbidden.len();
                        info!(kinds = n_listed, forbidden = self.forbidden.len(), "initial lists complete");
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

    /// Lists everything again.
    fn list_again(&mut self) -> Option<Event> {
        info!("relisting before scheduling starts");
        self.progress = Progress::CatchingUp;
        self.pods_synced = false;
        self.nodes_synced = false;
        self.unlisted.clone_from(&self.read);
        self.listed.clear();
        self.watches.relist();
        None
    }

    fn begin(&mut self) -> Event {
        info!("scheduling");
        self.progress = Progress::Scheduling;
        Event::Synced
    }

    fn want(&mut self, manifest: &Manifest) {
        for kind in wanted(manifest, self.features) {
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
            WatchEvent::Synced { kind } => return self.is_complete(&kind),
            WatchEvent::Forbidden { kind, rule } => return self.go_without(&kind, &rule),
        }
        None
    }

    fn is_complete(&mut self, kind: &KindRef) -> Option<Event> {
        let object_kind = object_kind(kind);
        self.unlisted.remove(&object_kind);
        self.listed.insert(object_kind.clone());
        if !self.forbidden.remove(&object_kind) {
            return None;
        }
        info!(kind = kind.plural, "this kind can be listed again; retrying its pods");
        Some(Event::KindListed(object_kind))
    }

    /// Pods that the kind concerns wait from here on, the others do not. A kind that was listed stays as it is known, as in
    /// kube-scheduler.
    fn go_without(&mut self, kind: &KindRef, rule: &str) -> Option<Event> {
        let object_kind = object_kind(kind);
        if is_indispensable(&object_kind) || self.listed.contains(&object_kind) {
            return None;
        }
        self.unlisted.remove(&object_kind);
        if !self.forbidden.insert(object_kind.clone()) {
            return None;
        }
        let dispensable_for = dispensable_for(&object_kind);
        let without = dispensable_for.join(", ");
        warn!(
            kind = kind.plural,
            rule, without, "scheduling without this kind; pods that need a plugin that reads it stay pending"
        );
        let reason = format!("the scheduler may not list {}: its ClusterRole lacks {rule}", kind.plural);
        Some(Event::KindUnlisted { kind: object_kind, unlisted: UnlistedKind { reason, dispensable_for } })
    }

    fn is_listed(&self) -> bool {
        self.pods_synced && self.nodes_synced && self.unlisted.is_empty()
    }
}

fn object_kind(kind: &KindRef) -> ObjectKind {
    ObjectKind { api_version: kind.api_version(), kind: kind.kind.clone() }
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
