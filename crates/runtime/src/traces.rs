//! Traces of attempts for a collector of OpenTelemetry, if `--tracing-config-file` names one.
//!
//! A trace is one attempt to schedule one pod. The number of the attempt decides whether it is traced, and its ids
//! follow from that number. The scheduling thread, the meters of profiles and the tasks of the executor therefore make
//! their spans independently.
//!
//! All spans go to the exporter. No caller waits for the exporter: spans for which it has no room are lost and counted.
//! Without a collector, [`Traces`] is empty, no attempt is traced, and no span is made.

mod api_request;
mod ids;
mod loss_report;
mod settings;
mod spans;

use std::{process, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use berth_framework::{Clock as _, CycleId, Measured, Point, Profile, TraceSampling};
use berth_otlp::{Resource, SpanSender, TraceId};
use berth_scheduler::TracedAttempt;
use berth_telemetry::{
    clock::Stopwatch,
    metrics::{LostSpans, TraceMetrics},
};
use tracing::info;

pub use self::settings::check_tracing_config;
pub(crate) use self::{
    api_request::{ApiRequest, OpenRequest},
    settings::TraceSettings,
};
use self::{ids::TraceIds, loss_report::LossReport};
use crate::tasks::Tasks;

/// The name of the library in all spans.
const SCOPE: &str = "berth";

/// The way of spans to the collector. Cheap to clone. The default goes nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(Option<Arc<Tracing>>);

#[derive(Debug)]
struct Tracing {
    sampling: TraceSampling,
    ids: TraceIds,
    spans: SpanSender,
    metrics: TraceMetrics,
}

impl Traces {
    /// Starts the exporter, if there is a collector and any attempt is traced.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn start(
        settings: Option<TraceSettings>,
        metrics: TraceMetrics,
        hostname: &str,
        tasks: &mut Tasks,
    ) -> Result<Self> {
        let Some(TraceSettings { destination, per_million }) = settings.filter(|settings| settings.per_million > 0)
        else {
            return Ok(Self::default());
        };
        info!(collector = %destination, samplingRatePerMillion = per_million, "tracing attempts");
        let observer = Arc::new(LossReport::new(metrics.clone(), destination.to_string()));
        let (spans, exporting) = berth_otlp::exporter(destination, resource(hostname), observer)
            .context("setting up the connection to the trace collector")?;
        tasks.spawn("the exporter of traces", exporting);
        let random = uuid::Uuid::new_v4();
        let (_, seed) = random.as_u64_pair();
        let (sampling, ids) = (TraceSampling::new(seed, per_million), TraceIds::new(random.as_u128()));
        Ok(Self(Some(Arc::new(Tracing { sampling, ids, spans, metrics }))))
    }

    /// The share of attempts that is traced.
    pub(crate) fn sampling(&self) -> TraceSampling {
        self.0.as_ref().map_or_else(TraceSampling::default, |tracing| tracing.sampling)
    }

    /// The trace of an attempt; `None` if the attempt is not traced.
    pub(crate) fn trace_of(&self, cycle: CycleId) -> Option<TraceId> {
        let tracing = self.of(cycle)?;
        Some(tracing.ids.trace(cycle))
    }

    fn of(&self, cycle: CycleId) -> Option<&Arc<Tracing>> {
        self.0.as_ref().filter(|tracing| tracing.sampling.takes(cycle))
    }

    /// Sends the spans that the meter of a profile recorded.
    pub(crate) fn measured(&self, profile: &Profile, measured: &Measured) {
        let Some(tracing) = &self.0 else { return };
        for span in &measured.spans {
            tracing.spans.send(spans::of_step(&tracing.ids, profile, span));
        }
        if measured.n_lost_spans > 0 {
            tracing.metrics.lost(measured.n_lost_spans, LostSpans::QueueFull);
        }
    }

    /// Sends the span of a whole attempt.
    pub(crate) fn attempted(&self, attempt: TracedAttempt) {
        if let Some(tracing) = &self.0 {
            tracing.spans.send(spans::of_attempt(&tracing.ids, attempt));
        }
    }

    /// Begins the span of a request to the API server. The span is empty if the request belongs to no attempt, or if
    /// the attempt is not traced. `point` is the extension point at which the request was asked for.
    pub(crate) fn begin_request(
        &self,
        cycle: Option<CycleId>,
        point: Option<Point>,
        request: ApiRequest<'_>,
    ) -> OpenRequest {
        let Some((cycle, tracing)) = cycle.and_then(|cycle| Some((cycle, self.of(cycle)?))) else {
            return OpenRequest::default();
        };
        OpenRequest::new(tracing.spans.clone(), tracing.ids.of_request(cycle, point), request, Stopwatch.now())
    }

    /// Waits until all spans were sent or dropped, for at most `limit`.
    pub(crate) async fn flush(&self, limit: Duration) {
        if let Some(tracing) = &self.0 {
            tracing.spans.flush(limit).await;
        }
    }
}

/// The attributes of this process (<https://opentelemetry.io/docs/specs/semconv/resource/>).
fn resource(hostname: &str) -> Resource {
    let attributes = vec![
        ("service.name", "berth".into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("host.name", hostname.to_owned().into()),
        ("process.pid", process::id().into()),
    ];
    Resource { attributes, scope: (SCOPE, env!("CARGO_PKG_VERSION")) }
}
