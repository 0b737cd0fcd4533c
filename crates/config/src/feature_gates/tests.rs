//! Tests for the tables of gates, and for the page of the guide that is made from these tables.

use super::*;
use crate::feature_gates::shown::{SHOWN, is_switched, switchable};

#[test]
fn each_line_is_a_gate() {
    assert_eq!((all().count(), IN_1_36.lines().count()), (244, 244));
    let hints = FeatureGate { name: "SchedulerQueueingHints", stage: "GA", is_on: true, is_locked: true };
    assert_eq!(find(Release::V1_36, "SchedulerQueueingHints"), Some(hints));
    assert_eq!(find(Release::V1_37, "SchedulerQueueingHints"), None);
    let scoring = FeatureGate { name: "StorageCapacityScoring", stage: "BETA", is_on: true, is_locked: false };
    assert_eq!(find(Release::V1_37, "StorageCapacityScoring"), Some(scoring));
}

#[test]
fn features_that_are_gates_stand_as_the_gates_do() {
    for release in Release::ALL {
        for feature in Feature::ALL.iter().filter(|feature| feature.kind() == FeatureKind::Gate) {
            // A gate that a release does not have yet is off in that release.
            let is_on = find(release, feature.name()).is_some_and(|gate| gate.is_on);
            assert_eq!(is_on, feature.is_on_in(release), "{} in {}", feature.name(), release.as_str());
        }
    }
}

#[test]
fn what_is_said_of_gates_is_of_gates() {
    let is_gate = |name: &str| Release::ALL.into_iter().any(|release| find(release, name).is_some());
    for (name, _) in UNBUILT.into_iter().chain(OF_THE_PROGRAM) {
        assert!(is_gate(name), "{name}");
    }
    // Every gate about devices is a feature, or is listed by name.
    let open = |gate: &FeatureGate| gate.name.starts_with("DRA") && !gate.is_locked && feature(gate.name).is_none();
    let unnamed =
        of_release(Release::V1_37).filter(open).filter(|gate| UNBUILT.iter().all(|(name, _)| *name != gate.name));
    let of_other_components = ["DRAResourceClaimGranularStatusAuthorization", "DRAResourcePoolStatus"];
    assert_eq!(unnamed.map(|gate| gate.name).collect::<Vec<_>>(), of_other_components);
}

#[test]
fn gates_are_switched_or_refused() {
    let mut gates = Gates::default();
    assert_eq!(gates.switch("StorageCapacityScoring", true), Ok(Concern::Scheduler));
    assert_eq!(gates.switch("OpportunisticBatching", false), Ok(Concern::Scheduler));
    assert_eq!(gates.switch("KubeletPSI", false), Ok(Concern::Others));
    assert_eq!(gates.switch("SchedulerQueueingHints", true), Ok(Concern::Scheduler));
    assert!(gates.features().has(Feature::StorageCapacityScoring) && !gates.is_on("OpportunisticBatching"));
    assert!(gates.all().any(|gate| gate.name == "StorageCapacityScoring" && gate.is_on));
    let refused = |name, value| Gates::default().switch(name, value).expect_err("refused").to_string();
    let locked = "cannot set feature gate SidecarContainers to false, feature is locked to true";
    assert_eq!(refused("SidecarContainers", false), locked);
    assert!(refused("GangScheduling", true).starts_with("GangScheduling=true is not supported, because groups"));
    assert!(refused("NoSuchGate", true).starts_with("unrecognized feature gate: NoSuchGate"));
}

/// `docs/src/feature-gates.md`.
fn gates_page() -> String {
    let mut page = String::from(
        "# Feature gates\n\n\
         A *feature gate* switches one feature of Kubernetes on or off. If Berth is called as `kube-scheduler`, you set gates with `--feature-gates`. Berth then\n\
         decides as kube-scheduler of [its Kubernetes release](kubernetes-releases.md) does with these gates. Berth refuses a locked gate, and a\n\
         gate that is on without the gates on which it depends, as kube-scheduler does. It accepts gates of other components, and they have no effect. The tables of\n\
         this page are made from `crates/model/src/features.rs` and `crates/config/src/feature_gates.rs`. A test fails when the page differs.\n\n\
         ## Gates that can be switched\n\n\
         A dash says that the release does not have the gate, and refuses it.\n\n\
         | gate | 1.36 | 1.37 | effect while it is on |\n\
         |---|---|---|---|\n",
    );
    for (name, explanation) in switchable() {
        page += &format!("| {name} | {} | {explanation} |\n", in_each(name));
    }
    page += &format!(
        "\n\
         With `--min-compatibility-version=1.37` these gates are on in 1.37: {}.\n\n\
         ## Gates that are not implemented\n\n\
         Berth does not implement the other value of these gates of the scheduler. It accepts the default value, and refuses any other value.\n\n\
         | gate | 1.36 | 1.37 | reason |\n\
         |---|---|---|---|\n",
        ONCE_NONE_IS_OLDER.join(", ")
    );
    for (name, reason) in UNBUILT.iter().filter(|(name, _)| is_switched(name)) {
        page += &format!("| {name} | {} | {reason} |\n", in_each(name));
    }
    page += "\n\
             While GenericWorkload is off, a pod with `spec.schedulingGroup` is scheduled alone, as in kube-scheduler. Berth says so in the event `PodGroupIgnored` of the\n\
             pod, and once in the log.\n\n\
             ## How the gates are tested\n\n\
             The tests of a gate compare Berth with the gate on and off. A test fails if a gate that can be switched has no entry here.\n\n\
             | gate | tests |\n\
             |---|---|\n";
    for (gate, shown) in SHOWN {
        page += &format!("| {gate} | {shown} |\n");
    }
    page
}

/// `docs/src/kubernetes-releases.md`.
fn releases_page() -> String {
    let mut page = String::from(
        "# Kubernetes releases\n\n\
         Berth decides as kube-scheduler 1.36 or 1.37. By default Berth asks the API server for its release at the start, writes the release to the log, and uses this\n\
         release until the next start. If the API server is older than 1.36, Berth uses 1.36. If it is newer than 1.37, Berth uses 1.37. In both cases the log has a\n\
         warning. If the API server does not answer, the scheduler waits for the answer before it starts. `--emulated-version=1.37` (or `kube=1.37`) sets the release for\n\
         any API server. `berth sandbox --kubernetes-version=1.37` is an API server of 1.37. If Berth is called as kube-scheduler, it also takes\n\
         `--min-compatibility-version`: see [feature gates](feature-gates.md). The tables of this page are made from the code. A test fails when the page differs.\n\n\
         ## What 1.37 decides differently\n\n\
         | change | 1.36 | 1.37 | effect while it is on |\n\
         |---|---|---|---|\n",
    );
    let [old, new] = Release::ALL;
    for feature in Feature::ALL.iter().filter(|feature| feature.is_on_in(old) != feature.is_on_in(new)) {
        let [old, new] = [old, new].map(|release| if feature.is_on_in(release) { "on" } else { "off" });
        page += &format!("| {} | {old} | {new} | {} |\n", feature.name(), feature.explanation());
    }
    page += "\n\
             [Feature gates](feature-gates.md) lists the gates with different defaults. `VolumeBindingArgs.shape` is allowed in 1.37, because its gate is on in that\n\
             release.\n\n\
             ## Metrics\n\n\
             Release 1.37 adds `scheduler_queued_entities` and `scheduler_queue_incoming_entities_total`, which count pods in Berth. It renames\n\
             `scheduler_resourceclaim_creates_total` to `dynamic_resource_allocation_resourceclaim_creates_total`, with labels for the owner. It makes\n\
             `scheduler_scheduling_algorithm_duration_seconds` and `scheduler_plugin_execution_duration_seconds` BETA. It adds\n\
             `informer_store_resource_version`, `informer_queued_items` and `informer_processing_latency_seconds` of each kind that is watched. `kubernetes_build_info`\n\
             and `kubernetes_feature_enabled` have the values of the release.\n\n\
             ## The same in both\n\n\
             kube-scheduler 1.37 corrects some mistakes of 1.36, such as lost events, panics, and counters of a metric that stay after a deletion. Berth has none of\n\
             these mistakes in either release, unless the mistake affects where pods are placed. If a binding fails for a moment, Berth sends it again within the call of\n\
             Bind; kube-scheduler does this from 1.37 on. Built-in plugins register for events of pods under the name `Pod` and distinguish the events themselves. Other plugins\n\
             may register for `AssignedPod` alone or for `TargetPod` alone. [Log lines](log-messages.md) about moves in the queue (`-v=5`) name entities instead\n\
             of pods from 1.37 on. `berth simulate` decides as 1.36 unless `--emulated-version` sets another release. `--compare-emulated-version 1.37` shows which pods the\n\
             next release places on other nodes, and by which plugin.\n\n\
             ## Another release\n\n\
             1. Add a variant of `Release` in `crates/model/src/features.rs`, and a column in the table of that file. The compiler names the other places to change: the version\n\
             that metrics and the sandbox report, and the names of metrics (`crates/telemetry/src/metrics/releases.rs`).\n\
             2. Add a file with the gates that changed in `crates/config/src`, beside the file of 1.37.\n\
             3. Add a line in the table for each decision that changed, named after the change. The code that decides holds both behaviours side by side, and asks\n\
             `Features` which one applies. Built-in plugins get features in their arguments (`WITH_FEATURES` in `crates/config/src/build.rs`), natively and as\n\
             components. The requests of a pod are computed when the pod is read (`crates/model/src/intern.rs`).\n\
             4. Test each decision that changed in both releases. `cargo run -p oracle -- tests/oracle/cases --emulated-version 1.37` counts the recorded cases that\n\
             1.37 answers otherwise, by the change that causes it, natively and as components. A difference that no known change causes is an error. The tests of\n\
             `tests/oracle` compare a part of the cases.\n\
             5. Write this page again with the test `the_guide_has_the_tables`.\n";
    page
}

fn in_each(name: &str) -> String {
    Release::ALL.map(|release| standing(release, name)).join(" | ")
}

fn standing(release: Release, name: &str) -> String {
    let Some(gate) = find(release, name) else { return "-".to_owned() };
    let lock = if gate.is_locked { ", locked" } else { "" };
    format!("{}, {}{lock}", gate.stage.to_lowercase(), if gate.is_on { "on" } else { "off" })
}

/// If `BERTH_WRITE_GUIDE` is set, the test writes the pages again.
#[test]
fn the_guide_has_the_tables() {
    for (name, page) in [("feature-gates", gates_page()), ("kubernetes-releases", releases_page())] {
        let path = format!("{}/../../docs/src/{name}.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BERTH_WRITE_GUIDE").is_some() {
            std::fs::write(&path, &page).expect("the page is written");
        }
        let is_same = std::fs::read_to_string(&path).is_ok_and(|written| written == page);
        assert!(is_same, "{name}.md: set BERTH_WRITE_GUIDE and run this test again");
    }
}
