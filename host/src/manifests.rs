//! Manifest files: YAML or JSON, one or several objects a file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The manifests that `berth demo` creates by default.
const DEMO: [(&str, &str); 2] = [
    ("examples/demo/cluster.yaml", include_str!("../../examples/demo/cluster.yaml")),
    ("examples/demo/pods.yaml", include_str!("../../examples/demo/pods.yaml")),
];

/// The objects of the demo manifests, which are part of the program.
pub(crate) fn demo() -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (name, text) in DEMO {
        objects.extend(parse(Path::new(name), text)?);
    }
    Ok(objects)
}

/// The objects of files and folders. A folder's files are read in the order of their names.
///
/// # Errors
/// The error names the file and the problem.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for path in paths {
        for file in files(path)? {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            objects.extend(parse(&file, &text)?);
        }
    }
    Ok(objects)
}

/// The file itself, or the manifest files of a folder in the order of their names.
///
/// # Errors
/// The folder cannot be read, or has no manifest files.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read folder {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("{}: no .yaml, .yml or .json files in this folder", path.display());
    }
    Ok(files)
}

fn parse(file: &Path, text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| anyhow::anyhow!("{}: not valid YAML or JSON: {error}", file.display()))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = list.remove("items") else {
                    bail!("{}: a List needs the field `items`", file.display());
                };
                objects.extend(items);
            }
            object => objects.push(object),
        }
    }
    for (index, object) in (1..).zip(&objects) {
        check(file, index, object)?;
    }
    Ok(objects)
}

/// Checks the fields that every object needs before it can be created.
fn check(file: &Path, index: usize, object: &Value) -> Result<()> {
    for (field, pointer) in [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")] {
        let found = object.pointer(pointer);
        let generated = field == "metadata.name" && object.pointer("/metadata/generateName").is_some();
        if found.and_then(Value::as_str).is_none_or(str::is_empty) && !generated {
            bail!("{}: object {index} needs the field `{field}`, a string that is not empty", file.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_parses() {
        let objects = demo().unwrap();
        assert!(objects.iter().any(|object| object["kind"] == "Node"));
        assert!(objects.iter().any(|object| object["kind"] == "Pod"));
    }

    #[test]
    fn errors_name_file_and_field() {
        let file = Path::new("pods.yaml");
        let error = parse(file, "apiVersion: v1\nkind: Pod\nmetadata: {}\n").unwrap_err().to_string();
        assert_eq!(error, "pods.yaml: object 1 needs the field `metadata.name`, a string that is not empty");
        let error = parse(file, "a: [").unwrap_err().to_string();
        assert!(error.starts_with("pods.yaml: not valid YAML or JSON:"), "{error}");
    }
}
