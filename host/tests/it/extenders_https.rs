//! HTTPS to an extender: the certificates that the extender trusts, and the certificates that Berth trusts.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use axum::{Json, Router, routing::post, serve::Listener};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::cluster::{Cluster, pod};

/// The only name in the extender's certificate.
const NAME: &str = "extender.example";

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.expect("a connection");
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

struct Certificates {
    authority: CertificateDer<'static>,
    server: CertificateDer<'static>,
    server_key: PrivateKeyDer<'static>,
}

/// Makes an authority and the extender's certificate, and writes the files of a client to `dir`.
fn make_certificates(dir: &Path) -> Certificates {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let authority_certificate = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);
    let signed = |names: Vec<String>| {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(names).expect("parameters");
        (parameters.signed_by(&key, &issuer).expect("a certificate"), key)
    };
    let (server, server_key) = signed(vec![NAME.to_owned()]);
    let (client, client_key) = signed(Vec::new());
    for (file, text) in [
        ("ca.crt", authority_certificate.pem()),
        ("client.crt", client.pem()),
        ("client.key", client_key.serialize_pem()),
    ] {
        fs::write(dir.join(file), text).expect("a file");
    }
    Certificates {
        authority: authority_certificate.into(),
        server: server.into(),
        server_key: PrivateKeyDer::try_from(server_key.serialize_der()).expect("a key"),
    }
}

/// Serves an extender that lets every node pass, to clients with a certificate of the authority. Returns its address.
async fn serve(certificates: Certificates) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificates.authority).expect("an authority");
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_client_cert_verifier(clients.build().expect("a verifier"));
    let config = config.with_single_cert(vec![certificates.server], certificates.server_key).expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let pass = async |Json(arguments): Json<Value>| Json(json!({"NodeNames": arguments["NodeNames"]}));
    let routes = Router::new().route("/filter", post(pass));
    let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
    tokio::spawn(async move { axum::serve(tls, routes).await });
    format!("https://{address}")
}

/// Schedules a pod with an extender that has these TLS settings, in which `{dir}` is filled in. Returns the reason why
/// the pod waits, or `None`.
async fn outcome(tls: Value) -> Option<String> {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let dir = cluster.dir.path();
    let url = serve(make_certificates(dir)).await;
    let extender = json!({"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true, "enableHTTPS": true, "tlsConfig": tls});
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    });
    let file = dir.join("config.yaml");
    fs::write(&file, config.to_string().replace("{dir}", &dir.display().to_string())).expect("a file");
    let _scheduler = cluster.scheduler(&["--config", &file.display().to_string()]).await;
    cluster.create(&pod("a", "100m", "64Mi")).await;
    let is_decided = "bound or held";
    let seen = cluster
        .until(is_decided, |seen| seen.bound.iter().any(|name| name == "a") || seen.messages.contains_key("a"))
        .await;
    seen.messages.get("a").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_certificates() {
    let client = json!({"certFile": "{dir}/client.crt", "keyFile": "{dir}/client.key"});
    let verified = json!({"caFile": "{dir}/ca.crt", "serverName": NAME});
    let with = |settings: &[&Value]| {
        let fields = settings.iter().filter_map(|settings| settings.as_object()).flatten();
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    assert_eq!(outcome(with(&[&client, &verified])).await, None);
    // kube-scheduler verifies certificates only if authorities are configured.
    assert_eq!(outcome(client.clone()).await, None);
    let by_address = outcome(with(&[&client, &json!({"caFile": "{dir}/ca.crt"})])).await.expect("it is not trusted");
    assert!(by_address.contains("certificate"), "{by_address}");
    let anonymous = outcome(verified).await.expect("it is not let in");
    assert!(anonymous.starts_with("Post \"https://127.0.0.1:"), "{anonymous}");
}
