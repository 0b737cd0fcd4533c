//! Instances of a new binary are prepared while the old one goes on.
//!
//! Starting a component, configuring it and filling its replica takes milliseconds to seconds, and no cycle should wait for
//! it. So a swap takes three steps: the scheduler copies out what a replica begins with ([`Preparation`]); the host builds
//! instances and feeds them that copy, on whatever thread it likes; and between two cycles the scheduler catches them up
//! with what changed meanwhile and exchanges pointers.
//!
//! Swaps of one plugin happen in the order in which they were wished for: the next one waits until the one before is over.
//! A plugin that hands its state on is filled by the scheduler after all, as the state comes before the first delta and only
//! the old instance has it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use berth_framework::{DeltaSource, Grants, Needs, Plugin, PluginFactory};
use berth_model::{Delta, Symbols, Time};
use rustc_hash::FxHashMap;

use crate::{action::Action, scheduler::Scheduler};

/// Another binary under a plugin's name, in these profiles or in all that use it.
#[derive(Clone, Debug)]
pub(crate) struct Swap {
    pub(crate) name: String,
    pub(crate) scheduler_names: Option<Vec<String>>,
    pub(crate) factory: Arc<dyn PluginFactory>,
    /// What the plugin may ask for from then on; `None` leaves it.
    pub(crate) grants: Option<Grants>,
}

/// By profile, an instance or why there is none.
pub(crate) type Instances = BTreeMap<String, Result<Box<dyn Plugin>, String>>;

/// By plugin, the swaps that wait for the one that is being prepared.
pub(crate) type Preparing = FxHashMap<String, VecDeque<Swap>>;

/// All that is needed to prepare a swap.
#[derive(Clone, Debug)]
pub struct Preparation {
    swap: Swap,
    /// By profile, the plugin's arguments.
    args: BTreeMap<String, String>,
    beginning: Frozen,
}

/// Instances of a new binary that are almost up to date.
#[derive(Debug)]
pub struct Prepared {
    swap: Swap,
    instances: Instances,
}

/// What a replica of one plugin begins with.
#[derive(Clone, Debug)]
struct Frozen(Delta);

impl DeltaSource for Frozen {
    fn delta_since(&self, _needs: &Needs, _generation: u64, _n_symbols: usize) -> Delta {
        self.0.clone()
    }

    fn generation(&self) -> u64 {
        self.0.generation
    }
}

impl PartialEq for Preparation {
    fn eq(&self, other: &Self) -> bool {
        self.swap.name == other.swap.name && Arc::ptr_eq(&self.swap.factory, &other.swap.factory)
    }
}

impl Preparation {
    /// The plugin's name.
    #[must_use]
    pub fn plugin(&self) -> &str {
        &self.swap.name
    }

    /// Builds the instances and feeds them. Takes up to seconds.
    #[must_use]
    pub fn run(self) -> Prepared {
        let Self { swap, args, beginning } = self;
        let build = |args: &str| {
            let mut instance = swap.factory.build(args)?;
            if instance.state().is_none() {
                fill(&mut *instance, &beginning)?;
            }
            Ok(instance)
        };
        let instances = args.into_iter().map(|(scheduler_name, args)| (scheduler_name, build(&args))).collect();
        Prepared { swap, instances }
    }

    /// For a preparation that came to nothing.
    #[must_use]
    pub fn failed(self, reason: &str) -> Prepared {
        let instances = self.args.into_keys().map(|scheduler_name| (scheduler_name, Err(reason.to_owned()))).collect();
        Prepared { swap: self.swap, instances }
    }
}

/// # Errors
/// Why the instance may not take its plugin's place.
pub(crate) fn fill(instance: &mut dyn Plugin, source: &dyn DeltaSource) -> Result<(), String> {
    match instance.sync(source) {
        // A plugin that is out of service turns pods down, which is what it is there for.
        Err(status) if !status.code.is_rejected() => Err(format!("its replica could not be fed: {}", status.message())),
        Err(_) | Ok(()) => Ok(()),
    }
}

impl Scheduler {
    pub(crate) fn plugin_ready(&mut self, swap: Swap, now: Time) {
        if let Some(waiting) = self.preparing.get_mut(&swap.name) {
            return waiting.push_back(swap);
        }
        if !swap.factory.takes_long() {
            return self.swap_plugin(&swap, Instances::new(), now);
        }
        let mut args = BTreeMap::new();
        for (scheduler_name, plugin) in self.users(&swap.name, swap.scheduler_names.as_deref()) {
            let Some(profile) = self.profiles.get_mut(scheduler_name) else { continue };
            let instance = profile.instances().get(plugin.index());
            let own = instance.map(|instance| instance.args.clone()).unwrap_or_default();
            args.insert(profile.scheduler_name.clone(), own);
        }
        if args.is_empty() {
            return;
        }
        let beginning = Frozen(self.cache.delta_since(&swap.factory.manifest().needs, 0, Symbols::N_WELL_KNOWN));
        self.preparing.insert(swap.name.clone(), VecDeque::new());
        self.actions.push(Action::PreparePlugin(Box::new(Preparation { swap, args, beginning })));
    }

    pub(crate) fn plugin_prepared(&mut self, prepared: Prepared, now: Time) {
        let Prepared { swap, instances } = prepared;
        self.swap_plugin(&swap, instances, now);
        // What waited is ready anew: if the first of it must be prepared, the rest waits for that.
        for next in self.preparing.remove(&swap.name).into_iter().flatten() {
            self.plugin_ready(next, now);
        }
    }
}
