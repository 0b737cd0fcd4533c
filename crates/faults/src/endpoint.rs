//! The endpoint `/faults`: GET lists the rules, POST adds some, DELETE removes one or all.

use axum::body::Body;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::json;

use crate::{
    engine::Faults,
    http_status::{json_response, status},
    rule::{RuleError, read_rules},
};

/// The size of the largest body that is accepted, in bytes.
const BODY_LIMIT: usize = 1024 * 1024;

/// The text after the endpoint's path, if the request is for the endpoint: nothing, or the name of a rule.
pub(crate) fn rule_name(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/faults")?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// Answers a request to the endpoint.
pub(crate) async fn answer(faults: &Faults, method: &Method, name: &str, body: Body) -> Response {
    match (method.as_str(), name) {
        ("GET", "") => json_response(&faults.to_json()),
        ("POST", "") => match axum::body::to_bytes(body, BODY_LIMIT).await {
            Ok(bytes) => add(faults, &String::from_utf8_lossy(&bytes)),
            Err(_) => refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("the limit is {BODY_LIMIT} bytes")),
        },
        ("DELETE", "") => {
            faults.clear();
            json_response(&faults.to_json())
        }
        ("DELETE", name) if faults.remove(name) => json_response(&faults.to_json()),
        ("DELETE", name) => {
            refuse(StatusCode::NOT_FOUND, &format!("fault rule `{name}` not found: GET /faults lists all rules"))
        }
        _ => refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "use GET /faults, POST /faults, DELETE /faults/NAME or, for all rules, DELETE /faults",
        ),
    }
}

fn add(faults: &Faults, text: &str) -> Response {
    match read_rules(text).and_then(|rules| faults.add(rules)) {
        Ok(names) => {
            let mut response = json_response(&json!({"added": names}));
            *response.status_mut() = StatusCode::CREATED;
            response
        }
        Err(error @ RuleError::NameTaken(_)) => refuse(StatusCode::CONFLICT, &error.to_string()),
        Err(error @ (RuleError::Syntax(_) | RuleError::Field { .. })) => {
            refuse(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string())
        }
    }
}

fn refuse(code: StatusCode, message: &str) -> Response {
    let mut response = json_response(&status(code.as_u16(), message));
    *response.status_mut() = code;
    response
}
