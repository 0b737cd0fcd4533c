//! The kinds that a `CustomResourceDefinition` describes.

use std::sync::Arc;

use serde_json::Value;

use super::kind::{Decoding, Kind, Scale};
use super::schema::Schema;
use crate::fields::json::{items, text};

/// The kind of one version in a definition's `spec.versions`.
pub(crate) fn custom_kind(definition: &Value, version: &Value) -> Kind {
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
