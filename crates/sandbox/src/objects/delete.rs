//! Deletes an object: grace periods, finalizers, preconditions.

use std::sync::Arc;

use serde_json::Value;

use super::definitions;
use crate::fields::clock;
use crate::fields::json::{child_mut, is_being_deleted, metadata_mut, text};
use crate::fields::pods::is_finished;
use crate::kinds::Kind;
use crate::rules::lifecycle;
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Object, key};

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// The grace period in seconds, if the client chose one.
    pub(crate) grace: Option<i64>,
    /// The uid that the object must have; empty for any.
    pub(crate) uid: String,
    /// The resource version that the object must have; empty for any.
    pub(crate) version: String,
    /// Whether everything is checked but nothing deleted.
    pub(crate) dry_run: bool,
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object was removed. This was its last state.
    Gone(Arc<Object>),
    /// The object waits for a grace period or for finalizers.
    Pending(Arc<Object>),
}

impl DeleteOptions {
    /// Reads the options from a `DeleteOptions` object.
    pub(crate) fn from_body(body: &Value) -> Self {
        Self {
            grace: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text(body, "/preconditions/uid").to_owned(),
            version: text(body, "/preconditions/resourceVersion").to_owned(),
            dry_run: false,
        }
    }
}

/// Deletes an object. If the object must wait for a grace period or finalizers, marks the object for deletion instead.
pub(crate) fn delete(
    state: &ClusterState,
    kind: &Kind,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> ApiResult<Deletion> {
    let collection = state.collection_of(kind);
    let key = key(namespace, name);
    loop {
        let current = collection.get(&key).ok_or_else(|| StatusError::not_found(kind, name))?;
        check_preconditions(kind, name, options, &current)?;
        let Some(next) = marked(kind, &current.value, options) else { return Ok(Deletion::Pending(current)) };
        let is_removed = lifecycle::is_removable(&next);
        if options.dry_run {
            let object = Arc::new(Object::new(next, current.version));
            return Ok(if is_removed { Deletion::Gone(object) } else { Deletion::Pending(object) });
        }
        if !is_removed {
            let Ok(object) = collection.replace(&key, &current, next) else { continue };
            definitions::serve_kinds(state, kind, &object);
            return Ok(Deletion::Pending(object));
        }
        // A pod is marked before it is removed, so that watchers see both steps.
        let removed = if kind.is("", "pods") {
            collection.replace_and_remove(&key, &current, next)
        } else {
            collection.remove(&key, &current, current.value.clone())
        };
        let Ok(object) = removed else { continue };
        definitions::withdraw_kinds(state, kind, &object);
        return Ok(Deletion::Gone(object));
    }
}

/// The object marked for deletion; `None` if the mark exists already and nothing changes.
fn marked(kind: &Kind, current: &Value, options: &DeleteOptions) -> Option<Value> {
    let grace = grace_period(kind, current, options);
    let is_marked = is_being_deleted(current);
    let left = current.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    if is_marked && (grace >= left || !kind.is("", "pods")) {
        return None;
    }
    let mut next = current.clone();
    if !is_marked {
        lifecycle::increase_generation(&mut next);
    }
    let metadata = metadata_mut(&mut next);
    metadata.insert("deletionTimestamp".to_owned(), clock::after(grace).into());
    if kind.is("", "namespaces") {
        child_mut(&mut next, "status").insert("phase".to_owned(), "Terminating".into());
        return Some(next);
    }
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    Some(next)
}

/// The grace period. Only bound pods that still run get time to stop.
fn grace_period(kind: &Kind, current: &Value, options: &DeleteOptions) -> i64 {
    if !kind.is("", "pods") || text(current, "/spec/nodeName").is_empty() || is_finished(current) {
        return 0;
    }
    let own = current.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options.grace.or(own).unwrap_or(30).max(0)
}

fn check_preconditions(kind: &Kind, name: &str, options: &DeleteOptions, current: &Object) -> ApiResult<()> {
    let uid = current.uid();
    if !options.uid.is_empty() && options.uid != uid {
        let why = format!(
            "the UID in the precondition ({}) does not match the UID in record ({uid}). The object might have been deleted and then recreated",
            options.uid
        );
        return Err(StatusError::conflict_on(kind, &kind.kind, name, &why));
    }
    if !options.version.is_empty() && options.version != current.version.to_string() {
        let why = format!(
            "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({}). The object might have been modified",
            options.version, current.version
        );
        return Err(StatusError::conflict_on(kind, &kind.kind, name, &why));
    }
    Ok(())
}
