//! Real sockets: a server that describes its requests, relays that fall silent, and proxies.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body as ServerBody, extract::Request as ServerRequest};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper_util::{rt::TokioIo, server::conn::auto, service::TowerToHyperService};
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{http2::Pings, *};

/// A time limit for steps that take a loaded machine a second.
const LONG: Duration = Duration::from_secs(60);

/// The number of requests that the server takes at a time on one connection over HTTP/2.
const MAX_STREAMS: u32 = 3;

/// Short pings, for a test that waits for them. The client and the server share a thread, which may wait for a processor
/// while a ping is on its way.
const IMPATIENT: Http2 = Http2::On(Pings { after: Duration::from_millis(300), timeout: Duration::from_secs(2) });

/// A server for `api.example` that answers with the version, path and user of the request. A path that ends with
/// `/watch` has an answer without an end.
struct Server {
    address: SocketAddr,
    /// The authority of the server's certificate; `None` without TLS.
    authority: Option<Vec<u8>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, |stream| async { Some(stream) }));
        Self { address, authority: None }
    }

    async fn start_with_tls(protocols: &[&str]) -> Self {
        let (acceptor, authority) = acceptor(protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, move |stream| {
            let acceptor = acceptor.clone();
            async move { acceptor.accept(stream).await.ok() }
        }));
        Self { address, authority: Some(authority) }
    }

    /// The settings of a client that reaches the server, or a relay to it, at `address`.
    fn config_at(&self, address: SocketAddr) -> Config {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let mut config = Config::new(format!("{scheme}://{address}").parse().unwrap());
        config.root_cert = self.authority.clone().map(|authority| vec![authority]);
        config.tls_server_name = Some("api.example".to_owned());
        config
    }

    fn config(&self) -> Config {
        self.config_at(self.address)
    }
}

fn acceptor(protocols: &[&str]) -> (TlsAcceptor, Vec<u8>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["api.example".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let mut tls =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key.into()).unwrap();
    tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(tls)), cert.der().to_vec())
}

async fn serve<S, F>(listener: TcpListener, shake_hands: impl Fn(TcpStream) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Option<S>> + Send + 'static,
{
    let service = TowerToHyperService::new(Router::new().fallback(answer));
    while let Ok((stream, _)) = listener.accept().await {
        let (stream, service) = (shake_hands(stream), service.clone());
        tokio::spawn(async move {
            let Some(stream) = stream.await else { return };
            // A client that hangs up is not an error of the server.
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http2().max_concurrent_streams(MAX_STREAMS);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: ServerRequest) -> ServerBody {
    let user = request.headers().get("impersonate-user").map_or("-", |value| value.to_str().unwrap());
    let text = format!("{:?} {} {user}", request.version(), request.uri().path());
    if !request.uri().path().ends_with("/watch") {
        return text.into();
    }
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(text))]);
    ServerBody::from_stream(first.chain(futures::stream::pending()))
}

async fn ask(client: &Client, path: &str) -> String {
    let request = Request::get(path).body(Vec::new()).unwrap();
    timeout(LONG, client.request_text(request)).await.expect("an answer in time").expect("an answer")
}

/// The first piece of an endless response, and the pieces after it.
async fn open_watch(client: &Client) -> (String, Body) {
    let request = Request::get("/watch").body(Body::empty()).unwrap();
    let mut body =
        timeout(LONG, client.send(request)).await.expect("an answer in time").expect("an answer").into_body();
    let first = body.frame().await.expect("a piece").expect("of the answer").into_data().expect("of its body");
    (String::from_utf8(first.to_vec()).unwrap(), body)
}

/// A relay that passes bytes to a server and back. A silent relay keeps its old connections without passing bytes, and
/// serves only new connections.
struct Relay {
    address: SocketAddr,
    silent: watch::Sender<()>,
}

impl Relay {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, _) = watch::channel(());
        let (target, silence) = (server.address, silent.clone());
        tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let mut silent = silence.subscribe();
                tokio::spawn(async move {
                    let mut there = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut here, &mut there) => {}
                        _ = silent.changed() => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, silent }
    }
}

fn client(config: &Config, http2: Http2) -> Result<Client, TransportError> {
    transport(config, http2).map(Transport::into_client)
}

#[tokio::test]
async fn http2_is_spoken_over_tls_where_both_sides_have_it() {
    let server = Server::start_with_tls(&["h2", "http/1.1"]).await;
    let mut config = server.config();
    config.auth_info.impersonate = Some("alice".to_owned());
    let both = client(&config, Http2::default()).unwrap();
    assert_eq!(ask(&both, "/api").await, "HTTP/2.0 /api alice");
    assert_eq!(ask(&client(&config, Http2::Off).unwrap(), "/api").await, "HTTP/1.1 /api alice");

    let old = Server::start_with_tls(&["http/1.1"]).await;
    assert_eq!(ask(&client(&old.config(), Http2::default()).unwrap(), "/api").await, "HTTP/1.1 /api -");
    let plain = Server::start().await;
    assert_eq!(ask(&client(&plain.config(), Http2::default()).unwrap(), "/api").await, "HTTP/1.1 /api -");
}

#[tokio::test]
async fn a_server_with_another_name_is_not_spoken_to() {
    let server = Server::start_with_tls(&["h2"]).await;
    let mut config = server.config();
    config.tls_server_name = Some("other.example".to_owned());
    let other = client(&config, Http2::default()).unwrap();
    let answer = other.request_text(Request::get("/").body(Vec::new()).unwrap());
    assert!(timeout(LONG, answer).await.expect("an answer in time").is_err());
    config.tls_server_name = Some("not a name".to_owned());
    let error = client(&config, Http2::default()).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("invalid tls-server-name \"not a name\": expected a DNS name or an IP address"));
}

/// A watch ends if its server falls silent, although the connection was not closed. The next watch succeeds.
#[tokio::test]
async fn a_silent_http2_connection_is_given_up() {
    let server = Server::start_with_tls(&["h2"]).await;
    let relay = Relay::to(&server).await;
    let client = client(&server.config_at(relay.address), IMPATIENT).unwrap();
    let (first, mut rest) = open_watch(&client).await;
    assert_eq!(first, "HTTP/2.0 /watch -");
    relay.silent.send_replace(());
    let ended = timeout(LONG, rest.frame()).await.expect("the silence is noticed");
    assert!(ended.is_none_or(|frame| frame.is_err()));
    assert_eq!(ask(&client, "/api").await, "HTTP/2.0 /api -");
}

#[tokio::test]
async fn a_binding_does_not_wait_for_requests_that_do_not_end() {
    let server = Server::start_with_tls(&["h2"]).await;
    let client = client(&server.config(), Http2::default()).unwrap();
    let mut open = Vec::new();
    for _ in 0..MAX_STREAMS {
        open.push(open_watch(&client).await);
    }
    let binding = "/api/v1/namespaces/default/pods/a/binding";
    assert_eq!(ask(&client, binding).await, format!("HTTP/2.0 {binding} -"));
}

#[tokio::test]
async fn a_quiet_http2_connection_whose_server_is_there_stays() {
    let server = Server::start_with_tls(&["h2"]).await;
    let client = client(&server.config(), IMPATIENT).unwrap();
    let (_, mut rest) = open_watch(&client).await;
    // Many pings pass in this time. A connection whose first ping had no answer would end after 2.3 s.
    assert!(timeout(Duration::from_secs(5), rest.frame()).await.is_err());
}

/// The kernel probes connections over HTTP/1.1. A timer of kind 2 keeps a connection alive (`/proc/net/tcp`).
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_keeps_connections_alive() {
    let server = Server::start().await;
    let client = client(&server.config(), Http2::default()).unwrap();
    let _watch = open_watch(&client).await;
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let remote = format!("0100007F:{:04X}", server.address.port());
    let timer = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(2) == Some(&remote.as_str())).then(|| (*fields.get(5).unwrap_or(&"")).to_owned())
    });
    let timer = timer.expect("the connection is in the table");
    assert!(timer.starts_with("02:"), "{timer}");
}

/// Acts as a proxy that requires a password. Returns the address to which the client wants to connect.
async fn connect_proxy<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
    // The base64 text is `user:pa@ss`.
    if !head.to_lowercase().contains(&"proxy-authorization: Basic dXNlcjpwYUBzcw==".to_lowercase()) {
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.ok()?;
        return None;
    }
    let mut there = TcpStream::connect(&target).await.ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let _ = copy_bidirectional(&mut stream, &mut there).await;
    Some(target)
}

#[tokio::test]
async fn proxies_lead_to_the_server() {
    let server = Server::start_with_tls(&["h2"]).await;
    let (acceptor, proxy_authority) = acceptor(&[]);
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (plain_address, tls_address) = (plain.local_addr().unwrap(), tls.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            tokio::spawn(connect_proxy(plain.accept().await.unwrap().0));
        }
    });
    tokio::spawn(async move {
        loop {
            let stream = acceptor.accept(tls.accept().await.unwrap().0).await.unwrap();
            tokio::spawn(connect_proxy(stream));
        }
    });
    let through = |proxy: String| {
        let mut config = server.config();
        config.root_cert.get_or_insert_default().push(proxy_authority.clone());
        config.proxy_url = Some(proxy.parse().unwrap());
        client(&config, Http2::default())
    };
    for proxy in [format!("http://user:pa%40ss@{plain_address}"), format!("https://user:pa%40ss@{tls_address}")] {
        assert_eq!(ask(&through(proxy).unwrap(), "/api").await, "HTTP/2.0 /api -");
    }
    let refused = through("socks5://user:secret@p:1080".to_owned()).err().map(|error| error.to_string());
    let expected = "unsupported scheme \"socks5\" of proxy \"p\": use http or https";
    assert_eq!(refused.as_deref(), Some(expected));
}
