//! Differences with a known reason. Any other difference is a fault of one of the two schedulers.

use crate::difference::{Aspect, Difference};

/// Series that only one scheduler has, by the beginning of their names, with the reasons.
const METRICS: &[(&str, &str)] = &[
    ("rest_client_", "Berth counts requests and their duration; the rest is about client-go itself"),
    (
        "scheduler_plugin_execution_duration_seconds",
        "one attempt in ten is measured, and Berth calls a plugin once for all nodes",
    ),
    (
        "scheduler_queueing_hint_execution_duration_seconds",
        "no further hint is called after the first hint that moves a pod back to the queue, and kube-scheduler calls hints in no certain order",
    ),
    (
        "scheduler_queue_incoming_pods_total{event=\"resource.k8s.io/ResourceClaimAdd\",queue=\"unschedulable",
        "kube-scheduler calls PreEnqueue plugins in no certain order, and the first that holds a pod back decides which events count",
    ),
    (
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Sign",
        "kube-scheduler does not measure it at this point",
    ),
];

/// The kinds of objects that Berth patches instead of updating them as a whole.
const PATCHED: [&str; 3] = [" resourceclaims", " persistentvolumeclaims", " persistentvolumes"];

/// The known reason why Berth differs; `None` if the difference is unexpected.
pub(crate) fn reason(difference: &Difference) -> Option<&'static str> {
    match difference.aspect {
        Aspect::Metric => {
            METRICS.iter().find(|(name, _)| difference.subject.starts_with(name)).map(|(_, reason)| *reason)
        }
        Aspect::Request if difference.subject.starts_with("* get ") => {
            Some("kube-scheduler asks first whether the server has events.k8s.io/v1")
        }
        Aspect::Request if difference.subject.starts_with("* watch ") => {
            Some("an API server ends the watch of a client that reads more slowly than things happen")
        }
        Aspect::Request if difference.subject.starts_with("* patch events ") => {
            Some("how often an attempt that ends in an error is made again, and told again, is a matter of time")
        }
        Aspect::Request if PATCHED.iter().any(|kind| difference.subject.contains(kind)) => {
            Some("Berth patches a claim or a volume where kube-scheduler writes it whole")
        }
        Aspect::Event if is_same_but_for(difference, &["related to nothing", "related to Pod"]) => {
            Some("Berth's event names the preemptor as kube-scheduler 1.35's does, whose successor forgets it")
        }
        Aspect::Request if is_same_but_for(difference, &[",\"preconditions\":{\"uid\":\"UID\"}"]) => {
            Some("Berth deletes a victim under its uid, and never another pod of its name")
        }
        Aspect::Pod | Aspect::Claim | Aspect::Volume | Aspect::Event | Aspect::Request => None,
    }
}

/// Whether both sides are equal after these texts are removed.
fn is_same_but_for(difference: &Difference, texts: &[&str]) -> bool {
    let without = |said: &str| texts.iter().fold(said.to_owned(), |said, text| said.replace(text, ""));
    without(&difference.kube_scheduler) == without(&difference.berth)
}
