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

/// Checks a read of objects of a kind that the replica does not have.
pub(crate) fn expect_objects(needs: &Needs, api_version: &str, kind: &str) {
    if !needs.objects.iter().any(|named| named.api_version == api_version && named.kind == kind) {
        tell(&format!("objects {api_version}/{kind}"));
    }
}

/// Logs the read. The scheduler recognises the line by its beginning.
fn tell(what: &str) {
    if TOLD.with_borrow_mut(|told| told.insert(what.to_owned())) {
        crate::log::warn(&format!("undeclared read: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::ObjectKind;

    use super::*;

    #[test]
    fn reads_of_nodes_and_pods_that_the_manifest_does_not_declare_are_told_once() {
        let keys = vec!["zone".to_owned()];
        let needs = Needs {
            columns: [Column::Labels, Column::Annotations].into_iter().collect(),
            label_keys: keys.clone(),
            annotation_keys: keys,
            ..Needs::default()
        };
        for _ in 0..2 {
            expect_column(&needs, Column::Labels, "NodeView::labels");
            expect_column(&needs, Column::PodCount, "NodeView::pod_count");
            expect_field(needs.pod_json, "pod_json", "PodView::json");
            for key in ["zone", "rack"] {
                expect_label(&needs, key);
                expect_annotation(&needs, key);
            }
            expect_label(&Needs::default(), "zone");
        }
        let told = [
            "Column::Labels (NodeView::label)",
            "Column::PodCount (NodeView::pod_count)",
            "annotation rack",
            "label rack",
            "pod_json (PodView::json)",
        ];
        assert!(TOLD.take().into_iter().eq(told));
    }

    #[test]
    fn a_kind_that_the_manifest_does_not_name_is_told_once() {
        let secrets = ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() };
        let needs = Needs { objects: vec![secrets], ..Needs::default() };
        for kind in ["Secret", "ConfigMap", "ConfigMap"] {
            expect_objects(&needs, "v1", kind);
        }
        assert!(TOLD.take().into_iter().eq(["objects v1/ConfigMap"]));
    }
}
