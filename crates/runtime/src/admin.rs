//! `/admin/plugins`: the state of plugins, and an operator's orders about them. `/admin/settings`: whether the
//! operator's PluginHostConfiguration is in force.
//!
//! Both paths are served on the Unix socket (`admin/socket.rs`), where the file system controls access, and over HTTPS,
//! where `secure_serving` asks the API server. Plain HTTP refuses both paths, because other users of the same network
//! could read a token there. On loopback, these users include every pod with `hostNetwork`.

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use berth_plugin_host::{Message, Order};
use berth_serving::secure_serving::RequestUser;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

/// The user that is recorded for an order over the socket if the order names no user.
pub(crate) const LOCAL: &str = "local";

/// The routes. Any client that reaches these routes may give orders.
pub(crate) fn routes(supervisor: mpsc::Sender<Message>) -> Router {
    Router::new()
        .route("/admin/plugins", get(list))
        .route("/admin/settings", get(settings))
        .route("/admin/plugins/{name}/{order}", post(order))
        .with_state(supervisor)
}

/// The routes that refuse all orders.
pub(crate) fn refusing_routes() -> Router {
    Router::new().route("/admin/{*rest}", any(elsewhere))
}

async fn elsewhere() -> Response {
    let text = "plugins cannot be managed over plain HTTP: use the scheduler's Unix socket (berth plugin --socket) or \
                its HTTPS port";
    refuse(StatusCode::FORBIDDEN, text)
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
    operator: Option<Extension<RequestUser>>,
    Path((plugin, order)): Path<(String, String)>,
) -> Response {
    let user = operator.map_or_else(|| LOCAL.to_owned(), |Extension(user)| user.name().to_owned());
    let Some(order) = Order::ALL.into_iter().find(|known| known.as_str() == order) else {
        let text = format!("unknown order {order:?}: expected reload, enable, disable or rollback");
        return refuse(StatusCode::NOT_FOUND, &text);
    };
    let (answer, outcome) = oneshot::channel();
    if supervisor.send(Message::Order { plugin, order, user, answer }).await.is_err() {
        return stopping();
    }
    match outcome.await {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(refusal)) if refusal.is_unknown_plugin() => refuse(StatusCode::NOT_FOUND, &refusal.to_string()),
        Ok(Err(refusal)) => refuse(StatusCode::CONFLICT, &refusal.to_string()),
        Err(_) => stopping(),
    }
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

fn stopping() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the scheduler is stopping")
}

#[cfg(test)]
mod fuzz;
