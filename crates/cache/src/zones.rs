//! The order in which nodes are visited. The zones alternate in this order, so that neighbours in the list rarely fail
//! together.
//!
//! A node that only changes its zone keeps its place in the list until the next node comes or goes, as in Kubernetes.

use berth_model::{NodeIdx, Sym, Symbols};
use rustc_hash::FxHashMap;

/// Region and zone.
type ZoneKey = (Sym, Sym);

/// The order in which nodes are visited, as rows of the table by zone. The order depends on the sequence in which the
/// nodes came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOrder(Vec<Vec<NodeIdx>>);

/// The nodes by zone. The zones are in the order of their first node.
#[derive(Debug)]
pub(crate) struct Zones {
    zones: Vec<(ZoneKey, Vec<NodeIdx>)>,
    order: Vec<NodeIdx>,
    stale: bool,
    /// The label keys that older clusters use for the region and the zone. They take precedence over the newer keys.
    beta_region: Sym,
    beta_zone: Sym,
}

impl Zones {
    pub(crate) fn new(symbols: &mut Symbols) -> Self {
        Self {
            zones: Vec::new(),
            order: Vec::new(),
            stale: false,
            beta_region: symbols.intern("failure-domain.beta.kubernetes.io/region"),
            beta_zone: symbols.intern("failure-domain.beta.kubernetes.io/zone"),
        }
    }

    pub(crate) fn add(&mut self, node: NodeIdx, labels: &[(Sym, Sym)]) {
        self.insert(node, self.key(labels));
        self.stale = true;
    }

    pub(crate) fn relabel(&mut self, node: NodeIdx, old: &[(Sym, Sym)], new: &[(Sym, Sym)]) {
        let (old, new) = (self.key(old), self.key(new));
        if old != new {
            self.take_out(node, old);
            self.insert(node, new);
        }
    }

    pub(crate) fn remove(&mut self, node: NodeIdx, labels: &[(Sym, Sym)]) {
        self.take_out(node, self.key(labels));
        self.stale = true;
    }

    pub(crate) fn settle(&mut self) {
        if !self.stale {
            return;
        }
        self.stale = false;
        self.order.clear();
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        for round in 0..longest {
            self.order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(round)));
        }
    }

    pub(crate) fn order(&self) -> &[NodeIdx] {
        debug_assert!(!self.stale, "the order is read after it was settled");
        &self.order
    }

    pub(crate) fn node_order(&self) -> NodeOrder {
        NodeOrder(self.zones.iter().map(|(_, nodes)| nodes.clone()).collect())
    }

    /// Restores an order that was saved earlier. The nodes have the same rows and zones as at the time of saving. Their
    /// symbols may differ.
    pub(crate) fn restore(&mut self, NodeOrder(order): NodeOrder) {
        if order.iter().eq(self.zones.iter().map(|(_, nodes)| nodes)) {
            return;
        }
        let in_zone =
            |(key, nodes): &(ZoneKey, Vec<NodeIdx>)| nodes.iter().map(|node| (*node, *key)).collect::<Vec<_>>();
        let keys: FxHashMap<NodeIdx, ZoneKey> = self.zones.iter().flat_map(in_zone).collect();
        debug_assert_eq!(
            keys.len(),
            order.iter().map(Vec::len).sum::<usize>(),
            "the nodes have not changed since then"
        );
        let zones = order.into_iter().filter_map(|nodes| Some((*keys.get(nodes.first()?)?, nodes)));
        self.zones = zones.collect();
        self.stale = true;
    }

    fn key(&self, labels: &[(Sym, Sym)]) -> ZoneKey {
        let value = |key: Sym| labels.iter().find(|(at, _)| *at == key).map(|(_, value)| *value);
        let region = value(self.beta_region).or_else(|| value(Sym::REGION_LABEL)).unwrap_or_default();
        let zone = value(self.beta_zone).or_else(|| value(Sym::ZONE_LABEL)).unwrap_or_default();
        (region, zone)
    }

    fn insert(&mut self, node: NodeIdx, key: ZoneKey) {
        match self.zones.iter_mut().find(|(known, _)| *known == key) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((key, vec![node])),
        }
    }

    fn take_out(&mut self, node: NodeIdx, key: ZoneKey) {
        if let Some(position) = self.zones.iter().position(|(known, _)| *known == key)
            && let Some((_, nodes)) = self.zones.get_mut(position)
        {
            nodes.retain(|&other| other != node);
            if nodes.is_empty() {
                self.zones.remove(position);
            }
        }
    }
}
