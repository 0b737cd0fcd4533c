//! The kinds that the sandbox serves: their names in paths and on the command line, and how a body is decoded.
//!
//! Built-in kinds are rows of one table. Two rows may share a collection: `events` of core/v1 and of
//! `events.k8s.io/v1` are two views of the same objects. Custom resources become kinds at run time, see `crd`.

use std::sync::Arc;

use k8s_openapi::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::Schema;

/// One resource of one group version.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The API group, empty for core.
    pub(crate) group: String,
    /// The version inside the group.
    pub(crate) version: String,
    /// The kind, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of a list of them.
    pub(crate) list_kind: String,
    /// The resource in paths, such as `pods`.
    pub(crate) plural: String,
    /// The singular name for the command line.
    pub(crate) singular: String,
    /// Short names for the command line, such as `po`.
    pub(crate) short_names: Vec<String>,
    /// Categories such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Whether there is a `status` subresource.
    pub(crate) has_status: bool,
    /// Where `scale` finds its numbers, if there is such a subresource.
    pub(crate) scale: Option<Scale>,
    /// How bodies are read.
    pub(crate) decoding: Decoding,
}

/// JSON pointers of the fields behind a `scale` subresource.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    /// The wanted replicas.
    pub(crate) spec_replicas: String,
    /// The observed replicas.
    pub(crate) status_replicas: String,
    /// The selector, in either form.
    pub(crate) selector: Option<String>,
}

/// How the fields of a body become known.
#[derive(Debug)]
pub(crate) enum Decoding {
    /// Decodes as the built-in type and encodes again; what is lost was unknown.
    Typed(fn(&Value) -> Result<Value, serde_json::Error>),
    /// A custom resource with its structural schema.
    Custom(Arc<Schema>),
}

impl Kind {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `deployments.apps`, the form used in messages.
    pub(crate) fn qualified_resource(&self) -> String {
        self.qualify(&self.plural)
    }

    /// A resource name with the group behind it.
    pub(crate) fn qualify(&self, resource: &str) -> String {
        if self.group.is_empty() { resource.to_owned() } else { format!("{resource}.{}", self.group) }
    }

    /// The collection that holds the objects.
    pub(crate) fn collection(&self) -> String {
        if self.is("events.k8s.io", "events") { "events".to_owned() } else { self.qualified_resource() }
    }

    /// Whether this is the resource `plural` of `group`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether this is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.decoding, Decoding::Custom(_))
    }

    /// Whether objects carry `metadata.generation`.
    pub(crate) fn has_generation(&self) -> bool {
        const WITH_GENERATION: [&str; 14] = [
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
        ];
        self.is_custom() || WITH_GENERATION.contains(&self.plural.as_str())
    }

    /// The type meta that every object of this kind starts with, as the opening of its JSON text.
    pub(crate) fn type_meta_json(&self) -> String {
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.kind, self.api_version())
    }
}

/// What the table says about a kind beyond its type.
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    flags: &'static str,
    decode: fn(&Value) -> Result<Value, serde_json::Error>,
}

impl Row {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    fn kind(&self) -> Kind {
        let scale = self.has('r').then(|| Scale {
            spec_replicas: "/spec/replicas".to_owned(),
            status_replicas: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        });
        Kind {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: self.short.iter().map(|&name| name.to_owned()).collect(),
            categories: [('a', "all"), ('x', "api-extensions")]
                .into_iter()
                .filter(|(flag, _)| self.has(*flag))
                .map(|(_, category)| category.to_owned())
                .collect(),
            namespaced: self.has('n'),
            has_status: self.has('s'),
            scale,
            decoding: Decoding::Typed(self.decode),
        }
    }
}

/// All built-in kinds, in the order of discovery.
///
/// Flags: `n` namespaced, `s` has a status subresource, `r` has replicas to scale, `a` belongs to the category `all`,
/// `x` to `api-extensions`.
pub(crate) fn built_in() -> Vec<Kind> {
    let core = [
        row::<api::core::v1::ConfigMap>("", "ConfigMap", "configmaps", &["cm"], "n"),
        row::<api::core::v1::Endpoints>("", "Endpoints", "endpoints", &["ep"], "n"),
        row::<api::core::v1::Event>("", "Event", "events", &["ev"], "n"),
        row::<api::core::v1::LimitRange>("", "LimitRange", "limitranges", &["limits"], "n"),
        row::<api::core::v1::Namespace>("", "Namespace", "namespaces", &["ns"], "s"),
        row::<api::core::v1::Node>("", "Node", "nodes", &["no"], "s"),
        row::<api::core::v1::PersistentVolumeClaim>(
            "",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            &["pvc"],
            "ns",
        ),
        row::<api::core::v1::PersistentVolume>("", "PersistentVolume", "persistentvolumes", &["pv"], "s"),
        row::<api::core::v1::Pod>("", "Pod", "pods", &["po"], "nsa"),
        row::<api::core::v1::PodTemplate>("", "PodTemplate", "podtemplates", &[], "n"),
        row::<api::core::v1::ReplicationController>(
            "",
            "ReplicationController",
            "replicationcontrollers",
            &["rc"],
            "nsra",
        ),
        row::<api::core::v1::ResourceQuota>("", "ResourceQuota", "resourcequotas", &["quota"], "ns"),
        row::<api::core::v1::Secret>("", "Secret", "secrets", &[], "n"),
        row::<api::core::v1::ServiceAccount>("", "ServiceAccount", "serviceaccounts", &["sa"], "n"),
        row::<api::core::v1::Service>("", "Service", "services", &["svc"], "nsa"),
    ];
    core.iter()
        .map(Row::kind)
        .chain(workloads().iter().map(Row::kind))
        .chain(cluster_kinds().iter().map(Row::kind))
        .collect()
}

fn workloads() -> [Row; 10] {
    [
        row::<api::apps::v1::ControllerRevision>("apps", "ControllerRevision", "controllerrevisions", &[], "n"),
        row::<api::apps::v1::DaemonSet>("apps", "DaemonSet", "daemonsets", &["ds"], "nsa"),
        row::<api::apps::v1::Deployment>("apps", "Deployment", "deployments", &["deploy"], "nsra"),
        row::<api::apps::v1::ReplicaSet>("apps", "ReplicaSet", "replicasets", &["rs"], "nsra"),
        row::<api::apps::v1::StatefulSet>("apps", "StatefulSet", "statefulsets", &["sts"], "nsra"),
        row::<api::events::v1::Event>("events.k8s.io", "Event", "events", &["ev"], "n"),
        row::<api::batch::v1::CronJob>("batch", "CronJob", "cronjobs", &["cj"], "nsa"),
        row::<api::batch::v1::Job>("batch", "Job", "jobs", &[], "nsa"),
        row::<api::policy::v1::PodDisruptionBudget>(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            &["pdb"],
            "ns",
        ),
        row::<api::coordination::v1::Lease>("coordination.k8s.io", "Lease", "leases", &[], "n"),
    ]
}

fn cluster_kinds() -> [Row; 17] {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    const RBAC: &str = "rbac.authorization.k8s.io";
    const STORAGE: &str = "storage.k8s.io";
    const RESOURCE: &str = "resource.k8s.io";
    const CRD: &str = "customresourcedefinitions";
    [
        row::<api::rbac::v1::ClusterRoleBinding>(RBAC, "ClusterRoleBinding", "clusterrolebindings", &[], ""),
        row::<api::rbac::v1::ClusterRole>(RBAC, "ClusterRole", "clusterroles", &[], ""),
        row::<api::rbac::v1::RoleBinding>(RBAC, "RoleBinding", "rolebindings", &[], "n"),
        row::<api::rbac::v1::Role>(RBAC, "Role", "roles", &[], "n"),
        row::<api::storage::v1::CSIDriver>(STORAGE, "CSIDriver", "csidrivers", &[], ""),
        row::<api::storage::v1::CSINode>(STORAGE, "CSINode", "csinodes", &[], ""),
        row::<api::storage::v1::CSIStorageCapacity>(STORAGE, "CSIStorageCapacity", "csistoragecapacities", &[], "n"),
        row::<api::storage::v1::StorageClass>(STORAGE, "StorageClass", "storageclasses", &["sc"], ""),
        row::<api::storage::v1::VolumeAttachment>(STORAGE, "VolumeAttachment", "volumeattachments", &[], "s"),
        row::<CustomResourceDefinition>(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            CRD,
            &["crd", "crds"],
            "sx",
        ),
        row::<api::scheduling::v1::PriorityClass>("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"], ""),
        row::<api::node::v1::RuntimeClass>("node.k8s.io", "RuntimeClass", "runtimeclasses", &[], ""),
        row::<api::discovery::v1::EndpointSlice>("discovery.k8s.io", "EndpointSlice", "endpointslices", &[], "n"),
        row::<api::resource::v1::DeviceClass>(RESOURCE, "DeviceClass", "deviceclasses", &[], ""),
        row::<api::resource::v1::ResourceClaim>(RESOURCE, "ResourceClaim", "resourceclaims", &[], "ns"),
        row::<api::resource::v1::ResourceClaimTemplate>(
            RESOURCE,
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            &[],
            "n",
        ),
        row::<api::resource::v1::ResourceSlice>(RESOURCE, "ResourceSlice", "resourceslices", &[], ""),
    ]
}

fn row<T: Serialize + DeserializeOwned>(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    flags: &'static str,
) -> Row {
    Row { group, kind, plural, short, flags, decode: round_trip::<T> }
}

fn round_trip<T: Serialize + DeserializeOwned>(body: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(body)?)
}
