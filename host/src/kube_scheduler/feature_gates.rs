//! `--feature-gates`: the gates of kube-scheduler 1.36.2, and how each stands there by default.
//!
//! Berth decides as kube-scheduler does with the defaults. A gate of the scheduler that is set otherwise is refused, but for
//! SchedulerAsyncAPICalls, which decides nothing; one of other components, which share one list of gates, is accepted and has
//! no meaning.

use berth_config::feature_gates;

/// Gates that change what the scheduler does, beside those whose names begin with `DRA`.
const OF_THE_SCHEDULER: [&str; 30] = [
    "AllAlpha",
    "AllBeta",
    "CoordinatedLeaderElection",
    "DynamicResourceAllocation",
    "GangScheduling",
    "GenericWorkload",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "MatchLabelKeysInPodAffinity",
    "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "MutableCSINodeAllocatableCount",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "PodLevelResources",
    "PodObservedGenerationTracking",
    "PodSchedulingReadiness",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeAttributesClass",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
    "WorkloadWithJob",
];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GateError {
    #[error("--feature-gates {0}: write it as Name=true or Name=false")]
    Malformed(String),
    #[error("--feature-gates {0}: kube-scheduler 1.36 has no such gate; correct the name, or leave it out")]
    Unknown(String),
    #[error("--feature-gates {name}={value}: what it changes is not built; leave it out, which means {name}={}", !value)]
    NotBuilt { name: String, value: bool },
}

/// What `--feature-gates` changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gates<'a> {
    /// SchedulerAsyncAPICalls.
    pub async_api_calls: bool,
    /// Settings that have no effect.
    pub without_effect: Vec<&'a str>,
}

/// Checks what `--feature-gates` says, one gate a text.
pub(super) fn check<'a>(settings: &[&'a str]) -> Result<Gates<'a>, GateError> {
    let mut gates = Gates::default();
    for setting in settings.iter().filter(|setting| !setting.is_empty()) {
        let malformed = || GateError::Malformed((*setting).to_owned());
        let (name, value) = setting.split_once('=').ok_or_else(malformed)?;
        let value = super::flags::go_bool(value).ok_or_else(malformed)?;
        let name = name.strip_prefix("kube:").unwrap_or(name);
        let default = default_of(name).ok_or_else(|| GateError::Unknown((*setting).to_owned()))?;
        if name == "SchedulerAsyncAPICalls" {
            gates.async_api_calls = value;
            continue;
        }
        if value == default {
            continue;
        }
        if name.starts_with("DRA") || OF_THE_SCHEDULER.contains(&name) {
            return Err(GateError::NotBuilt { name: name.to_owned(), value });
        }
        gates.without_effect.push(*setting);
    }
    Ok(gates)
}

fn default_of(name: &str) -> Option<bool> {
    feature_gates::all().find(|gate| gate.name == name).map(|gate| gate.is_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_stand_as_they_do_by_default() {
        let defaults = ["SchedulerQueueingHints=true", "kube:DRADeviceTaints=true", "GangScheduling=false", ""];
        assert_eq!(check(&defaults), Ok(Gates::default()));
        let of_others = ["RotateKubeletServerCertificate=false", "KubeletPSI=true", "PodsAPI=T"];
        let without_effect = vec![of_others[0], of_others[2]];
        assert_eq!(check(&of_others), Ok(Gates { without_effect, ..Gates::default() }));
        let changed = GateError::NotBuilt { name: "GangScheduling".to_owned(), value: true };
        assert_eq!(check(&["GangScheduling=true"]), Err(changed));
        let counted = Gates { async_api_calls: true, ..Gates::default() };
        assert_eq!(check(&["SchedulerAsyncAPICalls=true"]), Ok(counted));
        assert!(matches!(check(&["DRAPrioritizedList=0"]), Err(GateError::NotBuilt { .. })));
        assert_eq!(check(&["NoSuchGate=true"]), Err(GateError::Unknown("NoSuchGate=true".to_owned())));
        assert_eq!(check(&["GangScheduling"]), Err(GateError::Malformed("GangScheduling".to_owned())));
        assert_eq!(check(&["GangScheduling=yes"]), Err(GateError::Malformed("GangScheduling=yes".to_owned())));
    }

    #[test]
    fn gates_of_the_scheduler_are_gates() {
        for name in OF_THE_SCHEDULER {
            assert!(default_of(name).is_some(), "{name}");
        }
    }
}
