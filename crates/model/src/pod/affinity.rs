//! A pod's rules about other pods: topology spread constraints and inter-pod affinity, interned.

use thin_vec::ThinVec;

use super::{Operator, Requirement};
use crate::symbols::Sym;

/// A label selector. An absent selector matches nothing. A selector without requirements matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// The requirements, sorted so that equal selectors compare equal.
    pub requirements: Vec<Requirement>,
    /// The reason why the selector does not parse. A selector with a reason matches nothing.
    pub error: Option<String>,
}

impl LabelSelector {
    /// Whether labels, sorted by key symbol, meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &[(Sym, Sym)]) -> bool {
        self.error.is_none() && self.requirements.iter().all(|requirement| requirement.matches_labels(labels))
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && self.error.is_none()
    }
}

impl Requirement {
    /// Whether labels meet this requirement of a label selector. Label selectors have no `Gt` and `Lt`, so these
    /// operators match nothing.
    #[must_use]
    pub fn matches_labels(&self, labels: &[(Sym, Sym)]) -> bool {
        let value = labels.binary_search_by_key(&self.key, |(key, _)| *key).ok().and_then(|at| labels.get(at));
        match (self.operator, value) {
            (Operator::In, Some((_, value))) => self.values.contains(value),
            (Operator::NotIn, Some((_, value))) => !self.values.contains(value),
            (Operator::Exists, Some(_)) | (Operator::NotIn | Operator::DoesNotExist, None) => true,
            (Operator::In | Operator::Exists, None)
            | (Operator::DoesNotExist, Some(_))
            | (Operator::Gt | Operator::Lt, _) => false,
        }
    }
}

/// `spec.topologySpreadConstraints[]`. The selector already contains `matchLabelKeys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// `topologyKey`.
    pub topology_key: Sym,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule`; otherwise it is `ScheduleAnyway`.
    pub is_hard: bool,
    /// `labelSelector`.
    pub selector: Option<LabelSelector>,
    /// `minDomains`; 1 if it is absent.
    pub min_domains: i32,
    /// Whether `nodeAffinityPolicy` is `Honor`, which is the default.
    pub honor_node_affinity: bool,
    /// Whether `nodeTaintsPolicy` is `Honor`; the default is `Ignore`.
    pub honor_node_taints: bool,
}

/// `spec.affinity.podAffinity` and `podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAffinity {
    /// The required terms of `podAffinity`.
    pub required: ThinVec<PodTerm>,
    /// The preferred terms of `podAffinity`.
    pub preferred: ThinVec<WeightedPodTerm>,
    /// The required terms of `podAntiAffinity`.
    pub anti_required: ThinVec<PodTerm>,
    /// The preferred terms of `podAntiAffinity`.
    pub anti_preferred: ThinVec<WeightedPodTerm>,
}

impl PodAffinity {
    /// Whether the pod has no rules about other pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.preferred.is_empty()
            && self.anti_required.is_empty()
            && self.anti_preferred.is_empty()
    }
}

/// A pod affinity term. A term without namespaces and without a namespace selector means the namespace of its pod,
/// which is then in `namespaces`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The namespaces, sorted.
    pub namespaces: Vec<Sym>,
    /// The selector on the labels of namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// `labelSelector`. An absent selector matches no pod.
    pub selector: Option<LabelSelector>,
    /// `topologyKey`.
    pub topology_key: Sym,
}

/// A preferred pod affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedPodTerm {
    /// The weight, from 1 to 100.
    pub weight: i32,
    /// The term.
    pub term: PodTerm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_labels_meet_not_in_and_does_not_exist() {
        let labels = [(Sym(20), Sym(30)), (Sym(21), Sym(31))];
        let cases = [
            (20, Operator::In, vec![30], true),
            (20, Operator::In, vec![31], false),
            (22, Operator::In, vec![30], false),
            (20, Operator::NotIn, vec![30], false),
            (20, Operator::NotIn, vec![31], true),
            (22, Operator::NotIn, vec![30], true),
            (21, Operator::Exists, vec![], true),
            (22, Operator::Exists, vec![], false),
            (21, Operator::DoesNotExist, vec![], false),
            (22, Operator::DoesNotExist, vec![], true),
            (20, Operator::Gt, vec![29], false),
        ];
        for (key, operator, values, expected) in cases {
            let values = values.into_iter().map(Sym).collect();
            let selector =
                LabelSelector { requirements: vec![Requirement { key: Sym(key), operator, values }], error: None };
            assert_eq!(selector.matches(&labels), expected, "{selector:?}");
        }
        assert!(LabelSelector::default().matches(&labels));
        let broken = LabelSelector { error: Some("operator".to_owned()), ..LabelSelector::default() };
        assert!(!broken.matches(&labels));
    }
}
