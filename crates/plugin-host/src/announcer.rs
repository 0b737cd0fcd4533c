//! Kubernetes events about plugins and configuration, for operators who look with kubectl.
//!
//! Here they get their words; what writes them is the process's own ([`EventSink`]).

use std::sync::Arc;

use berth_framework::{PluginVersion, TimeReport};
use berth_lifecycle::{PluginNotice, PluginNoticeKind};
use berth_model::BinaryId;

use crate::message::Order;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// An event about a plugin, or about all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvent {
    /// `None`: it is about no one plugin.
    pub plugin: Option<String>,
    pub severity: Severity,
    /// In upper camel case, as in `kubectl get events`.
    pub reason: &'static str,
    pub note: String,
}

/// Writes events to the API server. Must not wait.
pub trait EventSink: std::fmt::Debug + Send + Sync {
    fn record(&self, event: PluginEvent);
}

/// Puts into words what happens to plugins. Never waits.
#[derive(Clone, Debug)]
pub(crate) struct Announcer(Arc<dyn EventSink>);

impl Announcer {
    pub(crate) fn new(sink: Arc<dyn EventSink>) -> Self {
        Self(sink)
    }

    /// What happened to a plugin, if it is worth an event. `standing` says who serves since.
    pub(crate) fn tell(&self, notice: &PluginNotice, standing: &str) {
        let plugin = notice.plugin.as_str();
        match &notice.kind {
            PluginNoticeKind::Refused { digest, reason } => {
                let digest = digest.map(|digest| format!(" {}", digest.short())).unwrap_or_default();
                self.not_taken(plugin, &format!("the file{digest} {reason}"), standing);
            }
            PluginNoticeKind::RolledBack { digest, to, reason } => {
                let to = to.map_or_else(|| "the built-in".to_owned(), |to| to.short());
                let note = format!("plugin {plugin}: rolled back from {} to {to}: {reason}", digest.short());
                self.announce(plugin, Severity::Warning, "PluginRolledBack", note);
            }
            PluginNoticeKind::Quarantined { digest, milliseconds, reason } => {
                let (digest, seconds) = (digest.short(), milliseconds / 1000);
                let note = format!("plugin {plugin}: {digest} is out of service for {seconds} s: {reason}; {standing}");
                self.announce(plugin, Severity::Warning, "PluginQuarantined", note);
            }
            PluginNoticeKind::Restarting { digest, milliseconds, reason } => {
                let delay = if *milliseconds == 0 { String::new() } else { format!(" in {} s", milliseconds / 1000) };
                let digest = digest.short();
                let note = format!("plugin {plugin}: {digest} is restarted{delay} after a fault: {reason}");
                self.announce(plugin, Severity::Warning, "PluginRestarting", note);
            }
            PluginNoticeKind::Released { digest } => {
                let note = format!("plugin {plugin}: the quarantine of {} is over; {standing}", digest.short());
                self.announce(plugin, Severity::Normal, "PluginReleased", note);
            }
            PluginNoticeKind::NotServed { .. } | PluginNoticeKind::ProbationOver => {}
        }
    }

    /// A binary serves in a profile.
    pub(crate) fn swapped(&self, plugin: &str, profile: &str, version: &PluginVersion) {
        let PluginVersion { version, binary, .. } = version;
        let binary = match binary {
            Some(BinaryId::Component(digest)) => format!("{} (version {version})", digest.short()),
            Some(BinaryId::Native) | None => "the built-in".to_owned(),
        };
        let note = format!("plugin {plugin}: {binary} serves in profile {profile}");
        self.announce(plugin, Severity::Normal, "PluginSwapped", note);
    }

    /// Nothing serves in a profile any more; `reason` names the plugin.
    pub(crate) fn withdrawn(&self, plugin: &str, profile: &str, reason: &str) {
        let note = format!("plugin {plugin}: nothing serves in profile {profile} any more: {reason}");
        self.announce(plugin, Severity::Warning, "PluginWithdrawn", note);
    }

    /// An operator switched the plugin on or off; what follows from other orders is told when it happens.
    pub(crate) fn ordered(&self, plugin: &str, order: Order, standing: &str) {
        let (reason, what) = match order {
            Order::Enable => ("PluginEnabled", "switched on"),
            Order::Disable => ("PluginDisabled", "switched off"),
            Order::Reload | Order::Rollback => return,
        };
        self.announce(plugin, Severity::Normal, reason, format!("plugin {plugin}: {what} by an operator; {standing}"));
    }

    /// A binary does not come into service. `standing` says who serves.
    pub(crate) fn not_taken(&self, plugin: &str, reason: &str, standing: &str) {
        let note = format!("plugin {plugin}: {reason}; {standing}");
        self.announce(plugin, Severity::Warning, "PluginRefused", note);
    }

    /// A plugin keeps faulting over pods of one owner.
    pub(crate) fn pods_held(&self, plugin: &str, owner: &str, milliseconds: u64, reason: &str) {
        let seconds = milliseconds / 1000;
        let note = format!("plugin {plugin}: the pods of {owner} are held back for {seconds} s, as it {reason}");
        self.announce(plugin, Severity::Warning, "PluginPodsHeld", note);
    }

    /// Somebody has used up their time on the scheduling thread.
    pub(crate) fn out_of_time(&self, report: &TimeReport) {
        let note = report.to_string();
        match report {
            TimeReport::Plugin { plugin, .. } => {
                self.announce(plugin, Severity::Warning, "PluginOutOfTime", note);
            }
            TimeReport::AllPlugins { .. } => self.record(None, Severity::Warning, "PluginsOutOfTime", note),
            TimeReport::Namespace { .. } => self.record(None, Severity::Warning, "NamespaceOutOfTime", note),
        }
    }

    /// The operator's settings cannot be used.
    pub(crate) fn settings_refused(&self, reason: &str) {
        let note = format!("{reason}; the settings before it hold");
        self.record(None, Severity::Warning, "PluginSettingsRefused", note);
    }

    fn announce(&self, plugin: &str, severity: Severity, reason: &'static str, note: String) {
        self.record(Some(plugin), severity, reason, note);
    }

    fn record(&self, plugin: Option<&str>, severity: Severity, reason: &'static str, note: String) {
        self.0.record(PluginEvent { plugin: plugin.map(str::to_owned), severity, reason, note });
    }
}
