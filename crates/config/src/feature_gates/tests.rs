//! The tables of gates, and the page of the guide that is made of them.

use super::*;

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
            let gate = find(release, feature.name()).unwrap_or_else(|| panic!("no gate {}", feature.name()));
            assert_eq!(gate.is_on, feature.is_on_in(release), "{} in {}", feature.name(), release.as_str());
        }
    }
}

#[test]
fn what_is_said_of_gates_is_of_gates() {
    let is_gate = |name: &str| Release::ALL.into_iter().any(|release| find(release, name).is_some());
    for (name, _) in UNBUILT.into_iter().chain(OF_THE_PROGRAM) {
        assert!(is_gate(name), "{name}");
    }
    // Whatever has to do with devices is a feature, or is named.
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
    assert!(refused("GangScheduling", true).starts_with("GangScheduling=true: not built, since groups"));
    assert!(refused("NoSuchGate", true).starts_with("unrecognized feature gate: NoSuchGate"));
}

/// `docs/src/feature-gates.md`.
fn page() -> String {
    let mut page = String::from(
        "# Feature gates\n\n\
         A scheduler called as `kube-scheduler` decides as kube-scheduler 1.36 does with the gates that `--feature-gates` sets. A locked gate is refused as\n\
         upstream refuses it; gates of other components are accepted and have no effect. This page is made of the tables in `crates/model/src/features.rs`\n\
         and `crates/config/src/feature_gates.rs`: a test fails when it differs.\n\n\
         ## Gates that can be switched\n\n\
         | gate | 1.36 | what is so while it is on |\n|---|---|---|\n",
    );
    let switched = |name: &&str| find(Release::V1_36, name).is_some_and(|gate| !gate.is_locked);
    let mut gates: Vec<(&str, &str)> = OF_THE_PROGRAM.to_vec();
    let features = Feature::ALL.iter().filter(|feature| feature.kind() == FeatureKind::Gate);
    gates.extend(features.map(|feature| (feature.name(), feature.explanation())));
    gates.sort_unstable();
    for (name, explanation) in gates.into_iter().filter(|(name, _)| switched(name)) {
        page += &format!("| {name} | {} | {explanation} |\n", standing(Release::V1_36, name));
    }
    page += "\n## Gates that are not built\n\n\
             The scheduler's gates that stand as they do by default, and are refused otherwise.\n\n\
             | gate | 1.36 | reason |\n|---|---|---|\n";
    for (name, reason) in UNBUILT.iter().filter(|(name, _)| switched(name)) {
        page += &format!("| {name} | {} | {reason} |\n", standing(Release::V1_36, name));
    }
    page += "\n## What Kubernetes 1.37 decides otherwise\n\n\
             Rules that the code has in both forms. `--emulated-version=1.37` is not accepted yet, since others are missing.\n\n\
             | feature | 1.36 | 1.37 | what is so while it is on |\n|---|---|---|---|\n";
    let [old, new] = Release::ALL;
    for feature in Feature::ALL.iter().filter(|feature| feature.is_on_in(old) != feature.is_on_in(new)) {
        let [old, new] = [old, new].map(|release| if feature.is_on_in(release) { "on" } else { "off" });
        page += &format!("| {} | {old} | {new} | {} |\n", feature.name(), feature.explanation());
    }
    page
}

fn standing(release: Release, name: &str) -> String {
    let Some(gate) = find(release, name) else { return String::new() };
    format!("{}, {}", gate.stage.to_lowercase(), if gate.is_on { "on" } else { "off" })
}

/// Writes the page again with `BERTH_WRITE_GUIDE` set.
#[test]
fn the_guide_has_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/feature-gates.md");
    if std::env::var_os("BERTH_WRITE_GUIDE").is_some() {
        std::fs::write(path, page()).expect("the page is written");
    }
    assert!(
        std::fs::read_to_string(path).expect("there is a page") == page(),
        "set BERTH_WRITE_GUIDE and run this test again"
    );
}
