//! Finds a volume for each claim of a pod, for all nodes in one pass.
//!
//! kube-scheduler searches for the smallest volume that suits the claim and can be used there, node by node
//! (`FindPodVolumes` in `pkg/scheduler/framework/plugins/volumebinding/binder.go`). Here, each claim goes over the
//! volumes once, the smallest first, and gets a volume on the nodes from which the volume can be used and on which it
//! has no smaller one. The choice for each node is the same. Reserve repeats the pass for only the chosen node, and
//! records the choice in [`PodVolumes`].

use std::sync::Arc;

use berth_model::{
    ClusterTable, NodeIdx, NodeSet,
    quantity::Quantity,
    selector::{LabelMatcher, SelectorError},
};
use rustc_hash::FxHashMap;

use super::{
    claims::{PodClaims, SELECTED_NODE},
    provisioning::{Provisioning, ProvisioningError},
    volumes::{MigratedTerms, VolumeEntry, Volumes},
};
use crate::storage::{PersistentVolumeClaim, migrated_handle::TranslationError, node_terms::MatchingNodes};

/// The nodes that a pod cannot use because of its volumes, by reason.
#[derive(Debug, Default)]
pub(super) struct NodeRejections {
    /// A bound volume cannot be used from the node.
    pub(super) affinity_conflict: NodeSet,
    /// No volume suits an unbound claim, and none can be provisioned.
    pub(super) no_volume: NodeSet,
    /// A volume could be provisioned, but the driver has too little storage.
    pub(super) not_enough_space: NodeSet,
    /// A claim is bound to a volume that does not exist.
    pub(super) missing_volume: NodeSet,
    /// All nodes that are rejected.
    pub(super) rejected: NodeSet,
    /// Nodes for which matching failed, with the first error.
    pub(super) failed: Option<(NodeSet, MatchingError)>,
}

/// The reason why the search for volumes failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MatchingError {
    #[error("error creating internal label selector for claim: {claim}: {source}")]
    Selector { claim: String, source: SelectorError },
    #[error(transparent)]
    Provisioning(#[from] ProvisioningError),
    #[error(transparent)]
    Translation(#[from] TranslationError),
}

/// The volumes that a pod's unbound claims get on one node.
#[derive(Debug, Default)]
pub(super) struct PodVolumes {
    /// Claims that get an existing volume.
    pub(super) static_bindings: Vec<(Arc<PersistentVolumeClaim>, Arc<VolumeEntry>)>,
    /// Claims for which a volume is provisioned.
    pub(super) dynamic_provisions: Vec<Arc<PersistentVolumeClaim>>,
}

/// One pass over the claims of a pod.
pub(super) struct Matching<'a> {
    pub(super) volumes: &'a mut Volumes,
    pub(super) provisioning: &'a mut Provisioning,
    pub(super) table: &'a ClusterTable,
    pub(super) chosen: Option<&'a mut PodVolumes>,
    /// The nodes for which an earlier claim of the pod got a volume, by volume.
    taken: FxHashMap<String, NodeSet>,
}

/// A claim, and the nodes for which a volume must be provisioned.
type UnmatchedClaim = (Arc<PersistentVolumeClaim>, NodeSet);

impl<'a> Matching<'a> {
    pub(super) fn new(
        volumes: &'a mut Volumes,
        provisioning: &'a mut Provisioning,
        table: &'a ClusterTable,
        chosen: Option<&'a mut PodVolumes>,
    ) -> Self {
        Self { volumes, provisioning, table, chosen, taken: FxHashMap::default() }
    }

    pub(super) fn run(mut self, claims: &PodClaims, nodes: &NodeSet) -> NodeRejections {
        let mut rejections = NodeRejections::default();
        self.check_bound(&claims.bound, nodes, &mut rejections);
        if !claims.delayed.is_empty() {
            self.match_delayed(&claims.delayed, nodes, &mut rejections);
        }
        for nodes in [
            &rejections.affinity_conflict,
            &rejections.no_volume,
            &rejections.not_enough_space,
            &rejections.missing_volume,
        ] {
            rejections.rejected.union(nodes);
        }
        rejections
    }

    /// Checks the bound volumes. The first claim that rejects a node decides the reason.
    fn check_bound(&mut self, volumes: &[String], nodes: &NodeSet, rejections: &mut NodeRejections) {
        let mut passing = nodes.clone();
        for name in volumes {
            let Some(entry) = self.volumes.index.get(name) else {
                rejections.missing_volume.union(&passing);
                return;
            };
            let entry = Arc::clone(entry);
            let mut affinity_conflict = passing.clone();
            let migrated = entry.migrated.as_ref().map(|migrated| (migrated, self.nodes_of(migrated, &passing)));
            if let Some((migrated, nodes)) = migrated.filter(|(_, nodes)| !nodes.is_empty()) {
                affinity_conflict.subtract(&nodes);
                self.volumes.node_terms.matching(entry.node_terms, self.table).remove_from(&mut affinity_conflict);
                match &migrated.node_terms {
                    Ok(node_terms) => {
                        let mut conflict = nodes;
                        self.volumes.node_terms.matching(*node_terms, self.table).remove_from(&mut conflict);
                        affinity_conflict.union(&conflict);
                    }
                    Err(error) => {
                        passing.subtract(&nodes);
                        let failed =
                            rejections.failed.get_or_insert_with(|| (NodeSet::default(), error.clone().into()));
                        failed.0.union(&nodes);
                    }
                }
            } else {
                self.volumes.node_terms.matching(entry.node_terms, self.table).remove_from(&mut affinity_conflict);
            }
            passing.subtract(&affinity_conflict);
            rejections.affinity_conflict.union(&affinity_conflict);
        }
    }

    /// The nodes in `nodes` where the plugin is migrated.
    fn nodes_of(&self, migrated: &MigratedTerms, nodes: &NodeSet) -> NodeSet {
        let mut both = nodes.clone();
        match self.volumes.migrated_nodes.of(migrated.plugin) {
            Some(of_plugin) => both.intersect(of_plugin),
            None => both.clear(),
        }
        both
    }

    fn match_delayed(
        &mut self,
        claims: &[Arc<PersistentVolumeClaim>],
        nodes: &NodeSet,
        rejections: &mut NodeRejections,
    ) {
        let mut open = nodes.clone();
        let mut to_provision: Vec<UnmatchedClaim> = Vec::new();
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
        rejections.no_volume.union(&elsewhere);
        to_provision.iter_mut().for_each(|(_, nodes)| nodes.clone_from(&open));
        to_match.sort_by_key(|claim| claim.request().cloned().unwrap_or_default());
        let n_claims = to_match.len();
        for (at, claim) in to_match.into_iter().enumerate() {
            match self.find_volumes(claim, &open, at + 1 < n_claims) {
                Ok(uncovered) => to_provision.push((Arc::clone(claim), uncovered)),
                Err(error) => {
                    rejections.failed = Some((open, error));
                    return;
                }
            }
        }
        self.provision(to_provision, rejections);
    }

    fn provision(&mut self, claims: Vec<UnmatchedClaim>, rejections: &mut NodeRejections) {
        let mut failed_nodes = NodeSet::default();
        for (claim, mut nodes) in claims {
            nodes.subtract(&failed_nodes);
            if nodes.is_empty() {
                continue;
            }
            let obstacles = match self.provisioning.obstacles(&claim, &nodes, self.table) {
                Ok(obstacles) => obstacles,
                Err(error) => {
                    rejections.failed.get_or_insert_with(|| (nodes.clone(), error.into()));
                    failed_nodes.union(&nodes);
                    continue;
                }
            };
            rejections.no_volume.union(&obstacles.no_volume);
            rejections.not_enough_space.union(&obstacles.not_enough_space);
            failed_nodes.union(&obstacles.no_volume);
            failed_nodes.union(&obstacles.not_enough_space);
            if let Some(chosen) = &mut self.chosen {
                chosen.dynamic_provisions.push(claim);
            }
        }
    }

    /// Finds existing volumes for the claim. Returns the nodes that have no volume for the claim.
    fn find_volumes(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        nodes: &NodeSet,
        has_more_claims: bool,
    ) -> Result<NodeSet, MatchingError> {
        let requirements = ClaimRequirements::of(claim)?;
        let mut uncovered = nodes.clone();
        let mut undecided = nodes.clone();
        for entry in self.volumes.index.reserved_for(claim) {
            if entry.capacity < requirements.size
                || !requirements.has_mode_and_attributes(&entry)
                || entry.is_being_deleted()
            {
                continue;
            }
            // A volume that is reserved for the claim is its only choice, even on nodes that cannot use it.
            let mut decided = undecided.clone();
            if let Some(taken) = self.taken.get(entry.name()) {
                decided.subtract(taken);
            }
            undecided.subtract(&decided);
            let covered = self.volumes.node_terms.matching(entry.node_terms, self.table).within(&decided);
            self.cover(claim, &entry, &covered, &mut uncovered, has_more_claims);
        }
        let mut refused = uncovered.clone();
        refused.subtract(&undecided);
        uncovered.intersect(&undecided);
        self.find_available_volumes(claim, &requirements, &mut uncovered, has_more_claims);
        uncovered.union(&refused);
        Ok(uncovered)
    }

    fn find_available_volumes(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        requirements: &ClaimRequirements<'_>,
        uncovered: &mut NodeSet,
        has_more_claims: bool,
    ) {
        let mut n_uncovered = uncovered.len();
        for entry in self.volumes.index.available(claim.class(), &requirements.size) {
            if n_uncovered == 0 {
                break;
            }
            if !requirements.suits(entry) {
                continue;
            }
            let matching = self.volumes.node_terms.matching(entry.node_terms, self.table);
            if !has_more_claims && self.taken.is_empty() {
                let n_covered = matching.count_removed_from(uncovered);
                n_uncovered -= n_covered;
                if n_covered > 0 {
                    record(self.chosen.as_deref_mut(), claim, entry);
                }
                continue;
            }
            let mut covered = matching.within(uncovered);
            if let Some(taken) = self.taken.get(entry.name()) {
                covered = covered.without(taken);
            }
            if covered.is_empty() {
                continue;
            }
            n_uncovered -= covered.count_removed_from(uncovered);
            record(self.chosen.as_deref_mut(), claim, entry);
            if has_more_claims {
                covered.add_to(self.taken.entry(entry.name().to_owned()).or_default());
            }
        }
    }

    fn cover(
        &mut self,
        claim: &Arc<PersistentVolumeClaim>,
        entry: &Arc<VolumeEntry>,
        covered: &MatchingNodes,
        uncovered: &mut NodeSet,
        has_more_claims: bool,
    ) {
        if covered.is_empty() {
            return;
        }
        covered.remove_from(uncovered);
        record(self.chosen.as_deref_mut(), claim, entry);
        if has_more_claims {
            covered.add_to(self.taken.entry(entry.name().to_owned()).or_default());
        }
    }
}

/// Records a choice. The pass has only one node, so a volume that covers any node covers this node.
fn record(chosen: Option<&mut PodVolumes>, claim: &Arc<PersistentVolumeClaim>, entry: &Arc<VolumeEntry>) {
    if let Some(chosen) = chosen {
        chosen.static_bindings.push((Arc::clone(claim), Arc::clone(entry)));
    }
}

/// The requirements of a claim for a volume, apart from the node.
struct ClaimRequirements<'a> {
    claim: &'a PersistentVolumeClaim,
    size: Quantity,
    /// The selector; `None` matches every volume.
    selector: Option<LabelMatcher>,
}

impl<'a> ClaimRequirements<'a> {
    fn of(claim: &'a PersistentVolumeClaim) -> Result<Self, MatchingError> {
        let selector = match &claim.spec.selector {
            None => None,
            Some(selector) => Some(LabelMatcher::compile(Some(selector)).map_err(|source| {
                let metadata = &claim.metadata;
                MatchingError::Selector { claim: format!("{}/{}", metadata.namespace, metadata.name), source }
            })?),
        };
        Ok(Self { claim, size: claim.request().cloned().unwrap_or_default(), selector })
    }

    /// Whether the volume has the mode and the attributes class of the claim.
    fn has_mode_and_attributes(&self, entry: &VolumeEntry) -> bool {
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

    /// Whether an available volume suits the claim, apart from its size.
    fn suits(&self, entry: &VolumeEntry) -> bool {
        let modes = &entry.volume.spec.access_modes;
        self.has_mode_and_attributes(entry)
            && self.claim.spec.access_modes.iter().all(|mode| modes.contains(mode))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&entry.volume.metadata.labels))
    }
}

impl NodeRejections {
    /// The reasons for rejecting the node, in the order of messages.
    pub(super) fn reasons(&self, node: NodeIdx) -> Vec<&'static str> {
        let reasons = [
            (&self.affinity_conflict, "node(s) didn't match PersistentVolume's node affinity"),
            (&self.no_volume, "node(s) didn't find available persistent volumes to bind"),
            (&self.not_enough_space, "node(s) did not have enough free storage"),
            (&self.missing_volume, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ];
        reasons.into_iter().filter(|(nodes, _)| nodes.contains(node)).map(|(_, reason)| reason).collect()
    }
}
