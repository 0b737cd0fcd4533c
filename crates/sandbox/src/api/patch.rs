//! PATCH bodies: read from a request and applied to the current object.

pub(crate) mod apply;
mod strategic;

use serde_json::Value;

use super::formats::{media, view};
use super::request::Request;
use crate::fields::FieldError;
use crate::kinds::Kind;
use crate::objects::decode::{Decoded, FieldValidation, decode};
use crate::status::{ApiResult, StatusError};

/// A decoded PATCH body.
#[derive(Debug)]
pub(crate) enum Patch {
    /// `application/json-patch+json`.
    Json(json_patch::Patch),
    /// `application/merge-patch+json`.
    Merge(Value),
    /// `application/strategic-merge-patch+json`.
    Strategic(Value),
    /// `application/apply-patch+yaml`.
    Apply(Value),
}

/// Reads the body of a PATCH.
pub(crate) fn patch_of(kind: &Kind, request: &Request) -> ApiResult<Patch> {
    let body = request.body.as_ref();
    match media::content_type(&request.headers) {
        "application/json-patch+json" => json_patch_of(body).map(Patch::Json),
        "application/merge-patch+json" => object_of(body).map(Patch::Merge),
        "application/strategic-merge-patch+json" if !kind.is_custom() => object_of(body).map(Patch::Strategic),
        "application/apply-patch+yaml" => {
            let configuration: Value = serde_saphyr::from_slice(body)
                .map_err(|error| StatusError::bad_request(format!("error decoding YAML: {error}")))?;
            Ok(Patch::Apply(configuration))
        }
        _ if kind.is_custom() => Err(StatusError::unknown_format(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(StatusError::new(
            http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
        )),
    }
}

fn json_patch_of(body: &[u8]) -> ApiResult<json_patch::Patch> {
    let value: Value = serde_json::from_slice(body).map_err(|error| undecodable(&media::json_error(&error)))?;
    if !value.is_array() {
        return Err(undecodable("json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"));
    }
    serde_json::from_value(value).map_err(|error| undecodable(&error.to_string()))
}

fn object_of(body: &[u8]) -> ApiResult<Value> {
    let value: Value = serde_json::from_slice(body).map_err(|error| undecodable(&media::json_error(&error)))?;
    if value.is_object() { Ok(value) } else { Err(undecodable("json: cannot unmarshal into an object")) }
}

fn undecodable(why: &str) -> StatusError {
    StatusError::bad_request(format!("error decoding patch: {why}"))
}

impl Patch {
    /// Changes a JSON value of this kind. Fails if a JSON patch does not fit the value.
    pub(crate) fn apply_to_value(&self, kind: &Kind, value: &mut Value) -> Result<(), json_patch::PatchError> {
        match self {
            Self::Json(patch) => json_patch::patch(value, patch)?,
            Self::Merge(patch) => json_patch::merge(value, patch),
            Self::Strategic(patch) | Self::Apply(patch) => strategic::merge(kind, value, patch),
        }
        Ok(())
    }

    /// The result of patching `current`, a stored object.
    pub(crate) fn apply_to(&self, kind: &Kind, current: &Value, validation: FieldValidation) -> ApiResult<Decoded> {
        let mut value = view::value(kind, current);
        self.apply_to_value(kind, &mut value).map_err(|error| {
            tracing::debug!(%error, "JSON patch refused");
            let message = "the server rejected our request due to an error in our request";
            StatusError::new(http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        })?;
        if validation != FieldValidation::Strict {
            return decode(kind, value, None, validation);
        }
        let patched = value.to_string();
        let decoded = decode(kind, value, None, FieldValidation::Warn)?;
        if decoded.warnings.is_empty() {
            return Ok(decoded);
        }
        let why = format!("strict decoding error: {}", decoded.warnings.join(", "));
        let error = FieldError::invalid("patch", &patched.into(), &why);
        Err(StatusError::invalid_named("", "", "", &[error]))
    }
}
