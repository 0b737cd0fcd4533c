//! A cluster that follows a scheduler. Questions are answered in forks, and a fork leaves no trace.

use std::sync::Arc;

use berth_framework::Profile;
use berth_model::{Feature, Pod, Sym, Time};
use berth_scheduler::{ChangeBatch, Event, Settings};

use super::{Placing, PlacingConditions, Step};
use crate::{cluster::ClusterPod, simulation::Simulation};

impl<'a> Placing<'a> {
    /// Starts to follow a scheduler, with an empty cluster and without profiles. `tell_time` is called with the time of
    /// the simulation, which components need.
    #[must_use]
    pub fn following(settings: Settings, tell_time: Box<dyn Fn(Time) + 'a>) -> Self {
        let conditions = PlacingConditions::new(&settings, &[], false, Box::new(|| false));
        let mut simulation = Simulation::new(settings, Vec::new()).telling_time(tell_time);
        simulation.handle(Event::Synced);
        Self { is_following: true, ..Self::alone(simulation, conditions) }
    }

    /// Applies the next batch of changes. No fork may be open. Returns whether the cluster differs from before. For a
    /// batch that [is the first](ChangeBatch::is_first), the caller must start with a new value.
    pub fn follow(&mut self, batch: ChangeBatch) -> bool {
        debug_assert!(self.journal.is_none(), "a fork is reverted before the next batch");
        self.simulation.follow(batch)
    }

    /// Whether the scheduler that is followed knows this name. Profiles may have only known names, because another name
    /// would get a number that the followed scheduler gives to another string.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.simulation.scheduler().cache().table().symbols.lookup(name).is_some()
    }

    /// Replaces the settings and plugins for later decisions. Instances of the same binaries with the same arguments
    /// stay.
    pub fn reconfigure(&mut self, settings: Settings, profiles: Vec<Profile>) {
        let mut instances = profiles.iter().flat_map(Profile::instances);
        let is_gated = settings.queue.features.has(Feature::DRANodeAllocatableResources);
        let whole_pods = is_gated || instances.any(|instance| instance.plugin.manifest().needs.pod_json);
        self.conditions = PlacingConditions::new(&settings, &profiles, whole_pods, Box::new(|| false));
        self.simulation.reconfigure(settings, profiles);
    }

    /// Makes the simulation give up once `is_over` returns true.
    pub fn give_up_when(&mut self, is_over: Box<dyn Fn() -> bool + 'a>) {
        self.conditions.is_over = is_over;
    }

    /// Whether a plugin lost an instance through a fault, so that the plugin answers no further question.
    pub fn has_lost_plugin(&mut self) -> bool {
        self.simulation.has_lost_plugin()
    }

    /// The names of all objects of a kind that the scheduler knows, with their namespaces.
    pub fn names_of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        let objects = self.simulation.scheduler().cache().objects_after(None);
        objects.map(|(key, _)| key).filter(move |key| key.kind == kind).map(|key| (&*key.namespace, &*key.name))
    }

    /// Whether there is a node of this name.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        let cache = self.simulation.scheduler().cache();
        let known = cache.table().symbols.lookup(name).and_then(|name| cache.node(name));
        known.is_some_and(|node| node.row().is_some())
    }

    /// Whether the cluster belongs to a scheduler that is followed.
    pub(crate) fn is_following(&self) -> bool {
        self.is_following
    }

    /// A pod on a node, for a cluster that is followed.
    pub(super) fn known_pod(&self, uid: &str) -> Option<Arc<Pod>> {
        let cached = self.simulation.scheduler().cache().pod(uid)?;
        self.is_following.then(|| Arc::clone(cached.pod()))
    }

    /// [`Self::remove_node`] for a node of the scheduler that is followed.
    pub(super) fn remove_known_node(&mut self, name: &str) -> Option<Vec<ClusterPod>> {
        if !self.is_following {
            return None;
        }
        let cache = self.simulation.scheduler().cache();
        let symbols = &cache.table().symbols;
        let name_in_table = symbols.lookup(name)?;
        let node = cache.node(name_in_table)?.row()?.1.clone();
        let mut pods: Vec<ClusterPod> =
            cache.pods_on(name_in_table).map(|pod| ClusterPod::of_known(pod, symbols)).collect();
        pods.sort_by(|one, other| one.pod.metadata.uid.cmp(&other.pod.metadata.uid));
        pods.iter().for_each(|pod| self.delete(pod));
        self.simulation.handle(Event::NodeDeleted { name: name.to_owned() });
        self.write_down(|| Step::KnownNodeWent(Box::new(node)));
        self.n_failed_since_change = 0;
        Some(pods)
    }

    pub(super) fn text(&self, sym: Sym) -> &str {
        self.simulation.scheduler().cache().table().symbols.text(sym)
    }
}
