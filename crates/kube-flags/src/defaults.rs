//! The default values of kube-scheduler's flags, as its `/flagz` shows them: the texts of Go's `flag.Value`.

/// The flags with a default value that is not empty, by name. Berth's own flags are among them.
const DEFAULTS: &[(&str, &str)] = &[
    ("allow-metric-labels", "[]"),
    ("authentication-skip-lookup", "false"),
    ("authentication-token-webhook-cache-ttl", "10s"),
    ("authentication-tolerate-lookup-failure", "true"),
    ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
    ("authorization-webhook-cache-authorized-ttl", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "10s"),
    ("bind-address", "0.0.0.0"),
    ("contention-profiling", "true"),
    ("disable-http2-serving", "false"),
    ("disabled-metrics", "[]"),
    ("emulated-version", "[]"),
    ("http2-max-streams-per-connection", "0"),
    ("kept-decisions-mib", "8"),
    ("kube-api-burst", "100"),
    ("kube-api-content-type", "application/vnd.kubernetes.protobuf"),
    ("kube-api-qps", "50"),
    ("leader-elect", "true"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-resource-lock", "leases"),
    ("leader-elect-resource-name", "kube-scheduler"),
    ("leader-elect-resource-namespace", "kube-system"),
    ("leader-elect-retry-period", "2s"),
    ("log-flush-frequency", "5s"),
    ("log-json-info-buffer-size", "0"),
    ("log-json-split-stream", "false"),
    ("log-text-info-buffer-size", "0"),
    ("log-text-split-stream", "false"),
    ("logging-format", "text"),
    ("min-compatibility-version", "[]"),
    ("permit-address-sharing", "false"),
    ("permit-port-sharing", "false"),
    ("pod-max-in-unschedulable-pods-duration", "5m0s"),
    ("profiling", "true"),
    ("requestheader-allowed-names", "[]"),
    ("requestheader-extra-headers-prefix", "[x-remote-extra-]"),
    ("requestheader-group-headers", "[x-remote-group]"),
    ("requestheader-uid-headers", "[]"),
    ("requestheader-username-headers", "[x-remote-user]"),
    ("secure-port", "10259"),
    ("tls-cipher-suites", "[]"),
    ("tls-curve-preferences", "[]"),
    ("tls-sni-cert-key", "[]"),
    ("unsupported-kube-api-over-localhost", "false"),
    ("v", "0"),
    ("version", "false"),
];

/// The default value of a flag; empty for a text that is not set.
pub(crate) fn default_of(flag: &str) -> &'static str {
    DEFAULTS.iter().find(|(name, _)| *name == flag).map_or("", |(_, default)| default)
}

#[cfg(test)]
mod tests {
    use super::DEFAULTS;
    use crate::FLAGS;

    #[test]
    fn each_default_is_that_of_a_flag() {
        for (name, _) in DEFAULTS {
            assert!(FLAGS.iter().any(|flag| flag.name == *name), "--{name}");
        }
    }
}
