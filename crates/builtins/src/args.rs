//! Reading a plugin's args.

use serde::{Deserialize, de::DeserializeOwned};

const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// Args of a plugin that takes none.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NoArgs {}

/// Decodes `args`; `null` and the empty text are the defaults of `T`. `kind`, without `Args`, is the plugin's name.
pub(crate) fn parse<T: Default + DeserializeOwned>(kind: &str, args: &str) -> Result<T, String> {
    if args.trim().is_empty() {
        return Ok(T::default());
    }
    let refused = |error: serde_json::Error| format!("{kind}Args: {error}");
    let mut value: serde_json::Value = serde_json::from_str(args).map_err(refused)?;
    if let Some(fields) = value.as_object_mut() {
        expect_text(fields.remove("apiVersion"), API_VERSION, "apiVersion")?;
        expect_text(fields.remove("kind"), &format!("{kind}Args"), "kind")?;
    }
    let args: Option<T> = serde_json::from_value(value).map_err(refused)?;
    Ok(args.unwrap_or_default())
}

fn expect_text(found: Option<serde_json::Value>, expected: &str, field: &str) -> Result<(), String> {
    match found {
        Some(found) if found.as_str() != Some(expected) => Err(format!("{field} must be {expected}, not {found}")),
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
