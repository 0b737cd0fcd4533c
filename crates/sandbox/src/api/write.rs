//! POST, PUT and PATCH of objects.

use axum::response::Response;
use http::StatusCode;

use super::context::Api;
use super::formats::media;
use super::formats::media::{BodyType, Form, negotiate};
use super::formats::table::Include;
use super::patch::{Patch, apply, patch_of};
use super::query::WriteOptions;
use super::request::{Request, Target};
use super::responses;
use crate::fields::FieldError;
use crate::fields::json::text;
use crate::kinds::Kind;
use crate::objects::create::create_object;
use crate::objects::decode::{Decoded, decode};
use crate::objects::update::{Written, update};
use crate::rules::metadata;
use crate::status::{ApiResult, StatusError};

/// The response with the object as it was written.
fn response(target: &Target, written: &Written, form: Form, include: Include) -> Response {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    responses::object_response(&target.kind, &written.object, code, form, include, &written.warnings)
}

/// Answers a POST to a collection.
pub(crate) fn create(api: &Api, target: &Target, request: &Request) -> ApiResult<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let include = request.query.table_include()?;
    let options = request.query.write_options("CreateOptions")?;
    let decoded = decode_body(kind, request, &options)?;
    let object = create_object(&api.state, kind, &target.namespace, decoded.value, options.dry_run)
        .map_err(|error| error.with_warnings(&decoded.warnings))?;
    let written = Written { object, warnings: decoded.warnings, created: true };
    Ok(response(target, &written, form, include))
}

/// Answers a PUT of an object.
pub(crate) fn put(api: &Api, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = request.query.write_options("UpdateOptions")?;
    let decoded = decode_body(kind, request, &options)?;
    metadata::check_put(kind, &target.namespace, name, &decoded.value)?;
    let precondition = text(&decoded.value, "/metadata/uid").to_owned();
    let written = update(&api.state, target.update(name), options.dry_run, |current| {
        metadata::check_precondition(kind, name, &target.namespace, &precondition, &current.value)?;
        Ok(Decoded { value: decoded.value.clone(), warnings: decoded.warnings.clone() })
    })?;
    Ok(response(target, &written, form, request.query.table_include()?))
}

/// Answers a PATCH of an object.
pub(crate) fn patch(api: &Api, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = request.query.write_options("PatchOptions")?;
    let patch = patch_of(kind, request)?;
    let written = match &patch {
        Patch::Apply(configuration) => {
            apply::apply(&api.state, &api.applied, target.update(name), configuration, &options)?
        }
        other if options.force => {
            tracing::trace!(?other, "force without apply");
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(StatusError::invalid_options("PatchOptions", &[error]));
        }
        other => update(&api.state, target.update(name), options.dry_run, |current| {
            other.apply_to(kind, &current.value, options.field_validation)
        })?,
    };
    Ok(response(target, &written, form, request.query.table_include()?))
}

/// Decodes the body of a create or an update.
fn decode_body(kind: &Kind, request: &Request, options: &WriteOptions) -> ApiResult<Decoded> {
    let body_type = media::body_type(&request.headers)?;
    let value = media::parse(kind, &request.body, body_type)?;
    let raw = (body_type == BodyType::Json).then_some(request.body.as_ref());
    decode(kind, value, raw, options.field_validation)
}
