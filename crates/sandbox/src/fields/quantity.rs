//! Quantities such as `500m` and `1Gi` in objects. Quantities are checked and written in canonical form.
//!
//! Fields with quantities are recognised by their names, which are unambiguous in the kinds served here.

use berth_model::quantity::Quantity;
use serde_json::Value;

/// Maps with quantities as values.
const MAPS: [&str; 14] = [
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "overhead",
    "podFixed",
    "hard",
    "used",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
    "allocatedResources",
];

/// A field contains a text that is not a quantity. The message has the API server's words.
#[derive(Debug, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub(crate) struct MalformedQuantity;

/// Refuses an object with a malformed quantity.
pub(crate) fn check(value: &Value) -> Result<(), MalformedQuantity> {
    visit(value, &mut |quantity| {
        let well_formed = quantity.as_str().is_none_or(|text| text.parse::<Quantity>().is_ok());
        if well_formed { Ok(()) } else { Err(MalformedQuantity) }
    })
}

fn visit(
    value: &Value,
    inspect: &mut impl FnMut(&Value) -> Result<(), MalformedQuantity>,
) -> Result<(), MalformedQuantity> {
    match value {
        Value::Object(members) => members.iter().try_for_each(|(key, member)| match member {
            Value::Object(quantities) if MAPS.contains(&key.as_str()) => {
                quantities.values().filter(|quantity| !quantity.is_object()).try_for_each(&mut *inspect)
            }
            other => visit(other, inspect),
        }),
        Value::Array(elements) => elements.iter().try_for_each(|element| visit(element, inspect)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Rewrites all quantities of an object in canonical form.
pub(crate) fn canonicalise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match member {
                    Value::Object(quantities) if MAPS.contains(&key.as_str()) => {
                        quantities.values_mut().for_each(canonicalise_one);
                    }
                    other => canonicalise(other),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(canonicalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn canonicalise_one(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return canonicalise(value),
    };
    if let Ok(quantity) = text.parse::<Quantity>() {
        *value = quantity.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_become_canonical() {
        for (given, canonical) in [
            (json!("0.5"), "500m"),
            (json!("1000m"), "1"),
            (json!("1024Mi"), "1Gi"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("2000"), "2k"),
            (json!(110), "110"),
            (json!("1e3"), "1e3"),
            (json!("0"), "0"),
            (json!("512Ki"), "512Ki"),
        ] {
            let mut object = json!({"requests": {"example.com/thing": given}});
            assert!(check(&object).is_ok());
            canonicalise(&mut object);
            assert_eq!(object["requests"]["example.com/thing"], canonical);
        }
        assert!(check(&json!({"limits": {"cpu": "abc"}})).is_err());
    }
}
