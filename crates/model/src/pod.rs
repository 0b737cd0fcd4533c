//! A pod as plugins see it: interned, and with its requests summed up.

mod affinity;
mod equivalence;
mod storage;

use std::{cmp::Ordering, sync::Arc};

use thin_vec::ThinVec;

pub use self::{
    affinity::{LabelSelector, PodAffinity, PodTerm, SpreadConstraint, WeightedPodTerm},
    equivalence::EquivalenceClass,
    storage::{ClaimName, ContainerKind, ExtendedRequest, Owner, PodClaim, Volume, VolumeSource},
};
use crate::{
    pod_uid::PodUid,
    symbols::{Sym, Symbols, Uses},
    toleration::canonical_integer,
};

/// Amounts of resources as integers: milli-CPU, bytes, and units of scalar resources (hugepages in bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU in thousandths.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// The amounts of extended and other scalar resources, in the order of their names.
    pub scalars: ThinVec<(Sym, i64)>,
}

impl Resources {
    /// The amount of the resource `name`; 0 if it is absent.
    #[must_use]
    pub fn get(&self, name: Sym) -> i64 {
        match name {
            Sym::CPU => self.milli_cpu,
            Sym::MEMORY => self.memory,
            Sym::EPHEMERAL_STORAGE => self.ephemeral_storage,
            _ => self.scalars.iter().find(|(scalar, _)| *scalar == name).map_or(0, |(_, amount)| *amount),
        }
    }
}

/// `spec.tolerations[]`. An empty key, operator or effect has the same meaning as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// [`Sym::NONE`] matches every key.
    pub key: Sym,
    /// The comparison with the value.
    pub operator: TolerationOperator,
    /// The value that is compared with the value of the taint.
    pub value: Sym,
    /// `None` matches every effect.
    pub effect: Option<TaintEffect>,
}

/// `spec.tolerations[].operator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The values must be equal.
    Equal,
    /// Every value matches.
    Exists,
    /// The taint's number must be lower. This needs the gate TaintTolerationComparisonOperators.
    Lt,
    /// The taint's number must be higher. This needs the gate TaintTolerationComparisonOperators.
    Gt,
    /// An unknown operator, which never matches.
    Never,
}

/// `spec.taints[].effect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// Pods that do not tolerate the taint are kept off the node.
    NoSchedule,
    /// The node's score is lower for pods that do not tolerate the taint.
    PreferNoSchedule,
    /// Pods that do not tolerate the taint are kept off the node, and are evicted if they run on it.
    NoExecute,
}

/// `spec.taints[]` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// The key of the taint.
    pub key: Sym,
    /// The value of the taint; [`Sym::NONE`] if the taint has no value.
    pub value: Sym,
    /// The effect of the taint.
    pub effect: TaintEffect,
}

impl Toleration {
    /// Whether this toleration lets a pod onto a node with `taint` (Kubernetes docs, Taints and Tolerations). `numbers`
    /// contains the texts of the symbols. Without `numbers`, the operators `Lt` and `Gt` tolerate nothing.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint, numbers: Option<&Symbols>) -> bool {
        let compared = |wanted| {
            let number = |symbol| canonical_integer(numbers?.text(symbol));
            let [taint, own] = [number(taint.value), number(self.value)];
            taint.zip(own).is_some_and(|(taint, own)| taint.cmp(&own) == wanted)
        };
        if self.effect.is_some_and(|effect| effect != taint.effect) || (!self.key.is_none() && self.key != taint.key) {
            return false;
        }
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => compared(Ordering::Less),
            TolerationOperator::Gt => compared(Ordering::Greater),
            TolerationOperator::Never => false,
        }
    }
}

/// One requirement of a node selector term or of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label or field.
    pub key: Sym,
    /// The comparison with the values.
    pub operator: Operator,
    /// The values; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<Sym>,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is a number above the value. Only node selectors have this operator.
    Gt,
    /// The label is a number below the value. Only node selectors have this operator.
    Lt,
}

impl Operator {
    /// The operator of this name in the API; `None` for an unknown name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            "Gt" => Some(Self::Gt),
            "Lt" => Some(Self::Lt),
            _ => None,
        }
    }
}

/// A node selector term: all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTerm {
    /// `matchExpressions`.
    pub labels: Vec<Requirement>,
    /// Requirements on `metadata.name` only, with `In` or `NotIn` and one value.
    pub fields: Vec<Requirement>,
    /// The error of a term that does not parse. Such a term matches no node. As a preferred term, it fails the attempt
    /// with this text.
    pub error: Option<String>,
}

impl NodeTerm {
    /// Whether the term has no requirements. Such a term is ignored everywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.error.is_none()
    }
}

/// `preferredDuringSchedulingIgnoredDuringExecution[]` of node affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedNodeTerm {
    /// The weight, from 1 to 100.
    pub weight: i32,
    /// The `preference`.
    pub term: NodeTerm,
}

/// A port claimed on the host. The default protocol is TCP, and the default address is every address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `hostIP`.
    pub address: Sym,
    /// `protocol`.
    pub protocol: Sym,
    /// `hostPort`.
    pub port: i32,
}

impl HostPort {
    /// Whether one host cannot serve both ports.
    #[must_use]
    pub fn conflicts(&self, other: &HostPort) -> bool {
        self.port > 0
            && self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == Sym::ANY_ADDRESS || other.address == Sym::ANY_ADDRESS)
    }
}

/// `spec.affinity.nodeAffinity` and `spec.nodeSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRules {
    /// `spec.nodeSelector`. NodeAffinity's PreFilter skips an absent selector, but not an empty one.
    pub selector: Option<ThinVec<(Sym, Sym)>>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`. One term must match.
    pub required: Option<ThinVec<NodeTerm>>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`.
    pub preferred: Option<ThinVec<WeightedNodeTerm>>,
}

/// A pod, which may be pending or on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.namespace`.
    pub namespace: Sym,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// Labels, sorted by key symbol.
    pub labels: ThinVec<(Sym, Sym)>,
    /// `spec.schedulerName`.
    pub scheduler_name: Sym,
    /// `spec.priority`; 0 if it is absent.
    pub priority: i32,
    /// `spec.nodeName`; [`Sym::NONE`] while the pod is pending.
    pub node_name: Sym,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: Sym,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The names of the gates. Users read them in the reason why a pod is held back.
    pub scheduling_gates: ThinVec<Arc<str>>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// `status.startTime` in milliseconds since 1970.
    pub started_at: Option<i64>,
    /// Whether `spec.preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// Whether a scheduler is evicting the pod: it has the condition `DisruptionTarget` with the reason
    /// `PreemptionByScheduler`.
    pub is_preempted: bool,
    /// `spec.nodeSelector` and node affinity.
    pub node_rules: NodeRules,
    /// Pod affinity and anti-affinity.
    pub affinity: PodAffinity,
    /// `spec.topologySpreadConstraints`.
    pub topology_spread: ThinVec<SpreadConstraint>,
    /// `spec.tolerations`.
    pub tolerations: ThinVec<Toleration>,
    /// The host ports of the pod's containers.
    pub host_ports: ThinVec<HostPort>,
    /// `spec.volumes` that matter to scheduling.
    pub volumes: ThinVec<Volume>,
    /// `spec.resourceClaims`.
    pub resource_claims: ThinVec<PodClaim>,
    /// Requests of extended resources, by container.
    pub extended_requests: ThinVec<ExtendedRequest>,
    /// `status.extendedResourceClaimStatus.resourceClaimName`.
    pub extended_claim: Option<Arc<str>>,
    /// The normalised image names of init containers, containers and image volumes, with repetitions.
    pub images: ThinVec<Sym>,
    /// The number of init and regular containers and, in Kubernetes 1.37, image volumes. Each of them has an image.
    pub n_containers: u32,
    /// The node features that the pod needs to run (KEP-5328).
    pub required_features: ThinVec<Sym>,
    /// The requests of the pod's spec.
    pub requests: Resources,
    /// The amounts that the pod adds to the usage of its node. They include the status of an in-place resize
    /// (KEP-1287).
    pub placed_requests: Resources,
    /// CPU and memory of [`Self::placed_requests`], with 100m and 200 MiB for containers without requests.
    pub placed_non_zero: NonZero,
    /// The amounts that NodeResourcesFit scores: sums over containers with the same defaults. Pod-level resources are
    /// ignored.
    pub scoring_requests: Resources,
    /// The amounts that NodeResourcesBalancedAllocation scores. A missing request counts as zero. Pod-level resources
    /// and the status of a resize are included.
    pub balanced_requests: Resources,
    /// The whole object, while the pod is pending and some plugin's manifest asks for it.
    pub json: Option<Arc<[u8]>>,
    /// A value that keeps the pod's symbols from being freed.
    pub uses: Uses,
}

/// CPU and memory, with defaults for containers without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// CPU in thousandths.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}
