//! The endpoints over HTTPS, in kube-scheduler's place: which callers are allowed, and what each caller sees.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use berth_serving::endpoints::pprof::Profile;
use berth_test_processes::free_addresses;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::AuthInfo,
};
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use crate::{
    cluster::{Cluster, pod},
    process::{DEADLINE, Process},
    reviewer::Reviewer,
};

pub(crate) struct Bench {
    pub cluster: Cluster,
    process: Process,
    pub port: u16,
    dir: PathBuf,
}

impl Bench {
    /// Starts a sandbox, and Berth in kube-scheduler's place with these flags; `{kubeconfig}` and `{dir}` are filled in.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        write_client_certificates(cluster.dir.path());
        Self::start_in(cluster, flags).await
    }

    /// Starts the scheduler in a cluster with client certificates in its folder.
    async fn start_in(cluster: Cluster, flags: &[&str]) -> Self {
        let (kubeconfig, dir) = (cluster.kubeconfig().display().to_string(), cluster.dir.path().to_owned());
        let [address] = free_addresses().expect("a free port");
        let port = address.port();
        let fixed = ["kube-scheduler", "--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"].map(str::to_owned);
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let flags = fixed.into_iter().chain([format!("--secure-port={port}")]).chain(flags);
        let fill =
            |flag: String| flag.replace("{kubeconfig}", &kubeconfig).replace("{dir}", &dir.display().to_string());
        let mut process = Process::berth(flags.map(fill));
        process.line("serving HTTPS").await;
        Self { cluster, process, port, dir }
    }

    /// Starts a scheduler that sends its reviews to the reviewer. The sandbox would allow everything.
    async fn start_asking(reviewer: &Reviewer) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        reviewer.write_kubeconfig(&cluster.dir.path().join("reviewer.kubeconfig"));
        let flags =
            ["authentication", "authorization"].map(|it| format!("--{it}-kubeconfig={{dir}}/reviewer.kubeconfig"));
        let [authentication, authorization] = &flags;
        let flags = [authentication, authorization, "--authentication-skip-lookup", "--leader-elect=false"];
        Self::start_in(cluster, &flags).await
    }

    pub(crate) fn client(&self, credentials: AuthInfo) -> Client {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse().expect("an address"));
        config.accept_invalid_certs = true;
        // Some tests wait for a refusal, which the client must not retry.
        config.default_retry = false;
        config.auth_info = credentials;
        Client::try_from(config).expect("a client")
    }

    /// The text of the response, or its code and message.
    pub(crate) async fn get(&self, credentials: AuthInfo, path: &str) -> Result<String, (u16, String)> {
        self.ask(credentials, http::Request::get(path).body(Vec::new()).expect("a request")).await
    }

    async fn ask(&self, credentials: AuthInfo, request: http::Request<Vec<u8>>) -> Result<String, (u16, String)> {
        let path = request.uri().to_string();
        match self.client(credentials).request_text(request).await {
            Ok(text) => Ok(text),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(error) => panic!("{path}: {error}\n{}", self.process.text()),
        }
    }

    pub(crate) fn certificate(&self) -> AuthInfo {
        certificate_in(&self.dir)
    }

    /// Whether the client with the certificate in this folder gets the metrics over a new connection.
    async fn accepts(&self, dir: &Path) -> bool {
        self.client(certificate_in(dir)).request_text(metrics()).await.is_ok()
    }
}

fn certificate_in(dir: &Path) -> AuthInfo {
    let file = |name: &str| Some(dir.join(name).display().to_string());
    AuthInfo { client_certificate: file("client.crt"), client_key: file("client.key"), ..AuthInfo::default() }
}

fn metrics() -> http::Request<Vec<u8>> {
    http::Request::get("/metrics").body(Vec::new()).expect("a request")
}

/// Writes an authority and a client certificate for `ada` of the group `system:masters`.
fn write_client_certificates(dir: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let authority_certificate = authority.self_signed(&authority_key).expect("a certificate");
    let mut client = CertificateParams::new(Vec::new()).expect("parameters");
    client.distinguished_name.push(DnType::CommonName, "ada");
    client.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let key = KeyPair::generate().expect("a key");
    let certificate = client.signed_by(&key, &Issuer::new(authority, authority_key)).expect("a certificate");
    let files = [
        ("ca.crt", authority_certificate.pem()),
        ("client.crt", certificate.pem()),
        ("client.key", key.serialize_pem()),
    ];
    for (name, text) in files {
        fs::write(dir.join(name), text).expect("a file");
    }
}

fn token(token: &str) -> AuthInfo {
    serde_json::from_value(serde_json::json!({ "token": token })).expect("credentials")
}

/// ada sees the configuration. ida lists plugins, and changes one plugin. Other users may do nothing.
fn may(user: &str, spec: &Value) -> bool {
    let (path, object) = (&spec["nonResourceAttributes"], &spec["resourceAttributes"]);
    let plugins = json!({"group": "berth.dev", "resource": "plugins", "verb": "get"});
    let orders = json!({"group": "berth.dev", "resource": "plugins", "verb": "update", "name": "NodePorts"});
    match user {
        "ada" => *path == json!({"path": "/configz", "verb": "get"}),
        "ida" => [plugins, orders].contains(object),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_only_the_probes_answer() {
    let bench = Bench::start(&["--client-ca-file={dir}/ca.crt", "--leader-elect=false"]).await;
    assert_eq!(bench.get(AuthInfo::default(), "/livez").await.as_deref(), Ok("ok"));
    let forbidden = (403, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"".to_owned());
    assert_eq!(bench.get(AuthInfo::default(), "/metrics").await, Err(forbidden.clone()));
    assert_eq!(bench.get(AuthInfo::default(), "/readyz/shutdown").await.map_err(|error| error.0), Err(403));
    // The scheduler asks no server about tokens.
    assert_eq!(bench.get(token("any"), "/metrics").await, Err(forbidden));
    let metrics = bench.get(bench.certificate(), "/metrics").await.expect("ada may");
    assert!(metrics.contains("scheduler_scheduling_algorithm_duration_seconds"), "{metrics}");
    let checks = bench.get(bench.certificate(), "/livez?verbose").await.expect("ada may");
    assert!(checks.ends_with("livez check passed\n"), "{checks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_says_who_may() {
    let flags = [
        "--authentication-kubeconfig={kubeconfig}",
        "--authorization-kubeconfig={kubeconfig}",
        "--cert-dir={dir}/certificates",
        "--kube-api-qps=33",
    ];
    let bench = Bench::start(&flags).await;
    // The sandbox accepts every token, and allows everything.
    let configuration = bench.get(token("any"), "/configz").await.expect("anybody may");
    let configuration: Value = serde_json::from_str(&configuration).expect("JSON");
    assert_eq!(configuration["componentconfig"]["clientConnection"]["qps"], 33.0);
    assert_eq!(configuration["componentconfig"]["leaderElection"]["resourceName"], "kube-scheduler");
    let flags = bench.get(token("any"), "/flagz").await.expect("anybody may");
    assert!(flags.contains("\nkube-api-qps:33\n"), "{flags}");
    assert!(bench.get(token("any"), "/statusz").await.expect("anybody may").contains("kube-scheduler statusz"));
    assert!(bench.get(token("any"), "/version").await.expect("anybody may").contains("1.36"));
    assert_eq!(bench.get(token("any"), "/healthz/leaderElection").await.as_deref(), Ok("ok"));
    assert!(bench.dir.join("certificates/kube-scheduler.crt").exists(), "the next start has the same certificate");

    let reviewer = Reviewer::start(may).await;
    let bench = Bench::start_asking(&reviewer).await;
    bench.get(token("token-of-ada"), "/configz").await.expect("ada may");
    for path in ["/flagz", "/metrics", "/metrics/resources", "/admin/plugins"] {
        let denied = format!("forbidden: User \"ada\" cannot get path {path:?}");
        assert_eq!(bench.get(token("token-of-ada"), path).await, Err((403, denied)));
    }
    assert_eq!(bench.get(token("any"), "/configz").await, Err((401, "Unauthorized".to_owned())));
}

/// Callers are counted, and `DELETE /metrics` lets counters begin at zero.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_counted_until_the_counters_are_reset() {
    let flags = [
        "--authentication-kubeconfig={kubeconfig}",
        "--authorization-kubeconfig={kubeconfig}",
        "--authentication-token-webhook-cache-ttl=1h",
        "--authorization-webhook-cache-authorized-ttl=1h",
        "--leader-elect=false",
    ];
    let bench = Bench::start(&flags).await;
    for _ in 0..3 {
        bench.get(token("any"), "/configz").await.expect("anybody may");
    }
    let metrics = bench.get(token("any"), "/metrics").await.expect("anybody may");
    for line in [
        "authentication_attempts{result=\"success\"} 4",
        "authentication_token_cache_request_total{status=\"miss\"} 1",
        "authentication_token_cache_request_total{status=\"hit\"} 3",
        "authentication_token_cache_fetch_total{status=\"ok\"} 1",
        "authorization_attempts_total{result=\"allowed\"} 4",
        "apiserver_delegated_authn_request_total{code=\"201\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is missing from\n{metrics}");
    }
    let reset = http::Request::delete("/metrics").body(Vec::new()).expect("a request");
    assert_eq!(bench.ask(token("any"), reset).await.as_deref(), Ok("metrics reset\n"));
    let metrics = bench.get(token("any"), "/metrics").await.expect("anybody may");
    let line = "authentication_token_cache_request_total{status=\"hit\"} 1";
    assert!(metrics.lines().any(|it| it == line), "{line} is missing from\n{metrics}");
    assert!(!metrics.contains("authentication_token_cache_request_total{status=\"miss\"}"), "{metrics}");
}

/// A request for `/metrics` in which a proxy names its user.
fn on_behalf_of(name: &str, group: &str) -> http::Request<Vec<u8>> {
    let request = http::Request::get("/metrics").header("X-Remote-User", name).header("X-Remote-Group", group);
    request.body(Vec::new()).expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_proxy_says_who_asks() {
    let flags = ["--requestheader-client-ca-file={dir}/ca.crt", "--requestheader-allowed-names=ada,front"];
    let bench = Bench::start(&flags).await;
    bench.ask(bench.certificate(), on_behalf_of("eve", "system:masters")).await.expect("eve may");
    let denied = |name: &str| Err((403, format!("forbidden: User {name:?} cannot get path \"/metrics\"")));
    assert_eq!(bench.ask(bench.certificate(), on_behalf_of("eve", "operators")).await, denied("eve"));
    assert_eq!(bench.ask(AuthInfo::default(), on_behalf_of("eve", "system:masters")).await, denied("system:anonymous"));
    // A proxy must name a user, because the proxies' authority does not vouch for clients.
    assert_eq!(bench.get(bench.certificate(), "/metrics").await, denied("system:anonymous"));
    // A client with the name of a proxy is no proxy: its headers about other users are ignored.
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let proxies = cluster.dir.path().join("proxies");
    fs::create_dir(&proxies).expect("a folder");
    write_client_certificates(cluster.dir.path());
    write_client_certificates(&proxies);
    let flags = ["--client-ca-file={dir}/ca.crt", "--requestheader-client-ca-file={dir}/proxies/ca.crt"];
    let bench = Bench::start_in(cluster, &[&flags[..], &["--requestheader-allowed-names=ada"]].concat()).await;
    bench.ask(bench.certificate(), on_behalf_of("eve", "operators")).await.expect("it is ada who asks, and may");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    let own = rcgen::generate_simple_self_signed(["scheduler.example".to_owned()]).expect("a certificate");
    let (dir, path) =
        (tempfile::tempdir().expect("a folder"), |dir: &Path, name: &str| dir.join(name).display().to_string());
    let (certificate, key) = (path(dir.path(), "sni.crt"), path(dir.path(), "sni.key"));
    fs::write(&certificate, own.cert.pem()).expect("a file");
    fs::write(&key, own.signing_key.serialize_pem()).expect("a file");
    let mut bench = Bench::start(&[&format!("--tls-sni-cert-key={certificate},{key}")]).await;
    let port = bench.port;
    let healthz = async |name: &str| {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().expect("an address"));
        config.root_cert = Some(vec![own.cert.der().to_vec()]);
        config.tls_server_name = Some(name.to_owned());
        let client = Client::try_from(config).expect("a client");
        client.request_text(http::Request::get("/healthz").body(Vec::new()).expect("a request")).await
    };
    assert_eq!(healthz("scheduler.example").await.expect("its certificate"), "ok");
    healthz("other.example").await.expect_err("the server's own certificate, which the client does not trust");
    // Another certificate replaces this one while the scheduler runs.
    let other = rcgen::generate_simple_self_signed(["scheduler.example".to_owned()]).expect("a certificate");
    fs::write(&key, other.signing_key.serialize_pem()).expect("a file");
    fs::write(&certificate, other.cert.pem()).expect("a file");
    bench.process.line("using the new certificates").await;
    healthz("scheduler.example").await.expect_err("the certificate before, which is not served any more");
}

/// HTTP/2 as Prometheus and client-go use it: many requests at the same time on one connection.
#[tokio::test(flavor = "multi_thread")]
async fn http2_is_served_beside_http1() {
    let own = rcgen::generate_simple_self_signed(["scheduler.example".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (dir.path().join("own.crt"), dir.path().join("own.key"));
    fs::write(&certificate, own.cert.pem()).expect("a file");
    fs::write(&key, own.signing_key.serialize_pem()).expect("a file");
    let files = [("cert", certificate), ("private-key", key)]
        .map(|(name, path)| format!("--tls-{name}-file={}", path.display()));
    let bench = Bench::start(&files.each_ref().map(String::as_str)).await;
    let connect = async |protocols: &[&str]| {
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).expect("a certificate");
        let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(("127.0.0.1", bench.port)).await.expect("it listens");
        let name = ServerName::try_from("scheduler.example").expect("a name");
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.expect("TLS")
    };
    let stream = connect(&["h2", "http/1.1"]).await;
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (requests, connection) = shaken.expect("a handshake");
    tokio::spawn(connection);
    let ask = |path: &str| {
        let request = http::Request::get(format!("https://scheduler.example{path}")).body(Empty::<&[u8]>::new());
        let (mut requests, request) = (requests.clone(), request.expect("a request"));
        async move { requests.send_request(request).await.expect("an answer").status().as_u16() }
    };
    let paths: Vec<&str> = (0..200).map(|n| if n % 2 == 0 { "/healthz" } else { "/metrics" }).collect();
    let answers = futures::future::join_all(paths.iter().map(|path| ask(path))).await;
    assert!(answers.iter().zip(0..).all(|(code, n)| *code == if n % 2 == 0 { 200 } else { 403 }), "{answers:?}");
    let stream = connect(&["http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

/// The ConfigMap in which an API server publishes authorities.
const PUBLISHED: &str = "extension-apiserver-authentication";

/// Publishes the clients' authority in this folder, as an API server does.
async fn publish(cluster: &Cluster, dir: &Path) -> Api<ConfigMap> {
    let authority = fs::read_to_string(dir.join("ca.crt")).expect("a file");
    let published = json!({"metadata": {"name": PUBLISHED}, "data": {"client-ca-file": authority}});
    let maps: Api<ConfigMap> = Api::namespaced(cluster.pods.clone().into_client(), "kube-system");
    let published = serde_json::from_value(published).expect("a ConfigMap");
    maps.create(&PostParams::default(), &published).await.expect("the sandbox takes it");
    maps
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_says_who_vouches_for_clients() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    write_client_certificates(cluster.dir.path());
    publish(&cluster, cluster.dir.path()).await;
    let mut bench = Bench::start_in(cluster, &["--authentication-kubeconfig={kubeconfig}"]).await;
    bench.process.line("\"looked up the certificate authorities for clients\" clients=true front_proxies=false").await;
    bench.get(bench.certificate(), "/metrics").await.expect("ada may");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_the_cluster_replaces_vouches_for_nobody_any_more() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let (old, new) = (cluster.dir.path().to_owned(), cluster.dir.path().join("new"));
    fs::create_dir(&new).expect("a folder");
    write_client_certificates(&old);
    write_client_certificates(&new);
    let maps = publish(&cluster, &old).await;
    let change = async |authority: &str| {
        let data = Patch::Merge(json!({"data": {"client-ca-file": authority}}));
        maps.patch(PUBLISHED, &PatchParams::default(), &data).await.expect("the sandbox takes it");
    };
    let mut bench = Bench::start_in(cluster, &["--authentication-kubeconfig={kubeconfig}"]).await;
    assert!(bench.accepts(&old).await && !bench.accepts(&new).await, "{}", bench.process.text());
    let connected = bench.client(bench.certificate());
    connected.request_text(metrics()).await.expect("ada may");
    change(&fs::read_to_string(new.join("ca.crt")).expect("a file")).await;
    bench.process.line("\"using the new certificate authorities for clients\" clients=true").await;
    assert!(bench.accepts(&new).await && !bench.accepts(&old).await, "{}", bench.process.text());
    // The client's connection is still open, but the client is not ada any more.
    let refused = connected.request_text(metrics()).await.expect_err("the authority is gone");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    change("no certificate").await;
    let line = bench.process.line("\"cannot use published certificate authorities").await;
    for part in [
        "the ConfigMap kube-system/extension-apiserver-authentication, key client-ca-file: it contains no certificate",
        "fix=\"delete the ConfigMap: ",
    ] {
        assert!(line.contains(part), "{part} is missing from {line}");
    }
    assert!(bench.accepts(&new).await && !bench.accepts(&old).await, "{}", bench.process.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_replaces_another_in_its_file_counts_without_a_restart() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let dir = cluster.dir.path().to_owned();
    let (old, new) = (dir.join("old"), dir.join("new"));
    for folder in [&old, &new] {
        fs::create_dir(folder).expect("a folder");
        write_client_certificates(folder);
    }
    fs::copy(old.join("ca.crt"), dir.join("trusted.crt")).expect("a file");
    let mut bench = Bench::start_in(cluster, &["--client-ca-file={dir}/trusted.crt", "--leader-elect=false"]).await;
    assert!(bench.accepts(&old).await && !bench.accepts(&new).await, "{}", bench.process.text());
    fs::copy(new.join("ca.crt"), dir.join("trusted.crt")).expect("a file");
    bench.process.line("using the new certificates").await;
    assert!(bench.accepts(&new).await && !bench.accepts(&old).await, "{}", bench.process.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_logged_in_kube_schedulers_words_once_that_is_asked_for() {
    let flags = ["--client-ca-file={dir}/ca.crt", "--leader-elect=false"];
    let mut bench = Bench::start(&flags).await;
    bench.process.line("\"Starting Kubernetes Scheduler\" version=\"v1.37").await;
    bench.cluster.create(&pod("quiet", "1", "1Gi")).await;
    bench.cluster.node_of("quiet").await;
    assert!(!bench.process.text().contains("Successfully bound"), "{}", bench.process.text());
    let put = |verbosity: &str| {
        let request = http::Request::put("/debug/flags/v").body(verbosity.as_bytes().to_vec());
        bench.ask(bench.certificate(), request.expect("a request"))
    };
    assert_eq!(put("2").await.as_deref(), Ok("successfully set klog.logging.verbosity to 2"));
    assert_eq!(put("high").await.map_err(|(code, _)| code), Err(400));
    bench.cluster.create(&pod("told", "1", "1Gi")).await;
    bench.cluster.create(&pod("big", "100", "1Gi")).await;
    let bound =
        "\"Successfully bound pod to node\" pod=\"default/told\" node=\"node-00000\" evaluatedNodes=1 feasibleNodes=1";
    let line = bench.process.line(bound).await;
    assert!(line.starts_with('I') && line.contains(" attempts.rs:"), "{line}");
    let waits = "\"Unable to schedule pod; no fit; waiting\" pod=\"default/big\" err=\"0/1 nodes are available: 1 Insufficient cpu.";
    bench.process.line(waits).await;
}

/// kube-scheduler logs a line for each node and plugin. No other line comes as often.
#[tokio::test(flavor = "multi_thread")]
async fn at_verbosity_10_every_score_of_every_node_is_logged() {
    const N_NODES: usize = 5_000;
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", &N_NODES.to_string()]).await;
    write_client_certificates(cluster.dir.path());
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  percentageOfNodesToScore: 100\nleaderElection: {leaderElect: false}\n\
                  clientConnection: {kubeconfig: KUBECONFIG}\n";
    let config = config.replace("KUBECONFIG", &cluster.kubeconfig().display().to_string());
    fs::write(cluster.dir.path().join("scheduler.yaml"), config).expect("a file");
    let mut bench = Bench::start_in(cluster, &["--config={dir}/scheduler.yaml", "-v=10"]).await;
    bench.cluster.create(&pod("scored", "1", "1Gi")).await;
    bench.process.line("\"Successfully bound pod to node\" pod=\"default/scored\"").await;
    let text = bench.process.text();
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    let of_pod = "pod=\"default/scored\"";
    assert_eq!(lines(&format!("\"Calculated node's final score for pod\" {of_pod}")), N_NODES);
    let n_scores = lines(&format!("\"Plugin scored node for pod\" {of_pod}"));
    assert!(n_scores >= 5 * N_NODES && n_scores.is_multiple_of(N_NODES), "{n_scores} lines");
    for part in [
        "\"Plugin scored node for pod\" pod=\"default/scored\" plugin=\"NodeResourcesFit\" node=\"node-04999\" score=",
        "\"Calculated node's final score for pod\" pod=\"default/scored\" node=\"node-04999\" score=",
    ] {
        assert_eq!(lines(part), 1, "{part}");
    }
}

/// A CPU profile of one second.
async fn cpu_profile(bench: &Bench) -> Profile {
    let request = http::Request::get("/debug/pprof/profile?seconds=1").body(kube::client::Body::empty());
    let answer = bench.client(bench.certificate()).send(request.expect("a request")).await.expect("ada may");
    let gzip = answer.into_body().collect().await.expect("a body").to_bytes();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut bytes).expect("gzip");
    Profile::decode(&bytes[..]).expect("a profile")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_what_pprof_reads() {
    let bench = Bench::start(&["--client-ca-file={dir}/ca.crt", "--leader-elect=false"]).await;
    let index = bench.get(bench.certificate(), "/debug/pprof/").await.expect("ada may");
    assert!(index.contains("profile?seconds=N"), "{index}");
    let forbidden = "forbidden: User \"system:anonymous\" cannot get path \"/debug/pprof/profile\"".to_owned();
    assert_eq!(bench.get(AuthInfo::default(), "/debug/pprof/profile?seconds=1").await, Err((403, forbidden)));
    let missing = bench.get(bench.certificate(), "/debug/pprof/heap").await.expect_err("no heap profile");
    assert!(missing.0 == 404 && missing.1.contains("not written in Go"), "{missing:?}");
    let arguments = bench.get(bench.certificate(), "/debug/pprof/cmdline").await.expect("ada may");
    assert!(arguments.contains("\0kube-scheduler\0--kubeconfig="), "{arguments:?}");
    // A profile of one second may miss a scheduler that has little to do.
    let mut n_profiles = 0;
    let profile = loop {
        n_profiles += 1;
        let names = (0..50).map(|n| pod(&format!("pod-{n_profiles}-{n}"), "10m", "1Mi"));
        let (profile, ()) = tokio::join!(cpu_profile(&bench), bench.cluster.create_all(names));
        if !profile.sample.is_empty() || n_profiles == 20 {
            break profile;
        }
    };
    let text = |index: i64| profile.string_table[usize::try_from(index).expect("an index")].as_str();
    let types: Vec<_> = profile.sample_type.iter().map(|it| (text(it.r#type), text(it.unit))).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(profile.duration_nanos >= 1_000_000_000, "{}", profile.duration_nanos);
    assert!(!profile.sample.is_empty() && profile.sample.iter().all(|sample| !sample.location_id.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_profiling_there_are_no_profiles() {
    let flags = ["--client-ca-file={dir}/ca.crt", "--leader-elect=false", "--profiling=false"];
    let bench = Bench::start(&flags).await;
    for path in ["/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/flags/v"] {
        let (code, _) = bench.get(bench.certificate(), path).await.expect_err("there is nothing");
        assert_eq!(code, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_are_steered_over_https_by_whom_the_api_server_lets() {
    let flags = ["--authentication-kubeconfig={kubeconfig}", "--authorization-kubeconfig={kubeconfig}"];
    let bench = Bench::start(&[&flags[..], &["--cert-dir={dir}/certificates", "--leader-elect=false"]].concat()).await;
    let denied = "forbidden: User \"system:anonymous\" cannot get path \"/admin/plugins\"";
    let path = |name: &str| bench.dir.join(name).display().to_string();
    fs::write(path("token"), "anybody\n").expect("a file");
    let (server, token, authority) =
        (format!("127.0.0.1:{}", bench.port), path("token"), path("certificates/kube-scheduler.crt"));
    let remote = ["--server", &server, "--token-file", &token, "--certificate-authority", &authority];
    let berth = async |arguments: &[&str]| {
        let ended = Process::berth(["plugin"].iter().chain(arguments).chain(&remote)).ended(DEADLINE).await;
        assert!(ended.status.success(), "{}", ended.err);
        ended.out
    };
    assert!(berth(&["list"]).await.contains("DefaultBinder"));
    let report: Value = serde_json::from_str(&berth(&["disable", "NodePorts", "-o", "json"]).await).expect("JSON");
    assert_eq!(report["state"], "disabled", "{report}");
    // Every request is refused if no authorizer allows it.
    let closed = Bench::start(&["--client-ca-file={dir}/ca.crt", "--authorization-always-allow-paths=/*"]).await;
    assert_eq!(closed.get(AuthInfo::default(), "/admin/plugins").await, Err((403, denied.to_owned())));
    orders_are_for_those_who_may_give_them().await;
}

async fn orders_are_for_those_who_may_give_them() {
    let reviewer = Reviewer::start(may).await;
    let bench = Bench::start_asking(&reviewer).await;
    let disable = |user: &str, plugin: &str| {
        let request = http::Request::post(format!("/admin/plugins/{plugin}/disable")).body(Vec::new());
        bench.ask(token(&format!("token-of-{user}")), request.expect("a request"))
    };
    for (user, plugin) in [("ida", "NodeName"), ("ada", "NodePorts")] {
        let denied = format!("forbidden: User {user:?} cannot post path \"/admin/plugins/{plugin}/disable\"");
        assert_eq!(disable(user, plugin).await, Err((403, denied)));
    }
    disable("ida", "NodePorts").await.expect("ida may");
    let plugins = bench.get(token("token-of-ida"), "/admin/plugins").await.expect("ida may");
    let plugins: Vec<Value> = serde_json::from_str(&plugins).expect("JSON");
    let disabled = plugins.iter().filter(|plugin| plugin["state"] == "disabled").map(|plugin| &plugin["name"]);
    assert_eq!(disabled.collect::<Vec<_>>(), ["NodePorts"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_and_pods_resources_are_metrics() {
    let bench = Bench::start(&["--client-ca-file={dir}/ca.crt", "--leader-elect=false", "--logging-format=json"]).await;
    assert_eq!(bench.get(bench.certificate(), "/livez").await.as_deref(), Ok("ok"));
    let slis = bench.get(bench.certificate(), "/metrics/slis").await.expect("ada may");
    for line in [
        "# TYPE kubernetes_healthcheck gauge",
        "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 1",
    ] {
        assert!(slis.lines().any(|it| it == line), "{line} is missing from\n{slis}");
    }
    bench.cluster.create(&pod("a", "1500m", "1Gi")).await;
    let node = bench.cluster.node_of("a").await;
    let labels = format!("namespace=\"default\",node={node:?},pod=\"a\",priority=\"0\",resource=\"cpu\"");
    let line = format!("kube_pod_resource_request{{{labels},scheduler=\"default-scheduler\",unit=\"cores\"}} 1.5");
    // The API server has the binding before the scheduler learns about it.
    let look = async || {
        let resources = bench.get(bench.certificate(), "/metrics/resources").await.expect("ada may");
        Ok(resources.lines().any(|it| it == line).then_some(()))
    };
    berth_test_processes::until(&line, look).await.expect("the pod's request");
    let metrics = bench.get(bench.certificate(), "/metrics").await.expect("ada may");
    assert!(metrics.contains("kubernetes_feature_enabled{name=\"SchedulerQueueingHints\",stage=\"\"} 1"), "{metrics}");
    let text = bench.process.text();
    let first = text.lines().next().expect("a line");
    let line: Value = serde_json::from_str(first).unwrap_or_else(|error| panic!("{error}: {first}"));
    assert!(line["ts"].is_f64() && line["msg"].is_string() && line["caller"].is_string(), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_decide_what_the_endpoints_show() {
    let asking = ["--authentication-kubeconfig={kubeconfig}", "--authorization-kubeconfig={kubeconfig}"];
    let gates = "--feature-gates=ComponentFlagz=false,ComponentStatusz=false,SchedulerAsyncAPICalls=true";
    for (flags, is_default) in [(&[][..], true), (&[gates], false)] {
        let bench = Bench::start(&[&asking, flags].concat()).await;
        bench.cluster.create(&pod("a", "100m", "128Mi")).await;
        bench.cluster.node_of("a").await;
        let metrics = async || bench.get(token("any"), "/metrics").await.expect("anybody may");
        let is_bound = |metrics: &str| metrics.contains("scheduler_schedule_attempts_total{");
        let metrics = timeout(DEADLINE, async {
            loop {
                let metrics = metrics().await;
                if is_bound(&metrics) {
                    return metrics;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        let metrics = metrics.await.expect("the attempt is counted");
        assert_eq!(metrics.contains("scheduler_async_api_call_execution_total{"), !is_default, "{metrics}");
        for path in ["/flagz", "/statusz"] {
            let code = bench.get(token("any"), path).await.err().map(|(code, _)| code);
            assert_eq!(code, (!is_default).then_some(404), "{path}");
        }
    }
}
