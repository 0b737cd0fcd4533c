//! client-go's metrics about its requests (`component-base/metrics/prometheus/restclient`), for the requests to the API
//! server.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use prometheus::{GaugeVec, HistogramVec, IntCounterVec};

use super::registration::{Registration, Stability::Alpha};

/// The buckets of durations in seconds.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The buckets of sizes, from 64 bytes to 16 MiB.
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// The buckets of the age of a certificate in seconds, from 10 minutes to 4 years.
const AGES: [f64; 11] = [
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// The metrics about requests to the API server.
#[derive(Debug)]
pub struct RestClientMetrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    latency: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    rate_limiter: HistogramVec,
    plugin_ttl: GaugeVec,
    rotation_age: HistogramVec,
    plugin_certificate: Mutex<Option<Range<SystemTime>>>,
}

impl RestClientMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        Self {
            requests: add.counter(
                Alpha,
                "rest_client_requests_total",
                "Requests to the API server.",
                &["code", "method", "host"],
            ),
            retries: add.counter(
                Alpha,
                "rest_client_request_retries_total",
                "Requests to the API server that repeated one that had failed.",
                &["code", "verb", "host"],
            ),
            latency: add.histogram(
                Alpha,
                "rest_client_request_duration_seconds",
                "Time from a request to the API server to the start of its answer.",
                &["verb", "host"],
                SECONDS.to_vec(),
            ),
            request_size: add.histogram(
                Alpha,
                "rest_client_request_size_bytes",
                "Size of the bodies of requests to the API server.",
                &["verb", "host"],
                BYTES.to_vec(),
            ),
            response_size: add.histogram(
                Alpha,
                "rest_client_response_size_bytes",
                "Size of the bodies of answers of the API server, after decompression and without watches.",
                &["verb", "host"],
                BYTES.to_vec(),
            ),
            rate_limiter: add.histogram(
                Alpha,
                "rest_client_rate_limiter_duration_seconds",
                "Time for which the limit of clientConnection.qps delayed a request.",
                &["verb", "host"],
                SECONDS.to_vec(),
            ),
            plugin_ttl: add.float_gauge(
                Alpha,
                "rest_client_exec_plugin_ttl_seconds",
                "Time until the certificate of a credential plugin expires; absent without such a certificate.",
                &[],
            ),
            rotation_age: add.histogram(
                Alpha,
                "rest_client_exec_plugin_certificate_rotation_age",
                "Age in seconds of the certificates of a credential plugin when they were replaced.",
                &[],
                AGES.to_vec(),
            ),
            plugin_certificate: Mutex::default(),
        }
    }

    /// Records that the answer to a request began after this time. `code` is the HTTP status; `None` means that there
    /// was no answer. `host` is the API server's host and port, as in all methods here.
    pub fn answered(&self, host: &str, method: &str, code: Option<u16>, duration: Duration) {
        self.latency.with_label_values(&[method, host]).observe(duration.as_secs_f64());
        self.requests.with_label_values(&[&*code_label(code), method, host]).inc();
    }

    /// Records that a request which got this answer repeated a failed request.
    pub fn retried(&self, host: &str, method: &str, code: Option<u16>) {
        self.retries.with_label_values(&[&*code_label(code), method, host]).inc();
    }

    /// Records the size of a request's body.
    pub fn body_sent(&self, host: &str, method: &str, n_bytes: u64) {
        self.request_size.with_label_values(&[method, host]).observe(size(n_bytes));
    }

    /// Records the time for which the client's rate limit delayed a request.
    pub fn rate_limited(&self, host: &str, method: &str, waited: Duration) {
        self.rate_limiter.with_label_values(&[method, host]).observe(waited.as_secs_f64());
    }

    /// Records that the body of an answer was read.
    pub fn answer_read(&self, host: &str, method: &str, n_bytes: u64) {
        self.response_size.with_label_values(&[method, host]).observe(size(n_bytes));
    }

    /// Sets the time in which the certificate of a credential plugin is valid. `None` means that there is no such
    /// certificate.
    pub fn set_plugin_certificate(&self, certificate: Option<Range<SystemTime>>, now: SystemTime) {
        let mut kept = self.plugin_certificate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *kept, certificate);
        if let Some(before) = before.filter(|before| kept.as_ref().is_some_and(|new| new != before)) {
            let age = now.duration_since(before.start).unwrap_or_default();
            self.rotation_age.with_label_values::<&str>(&[]).observe(age.as_secs_f64());
        }
    }

    /// Brings the metrics that depend on the time up to date.
    pub(super) fn refresh(&self, now: SystemTime) {
        let kept = self.plugin_certificate.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(certificate) = &*kept else { return self.plugin_ttl.reset() };
        let left = match certificate.end.duration_since(now) {
            Ok(left) => left.as_secs_f64(),
            Err(expired) => -expired.duration().as_secs_f64(),
        };
        self.plugin_ttl.with_label_values::<&str>(&[]).set(left);
    }
}

/// The value of the label `code`, as client-go gives it.
fn code_label(code: Option<u16>) -> String {
    code.map_or_else(|| "<error>".to_owned(), |code| code.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "buckets are far apart")]
fn size(n_bytes: u64) -> f64 {
    n_bytes as f64
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::Metrics;
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_certificate_of_a_credential_plugin_is_shown_with_the_time_that_is_left() {
        let metrics = Metrics::default();
        let client = &metrics.rest_client;
        let has = |line: &str| metrics.render().lines().any(|it| it == line);
        let ttl = |now: u64| {
            client.refresh(at(now));
            client.plugin_ttl.with_label_values::<&str>(&[]).get()
        };
        assert!(!metrics.render().contains("\nrest_client_exec_plugin_ttl_seconds "));
        client.set_plugin_certificate(Some(at(1000)..at(5000)), at(1000));
        assert!((ttl(4000) - 1000.0).abs() < f64::EPSILON && (ttl(5500) + 500.0).abs() < f64::EPSILON);
        assert!(has("rest_client_exec_plugin_certificate_rotation_age_count 0"), "{}", metrics.render());
        client.set_plugin_certificate(Some(at(1000)..at(5000)), at(4000));
        assert!(has("rest_client_exec_plugin_certificate_rotation_age_count 0"), "{}", metrics.render());
        client.set_plugin_certificate(Some(at(4500)..at(9000)), at(4500));
        assert!(has("rest_client_exec_plugin_certificate_rotation_age_sum 3500"), "{}", metrics.render());
        client.set_plugin_certificate(None, at(4600));
        assert!(!metrics.render().contains("\nrest_client_exec_plugin_ttl_seconds "));
    }
}
