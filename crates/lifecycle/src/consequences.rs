//! What is to be done and told after something happened to a plugin.

use berth_model::{Digest, PluginName};

use crate::binary::Service;

/// Swaps to hand to the scheduler, and notices, each in order.
#[derive(Debug)]
pub struct Consequences<B> {
    /// Swaps to carry out.
    pub swaps: Vec<Swap<B>>,
    /// Notices for log, metrics and events.
    pub notices: Vec<PluginNotice>,
}

/// These profiles are to have their instances of a plugin from this service.
#[derive(Clone, Debug)]
pub struct Swap<B> {
    /// The plugin.
    pub plugin: PluginName,
    /// The profiles, at least one.
    pub scheduler_names: Vec<String>,
    /// The binary that serves there from here on.
    pub service: Service<B>,
}

/// Something about a plugin that operators should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginNotice {
    /// The plugin.
    pub plugin: PluginName,
    /// What happened to it.
    pub kind: PluginNoticeKind,
}

/// What happened to a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginNoticeKind {
    /// A binary may not serve. What serves instead, if anything does, is in the plugin's status.
    Refused {
        /// The binary's; `None` if the file could not be read.
        digest: Option<Digest>,
        /// Reads on from the file's name.
        reason: String,
    },
    /// A new binary gave way to the one before.
    RolledBack {
        /// The new binary's.
        digest: Digest,
        /// That of the binary before; `None` for the built-in.
        to: Option<Digest>,
        /// What was wrong with it.
        reason: String,
    },
    /// A component is out of service for a while.
    Quarantined {
        /// The component's.
        digest: Digest,
        /// How long, in milliseconds.
        milliseconds: u64,
        /// The faults that led to it.
        reason: String,
    },
    /// Profiles lost their instances by a fault and get new ones.
    Restarting {
        /// The component's.
        digest: Digest,
        /// After how long.
        milliseconds: u64,
        /// The fault.
        reason: String,
    },
    /// A quarantine is over.
    Released {
        /// The component's.
        digest: Digest,
    },
    /// A new binary's probation is over.
    ProbationOver,
    /// No binary serves any more, or not yet.
    NotServed {
        /// Names the plugin.
        reason: String,
    },
}

impl<B> Default for Consequences<B> {
    fn default() -> Self {
        Self { swaps: Vec::new(), notices: Vec::new() }
    }
}

impl<B> Consequences<B> {
    /// Adds what follows.
    pub fn add(&mut self, other: Consequences<B>) {
        self.swaps.extend(other.swaps);
        self.notices.extend(other.notices);
    }

    pub(crate) fn tell(&mut self, plugin: &PluginName, kind: PluginNoticeKind) {
        self.notices.push(PluginNotice { plugin: plugin.clone(), kind });
    }

    /// Profiles that are given the same binary change over together.
    pub(crate) fn swap(&mut self, plugin: &PluginName, scheduler_name: &str, service: Service<B>) {
        let is_same =
            |swap: &&mut Swap<B>| swap.plugin == *plugin && service.id().is_some() && swap.service.id() == service.id();
        match self.swaps.iter_mut().find(is_same) {
            Some(swap) => swap.scheduler_names.push(scheduler_name.to_owned()),
            None => {
                let (plugin, scheduler_names) = (plugin.clone(), vec![scheduler_name.to_owned()]);
                self.swaps.push(Swap { plugin, scheduler_names, service });
            }
        }
    }
}
