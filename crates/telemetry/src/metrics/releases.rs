//! The names, stabilities and labels that a release of Kubernetes changed. All metrics are counted in every release.
//! Internally each metric has the name from the oldest release that has the metric. The changes of a release are
//! applied when the metrics are shown.

use berth_model::Release;
use prometheus::proto::{LabelPair, Metric, MetricFamily};

/// Metrics that 1.37 added.
pub(super) const ADDED_IN_1_37: [&str; 5] = [
    "informer_processing_latency_seconds",
    "informer_queued_items",
    "informer_store_resource_version",
    "scheduler_queue_incoming_entities_total",
    "scheduler_queued_entities",
];

/// Metrics that 1.37 made BETA.
const PROMOTED_IN_1_37: [&str; 2] =
    ["scheduler_plugin_execution_duration_seconds", "scheduler_scheduling_algorithm_duration_seconds"];

/// The metric that 1.37 renamed, its new name, and its additional labels. Claims are created only for pods, without
/// administrative access.
const RENAMED_IN_1_37: (&str, &str) =
    ("scheduler_resourceclaim_creates_total", "dynamic_resource_allocation_resourceclaim_creates_total");
const ITS_LABELS: [(&str, &str); 3] = [("admin_access", "false"), ("owner_api_group", ""), ("owner_api_kind", "Pod")];

/// The queues of pods that wait for the other pods of their group, which 1.37 added. Berth does not schedule pods as
/// groups, so these queues are empty.
const QUEUES_OF_GROUPS: [&str; 2] = ["incomplete", "pending"];
/// The queues in which entities wait, and the type of entities that are groups.
const QUEUES_OF_ENTITIES: [&str; 4] = ["active", "backoff", "gated", "unschedulable"];
const POD_GROUP: &str = "podgroup";

/// The metrics that a scheduler of the release shows, in the order of names.
pub(super) fn shown_in(release: Release, mut families: Vec<MetricFamily>) -> Vec<MetricFamily> {
    match release {
        Release::V1_36 => families.retain(|family| !ADDED_IN_1_37.contains(&family.name())),
        Release::V1_37 => {
            families.iter_mut().for_each(as_in_1_37);
            families.sort_by(|left, right| left.name().cmp(right.name()));
        }
    }
    families
}

fn as_in_1_37(family: &mut MetricFamily) {
    add_groups(family);
    if PROMOTED_IN_1_37.contains(&family.name()) {
        family.set_help(family.help().replacen("[ALPHA]", "[BETA]", 1));
    }
    let (old, new) = RENAMED_IN_1_37;
    if family.name() != old {
        return;
    }
    family.set_name(new.to_owned());
    for metric in family.mut_metric() {
        let mut labels = metric.take_label();
        labels.extend(ITS_LABELS.map(|(name, value)| label(name, value)));
        labels.sort_by(|left, right| left.name().cmp(right.name()));
        metric.set_label(labels);
    }
}

/// Adds the series of groups, with the value 0.
fn add_groups(family: &mut MetricFamily) {
    let added: Vec<Vec<LabelPair>> = match family.name() {
        "scheduler_pending_pods" => QUEUES_OF_GROUPS.map(|queue| vec![label("queue", queue)]).into(),
        "scheduler_queued_entities" => {
            QUEUES_OF_ENTITIES.map(|queue| vec![label("queue", queue), label("type", POD_GROUP)]).into()
        }
        _ => return,
    };
    let metrics = family.mut_metric();
    metrics.extend(added.into_iter().map(|labels| {
        let mut metric = Metric::default();
        metric.set_label(labels);
        metric
    }));
    metrics.sort_by_cached_key(|metric| {
        metric.get_label().iter().map(|label| label.value().to_owned()).collect::<Vec<String>>()
    });
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}
