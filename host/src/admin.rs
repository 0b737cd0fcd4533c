//! `/admin/plugins`: what plugins do, and how an operator gives orders about them. `/admin/settings`: whether the operator's
//! PluginHostConfiguration holds.
//!
//! On a loopback address everyone on the machine may; a browser may not, as it would ask on behalf of whatever page is
//! open. On any other address a caller needs a bearer token whose user may `get` or `update` `plugins` in the group
//! `berth.dev`: the API server is asked about both.

use std::net::{IpAddr, SocketAddr};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use berth_cluster::{AccessReviewer, Client, ResourceRequest};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::{
    failure::chain,
    plugin_supervisor::{Message, Order},
};

#[derive(Clone)]
enum Access {
    Loopback,
    Reviewed(AccessReviewer),
}

/// The routes, for a server on `address`.
pub(crate) fn routes(address: SocketAddr, supervisor: mpsc::Sender<Message>, client: &Client) -> Router {
    let is_loopback = address.ip().is_loopback();
    let access = if is_loopback { Access::Loopback } else { Access::Reviewed(AccessReviewer::new(client.clone())) };
    Router::new()
        .route("/admin/plugins", get(list))
        .route("/admin/settings", get(settings))
        .route("/admin/plugins/{name}/{order}", post(order))
        .layer(middleware::from_fn_with_state(access, check_access))
        .with_state(supervisor)
}

async fn list(State(supervisor): State<mpsc::Sender<Message>>) -> Response {
    let (answer, reports) = oneshot::channel();
    if supervisor.send(Message::List(answer)).await.is_err() {
        return stopping();
    }
    reports.await.map_or_else(|_| stopping(), |reports| Json(reports).into_response())
}

async fn settings(State(supervisor): State<mpsc::Sender<Message>>) -> Response {
    let (answer, settings) = oneshot::channel();
    if supervisor.send(Message::HostSettings(answer)).await.is_err() {
        return stopping();
    }
    settings.await.map_or_else(|_| stopping(), |settings| Json(settings).into_response())
}

async fn order(
    State(supervisor): State<mpsc::Sender<Message>>,
    Path((plugin, order)): Path<(String, String)>,
) -> Response {
    let order = match order.as_str() {
        "reload" => Order::Reload,
        "enable" => Order::Enable,
        "disable" => Order::Disable,
        "rollback" => Order::Rollback,
        other => {
            let text = format!("{other:?} is none of reload, enable, disable, rollback");
            return refuse(StatusCode::NOT_FOUND, &text);
        }
    };
    let (answer, outcome) = oneshot::channel();
    if supervisor.send(Message::Order { plugin, order, answer }).await.is_err() {
        return stopping();
    }
    match outcome.await {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(refusal)) if refusal.is_unknown_plugin() => refuse(StatusCode::NOT_FOUND, &refusal.to_string()),
        Ok(Err(refusal)) => refuse(StatusCode::CONFLICT, &refusal.to_string()),
        Err(_) => stopping(),
    }
}

async fn check_access(State(access): State<Access>, request: Request, next: Next) -> Response {
    let refusal = match &access {
        Access::Loopback => check_local(request.headers()).err(),
        Access::Reviewed(reviewer) => {
            let verb = if request.method() == Method::GET { "get" } else { "update" };
            let name = plugin_in(request.uri().path()).map(str::to_owned);
            let token = bearer(request.headers()).map(str::to_owned);
            review(reviewer, token.as_deref(), verb, name.as_deref()).await.err()
        }
    };
    match refusal {
        None => next.run(request).await,
        Some(response) => response,
    }
}

/// A browser sends `Origin` along, or was led here by a name that points to this machine.
#[expect(clippy::result_large_err, reason = "the answer to a request, made once")]
fn check_local(headers: &HeaderMap) -> Result<(), Response> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if headers.contains_key(header::ORIGIN) || !is_this_machine(host) {
        return Err(refuse(StatusCode::FORBIDDEN, "this address is not for browsers"));
    }
    Ok(())
}

/// Whether a `Host` header names a loopback address as such.
fn is_this_machine(host: &str) -> bool {
    let name = match host.parse::<SocketAddr>() {
        Ok(address) => return address.ip().is_loopback(),
        Err(_) => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn review(
    reviewer: &AccessReviewer,
    token: Option<&str>,
    verb: &str,
    name: Option<&str>,
) -> Result<(), Response> {
    let Some(token) = token else {
        return Err(refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed"));
    };
    let failed = |error: &dyn std::error::Error| {
        warn!(error = chain(error), "the API server does not say who may steer plugins");
        refuse(StatusCode::SERVICE_UNAVAILABLE, "the API server could not be asked about the token")
    };
    let user = reviewer.authenticate(token).await.map_err(|error| failed(&error))?;
    let Some(user) = user else { return Err(refuse(StatusCode::UNAUTHORIZED, "the token is not valid")) };
    let request = ResourceRequest { group: "berth.dev", resource: "plugins", verb, name };
    if reviewer.may(&user, &request).await.map_err(|error| failed(&error))? {
        return Ok(());
    }
    let text = format!("user {:?} may not {verb} plugins in the group berth.dev", user.name());
    Err(refuse(StatusCode::FORBIDDEN, &text))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The plugin that a path is about, if it is about one.
fn plugin_in(path: &str) -> Option<&str> {
    path.strip_prefix("/admin/plugins/")?.split('/').next().filter(|name| !name.is_empty())
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

fn stopping() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the scheduler is stopping")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_this_machine() {
        for host in ["127.0.0.1:8080", "127.0.0.1", "localhost:1", "localhost", "[::1]:9", "127.0.0.9:1"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "evil.example:8080", "10.0.0.1:80", "localhost.evil.example", "127.0.0.1.evil.example:1"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn paths_name_plugins() {
        assert_eq!(plugin_in("/admin/plugins/NodeName/reload"), Some("NodeName"));
        assert_eq!(plugin_in("/admin/plugins"), None);
    }
}
