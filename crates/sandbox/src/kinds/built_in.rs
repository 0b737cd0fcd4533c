//! The built-in kinds, one row each. Names and scopes come from the types.
//!
//! Two rows may share a collection: `events` of core/v1 and of `events.k8s.io/v1` are two views of the same objects.

use std::any::TypeId;

use k8s_openapi::{ListableResource, NamespaceResourceScope, Resource, api, api::resource::v1beta2::DeviceTaintRule};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::{Decoding, Kind, Scale};
use crate::release::KubernetesRelease;

/// All built-in kinds of a Kubernetes release, in the order of discovery.
pub(super) fn built_in_kinds(release: KubernetesRelease) -> Vec<Kind> {
    let of_release = match release {
        KubernetesRelease::V1_36 => Vec::new(),
        KubernetesRelease::V1_37 => kinds_of_1_37(),
    };
    [core_kinds(), workload_kinds(), other_kinds(), of_release].into_iter().flatten().collect()
}

/// The kinds that only a sandbox of 1.37 serves. An API server serves LeaseCandidates only if its `--runtime-config`
/// asks for them.
fn kinds_of_1_37() -> Vec<Kind> {
    vec![
        kind::<DeviceTaintRule>().with_status().promoted("v1", |body| promoted::<DeviceTaintRule>(body, "v1")),
        kind::<api::coordination::v1beta1::LeaseCandidate>(),
    ]
}

fn core_kinds() -> Vec<Kind> {
    vec![
        kind::<api::core::v1::ConfigMap>().short_names(&["cm"]),
        kind::<api::core::v1::Endpoints>().short_names(&["ep"]),
        kind::<api::core::v1::Event>().short_names(&["ev"]),
        kind::<api::core::v1::LimitRange>().short_names(&["limits"]),
        kind::<api::core::v1::Namespace>().short_names(&["ns"]).with_status(),
        kind::<api::core::v1::Node>().short_names(&["no"]).with_status(),
        kind::<api::core::v1::PersistentVolumeClaim>().short_names(&["pvc"]).with_status(),
        kind::<api::core::v1::PersistentVolume>().short_names(&["pv"]).with_status(),
        kind::<api::core::v1::Pod>().short_names(&["po"]).with_status().in_category("all"),
        kind::<api::core::v1::PodTemplate>(),
        kind::<api::core::v1::ReplicationController>().short_names(&["rc"]).with_status().scalable().in_category("all"),
        kind::<api::core::v1::ResourceQuota>().short_names(&["quota"]).with_status(),
        kind::<api::core::v1::Secret>(),
        kind::<api::core::v1::ServiceAccount>().short_names(&["sa"]),
        kind::<api::core::v1::Service>().short_names(&["svc"]).with_status().in_category("all"),
    ]
}

fn workload_kinds() -> Vec<Kind> {
    vec![
        kind::<api::apps::v1::ControllerRevision>(),
        kind::<api::apps::v1::DaemonSet>().short_names(&["ds"]).with_status().in_category("all"),
        kind::<api::apps::v1::Deployment>().short_names(&["deploy"]).with_status().scalable().in_category("all"),
        kind::<api::apps::v1::ReplicaSet>().short_names(&["rs"]).with_status().scalable().in_category("all"),
        kind::<api::apps::v1::StatefulSet>().short_names(&["sts"]).with_status().scalable().in_category("all"),
        kind::<api::events::v1::Event>().short_names(&["ev"]),
        kind::<api::batch::v1::CronJob>().short_names(&["cj"]).with_status().in_category("all"),
        kind::<api::batch::v1::Job>().with_status().in_category("all"),
        kind::<api::policy::v1::PodDisruptionBudget>().short_names(&["pdb"]).with_status(),
        kind::<api::coordination::v1::Lease>(),
    ]
}

fn other_kinds() -> Vec<Kind> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    vec![
        kind::<api::rbac::v1::ClusterRoleBinding>(),
        kind::<api::rbac::v1::ClusterRole>(),
        kind::<api::rbac::v1::RoleBinding>(),
        kind::<api::rbac::v1::Role>(),
        kind::<api::storage::v1::CSIDriver>(),
        kind::<api::storage::v1::CSINode>(),
        kind::<api::storage::v1::CSIStorageCapacity>(),
        kind::<api::storage::v1::StorageClass>().short_names(&["sc"]),
        kind::<api::storage::v1::VolumeAttachment>().with_status(),
        kind::<CustomResourceDefinition>().short_names(&["crd", "crds"]).with_status().in_category("api-extensions"),
        kind::<api::scheduling::v1::PriorityClass>().short_names(&["pc"]),
        kind::<api::node::v1::RuntimeClass>(),
        kind::<api::networking::v1::NetworkPolicy>().short_names(&["netpol"]),
        kind::<api::discovery::v1::EndpointSlice>(),
        kind::<api::resource::v1::DeviceClass>(),
        kind::<api::resource::v1::ResourceClaim>().with_status(),
        kind::<api::resource::v1::ResourceClaimTemplate>(),
        kind::<api::resource::v1::ResourceSlice>(),
    ]
}

/// A kind with only the data of its type.
fn kind<T>() -> Kind
where
    T: ListableResource<Scope: 'static> + Serialize + DeserializeOwned,
{
    Kind {
        group: T::GROUP.to_owned(),
        version: T::VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        list_kind: T::LIST_KIND.to_owned(),
        plural: T::URL_PATH_SEGMENT.to_owned(),
        singular: T::KIND.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: TypeId::of::<T::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        has_status: false,
        scale: None,
        decoding: Decoding::Typed(round_trip::<T>),
    }
}

impl Kind {
    fn short_names(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Adds the `status` subresource.
    fn with_status(mut self) -> Self {
        self.has_status = true;
        self
    }

    /// Adds the `scale` subresource for the fields that all built-in workloads share.
    fn scalable(mut self) -> Self {
        self.scale = Some(Scale {
            spec_replicas: "/spec/replicas".to_owned(),
            status_replicas: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        });
        self
    }

    /// Serves the kind in a newer version than that of its Rust type. The fields are the same in both versions.
    fn promoted(mut self, version: &str, decode: fn(&Value) -> Result<Value, serde_json::Error>) -> Self {
        version.clone_into(&mut self.version);
        self.decoding = Decoding::Typed(decode);
        self
    }

    fn in_category(mut self, category: &str) -> Self {
        self.categories.push(category.to_owned());
        self
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(body: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(body)?)
}

/// [`round_trip`] for an object with a later `apiVersion` than the type's.
fn promoted<T: Resource + Serialize + DeserializeOwned>(
    body: &Value,
    version: &str,
) -> Result<Value, serde_json::Error> {
    let as_version = |body: &Value, api_version: String| {
        let mut body = body.clone();
        if let Some(known) = body.get_mut("apiVersion") {
            *known = api_version.into();
        }
        body
    };
    let decoded = round_trip::<T>(&as_version(body, T::API_VERSION.to_owned()))?;
    Ok(as_version(&decoded, format!("{}/{version}", T::GROUP)))
}

#[cfg(test)]
mod tests {
    use crate::{kinds::Registry, release::KubernetesRelease};

    #[test]
    fn a_release_serves_its_own_kinds() {
        let served = |release| {
            let registry = Registry::new(release);
            let kinds = [
                ("resource.k8s.io", "v1", "devicetaintrules"),
                ("resource.k8s.io", "v1beta2", "devicetaintrules"),
                ("coordination.k8s.io", "v1beta1", "leasecandidates"),
                ("resource.k8s.io", "v1", "resourceclaims"),
            ];
            kinds.map(|(group, version, plural)| registry.find(group, version, plural).is_some())
        };
        assert_eq!(served(KubernetesRelease::V1_36), [false, false, false, true]);
        assert_eq!(served(KubernetesRelease::V1_37), [true, false, true, true]);
    }
}
