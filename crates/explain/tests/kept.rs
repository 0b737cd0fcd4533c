//! Native plugins that are asked about one pod after the other, while the cluster changes. They must answer as new
//! plugins do.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

use std::sync::Arc;

use berth_explain::{Analysis, CYCLES, Question, analyze};
use berth_framework::Profile;
use berth_model::Pod;
use berth_testing::{NodeMaker, PodMaker, TestCluster, node, pod};
use serde_json::{Value, json};

const PLUGINS: [&str; 7] = [
    "NodeUnschedulable",
    "TaintToleration",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
];

fn profile() -> Profile {
    let mut profile = Profile::new("berth");
    for name in PLUGINS {
        let factory = berth_builtins::factory(name).expect(name);
        profile.add_everywhere(factory.build("null").expect(name), "null");
    }
    profile
}

fn sized(number: u32, zone: u32) -> NodeMaker {
    let name = format!("n{number}");
    let node = node(&name).allocatable("cpu", "4").allocatable("memory", "8Gi");
    node.label("kubernetes.io/hostname", &name).label("zone", &format!("zone-{zone}"))
}

/// Pods of one team, which is gone after some rounds, so that its symbols are freed.
fn shaped(name: &str, round: u32) -> PodMaker {
    let team = format!("team-{}", round / 16);
    let selector = json!({"matchLabels": {"team": team}});
    let term = |key: &str| json!({"labelSelector": selector, "topologyKey": key});
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let pod = pod(name).label("team", &team).request("cpu", "300m");
    match round % 5 {
        0 => pod.spec("affinity", json!({"podAntiAffinity": required(json!([term("kubernetes.io/hostname")]))})),
        1 => pod.spec("affinity", json!({"podAffinity": required(json!([term("zone")]))})),
        2 => {
            let spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector});
            pod.spec("topologySpreadConstraints", json!([spread]))
        }
        3 => pod.request("cpu", "3").priority(10),
        _ => pod,
    }
}

fn change(cluster: &mut TestCluster, round: u32) {
    let number = round * 7 % 6;
    if round % 4 == 3 {
        cluster.set_node(&sized(number, round % 3).build());
    } else {
        let placed = shaped(&format!("p{round}"), round).on(&format!("n{number}"));
        cluster.set_pod(&placed.build()).expect("it has a uid");
    }
    if let Some(gone) = round.checked_sub(20) {
        cluster.remove_pod(&format!("p{gone}"));
    }
}

fn asked(profile: &mut Profile, cluster: &TestCluster, cycle: u64, pod: &Pod) -> Analysis {
    let nominated = cluster.nominated_pods(pod);
    let question =
        Question { order: cluster.cache().order(), nominated: &nominated, node: cluster.node("n0"), chosen: None };
    analyze(profile, &cluster.call(cycle, pod), &question)
}

#[test]
fn plugins_that_are_kept_between_questions_answer_as_new_ones_do() {
    let mut cluster = TestCluster::default();
    cluster.free_symbols_eagerly();
    for number in 0..6 {
        cluster.set_node(&sized(number, number % 2).build());
    }
    let (mut kept, mut n_refusals) = (Vec::new(), 0);
    for round in 0..200 {
        change(&mut cluster, round);
        let pod = Arc::new(cluster.intern(&shaped("asked", round + 3).build()));
        cluster.settle();
        let cycle = 1 + u64::from(round) * CYCLES;
        let mut continued = profile();
        continued.continue_natives(std::mem::take(&mut kept));
        let answer = asked(&mut continued, &cluster, cycle, &pod);
        assert_eq!(answer, asked(&mut profile(), &cluster, cycle, &pod), "round {round}");
        n_refusals += answer.plugins.len();
        kept = continued.into_natives();
    }
    assert!(n_refusals > 50, "{n_refusals} plugins refused nodes");
}
