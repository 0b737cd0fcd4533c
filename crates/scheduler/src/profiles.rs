//! The profiles by `schedulerName`, and the events for which their plugins registered.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{
    Clock, ClusterEvent, Instance, Manifest, Measured, Meter, ObjectKind, PluginIdx, PluginVersion, Point, Points,
    Profile, Status, TraceSampling, UnlistedKind, UnlistedKinds,
};
use berth_model::{ClusterTable, Sym, Symbols};
use berth_queue::PluginEvents;
use rustc_hash::FxHashMap;

/// The name of the rejecting plugin for pods that extenders rejected (`ExtenderName` in
/// `pkg/scheduler/framework/extender.go`).
pub(crate) const EXTENDER: &str = "Extender";

/// The kinds whose events bring back the pods that extenders rejected (`UnrollWildCardResource` in
/// `pkg/scheduler/framework/types.go`).
const KINDS_FOR_EXTENDERS: [&str; 10] = [
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "storage.k8s.io/StorageClass",
    "resource.k8s.io/ResourceClaim",
    "resource.k8s.io/DeviceClass",
];

/// All profiles of the process. An index into the list is valid until the profiles are replaced.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    list: Vec<Profile>,
    by_name: FxHashMap<Sym, usize>,
    /// The clock that times plugins, and the seed of the sampling.
    clock: Option<(Arc<dyn Clock>, u64)>,
    /// The share of attempts that is traced.
    tracing: TraceSampling,
    /// The kinds that no plugin can see.
    unlisted: Arc<UnlistedKinds>,
}

impl Profiles {
    fn new(list: Vec<Profile>, symbols: &mut Symbols) -> Self {
        let by_name =
            list.iter().enumerate().map(|(index, profile)| (symbols.intern(&profile.scheduler_name), index)).collect();
        Self { list, by_name, clock: None, tracing: TraceSampling::default(), unlisted: Arc::default() }
    }

    /// Replaces all profiles, and returns the old profiles. The plugins of the new profiles are measured like the
    /// plugins of the old profiles.
    pub(crate) fn replace(&mut self, list: Vec<Profile>, symbols: &mut Symbols) -> Vec<Profile> {
        let before = std::mem::replace(self, Self::new(list, symbols));
        self.tracing = before.tracing;
        if let Some((clock, seed)) = before.clock {
            self.measure_with(clock, seed);
        }
        self.set_unlisted(before.unlisted);
        before.list
    }

    /// `schedulerName`s of all profiles.
    pub(crate) fn scheduler_names(&self) -> Vec<Sym> {
        self.by_name.keys().copied().collect()
    }

    /// Notes that the objects of the kind are unknown from now on. Returns the plugins that read the kind.
    pub(crate) fn kind_unlisted(&mut self, kind: ObjectKind, unlisted: UnlistedKind) -> BTreeSet<Arc<str>> {
        let readers = self.readers_of(&kind);
        let mut kinds = UnlistedKinds::clone(&self.unlisted);
        kinds.insert(kind, unlisted);
        self.set_unlisted(Arc::new(kinds));
        readers
    }

    /// Notes that all objects of the kind are known. Returns the plugins that read the kind and could not see it
    /// before.
    pub(crate) fn kind_listed(&mut self, kind: &ObjectKind) -> BTreeSet<Arc<str>> {
        let mut kinds = UnlistedKinds::clone(&self.unlisted);
        if !kinds.remove(kind) {
            return BTreeSet::new();
        }
        self.set_unlisted(Arc::new(kinds));
        self.readers_of(kind)
    }

    /// The kinds that no plugin can see.
    pub(crate) fn unlisted(&self) -> Arc<UnlistedKinds> {
        Arc::clone(&self.unlisted)
    }

    /// Whether an instance of a binary was lost. Its plugin then answers no more questions.
    pub(crate) fn has_lost_instance(&mut self) -> bool {
        let mut plugins = self.list.iter_mut().flat_map(Profile::plugins_mut);
        plugins.any(|plugin| {
            plugin.version().binary.is_some() && plugin.hosted().is_some_and(|it| it.out_of_service().is_some())
        })
    }

    /// Sets the kinds that no plugin can see.
    pub(crate) fn set_unlisted(&mut self, unlisted: Arc<UnlistedKinds>) {
        for profile in &mut self.list {
            profile.set_unlisted(Arc::clone(&unlisted));
        }
        self.unlisted = unlisted;
    }

    /// The manifests of the plugins of all profiles.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.list.iter().flat_map(Profile::instances).map(|instance| instance.plugin.manifest())
    }

    fn readers_of(&self, kind: &ObjectKind) -> BTreeSet<Arc<str>> {
        let instances = self.list.iter().flat_map(Profile::instances);
        let reads = |instance: &&Instance| instance.plugin.manifest().needs.objects.contains(kind);
        instances.filter(reads).map(|instance| Arc::clone(instance.name())).collect()
    }

    pub(crate) fn measure_with(&mut self, clock: Arc<dyn Clock>, seed: u64) {
        for profile in &mut self.list {
            profile.set_meter(Meter::new(Arc::clone(&clock), seed).with_traces(self.tracing));
        }
        self.clock = Some((clock, seed));
    }

    pub(crate) fn trace_with(&mut self, tracing: TraceSampling) {
        self.tracing = tracing;
        if let Some((clock, seed)) = self.clock.clone() {
            self.measure_with(clock, seed);
        }
    }

    pub(crate) fn drain_measured(&mut self, take: &mut impl FnMut(&Profile, &Measured)) {
        for profile in &mut self.list {
            let mut measured = std::mem::take(profile.meter().measured_mut());
            take(profile, &measured);
            measured.clear();
            *profile.meter().measured_mut() = measured;
        }
    }

    pub(crate) fn serves(&self, scheduler_name: Sym) -> bool {
        self.by_name.contains_key(&scheduler_name)
    }

    pub(crate) fn serves_text(&self, scheduler_name: &str, table: &ClusterTable) -> bool {
        table.symbols.lookup(scheduler_name).is_some_and(|name| self.serves(name))
    }

    pub(crate) fn get_mut(&mut self, scheduler_name: Sym) -> Option<&mut Profile> {
        self.list.get_mut(*self.by_name.get(&scheduler_name)?)
    }

    pub(crate) fn get(&self, scheduler_name: Sym) -> Option<&Profile> {
        self.list.get(*self.by_name.get(&scheduler_name)?)
    }

    /// The names of the profiles in the order of the configuration.
    pub(crate) fn names(&self) -> Vec<Sym> {
        let mut names: Vec<(usize, Sym)> = self.by_name.iter().map(|(&name, &index)| (index, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// The profiles whose pods wait while all plugins together have no time.
    pub(crate) fn waiting_for_time(&mut self) -> Vec<Sym> {
        let Self { list, by_name, .. } = self;
        let mut waits = |index: usize| list.get_mut(index).is_some_and(Profile::waits_for_time);
        by_name.iter().filter(|(_, index)| waits(**index)).map(|(&name, _)| name).collect()
    }

    /// Whether the profile of this `schedulerName` has the plugin.
    pub(crate) fn has(&self, scheduler_name: &str, plugin: &str) -> bool {
        self.list.iter().any(|profile| profile.scheduler_name == scheduler_name && profile.find(plugin).is_some())
    }

    /// Whether the profile has the plugin.
    pub(crate) fn uses(&self, scheduler_name: Sym, plugin: &str) -> bool {
        self.get(scheduler_name).is_some_and(|profile| profile.find(plugin).is_some())
    }

    /// The reason why the profile's plugins may not be asked about a pod now: the status of a required plugin that has
    /// no time.
    pub(crate) fn why_no_time(&mut self, scheduler_name: Sym) -> Option<Status> {
        // If no profile serves the pod any more, no plugin is asked.
        self.get_mut(scheduler_name)?.have_time().err().map(|refusal| refusal.status)
    }

    /// Whether messages wait for plugins.
    pub(crate) fn has_messages(&self) -> bool {
        self.list.iter().any(Profile::has_messages)
    }

    /// The profiles with plugins for which messages wait.
    pub(crate) fn with_messages(&self) -> Vec<Sym> {
        if self.has_messages() {
            self.names().into_iter().filter(|&name| self.get(name).is_some_and(Profile::has_messages)).collect()
        } else {
            Vec::new()
        }
    }

    /// The profiles that use a plugin, in the order of the configuration. If `scheduler_names` is given, only profiles
    /// with these names are returned.
    pub(crate) fn users_of(&self, plugin: &str, scheduler_names: Option<&[String]>) -> Vec<(Sym, PluginIdx)> {
        let mut users = Vec::new();
        for name in self.names() {
            let wanted = self.get(name).filter(|profile| {
                scheduler_names.is_none_or(|scheduler_names| scheduler_names.contains(&profile.scheduler_name))
            });
            users.extend(wanted.and_then(|profile| profile.find(plugin)).map(|plugin| (name, plugin)));
        }
        users
    }

    /// The binaries that answer, by profile.
    pub(crate) fn versions(&self) -> Vec<(String, Vec<PluginVersion>)> {
        let versions = |profile: &Profile| (profile.scheduler_name.clone(), profile.versions().collect());
        self.list.iter().map(versions).collect()
    }

    /// The events for which each profile's plugins registered. Only plugins that can reject a pod, or hold a pod back
    /// at PostFilter, are included. The scheduler does not know which changes affect an extender's answer, so every
    /// event of [`KINDS_FOR_EXTENDERS`] brings back the pods that extenders rejected.
    pub(crate) fn registrations(&self, has_extenders: bool) -> Vec<(Sym, Vec<PluginEvents>)> {
        let of_profile = |name: Sym| {
            let mut plugins = registrations(self.get(name)?);
            plugins.extend(has_extenders.then(events_for_extenders));
            Some((name, plugins))
        };
        self.names().into_iter().filter_map(of_profile).collect()
    }
}

fn events_for_extenders() -> PluginEvents {
    let events = KINDS_FOR_EXTENDERS.map(|kind| ClusterEvent::new(kind, ClusterEvent::ALL));
    PluginEvents::new(Arc::from(EXTENDER), Some(events.into()))
}

fn registrations(profile: &Profile) -> Vec<PluginEvents> {
    let instances = (0u32..).map(PluginIdx).zip(profile.instances());
    let may_reject = |plugin| rejects(profile, plugin) || profile.plugins.at(Point::PostFilter).contains(&plugin);
    let rejecting = instances.filter(|(plugin, _)| may_reject(*plugin)).map(|(_, instance)| instance);
    rejecting
        .map(|instance| {
            PluginEvents::new(Arc::clone(instance.name()), instance.plugin.manifest().events_to_register.clone())
        })
        .collect()
}

/// Whether the plugin itself can reject a pod. Pods may also be held back in the name of a PostFilter plugin that
/// cannot reject pods, until its effects are carried out.
pub(crate) fn rejects(profile: &Profile, plugin: PluginIdx) -> bool {
    Points::REJECTING.iter().any(|point| profile.plugins.at(point).contains(&plugin))
}
