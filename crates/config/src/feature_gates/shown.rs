//! For each gate that can be switched, the tests in which the gate makes a difference. The guide shows this list.

use std::{collections::BTreeSet, fmt, fs, path::Path};

use berth_model::{Feature, Release, features::FeatureKind};

use super::{OF_THE_PROGRAM, find};

/// The proof that a gate works.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    /// The tests that compare the gate on and off, each with its file and its name.
    By(&'static [(&'static str, &'static str)]),
    /// No behaviour that a test could observe depends on the gate. The text is the reason.
    NothingToSee(&'static str),
}

use Shown::{By, NothingToSee};

/// kube-scheduler's recorded answers with the gate at the other value than the default.
const RECORDED: Shown = By(&[("tests/oracle/tests/recorded.rs", "each_gate_of_the_cases_changes_an_answer")]);
/// The plugin DynamicResources.
const DEVICES: &str = "crates/builtins/src/dynamic_resources/tests/gates.rs";
/// The share of a node that devices take.
const NODE_SHARES: &str = "crates/builtins/src/dynamic_resources/tests/node_shares.rs";
/// The gates for resources of whole pods.
const POD_LEVEL: Shown =
    By(&[("crates/model/src/requests/tests.rs", "pod_level_resources_and_their_resizes_need_their_gates")]);
/// The gates that the scheduler itself reads.
const SETTINGS: (&str, &str) = ("crates/runtime/src/configuration.rs", "gates_decide_settings");
const ENDPOINTS: Shown = By(&[("host/tests/it/https.rs", "gates_decide_what_the_endpoints_show")]);

/// Each gate that can be switched, by name.
pub(super) const SHOWN: [(&str, Shown); 31] = [
    ("ComponentFlagz", ENDPOINTS),
    ("ComponentStatusz", ENDPOINTS),
    ("ContextualLogging", NothingToSee("kube-scheduler adds keys of a context to lines that Berth does not write")),
    (
        "CoordinatedLeaderElection",
        By(&[("host/tests/it/coordinated_election.rs", "the_coordinator_says_which_replica_leads")]),
    ),
    ("DRAConsumableCapacity", RECORDED),
    ("DRADeviceBindingConditions", RECORDED),
    ("DRADeviceTaintRules", RECORDED),
    ("DRADeviceTaints", RECORDED),
    ("DRAExtendedResource", RECORDED),
    (
        "DRAFractionalCapacityRange",
        By(&[("crates/builtins/src/dynamic_resources/capacity.rs", "ranges_are_counted_in_thousandths_with_the_gate")]),
    ),
    ("DRAListTypeAttributes", RECORDED),
    (
        "DRANodeAllocatableResources",
        By(&[
            (NODE_SHARES, "devices_take_a_share_of_their_node_with_the_gate"),
            (
                "crates/model/src/requests/tests.rs",
                "what_devices_take_of_the_node_counts_with_its_gate_once_the_pod_has_a_node",
            ),
        ]),
    ),
    ("DRAPartitionableDevices", RECORDED),
    ("DRAPrioritizedList", By(&[(DEVICES, "alternatives_need_their_gate")])),
    ("DRAResourceClaimDeviceStatus", By(&[(DEVICES, "binding_waits_for_devices_only_if_their_status_is_known")])),
    (
        "DRASchedulerFilterTimeout",
        By(&[("crates/builtins/src/dynamic_resources/args.rs", "without_its_gate_a_search_has_no_timeout")]),
    ),
    ("InPlacePodLevelResourcesVerticalScaling", POD_LEVEL),
    (
        "InterPodAffinityHostnameFastPath",
        NothingToSee("the gate changes only how kube-scheduler finds the same answer"),
    ),
    (
        "LoggingAlphaOptions",
        By(&[("host/tests/it/log_lines.rs", "informational_lines_go_to_standard_output_with_the_gate")]),
    ),
    ("LoggingBetaOptions", By(&[("host/src/kube_scheduler.rs", "the_log_is_json_only_with_the_gate")])),
    (
        "MatchLabelKeysInPodTopologySpread",
        By(&[("crates/model/src/intern/affinity.rs", "label_keys_narrow_selectors_with_their_gate")]),
    ),
    (
        "NodeDeclaredFeatures",
        By(&[("crates/config/src/in_tree.rs", "node_declared_features_is_a_default_plugin_only_with_its_gate")]),
    ),
    (
        "NominatedNodeNameForExpectation",
        By(&[SETTINGS, ("crates/scheduler/src/tests/permit.rs", "without_its_gate_nobody_sees_where_the_pod_will_go")]),
    ),
    ("OpportunisticBatching", By(&[SETTINGS])),
    ("PodLevelResources", POD_LEVEL),
    ("SchedulerAsyncAPICalls", ENDPOINTS),
    (
        "SchedulerAsyncPreemption",
        By(&[
            SETTINGS,
            (
                "crates/scheduler/src/tests/preemption.rs",
                "without_its_gate_no_pod_is_tried_before_the_victims_are_evicted",
            ),
        ]),
    ),
    (
        "SchedulerPopFromBackoffQ",
        By(&[
            SETTINGS,
            (
                "crates/queue/src/tests.rs",
                "without_its_gate_a_pod_waits_for_the_end_of_its_backoff_and_is_asked_about_then",
            ),
        ]),
    ),
    ("StorageCapacityScoring", RECORDED),
    ("TaintTolerationComparisonOperators", RECORDED),
    ("VolumeLimitScaling", RECORDED),
];

/// `name` in `file`, or the reason why there is no test.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(tests) => {
                let tests: Vec<String> = tests.iter().map(|(file, name)| format!("`{name}` in `{file}`")).collect();
                f.write_str(&tests.join("; "))
            }
            Self::NothingToSee(reason) => write!(f, "none: {reason}"),
        }
    }
}

/// Whether the gate can be switched in some release of kube-scheduler.
pub(super) fn is_switched(name: &str) -> bool {
    Release::ALL.iter().any(|release| find(*release, name).is_some_and(|gate| !gate.is_locked))
}

/// The gates that can be switched in some release, with their explanations, by name.
pub(super) fn switchable() -> Vec<(&'static str, &'static str)> {
    let mut gates: Vec<(&str, &str)> = OF_THE_PROGRAM.to_vec();
    let features = Feature::ALL.iter().filter(|feature| feature.kind() == FeatureKind::Gate);
    gates.extend(features.map(|feature| (feature.name(), feature.explanation())));
    gates.sort_unstable();
    gates.retain(|(name, _)| is_switched(name));
    gates
}

#[test]
fn each_gate_that_can_be_switched_is_shown_to_work() {
    let switchable: BTreeSet<&str> = switchable().into_iter().map(|(name, _)| name).collect();
    let shown: BTreeSet<&str> = SHOWN.iter().map(|(name, _)| *name).collect();
    assert_eq!(shown, switchable, "each gate needs the name of a test, or a reason why nothing can be seen");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (gate, shown) in SHOWN {
        let tests = match shown {
            By(tests) => tests,
            NothingToSee(reason) => {
                assert!(!reason.is_empty(), "{gate}");
                continue;
            }
        };
        for (file, name) in tests {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(text.contains(&format!("fn {name}(")), "{gate}: {file} has no test {name}");
        }
        assert!(!tests.is_empty(), "{gate}");
    }
}
