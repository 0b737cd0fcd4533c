//! The data and services that all views of the page use.

use std::sync::Arc;

use berth_scheduler::{ClusterView, PodList, Totals};
use berth_serving::Health;
use berth_telemetry::metrics::Metrics;

use crate::{Source, SourceError, WhatIfService, history::History, shared::SharedViews, viewer::Refusal};

/// The data and services that the views need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Page<S> {
    pub(crate) source: S,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) history: History,
    pub(crate) shared: SharedViews,
    pub(crate) what_if: WhatIfService,
}

impl<S: Source> Page<S> {
    /// A page that shows `source`. `history` follows the metrics.
    pub fn new(source: S, health: Health, metrics: Arc<Metrics>, history: History, what_if: WhatIfService) -> Self {
        Self { source, health, metrics, history, shared: SharedViews::default(), what_if }
    }

    pub(crate) async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterView) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        self.source.read(read).await.ok_or_else(late)
    }

    pub(crate) async fn read_pods<R: Send + 'static>(
        &self,
        read: impl FnOnce(PodList<'_>) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        self.source.read_pods(read).await.ok_or_else(late)
    }

    pub(crate) async fn totals(&self) -> Result<Totals, Refusal> {
        self.source.totals().await.ok_or_else(late)
    }
}

fn late() -> Refusal {
    SourceError::Unavailable("the scheduler did not answer in time".to_owned()).into()
}
