//! The data that all requests share.

use std::sync::Arc;

use tokio::sync::watch;

use super::patch::apply::AppliedConfigurations;
use crate::state::ClusterState;

/// The data that all requests share.
#[derive(Debug)]
pub(crate) struct Api {
    /// The objects and their kinds.
    pub(super) state: Arc<ClusterState>,
    /// The configurations that server-side apply remembers.
    pub(super) applied: AppliedConfigurations,
    /// Turns true when the server stops. Watches then end.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Api {
    /// The context of a server over this state.
    pub(crate) fn new(state: Arc<ClusterState>, stopping: watch::Receiver<bool>) -> Self {
        Self { state, applied: AppliedConfigurations::default(), stopping }
    }
}
