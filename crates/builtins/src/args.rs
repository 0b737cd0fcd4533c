//! Reading a plugin's args, and the error for args that a plugin refuses.

use berth_framework::ConfigureError;
use berth_model::Features;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// The reason why args are refused. Most variants are error types of Kubernetes' API validation, with the same texts
/// (`k8s.io/apimachinery/pkg/util/validation/field`). A path names a field within the args.
#[derive(Debug, Error)]
pub(crate) enum ArgsError {
    #[error("{plugin}Args: {source}")]
    Json { plugin: String, source: serde_json::Error },
    #[error("{field} must be {expected}, not {found}")]
    TypeMeta { field: &'static str, expected: String, found: Value },
    #[error("{path}: Required value: can not be empty")]
    Required { path: String },
    #[error("{path}: Invalid value: {value}: {why}")]
    Invalid { path: String, value: String, why: &'static str },
    #[error("{path}: Unsupported value: {value:?}: supported values: {supported}")]
    Unsupported { path: String, value: String, supported: String },
    #[error("{path}: Forbidden: {why}")]
    Forbidden { path: String, why: &'static str },
    #[error("{path}: Duplicate value: {value:?}")]
    Duplicate { path: String, value: String },
}

impl ArgsError {
    pub(crate) fn invalid(path: impl Into<String>, value: impl ToString, why: &'static str) -> Self {
        Self::Invalid { path: path.into(), value: value.to_string(), why }
    }
}

impl From<ArgsError> for ConfigureError {
    fn from(error: ArgsError) -> Self {
        Self::new(error)
    }
}

/// The error as text, for plugins whose own checks return text.
impl From<ArgsError> for String {
    fn from(error: ArgsError) -> Self {
        error.to_string()
    }
}

/// The args of a plugin without args.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NoArgs {}

/// Decodes the args of `plugin`, which may have an `apiVersion` and a `kind`. `null` and the empty text stand for the
/// defaults of `T`.
pub(crate) fn parse<T: Default + DeserializeOwned>(plugin: &str, args: &str) -> Result<T, ArgsError> {
    let value = untyped(plugin, args)?;
    decode(plugin, value)
}

/// Does the work of [`parse`] for a plugin with a rule that depends on [`Features`]. The field `features` of the args
/// contains the features that differ from the default. The host adds this field.
pub(crate) fn parse_with_features<T: Default + DeserializeOwned>(
    plugin: &str,
    args: &str,
) -> Result<(T, Features), ArgsError> {
    let mut value = untyped(plugin, args)?;
    let features = value.as_object_mut().and_then(|fields| fields.remove(Features::IN_ARGS));
    let features = features.map_or_else(|| Ok(Features::default()), |features| decode(plugin, features))?;
    Ok((decode(plugin, value)?, features))
}

/// The args without `apiVersion` and `kind`. If these fields are present, they must have the values for the plugin's
/// args.
fn untyped(plugin: &str, args: &str) -> Result<Value, ArgsError> {
    if args.trim().is_empty() {
        return Ok(Value::Null);
    }
    let refused = |source| ArgsError::Json { plugin: plugin.to_owned(), source };
    let mut value: Value = serde_json::from_str(args).map_err(refused)?;
    if let Some(fields) = value.as_object_mut() {
        expect_text("apiVersion", API_VERSION, fields.remove("apiVersion"))?;
        expect_text("kind", &format!("{plugin}Args"), fields.remove("kind"))?;
    }
    Ok(value)
}

fn decode<T: Default + DeserializeOwned>(plugin: &str, value: Value) -> Result<T, ArgsError> {
    let refused = |source| ArgsError::Json { plugin: plugin.to_owned(), source };
    let decoded: Option<T> = serde_json::from_value(value).map_err(refused)?;
    Ok(decoded.unwrap_or_default())
}

fn expect_text(field: &'static str, expected: &str, found: Option<Value>) -> Result<(), ArgsError> {
    match found {
        Some(found) if found.as_str() != Some(expected) => {
            Err(ArgsError::TypeMeta { field, expected: expected.to_owned(), found })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_meta_is_checked_and_dropped() {
        let accepted = ["", "null", "{}", r#"{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"NodePortsArgs"}"#];
        for args in accepted {
            assert!(parse::<NoArgs>("NodePorts", args).is_ok(), "{args}");
        }
        let refused = [r#"{"kind":"NodeNameArgs"}"#, r#"{"apiVersion":"v1"}"#, r#"{"nonsense":1}"#, "[1]", "{"];
        for args in refused {
            assert!(parse::<NoArgs>("NodePorts", args).is_err(), "{args}");
        }
    }
}
