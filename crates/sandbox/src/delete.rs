//! DELETE of objects and collections: grace periods, finalizers, preconditions.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::{Api, Request, Target};
use crate::kinds::Kind;
use crate::media::{Form, negotiate};
use crate::object::{Object, child_mut, items, metadata_mut, text};
use crate::status::{Answer, FieldError, StatusError};
use crate::store::key;
use crate::{clock, crd, lifecycle, read, table, view};

/// What a DELETE asks for, from its query and its body.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// Seconds, if the client chose them.
    pub(crate) grace: Option<i64>,
    /// The incarnation that is meant, empty for any.
    pub(crate) uid: String,
    /// The version that is meant, empty for any.
    pub(crate) revision: String,
    /// Answer as if, but delete nothing.
    pub(crate) dry_run: bool,
}

/// What has become of the object.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// It is gone; this was its last state.
    Gone(Arc<Object>),
    /// It waits for a grace period or for finalizers.
    Pending(Arc<Object>),
}

impl DeleteOptions {
    /// Reads the options of a request.
    pub(crate) fn of(request: &Request) -> Answer<Self> {
        let mut errors = Vec::new();
        let body: Value = if request.body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))?
        };
        let policy = request.query.get("propagationPolicy").unwrap_or(text(&body, "/propagationPolicy"));
        if !matches!(policy, "" | "Foreground" | "Background" | "Orphan") {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", &policy.into(), &supported));
        }
        let dry_run = request.query.dry_run(&mut errors) || !items(&body, "/dryRun").is_empty();
        if !errors.is_empty() {
            return Err(StatusError::invalid_options("DeleteOptions", &errors));
        }
        let grace = request.query.get("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok());
        Ok(Self { grace, dry_run, ..Self::from_body(&body) }.or_grace(&body))
    }

    /// Reads the options from a `DeleteOptions` object.
    pub(crate) fn from_body(body: &Value) -> Self {
        Self {
            grace: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text(body, "/preconditions/uid").to_owned(),
            revision: text(body, "/preconditions/resourceVersion").to_owned(),
            dry_run: false,
        }
    }

    fn or_grace(mut self, body: &Value) -> Self {
        self.grace = self.grace.or_else(|| body.get("gracePeriodSeconds").and_then(Value::as_i64));
        self
    }
}

/// Answers a DELETE of one object.
pub(crate) fn one(api: &Api, target: &Target, name: &str, request: &Request) -> Answer<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = DeleteOptions::of(request)?;
    check_allowed(kind, name)?;
    let deletion = delete(api, kind, &target.namespace, name, &options)?;
    let (object, gone) = match deletion {
        Deletion::Gone(object) => (object, true),
        Deletion::Pending(object) => (object, false),
    };
    if gone && !returns_object(kind) {
        return Ok(view::json_response(StatusCode::OK, view::success(details(kind, &object)).to_string()));
    }
    let include = table::Include::of(&request.query)?;
    Ok(view::object_response(kind, &object, StatusCode::OK, form, include, &[]))
}

/// Answers a DELETE of a collection with the objects that it held.
pub(crate) fn collection(api: &Api, target: &Target, request: &Request) -> Answer<Response> {
    let kind = &target.kind;
    let list = request.query.list_options(kind)?;
    let options = DeleteOptions::of(request)?;
    let collection = api.store.collection(&kind.collection());
    let (objects, revision) = collection.list(&target.namespace);
    let chosen: Vec<Arc<Object>> = objects.into_iter().filter(|object| list.selector.matches(&object.value)).collect();
    for object in &chosen {
        match delete(api, kind, object.namespace(), object.name(), &options) {
            Ok(_) => {}
            Err(error) if error.code() == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": revision.to_string()});
    let objects: Vec<&Object> = chosen.iter().map(Arc::as_ref).collect();
    Ok(view::json_response(StatusCode::OK, read::list_json(kind, &objects, &metadata)))
}

/// Deletes an object as far as that goes at once.
pub(crate) fn delete(api: &Api, kind: &Kind, namespace: &str, name: &str, options: &DeleteOptions) -> Answer<Deletion> {
    let collection = api.store.collection(&kind.collection());
    let key = key(namespace, name);
    loop {
        let current = collection.get(&key).ok_or_else(|| StatusError::not_found(kind, name))?;
        check_preconditions(kind, name, options, &current)?;
        let Some(next) = marked(kind, &current.value, options) else { return Ok(Deletion::Pending(current)) };
        let goes = lifecycle::may_go(&next);
        if options.dry_run {
            let object = Arc::new(Object::new(next, current.revision));
            return Ok(if goes { Deletion::Gone(object) } else { Deletion::Pending(object) });
        }
        if !goes {
            let Ok(object) = collection.replace(&key, &current, next) else { continue };
            crd::on_change(api, kind, &object, false);
            return Ok(Deletion::Pending(object));
        }
        // A pod is marked before it goes, so watchers see both steps.
        let removed = if kind.is("", "pods") {
            collection.replace_and_remove(&key, &current, next)
        } else {
            collection.remove(&key, &current, current.value.clone())
        };
        let Ok(object) = removed else { continue };
        crd::on_change(api, kind, &object, true);
        return Ok(Deletion::Gone(object));
    }
}

/// The object marked for deletion, or nothing if it already is and nothing changes.
fn marked(kind: &Kind, current: &Value, options: &DeleteOptions) -> Option<Value> {
    let grace = grace_period(kind, current, options);
    let running = current.pointer("/metadata/deletionTimestamp").is_some();
    let left = current.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    if running && (grace >= left || !kind.is("", "pods")) {
        return None;
    }
    let mut next = current.clone();
    if !running {
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

/// Only bound pods that still run get time to stop.
fn grace_period(kind: &Kind, current: &Value, options: &DeleteOptions) -> i64 {
    let finished = matches!(text(current, "/status/phase"), "Succeeded" | "Failed");
    if !kind.is("", "pods") || text(current, "/spec/nodeName").is_empty() || finished {
        return 0;
    }
    let own = current.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options.grace.or(own).unwrap_or(30).max(0)
}

fn check_preconditions(kind: &Kind, name: &str, options: &DeleteOptions, current: &Object) -> Answer<()> {
    let uid = text(&current.value, "/metadata/uid");
    if !options.uid.is_empty() && options.uid != uid {
        let why = format!(
            "the UID in the precondition ({}) does not match the UID in record ({uid}). The object might have been deleted and then recreated",
            options.uid
        );
        return Err(StatusError::conflict_on(kind, &kind.kind, name, &why));
    }
    if !options.revision.is_empty() && options.revision != current.revision.to_string() {
        let why = format!(
            "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({}). The object might have been modified",
            options.revision, current.revision
        );
        return Err(StatusError::conflict_on(kind, &kind.kind, name, &why));
    }
    Ok(())
}

fn check_allowed(kind: &Kind, name: &str) -> Answer<()> {
    if kind.is("scheduling.k8s.io", "priorityclasses") && name.starts_with("system-") {
        let why = "this is a system priority class and cannot be deleted";
        return Err(StatusError::forbidden(kind, name, why));
    }
    if kind.is("", "namespaces") && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(StatusError::forbidden(kind, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Kinds whose deletion answers the last state instead of a `Status`.
fn returns_object(kind: &Kind) -> bool {
    let core = [
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "services",
    ];
    match kind.group.as_str() {
        "" => core.contains(&kind.plural.as_str()),
        "storage.k8s.io" => kind.plural != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}

fn details(kind: &Kind, object: &Object) -> Map<String, Value> {
    let mut details = Map::new();
    details.insert("name".to_owned(), object.name().into());
    if !kind.group.is_empty() {
        details.insert("group".to_owned(), kind.group.as_str().into());
    }
    details.insert("kind".to_owned(), kind.plural.as_str().into());
    details.insert("uid".to_owned(), text(&object.value, "/metadata/uid").into());
    details
}
