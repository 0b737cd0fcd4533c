//! The consequences of an event: the swaps for the scheduler, and the notices for operators.

use berth_model::{Digest, PluginName};

use crate::binary::Service;

/// The swaps for the scheduler, and notices. Each list is in order.
#[derive(Debug)]
pub struct Consequences<B> {
    /// Swaps to carry out.
    pub swaps: Vec<Swap<B>>,
    /// Notices for log, metrics and events.
    pub notices: Vec<PluginNotice>,
}

/// An order to give profiles an instance of a plugin from this service.
#[derive(Clone, Debug)]
pub struct Swap<B> {
    /// The plugin.
    pub plugin: PluginName,
    /// The profiles, at least one.
    pub scheduler_names: Vec<String>,
    /// The service that the profiles get.
    pub service: Service<B>,
}

/// A notice about a plugin for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginNotice {
    /// The plugin.
    pub plugin: PluginName,
    /// The change in the plugin's life.
    pub kind: PluginNoticeKind,
}

/// The changes in a plugin's life that are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginNoticeKind {
    /// A binary may not serve. The plugin's status names the binary that serves instead, if any.
    Refused {
        /// The digest of the binary; `None` if the file could not be read.
        digest: Option<Digest>,
        /// The reason, as a text that follows the file's name.
        reason: String,
    },
    /// A new binary was replaced by the previous binary.
    RolledBack {
        /// The digest of the new binary.
        digest: Digest,
        /// The digest of the previous binary; `None` for the built-in plugin.
        to: Option<Digest>,
        /// The fault or mistake of the new binary.
        reason: String,
    },
    /// A component is out of service for a while.
    Quarantined {
        /// The digest of the component.
        digest: Digest,
        /// The length of the quarantine, in milliseconds.
        milliseconds: u64,
        /// The faults that led to the quarantine.
        reason: String,
    },
    /// Profiles lost their instances through a fault, and get new instances.
    Restarting {
        /// The digest of the component.
        digest: Digest,
        /// The delay before the new instances are made.
        milliseconds: u64,
        /// The fault.
        reason: String,
    },
    /// A quarantine is over.
    Released {
        /// The digest of the component.
        digest: Digest,
    },
    /// A new binary's probation is over.
    ProbationOver,
    /// No binary serves any more, or no binary serves yet.
    NotServed {
        /// The reason. It names the plugin.
        reason: String,
    },
}

impl<B> Default for Consequences<B> {
    fn default() -> Self {
        Self { swaps: Vec::new(), notices: Vec::new() }
    }
}

impl<B> Consequences<B> {
    /// Appends the consequences of a later event.
    pub fn add(&mut self, other: Consequences<B>) {
        self.swaps.extend(other.swaps);
        self.notices.extend(other.notices);
    }

    pub(crate) fn tell(&mut self, plugin: &PluginName, kind: PluginNoticeKind) {
        self.notices.push(PluginNotice { plugin: plugin.clone(), kind });
    }

    /// Adds a swap. Profiles that are given the same binary are swapped together.
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
