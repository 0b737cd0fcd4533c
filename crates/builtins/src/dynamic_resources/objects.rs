//! The objects of `resource.k8s.io/v1` that allocation reads and writes.
//!
//! Decoding skips unknown fields and gives absent ones their zero value, so objects of a newer API server decode too. The
//! types that end up in the status of a claim can also be encoded. The Kubernetes API reference explains the fields:
//! <https://kubernetes.io/docs/reference/kubernetes-api/>.

use std::collections::BTreeMap;

use berth_model::{
    Time,
    api::{self, OwnerReference, StringMap, null_as_default},
    quantity::Quantity,
    selector::NodeMatcher,
};
use serde::{Deserialize, Serialize};

pub(super) const API_VERSION: &str = "resource.k8s.io/v1";
/// The API version of DeviceTaintRules in Kubernetes 1.36.
pub(super) const BETA_API_VERSION: &str = "resource.k8s.io/v1beta2";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// RFC 3339, in UTC.
    pub(super) creation_timestamp: Option<String>,
    /// The time of the deletion, set while the object is being deleted.
    pub(super) deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) annotations: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ResourceClaim {
    pub(super) metadata: Metadata,
    pub(super) spec: ClaimSpec,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ClaimSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) devices: DeviceClaim,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClaim {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) requests: Vec<DeviceRequest>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) constraints: Vec<DeviceConstraint>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) config: Vec<ClaimConfig>,
}

/// A request. Either `exactly` or `first_available` is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceRequest {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exactly: Option<SubRequest>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) first_available: Vec<SubRequest>,
}

/// `exactly`, or an entry of `firstAvailable`. Only `exactly` has `admin_access`, and only an entry of `firstAvailable`
/// has a name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SubRequest {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) device_class_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) selectors: Vec<DeviceSelector>,
    /// `All` or `ExactCount`; an empty text also means `ExactCount`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) allocation_mode: String,
    /// The number of devices. 0, which the API server does not accept, means 1.
    pub(super) count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) admin_access: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) tolerations: Vec<DeviceToleration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<CapacityRequirements>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct CapacityRequirements {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) requests: BTreeMap<String, Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct DeviceSelector {
    pub(super) cel: Option<CelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct CelSelector {
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceToleration {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) operator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceConstraint {
    /// The requests of the claim. An empty list means all of them.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) requests: Vec<String>,
    pub(super) match_attribute: Option<String>,
    pub(super) distinct_attribute: Option<String>,
}

/// Configuration in a claim or a class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ClaimConfig {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) requests: Vec<String>,
    pub(super) opaque: Option<OpaqueConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct OpaqueConfig {
    pub(super) driver: String,
    pub(super) parameters: serde_json::Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimStatus {
    pub(super) allocation: Option<Allocation>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) reserved_for: Vec<Consumer>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) devices: Vec<DeviceStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Consumer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_group: String,
    pub(super) resource: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The status that a driver reports for one allocated device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceStatus {
    pub(super) driver: String,
    pub(super) pool: String,
    pub(super) device: String,
    #[serde(rename = "shareID")]
    pub(super) share_id: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// `status.allocation`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Allocation {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) devices: AllocatedDevices,
    /// The nodes where the allocation can be used; all nodes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_selector: Option<NodeSelector>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allocation_timestamp: Option<String>,
}

impl Allocation {
    /// The allocation with the time of its write. The time that its devices may take to become ready counts from `now`.
    pub(super) fn made_at(&self, now: Time) -> Self {
        Self { allocation_timestamp: Some(now.to_rfc3339()), ..self.clone() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct AllocatedDevices {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) results: Vec<DeviceResult>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) config: Vec<AllocatedConfig>,
}

/// One device that is allocated for one request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceResult {
    /// `<request>`, or `<request>/<sub-request>`.
    pub(super) request: String,
    pub(super) driver: String,
    pub(super) pool: String,
    pub(super) device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) admin_access: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) tolerations: Vec<DeviceToleration>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) binding_conditions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) binding_failure_conditions: Vec<String>,
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub(super) share_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub(super) consumed_capacity: BTreeMap<String, Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct AllocatedConfig {
    /// `FromClass` or `FromClaim`.
    pub(super) source: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) requests: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) opaque: Option<OpaqueConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelector {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) match_expressions: Vec<NodeSelectorRequirement>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct NodeSelectorRequirement {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub(super) values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClass {
    pub(super) metadata: Metadata,
    pub(super) spec: DeviceClassSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceClassSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) config: Vec<ClaimConfig>,
    pub(super) extended_resource_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ResourceSlice {
    pub(super) metadata: Metadata,
    pub(super) spec: SliceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SliceSpec {
    pub(super) driver: String,
    pub(super) pool: ResourcePool,
    pub(super) node_name: Option<String>,
    pub(super) node_selector: Option<NodeSelector>,
    pub(super) all_nodes: Option<bool>,
    pub(super) per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) devices: Vec<Device>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) shared_counters: Vec<CounterSet>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourcePool {
    pub(super) name: String,
    pub(super) generation: i64,
    pub(super) resource_slice_count: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) attributes: BTreeMap<String, Attribute>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) capacity: BTreeMap<String, Capacity>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) consumes_counters: Vec<CounterConsumption>,
    pub(super) node_name: Option<String>,
    pub(super) node_selector: Option<NodeSelector>,
    pub(super) all_nodes: Option<bool>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) taints: Vec<DeviceTaint>,
    pub(super) binds_to_node: Option<bool>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) binding_conditions: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) binding_failure_conditions: Vec<String>,
    pub(super) allow_multiple_allocations: Option<bool>,
    /// The amounts that the device takes from its node, by resource, in Kubernetes 1.36.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) node_allocatable_resource_mappings: BTreeMap<String, ResourceMapping>,
    /// The amounts that the device takes from its node, by resource, from Kubernetes 1.37 on.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) node_allocatable_resources: BTreeMap<String, NodeAllocatableResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceMapping {
    pub(super) capacity_key: Option<String>,
    pub(super) allocation_multiplier: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct NodeAllocatableResource {
    pub(super) mapping: Option<DirectMapping>,
    pub(super) overhead: Option<DeviceOverhead>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DirectMapping {
    pub(super) capacity_key: Option<String>,
    pub(super) capacity_multiplier: Option<Quantity>,
    pub(super) device_multiplier: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceOverhead {
    pub(super) per_pod: Option<Quantity>,
    pub(super) per_container: Option<Quantity>,
}

/// An attribute. Only one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Attribute {
    pub(super) int: Option<i64>,
    pub(super) bool: Option<bool>,
    pub(super) string: Option<String>,
    pub(super) version: Option<String>,
    pub(super) ints: Option<Vec<i64>>,
    pub(super) bools: Option<Vec<bool>>,
    pub(super) strings: Option<Vec<String>>,
    pub(super) versions: Option<Vec<String>>,
}

impl Attribute {
    /// Whether constraints can compare the value: it is not a list, and its type is known. With the gate
    /// DRAListTypeAttributes, kube-scheduler compares lists as sets, which Berth does not.
    pub(super) fn is_scalar(&self) -> bool {
        self.int.is_some() || self.bool.is_some() || self.string.is_some() || self.version.is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Capacity {
    pub(super) value: Quantity,
    pub(super) request_policy: Option<RequestPolicy>,
}

/// The amounts that a request may consume of a capacity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestPolicy {
    pub(super) default: Option<Quantity>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) valid_values: Vec<Quantity>,
    pub(super) valid_range: Option<ValidRange>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ValidRange {
    pub(super) min: Option<Quantity>,
    pub(super) max: Option<Quantity>,
    pub(super) step: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CounterConsumption {
    pub(super) counter_set: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) counters: BTreeMap<String, Counter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CounterSet {
    pub(super) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) counters: BTreeMap<String, Counter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Counter {
    pub(super) value: Quantity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceTaint {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) effect: String,
}

/// Taints for devices in the slices of drivers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceTaintRule {
    pub(super) spec: DeviceTaintRuleSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceTaintRuleSpec {
    pub(super) device_selector: Option<DeviceTaintSelector>,
    pub(super) taint: DeviceTaint,
}

/// A selector of devices. An absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct DeviceTaintSelector {
    pub(super) driver: Option<String>,
    pub(super) pool: Option<String>,
    pub(super) device: Option<String>,
}

impl DeviceTaintSelector {
    pub(super) fn matches(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.driver, driver) && is(&self.pool, pool) && is(&self.device, device)
    }
}

impl ResourceClaim {
    pub(super) fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata.finalizers.iter().map(String::as_str)
    }

    pub(super) fn is_reserved_for(&self, pod_uid: &str) -> bool {
        self.status.reserved_for.iter().any(|consumer| consumer.uid == pod_uid)
    }
}

impl Device {
    pub(super) fn is_shareable(&self) -> bool {
        self.allow_multiple_allocations == Some(true)
    }
}

impl SubRequest {
    pub(super) fn is_admin(&self) -> bool {
        self.admin_access == Some(true)
    }

    pub(super) fn takes_all(&self) -> bool {
        self.allocation_mode == "All"
    }
}

impl NodeSelector {
    pub(super) fn matcher(&self) -> NodeMatcher {
        let requirement = |it: &NodeSelectorRequirement| api::NodeSelectorRequirement {
            key: it.key.clone(),
            operator: it.operator.clone(),
            values: it.values.clone(),
        };
        let term = |it: &NodeSelectorTerm| api::NodeSelectorTerm {
            match_expressions: it.match_expressions.iter().map(requirement).collect(),
            match_fields: it.match_fields.iter().map(requirement).collect(),
        };
        NodeMatcher::compile(&api::NodeSelector {
            node_selector_terms: self.node_selector_terms.iter().map(term).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_null_fields_are_accepted() {
        let claim: ResourceClaim = serde_json::from_str(
            r#"{"kind":"ResourceClaim","metadata":{"name":"c","future":1},"spec":{"devices":{"requests":null,"x":{}}},
                "status":null}"#,
        )
        .unwrap();
        assert_eq!(claim.metadata.name, "c");
        assert!(serde_json::from_str::<ResourceSlice>("{}").is_ok());
        assert!(serde_json::from_str::<DeviceClass>(r#"{"spec":{"selectors":[{}]}}"#).is_ok());
    }

    #[test]
    fn an_allocation_reads_back_as_it_was_written() {
        let json = r#"{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x","shareID":"s",
            "consumedCapacity":{"memory":"1Gi"}}],"config":[{"source":"FromClaim","opaque":{"driver":"d",
            "parameters":{"a":[1]}}}]},"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name",
            "operator":"In","values":["n"]}]}]}}"#;
        let allocation: Allocation = serde_json::from_str(json).unwrap();
        let expected: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_value(&allocation).unwrap(), expected);
    }
}
