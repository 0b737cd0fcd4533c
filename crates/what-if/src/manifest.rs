//! Manifests. A manifest is a text of YAML or JSON with one or several documents. This module splits manifests,
//! including `List`s, into objects.
//!
//! Each document is read separately, so that an invalid document does not affect the other documents, and an error
//! names the file, line, object and field.

mod lines;

use std::{fmt, sync::Arc};

use berth_model::ObjectKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::lines::Step;

/// An object, and its place.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) object: Value,
    pub(crate) place: Place,
}

/// The place of an object in a text.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: Arc<str>,
    /// The document, and the number of its first line in the file. Lines are counted from 1. The document is empty for
    /// an object that is not from a text.
    document: Arc<str>,
    first_line: u64,
    /// The index of the object in the document's list.
    item: Option<usize>,
}

/// A mistake in an object of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ReadError {
    /// The name of the file in errors.
    pub file: String,
    /// The line, counted from 1; `None` if the line is not known.
    pub line: Option<u64>,
    /// The object, such as `Pod default/web`; `None` if the document is not an object.
    pub object: Option<String>,
    /// The field, such as `spec.containers[0].resources`; `None` if the mistake is in the whole object.
    pub field: Option<String>,
    /// The mistake, and the remedy.
    pub reason: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The objects of a text in their order. `file` is the name of the text in errors.
pub(crate) fn read(file: &str, text: &str) -> Vec<Result<Manifest, ReadError>> {
    let file: Arc<str> = file.into();
    let is_json = text.trim_start().starts_with(['{', '[']);
    if is_json && let Ok(document) = serde_json::from_str(text) {
        let place = Place { file, document: text.into(), first_line: 1, item: None };
        return objects(document, &place);
    }
    let documents = documents(text).into_iter().flat_map(|(first_line, document)| {
        let place = Place { file: Arc::clone(&file), document: document.into(), first_line, item: None };
        match serde_saphyr::from_str_with_options(document, lines::options()) {
            Ok(document) => objects(document, &place),
            Err(error) => vec![Err(place.syntax_error(&error))],
        }
    });
    documents.collect()
}

/// Makes a manifest of an object that is not from a text. `origin` is the source of the object, for errors.
pub(crate) fn of_object(origin: &str, object: Value) -> Result<Manifest, ReadError> {
    check(object, Place { file: origin.into(), document: "".into(), first_line: 1, item: None })
}

/// The documents of a YAML text, each with the number of its first line. Any line that begins with `---` ends a
/// document (<https://yaml.org/spec/1.2.2/#912-document-markers>).
fn documents(text: &str) -> Vec<(u64, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let mut offset = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let after_marker = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
        if after_marker.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])) {
            documents.push((first_line, &text[start..offset]));
            // The rest of the line after the marker belongs to the next document.
            (start, first_line) = (offset + 3, number);
        }
        offset += line.len();
    }
    documents.push((first_line, &text[start..]));
    let is_empty = |text: &str| text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    documents.retain(|(_, document)| !is_empty(document));
    documents
}

fn objects(document: Value, place: &Place) -> Vec<Result<Manifest, ReadError>> {
    match document {
        Value::Null => Vec::new(),
        Value::Array(items) => list(items, place),
        Value::Object(mut fields) if is_list(&fields) => match fields.remove("items") {
            Some(Value::Array(items)) => list(items, place),
            _ => vec![Err(place.error(
                &Value::Object(fields),
                &[Step::Key("items".to_owned())],
                "a list needs this field",
            ))],
        },
        object => vec![check(object, place.clone())],
    }
}

/// Whether the kind is `List`, `PodList` or similar.
fn is_list(fields: &serde_json::Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "List" || (kind.ends_with("List") && fields.contains_key("items"))
}

fn list(items: Vec<Value>, place: &Place) -> Vec<Result<Manifest, ReadError>> {
    let item = |(at, item)| check(item, Place { item: Some(at), ..place.clone() });
    items.into_iter().enumerate().map(item).collect()
}

/// Checks the fields that every object needs.
fn check(object: Value, place: Place) -> Result<Manifest, ReadError> {
    let needed =
        [("/apiVersion", &["apiVersion"][..]), ("/kind", &["kind"]), ("/metadata/name", &["metadata", "name"])];
    for (pointer, path) in needed {
        let is_given = object.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let is_generated = pointer == "/metadata/name" && object.pointer("/metadata/generateName").is_some();
        if !is_given && !is_generated {
            let path: Vec<Step> = path.iter().map(|&key| Step::Key(key.to_owned())).collect();
            return Err(place.error(&object, &path, "must be a non-empty string"));
        }
    }
    Ok(Manifest { object, place })
}

impl Manifest {
    /// The error about a mistake in the field at a JSON pointer, such as `/spec/replicas`.
    pub(crate) fn error(&self, pointer: &str, reason: impl Into<String>) -> ReadError {
        self.place.error_at(&self.object, pointer, reason)
    }
}

impl Place {
    /// Decodes `object`, which is at this place, into the scheduler's form.
    pub(crate) fn decode<T: DeserializeOwned>(&self, object: &Value) -> Result<T, ReadError> {
        self.decode_below(object, "")
    }

    /// Decodes an object that was derived from the part of this manifest at the JSON pointer `prefix`.
    pub(crate) fn decode_below<T: DeserializeOwned>(&self, object: &Value, prefix: &str) -> Result<T, ReadError> {
        self.decode_at(object, object, prefix)
    }

    /// Decodes a part of `object` at the JSON pointer `prefix`.
    pub(crate) fn decode_at<T: DeserializeOwned>(
        &self,
        object: &Value,
        part: &Value,
        prefix: &str,
    ) -> Result<T, ReadError> {
        serde_path_to_error::deserialize(part).map_err(|error| {
            let below = error.path().iter().filter_map(Step::of_segment);
            let path: Vec<Step> = steps(prefix).chain(below).collect();
            self.error(object, &path, error.inner().to_string())
        })
    }

    /// The error about a mistake in the field at a JSON pointer, such as `/spec/replicas`.
    pub(crate) fn error_at(&self, object: &Value, pointer: &str, reason: impl Into<String>) -> ReadError {
        let path: Vec<Step> = steps(pointer).collect();
        self.error(object, &path, reason)
    }

    /// Returns `file:line`, for people.
    pub(crate) fn describe(&self) -> String {
        match self.line(&[]) {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.to_string(),
        }
    }

    fn error(&self, object: &Value, path: &[Step], reason: impl Into<String>) -> ReadError {
        ReadError {
            file: self.file.to_string(),
            line: self.line(path),
            object: describe(object),
            field: lines::describe(path),
            reason: reason.into(),
        }
    }

    fn syntax_error(&self, error: &serde_saphyr::Error) -> ReadError {
        let line = error.location().map(|location| location.line() + self.first_line - 1);
        let reason = error.without_snippet().to_string();
        let reason = reason.lines().next().unwrap_or_default();
        let reason = format!("this is neither YAML nor JSON: {reason}");
        ReadError { file: self.file.to_string(), line, object: None, field: None, reason }
    }

    /// The line of a field of the object, or of the nearest field above it.
    fn line(&self, path: &[Step]) -> Option<u64> {
        if self.document.is_empty() {
            return None;
        }
        let items = self.item.map(|item| [Step::Key("items".to_owned()), Step::Index(item)]);
        let path: Vec<Step> = items.into_iter().flatten().chain(path.iter().cloned()).collect();
        lines::line_of(&self.document, &path).map(|line| line + self.first_line - 1)
    }
}

/// The steps of a JSON pointer.
fn steps(pointer: &str) -> impl Iterator<Item = Step> {
    let parts = pointer.split('/').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_or_else(|_| Step::Key(part.to_owned()), Step::Index))
}

/// Returns `Pod default/web`; `None` for an object without a kind.
pub(crate) fn describe(object: &Value) -> Option<String> {
    let ObjectKey { kind, namespace, name, .. } = ObjectKey::of(object);
    let name = if name.is_empty() { object.pointer("/metadata/generateName")?.as_str()?.to_owned() } else { name };
    let slash = if namespace.is_empty() { "" } else { "/" };
    (!kind.is_empty()).then(|| format!("{kind} {namespace}{slash}{name}"))
}

#[cfg(test)]
mod tests {
    use berth_model::api;

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let manifests = read("a.yaml", text);
        let decoded = manifests.into_iter().map(|manifest| {
            let manifest = manifest?;
            manifest.place.decode::<api::Pod>(&manifest.object)
        });
        decoded.filter_map(|pod| Some(pod.err()?.to_string())).collect()
    }

    #[test]
    fn documents_lists_and_json_are_objects_in_order() {
        let yaml = "# nothing\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n--- # more\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n---\n---\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"generateName\": \"c-\"}}\n...\n";
        let names = |text: &str| {
            let objects = read("f", text).into_iter().map(|manifest| manifest.unwrap().object);
            objects.map(|object| describe(&object).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(yaml), ["Pod a", "Pod b", "Pod c-"]);
        let json = r#"{"apiVersion": "v1", "kind": "PodList", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}}]}"#;
        assert_eq!(names(json), ["Pod d"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn an_error_names_file_line_object_and_field() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  containers:\n  - name: web\n    resources:\n      requests:\n        cpu: lots\n";
        let text = format!("{pod}---\n{}", pod.replace("lots", "1"));
        let quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        assert_eq!(
            errors(&text),
            [format!("a.yaml:11: Pod shop/web: spec.containers[0].resources.requests.cpu: {quantity}")]
        );
        assert_eq!(errors(&format!("{}---\n{pod}", pod.replace("lots", "1")))[0].split(": ").next(), Some("a.yaml:23"));
    }

    #[test]
    fn a_broken_document_costs_no_other() {
        let text = "a: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: high}\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {name: fine}\n";
        let found = errors(text);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].starts_with("a.yaml:1: this is neither YAML nor JSON: "), "{found:#?}");
        assert_eq!(found[1], "a.yaml:5: metadata.name: must be a non-empty string");
        assert_eq!(found[2], "a.yaml:10: Pod a: spec.priority: invalid type: string \"high\", expected i32");
    }

    #[test]
    fn lines_of_items_and_of_json_are_found() {
        let yaml = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n  spec:\n    priority: x\n";
        assert!(errors(yaml)[0].starts_with("a.yaml:9: Pod a: spec.priority: "), "{:?}", errors(yaml));
        let json = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\n  \"hostNetwork\": 3}}";
        assert!(errors(json)[0].starts_with("a.yaml:4: Pod a: spec.hostNetwork: "), "{:?}", errors(json));
    }
}
