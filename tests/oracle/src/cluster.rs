//! Makes a cluster and the pending pod from the recorded objects.

use berth_cache::Inconsistency;
use berth_model::{Features, Pod, Time};
use berth_testing::TestCluster;

use crate::case::{Case, Objects};

/// The scheduler's data at the start of the cycle, and the pod of the cycle.
pub(crate) fn recorded(case: &Case, features: Features) -> Result<(TestCluster, Pod), Inconsistency> {
    let mut cluster = of_objects(&case.objects, features)?;
    let pod = cluster.intern(&case.pod);
    cluster.settle();
    Ok((cluster, pod))
}

/// The current time. The times in recorded objects are long before or long after the current time.
const NOW: &str = "2026-06-01T00:00:00Z";

/// The cluster, which must still be settled.
pub(crate) fn of_objects(objects: &Objects, features: Features) -> Result<TestCluster, Inconsistency> {
    let mut cluster = TestCluster::default();
    cluster.set_features(features);
    cluster.set_now(Time::from_rfc3339(NOW).unwrap_or_default());
    for node in &objects.nodes {
        cluster.set_node(node);
    }
    // The watch of a real scheduler leaves out pods that have ended.
    let is_alive = |phase: &str| !matches!(phase, "Succeeded" | "Failed");
    for pod in objects.pods.iter().filter(|pod| is_alive(&pod.status.phase)) {
        cluster.set_pod(pod)?;
    }
    for object in objects.others.values().flatten() {
        cluster.set_object(object);
    }
    Ok(cluster)
}
