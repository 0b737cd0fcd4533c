//! The preparation of a new binary's instances on another thread, while the old binary serves.
//!
//! A component takes milliseconds to seconds to start, to be configured and to fill its replica, and no cycle should
//! wait for this. A swap therefore has three steps. The scheduler copies the full delta ([`Preparation`]). The host
//! makes the instances and fills them with this copy on another thread. Between two cycles, the scheduler sends the
//! instances the changes since then, and exchanges pointers. If a plugin passes on its state, the scheduler fills the
//! new instance itself: the state must come before the first delta, and only the old instance has the state.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{BuildError, DeltaSource, Grants, Needs, Plugin, PluginFactory, Status};
use berth_model::Delta;
use serde::{Deserialize, Serialize};

/// A request to use another binary under a plugin's name, in these profiles or in all profiles that use the plugin.
#[derive(Clone, Debug)]
pub(crate) struct SwapRequest {
    pub(crate) name: String,
    pub(crate) scheduler_names: Option<Vec<String>>,
    pub(crate) factory: Arc<dyn PluginFactory>,
    /// The grants of the plugin from then on; `None` leaves them unchanged.
    pub(crate) grants: Option<Grants>,
}

/// Instances by profile.
pub(crate) type Instances = BTreeMap<String, PreparedInstance>;

/// An instance for these arguments, or the reason why it could not be made.
#[derive(Debug)]
pub(crate) struct PreparedInstance {
    pub(crate) args: String,
    pub(crate) instance: Result<Box<dyn Plugin>, SwapError>,
}

/// The reason why a binary does not replace the present binary of its plugin. The present binary continues to serve.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum SwapError {
    /// No instance could be made for the profile's arguments.
    #[error("{0}")]
    NotBuilt(String),
    /// The instance did not accept the full delta.
    #[error("the new instance could not read the state of the cluster: {}", .0.message())]
    NotFed(Status),
    /// The preparation ended without an answer.
    #[error("{0}")]
    NotPrepared(String),
    /// The profiles were replaced in the meantime.
    #[error("no such profile")]
    NoProfile,
}

/// The data that is needed to prepare a swap.
#[derive(Clone, Debug)]
pub struct Preparation {
    swap: SwapRequest,
    /// The plugin's arguments by profile.
    args: BTreeMap<String, String>,
    full_delta: FullDelta,
}

/// Instances of a new binary that are almost up to date.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) swap: SwapRequest,
    pub(crate) instances: Instances,
}

/// A full delta for one plugin, with the state of the cluster at the start of the preparation.
#[derive(Clone, Debug)]
struct FullDelta(Delta);

impl DeltaSource for FullDelta {
    fn delta_since(&self, _needs: &Needs, _generation: u64, _symbols_position: u64) -> Delta {
        self.0.clone()
    }

    fn generation(&self) -> u64 {
        self.0.generation
    }
}

impl Preparation {
    pub(crate) fn new(swap: SwapRequest, args: BTreeMap<String, String>, full_delta: Delta) -> Self {
        Self { swap, args, full_delta: FullDelta(full_delta) }
    }

    /// The plugin's name.
    #[must_use]
    pub fn plugin(&self) -> &str {
        &self.swap.name
    }

    /// Makes the instances and fills them. The call may take seconds.
    #[must_use]
    pub fn run(self) -> Prepared {
        let Self { swap, args, full_delta } = self;
        let prepare = |scheduler_name: &str, args: &str| {
            let mut instance = build(&*swap.factory, scheduler_name, &swap.name, args)?;
            if instance.state().is_none() {
                fill(&mut *instance, &full_delta)?;
            }
            Ok(instance)
        };
        let prepare = |(scheduler_name, args): (String, String)| {
            let instance = prepare(&scheduler_name, &args);
            (scheduler_name, PreparedInstance { instance, args })
        };
        let instances = args.into_iter().map(prepare).collect();
        Prepared { swap, instances }
    }

    /// The answer for a preparation that ended without an answer.
    #[must_use]
    pub fn failed(self, reason: &str) -> Prepared {
        let failed = |args| PreparedInstance { args, instance: Err(SwapError::NotPrepared(reason.to_owned())) };
        let instances = self.args.into_iter().map(|(scheduler_name, args)| (scheduler_name, failed(args))).collect();
        Prepared { swap: self.swap, instances }
    }
}

impl Prepared {
    /// The plugin's name.
    #[must_use]
    pub fn plugin(&self) -> &str {
        &self.swap.name
    }
}

/// Makes a configured instance of `plugin` for the profile.
///
/// # Errors
/// The plugin refused its arguments, or could not be started.
pub(crate) fn build(
    factory: &dyn PluginFactory,
    scheduler_name: &str,
    plugin: &str,
    args: &str,
) -> Result<Box<dyn Plugin>, SwapError> {
    factory.build(args).map_err(|error| {
        SwapError::NotBuilt(match error {
            BuildError::Refused(reason) => {
                format!("does not accept profiles[{scheduler_name}].pluginConfig[{plugin}].args: {reason}")
            }
            BuildError::Start(reason) => reason,
        })
    })
}

/// Brings the instance up to date.
///
/// # Errors
/// The instance did not accept the delta.
pub(crate) fn fill(instance: &mut dyn Plugin, source: &dyn DeltaSource) -> Result<(), SwapError> {
    match instance.sync(source) {
        // A placeholder for a plugin that is out of service rejects pods, as intended.
        Err(status) if !status.code.is_rejected() => Err(SwapError::NotFed(status)),
        Err(_) | Ok(()) => Ok(()),
    }
}
