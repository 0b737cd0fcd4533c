//! Views of objects that say which objects they cannot read.
//!
//! An object that does not decode counts as absent. Only the log tells it from an object that does not exist.

use crate::{
    log::warn,
    model::{ObjectTable, ObjectView},
};

/// Brings the view up to date from `table.objects()`. An object that cannot be decoded counts as absent, and the log
/// names it with the reason, once for each reason. Returns whether anything changed.
pub fn refresh_view<T>(view: &mut ObjectView<T>, objects: &ObjectTable) -> bool {
    let has_changed = view.refresh(objects);
    unreadable(view).iter().for_each(|line| warn(line));
    has_changed
}

/// A line for each object that the last refresh could not decode.
fn unreadable<T>(view: &ObjectView<T>) -> Vec<String> {
    let kind = view.shown_kind();
    let line = |(namespace, name, reason): (&str, &str, &String)| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name} cannot be read and counts as absent: {reason}")
    };
    view.new_problems().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::Deserialize;

    use super::*;
    use crate::model::ObjectChange;

    #[derive(Debug, Deserialize)]
    struct Rating {
        stars: i64,
    }

    fn rating(name: &str, json: &str) -> ObjectChange {
        ObjectChange {
            api_version: "example.com/v1".to_owned(),
            kind: "Rating".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            json: Some(Arc::from(json.as_bytes())),
        }
    }

    #[test]
    fn an_object_that_does_not_decode_is_told_once() {
        let mut table = ObjectTable::default();
        table.apply(&rating("good", r#"{"stars": 3}"#));
        table.apply(&rating("empty", "{}"));
        let mut view = ObjectView::<Rating>::new("example.com/v1", "Rating");
        assert!(refresh_view(&mut view, &table));
        let [line] = &unreadable(&view)[..] else { panic!("one object is told") };
        let told = "example.com/v1/Rating empty cannot be read and counts as absent: missing field `stars`";
        assert!(line.starts_with(told), "{line}");
        assert_eq!(view.get("", "good").map(|rating| rating.stars), Some(3));
        assert!(!refresh_view(&mut view, &table));
        assert!(unreadable(&view).is_empty());
    }
}
