//! Kubernetes events about plugins and configuration, for users of kubectl.
//!
//! An event is about an object. If the scheduler runs as a pod and the downward API sets `POD_NAME`, `POD_NAMESPACE`
//! and `POD_UID`, the object is that pod. Otherwise, it is the namespace in `POD_NAMESPACE`, or `kube-system`, which
//! always exists. The field `related` contains the plugin, so that repetitions are combined for each plugin.

use std::{env, sync::Arc};

use berth_cluster::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_telemetry::notices::{EventSink, PluginEvent, Severity};

/// The namespace of control planes.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Writes events about plugins, and never waits.
#[derive(Clone, Debug)]
pub(crate) struct PluginEvents {
    recorder: EventRecorder,
    regarding: ObjectReference,
}

impl PluginEvents {
    /// Writes events about the object that the environment names.
    pub(crate) fn new(recorder: EventRecorder) -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let regarding = regarding(variable("POD_NAMESPACE"), variable("POD_NAME"), variable("POD_UID"));
        Self { recorder, regarding }
    }
}

impl EventSink for PluginEvents {
    fn record(&self, event: PluginEvent) {
        let PluginEvent { plugin, reason, note } = event;
        let related = plugin.map(|plugin| ObjectReference {
            kind: "Plugin".into(),
            api_version: "berth.dev/v1alpha1".into(),
            name: plugin.into(),
            ..ObjectReference::default()
        });
        self.recorder.record(NewEvent {
            type_: match reason.severity() {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: reason.as_str().into(),
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
        // Events about an object without a namespace would be created in `default`.
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
