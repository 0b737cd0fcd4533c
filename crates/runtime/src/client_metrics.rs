//! Records the requests to the API server in client-go's metrics (`rest_client_*`).

use std::sync::Arc;

use berth_cluster::{ObservedRequest, RequestObserver};
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
    fn answered(&self, request: &ObservedRequest<'_>) {
        let ObservedRequest { method, code, duration, n_bytes, rate_limited, is_retry } = *request;
        let (metrics, host) = (&self.metrics.rest_client, self.host.as_str());
        metrics.answered(host, method, code, duration);
        if is_retry {
            metrics.retried(host, method, code);
        }
        if let Some(n_bytes) = n_bytes {
            metrics.body_sent(host, method, n_bytes);
        }
        if let Some(waited) = rate_limited {
            metrics.rate_limited(host, method, waited);
        }
    }

    fn read(&self, method: &str, n_bytes: u64) {
        self.metrics.rest_client.answer_read(&self.host, method, n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_have_the_labels_of_client_go() {
        let metrics = Arc::new(Metrics::default());
        let client = ClientMetrics::new("https://127.0.0.1:6443/", &metrics);
        let lost = ObservedRequest {
            method: "GET",
            code: None,
            duration: Duration::from_secs(1),
            n_bytes: Some(0),
            rate_limited: None,
            is_retry: false,
        };
        client.answered(&lost);
        client.answered(&ObservedRequest {
            method: "POST",
            code: Some(201),
            duration: Duration::from_millis(30),
            n_bytes: Some(300),
            rate_limited: Some(Duration::from_millis(50)),
            is_retry: true,
        });
        client.read("POST", 2000);
        let text = metrics.render();
        for line in [
            "rest_client_requests_total{code=\"201\",host=\"127.0.0.1:6443\",method=\"POST\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"127.0.0.1:6443\",verb=\"POST\",le=\"0.1\"} 1",
            "rest_client_request_retries_total{code=\"201\",host=\"127.0.0.1:6443\",verb=\"POST\"} 1",
            "rest_client_request_size_bytes_sum{host=\"127.0.0.1:6443\",verb=\"POST\"} 300",
            "rest_client_request_size_bytes_count{host=\"127.0.0.1:6443\",verb=\"GET\"} 1",
            "rest_client_response_size_bytes_bucket{host=\"127.0.0.1:6443\",verb=\"POST\",le=\"4096\"} 1",
            "rest_client_rate_limiter_duration_seconds_count{host=\"127.0.0.1:6443\",verb=\"POST\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
        }
        for absent in [
            "rest_client_request_retries_total{code=\"<error>\"",
            "rest_client_response_size_bytes_count{host=\"127.0.0.1:6443\",verb=\"GET\"}",
        ] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }
}
