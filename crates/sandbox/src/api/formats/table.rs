//! Tables: the output of `kubectl get`, which the server computes.

mod age;
mod cells;
mod columns;

use serde_json::{Value, json};

use super::view;
use crate::fields::json::text;
use crate::kinds::{Decoding, Kind};
use crate::storage::Object;

/// The part of its object that a row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// Renders objects as a table.
pub(crate) fn render(kind: &Kind, objects: &[&Object], metadata: &Value, include: Include) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(kind, object, include)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": column_definitions(kind),
        "rows": rows,
    })
}

fn row(kind: &Kind, object: &Object, include: Include) -> Value {
    let is_bookmark = text(&object.value, "/metadata/uid").is_empty();
    let cells = match &kind.decoding {
        _ if is_bookmark => column_definitions(kind).iter().map(|_| Value::from("")).collect(),
        Decoding::Custom(schema) => custom_cells(&schema.printer_columns, &object.value),
        Decoding::Typed(_) => cells::of(kind, &object.value),
    };
    let shown = match include {
        Include::Metadata => view::partial(&object.value),
        Include::Object => view::value(kind, &object.value),
        Include::None => Value::Null,
    };
    json!({"cells": cells, "object": shown})
}

fn column_definitions(kind: &Kind) -> Vec<Value> {
    let definition = |name: &str, kind: &str, wide: bool, format: &str, description: &str| {
        json!({
            "name": name,
            "type": kind,
            "format": format,
            "description": description,
            "priority": i32::from(wide),
        })
    };
    let Decoding::Custom(schema) = &kind.decoding else {
        let format = |column: &columns::Column| if column.name == "Name" { "name" } else { "" };
        return columns::of(kind)
            .iter()
            .map(|column| definition(column.name, column.data_type, column.is_wide, format(column), ""))
            .collect();
    };
    let name = definition("Name", "string", false, "name", "");
    if schema.printer_columns.is_empty() {
        return vec![name, definition("Age", "date", false, "", "")];
    }
    let extra = schema.printer_columns.iter().map(|column| {
        let wide = column.get("priority").and_then(Value::as_i64).unwrap_or(0) > 0;
        definition(
            text(column, "/name"),
            text(column, "/type"),
            wide,
            text(column, "/format"),
            text(column, "/description"),
        )
    });
    std::iter::once(name).chain(extra).collect()
}

fn custom_cells(printer_columns: &[Value], object: &Value) -> Vec<Value> {
    let name = Value::from(text(object, "/metadata/name"));
    if printer_columns.is_empty() {
        return vec![name, age::since(text(object, "/metadata/creationTimestamp")).into()];
    }
    let extra = printer_columns.iter().map(|column| {
        let pointer = text(column, "/jsonPath").replace('.', "/");
        let value = object.pointer(&pointer);
        match (text(column, "/type"), value) {
            ("date", value) => age::since(value.and_then(Value::as_str).unwrap_or_default()).into(),
            ("string", Some(value)) if !value.is_string() => value.to_string().into(),
            (_, value) => value.cloned().unwrap_or_default(),
        }
    });
    std::iter::once(name).chain(extra).collect()
}
