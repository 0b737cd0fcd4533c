//! Everything that the host tells the scheduler.

use std::{sync::Arc, time::Duration};

use berth_framework::{CycleId, Grants, ObjectKind, PluginFactory, UnlistedKind};
use berth_model::{Digest, ObjectKey, PodUid, api};

use crate::{action::RequestError, preparation::Prepared, reconfiguration::Reconfiguration};

/// Something that happened, in the order in which the host learned of it.
#[derive(Debug)]
pub enum Event {
    /// A pod appeared or changed. One in a terminal phase counts as deleted.
    PodApplied(Box<api::Pod>),
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
    /// An object of another kind appeared or changed; it is kept for plugins.
    ObjectApplied {
        /// The name under which plugins register for its events: `PersistentVolumeClaim`, `storage.k8s.io/CSINode`,
        /// `<plural>.<version>.<group>`.
        resource: String,
        /// Which object.
        key: ObjectKey,
        /// The object as the API server sent it.
        json: Arc<[u8]>,
    },
    /// An object of another kind is gone from the API server.
    ObjectDeleted {
        /// As in [`Event::ObjectApplied`].
        resource: String,
        /// Which object.
        key: ObjectKey,
    },
    /// The objects of a kind may not be listed. Pods that need a plugin which reads this kind stay pending.
    KindUnlisted {
        /// Which kind.
        kind: ObjectKind,
        /// Why, and for whom that is no loss.
        unlisted: UnlistedKind,
    },
    /// All objects of a kind are known that could not be listed before.
    KindListed(ObjectKind),
    /// The initial lists are complete: cycles may begin.
    Synced,
    /// How [`crate::Request::Bind`] or [`crate::Request::BindByExtender`] went.
    BindFinished {
        /// The attempt that the request named.
        cycle: CycleId,
        /// The pod.
        uid: PodUid,
        /// Whether it was carried out.
        result: Result<(), RequestError>,
    },
    /// How [`crate::Request::AwaitedEffects`] went.
    EffectsFinished {
        /// The attempt that the request named.
        cycle: CycleId,
        /// The pod.
        uid: PodUid,
        /// The plugin that the request named.
        plugin: Arc<str>,
        /// Whether it was carried out.
        result: Result<(), RequestError>,
    },
    /// [`crate::Request::PatchStatus`] failed: the pod's status is what the API server last showed.
    StatusPatchFailed {
        /// The pod.
        uid: PodUid,
    },
    /// A new binary is ready to answer under a plugin's name, at the points that it implements. If its instances take
    /// long, they are first prepared elsewhere, while the old binary goes on.
    PluginReady {
        /// The plugin's name.
        name: String,
        /// In these profiles only, instead of in all that use the plugin.
        scheduler_names: Option<Vec<String>>,
        /// Builds instances of the binary.
        factory: Arc<dyn PluginFactory>,
        /// What the plugin may ask for from then on; `None` leaves it.
        grants: Option<Grants>,
    },
    /// An instance of a component faulted in a call and is gone.
    PluginFaulted {
        /// The plugin's name.
        plugin: String,
        /// The component's.
        digest: Digest,
        /// Reads on from the plugin's name.
        reason: String,
        /// Processor time of the call, and of the start of the instance that it cost.
        took: Duration,
        /// The pod that the call was about, if it was about one.
        pod: Option<PodUid>,
    },
    /// How [`crate::Action::PreparePlugin`] went.
    PluginPrepared(Prepared),
    /// The operator's configuration is another from here on.
    Reconfigured(Box<Reconfiguration>),
    /// No more cycles and no more bindings. [`crate::Scheduler::outstanding`] bindings are still on their way.
    Shutdown,
}
