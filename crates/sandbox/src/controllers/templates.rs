//! Objects that are created from a template in another object.

use serde_json::{Value, json};

use crate::fields::json::{carry, metadata_mut};

/// An object with the `spec` of the template and the named members of its `metadata`. The object has no name yet.
pub(super) fn from_template(template: &Value, members: &[&str]) -> Value {
    let mut object = json!({"spec": template.get("spec").cloned().unwrap_or_else(|| json!({}))});
    let given = template.get("metadata").unwrap_or(&Value::Null);
    for member in members {
        carry(given, metadata_mut(&mut object), member);
    }
    object
}
