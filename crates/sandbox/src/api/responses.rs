//! HTTP responses with a JSON, YAML or plain text body.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use super::formats::media::Form;
use super::formats::{table, view};
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::storage::Object;

/// The answer to a request for one object.
pub(super) fn object_response(
    kind: &Kind,
    object: &Object,
    code: StatusCode,
    form: Form,
    include: table::Include,
    warnings: &[String],
) -> Response {
    let body = match form {
        Form::Table => {
            let metadata = json!({"resourceVersion": object.version.to_string()});
            Bytes::from(table::render(kind, &[object], &metadata, include).to_string())
        }
        Form::Partial => Bytes::from(view::partial(&object.value).to_string()),
        Form::Json | Form::PartialList | Form::Discovery => {
            let mut out = Vec::with_capacity(object.json.len() + 64);
            view::write_object(kind, object, &mut out);
            Bytes::from(out)
        }
        Form::Yaml => return yaml_response(&view::value(kind, &object.value)),
    };
    add_warnings(json_response(code, body), warnings)
}

/// An answer of JSON text.
pub(super) fn json_response(code: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer of YAML text.
pub(super) fn yaml_response(value: &Value) -> Response {
    let text = serde_saphyr::to_string(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    response
}

/// A `Status` that reports success.
pub(super) fn success(details: Map<String, Value>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if !details.is_empty() {
        status["details"] = Value::Object(details);
    }
    status
}

/// The plain answer to paths outside the API.
pub(super) fn page_not_found() -> Response {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

impl IntoResponse for StatusError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_status().to_string()));
        *response.status_mut() = self.code();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.seconds_to_retry() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        add_warnings(response, self.warnings())
    }
}

/// Adds a `Warning` header for each text, in the form that kubectl prints.
fn add_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let quoted = Value::from(warning.as_str()).to_string();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
