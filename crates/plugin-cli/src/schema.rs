//! `berth schema`: JSON schemas of the files that users write, for editors that complete and check YAML.
//!
//! The schemas are made from the types that read the files. `docs/schemas` contains the printed schemas. Each new
//! project has its own copy, so that an editor needs no network.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

use anyhow::Result;
use berth_author::CaseFile;
use berth_config::PluginHostSettings;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

/// The files that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// Files of cases, which `berth plugin test` runs
    Cases,
    /// The file of --plugin-config
    PluginHostConfiguration,
}

impl SchemaName {
    /// The file with the schema, in `docs/schemas` and in `berth/schemas` of a project.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Cases => "cases.json",
            Self::PluginHostConfiguration => "plugin-host-configuration.json",
        }
    }

    /// The schema for a project's file of this name; `None` for other files.
    pub(crate) fn of_file(name: &str) -> Option<Self> {
        match name {
            "cases.yaml" => Some(Self::Cases),
            "plugin-host.yaml" => Some(Self::PluginHostConfiguration),
            name => name.ends_with(".cases.yaml").then_some(Self::Cases),
        }
    }

    /// The text of the schema, as in its file.
    pub(crate) fn text(self) -> Result<String> {
        let schema = match self {
            Self::Cases => cases(),
            Self::PluginHostConfiguration => PluginHostSettings::schema().to_value(),
        };
        Ok(serde_json::to_string_pretty(&schema)? + "\n")
    }
}

/// Prints a schema.
///
/// # Errors
/// Standard output cannot be written, or the schema cannot be serialized.
pub fn print(name: SchemaName) -> Result<()> {
    io::stdout().lock().write_all(name.text()?.as_bytes())?;
    Ok(())
}

/// The schema of cases. `limits` and `grants` have the same form as in a PluginHostConfiguration.
fn cases() -> Value {
    let mut cases = CaseFile::schema().to_value();
    let host = PluginHostSettings::schema().to_value();
    let no_definitions = Map::new();
    let of_host = host["$defs"].as_object().unwrap_or(&no_definitions);
    let mut needed = BTreeSet::new();
    for (field, definition) in [("limits", "LimitsFields"), ("grants", "GrantsFields")] {
        let reference = json!({ "$ref": format!("#/$defs/{definition}") });
        cases["properties"][field]["anyOf"] = json!([reference, { "type": "null" }]);
        add_with_references(definition, of_host, &mut needed);
    }
    for name in needed {
        cases["$defs"][name] = of_host.get(name).cloned().unwrap_or_default();
    }
    cases
}

/// Adds the definition, and all definitions that it refers to.
fn add_with_references<'a>(name: &'a str, definitions: &'a Map<String, Value>, needed: &mut BTreeSet<&'a str>) {
    if !needed.insert(name) {
        return;
    }
    let mut values: Vec<&Value> = definitions.get(name).into_iter().collect();
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => values.extend(fields.values()),
            Value::Array(items) => values.extend(items),
            Value::String(text) => {
                if let Some(name) = text.strip_prefix("#/$defs/") {
                    add_with_references(name, definitions, needed);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    fn schema(name: SchemaName) -> Value {
        serde_json::from_str(&name.text().expect("text")).expect("JSON")
    }

    #[test]
    fn the_schemas_of_the_repository_are_those_of_the_code() {
        for name in SchemaName::value_variants() {
            let file = Path::new(ROOT).join("docs/schemas").join(name.file());
            let command = name.to_possible_value().expect("a name");
            let there = fs::read_to_string(&file).unwrap_or_default();
            let told = format!("`berth schema {} > docs/schemas/{}` mends it", command.get_name(), name.file());
            assert!(there == name.text().expect("text"), "{told}");
        }
    }

    /// Fields that the schema does not have, by their paths.
    fn unknown_fields(value: &Value, place: &Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
        if let Some(reference) = place["$ref"].as_str() {
            return unknown_fields(value, &schema["$defs"][&reference["#/$defs/".len()..]], schema, path, unknown);
        }
        if let Some(any) = place["anyOf"].as_array() {
            let first = any.iter().find(|one| one["type"] != "null").unwrap_or(&Value::Null);
            return unknown_fields(value, first, schema, path, unknown);
        }
        match value {
            Value::Object(fields) if place["additionalProperties"] == false => {
                for (name, value) in fields {
                    let path = format!("{path}.{name}");
                    match place["properties"].get(name) {
                        Some(place) => unknown_fields(value, place, schema, &path, unknown),
                        None => unknown.push(path),
                    }
                }
            }
            Value::Array(items) => {
                items.iter().for_each(|item| unknown_fields(item, &place["items"], schema, path, unknown));
            }
            _ => {}
        }
    }

    fn unknown_in(file: &Path, name: SchemaName) -> Vec<String> {
        let text = fs::read_to_string(file).expect("a file");
        let value: Value = serde_saphyr::from_str(&text).expect("YAML");
        let (schema, mut unknown) = (schema(name), Vec::new());
        unknown_fields(&value, &schema, &schema, "", &mut unknown);
        unknown
    }

    #[test]
    fn the_examples_have_no_field_that_a_schema_does_not_know() {
        let root = Path::new(ROOT);
        let mut cases = Vec::new();
        for example in fs::read_dir(root.join("plugins/examples")).expect("examples") {
            cases.extend(Some(example.expect("a folder").path().join("cases.yaml")).filter(|file| file.exists()));
        }
        assert!(!cases.is_empty());
        for file in cases {
            assert_eq!(unknown_in(&file, SchemaName::Cases), [""; 0], "{}", file.display());
        }
        for file in ["plugin-host.yaml", "replaced-built-ins.yaml"] {
            let file = root.join("examples").join(file);
            assert_eq!(unknown_in(&file, SchemaName::PluginHostConfiguration), [""; 0], "{}", file.display());
        }
    }

    #[test]
    fn each_effect_is_described_with_its_fields() {
        let schema = schema(SchemaName::Cases);
        let effects = &schema["$defs"]["PodAnswer"]["properties"]["effects"];
        assert_eq!(effects["items"]["$ref"], "#/$defs/CaseEffect");
        let effects = schema["$defs"]["CaseEffect"]["oneOf"].as_array().expect("effects");
        assert_eq!(effects.len(), 11);
        let wait = effects.iter().map(|effect| &effect["properties"]["wait"]).find(|wait| !wait.is_null());
        let wait = wait.expect("the effect");
        assert_eq!(wait["required"], json!(["objects", "timeoutMilliseconds", "message"]));
        assert_eq!(wait["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Rejection"]["properties"]["code"]["enum"].as_array().map(Vec::len), Some(7));
    }

    #[test]
    fn a_field_that_there_is_not_is_found_where_the_schema_is_closed() {
        let value = json!({"plugin": "A", "limits": {"memry": 1}, "cases": [{"name": "a", "steps": [{"expct": {}}]}]});
        let (schema, mut unknown) = (schema(SchemaName::Cases), Vec::new());
        unknown_fields(&value, &schema, &schema, "", &mut unknown);
        unknown.sort();
        assert_eq!(unknown, [".cases.steps.expct", ".limits.memry"]);
    }
}
