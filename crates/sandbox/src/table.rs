//! Tables: what `kubectl get` prints, computed by the server.

mod age;
mod cells;

use serde_json::{Value, json};

use crate::kinds::{Decoding, Kind};
use crate::object::{Object, text};
use crate::query::Query;
use crate::status::{Answer, StatusError};
use crate::view;

/// How much of each object accompanies its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

/// One column: name, type, and whether only wide output shows it.
type Column = (&'static str, &'static str, bool);

impl Include {
    /// Reads `includeObject` from a query.
    pub(crate) fn of(query: &Query) -> Answer<Self> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(StatusError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Renders objects as a table.
pub(crate) fn render(kind: &Kind, objects: &[&Object], metadata: &Value, include: Include) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(kind, object, include)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns(kind),
        "rows": rows,
    })
}

fn row(kind: &Kind, object: &Object, include: Include) -> Value {
    let is_bookmark = text(&object.value, "/metadata/uid").is_empty();
    let cells = match &kind.decoding {
        _ if is_bookmark => columns(kind).iter().map(|_| Value::from("")).collect(),
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

fn columns(kind: &Kind) -> Vec<Value> {
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
        return cells::columns(kind)
            .iter()
            .map(|(name, kind, wide)| definition(name, kind, *wide, if *name == "Name" { "name" } else { "" }, ""))
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
