//! One request: its target, and its content.

use std::sync::Arc;

use axum::body::Bytes;
use http::{HeaderMap, Method};

use super::query::Query;
use crate::kinds::Kind;
use crate::objects::update::UpdateTarget;

/// The target of the path of a request.
#[derive(Debug)]
pub(super) struct Target {
    /// The kind.
    pub(super) kind: Arc<Kind>,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub(super) namespace: String,
    /// The name of the object; `None` for the collection.
    pub(super) name: Option<String>,
    /// The subresource; empty for the object itself.
    pub(super) subresource: String,
    /// Whether the path is one of the deprecated watch paths, `/api/v1/watch/...`.
    pub(super) watch: bool,
}

/// A request with its body, which was read.
#[derive(Debug)]
pub(super) struct Request {
    /// The method.
    pub(super) method: Method,
    /// The decoded query.
    pub(super) query: Query,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) body: Bytes,
}

impl Target {
    /// The object `name` of this kind and namespace, for a write to this subresource.
    pub(super) fn update<'a>(&'a self, name: &'a str) -> UpdateTarget<'a> {
        UpdateTarget { kind: &self.kind, namespace: &self.namespace, name, subresource: &self.subresource }
    }
}

/// Resolves percent escapes of a path segment.
pub(super) fn decode_percent(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = if first == b'%' { after.get(..2) } else { None };
        let code =
            escaped.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
