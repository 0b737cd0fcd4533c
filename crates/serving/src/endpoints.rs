//! `/metrics` and the paths below it, `/healthz`, `/livez`, `/readyz`: the routes, and a server for them over plain HTTP.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use berth_telemetry::metrics::Metrics;
use tokio::net::TcpListener;
use tracing::info;

pub use self::kept_answer::KeptAnswer;
use crate::{
    Health,
    connections::{self, Listener, serve_http1},
};

pub mod about;
pub mod debug;
mod kept_answer;
pub mod pprof;
mod probes;
pub mod resources;

/// The routes that are served over any protocol.
pub fn routes(metrics: &Arc<Metrics>, health: &Health) -> Router {
    Router::new()
        .route("/metrics", get(render))
        .route("/metrics/slis", get(render_slis))
        .with_state(Arc::clone(metrics))
        .merge(probes::routes(health, metrics))
}

/// `DELETE /metrics`, after which counters begin at zero. It is served only where callers are checked.
pub fn reset_routes(metrics: &Arc<Metrics>) -> Router {
    Router::new().route("/metrics", delete(reset)).with_state(Arc::clone(metrics))
}

/// Listens on the address. The returned future serves requests, and ends only if it cannot continue.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(address: SocketAddr, routes: Router) -> Result<impl Future<Output = ()> + Send + use<>> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("--metrics-address {address} cannot be used"))?;
    let address = listener.local_addr()?;
    info!(%address, "serving /metrics, /healthz, /livez, /readyz");
    Ok(serve_on(listener, routes))
}

/// Serves every client that connects.
pub async fn serve_on<L: Listener>(listener: L, routes: Router) {
    connections::accept(listener, |stream, activity| serve_http1(stream, routes.clone(), activity)).await;
}

async fn render(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    prometheus_text(metrics.render())
}

async fn reset(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    metrics.reset();
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, "metrics reset\n")
}

async fn render_slis(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    prometheus_text(metrics.render_slis())
}

fn prometheus_text(text: impl Into<Body>) -> Response {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, TEXT)], text.into()).into_response()
}
