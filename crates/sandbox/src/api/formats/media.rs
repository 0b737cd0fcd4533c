//! Media types: the formats that a client accepts, and the format of a body.

use http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;
use crate::kinds::Kind;
use crate::status::{ApiResult, StatusError};

const REPRESENTATIONS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object itself.
    Json,
    /// The object itself as YAML.
    Yaml,
    /// Columns and rows for the command line.
    Table,
    /// Only the metadata.
    Partial,
    /// A list of metadata.
    PartialList,
    /// Aggregated discovery.
    Discovery,
}

/// The media type of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyType {
    /// JSON, which is also used if the request has no content type.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf. `protobuf` reads only some messages.
    Protobuf,
}

/// The first form in the `Accept` header that this answer supports; JSON without the header. `offered` are the
/// transformations that this answer supports.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &[Form], streams: bool) -> ApiResult<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(Form::Json);
    }
    let mut transformation_refused = false;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameter = |name: &str| {
            range
                .split(';')
                .filter_map(|part| part.trim().split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        match (media, parameter("as")) {
            ("application/json", Some(wanted)) => {
                let form = transformation(wanted, parameter("g"), parameter("v"));
                match form.filter(|form| offered.contains(form)) {
                    Some(form) => return Ok(form),
                    None => transformation_refused = true,
                }
            }
            ("application/json" | "*/*" | "application/*", None) => return Ok(Form::Json),
            ("application/yaml", None) => return Ok(Form::Yaml),
            _ => {}
        }
    }
    Err(refusal(transformation_refused || offered.contains(&Form::Discovery), streams))
}

fn refusal(transformation: bool, streams: bool) -> StatusError {
    if transformation {
        return StatusError::not_acceptable(format!("only the following media types are accepted: {REPRESENTATIONS}"));
    }
    let streamed = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let streamed = if streams { streamed } else { "" };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {REPRESENTATIONS}{streamed}");
    StatusError::not_acceptable(message)
}

fn transformation(wanted: &str, group: Option<&str>, version: Option<&str>) -> Option<Form> {
    match (wanted, group, version) {
        ("Table", Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::Table),
        ("PartialObjectMetadata", Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::Partial),
        ("PartialObjectMetadataList", Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::PartialList),
        ("APIGroupDiscoveryList", Some("apidiscovery.k8s.io"), Some("v2")) => Some(Form::Discovery),
        _ => None,
    }
}

/// The media type of the request body without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// The format of the body of a create or an update.
pub(crate) fn body_type(headers: &HeaderMap) -> ApiResult<BodyType> {
    match content_type(headers) {
        "" | "application/json" => Ok(BodyType::Json),
        "application/yaml" => Ok(BodyType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyType::Protobuf),
        _ => Err(StatusError::unknown_format(REPRESENTATIONS)),
    }
}

/// Parses a body that should contain an object of `kind`.
pub(crate) fn parse(kind: &Kind, body: &[u8], body_type: BodyType) -> ApiResult<Value> {
    let unrecognized = |why: &str| {
        let text = if body.is_empty() { "<empty>".into() } else { String::from_utf8_lossy(body) };
        let wanted = &kind.kind;
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {wanted}): couldn't get version/kind; json parse error: {why} ({text})"
        ))
    };
    let value: Value = match body_type {
        BodyType::Protobuf => {
            protobuf::decode(body).ok_or_else(|| StatusError::unknown_format("application/json, application/yaml"))?
        }
        BodyType::Json => serde_json::from_slice(body).map_err(|error| unrecognized(&json_error(&error)))?,
        BodyType::Yaml => serde_saphyr::from_slice(body)
            .map_err(|error| StatusError::bad_request(format!("error converting YAML to JSON: {error}")))?,
    };
    if value.is_object() { Ok(value) } else { Err(unrecognized("cannot unmarshal into an object")) }
}

/// The message of a JSON error, in the words of the API server if it has words for the error.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}
