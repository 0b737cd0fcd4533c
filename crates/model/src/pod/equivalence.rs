//! The equivalence class of a pod: the pod without its identity. Pods of one controller are usually equivalent.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use rustc_hash::FxHasher;

use super::Pod;

impl Pod {
    /// Whether the two pods differ at most in their identity: uid, name, start time and the JSON of the whole object.
    #[must_use]
    pub fn is_equivalent(&self, other: &Pod) -> bool {
        self.node_name == other.node_name
            && self.nominated_node_name == other.nominated_node_name
            && self.is_equivalent_elsewhere(other)
    }

    /// Whether both records describe the same pod in the same state. The nodes in the records are not compared.
    #[must_use]
    pub fn is_same_elsewhere(&self, other: &Pod) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.started_at == other.started_at
            && self.json == other.json
            && self.is_equivalent_elsewhere(other)
    }

    /// Whether the two pods [are equivalent](Self::is_equivalent). The nodes in their records are not compared.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "two lines for each field")]
    pub fn is_equivalent_elsewhere(&self, other: &Pod) -> bool {
        // The pattern names every field, so that a new field is not forgotten.
        let Pod {
            uid: _,
            namespace,
            name: _,
            labels,
            scheduler_name,
            priority,
            node_name: _,
            nominated_node_name: _,
            terminating,
            scheduling_gates,
            owner,
            started_at: _,
            never_preempts,
            is_preempted,
            node_rules,
            affinity,
            topology_spread,
            tolerations,
            host_ports,
            volumes,
            resource_claims,
            extended_requests,
            extended_claim,
            images,
            n_containers,
            required_features,
            requests,
            placed_requests,
            placed_non_zero,
            scoring_requests,
            balanced_requests,
            json: _,
            uses: _,
        } = self;
        *namespace == other.namespace
            && *labels == other.labels
            && *scheduler_name == other.scheduler_name
            && *priority == other.priority
            && *terminating == other.terminating
            && *scheduling_gates == other.scheduling_gates
            && *owner == other.owner
            && *never_preempts == other.never_preempts
            && *is_preempted == other.is_preempted
            && *node_rules == other.node_rules
            && *affinity == other.affinity
            && *topology_spread == other.topology_spread
            && *tolerations == other.tolerations
            && *host_ports == other.host_ports
            && *volumes == other.volumes
            && *resource_claims == other.resource_claims
            && *extended_requests == other.extended_requests
            && *extended_claim == other.extended_claim
            && *images == other.images
            && *n_containers == other.n_containers
            && *required_features == other.required_features
            && *requests == other.requests
            && *placed_requests == other.placed_requests
            && *placed_non_zero == other.placed_non_zero
            && *scoring_requests == other.scoring_requests
            && *balanced_requests == other.balanced_requests
    }

    /// A hash that is equal for pods that [are equivalent](Self::is_equivalent). Pods that are not equivalent seldom
    /// have the same hash. For example, pods with different claims have different hashes.
    #[must_use]
    pub fn equivalence_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.scheduler_name, self.namespace, self.priority, &self.labels, &self.images).hash(&mut hasher);
        (self.requests.milli_cpu, self.requests.memory, self.tolerations.len()).hash(&mut hasher);
        let affinity = &self.affinity;
        (affinity.required.len(), affinity.anti_required.len()).hash(&mut hasher);
        (affinity.preferred.len(), affinity.anti_preferred.len(), self.topology_spread.len()).hash(&mut hasher);
        (&self.volumes, &self.resource_claims).hash(&mut hasher);
        // The pods of a DaemonSet differ in the node name that their node affinity requires.
        for requirement in self.node_rules.required.iter().flatten().flat_map(|term| &term.fields) {
            requirement.values.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The equivalence class of a pod, as a key for data that holds for each pod that [is equivalent](Pod::is_equivalent).
#[derive(Clone, Debug)]
pub struct EquivalenceClass {
    /// One of the pods of the class. It keeps the symbols of the class from being freed.
    pod: Arc<Pod>,
    hash: u64,
}

impl EquivalenceClass {
    /// The class of this pod.
    #[must_use]
    pub fn of(pod: &Arc<Pod>) -> Self {
        Self { pod: Arc::clone(pod), hash: pod.equivalence_hash() }
    }

    /// One of the pods of the class.
    #[must_use]
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// The [`Pod::equivalence_hash`] of the pods of the class.
    #[must_use]
    pub fn pod_hash(&self) -> u64 {
        self.hash
    }

    /// Whether the pod belongs to this class.
    #[must_use]
    pub fn contains(&self, pod: &Pod) -> bool {
        self.pod.is_equivalent(pod)
    }

    /// Whether the pod belongs to this class, if the nodes in the record of the pod and in the class are not compared.
    #[must_use]
    pub fn contains_elsewhere(&self, pod: &Pod) -> bool {
        self.pod.is_equivalent_elsewhere(pod)
    }
}

impl PartialEq for EquivalenceClass {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.contains(&other.pod)
    }
}

impl Eq for EquivalenceClass {}

impl Hash for EquivalenceClass {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Many nominated pods differ only in the names of their nodes, so these names are hashed, too.
        (self.hash, self.pod.node_name, self.pod.nominated_node_name).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use thin_vec::thin_vec;

    use super::*;
    use crate::{
        Sym,
        pod::{Volume, VolumeSource},
    };

    #[test]
    fn pods_of_one_controller_are_alike() {
        let first =
            Pod { uid: "1".into(), name: "web-1".into(), labels: thin_vec![(Sym(20), Sym(21))], ..Pod::default() };
        let second = Pod { uid: "2".into(), name: "web-2".into(), started_at: Some(1), ..first.clone() };
        assert!(first.is_equivalent(&second));
        assert_eq!(first.equivalence_hash(), second.equivalence_hash());
        let labelled = Pod { labels: thin_vec![(Sym(20), Sym(22))], ..first.clone() };
        let larger =
            Pod { balanced_requests: crate::pod::Resources { memory: 1, ..Default::default() }, ..first.clone() };
        assert!(!first.is_equivalent(&labelled) && !first.is_equivalent(&larger));
        let placed = Pod { node_name: Sym(30), ..first.clone() };
        assert!(!first.is_equivalent(&placed) && first.is_same_elsewhere(&placed));
        assert!(!first.is_same_elsewhere(&second) && !first.is_same_elsewhere(&labelled));
        assert_ne!(first.equivalence_hash(), labelled.equivalence_hash());
        let claim = |name: &str| Volume { name: "data".into(), source: VolumeSource::Claim(name.into()) };
        let [own, other] = ["one", "two"].map(|name| Pod { volumes: thin_vec![claim(name)], ..first.clone() });
        assert!(!own.is_equivalent(&other));
        assert_ne!(own.equivalence_hash(), other.equivalence_hash());
    }

    #[test]
    fn a_class_is_a_key_for_its_pods() {
        let pod = |uid: &str, priority| Arc::new(Pod { uid: uid.into(), priority, ..Pod::default() });
        let class = EquivalenceClass::of(&pod("a", 1));
        assert_eq!(class, EquivalenceClass::of(&pod("b", 1)));
        assert_ne!(class, EquivalenceClass::of(&pod("a", 2)));
        let nominated = Pod { nominated_node_name: Sym(40), ..Pod::clone(&pod("c", 1)) };
        assert!(!class.contains(&nominated) && class.contains_elsewhere(&nominated));
    }
}
