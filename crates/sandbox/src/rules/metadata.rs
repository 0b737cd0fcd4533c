//! `metadata`: the fields that the server sets, and the fields that an update cannot change.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::json::{carry, items, metadata_mut, text};
use crate::fields::{FieldError, clock};
use crate::kinds::Kind;
use crate::status::{ApiResult, StatusError};

/// The characters of generated names. Vowels are missing, so that the names form no words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Fills in the metadata of a new object.
pub(crate) fn prepare_create(kind: &Kind, namespace: &str, value: &mut Value) -> ApiResult<()> {
    check_namespace(namespace, value)?;
    if !text(value, "/metadata/resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(StatusError::internal(message));
    }
    let metadata = metadata_mut(value);
    for field in ["resourceVersion", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), clock::now().into());
    metadata.remove("generation");
    if kind.has_generation() {
        metadata.insert("generation".to_owned(), 1.into());
    }
    metadata.retain(|_, member| !is_empty(member));
    Ok(())
}

/// Gives an object without a name a generated name, which starts with its `generateName`.
pub(crate) fn generate_name(value: &mut Value) {
    let prefix = text(value, "/metadata/generateName").to_owned();
    if prefix.is_empty() || !text(value, "/metadata/name").is_empty() {
        return;
    }
    let mut random = Uuid::new_v4().as_u128();
    let mut name = prefix;
    for _ in 0..5 {
        let position = usize::try_from(random % SUFFIX_ALPHABET.len() as u128).unwrap_or(0);
        name.push(char::from(SUFFIX_ALPHABET.get(position).copied().unwrap_or(b'x')));
        random /= SUFFIX_ALPHABET.len() as u128;
    }
    metadata_mut(value).insert("name".to_owned(), name.into());
}

/// Checks that the body of a PUT fits its path.
pub(crate) fn check_put(kind: &Kind, namespace: &str, name: &str, value: &Value) -> ApiResult<()> {
    let found = text(value, "/metadata/name");
    if found.is_empty() {
        return Err(StatusError::bad_request("name must be provided"));
    }
    if found != name {
        let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
        return Err(StatusError::bad_request(message));
    }
    check_namespace(namespace, value)?;
    if kind.is_custom() && text(value, "/metadata/resourceVersion").is_empty() {
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(StatusError::invalid_named(&kind.plural, &kind.group, name, &[error]));
    }
    Ok(())
}

/// Refuses a write with another uid than the object's.
pub(crate) fn check_precondition(
    kind: &Kind,
    name: &str,
    namespace: &str,
    uid: &str,
    current: &Value,
) -> ApiResult<()> {
    let actual = text(current, "/metadata/uid");
    if uid.is_empty() || uid == actual {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}",
        storage_key(kind, namespace, name)
    );
    Err(StatusError::conflict(kind, name, &why))
}

/// Carries over the fields that an update cannot change, and reports attempts to change them.
pub(crate) fn prepare_update(kind: &Kind, current: &Value, value: &mut Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let uid = text(value, "/metadata/uid").to_owned();
    if !uid.is_empty() && uid != text(current, "/metadata/uid") {
        errors.push(FieldError::invalid("metadata.uid", &uid.into(), "field is immutable"));
    }
    let before = current.get("metadata").cloned().unwrap_or_default();
    if before.get("deletionTimestamp").is_some() {
        let held = items(current, "/metadata/finalizers");
        let new: Vec<String> = items(value, "/metadata/finalizers")
            .iter()
            .filter(|finalizer| !held.contains(finalizer))
            .map(ToString::to_string)
            .collect();
        if !new.is_empty() {
            let found = new.join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{found}}}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    let metadata = metadata_mut(value);
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ] {
        carry(&before, metadata, field);
    }
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    metadata.retain(|_, member| !is_empty(member));
    tracing::trace!(kind = %kind.kind, "metadata carried over");
    errors
}

/// The key under which etcd would store the object. Messages about conflicts contain it.
pub(crate) fn storage_key(kind: &Kind, namespace: &str, name: &str) -> String {
    let resource = match kind.plural.as_str() {
        "nodes" => "minions",
        plural => plural,
    };
    if namespace.is_empty() {
        format!("/registry/{resource}/{name}")
    } else {
        format!("/registry/{resource}/{namespace}/{name}")
    }
}

fn check_namespace(namespace: &str, value: &Value) -> ApiResult<()> {
    let found = text(value, "/metadata/namespace");
    if found.is_empty() || found == namespace {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(StatusError::bad_request(message))
}

fn is_empty(member: &Value) -> bool {
    match member {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
