//! `/metrics`, `/healthz`, `/livez`, `/readyz`: the routes, and a server for them over plain HTTP.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use tokio::net::TcpListener;
use tracing::info;

use crate::{health::Health, metrics::Metrics};

pub(crate) mod about;
mod probes;

/// What is served whichever way.
pub(crate) fn routes(metrics: Arc<Metrics>, health: &Health) -> Router {
    Router::new().route("/metrics", get(render)).with_state(metrics).merge(probes::routes(health))
}

/// Listens; the future serves. It ends only when it cannot go on.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn serve(address: SocketAddr, routes: Router) -> Result<impl Future<Output = ()> + Send + use<>> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("--metrics-address {address} cannot be used"))?;
    let address = listener.local_addr()?;
    info!(%address, "serving /metrics, /healthz, /livez, /readyz, /admin/plugins");
    Ok(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the endpoints stopped");
        }
    })
}

async fn render(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, TEXT)], metrics.render())
}
