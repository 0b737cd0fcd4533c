//! Server-side apply: a manager sends the fields that it wants. The server merges these fields, and removes the fields
//! that the manager sent before but no longer sends. The server refuses to overwrite other values that another manager
//! has applied. See <https://kubernetes.io/docs/reference/using-api/server-side-apply/>.
//!
//! Only applied configurations are remembered, outside the objects; `metadata.managedFields` is never shown. Fields
//! from plain updates have no owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use http::StatusCode;
use serde_json::Value;

use super::strategic;
use crate::api::formats::view;
use crate::api::query::WriteOptions;
use crate::fields::FieldError;
use crate::fields::json::{as_map, metadata_mut, text};
use crate::kinds::Kind;
use crate::kinds::list_type::{ListType, list_type};
use crate::objects::create::create_object;
use crate::objects::decode::{FieldValidation, decode, prune};
use crate::objects::update::{UpdateTarget, Written, update};
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Object, key};

/// The configurations that managers have applied, by object and manager.
#[derive(Debug, Default)]
pub(crate) struct AppliedConfigurations(Mutex<HashMap<String, BTreeMap<String, Value>>>);

/// One step of a path: a member of an object, or the element of a list with that key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    Member(String),
    Element(Vec<(String, String)>),
}

type FieldPath = Vec<PathStep>;

/// Applies a configuration. Creates the object if it does not exist.
pub(crate) fn apply(
    state: &ClusterState,
    applied: &AppliedConfigurations,
    target: UpdateTarget<'_>,
    configuration: &Value,
    options: &WriteOptions,
) -> ApiResult<Written> {
    let UpdateTarget { kind, namespace, name, subresource } = target;
    check(kind, name, configuration, options)?;
    let collection = state.collection_of(kind);
    let key = key(namespace, name);
    let Some(current) = collection.get(&key) else {
        if !subresource.is_empty() {
            return Err(StatusError::not_found(kind, name));
        }
        let decoded = decode(kind, configuration.clone(), None, options.field_validation)?;
        let object = create_object(state, kind, namespace, decoded.value, options.dry_run)?;
        applied.record(&object, &options.field_manager, configuration.clone());
        return Ok(Written { object, warnings: decoded.warnings, created: true });
    };
    let managers = applied.of(&current);
    let wanted = leaves_of(kind, configuration);
    if !options.force {
        refuse_conflicts(kind, &managers, &wanted, &current, &options.field_manager)?;
    }
    let others: Vec<BTreeMap<FieldPath, Value>> = managers
        .iter()
        .filter(|(manager, _)| **manager != options.field_manager)
        .map(|(_, configuration)| leaves_of(kind, configuration))
        .collect();
    let before =
        managers.get(&options.field_manager).map(|configuration| leaves_of(kind, configuration)).unwrap_or_default();
    let dropped: Vec<&FieldPath> = before
        .keys()
        .filter(|path| !wanted.contains_key(*path) && !others.iter().any(|other| other.contains_key(*path)))
        .collect();
    let written = update(state, target, options.dry_run, |current| {
        let mut value = view::value(kind, &current.value);
        for path in &dropped {
            remove(&mut value, path);
        }
        strategic::merge_applied(kind, &mut value, configuration);
        let version = text(configuration, "/metadata/resourceVersion");
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.into());
        decode(kind, value, None, options.field_validation)
    })?;
    if !options.dry_run {
        applied.record(&written.object, &options.field_manager, configuration.clone());
    }
    Ok(written)
}

fn check(kind: &Kind, name: &str, configuration: &Value, options: &WriteOptions) -> ApiResult<()> {
    if options.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(StatusError::invalid_options("PatchOptions", &[error]));
    }
    if configuration.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    let found = text(configuration, "/metadata/name");
    if !found.is_empty() && found != name {
        let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
        return Err(StatusError::bad_request(message));
    }
    if kind.is_custom() {
        return Ok(());
    }
    let mut unknown = Vec::new();
    prune(kind, &mut configuration.clone(), &mut unknown)?;
    if let Some(path) = unknown.first().filter(|_| options.field_validation != FieldValidation::Ignore) {
        let group = &kind.group;
        let message = format!(
            "failed to create typed patch object (/{name}; {group}/{}, Kind={}): .{path}: field not declared in schema",
            kind.version, kind.kind
        );
        return Err(StatusError::internal(message));
    }
    Ok(())
}

fn refuse_conflicts(
    kind: &Kind,
    managers: &BTreeMap<String, Value>,
    wanted: &BTreeMap<FieldPath, Value>,
    current: &Object,
    manager: &str,
) -> ApiResult<()> {
    let live = leaves_of(kind, &current.value);
    let mut message = String::new();
    let mut fields = Vec::new();
    for (other, applied) in managers.iter().filter(|(other, _)| *other != manager) {
        let owned = leaves_of(kind, applied);
        let contested = wanted
            .iter()
            .filter(|(path, value)| owned.contains_key(*path) && live.get(*path).is_some_and(|live| live != *value));
        let contested: Vec<String> = contested.map(|(path, _)| shown(path)).collect();
        if !contested.is_empty() {
            message.push_str(&format!("conflicts with \"{other}\":\n- {}\n", contested.join("\n- ")));
            fields.extend(contested.into_iter().map(|field| (other.clone(), field)));
        }
    }
    if fields.is_empty() {
        return Ok(());
    }
    let message = match fields.as_slice() {
        [(other, field)] => format!("Apply failed with 1 conflict: conflict with \"{other}\": {field}"),
        several => format!("Apply failed with {} conflicts: {}", several.len(), message.trim_end()),
    };
    let mut error = StatusError::new(StatusCode::CONFLICT, "Conflict", message);
    for (other, field) in fields {
        error = error.cause("FieldManagerConflict", &format!("conflict with \"{other}\""), Some(&field));
    }
    Err(error)
}

impl AppliedConfigurations {
    fn of(&self, object: &Object) -> BTreeMap<String, Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(object.uid()).cloned().unwrap_or_default()
    }

    fn record(&self, object: &Object, manager: &str, configuration: Value) {
        let uid = object.uid().to_owned();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(uid).or_default().insert(manager.to_owned(), configuration);
    }
}

/// The scalar and atomic fields of an object, without the fields that identify it.
fn leaves_of(kind: &Kind, value: &Value) -> BTreeMap<FieldPath, Value> {
    let mut leaves = BTreeMap::new();
    collect(kind, value, &mut Vec::new(), &mut Vec::new(), &mut leaves);
    leaves.retain(|path, _| {
        let is = |names: &[&str]| {
            path.len() == names.len()
                && path.iter().zip(names).all(|(step, name)| *step == PathStep::Member((*name).to_owned()))
        };
        !(is(&["kind"]) || is(&["apiVersion"]) || is(&["metadata", "name"]) || is(&["metadata", "namespace"]))
    });
    leaves
}

fn collect<'a>(
    kind: &Kind,
    value: &'a Value,
    names: &mut Vec<&'a str>,
    path: &mut FieldPath,
    leaves: &mut BTreeMap<FieldPath, Value>,
) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, member) in members {
                names.push(key);
                path.push(PathStep::Member(key.clone()));
                collect(kind, member, names, path, leaves);
                path.pop();
                names.pop();
            }
        }
        Value::Array(elements) => match list_type(kind, names) {
            ListType::Map(keys) => {
                for element in elements {
                    let identity = keys
                        .iter()
                        .map(|key| (key.clone(), element.get(key).map(ToString::to_string).unwrap_or_default()));
                    path.push(PathStep::Element(identity.collect()));
                    collect(kind, element, names, path, leaves);
                    path.pop();
                }
            }
            ListType::Atomic | ListType::Set => {
                leaves.insert(path.clone(), value.clone());
            }
        },
        leaf => {
            leaves.insert(path.clone(), leaf.clone());
        }
    }
}

/// Removes the field at `path`. Also removes the list element of the field if only its key would be left.
fn remove(value: &mut Value, path: &[PathStep]) {
    match path {
        [] => {}
        [PathStep::Member(name)] => {
            as_map(value).remove(name);
        }
        [PathStep::Element(_)] => {}
        [PathStep::Member(name), rest @ ..] => {
            if let Some(member) = value.get_mut(name) {
                remove(member, rest);
            }
        }
        [PathStep::Element(identity), rest @ ..] => {
            let Some(elements) = value.as_array_mut() else { return };
            let same = |element: &Value| {
                identity
                    .iter()
                    .all(|(key, text)| element.get(key).map(ToString::to_string).unwrap_or_default() == *text)
            };
            let is_key = matches!(rest, [PathStep::Member(name)] if identity.iter().any(|(key, _)| key == name));
            if is_key {
                elements.retain(|element| !same(element));
            } else if let Some(element) = elements.iter_mut().find(|element| same(element)) {
                remove(element, rest);
            }
        }
    }
}

fn shown(path: &FieldPath) -> String {
    path.iter()
        .map(|step| match step {
            PathStep::Member(name) => format!(".{name}"),
            PathStep::Element(identity) => {
                let keys: Vec<String> = identity.iter().map(|(key, text)| format!("{key}={text}")).collect();
                format!("[{}]", keys.join(","))
            }
        })
        .collect()
}
