//! The built-in kinds, one row each.
//!
//! Two rows may share a collection: `events` of core/v1 and of `events.k8s.io/v1` are two views of the same objects.

use k8s_openapi::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::{Decoding, Kind, Scale};

/// What the table says about a kind beyond its type.
struct KindRow {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    flags: &'static str,
    decode: fn(&Value) -> Result<Value, serde_json::Error>,
}

impl KindRow {
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
        .map(KindRow::kind)
        .chain(workloads().iter().map(KindRow::kind))
        .chain(cluster_kinds().iter().map(KindRow::kind))
        .collect()
}

fn workloads() -> [KindRow; 10] {
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

fn cluster_kinds() -> [KindRow; 17] {
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
) -> KindRow {
    KindRow { group, kind, plural, short, flags, decode: round_trip::<T> }
}

fn round_trip<T: Serialize + DeserializeOwned>(body: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(body)?)
}
