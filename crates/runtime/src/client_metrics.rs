//! The counters that client-go has for its requests (`rest_client_*`), for our requests.

use std::{sync::Arc, time::Duration};

use berth_cluster::RequestObserver;
use berth_telemetry::metrics::Metrics;

/// Counts the requests to one API server.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    host: String,
    metrics: Arc<Metrics>,
}

impl ClientMetrics {
    /// `server` is the API server's URL.
    pub(crate) fn new(server: &str, metrics: &Arc<Metrics>) -> Self {
        let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default().to_owned();
        Self { host, metrics: Arc::clone(metrics) }
    }
}

impl RequestObserver for ClientMetrics {
    fn answered(&self, method: &str, code: Option<u16>, duration: Duration) {
        self.metrics.client_request(&self.host, method, code, duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_labels_of_client_go() {
        let metrics = Arc::new(Metrics::default());
        let client = ClientMetrics::new("https://127.0.0.1:6443/", &metrics);
        client.answered("POST", Some(201), Duration::from_millis(30));
        client.answered("GET", None, Duration::from_secs(1));
        let text = metrics.render();
        for line in [
            "rest_client_requests_total{code=\"201\",host=\"127.0.0.1:6443\",method=\"POST\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"127.0.0.1:6443\",verb=\"POST\",le=\"0.1\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
        }
    }
}
