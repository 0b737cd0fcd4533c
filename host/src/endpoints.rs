//! `/metrics`, `/healthz`, `/livez`, `/readyz` and what else is to be served over plain HTTP.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tracing::info;

use crate::metrics::Metrics;

/// What the endpoints report on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    ready: Arc<AtomicBool>,
}

impl Health {
    /// Set once the first lists are complete, cleared when the scheduler stops.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

/// Serves until the task is aborted.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    health: Health,
    admin: Router,
) -> Result<(SocketAddr, JoinHandle<()>)> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("--metrics-address {address} cannot be used"))?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz).with_state(health))
        .merge(admin);
    info!(%address, "serving /metrics, /healthz, /livez, /readyz, /admin/plugins");
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the endpoints stopped");
        }
    });
    Ok((address, task))
}

async fn render(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.render())
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    if health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the first lists of pods and nodes are not complete")
    }
}
