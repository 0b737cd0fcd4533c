//! A profile: the plugins that run for one `schedulerName`, with their points, order and weights.
//!
//! `berth_config` merges the lists from a configuration file, so the lists here are final. A plugin is identified by
//! its position in the profile, [`PluginIdx`], so the loops over plugins never compare strings.

use std::{collections::VecDeque, marker::PhantomData, ops::Range, sync::Arc};

use berth_model::{BinaryId, ClusterTable, NodeIdx, Time};

use crate::{
    effect::{Effect, Permission},
    grants::Grants,
    hooks::{DeltaSource, Fact},
    manifest::Manifest,
    meter::Meter,
    per_point::PerPoint,
    plugin::{ExtensionPoint, Plugin, PluginVersion, Point, Points},
    plugin_messages::{LateEffects, Placement, PluginMessage},
    points::{Call, CycleId},
    status::Status,
    unlisted::UnlistedKinds,
};

pub use crate::plugin::PluginIdx;

/// The plugins that run at each point, in order, and the weights of their scores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSet {
    order: PerPoint<Vec<PluginIdx>>,
    weights: Vec<i64>,
}

impl PluginSet {
    /// The plugins of `point`, first to last.
    #[must_use]
    pub fn at(&self, point: Point) -> &[PluginIdx] {
        &self.order[point]
    }

    /// Adds `plugin` as the last one at `point`.
    pub fn enable(&mut self, point: Point, plugin: PluginIdx) {
        self.order[point].push(plugin);
    }

    /// Sets the plugins that run at `point`, first to last.
    fn set(&mut self, point: Point, order: Vec<PluginIdx>) {
        self.order[point] = order;
    }

    /// The weight of the plugin's scores. The default is 1.
    #[must_use]
    pub fn weight(&self, plugin: PluginIdx) -> i64 {
        self.weights.get(plugin.index()).copied().unwrap_or(1)
    }

    /// Sets the weight of the plugin's scores.
    pub fn set_weight(&mut self, plugin: PluginIdx, weight: i64) {
        if plugin.index() >= self.weights.len() {
            self.weights.resize(plugin.index() + 1, 1);
        }
        self.weights[plugin.index()] = weight;
    }
}

/// A plugin that serves one profile.
#[derive(Debug)]
pub struct Instance {
    name: Arc<str>,
    /// The plugin's `pluginConfig` as JSON, kept for the next binary of the same name.
    pub args: String,
    /// The grants of the plugin.
    pub grants: Grants,
    /// The configured plugin.
    pub plugin: Box<dyn Plugin>,
    /// The points at which the plugin may be called.
    points: Points,
    /// Whether the plugin's time is bounded. A native plugin has no bounds.
    is_hosted: bool,
    /// Whether the plugin has the hook Reuse.
    has_reuse: bool,
    /// Whether the plugin has the hook ShareFacts.
    shares: bool,
    /// The messages for which the plugin had no time, the oldest first. The plugin receives them before its next
    /// question.
    unsent: VecDeque<PluginMessage>,
}

/// The plugins that serve one `schedulerName`.
#[derive(Debug)]
pub struct Profile {
    /// The `schedulerName` of the pods that the profile serves.
    pub scheduler_name: String,
    /// The percentage for this profile, which overrides the global setting; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugins that run. A plugin runs only at points that its binary implements.
    pub plugins: PluginSet,
    /// The points at which each plugin runs as soon as a binary implements them.
    wanted: PluginSet,
    instances: Vec<Instance>,
    meter: Meter,
    unlisted: Arc<UnlistedKinds>,
}

impl Profile {
    /// A profile without plugins.
    #[must_use]
    pub fn new(scheduler_name: &str) -> Self {
        Self {
            scheduler_name: scheduler_name.to_owned(),
            percentage_of_nodes_to_score: None,
            plugins: PluginSet::default(),
            wanted: PluginSet::default(),
            instances: Vec::new(),
            meter: Meter::default(),
            unlisted: Arc::default(),
        }
    }

    /// Adds a plugin that is not enabled at any point yet.
    pub fn add(&mut self, mut plugin: Box<dyn Plugin>, args: &str, grants: Grants) -> PluginIdx {
        let name = Arc::from(plugin.manifest().name.as_str());
        let points = plugin.points();
        let (is_hosted, has_reuse) = (plugin.hosted().is_some(), plugin.reuse().is_some());
        let (shares, args, unsent) = (plugin.sharing().is_some(), args.to_owned(), VecDeque::new());
        self.instances.push(Instance { name, args, grants, plugin, points, is_hosted, has_reuse, shares, unsent });
        PluginIdx(u32::try_from(self.instances.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds a plugin and enables it, as the last plugin, at every point that it implements.
    pub fn add_everywhere(&mut self, plugin: Box<dyn Plugin>, args: &str) -> PluginIdx {
        let points = plugin.points();
        let idx = self.add(plugin, args, Grants::ALL);
        for point in points.iter() {
            self.plugins.enable(point, idx);
        }
        idx
    }

    /// Gives `plugin` the last place at `point`. The plugin runs at this point as long as its binary implements the
    /// point. The next binary of its name may implement other points.
    pub fn want(&mut self, point: Point, plugin: PluginIdx) {
        self.wanted.enable(point, plugin);
        self.settle(point);
    }

    /// Enables the plugins at `point` that are wanted there and implement it.
    fn settle(&mut self, point: Point) {
        let order = self.wanted.at(point).iter().filter(|plugin| self.implements(**plugin, point)).copied().collect();
        self.plugins.set(point, order);
    }

    fn implements(&self, plugin: PluginIdx, point: Point) -> bool {
        self.instances.get(plugin.index()).is_some_and(|instance| instance.points.contains(point))
    }

    /// The plugin itself; `None` for an index of another profile.
    #[must_use]
    pub fn get(&mut self, plugin: PluginIdx) -> Option<&mut (dyn Plugin + 'static)> {
        self.instances.get_mut(plugin.index()).map(|instance| &mut *instance.plugin)
    }

    /// The name of a plugin; empty for an index of another profile.
    #[must_use]
    pub fn name(&self, plugin: PluginIdx) -> &Arc<str> {
        static UNKNOWN: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
        self.instances.get(plugin.index()).map_or(&UNKNOWN, |instance| &instance.name)
    }

    /// The binary that answers for a plugin; `None` if a placeholder answers.
    #[must_use]
    pub fn binary(&self, plugin: PluginIdx) -> Option<BinaryId> {
        self.instances.get(plugin.index())?.plugin.version().binary
    }

    /// The plugin of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PluginIdx> {
        let position = self.instances.iter().position(|instance| &*instance.name == name)?;
        u32::try_from(position).ok().map(PluginIdx)
    }

    /// The plugins in the order in which they were added.
    #[must_use]
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The plugins in the order in which they were added, for questions that change them.
    pub fn plugins_mut(&mut self) -> impl Iterator<Item = &mut (dyn Plugin + 'static)> {
        self.instances.iter_mut().map(|instance| &mut *instance.plugin)
    }

    /// Replaces the binary of `plugin`. The new instance runs at the points at which the plugin is wanted and which the
    /// new binary implements. Returns the old instance.
    pub fn replace(&mut self, plugin: PluginIdx, mut new: Box<dyn Plugin>) -> Option<Box<dyn Plugin>> {
        let instance = self.instances.get_mut(plugin.index())?;
        instance.points = new.points();
        (instance.is_hosted, instance.has_reuse) = (new.hosted().is_some(), new.reuse().is_some());
        instance.shares = new.sharing().is_some();
        // The messages that waited for the old instance mean nothing to the new instance.
        instance.unsent.clear();
        let old = std::mem::replace(&mut instance.plugin, new);
        for point in Point::ALL {
            if self.wanted.at(point).contains(&plugin) {
                self.settle(point);
            }
        }
        Some(old)
    }

    /// Takes over the instances of `before` that come from the same binary and have the same arguments. They replace
    /// the profile's new instances. Returns the plugins with another instance, or with other points, than in `before`.
    pub fn continue_from(&mut self, before: &mut Self) -> Vec<PluginIdx> {
        let mut different = Vec::new();
        for (index, instance) in (0u32..).map(PluginIdx).zip(&mut self.instances) {
            let place = before.instances.iter().position(|old| old.name == instance.name);
            let goes_on = place.and_then(|place| before.instances.get_mut(place)).is_some_and(|old| {
                let (is_old, is_new) = (old.plugin.version(), instance.plugin.version());
                // A placeholder says why the binary is missing. The new placeholder has the newer reason, so it
                // replaces the old placeholder.
                let is_same = is_new.binary.is_some() && is_old == is_new && old.args == instance.args;
                if is_same {
                    std::mem::swap(&mut old.plugin, &mut instance.plugin);
                    std::mem::swap(&mut old.points, &mut instance.points);
                    std::mem::swap(&mut old.unsent, &mut instance.unsent);
                }
                is_same
            });
            let place = place.and_then(|place| u32::try_from(place).ok()).map_or(PluginIdx::NOBODY, PluginIdx);
            let stands = |plugins: &PluginSet, plugin| Point::ALL.map(|point| plugins.at(point).contains(&plugin));
            if !goes_on || stands(&before.plugins, place) != stands(&self.plugins, index) {
                different.push(index);
            }
        }
        different
    }

    /// The native plugins, with the data that they have read from the table, for [`Self::continue_natives`] of a later
    /// profile.
    #[must_use]
    pub fn into_natives(self) -> Vec<Instance> {
        let is_native = |instance: &Instance| instance.plugin.version().binary == Some(BinaryId::Native);
        self.instances.into_iter().filter(is_native).collect()
    }

    /// Takes over native plugins of an earlier profile. Each replaces the plugin of this profile with the same name and
    /// the same arguments. The plugins must have been asked about the same table, and no cycle that they know may be
    /// used again. Plugins without such a counterpart are dropped.
    pub fn continue_natives(&mut self, earlier: Vec<Instance>) {
        for Instance { name, args, plugin, .. } in earlier {
            let own = self.instances.iter_mut().find(|own| own.name == name);
            if let Some(own) = own
                && own.args == args
                && own.plugin.version() == plugin.version()
            {
                own.plugin = plugin;
            }
        }
    }

    /// Ends the profile and returns its plugins, so that the caller can drop them without delaying a cycle.
    pub fn into_plugins(self) -> impl Iterator<Item = Box<dyn Plugin>> {
        self.instances.into_iter().map(|instance| instance.plugin)
    }

    /// Whether the operator granted the effect to the plugin by name.
    #[must_use]
    pub fn may(&self, plugin: PluginIdx, permission: Permission) -> bool {
        self.instances.get(plugin.index()).is_some_and(|instance| instance.grants.allows(permission))
    }

    /// Replaces the grants of the plugin.
    pub fn set_grants(&mut self, plugin: PluginIdx, grants: Grants) {
        if let Some(instance) = self.instances.get_mut(plugin.index()) {
            instance.grants = grants;
        }
    }

    /// Takes a plugin out of the profile while `run` runs. In the meantime, `run` may call all other plugins.
    pub(crate) fn without<R>(
        &mut self,
        plugin: PluginIdx,
        run: impl FnOnce(&mut Self, &mut dyn Plugin) -> R,
    ) -> Option<R> {
        let instance = self.instances.get_mut(plugin.index())?;
        let mut taken = std::mem::replace(&mut instance.plugin, Box::new(TakenOut));
        let points = std::mem::replace(&mut instance.points, Points::NONE);
        let answer = run(self, &mut *taken);
        if let Some(instance) = self.instances.get_mut(plugin.index()) {
            (instance.plugin, instance.points) = (taken, points);
        }
        Some(answer)
    }

    /// Sets the kinds that may not be listed, so that nothing is known about their objects. The new kinds replace the
    /// kinds that were set before.
    pub fn set_unlisted(&mut self, unlisted: Arc<UnlistedKinds>) {
        self.unlisted = unlisted;
    }

    /// The reason why `plugin` must not judge the pods that it affects; `None` if the plugin may judge them.
    #[must_use]
    pub fn is_blind(&self, plugin: PluginIdx) -> Option<Status> {
        if self.unlisted.is_empty() {
            return None;
        }
        let instance = self.instances.get(plugin.index())?;
        let reason = self.unlisted.needed_by(instance.plugin.manifest())?;
        Some(Status::unresolvable(format!("plugin {:?} cannot decide about this pod: {reason}", instance.name)))
    }

    /// The first plugin that must not judge pods and has no PreFilter. Without PreFilter, it is unknown which pods the
    /// plugin affects.
    pub(crate) fn blind_to_all(&self) -> Option<Refusal> {
        const JUDGING: [Point; 7] =
            [Point::Filter, Point::PreScore, Point::Score, Point::Reserve, Point::Permit, Point::PreBind, Point::Bind];
        if self.unlisted.is_empty() {
            return None;
        }
        let stands = |point: Point, plugin| self.plugins.at(point).contains(&plugin);
        let plugins = (0u32..).map(PluginIdx).zip(&self.instances).map(|(plugin, _)| plugin);
        let mut judging = plugins
            .filter(|&plugin| !stands(Point::PreFilter, plugin) && JUDGING.iter().any(|&point| stands(point, plugin)));
        judging.find_map(|plugin| Some(Refusal { plugin, status: self.is_blind(plugin)? }))
    }

    /// Measures the plugins with `meter` from now on.
    pub fn set_meter(&mut self, meter: Meter) {
        self.meter = meter;
    }

    /// The meter of the plugins.
    pub fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// The binaries that answer, in the order in which their plugins were added.
    pub fn versions(&self) -> impl Iterator<Item = PluginVersion> + '_ {
        self.instances.iter().map(|instance| instance.plugin.version())
    }

    /// Brings every replica up to date.
    ///
    /// # Errors
    /// The first plugin whose replica could not be updated, with its status.
    pub fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Refusal> {
        for (plugin, instance) in self.hosted() {
            instance.plugin.sync(source).map_err(|status| Refusal { plugin, status })?;
        }
        Ok(())
    }

    /// Updates the replicas of plugins at Reserve that follow pods, before one of their pods leaves its node. A plugin
    /// learns that the pod left only if the plugin knew that the pod came. A plugin that does not learn this keeps its
    /// reservation. A plugin without time is informed later.
    pub fn show_pods_to_reservers(&mut self, source: &dyn DeltaSource) {
        for (_, instance) in self.hosted() {
            if !instance.points.contains(Point::Reserve) || !instance.plugin.manifest().needs.pods {
                continue;
            }
            if instance.is_to_wait() {
                if instance.plugin.keep_changes(source) {
                    instance.unsent.push_back(PluginMessage::Changes);
                }
            } else if instance.plugin.has_time().is_ok() {
                // A plugin that was passed over in the last cycle is updated again once it has time. A fault is
                // reported at the plugin's next question.
                let _ = instance.plugin.sync(source);
            }
        }
    }

    /// Checks that every plugin has time left in its share, and has received the messages that wait for the plugin. The
    /// scheduler calls this function before the plugins. An optional plugin that fails a check is skipped.
    ///
    /// # Errors
    /// The first required plugin that fails a check.
    pub fn have_time(&mut self) -> Result<(), Refusal> {
        for (plugin, instance) in self.hosted() {
            instance.plugin.has_time().map_err(|status| Refusal { plugin, status })?;
            if !instance.unsent.is_empty() && !instance.plugin.pass_over() {
                return Err(Refusal { plugin, status: instance.why_it_waits() });
            }
        }
        Ok(())
    }

    /// The plugins that the scheduler updates and supervises.
    fn hosted(&mut self) -> impl Iterator<Item = (PluginIdx, &mut Instance)> {
        (0u32..).map(PluginIdx).zip(&mut self.instances).filter(|(_, instance)| instance.is_hosted)
    }

    /// Checks in the middle of a cycle whether a plugin still has time. If an optional plugin has no time, the
    /// scheduler skips it afterwards.
    ///
    /// # Errors
    /// The plugin has used up its share and may not be passed over.
    pub(crate) fn still_has_time(&mut self, plugin: PluginIdx) -> Result<(), Status> {
        let hosted = self.instances.get_mut(plugin.index()).filter(|instance| instance.is_hosted);
        let Some(instance) = hosted else { return Ok(()) };
        if instance.plugin.is_out_of_time() { instance.plugin.has_time() } else { Ok(()) }
    }

    /// Whether pods of the profile wait while all plugins together have no time. The pods wait if
    /// [`waits_for_time`](crate::Hosted::waits_for_time) holds for a plugin of the profile.
    pub fn waits_for_time(&mut self) -> bool {
        self.hosted().any(|(_, instance)| instance.plugin.hosted().is_some_and(|hook| hook.waits_for_time()))
    }

    /// Passes the oldest waiting message to one plugin that has time for it, and adds the effects that the plugin asks
    /// for to `late`. Returns whether a plugin got a message, so that the caller calls again.
    pub fn deliver_message(&mut self, now: Time, table: &ClusterTable, late: &mut Vec<LateEffects>) -> bool {
        let indexed = (0u32..).map(PluginIdx).zip(&mut self.instances);
        for (plugin, instance) in indexed.filter(|(_, instance)| !instance.unsent.is_empty()) {
            if !instance.plugin.is_out_of_time()
                && let Some(message) = instance.unsent.pop_front()
            {
                late.extend(message.tell(plugin, &mut *instance.plugin, now, table));
                return true;
            }
        }
        false
    }

    /// Whether messages wait for plugins.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        self.instances.iter().any(|instance| !instance.unsent.is_empty())
    }

    /// Informs the plugin that the placement on `node` was given up, and returns the effects that the plugin asks for.
    /// A plugin that has used up its time is informed later.
    pub(crate) fn tell_unreserved(&mut self, plugin: PluginIdx, call: &Call<'_>, node: NodeIdx) -> Vec<Effect> {
        let Some(instance) = self.instances.get_mut(plugin.index()) else { return Vec::new() };
        if !instance.is_to_wait() {
            return instance.plugin.reserve().map_or_else(Vec::new, |point| point.unreserve(call, node));
        }
        if instance.plugin.knows(call.cycle) {
            instance.unsent.push_back(PluginMessage::Unreserved(Placement::new(call, node)));
        }
        Vec::new()
    }

    /// Informs the plugin that the pod was bound to `node`. A plugin that has used up its time is informed later.
    pub(crate) fn tell_bound(&mut self, plugin: PluginIdx, call: &Call<'_>, node: NodeIdx) {
        let Some(instance) = self.instances.get_mut(plugin.index()) else { return };
        if instance.is_to_wait() {
            instance.unsent.push_back(PluginMessage::Bound(Placement::new(call, node)));
        } else if let Some(point) = instance.plugin.post_bind() {
            point.post_bind(call, node);
        }
    }

    /// The facts that plugins share after a call about the cycle, with the names of the plugins. A plugin without time
    /// is not asked.
    pub fn take_facts(&mut self, cycle: CycleId) -> Vec<(Arc<str>, Vec<Fact>)> {
        let sharing = self.instances.iter_mut().filter(|instance| instance.shares);
        let facts = sharing.filter_map(|instance| {
            let is_asked = !instance.is_to_wait() && instance.plugin.knows(cycle);
            let facts = if is_asked { instance.plugin.take_facts() } else { Vec::new() };
            (!facts.is_empty()).then(|| (Arc::clone(&instance.name), facts))
        });
        facts.collect()
    }

    /// The plugins that share facts and know nothing of the cycle. An instance that was lost cannot take its facts back.
    pub fn sharers_without(&mut self, cycle: CycleId) -> Vec<Arc<str>> {
        let sharing = self.instances.iter_mut().filter(|instance| instance.shares);
        let without =
            sharing.filter_map(|instance| (!instance.plugin.knows(cycle)).then(|| Arc::clone(&instance.name)));
        without.collect()
    }

    /// The first plugin that is out of service and must not be passed over.
    #[must_use]
    pub fn out_of_service(&mut self) -> Option<Refusal> {
        self.hosted().find_map(|(plugin, instance)| Some(Refusal { plugin, status: instance.plugin.out_of_service()? }))
    }

    /// The plugins of a point, for calls one after the other: `profile.each::<dyn Filter>()`.
    #[must_use]
    pub fn each<P: ExtensionPoint + ?Sized>(&self) -> PluginsAt<P> {
        PluginsAt { positions: 0..self.plugins.at(P::POINT).len(), point: PhantomData }
    }

    /// Informs every plugin that a cycle is over. A plugin that has used up its time is informed later.
    pub fn end_cycle(&mut self, cycle: CycleId) {
        for instance in &mut self.instances {
            if !instance.is_to_wait() {
                instance.plugin.end_cycle(cycle);
            } else if instance.plugin.knows(cycle) {
                instance.unsent.push_back(PluginMessage::CycleEnded(cycle));
            }
        }
    }
}

/// A plugin that rejected a pod, could not be asked about it or failed, and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The plugin.
    pub plugin: PluginIdx,
    /// The plugin's status.
    pub status: Status,
}

/// An iteration over the plugins of one point. It borrows the profile only during each step, so the caller may call the
/// plugin and then ask the profile for the name of the plugin.
#[derive(Debug)]
pub struct PluginsAt<P: ?Sized> {
    /// The plugins that were not visited yet, as positions in [`PluginSet::at`].
    positions: Range<usize>,
    point: PhantomData<fn(&mut P)>,
}

impl<P: ExtensionPoint + ?Sized> PluginsAt<P> {
    /// The iteration without the first `n` positions.
    #[must_use]
    pub fn skip(mut self, n: usize) -> Self {
        self.positions.start = n.min(self.positions.end);
        self
    }

    /// The position of the plugin that comes next.
    #[must_use]
    pub fn position(&self) -> usize {
        self.positions.start
    }

    /// The next plugin, at this point. Plugins that do not implement the point are skipped.
    pub fn next<'p>(&mut self, profile: &'p mut Profile) -> Option<(PluginIdx, &'p mut P)> {
        self.next_but(profile, |_| false)
    }

    /// The next plugin that `skips` does not exclude.
    pub fn next_but<'p>(
        &mut self,
        profile: &'p mut Profile,
        skips: impl Fn(PluginIdx) -> bool,
    ) -> Option<(PluginIdx, &'p mut P)> {
        let plugins = profile.plugins.at(P::POINT);
        let plugin = self.positions.find_map(|position| {
            let plugin = *plugins.get(position)?;
            (!skips(plugin) && profile.implements(plugin, P::POINT)).then_some(plugin)
        })?;
        Some((plugin, P::of(profile.get(plugin)?)?))
    }

    /// The last plugin that was not visited yet.
    pub fn next_back<'p>(&mut self, profile: &'p mut Profile) -> Option<(PluginIdx, &'p mut P)> {
        let plugins = profile.plugins.at(P::POINT);
        let plugin = self.positions.by_ref().rev().find_map(|position| {
            let plugin = *plugins.get(position)?;
            profile.implements(plugin, P::POINT).then_some(plugin)
        })?;
        Some((plugin, P::of(profile.get(plugin)?)?))
    }
}

impl Instance {
    /// The plugin's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the plugin has the hook Reuse.
    pub(crate) fn has_reuse(&self) -> bool {
        self.has_reuse
    }

    /// Whether a message must wait: the plugin has no time, or older messages wait for it.
    fn is_to_wait(&mut self) -> bool {
        self.is_hosted && (!self.unsent.is_empty() || self.plugin.is_out_of_time())
    }

    fn why_it_waits(&self) -> Status {
        Status::error(format!("plugin {:?} has used up its time, and has not received all changes of pods", self.name))
    }
}

/// The plugin in place of a plugin that is being called and may not be called again.
struct TakenOut;

impl Plugin for TakenOut {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: std::sync::LazyLock<Manifest> = std::sync::LazyLock::new(Manifest::default);
        &MANIFEST
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }

    crate::points!();
    crate::hooks!();
}
