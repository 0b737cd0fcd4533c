//! The meaning of the flags about HTTPS, for `berth kube-scheduler` and for `berth run`.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use berth_cluster::{ConnectOptions, USER_AGENT};
use berth_config::Usage;
use berth_serving::secure_serving::{
    Authorities, FrontProxy, Lookup, SecureServing, ServeHttp2, SniCertificate, TlsChoices,
};

use berth_kube_flags::Given;

/// kube-scheduler's port.
pub(crate) const DEFAULT_PORT: u16 = 10259;

/// Reads how to serve HTTPS. Flags may replace `default_port`, and port 0 yields `None`. `reviews` is the cluster that
/// reviews callers if no flag names another; `None` means that no cluster reviews callers.
///
/// # Errors
/// A flag has an invalid value.
pub(crate) fn read(
    given: &Given,
    default_port: u16,
    reviews: Option<ConnectOptions>,
) -> Result<Option<SecureServing>, Usage> {
    let port = given.number("secure-port").map_or(Ok(default_port), u16::try_from);
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
    serving.tls_choices = TlsChoices::read(&given.texts("tls-cipher-suites"), &given.texts("tls-curve-preferences"))?;
    serving.shares_port = given.switch("permit-port-sharing").unwrap_or(false);
    serving.http2 = http2(given, serving.http2)?;
    let sni = given.texts("tls-sni-cert-key").into_iter().map(sni_certificate);
    serving.sni_certificates = sni.collect::<Result<_, _>>()?;
    serving.client_ca = given.path("client-ca-file").map(Authorities::File);
    serving.front_proxy = given.path("requestheader-client-ca-file").map(|authority| front_proxy(given, authority));
    let switch = |flag: &str, default: bool| given.switch(flag).unwrap_or(default);
    serving.lookup = if switch("authentication-skip-lookup", false) {
        Lookup::None
    } else if switch("authentication-tolerate-lookup-failure", true) {
        Lookup::Tolerant
    } else {
        Lookup::Strict
    };
    let asked = |flag: &str| match given.path(flag) {
        Some(file) => Some(cluster(Some(file), None)),
        None => reviews.clone(),
    };
    serving.authentication = asked("authentication-kubeconfig");
    serving.authorization = asked("authorization-kubeconfig");
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
    Ok(Some(serving))
}

/// The cluster of this kubeconfig and context.
pub(crate) fn cluster(kubeconfig: Option<PathBuf>, context: Option<String>) -> ConnectOptions {
    ConnectOptions { kubeconfig, context, user_agent: USER_AGENT.to_owned(), ..ConnectOptions::default() }
}

/// The cluster in which this pod runs, according to its service account. kube-scheduler sends reviews to this cluster
/// if no flag names another cluster (`pkg/server/options/authentication.go` of the generic API server).
pub(crate) fn own_cluster() -> Option<ConnectOptions> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    (has("KUBERNETES_SERVICE_HOST") && !has("KUBECONFIG")).then(|| cluster(None, None))
}

/// The HTTP/2 settings. A missing number of streams, or zero, means the default, as in kube-scheduler.
fn http2(given: &Given, default: ServeHttp2) -> Result<ServeHttp2, Usage> {
    const STREAMS: &str = "http2-max-streams-per-connection";
    if given.switch("disable-http2-serving").unwrap_or(false) {
        return Ok(ServeHttp2::No);
    }
    let streams = given.number(STREAMS).map_or(Ok(0), u32::try_from);
    match streams.map_err(|_| Usage(format!("--{STREAMS}: use a whole number from 0 to 4294967295")))? {
        0 => Ok(default),
        streams => Ok(ServeHttp2::UpTo(streams)),
    }
}

/// `CERTIFICATE,KEY` or `CERTIFICATE,KEY:NAME,NAME`.
fn sni_certificate(text: &str) -> Result<SniCertificate, Usage> {
    let (files, names) = text.split_once(':').unwrap_or((text, ""));
    let wrong = || Usage(format!("--tls-sni-cert-key {text}: write CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME"));
    let (certificate, key) = files.split_once(',').ok_or_else(wrong)?;
    if certificate.is_empty() || key.is_empty() || key.contains(',') {
        return Err(wrong());
    }
    let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Ok(SniCertificate { certificate: certificate.into(), key: key.into(), names })
}

fn front_proxy(given: &Given, authority: PathBuf) -> FrontProxy {
    let list = |flag: &str, default: &[&str]| {
        let values = if given.is_given(flag) { given.texts(flag) } else { default.to_vec() };
        values.into_iter().filter(|value| !value.is_empty()).map(str::to_owned).collect()
    };
    FrontProxy {
        authority: Authorities::File(authority),
        allowed_names: list("requestheader-allowed-names", &[]),
        username_headers: list("requestheader-username-headers", &["x-remote-user"]),
        uid_headers: list("requestheader-uid-headers", &[]),
        group_headers: list("requestheader-group-headers", &["x-remote-group"]),
        extra_header_prefixes: list("requestheader-extra-headers-prefix", &["x-remote-extra-"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[&str]) -> Result<Option<SecureServing>, Usage> {
        let given = Given::read(flags.iter().map(|flag| (*flag).to_owned())).expect("known flags");
        super::read(&given, DEFAULT_PORT, None)
    }

    #[test]
    fn kube_schedulers_defaults_hold() {
        let serving = read(&[]).expect("no flags are fine").expect("it serves");
        assert_eq!(serving.address.to_string(), "0.0.0.0:10259");
        assert_eq!(serving.open_paths, ["/healthz", "/readyz", "/livez"]);
        assert!(read(&["--secure-port=0"]).expect("fine").is_none());
    }

    #[test]
    fn http2_is_served_unless_it_is_turned_off() {
        let http2 = |flags: &[&str]| read(flags).expect("fine").expect("it serves").http2;
        assert_eq!(http2(&[]), ServeHttp2::UpTo(100));
        assert_eq!(http2(&["--http2-max-streams-per-connection=7"]), ServeHttp2::UpTo(7));
        assert_eq!(http2(&["--http2-max-streams-per-connection=0"]), ServeHttp2::UpTo(100));
        assert_eq!(http2(&["--disable-http2-serving"]), ServeHttp2::No);
    }

    #[test]
    fn certificates_by_name_and_front_proxies_are_read() {
        let flags = ["--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:b.example,*.b.example"];
        let serving = read(&flags).expect("fine").expect("it serves");
        let names: Vec<&[String]> = serving.sni_certificates.iter().map(|sni| &*sni.names).collect();
        assert_eq!(names, [&[][..], &["b.example".to_owned(), "*.b.example".to_owned()]]);
        assert_eq!(serving.front_proxy, None, "no authority for a front proxy");
        let flags = ["--requestheader-client-ca-file=ca.crt", "--requestheader-allowed-names=front,back"];
        let proxy = read(&flags).expect("fine").expect("it serves").front_proxy.expect("one is trusted");
        assert_eq!((proxy.allowed_names.len(), &*proxy.username_headers), (2, &["x-remote-user".to_owned()][..]));
    }

    #[test]
    fn flags_that_make_no_sense_are_named() {
        for (flag, part) in [
            ("--secure-port=70000", "--secure-port"),
            ("--bind-address=nowhere", "--bind-address nowhere"),
            ("--tls-cert-file=a", "give both or none"),
            ("--tls-sni-cert-key=a.crt", "write CERTIFICATE,KEY"),
            ("--http2-max-streams-per-connection=-1", "use a whole number from 0 to 4294967295"),
            ("--tls-min-version=VersionSSL3", "--tls-min-version VersionSSL3"),
        ] {
            let error = read(&[flag]).expect_err("refused").to_string();
            assert!(error.contains(part), "{flag}: {error}");
        }
    }
}
