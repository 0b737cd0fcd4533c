//! A pod as plugins see it: interned, with its requests summed once.

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

/// Amounts in the scheduler's integers: milli-CPU, bytes, and units of scalar resources (hugepages in bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Extended and other scalar resources by name, in the order of their names.
    pub scalars: ThinVec<(Sym, i64)>,
}

impl Resources {
    /// The amount of the resource called `name`; 0 when it is absent.
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

/// `spec.tolerations[]`; the meaning of an empty key, operator or effect is Kubernetes'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// [`Sym::NONE`] matches every key.
    pub key: Sym,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// Compared with the value of the taint.
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
    /// The taint's number must be lower, while the gate TaintTolerationComparisonOperators is on.
    Lt,
    /// The taint's number must be higher, while that gate is on.
    Gt,
    /// An unknown operator, which never matches.
    Never,
}

/// `spec.taints[].effect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// Keeps pods away that do not tolerate it.
    NoSchedule,
    /// Scores the node lower for them.
    PreferNoSchedule,
    /// Keeps them away and evicts those that run.
    NoExecute,
}

/// `spec.taints[]` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: Sym,
    /// Its value; [`Sym::NONE`] if it has none.
    pub value: Sym,
    /// Its effect.
    pub effect: TaintEffect,
}

impl Toleration {
    /// Whether this toleration lets a pod onto a node with `taint` (Kubernetes docs, Taints and Tolerations). Numbers are compared
    /// if the texts of their symbols are given.
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
    /// How the values are compared.
    pub operator: Operator,
    /// Empty for `Exists` and `DoesNotExist`.
    pub values: Vec<Sym>,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// A number above the value; node selectors only.
    Gt,
    /// A number below the value; node selectors only.
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
    /// A term that does not parse: it matches no node, and as a preferred term it fails the attempt with this text.
    pub error: Option<String>,
}

impl NodeTerm {
    /// A term without requirements is ignored, whatever it stands in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.error.is_none()
    }
}

/// `preferredDuringSchedulingIgnoredDuringExecution[]` of node affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedNodeTerm {
    /// 1 to 100.
    pub weight: i32,
    /// Its `preference`.
    pub term: NodeTerm,
}

/// A port claimed on the host; an empty protocol means TCP and an empty address every address.
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
    /// Whether both cannot be served by one host.
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
    /// `spec.nodeSelector`; an absent one and an empty one differ in whether NodeAffinity's PreFilter skips.
    pub selector: Option<ThinVec<(Sym, Sym)>>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`; one term must match.
    pub required: Option<ThinVec<NodeTerm>>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`.
    pub preferred: Option<ThinVec<WeightedNodeTerm>>,
}

/// A pod, pending or placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.namespace`.
    pub namespace: Sym,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// Sorted by key symbol.
    pub labels: ThinVec<(Sym, Sym)>,
    /// `spec.schedulerName`.
    pub scheduler_name: Sym,
    /// `spec.priority`; 0 if it is absent.
    pub priority: i32,
    /// `spec.nodeName`; [`Sym::NONE`] while pending.
    pub node_name: Sym,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: Sym,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The gates by name: users read them in the reason for which a pod is held back.
    pub scheduling_gates: ThinVec<Arc<str>>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// `status.startTime` in milliseconds since 1970.
    pub started_at: Option<i64>,
    /// `spec.preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Being evicted by a scheduler: condition `DisruptionTarget` with reason `PreemptionByScheduler`.
    pub is_preempted: bool,
    /// `spec.nodeSelector` and node affinity.
    pub node_rules: NodeRules,
    /// Pod affinity and anti-affinity.
    pub affinity: PodAffinity,
    /// `spec.topologySpreadConstraints`.
    pub topology_spread: ThinVec<SpreadConstraint>,
    /// `spec.tolerations`.
    pub tolerations: ThinVec<Toleration>,
    /// Host ports of its containers.
    pub host_ports: ThinVec<HostPort>,
    /// `spec.volumes` that matter to scheduling.
    pub volumes: ThinVec<Volume>,
    /// `spec.resourceClaims`.
    pub resource_claims: ThinVec<PodClaim>,
    /// Requests of extended resources, container by container.
    pub extended_requests: ThinVec<ExtendedRequest>,
    /// `status.extendedResourceClaimStatus.resourceClaimName`.
    pub extended_claim: Option<Arc<str>>,
    /// Normalised image names of init containers, containers and image volumes, repetitions kept.
    pub images: ThinVec<Sym>,
    /// Init and regular containers, and in Kubernetes 1.37 image volumes: what comes with an image.
    pub n_containers: u32,
    /// Node features without which the pod cannot run (KEP-5328).
    pub required_features: ThinVec<Sym>,
    /// What the pod asks for, from its spec.
    pub requests: Resources,
    /// What a node's usage grows by: the status of an in-place resize counts (KEP-1287).
    pub placed_requests: Resources,
    /// CPU and memory of [`Self::placed_requests`] with 100m and 200 MiB for containers that request none.
    pub placed_non_zero: NonZero,
    /// What NodeResourcesFit scores: container sums with the same defaults, pod-level resources ignored.
    pub scoring_requests: Resources,
    /// What NodeResourcesBalancedAllocation scores: no defaults, pod-level resources honoured, status counts.
    pub balanced_requests: Resources,
    /// The whole object, while the pod is pending and some plugin's manifest asks for it.
    pub json: Option<Arc<[u8]>>,
    /// Keeps its symbols from being freed.
    pub uses: Uses,
}

/// CPU and memory with the defaults for containers that request none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}
