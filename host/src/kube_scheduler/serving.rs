//! The flags about serving HTTPS.

use std::net::{IpAddr, Ipv4Addr};

use super::flags::Given;
use crate::{failure::Usage, secure_serving::SecureServing};

const DEFAULT_PORT: u16 = 10259;

/// How to serve; `None` for port 0.
///
/// # Errors
/// A flag makes no sense.
pub(super) fn read(given: &Given) -> Result<Option<SecureServing>, Usage> {
    let port = given.number("secure-port").map_or(Ok(DEFAULT_PORT), u16::try_from);
    let port = port.map_err(|_| Usage("--secure-port: use a number from 0 to 65535".to_owned()))?;
    if port == 0 {
        return Ok(None);
    }
    let address = match given.text("bind-address") {
        None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(text) => text.parse().map_err(|_| Usage(format!("--bind-address {text}: not an IP address")))?,
    };
    let mut serving = SecureServing::on(address, port);
    serving.certificate = match (given.path("tls-cert-file"), given.path("tls-private-key-file")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Usage("--tls-cert-file and --tls-private-key-file: give both or none".to_owned()));
        }
    };
    serving.certificate_dir = given.path("cert-dir");
    serving.only_tls13 = match given.text("tls-min-version") {
        None | Some("" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12") => false,
        Some("VersionTLS13") => true,
        Some(other) => return Err(Usage(format!("--tls-min-version {other}: use VersionTLS12 or VersionTLS13"))),
    };
    serving.client_ca = given.path("client-ca-file");
    serving.authentication_kubeconfig = given.path("authentication-kubeconfig");
    serving.authorization_kubeconfig = given.path("authorization-kubeconfig");
    for (flag, ttl) in [
        ("authentication-token-webhook-cache-ttl", &mut serving.token_ttl),
        ("authorization-webhook-cache-authorized-ttl", &mut serving.authorized_ttl),
        ("authorization-webhook-cache-unauthorized-ttl", &mut serving.unauthorized_ttl),
    ] {
        if let Some(given) = given.duration(flag) {
            *ttl = given;
        }
    }
    if given.is_given("authorization-always-allow-paths") {
        serving.open_paths = given.texts("authorization-always-allow-paths").into_iter().map(str::to_owned).collect();
    }
    serving.flags = given.all();
    Ok(Some(serving))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[&str]) -> Result<Option<SecureServing>, Usage> {
        super::read(&Given::read(flags.iter().map(|flag| (*flag).to_owned())).expect("known flags"))
    }

    #[test]
    fn kube_schedulers_defaults_hold() {
        let serving = read(&[]).expect("no flags are fine").expect("it serves");
        assert_eq!(serving.address.to_string(), "0.0.0.0:10259");
        assert_eq!(serving.open_paths, ["/healthz", "/readyz", "/livez"]);
        assert!(read(&["--secure-port=0"]).expect("fine").is_none());
    }

    #[test]
    fn flags_that_make_no_sense_are_named() {
        for (flag, part) in [
            ("--secure-port=70000", "--secure-port"),
            ("--bind-address=nowhere", "--bind-address nowhere"),
            ("--tls-cert-file=a", "give both or none"),
            ("--tls-min-version=VersionSSL3", "--tls-min-version VersionSSL3"),
        ] {
            let error = read(&[flag]).expect_err("refused").to_string();
            assert!(error.contains(part), "{flag}: {error}");
        }
    }
}
