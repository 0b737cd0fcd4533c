//! Volumes that do not exist yet: whether a class can make one for a node, and whether its driver has room there.

use std::collections::BTreeMap;

use berth_model::{Catchup, ClusterTable, NodeSet, ObjectView};
use rustc_hash::FxHashMap;

use crate::storage::{
    self, CsiDriver, CsiStorageCapacity, PersistentVolumeClaim, StorageClass,
    places::{Place, PlaceId, Places},
};

/// Stands for "nobody makes volumes of this class".
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Namespace and name of a `CSIStorageCapacity`.
type CapacityKey = (String, String);

#[derive(Debug)]
pub(super) struct Provisioning {
    pub(super) classes: ObjectView<StorageClass>,
    drivers: ObjectView<CsiDriver>,
    capacities: ObjectView<CsiStorageCapacity>,
    /// The class of each capacity and its position in `room`.
    known: FxHashMap<CapacityKey, (String, i64)>,
    /// By class: bytes that the largest volume can have, and where.
    room: FxHashMap<String, BTreeMap<(i64, CapacityKey), PlaceId>>,
    /// From where volumes of a class can be used, as the class says.
    topologies: FxHashMap<String, PlaceId>,
    places: Places,
}

/// Nodes for which a volume cannot be made.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// No provisioner, or the wrong topology.
    pub(super) unsatisfied: NodeSet,
    pub(super) no_space: NodeSet,
}

impl Provisioning {
    pub(super) fn new() -> Self {
        Self {
            classes: storage::view(storage::CLASS),
            drivers: storage::view(storage::CSI_DRIVER),
            capacities: storage::view(storage::CAPACITY),
            known: FxHashMap::default(),
            room: FxHashMap::default(),
            topologies: FxHashMap::default(),
            places: Places::default(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.drivers.refresh(table.objects());
        if self.classes.refresh(table.objects()) {
            self.topologies.clear();
        }
        let found = self.capacities.catch_up(table.objects());
        if found == Catchup::Everything || self.places.len() > 2 * self.known.len() + 1024 {
            self.known.clear();
            self.room.clear();
            self.topologies.clear();
            self.places = Places::default();
            let keys: Vec<CapacityKey> =
                self.capacities.iter().map(|(namespace, name, _)| (namespace.to_owned(), name.to_owned())).collect();
            keys.into_iter().for_each(|key| self.put(key));
        } else if let Catchup::Some(changed) = found {
            changed.into_iter().for_each(|key| self.put(key));
        }
        self.places.refresh(table);
    }

    fn put(&mut self, key: CapacityKey) {
        if let Some((class, limit)) = self.known.remove(&key)
            && let Some(room) = self.room.get_mut(&class)
        {
            room.remove(&(limit, key.clone()));
            if room.is_empty() {
                self.room.remove(&class);
            }
        }
        let Some(capacity) = self.capacities.get(&key.0, &key.1) else { return };
        // The largest volume says more than what is left in sum.
        let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let Some((limit, topology)) = limit.zip(capacity.node_topology.as_ref()) else { return };
        let (class, limit) = (capacity.storage_class_name.clone(), limit.value());
        let place = self.places.intern(Place::of_labels(topology));
        self.room.entry(class.clone()).or_default().insert((limit, key.clone()), place);
        self.known.insert(key, (class, limit));
    }

    /// Which of `nodes` a volume for this claim cannot be made for.
    ///
    /// # Errors
    /// The claim's class does not exist.
    pub(super) fn obstacles(
        &mut self,
        claim: &PersistentVolumeClaim,
        nodes: &NodeSet,
        table: &ClusterTable,
    ) -> Result<Obstacles, String> {
        let name = claim.class();
        if name.is_empty() {
            let metadata = &claim.metadata;
            return Err(format!("no class for claim \"{}/{}\"", metadata.namespace, metadata.name));
        }
        let Some(class) = self.classes.get("", name) else {
            return Err(format!("failed to find storage class {name:?}"));
        };
        let mut obstacles = Obstacles { unsatisfied: nodes.clone(), no_space: NodeSet::default() };
        if class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER {
            return Ok(obstacles);
        }
        let place = match self.topologies.get(name) {
            Some(place) => *place,
            None => {
                let place = self.places.intern(Place::of_topologies(&class.allowed_topologies));
                self.topologies.insert(name.to_owned(), place);
                place
            }
        };
        let class_reach = self.places.reach(place, table);
        class_reach.take_from(&mut obstacles.unsatisfied);
        let driver = self.drivers.get("", &class.provisioner);
        let knows_room = driver.is_some_and(|driver| driver.spec.storage_capacity == Some(true));
        let Some(request) = claim.request().filter(|_| knows_room) else { return Ok(obstacles) };
        obstacles.no_space = nodes.clone();
        obstacles.no_space.subtract(&obstacles.unsatisfied);
        let enough = (request.value(), (String::new(), String::new()));
        for place in
            self.room.get(name).into_iter().flat_map(|room| room.range(enough.clone()..)).map(|(_, place)| *place)
        {
            self.places.reach(place, table).take_from(&mut obstacles.no_space);
        }
        Ok(obstacles)
    }
}
