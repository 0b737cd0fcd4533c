//! The events that the host reports to the scheduler.

use std::{sync::Arc, time::Duration};

use berth_framework::{CycleId, Extenders, Grants, ObjectKind, PluginFactory, PluginVersion, Profile, UnlistedKind};
use berth_model::{
    Digest, ObjectKey, PodUid, api,
    serde_with::{shared_text, text_or_bytes},
};
use serde::{Deserialize, Serialize};

use crate::{
    action::RequestError,
    host_objects::{Handle, HostObjects},
    preparation::Prepared,
    reconfiguration::Reconfiguration,
    settings::Settings,
};

/// An event. Events come in the order in which the host learned of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A pod appeared or changed. A pod in a terminal phase counts as deleted.
    PodApplied(#[serde(with = "whole_pod")] Box<api::Pod>),
    /// A pod is gone from the API server.
    PodDeleted {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// `metadata.uid`.
        uid: String,
    },
    /// A node appeared or changed.
    NodeApplied(Box<api::Node>),
    /// A node is gone from the API server.
    NodeDeleted {
        /// `metadata.name`.
        name: String,
    },
    /// An object of another kind appeared or changed. The scheduler keeps the object for plugins.
    ObjectApplied {
        /// The name under which plugins register for events of the object: `PersistentVolumeClaim`,
        /// `storage.k8s.io/CSINode`, `<plural>.<version>.<group>`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The object as the API server sent it.
        #[serde(with = "text_or_bytes")]
        json: Arc<[u8]>,
    },
    /// An object of another kind is gone from the API server.
    ObjectDeleted {
        /// The resource as in [`Event::ObjectApplied`].
        resource: String,
        /// The object.
        key: ObjectKey,
    },
    /// The objects of a kind are unknown from now on, because the kind may not be listed, or because it is no longer
    /// watched. Pods that need a plugin which reads this kind stay pending.
    KindUnlisted {
        /// The kind.
        kind: ObjectKind,
        /// The reason, and the plugins that work correctly without the kind.
        unlisted: UnlistedKind,
    },
    /// All objects of a kind that was unlisted are now known.
    KindListed(ObjectKind),
    /// The initial lists are complete: cycles may begin.
    Synced,
    /// The answer to [`crate::Request::Bind`] or [`crate::Request::BindByExtender`].
    BindFinished {
        /// The attempt that the request named.
        cycle: CycleId,
        /// The pod.
        uid: PodUid,
        /// Whether the request was carried out.
        result: Result<(), RequestError>,
    },
    /// The answer to [`crate::Request::AwaitedEffects`].
    EffectsFinished {
        /// The attempt that the request named.
        cycle: CycleId,
        /// The pod.
        uid: PodUid,
        /// The plugin that the request named.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// Whether the effects were carried out.
        result: Result<(), RequestError>,
    },
    /// [`crate::Request::PatchStatus`] failed. The pod's status is still the status that the API server last showed.
    StatusPatchFailed {
        /// The pod.
        uid: PodUid,
    },
    /// A new binary is ready to answer under a plugin's name, at the points that the binary implements. If its
    /// instances take long to make, they are prepared on another thread while the old binary serves.
    PluginReady {
        /// The plugin's name.
        name: String,
        /// The profiles in which the binary answers; `None` for all profiles that use the plugin.
        scheduler_names: Option<Vec<String>>,
        /// The identity of the binary, for people and recordings.
        version: PluginVersion,
        /// The factory of the binary's instances.
        factory: Handle<Arc<dyn PluginFactory>>,
        /// The grants of the plugin from then on; `None` leaves them unchanged.
        grants: Option<Grants>,
    },
    /// An instance of a component faulted in a call and is gone.
    PluginFaulted {
        /// The plugin's name.
        plugin: String,
        /// The digest of the component.
        digest: Digest,
        /// The reason, as a text that follows the plugin's name.
        reason: String,
        /// The processor time of the call and of the start of the lost instance.
        took: Duration,
        /// The pod of the call; `None` if the call was not about a pod.
        pod: Option<PodUid>,
    },
    /// The answer to [`crate::Action::PreparePlugin`].
    PluginPrepared {
        /// The plugin's name.
        plugin: String,
        /// The instances.
        prepared: Handle<Prepared>,
    },
    /// The operator's configuration changed.
    Reconfigured(Reconfiguration),
    /// No cycle and no binding begins any more. [`crate::Scheduler::outstanding`] bindings are not answered yet.
    Shutdown,
}

impl Event {
    /// A [`Self::PluginReady`] event.
    #[must_use]
    pub fn plugin_ready(
        objects: &HostObjects,
        name: String,
        scheduler_names: Option<Vec<String>>,
        factory: Arc<dyn PluginFactory>,
        grants: Option<Grants>,
    ) -> Self {
        let version = factory.version();
        Self::PluginReady { name, scheduler_names, version, factory: objects.put(factory), grants }
    }

    /// A [`Self::Reconfigured`] event.
    #[must_use]
    pub fn reconfigured(
        objects: &HostObjects,
        settings: Settings,
        profiles: Option<Vec<Profile>>,
        extenders: Option<Arc<dyn Extenders>>,
    ) -> Self {
        let profiles = profiles.map(|profiles| objects.put(profiles));
        let extenders = extenders.map(|extenders| objects.put(extenders));
        Self::Reconfigured(Reconfiguration { settings, profiles, extenders })
    }

    /// The answer to [`crate::Action::PreparePlugin`].
    #[must_use]
    pub fn plugin_prepared(objects: &HostObjects, prepared: Prepared) -> Self {
        Self::PluginPrepared { plugin: prepared.plugin().to_owned(), prepared: objects.put(prepared) }
    }
}

/// Serializes a pod together with the text from which it was decoded, if the text was kept. The API server has no field
/// for it.
mod whole_pod {
    use std::sync::Arc;

    use berth_model::{api, serde_with::text_or_bytes};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Written<'a> {
        pod: &'a api::Pod,
        #[serde(skip_serializing_if = "Option::is_none")]
        json: Option<Text>,
    }

    #[derive(Deserialize)]
    struct Read {
        pod: Box<api::Pod>,
        #[serde(default)]
        json: Option<Text>,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Text(#[serde(with = "text_or_bytes")] Arc<[u8]>);

    pub(super) fn serialize<S: Serializer>(pod: &api::Pod, serializer: S) -> Result<S::Ok, S::Error> {
        Written { pod, json: pod.json.clone().map(Text) }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<api::Pod>, D::Error> {
        let Read { mut pod, json } = Read::deserialize(deserializer)?;
        pod.json = json.map(|Text(json)| json);
        Ok(pod)
    }
}
