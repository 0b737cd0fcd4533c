//! `berth page`: the page of the scheduler on this machine, for one user's browser.
//!
//! The scheduler serves the page on its admin socket, which browsers cannot open. This command listens on loopback and
//! passes requests on to the socket. Any user of the machine can reach a loopback address, so a request needs a secret:
//! the printed address has the secret, and the browser keeps the secret in a cookie.

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Redirect, Response},
};
use berth_plugin_cli::{block_on, unless_empty};
use berth_serving::{admin_socket::default_path, endpoints::serve_on, secure_serving::PAGE};
use berth_telemetry::chain;
use clap::Args;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixStream};

const AFTER_HELP: &str = "\
Open the printed address in a browser on this machine. The address has a secret, which the browser exchanges for a cookie; do not
pass the address on. The page is available until this command ends.

The command needs a scheduler of this user on this machine, or in this container. For a scheduler in a cluster forward a port and open
https://localhost:10259/page with a token:

  kubectl -n kube-system port-forward deployment/berth 10259

Examples:
  berth page
  berth page --port 8080 --socket /run/berth/admin.sock";

/// The cookie's name. Cookies do not tell ports apart, so the port is part of the name.
const COOKIE: &str = "berth-page";

/// The forms of the page that change something or ask a question, and the maximum size of a form in bytes.
const FORMS: [&str; 2] = ["/page/order", "/page/what-if"];
const MAX_FORM: usize = 3 << 20;

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Page {
    /// The scheduler's --admin-socket [default: the socket of this user's scheduler]
    #[arg(long, env = unless_empty("BERTH_ADMIN_SOCKET"), value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Loopback port to listen on; 0 picks a free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
}

/// The access to one scheduler's page.
struct Gateway {
    socket: PathBuf,
    address: SocketAddr,
    /// 32 random bytes in hex.
    secret: String,
}

pub(crate) fn run(page: Page) -> Result<()> {
    let socket = page.socket.unwrap_or_else(default_path);
    block_on(async {
        // A wrong path is an error of the command and not of the first request.
        UnixStream::connect(&socket).await.with_context(|| {
            format!(
                "no scheduler answers at {}: is one running? --socket PATH names its --admin-socket",
                socket.display()
            )
        })?;
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, page.port));
        let listener =
            TcpListener::bind(wanted).await.with_context(|| format!("--port {}: cannot be used", page.port))?;
        let address = listener.local_addr()?;
        let gateway = Arc::new(Gateway { socket, address, secret: secret()? });
        writeln!(io::stdout(), "http://{address}/?secret={}", gateway.secret)?;
        serve_on(listener, Router::new().fallback(answer).with_state(gateway)).await;
        Ok(())
    })
}

fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("cannot generate the page's secret")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn answer(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let refused = |status: StatusCode, text: &'static str| (status, text).into_response();
    if !gateway.is_asked_by_its_address(request.headers()) {
        return refused(StatusCode::FORBIDDEN, "open the address that `berth page` printed\n");
    }
    if request.uri().path() == "/" {
        return gateway.sign_in(request.uri().query().unwrap_or_default());
    }
    if !gateway.is_signed_in(request.headers()) {
        return refused(StatusCode::FORBIDDEN, "open the address that `berth page` printed\n");
    }
    let path = request.uri().path();
    if path != PAGE && path.strip_prefix(PAGE).is_none_or(|rest| !rest.starts_with('/')) {
        return refused(StatusCode::NOT_FOUND, "only /page is here\n");
    }
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    if !is_read && (request.method() != Method::POST || !FORMS.contains(&path)) {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "this path has no form\n");
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_FORM).await else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the form is larger than 3 MiB\n");
    };
    gateway.pass_on(to_scheduler(&parts, body)).await.unwrap_or_else(|error| {
        let text = format!("no scheduler answers at {}: {}\n", gateway.socket.display(), chain(&*error));
        (StatusCode::BAD_GATEWAY, text).into_response()
    })
}

impl Gateway {
    /// Whether the request names this address as its host, and no other site sent the request. Otherwise, a page of
    /// another site could send requests to this page.
    fn is_asked_by_its_address(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (own, local) = (self.address.to_string(), format!("localhost:{}", self.address.port()));
        let is_own = text("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
        is_own && text("host").is_some_and(|host| host == own || host == local)
    }

    /// Exchanges the secret in the address for a cookie, so that the secret does not stay in the address.
    fn sign_in(&self, query: &str) -> Response {
        let given = query.split('&').find_map(|parameter| parameter.strip_prefix("secret=")).unwrap_or_default();
        if !self.is_secret(given) {
            return (StatusCode::FORBIDDEN, "open the address that `berth page` printed\n").into_response();
        }
        let cookie = format!("{COOKIE}-{}={given}; Path=/; HttpOnly; SameSite=Strict", self.address.port());
        ([(header::SET_COOKIE, cookie)], Redirect::to(PAGE)).into_response()
    }

    fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let name = format!("{COOKIE}-{}=", self.address.port());
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|cookies| cookies.split("; "))
            .any(|cookie| cookie.strip_prefix(&name).is_some_and(|given| self.is_secret(given)))
    }

    /// Compares in a time that does not depend on the place of the first difference.
    fn is_secret(&self, given: &str) -> bool {
        let differences = given.bytes().zip(self.secret.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        given.len() == self.secret.len() && differences == 0
    }

    /// Sends the request to the scheduler. Each part of the answer is passed on when it arrives, because a view is a
    /// stream of events.
    async fn pass_on(&self, request: Request) -> Result<Response> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection ends with the body of its only answer.
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(parts, Body::new(body)))
    }
}

/// The request with only the parts that the scheduler needs, without the cookie.
fn to_scheduler(parts: &Parts, body: Bytes) -> Request {
    let mut passed = Request::new(Body::from(body));
    *passed.method_mut() = parts.method.clone();
    *passed.uri_mut() = parts.uri.path_and_query().cloned().map_or_else(|| Uri::from_static(PAGE), Uri::from);
    passed.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    // The scheduler accepts a form only from the page itself. The browser confirms this in the last of these headers.
    for name in [header::ACCEPT, header::CONTENT_TYPE, HeaderName::from_static("sec-fetch-site")] {
        if let Some(value) = parts.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    passed
}
