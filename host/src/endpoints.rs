//! `/metrics`, `/healthz`, `/livez`, `/readyz` and what else is to be served over plain HTTP.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tracing::info;

use crate::{
    health::{Health, Readiness},
    metrics::Metrics,
};

/// Listens; the future serves. It ends only when it cannot go on.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    health: Health,
    admin: Router,
) -> Result<impl Future<Output = ()> + Send + use<>> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("--metrics-address {address} cannot be used"))?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
        .route("/healthz", get(livez))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
        .merge(admin);
    info!(%address, "serving /metrics, /healthz, /livez, /readyz, /admin/plugins");
    Ok(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the endpoints stopped");
        }
    })
}

async fn render(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.render())
}

async fn livez(State(health): State<Health>) -> (StatusCode, String) {
    match health.hangs_for(Instant::now()) {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(silent) => {
            let why = format!("the scheduling loop has not turned for {} s", silent.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

async fn readyz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.readiness() {
        Readiness::Ready => (StatusCode::OK, "ok"),
        Readiness::Listing => (StatusCode::SERVICE_UNAVAILABLE, "the first lists of pods and nodes are not complete"),
        Readiness::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler stops"),
    }
}
