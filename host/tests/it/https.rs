//! The endpoints over HTTPS, in kube-scheduler's place: who gets in, and what they are told.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use kube::{Client, Config, config::AuthInfo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::{cluster::Cluster, process::Process};

struct Bench {
    _cluster: Cluster,
    process: Process,
    port: u16,
    dir: PathBuf,
}

impl Bench {
    /// Starts a sandbox, and Berth in kube-scheduler's place with these flags; `{kubeconfig}` and `{dir}` are filled in.
    async fn start(flags: &[&str]) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        let (kubeconfig, dir) = (cluster.kubeconfig().display().to_string(), cluster.dir.path().to_owned());
        write_client_certificates(&dir);
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address").port();
        let fixed = ["kube-scheduler", "--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"].map(str::to_owned);
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let flags = fixed.into_iter().chain([format!("--secure-port={port}")]).chain(flags);
        let fill =
            |flag: String| flag.replace("{kubeconfig}", &kubeconfig).replace("{dir}", &dir.display().to_string());
        let mut process = Process::berth(flags.map(fill));
        process.line("serving HTTPS").await;
        Self { _cluster: cluster, process, port, dir }
    }

    fn client(&self, credentials: AuthInfo) -> Client {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse().expect("an address"));
        config.accept_invalid_certs = true;
        config.auth_info = credentials;
        Client::try_from(config).expect("a client")
    }

    /// The answer's text, or its code and message.
    async fn get(&self, credentials: AuthInfo, path: &str) -> Result<String, (u16, String)> {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        match self.client(credentials).request_text(request).await {
            Ok(text) => Ok(text),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(error) => panic!("{path}: {error}\n{}", self.process.text()),
        }
    }

    fn certificate(&self) -> AuthInfo {
        let file = |name: &str| Some(self.dir.join(name).display().to_string());
        AuthInfo { client_certificate: file("client.crt"), client_key: file("client.key"), ..AuthInfo::default() }
    }
}

/// An authority, and a client that it calls `ada` of `system:masters`.
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

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_only_the_probes_answer() {
    let bench = Bench::start(&["--client-ca-file={dir}/ca.crt", "--leader-elect=false"]).await;
    assert_eq!(bench.get(AuthInfo::default(), "/livez").await.as_deref(), Ok("ok"));
    let forbidden = (403, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"".to_owned());
    assert_eq!(bench.get(AuthInfo::default(), "/metrics").await, Err(forbidden.clone()));
    assert_eq!(bench.get(AuthInfo::default(), "/readyz/shutdown").await.map_err(|error| error.0), Err(403));
    // Nobody is asked about tokens.
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
    // The sandbox knows every token, and lets everybody do everything.
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
}
