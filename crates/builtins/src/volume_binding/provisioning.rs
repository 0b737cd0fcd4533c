//! Volumes that do not exist yet: whether a class can provision a volume for a node, and whether the class's CSI driver
//! has enough storage for the node.

use std::collections::BTreeMap;

use berth_model::{Catchup, ClusterTable, NodeIdx, NodeSet, ObjectView};
use rustc_hash::FxHashMap;

use crate::storage::{
    self, CsiDriver, CsiStorageCapacity, PersistentVolumeClaim, StorageClass,
    node_terms::{NodeTerms, NodeTermsId, NodeTermsTable},
};

/// The provisioner of classes for which no volumes are provisioned.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Namespace and name of a `CSIStorageCapacity`.
type CapacityKey = (String, String);

/// Classes, drivers and their storage capacity.
#[derive(Debug)]
pub(super) struct Provisioning {
    pub(super) classes: ObjectView<StorageClass>,
    drivers: ObjectView<CsiDriver>,
    capacities: ObjectView<CsiStorageCapacity>,
    /// The class of each capacity and its bytes in `by_class`.
    known: FxHashMap<CapacityKey, (String, i64)>,
    /// The maximum bytes of a volume of each class, with the nodes for which they apply.
    by_class: FxHashMap<String, BTreeMap<(i64, CapacityKey), NodeTermsId>>,
    /// The `allowedTopologies` of each class.
    topologies: FxHashMap<String, NodeTermsId>,
    node_terms: NodeTermsTable,
}

/// The reason why no node can have a volume provisioned for a claim.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProvisioningError {
    #[error("no class for claim \"{0}\"")]
    NoClass(String),
    #[error("failed to find storage class {0:?}")]
    ClassNotFound(String),
}

/// Nodes for which a volume cannot be provisioned.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// Nodes for which the class has no provisioner or the wrong topology.
    pub(super) no_volume: NodeSet,
    /// Nodes for which the driver has too little storage.
    pub(super) not_enough_space: NodeSet,
}

impl Provisioning {
    pub(super) fn new() -> Self {
        Self {
            classes: storage::CLASS.view(),
            drivers: storage::CSI_DRIVER.view(),
            capacities: storage::CAPACITY.view(),
            known: FxHashMap::default(),
            by_class: FxHashMap::default(),
            topologies: FxHashMap::default(),
            node_terms: NodeTermsTable::default(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.drivers.refresh(table.objects());
        if self.classes.refresh(table.objects()) {
            self.topologies.clear();
        }
        let found = self.capacities.catch_up(table.objects());
        if found == Catchup::Everything || self.node_terms.len() > 2 * self.known.len() + 1024 {
            self.known.clear();
            self.by_class.clear();
            self.topologies.clear();
            self.node_terms = NodeTermsTable::default();
            let keys: Vec<CapacityKey> =
                self.capacities.iter().map(|(namespace, name, _)| (namespace.to_owned(), name.to_owned())).collect();
            keys.into_iter().for_each(|key| self.put(key));
        } else if let Catchup::Some(changed) = found {
            changed.into_iter().for_each(|key| self.put(key));
        }
        self.node_terms.refresh(table);
    }

    /// Updates the known data of one `CSIStorageCapacity`.
    fn put(&mut self, key: CapacityKey) {
        if let Some((class, limit)) = self.known.remove(&key)
            && let Some(capacities) = self.by_class.get_mut(&class)
        {
            capacities.remove(&(limit, key.clone()));
            if capacities.is_empty() {
                self.by_class.remove(&class);
            }
        }
        let Some(capacity) = self.capacities.get(&key.0, &key.1) else { return };
        // A volume must fit in one piece, so the maximum size of a volume takes precedence over the total.
        let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let Some((limit, topology)) = limit.zip(capacity.node_topology.as_ref()) else { return };
        let (class, limit) = (capacity.storage_class_name.clone(), limit.value());
        let topology = self.node_terms.intern(NodeTerms::of_labels(topology));
        self.by_class.entry(class.clone()).or_default().insert((limit, key.clone()), topology);
        self.known.insert(key, (class, limit));
    }

    /// The nodes among `nodes` for which no volume can be provisioned for the claim.
    ///
    /// # Errors
    /// The claim's class does not exist.
    pub(super) fn obstacles(
        &mut self,
        claim: &PersistentVolumeClaim,
        nodes: &NodeSet,
        table: &ClusterTable,
    ) -> Result<Obstacles, ProvisioningError> {
        let name = claim.class();
        if name.is_empty() {
            let metadata = &claim.metadata;
            return Err(ProvisioningError::NoClass(format!("{}/{}", metadata.namespace, metadata.name)));
        }
        let Some(class) = self.classes.get("", name) else {
            return Err(ProvisioningError::ClassNotFound(name.to_owned()));
        };
        let mut obstacles = Obstacles { no_volume: nodes.clone(), not_enough_space: NodeSet::default() };
        if class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER {
            return Ok(obstacles);
        }
        let topology = match self.topologies.get(name) {
            Some(topology) => *topology,
            None => {
                let topology = self.node_terms.intern(NodeTerms::of_topologies(&class.allowed_topologies));
                self.topologies.insert(name.to_owned(), topology);
                topology
            }
        };
        let allowed = self.node_terms.matching(topology, table);
        allowed.remove_from(&mut obstacles.no_volume);
        let driver = self.drivers.get("", &class.provisioner);
        let has_capacities = driver.is_some_and(|driver| driver.spec.storage_capacity == Some(true));
        let Some(request) = claim.request().filter(|_| has_capacities) else { return Ok(obstacles) };
        obstacles.not_enough_space = nodes.clone();
        obstacles.not_enough_space.subtract(&obstacles.no_volume);
        let enough = (request.value(), (String::new(), String::new()));
        let capacities = self.by_class.get(name).into_iter().flat_map(|capacities| capacities.range(enough.clone()..));
        for (_, topology) in capacities {
            self.node_terms.matching(*topology, table).remove_from(&mut obstacles.not_enough_space);
        }
        Ok(obstacles)
    }

    /// The capacity of the object that shows enough room for a volume of the claim on the node. `None` if the driver
    /// publishes no capacities, or the claim requests no storage.
    pub(super) fn capacity_for(
        &mut self,
        claim: &PersistentVolumeClaim,
        node: NodeIdx,
        table: &ClusterTable,
    ) -> Option<i64> {
        let class = self.classes.get("", claim.class())?;
        let driver = self.drivers.get("", &class.provisioner)?;
        let request = claim.request().filter(|_| driver.spec.storage_capacity == Some(true))?;
        let enough = (request.value(), (String::new(), String::new()));
        let node_terms = &mut self.node_terms;
        let mut enough = self.by_class.get(claim.class())?.range(enough..);
        let ((_, (namespace, name)), _) =
            enough.find(|(_, topology)| node_terms.matching(**topology, table).contains(node))?;
        let capacity = self.capacities.get(namespace, name)?.capacity.as_ref();
        Some(capacity.map_or(0, berth_model::quantity::Quantity::value))
    }
}
