//! `CustomResourceDefinition`s. The kinds of a definition are served while the definition is stored. When the
//! definition is deleted, its kinds and their objects are removed.

use serde_json::{Value, json};

use crate::fields::clock;
use crate::fields::json::{child_mut, items, text};
use crate::kinds::Kind;
use crate::kinds::custom::custom_kind;
use crate::state::ClusterState;
use crate::storage::Object;

const GROUP: &str = "apiextensions.k8s.io";

/// Marks a new definition as established, at the moment in which it is stored.
pub(super) fn establish(kind: &Kind, value: &mut Value) {
    if kind.group != GROUP {
        return;
    }
    let names = value.pointer("/spec/names").cloned().unwrap_or_default();
    let storage =
        items(value, "/spec/versions").iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.map(|version| text(version, "/name").to_owned()).unwrap_or_default();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "lastTransitionTime": clock::now(),
            "reason": reason,
            "message": message,
        })
    };
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    let status = child_mut(value, "status");
    status.insert("conditions".to_owned(), conditions);
    status.insert("acceptedNames".to_owned(), names);
    status.insert("storedVersions".to_owned(), json!([storage]));
}

/// Serves the kinds of a definition that was created or changed. Other objects are ignored.
pub(super) fn serve_kinds(state: &ClusterState, kind: &Kind, object: &Object) {
    if kind.group != GROUP {
        return;
    }
    let definition = &object.value;
    let served =
        items(definition, "/spec/versions").iter().filter(|version| version.get("served") == Some(&Value::Bool(true)));
    let kinds = served.map(|version| custom_kind(definition, version)).collect();
    state.registry().define(text(definition, "/spec/group"), text(definition, "/spec/names/plural"), kinds);
}

/// Removes the kinds of a deleted definition, and their objects. Other objects are ignored.
pub(super) fn withdraw_kinds(state: &ClusterState, kind: &Kind, object: &Object) {
    if kind.group != GROUP {
        return;
    }
    let (group, plural) = (text(&object.value, "/spec/group"), text(&object.value, "/spec/names/plural"));
    state.registry().define(group, plural, Vec::new());
    remove_objects(state, &format!("{plural}.{group}"));
}

fn remove_objects(state: &ClusterState, name: &str) {
    let collection = state.collection(name);
    for object in collection.list("").0 {
        // The removal fails only if the object has just changed. The object's kind is no longer served, so no request
        // can reach the object.
        let _ = collection.remove(&object.key(), &object, object.value.clone());
    }
}
