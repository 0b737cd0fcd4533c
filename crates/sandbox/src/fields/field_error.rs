//! A mistake in one field of an object, in the API server's words.

use std::fmt;

use serde_json::{Value, json};

/// A mistake in one field of an object.
#[derive(Debug, Clone)]
pub(crate) struct FieldError {
    reason: &'static str,
    field: String,
    message: String,
}

impl FieldError {
    /// The field is missing; `detail` may be empty.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// The field has a value that breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// The field has a value of another type.
    pub(crate) fn wrong_type(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self { reason: "FieldValueTypeInvalid", field: field.into(), message }
    }

    /// The field isn't one of the `supported` values.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
    }

    /// The field may not be set or changed.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {detail}") }
    }

    /// The value repeats another element of its list.
    pub(crate) fn duplicate(field: impl Into<String>, value: &str) -> Self {
        Self { reason: "FieldValueDuplicate", field: field.into(), message: format!("Duplicate value: {value}") }
    }

    /// Whether the error is about a repeated element.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.reason == "FieldValueDuplicate"
    }

    /// The entry of the field in `details.causes` of a `Status`.
    pub(crate) fn cause(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}
