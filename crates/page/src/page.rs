//! What views are made of.

use std::sync::Arc;

use berth_scheduler::ClusterView;
use berth_serving::Health;
use berth_telemetry::metrics::Metrics;

use crate::{Source, SourceError, history::History, viewer::Refusal};

/// What the views are made of. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Page<S> {
    pub source: S,
    pub health: Health,
    pub metrics: Arc<Metrics>,
    pub history: History,
}

impl<S: Source> Page<S> {
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterView) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let answer = self.source.read(read).await;
        answer.ok_or_else(|| SourceError::Unavailable("the scheduler does not show its pods in time".to_owned()).into())
    }
}
