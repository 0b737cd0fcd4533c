//! Definitions of custom resources: a stored definition makes its kinds appear, a deleted one takes them and their
//! objects away.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::Api;
use crate::clock;
use crate::kinds::{Decoding, Kind, Scale};
use crate::object::{Object, child_mut, items, text};
use crate::schema::Schema;

const GROUP: &str = "apiextensions.k8s.io";

/// Marks a new definition as established, which it is as soon as it is stored.
pub(crate) fn on_create(kind: &Kind, value: &mut Value) {
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

/// Follows a change of a definition; other kinds are left alone.
pub(crate) fn on_change(api: &Api, kind: &Kind, object: &Object, gone: bool) {
    if kind.group != GROUP {
        return;
    }
    let definition = &object.value;
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    if gone {
        api.registry.define(group, plural, Vec::new());
        remove_objects(api, &format!("{plural}.{group}"));
        return;
    }
    let served =
        items(definition, "/spec/versions").iter().filter(|version| version.get("served") == Some(&Value::Bool(true)));
    api.registry.define(group, plural, served.map(|version| custom_kind(definition, version)).collect());
}

fn remove_objects(api: &Api, name: &str) {
    let collection = api.store.collection(name);
    for object in collection.list("").0 {
        let key = crate::store::key(object.namespace(), object.name());
        // An object that changes at this moment belongs to a kind that is gone; nobody can reach it.
        let _ = collection.remove(&key, &object, object.value.clone());
    }
}

fn custom_kind(definition: &Value, version: &Value) -> Kind {
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let strings = |pointer: &str| -> Vec<String> {
        items(&names, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let pointer_of = |path: &str| path.replace('.', "/");
    let scale = version.pointer("/subresources/scale").map(|scale| Scale {
        spec_replicas: pointer_of(text(scale, "/specReplicasPath")),
        status_replicas: pointer_of(text(scale, "/statusReplicasPath")),
        selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(pointer_of),
    });
    let fields = items(version, "/selectableFields")
        .iter()
        .map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned());
    let schema = Schema {
        root: version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default(),
        selectable_fields: fields.collect(),
        printer_columns: items(version, "/additionalPrinterColumns").to_vec(),
    };
    Kind {
        group: text(definition, "/spec/group").to_owned(),
        version: text(version, "/name").to_owned(),
        kind: text(&names, "/kind").to_owned(),
        list_kind: text(&names, "/listKind").to_owned(),
        plural: text(&names, "/plural").to_owned(),
        singular: text(&names, "/singular").to_owned(),
        short_names: strings("/shortNames"),
        categories: strings("/categories"),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        has_status: version.pointer("/subresources/status").is_some(),
        scale,
        decoding: Decoding::Custom(Arc::new(schema)),
    }
}
