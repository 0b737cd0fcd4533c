//! Kubernetes events about plugins and configuration, for whoever looks with kubectl.
//!
//! An event is about an object. Where the scheduler runs as a pod and was told so (`POD_NAME`, `POD_NAMESPACE`, `POD_UID`,
//! from the downward API), that is its pod; elsewhere the namespace `kube-system`, or the one named by `POD_NAMESPACE`, which
//! is there in any case. The plugin stands in `related`, so that repetitions are folded plugin by plugin.

use std::{env, sync::Arc};

use berth_cluster::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_framework::{PluginVersion, TimeReport};
use berth_lifecycle::{PluginNotice, PluginNoticeKind};
use berth_model::BinaryId;

use super::message::Order;

/// Where control planes live.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Writes events about plugins. Never waits.
#[derive(Clone, Debug)]
pub(crate) struct Announcer {
    recorder: EventRecorder,
    regarding: ObjectReference,
}

impl Announcer {
    /// Writes about the object that the environment names.
    pub(crate) fn new(recorder: EventRecorder) -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let regarding = regarding(variable("POD_NAMESPACE"), variable("POD_NAME"), variable("POD_UID"));
        Self { recorder, regarding }
    }

    /// What happened to a plugin, if it is worth an event. `standing` says who serves since.
    pub(crate) fn tell(&self, notice: &PluginNotice, standing: &str) {
        use EventType::{Normal, Warning};
        let plugin = notice.plugin.as_str();
        match &notice.kind {
            PluginNoticeKind::Refused { digest, reason } => {
                let digest = digest.map(|digest| format!(" {}", digest.short())).unwrap_or_default();
                self.not_taken(plugin, &format!("the file{digest} {reason}"), standing);
            }
            PluginNoticeKind::RolledBack { digest, to, reason } => {
                let to = to.map_or_else(|| "the built-in".to_owned(), |to| to.short());
                let note = format!("plugin {plugin}: rolled back from {} to {to}: {reason}", digest.short());
                self.announce(plugin, Warning, "PluginRolledBack", note);
            }
            PluginNoticeKind::Quarantined { digest, milliseconds, reason } => {
                let (digest, seconds) = (digest.short(), milliseconds / 1000);
                let note = format!("plugin {plugin}: {digest} is out of service for {seconds} s: {reason}; {standing}");
                self.announce(plugin, Warning, "PluginQuarantined", note);
            }
            PluginNoticeKind::Restarting { digest, milliseconds, reason } => {
                let delay = if *milliseconds == 0 { String::new() } else { format!(" in {} s", milliseconds / 1000) };
                let digest = digest.short();
                let note = format!("plugin {plugin}: {digest} is restarted{delay} after a fault: {reason}");
                self.announce(plugin, Warning, "PluginRestarting", note);
            }
            PluginNoticeKind::Released { digest } => {
                let note = format!("plugin {plugin}: the quarantine of {} is over; {standing}", digest.short());
                self.announce(plugin, Normal, "PluginReleased", note);
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
        self.announce(plugin, EventType::Normal, "PluginSwapped", note);
    }

    /// Nothing serves in a profile any more; `reason` names the plugin.
    pub(crate) fn withdrawn(&self, plugin: &str, profile: &str, reason: &str) {
        let note = format!("plugin {plugin}: nothing serves in profile {profile} any more: {reason}");
        self.announce(plugin, EventType::Warning, "PluginWithdrawn", note);
    }

    /// An operator switched the plugin on or off; what follows from other orders is told when it happens.
    pub(crate) fn ordered(&self, plugin: &str, order: Order, standing: &str) {
        let (reason, what) = match order {
            Order::Enable => ("PluginEnabled", "switched on"),
            Order::Disable => ("PluginDisabled", "switched off"),
            Order::Reload | Order::Rollback => return,
        };
        self.announce(plugin, EventType::Normal, reason, format!("plugin {plugin}: {what} by an operator; {standing}"));
    }

    /// A binary does not come into service. `standing` says who serves.
    pub(crate) fn not_taken(&self, plugin: &str, reason: &str, standing: &str) {
        let note = format!("plugin {plugin}: {reason}; {standing}");
        self.announce(plugin, EventType::Warning, "PluginRefused", note);
    }

    /// A plugin keeps faulting over pods of one owner.
    pub(crate) fn pods_held(&self, plugin: &str, owner: &str, milliseconds: u64, reason: &str) {
        let seconds = milliseconds / 1000;
        let note = format!("plugin {plugin}: the pods of {owner} are held back for {seconds} s, as it {reason}");
        self.announce(plugin, EventType::Warning, "PluginPodsHeld", note);
    }

    /// Somebody has used up their time on the scheduling thread.
    pub(crate) fn out_of_time(&self, report: &TimeReport) {
        let note = report.to_string();
        match report {
            TimeReport::Plugin { plugin, .. } => {
                self.announce(plugin, EventType::Warning, "PluginOutOfTime", note);
            }
            TimeReport::AllPlugins { .. } => self.record(None, EventType::Warning, "PluginsOutOfTime", note),
            TimeReport::Namespace { .. } => self.record(None, EventType::Warning, "NamespaceOutOfTime", note),
        }
    }

    /// The operator's settings cannot be used.
    pub(crate) fn settings_refused(&self, reason: &str) {
        let note = format!("{reason}; the settings before it hold");
        self.record(None, EventType::Warning, "PluginSettingsRefused", note);
    }

    /// The scheduler's configuration cannot be used.
    pub(crate) fn configuration_refused(&self, reason: &str) {
        let note = format!("{reason}; the configuration before it holds");
        self.record(None, EventType::Warning, "ConfigurationRefused", note);
    }

    fn announce(&self, plugin: &str, type_: EventType, reason: &'static str, note: String) {
        let related = ObjectReference {
            kind: "Plugin".into(),
            api_version: "berth.dev/v1alpha1".into(),
            name: plugin.into(),
            ..ObjectReference::default()
        };
        self.record(Some(related), type_, reason, note);
    }

    fn record(&self, related: Option<ObjectReference>, type_: EventType, reason: &'static str, note: String) {
        self.recorder.record(NewEvent {
            type_,
            reason: reason.into(),
            action: "ManagePlugins".into(),
            note,
            regarding: self.regarding.clone(),
            related,
            reporting_controller: "berth".into(),
            note_counts: true,
        });
    }
}

fn regarding(namespace: Option<String>, pod: Option<String>, uid: Option<String>) -> ObjectReference {
    let api_version = "v1".into();
    match (pod, namespace) {
        (Some(name), Some(namespace)) => {
            let (namespace, name, uid) = (namespace.into(), name.into(), uid.unwrap_or_default().into());
            ObjectReference { kind: "Pod".into(), api_version, namespace, name, uid, ..ObjectReference::default() }
        }
        // Events about an object without a namespace would land in `default`.
        (_, namespace) => {
            let name: Arc<str> = namespace.map_or_else(|| DEFAULT_NAMESPACE.into(), Arc::from);
            let (kind, namespace) = ("Namespace".into(), Arc::clone(&name));
            ObjectReference { kind, api_version, namespace, name, ..ObjectReference::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_about_the_own_pod_or_a_namespace() {
        let text = |text: &str| Some(text.to_owned());
        let show =
            |object: ObjectReference| format!("{} {}/{} {}", object.kind, object.namespace, object.name, object.uid);
        assert_eq!(show(regarding(text("infra"), text("berth-0"), text("7"))), "Pod infra/berth-0 7");
        assert_eq!(show(regarding(text("infra"), None, None)), "Namespace infra/infra ");
        assert_eq!(show(regarding(None, text("berth-0"), None)), "Namespace kube-system/kube-system ");
    }
}
