//! Creates an object: metadata, admission, defaults and validation, then the store.

use std::sync::Arc;

use serde_json::Value;

use super::definitions;
use crate::fields::json::text;
use crate::kinds::Kind;
use crate::rules::{admission, defaults, lifecycle, metadata, validation};
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Object, key};

/// Creates an object from a decoded body. A dry run checks everything and stores nothing.
pub(crate) fn create_object(
    state: &ClusterState,
    kind: &Kind,
    namespace: &str,
    mut value: Value,
    dry_run: bool,
) -> ApiResult<Arc<Object>> {
    metadata::prepare_create(kind, namespace, &mut value)?;
    admission::namespace_exists(state, kind, namespace, text(&value, "/metadata/name"))?;
    lifecycle::prepare_create(kind, &mut value);
    defaults::fill(kind, &mut value);
    admission::create(state, kind, namespace, &mut value)?;
    metadata::generate_name(&mut value);
    let errors = validation::create(kind, &value);
    let name = text(&value, "/metadata/name").to_owned();
    if !errors.is_empty() {
        return Err(StatusError::invalid(kind, &name, &errors));
    }
    definitions::establish(kind, &mut value);
    let collection = state.collection_of(kind);
    let key = key(namespace, &name);
    if dry_run {
        if collection.get(&key).is_some() {
            return Err(StatusError::already_exists(kind, &name));
        }
        return Ok(Arc::new(Object::new(value, state.version())));
    }
    let object = collection.create(&key, value).ok_or_else(|| StatusError::already_exists(kind, &name))?;
    definitions::serve_kinds(state, kind, &object);
    Ok(object)
}
