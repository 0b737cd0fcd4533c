//! Failures in the form of the Kubernetes API: a `Status` object with a code, a reason and details.
//!
//! Clients depend on `reason` and people read `message`, so both follow the answers of a real API server.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::fields::FieldError;
use crate::kinds::Kind;
use crate::storage::ResourceVersion;

/// The result of everything that serves a request or stores an object.
pub(crate) type ApiResult<T> = Result<T, StatusError>;

/// A failed request.
#[derive(Debug)]
pub(crate) struct StatusError(Box<StatusFields>);

#[derive(Debug)]
struct StatusFields {
    code: StatusCode,
    reason: &'static str,
    message: String,
    metadata: Value,
    details: Map<String, Value>,
    retry_after: Option<u64>,
    warnings: Vec<String>,
}

impl StatusError {
    /// A failure without details.
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(StatusFields {
            code,
            reason,
            message: message.into(),
            metadata: json!({}),
            details: Map::new(),
            retry_after: None,
            warnings: Vec::new(),
        }))
    }

    /// 400 `BadRequest`.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 500 without a reason, for errors that the API server doesn't classify.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 404 for a path that does not exist inside a known group version.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    /// 405 for a verb that the resource doesn't support.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 415 with the accepted media types.
    pub(crate) fn unknown_format(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 406 with the media types that can be answered.
    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 404 for an object.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified_resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(kind, name, &kind.plural)
    }

    /// 409 `AlreadyExists`.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified_resource());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(kind, name, &kind.plural)
    }

    /// 409 `Conflict` for an object, with the reason.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::conflict_on(kind, &kind.plural, name, why)
    }

    /// 409 `Conflict` for a subresource such as `pods/binding`.
    pub(crate) fn conflict_on(kind: &Kind, resource: &str, name: &str, why: &str) -> Self {
        let qualified = kind.qualify(resource);
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name, resource)
    }

    /// 409 because another writer has changed the object since the caller read it.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// 403 because of an admission rule.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified_resource());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(kind, name, &kind.plural)
    }

    /// 422 with one cause for each field.
    pub(crate) fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        // Events of both groups are checked as one type, which belongs to core.
        let group = if kind.plural == "events" { "" } else { &kind.group };
        Self::invalid_named(&kind.kind, group, name, errors)
    }

    /// 422 for something other than one of the kinds, such as the options of a request.
    pub(crate) fn invalid_named(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} \"{name}\" is invalid: {list}");
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        for (key, text) in [("name", name), ("group", group), ("kind", kind)] {
            error = error.detail(key, text);
        }
        error.0.details.insert("causes".to_owned(), errors.iter().map(FieldError::cause).collect());
        error
    }

    /// 422 for the options of a request, such as `ListOptions`.
    pub(crate) fn invalid_options(options: &str, errors: &[FieldError]) -> Self {
        Self::invalid_named(options, "meta.k8s.io", "", errors)
    }

    /// 410 for a revision that the history no longer contains.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 504 for a revision that doesn't exist yet.
    pub(crate) fn too_large_version(wanted: ResourceVersion, current: ResourceVersion) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        error.0.details.insert("causes".to_owned(), cause);
        error.retry_after(1)
    }

    /// Adds a cause. Admission and eviction explain their refusals in this way.
    pub(crate) fn cause(mut self, reason: &str, message: &str, field: Option<&str>) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if let Some(field) = field {
            cause["field"] = field.into();
        }
        let causes = self.0.details.entry("causes").or_insert_with(|| json!([]));
        if let Some(causes) = causes.as_array_mut() {
            causes.push(cause);
        }
        self
    }

    /// Says when the client should try again, in the header and the details.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self.0.retry_after = Some(seconds);
        self
    }

    /// Adds list metadata. A new token replaces an expired `continue` token there.
    pub(crate) fn with_metadata(mut self, metadata: Value) -> Self {
        self.0.metadata = metadata;
        self
    }

    /// Adds `Warning` headers that were collected before the failure.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.0.warnings.extend_from_slice(warnings);
        self
    }

    /// The HTTP status.
    pub(crate) fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The seconds after which the client may try again; `None` if a retry is pointless.
    pub(crate) fn seconds_to_retry(&self) -> Option<u64> {
        self.0.retry_after
    }

    /// Texts for `Warning` headers.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The `Status` object, which also appears in an `ERROR` event of a watch.
    pub(crate) fn to_status(&self) -> Value {
        let failure = &self.0;
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": failure.metadata,
            "status": "Failure",
            "message": failure.message,
            "code": failure.code.as_u16(),
        });
        if !failure.reason.is_empty() {
            status["reason"] = failure.reason.into();
        }
        if !failure.details.is_empty() {
            status["details"] = Value::Object(failure.details.clone());
        }
        status
    }

    fn about(self, kind: &Kind, name: &str, resource: &str) -> Self {
        self.detail("name", name).detail("group", &kind.group).detail("kind", resource)
    }

    fn detail(mut self, key: &str, text: &str) -> Self {
        if !text.is_empty() {
            self.0.details.insert(key.to_owned(), text.into());
        }
        self
    }
}
