//! The watches of the session: pods and nodes, and every kind that a plugin reads or registers events for.
//!
//! A kind that no plugin needs any more is no longer watched, and the scheduler drops its objects. From then on, the
//! kind counts as unlisted: a plugin that reads it later judges pods only after a new list. A kind also counts as
//! unlisted from the time when the first plugin that reads it comes, until its first list is complete.
//!
//! Scheduling begins when all objects that the first plugins read are listed. Scheduling does not wait for a kind that
//! the scheduler may not list: the scheduler decides which pods need the kind (`berth_framework::UnlistedKinds`). Pods,
//! nodes and namespaces concern every pod, so scheduling waits for their lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use berth_cluster::{Client, WatchEvent, WatchHandle, WatchObserver, Watches, spawn_watches};
use berth_framework::{Manifest, ObjectKind, Profile, UnlistedKind};
use berth_model::{Features, KindRef, ObjectKey};
use berth_plugin_host::watched_kinds::{self, dispensable_for, is_indispensable};
use berth_scheduler::{Event, HostObjects, Reconfiguration};
use berth_serving::Health;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::{info, warn};

use self::{
    kinds::{NewUse, Users, WatchedKinds, is_same_kind},
    whole_pods::WholePods,
};
use crate::{election::Turn, extenders::HttpExtenders, informers::Informers};

mod kinds;
mod whole_pods;

/// The capacity of the channel. Watch events arrive in bursts of a whole list, and the watches wait if the channel is
/// full.
pub(crate) const EVENTS_BOUND: usize = 512;

/// The time for which scheduling waits for the plugins that existed at the start. Compiled plugins take milliseconds,
/// and a file that takes long must not delay other pods.
const PLUGINS_FIRST: Duration = Duration::from_secs(3);

/// The kinds to watch.
pub(crate) struct WatchPlan {
    pod_json: bool,
    features: Features,
    kinds: WatchedKinds,
    /// The kinds that plugins read. Their first lists must be complete.
    read: BTreeSet<ObjectKind>,
}

/// The conditions for the watches to begin.
pub(crate) struct Begin {
    /// Completes when every plugin that existed at the start serves or is refused.
    pub plugins: oneshot::Receiver<()>,
    pub turn: Turn,
}

/// A request for other watches.
pub(crate) enum WatchRequest {
    /// The kinds that the plugins of all profiles read and register events for. No other plugin needs a kind.
    Serving(Vec<Manifest>),
    /// The kinds of plugins that are about to serve, besides all other kinds.
    Upcoming(Vec<Manifest>),
    /// The kinds that extenders need. No other extender needs a kind.
    Extenders(Vec<Manifest>),
    /// Every pod is sent once more, because nothing was kept of the pods that only other profiles serve.
    PodsAgain,
    /// Pending pods are sent with their whole JSON from now on. The sender gets a message when all of them were sent.
    WholePods(oneshot::Sender<()>),
    /// The sender gets a message when all objects of the kinds that extenders need were sent.
    ExtendersListed(oneshot::Sender<()>),
    /// The sender gets a message when all earlier requests were taken, and the scheduler's channel has the events that
    /// follow from them.
    Taken(oneshot::Sender<()>),
}

/// Converts watch events to the scheduler's events, and begins and ends watches when plugins need other kinds.
struct Watching {
    watched: mpsc::Receiver<WatchEvent>,
    watches: WatchHandle,
    informers: Arc<Informers>,
    kinds: WatchedKinds,
    /// The kinds that the server does not serve, with its answers.
    missing: BTreeMap<KindRef, String>,
    /// The kinds that plugins read. A plugin that only needs events of a kind does not wait for the list of this kind.
    read: BTreeSet<ObjectKind>,
    /// The kinds among these whose first list has not been answered yet.
    unlisted: BTreeSet<ObjectKind>,
    /// The kinds with lists that were completed since new lists were last requested, with the names that the server
    /// added.
    listed: BTreeSet<KindRef>,
    /// The kinds that may not be listed, with the names that the server added.
    forbidden: BTreeSet<KindRef>,
    /// The kinds that the scheduler counts as unlisted until their next lists are complete: the kinds that were not
    /// listed when the first plugin came that reads them, and the kinds whose watches ended.
    awaited: BTreeSet<ObjectKind>,
    whole_pods: WholePods,
    /// The requests that are answered when the kinds that extenders need are listed.
    extenders_listed: Vec<oneshot::Sender<()>>,
    pods_synced: bool,
    nodes_synced: bool,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Listing,
    /// Everything is listed, but another replica schedules.
    StandingBy,
    /// This replica may schedule, and everything is being listed again.
    CatchingUp,
    Scheduling,
}

/// The manifests of the plugins that the event brings.
pub(crate) fn upcoming_plugins(event: &Event, objects: &HostObjects) -> Vec<Manifest> {
    match event {
        Event::PluginReady { factory, .. } => {
            objects.look(*factory, |factory| factory.manifest().clone()).into_iter().collect()
        }
        Event::Reconfigured(Reconfiguration { profiles: Some(profiles), .. }) => {
            let plugins = |profiles: &Vec<Profile>| -> Vec<Manifest> {
                let plugins = profiles.iter().flat_map(Profile::instances);
                plugins.map(|instance| instance.plugin.manifest().clone()).collect()
            };
            objects.look(*profiles, plugins).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

impl WatchPlan {
    /// The kinds that the plugins of `profiles` need, and the kinds that the extenders need. Extenders get complete
    /// pods, and some of them get complete nodes, or complete pods that may be evicted.
    pub(crate) fn new(
        pod_json: bool,
        features: Features,
        profiles: &[Profile],
        extenders: Option<&HttpExtenders>,
    ) -> Self {
        let plugins = profiles.iter().flat_map(Profile::instances).map(|instance| instance.plugin.manifest());
        let of_extenders = extenders.map(HttpExtenders::manifest);
        let pod_json = pod_json || extenders.is_some();
        let mut plan = Self { pod_json, features, kinds: WatchedKinds::new(features), read: BTreeSet::new() };
        plugins.for_each(|manifest| plan.want(Users::Plugins, manifest));
        of_extenders.iter().for_each(|manifest| plan.want(Users::Extenders, manifest));
        plan
    }

    fn want(&mut self, users: Users, manifest: &Manifest) {
        self.kinds.add(users, manifest);
        self.read.extend(watched_kinds::read(manifest, self.features).cloned());
    }

    fn take(&mut self, request: WatchRequest) {
        match request {
            WatchRequest::Upcoming(manifests) => {
                manifests.iter().for_each(|manifest| self.want(Users::Plugins, manifest));
            }
            WatchRequest::Serving(manifests) => self.replace(Users::Plugins, &manifests),
            WatchRequest::Extenders(manifests) => self.replace(Users::Extenders, &manifests),
            // No watch has begun yet.
            WatchRequest::PodsAgain => {}
            WatchRequest::WholePods(answer) => {
                self.pod_json = true;
                // No pod has been sent without its JSON. The caller ends only if the process ends.
                let _ = answer.send(());
            }
            // Scheduling begins only when everything is listed.
            WatchRequest::ExtendersListed(answer) | WatchRequest::Taken(answer) => {
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
    }

    fn replace(&mut self, users: Users, manifests: &[Manifest]) {
        self.kinds.replace(users, manifests);
        let Self { kinds, read, features, .. } = self;
        read.extend(manifests.iter().flat_map(|manifest| watched_kinds::read(manifest, *features)).cloned());
        read.retain(|kind| kinds.is_needed(kind));
    }

    /// Watches the cluster as soon as watching may begin. The future ends when it is aborted, the receiver of events is
    /// dropped, or a watch panics. The needs of the first plugins are a part of the plan; other `requests` arrive
    /// later.
    pub(crate) async fn run(
        mut self,
        client: Client,
        events: mpsc::Sender<Event>,
        mut requests: mpsc::UnboundedReceiver<WatchRequest>,
        health: Health,
        informers: Arc<Informers>,
        Begin { plugins, mut turn }: Begin,
    ) {
        let plugins = pin!(timeout(PLUGINS_FIRST, plugins));
        if self.take_until(plugins, &mut requests).await.is_err() {
            warn!("some plugins are still loading; scheduling starts without them and follows their failurePolicy");
        }
        loop {
            tokio::select! {
                biased;
                Some(request) = requests.recv() => self.take(request),
                () = turn.until_watching() => break,
            }
        }
        Watching::start(&client, self, informers).run(events, requests, health, turn).await;
    }

    /// Takes requests until the future is done. Plugins may wait for the answers before they serve.
    async fn take_until<F: Future + Unpin>(
        &mut self,
        mut done: F,
        requests: &mut mpsc::UnboundedReceiver<WatchRequest>,
    ) -> F::Output {
        loop {
            tokio::select! {
                biased;
                Some(request) = requests.recv() => self.take(request),
                output = &mut done => return output,
            }
        }
    }
}

impl Watching {
    fn start(client: &Client, plan: WatchPlan, informers: Arc<Informers>) -> Self {
        let WatchPlan { pod_json, features: _, mut kinds, read } = plan;
        let (sink, watched) = mpsc::channel(EVENTS_BOUND);
        let observer = Some(Arc::clone(&informers) as Arc<dyn WatchObserver>);
        let watches = Watches { pods: true, pod_json, nodes: true, kinds: kinds.begin(), observer };
        let watches = spawn_watches(client, watches, &sink);
        let progress = Progress::Listing;
        let unlisted = read.clone();
        let (listed, forbidden, awaited) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (pods_synced, nodes_synced) = (false, false);
        Self {
            watched,
            watches,
            informers,
            kinds,
            missing: BTreeMap::new(),
            read,
            unlisted,
            listed,
            forbidden,
            awaited,
            whole_pods: WholePods::new(pod_json),
            extenders_listed: Vec::new(),
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
            let mut handling = None;
            // The listed objects come before the events that follow from them.
            let mut next: Vec<Event> = tokio::select! {
                Some(request) = requests.recv() => self.take_request(request),
                () = self.watches.ended() => return,
                event = self.watched.recv() => match event {
                    Some(event) => {
                        handling = Some(self.informers.taken(event.kind()));
                        self.take(event).into_iter().collect()
                    }
                    None => return,
                },
                () = turn.until_scheduling(), if self.progress == Progress::StandingBy => {
                    let event = if turn.follows_others() { self.list_again() } else { Some(self.begin()) };
                    event.into_iter().collect()
                }
            };
            if self.is_listed() {
                match self.progress {
                    Progress::Listing => {
                        info!(kinds = self.n_listed(), forbidden = self.forbidden.len(), "initial lists complete");
                        self.progress = Progress::StandingBy;
                        health.synced();
                        turn.listed();
                    }
                    Progress::CatchingUp => next.push(self.begin()),
                    Progress::StandingBy | Progress::Scheduling => {}
                }
            }
            for event in next {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if let Some(handling) = handling {
                handling.done();
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

    fn take_request(&mut self, request: WatchRequest) -> Vec<Event> {
        let new = match request {
            WatchRequest::Serving(manifests) => self.kinds.replace(Users::Plugins, &manifests),
            WatchRequest::Upcoming(manifests) => {
                manifests.iter().flat_map(|manifest| self.kinds.add(Users::Plugins, manifest)).collect()
            }
            WatchRequest::Extenders(manifests) => self.kinds.replace(Users::Extenders, &manifests),
            WatchRequest::PodsAgain => {
                self.watches.tell_pods_again();
                return Vec::new();
            }
            WatchRequest::WholePods(answer) => {
                if self.whole_pods.request(answer) {
                    info!(
                        "listing all pods again, because plugins or extenders get the JSON of pending pods from now on"
                    );
                    self.watches.keep_pod_json();
                }
                return Vec::new();
            }
            WatchRequest::ExtendersListed(answer) => {
                self.extenders_listed.push(answer);
                self.answer_extenders();
                return Vec::new();
            }
            WatchRequest::Taken(answer) => {
                // The caller ends only if the process ends.
                let _ = answer.send(());
                return Vec::new();
            }
        };
        self.tell_missing_to(&new);
        let mut events: Vec<Event> = new.iter().filter_map(|(kind, _)| self.await_list(kind)).collect();
        self.begin_needed();
        let ending = self.kinds.end();
        events.extend(ending.iter().filter_map(|kind| self.end(kind)));
        events
    }

    /// The event that a kind with a new user is unlisted; `None` if no user reads the kind, its list is complete,
    /// scheduling does not begin before the list is, or the scheduler counts the kind as unlisted already.
    fn await_list(&mut self, kind: &KindRef) -> Option<Event> {
        let object_kind = object_kind(kind);
        let is_listed = self.listed.iter().any(|listed| is_same_kind(listed, kind));
        if !self.kinds.is_read(kind)
            || is_listed
            || self.unlisted.contains(&object_kind)
            || self.is_forbidden(&object_kind)
            || !self.awaited.insert(object_kind.clone())
        {
            return None;
        }
        Some(is_incomplete(kind, object_kind))
    }

    /// Answers the requests about the kinds of extenders if all of these kinds are listed.
    fn answer_extenders(&mut self) {
        let is_listed = |kind: &KindRef| self.listed.iter().any(|listed| is_same_kind(listed, kind));
        if self.kinds.of_extenders().all(is_listed) {
            for answer in self.extenders_listed.drain(..) {
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
    }

    /// Notes that all pods were sent.
    fn pods_synced(&mut self, with_json: bool) {
        self.pods_synced = true;
        if with_json {
            self.whole_pods.sent();
        }
    }

    /// Logs the kinds that further plugins need, and that the server does not serve.
    fn tell_missing_to(&self, new: &[NewUse]) {
        for (kind, plugin) in new {
            if let Some(reason) = self.missing.get(kind) {
                tell_missing(kind, plugin, reason);
            }
        }
    }

    fn begin_needed(&mut self) {
        for kind in self.kinds.begin() {
            let (plugins, shown) = (self.kinds.users(&kind), watched_kinds::shown(&kind));
            info!(plugins, kind = shown, "watching a kind that a plugin reads");
            self.watches.add(kind);
        }
    }

    /// Ends the watch of a kind that nothing needs any more. The event says that the kind is unlisted from now on: a
    /// plugin may read it again before its objects are dropped and listed again.
    fn end(&mut self, kind: &KindRef) -> Option<Event> {
        info!(kind = watched_kinds::shown(kind), "no plugin needs this kind any more; ending its watch");
        self.watches.end(kind);
        self.missing.retain(|missing, _| !is_same_kind(missing, kind));
        // Plugins may have named the kind only by its plural. Another plugin may name it otherwise.
        let mut answered = self.listed.iter().chain(&self.forbidden);
        let named = answered.find(|known| !known.kind.is_empty() && is_same_kind(known, kind));
        let object_kind = object_kind(named.unwrap_or(kind));
        for kinds in [&mut self.listed, &mut self.forbidden] {
            kinds.retain(|known| !is_same_kind(known, kind));
        }
        for kinds in [&mut self.read, &mut self.unlisted] {
            kinds.remove(&object_kind);
        }
        // Without an answer of the server, the scheduler may not know the kind of a plural. No plugin read this kind.
        if object_kind.kind.is_empty() {
            return None;
        }
        self.awaited.insert(object_kind.clone());
        Some(is_incomplete(kind, object_kind))
    }

    /// Handles the end of a watch. The kind is watched again if a plugin has come that needs it.
    fn ended(&mut self, kind: &KindRef) {
        self.kinds.ended(kind);
        // Pods and nodes have watches of their own, with the same metrics.
        if !matches!(kind.resource().as_str(), "Pod" | "Node") {
            self.informers.forget(|known| is_same_kind(known, kind));
        }
        self.begin_needed();
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
            WatchEvent::PodsSynced { with_json } => self.pods_synced(with_json),
            WatchEvent::NodesSynced => self.nodes_synced = true,
            // The list is of the watch that is ending. Its objects are dropped.
            WatchEvent::Synced { kind, .. } | WatchEvent::Forbidden { kind, .. } if self.kinds.is_ending(&kind) => {}
            WatchEvent::Synced { kind, missing } => {
                self.note_missing(&kind, missing);
                return self.is_complete(&kind);
            }
            WatchEvent::Forbidden { kind, rule } => return self.go_without(&kind, &rule),
            WatchEvent::Ended { kind } => self.ended(&kind),
        }
        None
    }

    /// Logs that the server does not serve a kind, and later that the server serves it. Until then, the plugins that
    /// need the kind see no objects of the kind.
    fn note_missing(&mut self, kind: &KindRef, missing: Option<String>) {
        let was_missing = self.missing.keys().any(|missing| is_same_kind(missing, kind));
        let Some(reason) = missing else {
            self.missing.retain(|missing, _| !is_same_kind(missing, kind));
            if was_missing {
                let (kind, plugins) = (watched_kinds::shown(kind), self.kinds.users(kind));
                info!(kind, plugins, "the API server serves this kind now; the plugins see its objects");
            }
            return;
        };
        if !was_missing {
            tell_missing(kind, &self.kinds.users(kind), &reason);
        }
        self.missing.insert(kind.clone(), reason);
    }

    fn is_complete(&mut self, kind: &KindRef) -> Option<Event> {
        let object_kind = object_kind(kind);
        self.unlisted.remove(&object_kind);
        self.listed.insert(kind.clone());
        self.answer_extenders();
        let was_awaited = self.awaited.remove(&object_kind);
        if was_awaited {
            info!(kind = kind.plural, "the objects of this kind are listed; retrying the pods that need them");
            self.read.insert(object_kind.clone());
        }
        if self.is_forbidden(&object_kind) {
            self.forbidden.retain(|forbidden| self::object_kind(forbidden) != object_kind);
            info!(kind = kind.plural, "this kind can be listed now; retrying the pods that need it");
        } else if !was_awaited {
            return None;
        }
        Some(Event::KindListed(object_kind))
    }

    /// Handles a kind that may not be listed. From now on, only pods that need the kind wait. A kind that was listed
    /// before keeps its known objects, as in kube-scheduler.
    fn go_without(&mut self, kind: &KindRef, rule: &str) -> Option<Event> {
        let object_kind = object_kind(kind);
        let is_listed = self.listed.iter().any(|listed| is_same_kind(listed, kind));
        if is_indispensable(&object_kind) || is_listed {
            return None;
        }
        self.unlisted.remove(&object_kind);
        if self.is_forbidden(&object_kind) {
            return None;
        }
        self.forbidden.insert(kind.clone());
        let dispensable_for = dispensable_for(&object_kind);
        let without = dispensable_for.join(", ");
        warn!(
            kind = kind.plural,
            rule, without, "this kind cannot be listed; pods stay pending if one of their plugins reads it"
        );
        let reason = format!("the scheduler may not list {}: its ClusterRole lacks {rule}", kind.plural);
        Some(Event::KindUnlisted { kind: object_kind, unlisted: UnlistedKind { reason, dispensable_for } })
    }

    fn is_forbidden(&self, kind: &ObjectKind) -> bool {
        self.forbidden.iter().any(|forbidden| object_kind(forbidden) == *kind)
    }

    /// The number of kinds that are watched and may be listed, with pods and nodes.
    fn n_listed(&self) -> usize {
        let is_forbidden = |kind: &&KindRef| self.forbidden.iter().any(|forbidden| is_same_kind(forbidden, kind));
        self.kinds.open().filter(|kind| !is_forbidden(kind)).count() + 2
    }

    fn is_listed(&self) -> bool {
        self.pods_synced && self.nodes_synced && self.unlisted.is_empty()
    }
}

fn tell_missing(kind: &KindRef, plugins: &str, reason: &str) {
    let (fix, kind) = (watched_kinds::advice_on_missing(kind), watched_kinds::shown(kind));
    warn!(
        kind,
        plugins,
        reason,
        fix,
        "the API server does not serve a kind that plugins read; the plugins see no objects of this kind"
    );
}

/// The event that a kind is unlisted until its next list is complete.
fn is_incomplete(kind: &KindRef, object_kind: ObjectKind) -> Event {
    let reason = format!("the list of {} is not complete yet", kind.likely_plural());
    Event::KindUnlisted { kind: object_kind, unlisted: UnlistedKind { reason, dispensable_for: Vec::new() } }
}

fn object_kind(kind: &KindRef) -> ObjectKind {
    ObjectKind { api_version: kind.api_version(), kind: kind.kind.clone() }
}

fn key(kind: &KindRef, namespace: String, name: String) -> ObjectKey {
    ObjectKey { api_version: kind.api_version(), kind: kind.kind.clone(), namespace, name }
}

/// The name of the resource in events. Pods and nodes as complete objects cause no events of their own, because plugins
/// that registered for pods and nodes already get events.
fn resource(kind: &KindRef) -> String {
    match kind.resource() {
        resource if resource == "Pod" || resource == "Node" => format!("{}.v1.", kind.plural),
        resource => resource,
    }
}

#[cfg(test)]
mod tests;
