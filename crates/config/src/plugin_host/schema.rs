//! The JSON schema of a `PluginHostConfiguration`, for editors. It contains only the fields and their types. The checks
//! of [`PluginHostSettings::from_text`] cover more.

use schemars::{Schema, SchemaGenerator, json_schema, schema_for};

use super::{PluginHostSettings, file::Document};

impl PluginHostSettings {
    /// The schema. The definitions `LimitsFields` and `GrantsFields` are used wherever `limits` and `grants` occur.
    #[must_use]
    pub fn schema() -> Schema {
        let mut schema = schema_for!(Document);
        schema.insert("title".to_owned(), "PluginHostConfiguration".into());
        schema
    }
}

pub(super) fn execution(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["auto", "native", "wasm"] })
}

pub(super) fn failure_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["Fail", "Ignore"] })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::*;
    use crate::{Execution, FailurePolicy};

    #[test]
    fn names_of_the_schema_are_those_that_are_read() {
        let mut generator = SchemaGenerator::default();
        let names = |schema: Schema| schema.get("enum").and_then(|names| names.as_array().cloned()).expect("names");
        for name in names(execution(&mut generator)) {
            Execution::deserialize(&name).expect("a way to run");
        }
        for name in names(failure_policy(&mut generator)) {
            FailurePolicy::deserialize(&name).expect("a policy");
        }
    }
}
