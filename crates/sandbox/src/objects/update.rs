//! Changes an object.
//!
//! A write reads the current version, computes the next version outside any lock, and commits this version if no other
//! write came first. Otherwise the write starts again. The API server works in the same way, so the results under
//! contention agree.

use std::sync::Arc;

use serde_json::Value;

use super::decode::Decoded;
use super::definitions;
use crate::fields::json::{metadata_mut, text};
use crate::kinds::Kind;
use crate::rules::{defaults, lifecycle, metadata, validation};
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Collection, Object, key};

/// The object to update.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpdateTarget<'a> {
    /// The kind.
    pub(crate) kind: &'a Kind,
    /// The namespace; empty for cluster-scoped kinds.
    pub(crate) namespace: &'a str,
    /// The object's name.
    pub(crate) name: &'a str,
    /// The subresource; empty for the object itself. The subresource decides which fields may change.
    pub(crate) subresource: &'a str,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// The current object, or the last state of a removed object.
    pub(crate) object: Arc<Object>,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Whether the write created the object.
    pub(crate) created: bool,
}

/// Changes an object with `change`, which may run several times if other clients also write the object.
pub(crate) fn update(
    state: &ClusterState,
    target: UpdateTarget<'_>,
    dry_run: bool,
    change: impl Fn(&Object) -> ApiResult<Decoded>,
) -> ApiResult<Written> {
    let UpdateTarget { kind, namespace, name, .. } = target;
    let collection = state.collection_of(kind);
    let key = key(namespace, name);
    loop {
        let current = collection.get(&key).ok_or_else(|| StatusError::not_found(kind, name))?;
        let Decoded { value, warnings } = change(&current)?;
        let version = text(&value, "/metadata/resourceVersion");
        if !version.is_empty() && version != current.version.to_string() {
            return Err(StatusError::modified(kind, name));
        }
        let next = next_state(target, &current.value, value)?;
        if dry_run || next == current.value {
            let object = if dry_run { Arc::new(Object::new(next, current.version)) } else { current };
            return Ok(Written { object, warnings, created: false });
        }
        if let Some(object) = commit(&collection, &key, &current, next) {
            if lifecycle::is_removable(&object.value) {
                definitions::withdraw_kinds(state, kind, &object);
            } else {
                definitions::serve_kinds(state, kind, &object);
            }
            return Ok(Written { object, warnings, created: false });
        }
    }
}

/// Edits an object without the rules for requests. The edit is repeated if other clients write the object at the same
/// time. An edit that changes nothing writes nothing.
pub(crate) fn edit(collection: &Collection, key: &str, edit: impl Fn(&mut Value)) {
    while let Some(current) = collection.get(key) {
        let mut next = current.value.clone();
        edit(&mut next);
        if next == current.value || commit(collection, key, &current, next).is_some() {
            return;
        }
    }
}

/// Computes the stored value when `value` is written over `current`.
fn next_state(target: UpdateTarget<'_>, current: &Value, mut value: Value) -> ApiResult<Value> {
    let UpdateTarget { kind, name, subresource, .. } = target;
    let mut errors = metadata::prepare_update(kind, current, &mut value);
    lifecycle::prepare_update(kind, subresource, current, &mut value);
    defaults::fill(kind, &mut value);
    errors.extend(validation::update(kind, subresource, &value, current));
    if !errors.is_empty() {
        return Err(StatusError::invalid(kind, name, &errors));
    }
    lifecycle::update_generation(kind, subresource, current, &mut value);
    let version = text(current, "/metadata/resourceVersion").into();
    metadata_mut(&mut value).insert("resourceVersion".to_owned(), version);
    Ok(value)
}

/// Stores the next state, or removes an object that is being deleted if nothing prevents the removal. Returns `None` if
/// another write came first.
fn commit(collection: &Collection, key: &str, current: &Object, next: Value) -> Option<Arc<Object>> {
    if lifecycle::is_removable(&next) {
        return collection.remove(key, current, next).ok();
    }
    collection.replace(key, current, next).ok()
}
