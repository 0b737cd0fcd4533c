//! Tests of proxies between Berth and a registry. No resolver knows the names of the hosts, so only the proxy leads there.

use std::path::PathBuf;

use berth_provenance::{ComponentDescription, Proxies, Puller, Reference, Registries, RegistryOptions, push};
use berth_test_registry::{TestProxy, TestRegistry};

const LIMIT: u64 = 1 << 20;
const HOST: &str = "registry.example";

/// A registry that only a proxy reaches.
struct Network {
    registry: TestRegistry,
    proxy: TestProxy,
    dir: tempfile::TempDir,
}

impl Network {
    async fn new() -> Self {
        let registry = TestRegistry::start().await.unwrap();
        let proxy = TestProxy::start(&registry, &[HOST]).await.unwrap();
        Self { registry, proxy, dir: tempfile::tempdir().unwrap() }
    }

    async fn with_tls() -> Self {
        let registry = TestRegistry::start().await.unwrap();
        let proxy = TestProxy::start_with_tls(&registry, &[HOST]).await.unwrap();
        Self { registry, proxy, dir: tempfile::tempdir().unwrap() }
    }

    /// A file with this text.
    fn file(&self, name: &str, text: &str) -> Option<PathBuf> {
        let file = self.dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        Some(file)
    }

    fn over_https(&self) -> RegistryOptions {
        let ca_file = self.file("ca.pem", self.proxy.authority());
        RegistryOptions { host: HOST.to_owned(), ca_file, ..RegistryOptions::default() }
    }
}

fn over_http(host: &str) -> RegistryOptions {
    RegistryOptions { host: host.to_owned(), plain_http: true, ..RegistryOptions::default() }
}

fn registries(options: RegistryOptions, variables: &[(&str, String)]) -> Registries {
    let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    Registries::new(vec![options], None, &Proxies::from_variables(value)).unwrap()
}

fn zone(host: &str) -> Reference {
    format!("{host}/zone:1").parse().unwrap()
}

async fn pushed(registries: &Registries, reference: &Reference) {
    push(registries, reference, b"component", &ComponentDescription::default()).await.unwrap();
}

async fn pulled(registries: &Registries, reference: &Reference) -> Vec<u8> {
    Puller::new(registries.clone(), None).pull(reference, LIMIT, None).await.unwrap().unwrap().component
}

async fn failure(registries: &Registries, reference: &Reference) -> String {
    Puller::new(registries.clone(), None).pull(reference, LIMIT, None).await.unwrap_err().to_string()
}

#[tokio::test]
async fn requests_over_https_go_through_a_tunnel() {
    let network = Network::new().await;
    network.proxy.require("user", "p@ss");
    let variables = [("HTTPS_PROXY", format!("http://user:p%40ss@{}", network.proxy.host()))];
    let registries = registries(network.over_https(), &variables);
    pushed(&registries, &zone(HOST)).await;
    assert_eq!(pulled(&registries, &zone(HOST)).await, b"component");
    let asked = network.proxy.take_requests();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked == "CONNECT registry.example:443"), "{asked:?}");
}

#[tokio::test]
async fn a_proxy_may_speak_tls_itself() {
    let network = Network::with_tls().await;
    let proxy = format!("https://{}", network.proxy.host());
    let registries = registries(network.over_https(), &[("https_proxy", proxy)]);
    pushed(&registries, &zone(HOST)).await;
    assert_eq!(pulled(&registries, &zone(HOST)).await, b"component");
    assert_eq!(network.proxy.take_requests().first().map(String::as_str), Some("CONNECT registry.example:443"));
}

#[tokio::test]
async fn requests_for_a_token_and_for_a_redirected_blob_are_forwarded() {
    let network = Network::new().await;
    network.proxy.require("user", "p@ss");
    let variables = [("HTTP_PROXY", format!("http://user:p%40ss@{}", network.proxy.host()))];
    pushed(&registries(over_http(HOST), &variables), &zone(HOST)).await;
    network.registry.behave(|it| {
        it.credentials = Some(("berth".to_owned(), "secret".to_owned()));
        it.token_service = Some("auth.example".to_owned());
        it.redirects = true;
        it.storage = Some("storage.example".to_owned());
    });
    let secret = r#"{"auths":{"registry.example":{"username":"berth","password":"secret"}}}"#;
    let options = RegistryOptions {
        pull_secret_file: network.file("config.json", secret),
        token_service: Some("auth.example".to_owned()),
        ..over_http(HOST)
    };
    drop(network.proxy.take_requests());
    assert_eq!(pulled(&registries(options, &variables), &zone(HOST)).await, b"component");
    let asked = network.proxy.take_requests();
    for host in [HOST, "auth.example", "storage.example"] {
        let beginning = format!("GET http://{host}/");
        assert!(asked.iter().any(|asked| asked.starts_with(&beginning)), "{host}: {asked:?}");
    }
}

#[tokio::test]
async fn excepted_hosts_and_loopback_are_asked_directly() {
    let network = Network::new().await;
    let port = network.registry.host().rsplit_once(':').unwrap().1.to_owned();
    // This address leads to the machine itself, but it is not a loopback address.
    let host = format!("0.0.0.0:{port}");
    let proxy = ("HTTP_PROXY", format!("http://{}", network.proxy.host()));
    pushed(&registries(over_http(&host), &[]), &zone(&host)).await;

    let through = registries(over_http(&host), &[proxy.clone(), ("NO_PROXY", "10.0.0.0/8,0.0.0.0:1".to_owned())]);
    assert_eq!(pulled(&through, &zone(&host)).await, b"component");
    assert_ne!(network.proxy.take_requests(), [""; 0]);

    for exception in ["*", "0.0.0.0/32", host.as_str()] {
        let direct = registries(over_http(&host), &[proxy.clone(), ("NO_PROXY", exception.to_owned())]);
        assert_eq!(pulled(&direct, &zone(&host)).await, b"component");
        assert_eq!(network.proxy.take_requests(), [""; 0], "{exception}");
    }
    let host = network.registry.host();
    assert_eq!(pulled(&registries(over_http(&host), &[proxy]), &zone(&host)).await, b"component");
    assert_eq!(network.proxy.take_requests(), [""; 0], "loopback");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let network = Network::new().await;
    network.proxy.require("user", "right");
    let host = network.proxy.host();
    let with = |credentials: &str| {
        let proxy = format!("http://{credentials}{host}");
        let variables = [("HTTPS_PROXY", proxy.clone()), ("HTTP_PROXY", proxy)];
        [registries(network.over_https(), &variables), registries(over_http(HOST), &variables)]
    };
    for (registries, variable) in with("user:wrong@").iter().zip(["HTTPS_PROXY", "HTTP_PROXY"]) {
        let error = failure(registries, &zone(HOST)).await;
        let expected = format!("the proxy {host} of {variable} rejected the user or the password in the variable");
        assert!(error.starts_with("cannot be pulled: registry.example cannot be queried: "), "{error}");
        assert!(error.ends_with(&expected), "{error}");
    }
    for registries in &with("") {
        let error = failure(registries, &zone(HOST)).await;
        assert!(error.contains(&host) && error.contains("_PROXY requires credentials: put a user"), "{error}");
    }
    network.proxy.refuse(http::StatusCode::FORBIDDEN);
    let [tunnelled, _] = with("user:right@");
    let error = failure(&tunnelled, &zone(HOST)).await;
    let expected = format!("the proxy {host} of HTTPS_PROXY refused to connect to registry.example:443: 403 Forbidden");
    assert!(error.ends_with(&expected) && !error.contains("plainHTTP"), "{error}");
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_is_named() {
    let network = Network::new().await;
    let over_https = |value: String| registries(network.over_https(), &[("HTTPS_PROXY", value)]);
    // The socket keeps its port, but accepts no connections.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = socket.local_addr().unwrap();
    let error = failure(&over_https(closed.to_string()), &zone(HOST)).await;
    assert!(error.contains(&format!("cannot connect to the proxy {closed} of HTTPS_PROXY: ")), "{error}");

    let host = network.proxy.host();
    let error = failure(&over_https(format!("https://{host}")), &zone(HOST)).await;
    assert!(error.contains(&format!("cannot connect to the proxy {host} of HTTPS_PROXY: ")), "{error}");
    assert!(!error.contains("plainHTTP"), "{error}");

    let error = failure(&over_https("socks5://user:secret@proxy.example".to_owned()), &zone(HOST)).await;
    assert!(error.contains("HTTPS_PROXY is not the address of an http or https proxy"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[tokio::test]
async fn an_error_of_a_host_behind_a_proxy_names_the_proxy() {
    let network = Network::new().await;
    let host = network.proxy.host();
    let untrusted = RegistryOptions { ca_file: None, ..network.over_https() };
    let error = failure(&registries(untrusted, &[("HTTPS_PROXY", format!("http://{host}"))]), &zone(HOST)).await;
    assert!(
        error.contains("certificate") && error.ends_with(&format!(" (through the proxy {host} of HTTPS_PROXY)")),
        "{error}"
    );
}
