//! Tests that a cluster with always different pods needs only few symbols, and that its plugins give correct answers,
//! natively and as components.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use berth_testing::{TestCluster, node, pod};
use oracle::{Execution, Native, TestedProfile, Wasm, artefacts_of_tests};
use properties::answers::{ProfileRun, differences};
use serde_json::{Value, json};

const N_PODS: u64 = 50_000;

/// The number of pods at a time.
const N_PLACED: u64 = 200;

fn cluster() -> TestCluster {
    let mut cluster = TestCluster::default();
    for row in 0..6 {
        let node = node(&format!("node-{row}")).label("kubernetes.io/hostname", &format!("node-{row}"));
        let node = node.label("zone", ["a", "b"][row % 2]).allocatable("cpu", "100").allocatable("pods", "1000");
        cluster.set_node(&node.build());
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    });
    cluster.set_object(&service);
    cluster.settle();
    cluster
}

fn ever_new(number: u64) -> berth_testing::PodMaker {
    let name = format!("p{number}");
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"job": name}}});
    pod(&name)
        .uid(&name)
        .label("job", &name)
        .label(&format!("key-{number}"), "x")
        .spec("affinity", json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}))
        .spec("containers", json!([{"name": "main", "image": format!("image-{number}:1")}]))
}

fn check(subjects: &mut [TestedProfile; 2], cluster: &mut TestCluster, asked: &Value, cycle: u64) {
    let asked = cluster.intern(&serde_json::from_value(asked.clone()).unwrap());
    let order = cluster.cache().order().to_vec();
    let [native, wasm] = subjects.each_mut().map(|subject| {
        let synced = subject.profile.sync(cluster.cache());
        assert!(synced.is_ok(), "{synced:?}");
        ProfileRun { profile: &mut subject.profile, cluster, pod: &asked, order: &order, seed: cycle, cycle }
            .answers()
            .0
    });
    let differing = differences(("native", &native), ("wasm", &wasm));
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn ever_new_texts_keep_the_table_small_and_the_answers_right() {
    let mut cluster = cluster();
    let native: &dyn Execution = &Native;
    let wasm = Wasm::load(Some(&artefacts_of_tests(env!("CARGO_TARGET_TMPDIR")))).unwrap();
    let mut subjects = [TestedProfile::defaults(native).unwrap(), TestedProfile::defaults(&wasm).unwrap()];
    let mut most = 0;
    for number in 0..N_PODS {
        let placed = ever_new(number).on(&format!("node-{}", number % 6)).build();
        cluster.set_pod(&placed).unwrap();
        cluster.remove_pod(&format!("p{}", number.wrapping_sub(N_PLACED)));
        most = most.max(cluster.table().symbols.len());
        if number % 2_500 == 0 {
            // As for the pod before, its term keeps a second pod out of the zone.
            check(&mut subjects, &mut cluster, &ever_new(number).json(), 2 * number + 1);
            let of_service = pod("web").label("app", "web").json();
            check(&mut subjects, &mut cluster, &of_service, 2 * number + 3);
        }
    }
    assert!(most < 50_000, "{most} symbols for {N_PLACED} pods");
    assert_eq!(cluster.table().symbols.lookup("image-7:1"), None);
}
