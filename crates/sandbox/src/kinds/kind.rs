//! One kind of objects: its names in paths and on the command line, and the decoding of its bodies.

use std::sync::Arc;

use serde_json::Value;

use super::schema::Schema;

/// One resource of one group version.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The API group; empty for core.
    pub(crate) group: String,
    /// The version inside the group.
    pub(crate) version: String,
    /// The kind, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of a list of the kind's objects.
    pub(crate) list_kind: String,
    /// The resource in paths, such as `pods`.
    pub(crate) plural: String,
    /// The singular name for the command line.
    pub(crate) singular: String,
    /// Short names for the command line, such as `po`.
    pub(crate) short_names: Vec<String>,
    /// Categories such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects belong to a namespace.
    pub(crate) namespaced: bool,
    /// Whether there is a `status` subresource.
    pub(crate) has_status: bool,
    /// The places of the numbers of `scale`, `None` if the kind has no `scale`.
    pub(crate) scale: Option<Scale>,
    /// The decoding of bodies.
    pub(crate) decoding: Decoding,
}

/// JSON pointers of the fields behind a `scale` subresource.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    /// The wanted replicas.
    pub(crate) spec_replicas: String,
    /// The observed replicas.
    pub(crate) status_replicas: String,
    /// The selector, in either of its forms.
    pub(crate) selector: Option<String>,
}

/// The source of the known fields of a body.
#[derive(Debug)]
pub(crate) enum Decoding {
    /// The body is decoded as the built-in type and encoded again. Fields that the copy lacks are unknown.
    Typed(fn(&Value) -> Result<Value, serde_json::Error>),
    /// A custom resource with its structural schema.
    Custom(Arc<Schema>),
}

impl Kind {
    /// The group and version: `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name in messages: `pods` or `deployments.apps`.
    pub(crate) fn qualified_resource(&self) -> String {
        self.qualify(&self.plural)
    }

    /// A resource name, followed by the group.
    pub(crate) fn qualify(&self, resource: &str) -> String {
        if self.group.is_empty() { resource.to_owned() } else { format!("{resource}.{}", self.group) }
    }

    /// The collection that holds the objects.
    pub(crate) fn collection(&self) -> String {
        if self.is("events.k8s.io", "events") { "events".to_owned() } else { self.qualified_resource() }
    }

    /// Whether the kind is the resource `plural` of `group`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether the kind is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.decoding, Decoding::Custom(_))
    }

    /// Whether amounts of resources are written in canonical form. A custom definition may use any names for its
    /// properties, such as `min`.
    pub(crate) fn has_quantities(&self) -> bool {
        !self.is_custom() && !self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    /// Whether objects carry `metadata.generation`.
    pub(crate) fn has_generation(&self) -> bool {
        const WITH_GENERATION: [&str; 15] = [
            "pods",
            "replicationcontrollers",
            "deployments",
            "replicasets",
            "statefulsets",
            "daemonsets",
            "jobs",
            "cronjobs",
            "poddisruptionbudgets",
            "priorityclasses",
            "resourceslices",
            "deviceclasses",
            "customresourcedefinitions",
            "endpointslices",
            "networkpolicies",
        ];
        self.is_custom() || WITH_GENERATION.contains(&self.plural.as_str())
    }

    /// The type meta at the beginning of every object of this kind, as the start of its JSON text.
    pub(crate) fn type_meta_json(&self) -> String {
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.kind, self.api_version())
    }
}
