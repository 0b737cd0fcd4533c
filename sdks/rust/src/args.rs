//! A plugin's arguments. They are decoded from JSON with errors that help an operator.

use berth_framework::ConfigureError;
use serde::de::DeserializeOwned;

/// Decodes the arguments of `configure`. A profile without `pluginConfig` gives `null`, which means `{}`.
///
/// # Errors
/// The error says which field is refused, and why.
pub fn decode_args<T: DeserializeOwned>(args: &str) -> Result<T, ConfigureError> {
    let args = if matches!(args.trim(), "" | "null") { "{}" } else { args };
    let mut decoder = serde_json::Deserializer::from_str(args);
    let decoded = serde_path_to_error::deserialize(&mut decoder).map_err(|error| {
        let field = error.path().to_string();
        let reason = without_place(&error.into_inner());
        let is_named = field == "." || reason.starts_with(&format!("unknown field `{field}`"));
        ConfigureError::new(if is_named { reason } else { format!("{field}: {reason}") })
    })?;
    decoder.end().map_err(|error| ConfigureError::new(without_place(&error)))?;
    Ok(decoded)
}

/// The operator wrote YAML, so a place in its JSON is of no use.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::decode_args;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Args {
        max: i64,
        #[serde(default)]
        weights: BTreeMap<String, Vec<u8>>,
    }

    #[test]
    fn an_error_names_the_field() {
        for (args, reason) in [
            (r#"{"max": "many"}"#, "max: invalid type: string \"many\", expected i64"),
            (r#"{"max": 1, "weights": {"cpu": [1, -1]}}"#, "weights.cpu[1]: invalid value: integer `-1`, expected u8"),
            (r#"{"min": 1}"#, "unknown field `min`, expected `max` or `weights`"),
            ("null", "missing field `max`"),
            (r#"{"max": 3} 4"#, "trailing characters"),
        ] {
            assert_eq!(decode_args::<Args>(args).unwrap_err().to_string(), reason);
        }
        let Args { max, weights } = decode_args(r#"{"max": 3}"#).unwrap();
        assert_eq!((max, weights.len()), (3, 0));
    }
}
