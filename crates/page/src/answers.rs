//! Answers over HTTP with a document, and the status codes of refusals.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::Markup;

use crate::{SourceError, viewer::Refusal};

/// An answer with a whole document.
pub(crate) fn html(status: StatusCode, document: &Markup) -> Response {
    const HTML: &str = "text/html; charset=utf-8";
    (status, [(header::CONTENT_TYPE, HTML)], document.0.clone()).into_response()
}

pub(crate) fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Forbidden { .. } => StatusCode::FORBIDDEN,
        Refusal::Source(SourceError::NotFound(_)) => StatusCode::NOT_FOUND,
        Refusal::Source(SourceError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Source(SourceError::Refused(_)) | Refusal::Changed(_) => StatusCode::CONFLICT,
        Refusal::Address(_) => StatusCode::BAD_REQUEST,
    }
}
