//! Pods and nodes that come from a scheduler that is followed. They exist only in the form of this scheduler's table.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::Profile;
use berth_model::{KindRef, Node, ObjectKey, Pod, PodUid, TemporarySymbols, Time};
use berth_scheduler::{Action, ChangeBatch, Event, PodRequest, Reconfiguration, Request, Scheduler, Settings};
use rustc_hash::FxHashMap;

use super::Simulation;
use crate::api_server::Change;

/// The data about pods and objects that the API server of the simulation does not have.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The pods that wait for a node, in the form of the scheduler's table.
    waiting: FxHashMap<PodUid, Arc<Pod>>,
    /// The pods that left their nodes since the fork began.
    gone: FxHashMap<PodUid, Arc<Pod>>,
    /// The objects that have changed since the fork began, in their state at the beginning of the fork. `None` while
    /// there is no fork.
    before: Option<BTreeMap<ObjectKey, Option<Arc<[u8]>>>>,
}

impl Known {
    /// Notes the changes that an event is about to make.
    pub(super) fn note(&mut self, event: &Event, scheduler: &Scheduler) {
        let Some(before) = &mut self.before else { return };
        if let Event::PodDeleted { uid, .. } = event {
            self.waiting.remove(uid.as_str());
            if let Some(cached) = scheduler.cache().pod(uid) {
                self.gone.insert(PodUid::from(uid.as_str()), Arc::clone(cached.pod()));
            }
        }
        if let Event::ObjectApplied { key, .. } | Event::ObjectDeleted { key, .. } = event
            && !before.contains_key(key)
        {
            before.insert(key.clone(), scheduler.cache().object(key).map(Arc::clone));
        }
    }

    /// Whether there is a fork of a cluster that is followed.
    pub(super) fn is_forked(&self) -> bool {
        self.before.is_some()
    }

    /// Carries out the binding of a pod that has the form of the scheduler's table. Returns `false` for any other
    /// action.
    pub(super) fn bind(
        &mut self,
        action: &Action,
        scheduler: &mut Scheduler,
        now: Time,
        changes: &mut Vec<Change>,
    ) -> bool {
        let Action::Pod(PodRequest { pod, request: Request::Bind { cycle, node }, .. }) = action else { return false };
        let Some(waiting) = self.waiting.remove(&pod.uid) else { return false };
        scheduler.handle(Event::BindFinished { cycle: *cycle, uid: pod.uid.clone(), result: Ok(()) }, now);
        let node_name = scheduler.cache().table().symbols.lookup(node).unwrap_or_default();
        scheduler.show_pod(&Arc::new(Pod { node_name, ..Pod::clone(&waiting) }), now);
        changes.push(Change::Bound { pod: pod.clone(), node: Arc::clone(node) });
        true
    }
}

impl Simulation<'_> {
    /// Applies a batch of changes in the scheduler that this simulation follows: [`Scheduler::follow`].
    pub(crate) fn follow(&mut self, batch: ChangeBatch) -> bool {
        self.scheduler.follow(batch)
    }

    /// Replaces the settings and plugins for later decisions. Instances of the same binaries with the same arguments
    /// stay.
    pub(crate) fn reconfigure(&mut self, settings: Settings, profiles: Vec<Profile>) {
        let profiles = Some(self.scheduler.objects().put(profiles));
        self.tell_time();
        self.handle(Event::Reconfigured(Reconfiguration { settings, profiles, extenders: None }));
        drop(self.scheduler.drain_retired());
    }

    /// Shows a pod that has the form of the scheduler's table.
    pub(crate) fn show_pod(&mut self, pod: Arc<Pod>) {
        self.scheduler.show_pod(&pod, self.now);
        if pod.node_name.is_none() {
            self.known.waiting.insert(pod.uid.clone(), pod);
        }
    }

    /// Shows a node that has the form of the scheduler's table.
    pub(crate) fn show_node(&mut self, node: Node) {
        self.scheduler.show_node(node, self.now);
    }

    /// The pod that left its node since the fork began.
    pub(crate) fn gone(&self, uid: &str) -> Option<Arc<Pod>> {
        self.known.gone.get(uid).map(Arc::clone)
    }

    /// Begins a fork of a cluster that is followed.
    pub(crate) fn begin_fork(&mut self) -> TemporarySymbols {
        self.known.before = Some(BTreeMap::new());
        self.scheduler.begin_temporary_symbols()
    }

    /// Gives every object the bytes that it had when the fork began.
    pub(crate) fn restore_objects(&mut self) {
        self.server.forget_objects();
        for (key, json) in self.known.before.take().unwrap_or_default() {
            let mut kind = KindRef::of_kind(&key.api_version, &key.kind);
            kind.plural = kind.likely_plural();
            let resource = kind.resource();
            let event = match json {
                Some(json) => Event::ObjectApplied { resource, key, json },
                None => Event::ObjectDeleted { resource, key },
            };
            self.scheduler.handle(event, self.now);
        }
    }

    /// Ends the fork. All pods and nodes of the fork must be gone.
    pub(crate) fn end_fork(&mut self, symbols: TemporarySymbols) {
        self.known.gone.clear();
        self.known.waiting.clear();
        self.scheduler.end_temporary_symbols(symbols);
        self.scheduler.drain_observations();
    }

    /// Whether an instance of a plugin was lost to a fault.
    pub(crate) fn has_lost_plugin(&mut self) -> bool {
        self.scheduler.has_lost_plugin()
    }
}
