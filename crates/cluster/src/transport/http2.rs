//! Whether connections speak HTTP/2, and the pings that show whether their peer still exists. Both are set by the
//! environment variables that client-go reads (`k8s.io/apimachinery/pkg/util/net/http.go`).

use std::time::Duration;

use hyper_util::client::legacy::Builder;
use tracing::{info, warn};

/// The HTTP/2 setting of connections, if the server supports it and TLS can agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2 {
    Off,
    On(Pings),
}

/// The pings after which a silent connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pings {
    /// The time of silence after which the peer gets a ping, on a connection with or without requests. Zero means
    /// never.
    pub(super) after: Duration,
    /// The time that the peer has to answer.
    pub(super) timeout: Duration,
}

impl Default for Http2 {
    fn default() -> Self {
        Self::On(Pings { after: Duration::from_secs(30), timeout: Duration::from_secs(15) })
    }
}

impl Http2 {
    /// The settings in the environment of the process.
    pub(crate) fn of_process() -> Self {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable("DISABLE_HTTP2").is_some() {
            info!("HTTP/2 to the API server is turned off by DISABLE_HTTP2");
            return Self::Off;
        }
        let seconds = |name, default: u64| {
            let Some(value) = variable(name) else { return Duration::from_secs(default) };
            let seconds = value.parse().unwrap_or_else(|_| {
                warn!("invalid {name} {value:?}: expected a number of seconds; using {default}");
                default
            });
            Duration::from_secs(seconds)
        };
        let after = seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS", 30);
        Self::On(Pings { after, timeout: seconds("HTTP2_PING_TIMEOUT_SECONDS", 15) })
    }

    /// The protocols that TLS offers to a server, the best first.
    pub(super) fn application_protocols(self) -> Vec<Vec<u8>> {
        let offered: &[&str] = match self {
            Self::Off => &["http/1.1"],
            Self::On(_) => &["h2", "http/1.1"],
        };
        offered.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    pub(super) fn set_pings(self, builder: &mut Builder) {
        let Self::On(Pings { after, timeout }) = self else { return };
        let after = Some(after).filter(|after| !after.is_zero());
        builder.http2_keep_alive_interval(after).http2_keep_alive_timeout(timeout).http2_keep_alive_while_idle(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_what_client_go_would_read_there() {
        let set = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
            Http2::from_variables(value)
        };
        let pings = |after, timeout| {
            Http2::On(Pings { after: Duration::from_secs(after), timeout: Duration::from_secs(timeout) })
        };
        assert_eq!(set(&[]), Http2::default());
        assert_eq!(set(&[("DISABLE_HTTP2", "true")]), Http2::Off);
        assert_eq!(set(&[("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "0")]), pings(0, 15));
        let both = [("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "-1"), ("HTTP2_PING_TIMEOUT_SECONDS", "5")];
        assert_eq!(set(&both), pings(30, 5));
    }
}
