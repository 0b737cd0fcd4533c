//! The zones of nodes, and the resources that are left in them.

use std::collections::{BTreeMap, BTreeSet};

use berth_sdk::model::{ClusterTable, ObjectView, Pod, PodUid, Sym, Symbols, quantity::Quantity};
use serde::Deserialize;

use crate::demand::{Amounts, Demand, units};

pub(crate) const API_VERSION: &str = "topology.node.k8s.io/v1alpha2";
pub(crate) const KIND: &str = "NodeResourceTopology";

/// The part of a NodeResourceTopology that is read. The object has the name of its node.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeResourceTopology {
    attributes: Vec<Attribute>,
    zones: Vec<Zone>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Attribute {
    name: String,
    value: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Zone {
    r#type: String,
    #[serde(default)]
    resources: Vec<ZoneResource>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct ZoneResource {
    name: String,
    available: Quantity,
}

impl NodeResourceTopology {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|attribute| attribute.name == name);
        found.map_or("", |attribute| &attribute.value)
    }

    /// The topology; `None` unless the kubelet requires a single zone.
    fn topology(&self) -> Option<Topology> {
        if self.attribute("topologyManagerPolicy") != "single-numa-node" {
            return None;
        }
        let zones = self.zones.iter().filter(|zone| zone.r#type == "Node");
        let available = |zone: &Zone| {
            zone.resources.iter().map(|it| (it.name.clone(), units(&it.name, &it.available))).collect::<Amounts>()
        };
        let is_of_pods = self.attribute("topologyManagerScope") == "pod";
        Some(Topology { is_of_pods, zones: zones.map(available).collect() })
    }
}

/// A node on which a pod or container must fit into one zone.
#[derive(Debug)]
pub(crate) struct Topology {
    /// Whether the whole pod must lie in one zone. Otherwise, only each container must.
    is_of_pods: bool,
    /// The amounts that are left in each zone, as the node's agent last wrote them.
    zones: Vec<Amounts>,
}

impl Topology {
    /// Whether there is room in addition to the pods that the agent does not know. The zones of these pods are not
    /// known, so each of these pods counts in each zone.
    fn fits<'p>(&self, demand: &Demand, unknown: impl Iterator<Item = &'p Amounts>) -> bool {
        let mut zones = self.zones.clone();
        for taken in unknown {
            zones.iter_mut().for_each(|zone| take(zone, taken));
        }
        if self.is_of_pods {
            return self.room(&zones, &demand.total()).is_some();
        }
        let init_containers_fit = demand.init_containers.iter().all(|wanted| self.room(&zones, wanted).is_some());
        init_containers_fit
            && demand.containers.iter().all(|wanted| {
                let room = self.room(&zones, wanted);
                if let Some(zone) = room.and_then(|at| zones.get_mut(at)) {
                    take(zone, wanted);
                }
                room.is_some()
            })
    }

    /// The first zone that has room. A resource that no zone of the node lists is not tied to zones.
    fn room(&self, zones: &[Amounts], wanted: &Amounts) -> Option<usize> {
        let is_listed = |resource: &String| self.zones.iter().any(|zone| zone.contains_key(resource));
        zones.iter().position(|zone| {
            let mut listed = wanted.iter().filter(|(resource, _)| is_listed(resource));
            listed.all(|(resource, amount)| zone.get(resource).is_some_and(|left| left >= amount))
        })
    }
}

fn take(zone: &mut Amounts, taken: &Amounts) {
    for (resource, amount) in taken {
        if let Some(left) = zone.get_mut(resource) {
            *left -= amount;
        }
    }
}

/// A pod that came after its node's agent wrote.
#[derive(Debug)]
struct NewPod {
    requests: Amounts,
    /// Whether the pod has started, so that the agent's next report includes it.
    has_started: bool,
}

/// The topologies of all nodes, kept up to date.
#[derive(Debug)]
pub(crate) struct Topologies {
    objects: ObjectView<NodeResourceTopology>,
    by_node: BTreeMap<String, Topology>,
    /// New pods by node.
    new_pods: BTreeMap<String, BTreeMap<PodUid, NewPod>>,
    /// The position up to which the changes of pods on nodes were followed.
    position: Option<u64>,
}

impl Default for Topologies {
    fn default() -> Self {
        Self {
            objects: ObjectView::new(API_VERSION, KIND),
            by_node: BTreeMap::new(),
            new_pods: BTreeMap::new(),
            position: None,
        }
    }
}

impl Topologies {
    /// Whether one zone of the node has room for the demand. The result is `true` if zones do not matter.
    pub(crate) fn have_room(&self, node: &str, demand: &Demand) -> bool {
        let new_pods = self.new_pods.get(node).into_iter().flatten().map(|(_, pod)| &pod.requests);
        self.by_node.get(node).is_none_or(|topology| topology.fits(demand, new_pods))
    }

    pub(crate) fn follow(&mut self, table: &ClusterTable) {
        let Self { objects, by_node, new_pods, .. } = self;
        objects.refresh_with(table.objects(), |_, node, object| {
            match object.and_then(|object| object.topology()) {
                Some(topology) => drop(by_node.insert(node.to_owned(), topology)),
                None => drop(by_node.remove(node)),
            }
            if let Some(pods) = new_pods.get_mut(node) {
                pods.retain(|_, pod| !pod.has_started);
            }
        });
        self.follow_pods(table);
    }

    fn follow_pods(&mut self, table: &ClusterTable) {
        let pods = table.pods();
        // A pod that changes leaves the table and comes back.
        let mut left = BTreeSet::new();
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => {
                for change in changes {
                    let (pod, node) = (&change.pod, table.symbols.text(table.name(change.node)));
                    if change.sign > 0 {
                        let was_new = left.remove(&pod.uid);
                        self.come(table, node, pod, was_new);
                    } else if self.new_pods.get_mut(node).and_then(|pods| pods.remove(&pod.uid)).is_some() {
                        left.insert(pod.uid.clone());
                    }
                }
            }
            None => {
                self.new_pods.clear();
                for (_, pod, node) in pods.iter() {
                    self.come(table, table.symbols.text(table.name(node)), pod, false);
                }
            }
        }
        self.position = Some(pods.position());
    }

    /// Adds a pod that came to a node. The agent already knows a pod that runs.
    fn come(&mut self, table: &ClusterTable, node: &str, pod: &Pod, was_new: bool) {
        let has_started = pod.started_at.is_some();
        if was_new || !has_started {
            let new_pod = NewPod { requests: requests(pod, &table.symbols), has_started };
            self.new_pods.entry(node.to_owned()).or_default().insert(pod.uid.clone(), new_pod);
        }
    }
}

fn requests(pod: &Pod, symbols: &Symbols) -> Amounts {
    let requests = &pod.placed_requests;
    let known = [(Sym::CPU, requests.milli_cpu), (Sym::MEMORY, requests.memory)];
    let all = known.into_iter().chain(requests.scalars.iter().copied());
    all.map(|(resource, amount)| (symbols.text(resource).to_owned(), amount)).collect()
}
