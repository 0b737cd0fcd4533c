//! The names of the collections that the controllers follow.

pub(super) const PODS: &str = "pods";
pub(super) const VOLUMES: &str = "persistentvolumes";
pub(super) const VOLUME_CLAIMS: &str = "persistentvolumeclaims";
pub(super) const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
pub(super) const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
pub(super) const CLAIM_TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";
pub(super) const BUDGETS: &str = "poddisruptionbudgets.policy";
pub(super) const DEPLOYMENTS: &str = "deployments.apps";
pub(super) const REPLICA_SETS: &str = "replicasets.apps";
pub(super) const STATEFUL_SETS: &str = "statefulsets.apps";
pub(super) const SCALED: [&str; 4] = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, "replicationcontrollers"];
