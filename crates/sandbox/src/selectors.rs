//! Selects objects: by the selectors of a request, and by the selectors in specs.

mod field_selector;
mod label_selector;
pub(crate) mod spec_selector;

use serde_json::Value;

pub(crate) use field_selector::FieldSelector;
pub(crate) use label_selector::LabelSelector;

/// Both selectors of a request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Selector {
    /// The selector by labels.
    pub(crate) labels: LabelSelector,
    /// The selector by fields.
    pub(crate) fields: FieldSelector,
}

impl Selector {
    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether a stored object matches.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}
