//! The keys of objects inside their collection.

/// The key of an object: `namespace/name`, or the name of a cluster-scoped object.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The namespace and the name in the key of a namespaced object.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or_default()
}

/// Whether a key belongs to the namespace; an empty namespace stands for all.
pub(super) fn is_in_namespace(key: &str, namespace: &str) -> bool {
    namespace.is_empty() || key.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'))
}
