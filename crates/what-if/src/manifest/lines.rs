//! Finds the line of a field in a text. The module reads the text again, so it is only used for errors.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_path_to_error::Segment;
use serde_saphyr::{Options, Spanned};

/// A step of the path from an object to one of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    pub(super) fn of_segment(segment: &Segment) -> Option<Self> {
        match segment {
            Segment::Seq { index } => Some(Self::Index(*index)),
            Segment::Map { key } => Some(Self::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

/// Returns `spec.containers[0].name`; `None` for the object itself.
pub(super) fn describe(path: &[Step]) -> Option<String> {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The options for reading manifests. Manifests are the user's own files, and as large as the cluster. Therefore only
/// the multiplication by aliases is limited.
pub(super) fn options() -> Options {
    let mut options = Options::default();
    if let Some(budget) = &mut options.budget {
        budget.max_events = usize::MAX;
        budget.max_nodes = usize::MAX;
        budget.max_total_scalar_bytes = usize::MAX;
    }
    options
}

/// The line of the field, counted from 1. If the field does not exist, the result is the line of the nearest existing
/// field above it.
pub(super) fn line_of(text: &str, path: &[Step]) -> Option<u64> {
    let mut node: Spanned<Content> = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let mut line = node.referenced.line();
    for step in path {
        let below = match (step, node.value) {
            (Step::Key(key), Content::Map(fields)) => {
                fields.into_iter().find(|(name, _)| name == key).map(|(_, it)| it)
            }
            (Step::Index(index), Content::List(items)) => items.into_iter().nth(*index),
            (Step::Key(_) | Step::Index(_), Content::Map(_) | Content::List(_) | Content::Scalar) => None,
        };
        let Some(below) = below else { break };
        line = below.referenced.line();
        node = below;
    }
    Some(line)
}

/// The content of one node of the YAML or JSON document.
enum Content {
    Map(Vec<(String, Spanned<Content>)>),
    List(Vec<Spanned<Content>>),
    Scalar,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Content::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Content::Scalar)
    }
}
