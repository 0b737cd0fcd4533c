//! Reads that the manifest does not declare. They are always empty, which is logged once.

use std::{cell::RefCell, collections::BTreeSet};

use berth_framework::Needs;
use berth_model::Column;

thread_local! {
    static TOLD: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Checks a read of a column.
pub(super) fn expect_column(needs: &Needs, column: Column, read: &str) {
    if !needs.columns.contains(column) {
        tell(&format!("Column::{column:?} ({read})"));
    }
}

/// Checks a search for a label that was not found.
pub(super) fn expect_label(needs: &Needs, key: &str) {
    if !needs.columns.contains(Column::Labels) {
        tell("Column::Labels (NodeView::label)");
    } else if !needs.label_keys.is_empty() && !needs.label_keys.iter().any(|known| known == key) {
        tell(&format!("label {key}"));
    }
}

/// Checks a search for an annotation that was not found.
pub(super) fn expect_annotation(needs: &Needs, key: &str) {
    if !needs.columns.contains(Column::Annotations) || !needs.annotation_keys.iter().any(|known| known == key) {
        tell(&format!("annotation {key}"));
    }
}

/// Checks a read that a field of the manifest must request.
pub(super) fn expect_field(is_asked_for: bool, field: &str, read: &str) {
    if !is_asked_for {
        tell(&format!("{field} ({read})"));
    }
}

/// Logs the read. The scheduler recognises the line by its beginning.
fn tell(what: &str) {
    if TOLD.with_borrow_mut(|told| told.insert(what.to_owned())) {
        crate::log::warn(&format!("undeclared read: {what}"));
    }
}
