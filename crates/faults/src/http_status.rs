//! Refusals with the status and text that an API server would send.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::request_info::RequestInfo;

/// The refusal of a request by a rule.
pub(crate) fn refusal(request: &RequestInfo, code: u16, retry_after_seconds: Option<u32>) -> Response {
    let retry_after = retry_after_seconds.or((code == 429).then_some(1));
    let mut response = match (code, request.verb) {
        (429, _) => plain_text("Too many requests, please try again later.\n"),
        // The API server checks the version only after the watch is open.
        (410, "watch") => return expired_watch(),
        _ => json_response(&status(code, &message(request, code))),
    };
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A `Status` object that reports a failure.
pub(crate) fn status(code: u16, message: &str) -> Value {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

/// An answer of JSON text.
pub(crate) fn json_response(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn message(request: &RequestInfo, code: u16) -> String {
    match code {
        409 => format!(
            "Operation cannot be fulfilled on {}: a fault rule of this server causes this error",
            request.resource
        ),
        410 => "too old resource version: a fault rule of this server causes this error".to_owned(),
        _ => format!("a fault rule of this server refuses to {} {}", request.verb, request.resource),
    }
}

fn expired_watch() -> Response {
    let event = json!({"type": "ERROR", "object": status(410, "too old resource version: a fault rule of this server \
                        causes this error")});
    let mut response = json_response(&Value::Null);
    *response.body_mut() = Body::from(format!("{event}\n"));
    response
}

fn plain_text(text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
