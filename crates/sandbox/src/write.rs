//! POST, PUT and PATCH of objects.
//!
//! A write reads the current version, computes the next one outside any lock, and commits it if nobody came between;
//! otherwise it starts over. That is also how the API server does it, so the outcomes under contention agree.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::Value;

use crate::api::{Api, Request, Target};
use crate::apply;
use crate::decode::{Decoded, decode};
use crate::kinds::Kind;
use crate::media::{self, BodyType, Form, negotiate};
use crate::object::{Object, metadata_mut, text};
use crate::patch::{Patch, patch_of};
use crate::query::WriteOptions;
use crate::status::{Answer, FieldError, StatusError};
use crate::store::{Collection, key};
use crate::{admission, crd, defaults, lifecycle, metadata, table, validation, view};

/// What a write has led to.
#[derive(Debug)]
pub(crate) struct Written {
    /// The object as it is now; for one that went away, its last state.
    pub(crate) object: Arc<Object>,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Whether the write brought the object into being.
    pub(crate) created: bool,
}

impl Written {
    fn response(&self, target: &Target, form: Form, include: table::Include) -> Response {
        let code = if self.created { StatusCode::CREATED } else { StatusCode::OK };
        view::object_response(&target.kind, &self.object, code, form, include, &self.warnings)
    }
}

/// Answers a POST to a collection.
pub(crate) fn create(api: &Api, target: &Target, request: &Request) -> Answer<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let include = table::Include::of(&request.query)?;
    let options = request.query.write_options("CreateOptions")?;
    let decoded = decode_body(kind, request, &options)?;
    let object = create_object(api, kind, &target.namespace, decoded.value, options.dry_run)
        .map_err(|error| error.with_warnings(&decoded.warnings))?;
    let written = Written { object, warnings: decoded.warnings, created: true };
    Ok(written.response(target, form, include))
}

/// Creates an object from a decoded body.
pub(crate) fn create_object(
    api: &Api,
    kind: &Kind,
    namespace: &str,
    mut value: Value,
    dry_run: bool,
) -> Answer<Arc<Object>> {
    metadata::prepare_create(kind, namespace, &mut value)?;
    admission::namespace_exists(api, kind, namespace, text(&value, "/metadata/name"))?;
    lifecycle::prepare_create(kind, &mut value);
    defaults::fill(kind, &mut value);
    admission::create(api, kind, namespace, &mut value)?;
    metadata::generate_name(&mut value);
    let errors = validation::create(kind, &value);
    let name = text(&value, "/metadata/name").to_owned();
    if !errors.is_empty() {
        return Err(StatusError::invalid(kind, &name, &errors));
    }
    crd::on_create(kind, &mut value);
    let collection = api.store.collection(&kind.collection());
    let key = key(namespace, &name);
    if dry_run {
        if collection.get(&key).is_some() {
            return Err(StatusError::already_exists(kind, &name));
        }
        return Ok(Arc::new(Object::new(value, api.store.revision())));
    }
    let object = collection.create(&key, value).ok_or_else(|| StatusError::already_exists(kind, &name))?;
    crd::on_change(api, kind, &object, false);
    Ok(object)
}

/// Answers a PUT of an object.
pub(crate) fn put(api: &Api, target: &Target, name: &str, request: &Request) -> Answer<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = request.query.write_options("UpdateOptions")?;
    let decoded = decode_body(kind, request, &options)?;
    metadata::check_put(kind, &target.namespace, name, &decoded.value)?;
    let precondition = text(&decoded.value, "/metadata/uid").to_owned();
    let written = update(api, target, name, options.dry_run, |current| {
        metadata::check_precondition(kind, name, &target.namespace, &precondition, &current.value)?;
        Ok(Decoded { value: decoded.value.clone(), warnings: decoded.warnings.clone() })
    })?;
    Ok(written.response(target, form, table::Include::of(&request.query)?))
}

/// Answers a PATCH of an object.
pub(crate) fn patch(api: &Api, target: &Target, name: &str, request: &Request) -> Answer<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = request.query.write_options("PatchOptions")?;
    let patch = patch_of(kind, request)?;
    let written = match &patch {
        Patch::Apply(configuration) => apply::apply(api, target, name, configuration, &options)?,
        other if options.force => {
            tracing::trace!(?other, "force without apply");
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(StatusError::invalid_options("PatchOptions", &[error]));
        }
        other => update(api, target, name, options.dry_run, |current| {
            other.apply_to(kind, &current.value, options.field_validation)
        })?,
    };
    Ok(written.response(target, form, table::Include::of(&request.query)?))
}

/// Changes an object with `change`, which may run several times when others write too.
pub(crate) fn update(
    api: &Api,
    target: &Target,
    name: &str,
    dry_run: bool,
    change: impl Fn(&Object) -> Answer<Decoded>,
) -> Answer<Written> {
    let kind = &target.kind;
    let collection = api.store.collection(&kind.collection());
    let key = key(&target.namespace, name);
    loop {
        let current = collection.get(&key).ok_or_else(|| StatusError::not_found(kind, name))?;
        let Decoded { value, warnings } = change(&current)?;
        let revision = text(&value, "/metadata/resourceVersion");
        if !revision.is_empty() && revision != current.revision.to_string() {
            return Err(StatusError::modified(kind, name));
        }
        let next = next_version(target, name, &current.value, value)?;
        if dry_run || next == current.value {
            let object = if dry_run { Arc::new(Object::new(next, current.revision)) } else { current };
            return Ok(Written { object, warnings, created: false });
        }
        if let Some(object) = commit(&collection, &key, &current, next) {
            crd::on_change(api, kind, &object, lifecycle::may_go(&object.value));
            return Ok(Written { object, warnings, created: false });
        }
    }
}

/// Computes what is stored when `value` is written over `current`.
fn next_version(target: &Target, name: &str, current: &Value, mut value: Value) -> Answer<Value> {
    let kind = &target.kind;
    let mut errors = metadata::prepare_update(kind, current, &mut value);
    lifecycle::prepare_update(kind, &target.subresource, current, &mut value);
    defaults::fill(kind, &mut value);
    errors.extend(validation::update(kind, &target.subresource, &value, current));
    if !errors.is_empty() {
        return Err(StatusError::invalid(kind, name, &errors));
    }
    lifecycle::bump_generation(kind, &target.subresource, current, &mut value);
    let revision = text(current, "/metadata/resourceVersion").into();
    metadata_mut(&mut value).insert("resourceVersion".to_owned(), revision);
    Ok(value)
}

/// Stores the next version, or removes the object if nothing holds it any more. Nothing when others were faster.
pub(crate) fn commit(collection: &Collection, key: &str, current: &Object, next: Value) -> Option<Arc<Object>> {
    if lifecycle::may_go(&next) {
        return collection.remove(key, current, next).ok();
    }
    collection.replace(key, current, next).ok()
}

/// Decodes the body of a create or an update.
fn decode_body(kind: &Kind, request: &Request, options: &WriteOptions) -> Answer<Decoded> {
    let body_type = media::body_type(&request.headers)?;
    let value = media::parse(kind, &request.body, body_type)?;
    let raw = (body_type == BodyType::Json).then_some(request.body.as_ref());
    decode(kind, value, raw, options.field_validation)
}
