//! Kubernetes objects as the API server sends them, reduced to the fields that scheduling reads.
//!
//! Unknown fields are skipped. An absent field has its zero value. Strings are not interned. Serializing an object
//! gives the fields that were read. [`crate::pod::Pod`] and [`crate::node::Node`] are made from these types once, when
//! an object enters the cache. Fields have the names and meanings of the Kubernetes API (core/v1), and the reference of
//! that API describes each field.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize};

use crate::quantity::Quantity;

/// A map from strings to strings, as for labels and annotations.
pub type StringMap = BTreeMap<String, String>;
/// A map from resource names to amounts (`requests`, `limits`, `allocatable`).
pub type ResourceList = BTreeMap<String, Quantity>;

/// The parts of `metadata` that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`, as RFC 3339.
    pub creation_timestamp: Option<String>,
    /// `metadata.deletionTimestamp`, as RFC 3339. It is set while the object is being deleted.
    pub deletion_timestamp: Option<String>,
    /// `metadata.labels`.
    #[serde(deserialize_with = "null_as_default")]
    pub labels: StringMap,
    /// `metadata.annotations`.
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: StringMap,
    /// `metadata.ownerReferences`.
    #[serde(deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// An owner of the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// `metadata.ownerReferences[].apiVersion`.
    pub api_version: String,
    /// `metadata.ownerReferences[].kind`.
    pub kind: String,
    /// `metadata.ownerReferences[].name`.
    pub name: String,
    /// `metadata.ownerReferences[].uid`.
    pub uid: String,
    /// `metadata.ownerReferences[].controller`.
    pub controller: bool,
}

/// A pod (core/v1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: PodSpec,
    /// `status`.
    pub status: PodStatus,
    /// The JSON text from which the pod was decoded, for callers that need fields which this type does not have.
    #[serde(skip)]
    pub json: Option<Arc<[u8]>>,
}

/// A pod's `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// `spec.nodeName`.
    pub node_name: String,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.preemptionPolicy`.
    pub preemption_policy: Option<String>,
    /// `spec.nodeSelector`. Absent and empty differ: NodeAffinity skips only an absent selector.
    pub node_selector: Option<StringMap>,
    /// `spec.affinity`.
    pub affinity: Option<Affinity>,
    /// `spec.tolerations`.
    #[serde(deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
    /// `spec.topologySpreadConstraints`.
    #[serde(deserialize_with = "null_as_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// `spec.containers`.
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<Container>,
    /// `spec.initContainers`.
    #[serde(deserialize_with = "null_as_default")]
    pub init_containers: Vec<Container>,
    /// `spec.overhead`.
    pub overhead: Option<ResourceList>,
    /// Pod-level resources (KEP-2837).
    pub resources: Option<ResourceRequirements>,
    /// `spec.volumes`.
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<serde_json::Value>,
    /// `spec.schedulingGates`.
    #[serde(deserialize_with = "null_as_default")]
    pub scheduling_gates: Vec<Named>,
    /// `spec.resourceClaims`.
    #[serde(deserialize_with = "null_as_default")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// `spec.hostUsers`.
    pub host_users: Option<bool>,
    /// `spec.schedulingGroup`.
    pub scheduling_group: Option<SchedulingGroup>,
}

/// The group of pods that a pod belongs to (KEP-4671).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGroup {
    /// `spec.schedulingGroup.podGroupName`.
    pub pod_group_name: String,
}

/// A claim that a pod refers to, by name or by a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// `spec.resourceClaims[].name`.
    pub name: String,
    /// `spec.resourceClaims[].resourceClaimName`.
    pub resource_claim_name: Option<String>,
    /// `spec.resourceClaims[].resourceClaimTemplateName`.
    pub resource_claim_template_name: Option<String>,
}

/// The claim that was generated for one of the pod's [`PodResourceClaim`]s; `None` if the pod needs no claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaimStatus {
    /// `status.resourceClaimStatuses[].name`.
    pub name: String,
    /// `status.resourceClaimStatuses[].resourceClaimName`.
    pub resource_claim_name: Option<String>,
}

/// The claim that was made for the extended resources of a pod (KEP-5004).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtendedResourceClaimStatus {
    /// `status.extendedResourceClaimStatus.resourceClaimName`.
    pub resource_claim_name: String,
}

/// An object of which scheduling reads only the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Named {
    /// `name`.
    pub name: String,
}

/// A container or an init container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// `spec.containers[].name`.
    pub name: String,
    /// `spec.containers[].image`.
    pub image: String,
    /// `spec.containers[].resources`.
    pub resources: ResourceRequirements,
    /// `spec.containers[].ports`.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ContainerPort>,
    /// `spec.containers[].restartPolicy`. The value `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
    /// `spec.containers[].restartPolicyRules`.
    #[serde(deserialize_with = "null_as_default")]
    pub restart_policy_rules: Vec<RestartPolicyRule>,
    /// `spec.containers[].volumeMounts`.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// A volume as a container sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeMount {
    /// `spec.containers[].volumeMounts[].bindMountOptions`. Scheduling does not read the options themselves.
    #[serde(deserialize_with = "null_as_default")]
    pub bind_mount_options: Vec<serde_json::Value>,
}

/// A rule for the exit of a container (KEP-5307).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartPolicyRule {
    /// `spec.containers[].restartPolicyRules[].action`.
    pub action: String,
}

/// Requests and limits of a container or a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// `resources.requests`.
    #[serde(deserialize_with = "null_as_default")]
    pub requests: ResourceList,
    /// `resources.limits`.
    #[serde(deserialize_with = "null_as_default")]
    pub limits: ResourceList,
    /// `resources.claims`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ContainerClaim>,
}

/// A reference of a container to an entry of `spec.resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerClaim {
    /// `resources.claims[].name`.
    pub name: String,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// `spec.containers[].ports[].hostPort`.
    pub host_port: i32,
    /// `spec.containers[].ports[].hostIP`.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// `spec.containers[].ports[].protocol`.
    pub protocol: String,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// `spec.tolerations[].key`.
    pub key: String,
    /// `spec.tolerations[].operator`: `Exists`, `Lt` or `Gt`. An empty operator means `Equal`.
    pub operator: String,
    /// `spec.tolerations[].value`.
    pub value: String,
    /// `spec.tolerations[].effect`. An empty effect tolerates every effect.
    pub effect: String,
    /// `spec.tolerations[].tolerationSeconds`.
    pub toleration_seconds: Option<i64>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// `spec.taints[].key`.
    pub key: String,
    /// `spec.taints[].value`.
    pub value: String,
    /// `spec.taints[].effect`.
    pub effect: String,
}

/// A pod's `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// `spec.affinity.nodeAffinity`.
    pub node_affinity: Option<NodeAffinity>,
    /// `spec.affinity.podAffinity`.
    pub pod_affinity: Option<PodAffinity>,
    /// `spec.affinity.podAntiAffinity`.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Rules about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// `spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Option<Vec<PreferredSchedulingTerm>>,
}

/// A node selector. A node matches if it meets at least one of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// `nodeSelectorTerms`.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A term of a node selector. A node meets the term if it meets all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// `nodeSelectorTerms[].matchExpressions`.
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// `nodeSelectorTerms[].matchFields`.
    #[serde(deserialize_with = "null_as_default")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement of a node selector or of a label selector. Node selectors and label selectors allow different
/// operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    /// `matchExpressions[].key`.
    pub key: String,
    /// `matchExpressions[].operator`.
    pub operator: String,
    /// `matchExpressions[].values`.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

/// A node selector term with a weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreferredSchedulingTerm {
    /// `preferredDuringSchedulingIgnoredDuringExecution[].weight`.
    pub weight: i32,
    /// `preferredDuringSchedulingIgnoredDuringExecution[].preference`.
    pub preference: NodeSelectorTerm,
}

/// Rules about pods. `podAffinity` and `podAntiAffinity` have the same form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_as_default")]
    pub required: Vec<PodAffinityTerm>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_as_default")]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// A term that selects pods in domains of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// `podAffinityTerm.labelSelector`.
    pub label_selector: Option<LabelSelector>,
    /// `podAffinityTerm.namespaces`.
    #[serde(deserialize_with = "null_as_default")]
    pub namespaces: Vec<String>,
    /// `podAffinityTerm.namespaceSelector`.
    pub namespace_selector: Option<LabelSelector>,
    /// `podAffinityTerm.topologyKey`.
    pub topology_key: String,
}

/// A pod affinity term with a weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm {
    /// `preferredDuringSchedulingIgnoredDuringExecution[].weight`.
    pub weight: i32,
    /// `preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm`.
    pub pod_affinity_term: PodAffinityTerm,
}

/// A label selector. An absent selector matches nothing, and an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// `labelSelector.matchLabels`.
    #[serde(deserialize_with = "null_as_default")]
    pub match_labels: StringMap,
    /// `labelSelector.matchExpressions`.
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// A rule that spreads pods over domains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// `spec.topologySpreadConstraints[].maxSkew`.
    pub max_skew: i32,
    /// `spec.topologySpreadConstraints[].topologyKey`.
    pub topology_key: String,
    /// `spec.topologySpreadConstraints[].whenUnsatisfiable`.
    pub when_unsatisfiable: String,
    /// `spec.topologySpreadConstraints[].labelSelector`.
    pub label_selector: Option<LabelSelector>,
    /// `spec.topologySpreadConstraints[].minDomains`.
    pub min_domains: Option<i32>,
    /// `spec.topologySpreadConstraints[].nodeAffinityPolicy`.
    pub node_affinity_policy: Option<String>,
    /// `spec.topologySpreadConstraints[].nodeTaintsPolicy`.
    pub node_taints_policy: Option<String>,
    /// `spec.topologySpreadConstraints[].matchLabelKeys`.
    #[serde(deserialize_with = "null_as_default")]
    pub match_label_keys: Vec<String>,
}

/// A pod's `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `status.phase`.
    pub phase: String,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: String,
    /// `status.startTime`.
    pub start_time: Option<String>,
    /// `status.conditions`.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// `status.containerStatuses`.
    #[serde(deserialize_with = "null_as_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// `status.initContainerStatuses`.
    #[serde(deserialize_with = "null_as_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// `status.resources`: pod-level resources as actuated (in-place resize, KEP-5419).
    pub resources: Option<ResourceRequirements>,
    /// `status.allocatedResources`.
    pub allocated_resources: Option<ResourceList>,
    /// `status.resourceClaimStatuses`.
    #[serde(deserialize_with = "null_as_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    /// `status.extendedResourceClaimStatus`.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    /// `status.nodeAllocatableResourceClaimStatuses`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub node_allocatable_resource_claim_statuses: Vec<NodeAllocatableClaimStatus>,
}

/// The resources of its node that a pod takes through the devices of one claim (KEP-5517). Kubernetes 1.36 has
/// `resources`; 1.37 has `mapping` and `overhead` instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAllocatableClaimStatus {
    /// The name of the ResourceClaim.
    pub resource_claim_name: String,
    /// The containers that use the claim.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// The amounts, in Kubernetes 1.36.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "ResourceList::is_empty")]
    pub resources: ResourceList,
    /// The amounts that the devices stand for. They count once.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub mapping: Vec<NodeAllocatableMapping>,
    /// The amounts that the devices need in addition.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub overhead: Vec<NodeAllocatableOverhead>,
}

/// The amount of one resource that devices stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAllocatableMapping {
    /// The name of the resource.
    pub name: String,
    /// The amount.
    pub quantity: Quantity,
}

/// The amount of one resource that devices need in addition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAllocatableOverhead {
    /// The name of the resource.
    pub name: String,
    /// The amount for the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_pod: Option<Quantity>,
    /// The amount for each container that uses the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_container: Option<Quantity>,
}

/// A condition of a pod or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// `status.conditions[].type`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `status.conditions[].status`.
    pub status: String,
    /// `status.conditions[].reason`.
    pub reason: String,
    /// `status.conditions[].message`.
    pub message: String,
    /// `status.conditions[].observedGeneration`.
    pub observed_generation: i64,
    /// `status.conditions[].lastTransitionTime`.
    pub last_transition_time: Option<String>,
}

/// The status of a container, as reported by the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// `status.containerStatuses[].name`.
    pub name: String,
    /// `status.containerStatuses[].resources`.
    pub resources: Option<ResourceRequirements>,
    /// `status.containerStatuses[].allocatedResources`.
    pub allocated_resources: Option<ResourceList>,
}

/// A node (core/v1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: NodeSpec,
    /// `status`.
    pub status: NodeStatus,
}

/// A node's `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints`.
    #[serde(deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
}

/// A node's `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// `status.allocatable`.
    #[serde(deserialize_with = "null_as_default")]
    pub allocatable: ResourceList,
    /// `status.conditions`.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// `status.images`.
    #[serde(deserialize_with = "null_as_default")]
    pub images: Vec<ContainerImage>,
    /// `status.declaredFeatures`.
    #[serde(deserialize_with = "null_as_default")]
    pub declared_features: Vec<String>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerImage {
    /// `status.images[].names`.
    #[serde(deserialize_with = "null_as_default")]
    pub names: Vec<String>,
    /// `status.images[].sizeBytes`.
    pub size_bytes: i64,
}

/// Reads `null` as the default value, for `deserialize_with`. The API server writes `null` for some empty fields.
///
/// # Errors
/// The value is not `null` and not a `T`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
