//! The report of a fault: one line in the log and one Kubernetes event, regardless of its consequences.

use std::{collections::BTreeMap, fmt};

use berth_lifecycle::{PluginNotice, PluginNoticeKind};
use berth_model::{Digest, PluginName};
use berth_scheduler::HeldPods;

/// Instances that are made again after a fault, by plugin and profile. The log does not report that such an instance
/// serves.
#[derive(Debug, Default)]
pub(crate) struct Restarts(BTreeMap<(PluginName, String), Digest>);

/// The consequence of a fault. If a fault has several consequences, this is the most serious consequence.
#[derive(Debug)]
pub(crate) enum Aftermath<'a> {
    /// The binary was replaced, or is out of service for a while.
    OutOfService(&'a PluginNotice),
    /// The pods of one owner are held back.
    PodsHeld(HeldPods),
    /// A new instance is made.
    Restarting(&'a PluginNotice),
    /// The binary that faulted no longer serves anywhere.
    Nothing,
}

impl Restarts {
    /// Records that profiles lost their instances of this component.
    pub(crate) fn begin(&mut self, plugin: &PluginName, scheduler_names: &[String], digest: Digest) {
        let keys = scheduler_names.iter().map(|scheduler_name| (plugin.clone(), scheduler_name.clone()));
        self.0.extend(keys.map(|key| (key, digest)));
    }

    /// Whether the profile waits for a new instance.
    pub(crate) fn is_under_way(&self, plugin: &PluginName, scheduler_name: &str) -> bool {
        self.0.contains_key(&(plugin.clone(), scheduler_name.to_owned()))
    }

    /// Records that the profile has an instance again. Returns the component of the profile's lost instance, if the
    /// profile had lost one.
    pub(crate) fn end(&mut self, plugin: &PluginName, scheduler_name: &str) -> Option<Digest> {
        self.0.remove(&(plugin.clone(), scheduler_name.to_owned()))
    }
}

impl<'a> Aftermath<'a> {
    /// `held` contains the pods that are held because of the fault.
    pub(crate) fn of(notices: &'a [PluginNotice], held: Option<HeldPods>) -> Self {
        let find = |is_it: fn(&PluginNoticeKind) -> bool| notices.iter().find(|notice| is_it(&notice.kind));
        let out_of_service = find(|kind| {
            matches!(
                kind,
                PluginNoticeKind::RolledBack { .. }
                    | PluginNoticeKind::Quarantined { .. }
                    | PluginNoticeKind::Refused { .. }
            )
        });
        let restarting = find(|kind| matches!(kind, PluginNoticeKind::Restarting { .. }));
        match (out_of_service, held, restarting) {
            (Some(notice), _, _) => Self::OutOfService(notice),
            (None, Some(held), _) => Self::PodsHeld(held),
            (None, None, Some(notice)) => Self::Restarting(notice),
            (None, None, None) => Self::Nothing,
        }
    }
}

/// The end of a sentence that begins with the fault.
impl fmt::Display for Aftermath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let notice = match self {
            Self::OutOfService(notice) | Self::Restarting(notice) => notice,
            Self::PodsHeld(held) => return write!(formatter, "; {held}"),
            Self::Nothing => return Ok(()),
        };
        match &notice.kind {
            PluginNoticeKind::RolledBack { to: Some(to), .. } => {
                write!(formatter, "; rolled back to the previous version, {}", to.short())
            }
            PluginNoticeKind::RolledBack { to: None, .. } => write!(formatter, "; rolled back to the built-in"),
            PluginNoticeKind::Quarantined { milliseconds, reason, .. } => {
                write!(formatter, "; quarantined for {} s: {reason}", milliseconds / 1000)
            }
            PluginNoticeKind::Restarting { milliseconds: 0, .. } => write!(formatter, "; it is being restarted"),
            PluginNoticeKind::Restarting { milliseconds, .. } => {
                write!(formatter, "; it is restarted in {} s", milliseconds / 1000)
            }
            PluginNoticeKind::Refused { reason, .. } => write!(formatter, "; its file {reason}"),
            PluginNoticeKind::Released { .. }
            | PluginNoticeKind::ProbationOver
            | PluginNoticeKind::NotServed { .. } => Ok(()),
        }
    }
}
