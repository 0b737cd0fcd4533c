//! The endpoints of a process, from its start on.
//!
//! A kubelet asks for `/livez` long before plugins are loaded and the API server has answered, so the process listens
//! on its addresses first. Requests for other endpoints of HTTPS wait until the scheduler can answer them.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use berth_serving::{
    Health,
    endpoints::{self, resources},
};
use berth_telemetry::metrics::Metrics;
use tokio::{sync::watch, time::timeout};
use tower::ServiceExt as _;

use crate::{admin, options::Options, tasks::Tasks};

/// The endpoints of the process that exist before anything else.
#[derive(Debug)]
pub(crate) struct Front {
    pub metrics: Arc<Metrics>,
    pub health: Health,
    /// The servers.
    pub tasks: Tasks,
    pub door: Door,
}

/// The time for which a request waits for its endpoint.
const PATIENCE: Duration = Duration::from_secs(10);

/// The routes over HTTPS besides the probes and `/metrics`; `None` while the process starts.
#[derive(Clone, Debug)]
pub(crate) struct Door(watch::Sender<Option<Router>>);

impl Front {
    /// Listens on the addresses in the options, and serves the probes there.
    ///
    /// # Errors
    /// An address, a certificate or a kubeconfig for serving cannot be used.
    pub(crate) async fn listen(scheduling: &Options) -> Result<Self> {
        let (metrics, health, mut tasks) = (Arc::new(Metrics::default()), Health::default(), Tasks::default());
        let routes = endpoints::routes(&metrics, &health);
        let door = Door::new();
        if let Some(address) = scheduling.metrics_address {
            let plain = routes.clone().merge(admin::refusing_routes()).merge(resources::refusing_routes());
            tasks.spawn("the server of the endpoints", endpoints::serve(address, plain).await?);
        }
        if let Some(secure) = &scheduling.secure_serving {
            let served = routes.merge(endpoints::reset_routes(&metrics)).merge(door.routes());
            tasks.spawn("the server of HTTPS", secure.serve(served, &metrics).await?);
        }
        Ok(Self { metrics, health, tasks, door })
    }
}

impl Door {
    fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Serves `routes` from now on.
    pub(crate) fn open(&self, routes: Router) {
        self.0.send_replace(Some(routes));
    }

    /// Passes each request to its endpoint once the endpoint exists.
    fn routes(&self) -> Router {
        let door = self.0.subscribe();
        Router::new().fallback(async move |request: Request| {
            let mut door = door.clone();
            let opened = timeout(PATIENCE, door.wait_for(Option::is_some)).await;
            let routes = opened.ok().and_then(Result::ok).and_then(|routes| routes.clone());
            let Some(routes) = routes else { return starting() };
            let Ok(response) = routes.oneshot(request).await;
            response
        })
    }
}

fn starting() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the scheduler starts\n").into_response()
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};

    use super::*;

    async fn status(routes: &Router, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let Ok(response) = routes.clone().oneshot(request).await;
        response.status()
    }

    #[tokio::test(start_paused = true)]
    async fn the_probes_are_served_first_and_the_rest_later() {
        let (metrics, health) = (Arc::new(Metrics::default()), Health::default());
        let door = Door::new();
        let served = endpoints::routes(&metrics, &health).merge(door.routes());
        assert_eq!(status(&served, "/livez").await, StatusCode::OK);
        assert_eq!(status(&served, "/readyz").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status(&served, "/configz").await, StatusCode::SERVICE_UNAVAILABLE);
        door.open(Router::new().route("/configz", get(async || "{}")));
        assert_eq!(status(&served, "/configz").await, StatusCode::OK);
        assert_eq!(status(&served, "/other").await, StatusCode::NOT_FOUND);
    }
}
