//! Stored objects as a kind shows them: with type meta, in the group's own field names, in the form asked for.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::media::Form;
use crate::object::{Object, as_map};
use crate::status::append_warnings;
use crate::{events, table};

/// The object with type meta, as a value that can be changed.
pub(crate) fn value(kind: &Kind, stored: &Value) -> Value {
    let mut shown = if shows_events_v1(kind) { events::to_events_v1(stored) } else { stored.clone() };
    let members = as_map(&mut shown);
    members.insert("apiVersion".to_owned(), kind.api_version().into());
    members.insert("kind".to_owned(), kind.kind.as_str().into());
    shown
}

/// Appends the object as JSON text with type meta.
pub(crate) fn write_object(kind: &Kind, object: &Object, out: &mut Vec<u8>) {
    if shows_events_v1(kind) {
        out.extend_from_slice(value(kind, &object.value).to_string().as_bytes());
        return;
    }
    out.extend_from_slice(kind.type_meta_json().as_bytes());
    out.extend_from_slice(object.json.get(1..).unwrap_or_default());
}

/// Appends the object as an element of a list: built-in kinds leave the type meta out there.
pub(crate) fn write_item(kind: &Kind, object: &Object, out: &mut Vec<u8>) {
    if kind.is_custom() {
        write_object(kind, object, out);
    } else if shows_events_v1(kind) {
        out.extend_from_slice(events::to_events_v1(&object.value).to_string().as_bytes());
    } else {
        out.extend_from_slice(&object.json);
    }
}

/// Only the metadata of an object.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata"),
    })
}

/// The answer to a request for one object.
pub(crate) fn object_response(
    kind: &Kind,
    object: &Object,
    code: StatusCode,
    form: Form,
    include: table::Include,
    warnings: &[String],
) -> Response {
    let body = match form {
        Form::Table => {
            let metadata = json!({"resourceVersion": object.revision.to_string()});
            Bytes::from(table::render(kind, &[object], &metadata, include).to_string())
        }
        Form::Partial => Bytes::from(partial(&object.value).to_string()),
        Form::Json | Form::PartialList | Form::Discovery => {
            let mut out = Vec::with_capacity(object.json.len() + 64);
            write_object(kind, object, &mut out);
            Bytes::from(out)
        }
        Form::Yaml => return yaml_response(&value(kind, &object.value)),
    };
    with_warnings(json_response(code, body), warnings)
}

/// An answer of JSON text.
pub(crate) fn json_response(code: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer of YAML text.
pub(crate) fn yaml_response(value: &Value) -> Response {
    let text = serde_saphyr::to_string(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    response
}

/// A `Status` that reports success.
pub(crate) fn success(details: Map<String, Value>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if !details.is_empty() {
        status["details"] = Value::Object(details);
    }
    status
}

/// Adds `Warning` headers.
pub(crate) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    append_warnings(response.headers_mut(), warnings);
    response
}

fn shows_events_v1(kind: &Kind) -> bool {
    kind.is("events.k8s.io", "events")
}
