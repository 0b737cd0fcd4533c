//! Everything that the host tells the scheduler.

use std::sync::Arc;

use berth_framework::{CycleId, Grants, PluginFactory, Profile};
use berth_model::{ObjectKey, PodUid, api};

use crate::{action::RequestError, scheduler::Settings, swaps::Prepared};

/// Something that happened, in the order in which the host learned of it.
#[derive(Debug)]
pub enum Event {
    /// A pod appeared or changed. One in a terminal phase counts as deleted.
    PodApplied(Box<api::Pod>),
    PodDeleted {
        namespace: String,
        name: String,
        uid: String,
    },
    NodeApplied(Box<api::Node>),
    NodeDeleted {
        name: String,
    },
    /// Another kind, kept for plugins. `resource` is its name in registrations: `PersistentVolumeClaim`,
    /// `storage.k8s.io/CSINode`, `<plural>.<version>.<group>`.
    ObjectApplied {
        resource: String,
        key: ObjectKey,
        json: Arc<[u8]>,
    },
    ObjectDeleted {
        resource: String,
        key: ObjectKey,
    },
    /// The initial lists are complete: cycles may begin.
    Synced,
    /// How [`crate::Request::Bind`] went.
    BindFinished {
        cycle: CycleId,
        uid: PodUid,
        result: Result<(), RequestError>,
    },
    /// How [`crate::Request::AwaitedEffects`] went.
    EffectsFinished {
        cycle: CycleId,
        uid: PodUid,
        result: Result<(), RequestError>,
    },
    /// A new binary is ready to answer under a plugin's name, at the points that it implements. If its instances take
    /// long, they are first prepared elsewhere, while the old binary goes on.
    PluginReady {
        name: String,
        /// In these profiles only, instead of in all that use the plugin.
        scheduler_names: Option<Vec<String>>,
        factory: Arc<dyn PluginFactory>,
        /// What the plugin may ask for from then on; `None` leaves it.
        grants: Option<Grants>,
    },
    /// How [`crate::Action::PreparePlugin`] went.
    PluginPrepared(Prepared),
    /// New profiles, complete, instead of all that there are.
    ProfilesChanged(Vec<Profile>),
    SettingsChanged(Settings),
    /// No more cycles and no more bindings. [`crate::Scheduler::outstanding`] bindings are still on their way.
    Shutdown,
}
