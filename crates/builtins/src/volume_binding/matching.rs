//! Which volume each claim gets, for all nodes in one pass.
//!
//! kube-scheduler asks node by node: the smallest volume that suits the claim and can be used there. Here the claim
//! walks over the volumes once, smallest first, and each volume serves those nodes in its reach that no smaller one
//! served: the same choice for every node. For the one node that was chosen in the end the pass is repeated with
//! [`Choices`] to take notes.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, NodeSet, quantity::Quantity, selector::LabelMatcher};
use rustc_hash::FxHashMap;

use super::{
    claims::{PodClaims, SELECTED_NODE},
    provisioning::Provisioning,
    shelf::{Entry, Shelf},
};
use crate::storage::{PersistentVolumeClaim, places::Reach};

/// Nodes by what is wrong with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// A bound volume cannot be used from there.
    pub(super) out_of_reach: NodeSet,
    /// A claim found no volume, and none can be made.
    pub(super) unsatisfied: NodeSet,
    pub(super) no_space: NodeSet,
    /// A claim is bound to a volume that does not exist.
    pub(super) volume_missing: NodeSet,
    /// All of them.
    pub(super) rejected: NodeSet,
    /// Where the question could not be answered, and why.
    pub(super) failed: Option<(NodeSet, String)>,
}

/// What the claims of a pod get on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    pub(super) chosen: Vec<(Arc<PersistentVolumeClaim>, Arc<Entry>)>,
    pub(super) provisioned: Vec<Arc<PersistentVolumeClaim>>,
}

/// One pass over some nodes.
pub(super) struct Matching<'a> {
    pub(super) shelf: &'a mut Shelf,
    pub(super) provisioning: &'a mut Provisioning,
    pub(super) table: &'a ClusterTable,
    pub(super) choices: Option<&'a mut Choices>,
    /// Where an earlier claim of the pod took which volume.
    taken: FxHashMap<String, NodeSet>,
}

/// A claim and the nodes on which it still needs a volume.
type Need = (Arc<PersistentVolumeClaim>, NodeSet);

impl<'a> Matching<'a> {
    pub(super) fn new(
        shelf: &'a mut Shelf,
        provisioning: &'a mut Provisioning,
        table: &'a ClusterTable,
        choices: Option<&'a mut Choices>,
    ) -> Self {
        Self { shelf, provisioning, table, choices, taken: FxHashMap::default() }
    }

    pub(super) fn run(mut self, claims: &PodClaims, nodes: &NodeSet) -> Verdicts {
        let mut verdicts = Verdicts::default();
        self.check_bound(&claims.bound, nodes, &mut verdicts);
        if !claims.delayed.is_empty() {
            self.match_delayed(&claims.delayed, nodes, &mut verdicts);
        }
        for nodes in [&verdicts.out_of_reach, &verdicts.unsatisfied, &verdicts.no_space, &verdicts.volume_missing] {
            verdicts.rejected.union(nodes);
        }
        verdicts
    }

    /// The first claim in trouble decides what is said about a node.
    fn check_bound(&mut self, volumes: &[String], nodes: &NodeSet, verdicts: &mut Verdicts) {
        let mut fine = nodes.clone();
        for name in volumes {
            let Some(entry) = self.shelf.stock.get(name) else {
                verdicts.volume_missing.union(&fine);
                return;
            };
            let place = entry.place;
            let reach = self.shelf.places.reach(place, self.table);
            let mut out_of_reach = fine.clone();
            reach.take_from(&mut out_of_reach);
            fine.subtract(&out_of_reach);
            verdicts.out_of_reach.union(&out_of_reach);
        }
    }

    fn match_delayed(&mut self, claims: &[Arc<PersistentVolumeClaim>], nodes: &NodeSet, verdicts: &mut Verdicts) {
        let mut open = nodes.clone();
        let mut to_provision: Vec<Need> = Vec::new();
        let mut to_match: Vec<&Arc<PersistentVolumeClaim>> = Vec::new();
        for claim in claims {
            let Some(selected) = claim.metadata.annotations.get(SELECTED_NODE) else {
                to_match.push(claim);
                continue;
            };
            let node = self.table.symbols.lookup(selected).and_then(|name| self.table.find(name));
            let selected: NodeSet = node.into_iter().collect();
            open.intersect(&selected);
            to_provision.push((Arc::clone(claim), NodeSet::default()));
        }
        let mut elsewhere = nodes.clone();
        elsewhere.subtract(&open);
        verdicts.unsatisfied.union(&elsewhere);
        to_provision.iter_mut().for_each(|(_, nodes)| nodes.clone_from(&open));
        to_match.sort_by_key(|claim| claim.request().cloned().unwrap_or_default());
        let n_claims = to_match.len();
        for (at, claim) in to_match.into_iter().enumerate() {
            match self.find_volumes(claim, &open, at + 1 < n_claims) {
                Ok(unserved) => to_provision.push((Arc::clone(claim), unserved)),
                Err(text) => {
                    verdicts.failed = Some((open, text));
                    return;
                }
            }
        }
        self.provision(to_provision, verdicts);
    }

    fn provision(&mut self, needs: Vec<Need>, verdicts: &mut Verdicts) {
        let mut given_up = NodeSet::default();
        for (claim, mut nodes) in needs {
            nodes.subtract(&given_up);
            if nodes.is_empty() {
                continue;
            }
            let obstacles = match self.provisioning.obstacles(&claim, &nodes, self.table) {
                Ok(obstacles) => obstacles,
                Err(text) => {
                    verdicts.failed.get_or_insert((nodes.clone(), text));
                    given_up.union(&nodes);
                    continue;
                }
            };
            verdicts.unsatisfied.union(&obstacles.unsatisfied);
            verdicts.no_space.union(&obstacles.no_space);
            given_up.union(&obstacles.unsatisfied);
            given_up.union(&obstacles.no_space);
            if let Some(choices) = &mut self.choices {
                choices.provisioned.push(claim);
            }
        }
    }

    /// Serves the claim on as many of `nodes` as there are volumes for; the others come back.
    fn find_volumes(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        nodes: &NodeSet,
        others_follow: bool,
    ) -> Result<NodeSet, String> {
        let wish = Wish::of(claim)?;
        let mut unserved = nodes.clone();
        let mut undecided = nodes.clone();
        for entry in self.shelf.stock.reserved_for(claim) {
            if entry.capacity < wish.size || !wish.suits_in_kind(&entry) || entry.is_going() {
                continue;
            }
            // A volume that is meant for the claim is the answer, even where it cannot be used.
            let mut decided = undecided.clone();
            if let Some(taken) = self.taken.get(entry.name()) {
                decided.subtract(taken);
            }
            undecided.subtract(&decided);
            let served = self.shelf.places.reach(entry.place, self.table).within(&decided);
            self.serve(claim, &entry, &served, &mut unserved, others_follow);
        }
        let mut refused = unserved.clone();
        refused.subtract(&undecided);
        unserved.intersect(&undecided);
        self.find_free_volumes(claim, &wish, &mut unserved, others_follow);
        unserved.union(&refused);
        Ok(unserved)
    }

    fn find_free_volumes(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        wish: &Wish<'_>,
        unserved: &mut NodeSet,
        others_follow: bool,
    ) {
        let mut n_unserved = unserved.len();
        for entry in self.shelf.stock.free(claim.class(), &wish.size) {
            if n_unserved == 0 {
                break;
            }
            if !wish.suits(entry) {
                continue;
            }
            let reach = self.shelf.places.reach(entry.place, self.table);
            if !others_follow && self.taken.is_empty() {
                let n_served = reach.count_from(unserved);
                n_unserved -= n_served;
                if n_served > 0 {
                    note(self.choices.as_deref_mut(), claim, entry);
                }
                continue;
            }
            let mut served = reach.within(unserved);
            if let Some(taken) = self.taken.get(entry.name()) {
                served = served.without(taken);
            }
            if served.is_empty() {
                continue;
            }
            n_unserved -= served.count_from(unserved);
            note(self.choices.as_deref_mut(), claim, entry);
            if others_follow {
                served.add_to(self.taken.entry(entry.name().to_owned()).or_default());
            }
        }
    }

    fn serve(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        entry: &Arc<Entry>,
        served: &Reach,
        unserved: &mut NodeSet,
        others_follow: bool,
    ) {
        if served.is_empty() {
            return;
        }
        served.take_from(unserved);
        note(self.choices.as_deref_mut(), claim, entry);
        if others_follow {
            served.add_to(self.taken.entry(entry.name().to_owned()).or_default());
        }
    }
}

/// Notes are taken for one node, so whatever serves any node serves that one.
fn note(choices: Option<&mut Choices>, claim: &Arc<PersistentVolumeClaim>, entry: &Arc<Entry>) {
    if let Some(choices) = choices {
        choices.chosen.push((Arc::clone(claim), Arc::clone(entry)));
    }
}

/// What a claim asks of a volume, wherever it is.
struct Wish<'a> {
    claim: &'a PersistentVolumeClaim,
    size: Quantity,
    /// `None` suits every volume.
    selector: Option<LabelMatcher>,
}

impl<'a> Wish<'a> {
    fn of(claim: &'a PersistentVolumeClaim) -> Result<Self, String> {
        let selector = match &claim.spec.selector {
            None => None,
            Some(selector) => Some(LabelMatcher::compile(Some(selector)).map_err(|error| {
                let metadata = &claim.metadata;
                let name = format!("{}/{}", metadata.namespace, metadata.name);
                format!("error creating internal label selector for claim: {name}: {error}")
            })?),
        };
        Ok(Self { claim, size: claim.request().cloned().unwrap_or_default(), selector })
    }

    /// Whether mode and attributes are those that the claim asks for.
    fn suits_in_kind(&self, entry: &Entry) -> bool {
        let (claim, volume) = (&self.claim.spec, &entry.volume.spec);
        fn mode(mode: Option<&String>) -> &str {
            mode.map_or("Filesystem", |mode| mode)
        }
        fn attributes(class: Option<&String>) -> &str {
            class.map_or("", |class| class)
        }
        mode(claim.volume_mode.as_ref()) == mode(volume.volume_mode.as_ref())
            && attributes(claim.volume_attributes_class_name.as_ref())
                == attributes(volume.volume_attributes_class_name.as_ref())
    }

    /// Whether a volume that nobody has is one for the claim.
    fn suits(&self, entry: &Entry) -> bool {
        let modes = &entry.volume.spec.access_modes;
        self.suits_in_kind(entry)
            && self.claim.spec.access_modes.iter().all(|mode| modes.contains(mode))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&entry.volume.metadata.labels))
    }
}

impl Verdicts {
    /// Why the node was turned down, in the order in which users read it.
    pub(super) fn reasons(&self, node: NodeIdx) -> Vec<&'static str> {
        let reasons = [
            (&self.out_of_reach, "node(s) didn't match PersistentVolume's node affinity"),
            (&self.unsatisfied, "node(s) didn't find available persistent volumes to bind"),
            (&self.no_space, "node(s) did not have enough free storage"),
            (&self.volume_missing, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ];
        reasons.into_iter().filter(|(nodes, _)| nodes.contains(node)).map(|(_, reason)| reason).collect()
    }
}
