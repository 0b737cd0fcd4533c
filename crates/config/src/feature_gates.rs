//! The feature gates of kube-scheduler, with their defaults in each release and their effects in Berth.
//!
//! A gate that is a [`berth_model::Feature`] switches rules of plugins. The other gates have an effect where the
//! scheduler or the endpoints read them.

use std::collections::BTreeMap;

use berth_model::{Feature, Features, Release, features::FeatureKind};

/// The gates of 1.36.2, one per line: the name, the stage, the default, and `locked` if the gate cannot be switched.
const IN_1_36: &str = include_str!("feature_gates_1.36.txt");
/// The changes in 1.37, in the same form. The word `removed` removes a gate. Only gates that the scheduler reads are
/// listed.
const CHANGES_OF_1_37: &str = include_str!("feature_gates_1.37_changes.txt");

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    pub name: &'static str,
    /// `ALPHA`, `BETA`, `GA` or `DEPRECATED`.
    pub stage: &'static str,
    pub is_on: bool,
    /// Whether the gate cannot be switched. This is known only for the gates that the scheduler reads.
    pub is_locked: bool,
}

/// All gates of a release, by name.
pub fn of_release(release: Release) -> impl Iterator<Item = FeatureGate> {
    let mut gates: BTreeMap<_, _> =
        lines(IN_1_36).filter_map(|(name, words)| Some((name, gate(name, words)?))).collect();
    if release >= Release::V1_37 {
        for (name, words) in lines(CHANGES_OF_1_37) {
            match gate(name, words) {
                Some(gate) => gates.insert(name, gate),
                None => gates.remove(name),
            };
        }
    }
    gates.into_values()
}

/// All gates, by name.
pub fn all() -> impl Iterator<Item = FeatureGate> {
    of_release(Release::default())
}

/// A gate of a release.
#[must_use]
pub fn find(release: Release, name: &str) -> Option<FeatureGate> {
    of_release(release).find(|gate| gate.name == name)
}

/// Gates that switch something other than rules of plugins: the scheduler and the endpoints read them. The text
/// describes the effect of the gate.
const OF_THE_PROGRAM: [(&str, &str); 12] = [
    ("ComponentFlagz", "`/flagz` is served."),
    ("ComponentStatusz", "`/statusz` is served."),
    ("ContextualLogging", "None: the lines that Berth writes have the same keys without the gate."),
    (
        "CoordinatedLeaderElection",
        "The API server chooses the leader from the LeaseCandidates of the replicas. The API server must serve `coordination.k8s.io/v1beta1`.",
    ),
    (
        "InterPodAffinityHostnameFastPath",
        "None: Berth always counts terms about single nodes without a search for domains.",
    ),
    (
        "LoggingAlphaOptions",
        "The log may have two streams: `--log-text-split-stream`, `--log-json-split-stream` and the flags of their buffers are accepted.",
    ),
    ("LoggingBetaOptions", "`--logging-format=json` is accepted."),
    (
        "NominatedNodeNameForExpectation",
        "A pod that waits before it is bound has the chosen node in `status.nominatedNodeName`.",
    ),
    (
        "OpportunisticBatching",
        "The scheduler uses the answers of plugins for one pod again for equivalent pods. The gate does not change which nodes are chosen.",
    ),
    ("SchedulerAsyncAPICalls", "`/metrics` has the metrics of asynchronous API calls."),
    (
        "SchedulerAsyncPreemption",
        "Other pods are scheduled while the victims of a preemption are evicted; otherwise they wait until the victims are evicted.",
    ),
    ("SchedulerPopFromBackoffQ", "The scheduler tries rejected pods before their backoff is over if activeQ is empty."),
];

/// Gates that would change the scheduler's behaviour, but are not implemented. They keep their defaults. Each gate
/// comes with the reason.
const UNBUILT: [(&str, &str); 24] = [
    ("AllAlpha", "it turns on gates that are not implemented"),
    ("AllBeta", "it switches gates that are not implemented"),
    ("CompositePodGroup", GROUPS),
    ("DRADerivedAttributes", ALPHA),
    ("DRADeviceCompatibilityGroups", ALPHA),
    ("DRAOptionalNodeOperations", ALPHA),
    ("DRAWorkloadResourceClaims", GROUPS),
    ("DynamicResourceAllocation", "the plugin DynamicResources is always available"),
    ("GangScheduling", GROUPS),
    ("GenericWorkload", GROUPS),
    ("InPlacePodVerticalScaling", RESIZES),
    ("InPlacePodVerticalScalingSchedulerPreemption", ALPHA),
    ("MatchLabelKeysInPodAffinity", KEYS),
    ("MutableCSINodeAllocatableCount", "changes of a CSINode always count"),
    ("NodeInclusionPolicyInPodTopologySpread", "the policies of constraints always count"),
    ("PodGroupPreemptionPolicy", GROUPS),
    ("PodObservedGenerationTracking", "conditions always have observedGeneration"),
    ("PodSchedulingReadiness", "pods with scheduling gates always wait"),
    ("SchedulerPreQueueingHints", "it changes no decision"),
    ("SchedulerQueueingHints", "the scheduler always calls queueing hints"),
    ("SidecarContainers", "restartable init containers always count"),
    ("TopologyAwareWorkloadScheduling", GROUPS),
    ("VolumeAttributesClass", "the volume plugins always use the default of the gate"),
    ("WorkloadAwarePreemption", GROUPS),
];

const ALPHA: &str = "it is an alpha feature";
const GROUPS: &str = "groups of pods are not scheduled together";
const KEYS: &str = "matchLabelKeys and mismatchLabelKeys of pod affinity always have their default effect";
const RESIZES: &str = "the resources of an in-place resize always have their default effect";

/// Gates that may be on only while other gates are on. For each gate, the table has those of the other gates that can
/// be switched (`defaultKubernetesFeatureGateDependencies` in Kubernetes' `pkg/features/kube_features.go`). A gate is
/// in the table if the scheduler reads it, or reads a gate on which it depends.
const DEPENDENCIES: [(&str, &[&str]); 5] = [
    ("DRADeviceBindingConditions", &["DRAResourceClaimDeviceStatus"]),
    ("DRADeviceTaintRules", &["DRADeviceTaints"]),
    ("InPlacePodLevelResourcesVerticalScaling", &["PodLevelResources", "NodeDeclaredFeatures"]),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", &["MatchLabelKeysInPodTopologySpread"]),
    ("RestartAllContainersOnContainerExits", &["ContainerRestartRules", "NodeDeclaredFeatures"]),
];

/// The reason why a gate cannot be switched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// kube-scheduler has no gate of this name.
    #[error(
        "unrecognized feature gate: {name}: kube-scheduler {release} has none of this name; correct it, or leave it out"
    )]
    Unknown { name: String, release: &'static str },
    /// The gate is locked in kube-scheduler, too.
    #[error("cannot set feature gate {name} to {}, feature is locked to {default}", !default)]
    Locked { name: String, default: bool },
    /// kube-scheduler can switch the gate.
    #[error("{name}={value} is not supported, because {reason}; leave the gate out to use {name}={}", !value)]
    NotBuilt { name: String, value: bool, reason: &'static str },
    /// The gate is on, and gates that it needs are off.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", .off.join(" "))]
    Dependency { name: &'static str, off: Vec<&'static str> },
}

/// The component that a gate affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The scheduler.
    Scheduler,
    /// Other components, which share the list of gates with the scheduler. The gate has no effect here.
    Others,
}

/// Gates that are on by default only if `--min-compatibility-version` excludes components of older releases.
const ONCE_NONE_IS_OLDER: [&str; 1] = ["DRAFractionalCapacityRange"];

/// The state of all gates of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    release: Release,
    /// The minor version in `--min-compatibility-version`. By default, it is the minor version of the previous release.
    oldest_minor: Option<u32>,
    switched: BTreeMap<&'static str, bool>,
}

impl Gates {
    /// The gates with their defaults.
    #[must_use]
    pub fn of_release(release: Release) -> Self {
        Self { release, ..Self::default() }
    }

    /// The gates with their defaults for a cluster in which no component is older than the release with this minor
    /// version.
    #[must_use]
    pub fn of_cluster(release: Release, oldest_minor: u32) -> Self {
        Self { release, oldest_minor: Some(oldest_minor), ..Self::default() }
    }

    /// The release that the gates belong to.
    #[must_use]
    pub fn release(&self) -> Release {
        self.release
    }

    /// The minor version of the oldest release that a component of the cluster may have:
    /// `--min-compatibility-version`.
    #[must_use]
    pub fn oldest_minor(&self) -> u32 {
        self.oldest_minor.unwrap_or_else(|| self.release.minor().saturating_sub(1))
    }

    /// The gate with its default.
    fn find(&self, name: &str) -> Option<FeatureGate> {
        find(self.release, name).map(|gate| self.by_default(gate))
    }

    fn by_default(&self, gate: FeatureGate) -> FeatureGate {
        let none_is_older = self.oldest_minor() >= self.release.minor();
        let is_on = gate.is_on || none_is_older && ONCE_NONE_IS_OLDER.contains(&gate.name);
        FeatureGate { is_on, ..gate }
    }

    /// Switches a gate. A gate can always be switched to its default.
    ///
    /// # Errors
    /// The gate does not exist, or cannot be switched.
    pub fn switch(&mut self, name: &str, value: bool) -> Result<Concern, GateError> {
        let release = self.release.as_str();
        let gate = self.find(name).ok_or_else(|| GateError::Unknown { name: name.to_owned(), release })?;
        let unbuilt = UNBUILT.iter().find(|(unbuilt, _)| *unbuilt == name);
        let is_known = unbuilt.is_some()
            || OF_THE_PROGRAM.iter().any(|(of_program, _)| *of_program == name)
            || feature(name).is_some();
        if value == gate.is_on {
            self.switched.remove(gate.name);
            return Ok(if is_known { Concern::Scheduler } else { Concern::Others });
        }
        if gate.is_locked {
            return Err(GateError::Locked { name: name.to_owned(), default: gate.is_on });
        }
        if let Some((_, reason)) = unbuilt {
            return Err(GateError::NotBuilt { name: name.to_owned(), value, reason });
        }
        self.switched.insert(gate.name, value);
        Ok(if is_known { Concern::Scheduler } else { Concern::Others })
    }

    /// Checks that no gate is on without the gates that it needs.
    ///
    /// # Errors
    /// A gate is on, and a gate that it needs is off.
    pub fn check_dependencies(&self) -> Result<(), GateError> {
        for (name, needed) in DEPENDENCIES.into_iter().filter(|(name, _)| self.is_on(name)) {
            let off: Vec<&str> = needed.iter().copied().filter(|needed| !self.is_on(needed)).collect();
            if !off.is_empty() {
                return Err(GateError::Dependency { name, off });
            }
        }
        Ok(())
    }

    /// Whether the gate is on. A gate that the release does not have is off.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        let switched = self.switched.get(name).copied();
        switched.or_else(|| self.find(name).map(|gate| gate.is_on)).unwrap_or_default()
    }

    /// All gates with their current state, by name.
    pub fn all(&self) -> impl Iterator<Item = FeatureGate> {
        of_release(self.release).map(|gate| FeatureGate { is_on: self.is_on(gate.name), ..gate })
    }

    /// The features that the rules of plugins need.
    #[must_use]
    pub fn features(&self) -> Features {
        let gates = Feature::ALL.iter().filter(|feature| feature.kind() == FeatureKind::Gate);
        gates.fold(Features::of(self.release), |features, gate| features.with(*gate, self.is_on(gate.name())))
    }
}

fn feature(name: &str) -> Option<Feature> {
    let gates = Feature::ALL.iter().filter(|feature| feature.kind() == FeatureKind::Gate);
    gates.copied().find(|feature| feature.name() == name)
}

fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.lines().filter_map(|line| line.split_once(' '))
}

/// `None` for a gate that is removed.
fn gate(name: &'static str, words: &'static str) -> Option<FeatureGate> {
    let (stage, standing) = words.split_once(' ')?;
    let (default, lock) = standing.split_once(' ').unwrap_or((standing, ""));
    Some(FeatureGate { name, stage, is_on: default == "on", is_locked: lock == "locked" })
}

#[cfg(test)]
mod shown;
#[cfg(test)]
mod tests;
