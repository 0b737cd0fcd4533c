//! Random clusters that change step by step. They have three nodes, four namespaces and few labels, so that terms match
//! pods often.

use berth_framework::{DryRunCase, Filter, PreFilter, Status};
use berth_model::{NodeIdx, NodeSet, Pod, api};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    naive, plugin, scores,
    two_form_cluster::{ApiObjects, TwoFormCluster},
    verdicts,
};
use crate::{
    inter_pod_affinity::{ClusterView, InterPodAffinity},
    testing::show,
};

/// A change to the cluster before the next pod is scheduled.
#[derive(Clone, Debug)]
enum Step {
    Place { slot: u32, pod: Box<api::Pod>, node: u32 },
    Remove(u32),
    SetNode(u32, api::StringMap),
    RemoveNode(u32),
    SetNamespace(&'static str, Option<api::StringMap>),
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(values)
}

/// Some of the keys, each with a value.
fn labels(keys: &'static [&'static str], values: &'static [&'static str]) -> impl Strategy<Value = api::StringMap> {
    let own = |text: &'static str| text.to_owned();
    prop::collection::btree_map(one_of(keys).prop_map(own), one_of(values).prop_map(own), 0..=keys.len())
}

fn node_labels() -> impl Strategy<Value = api::StringMap> {
    labels(&["host", "zone"], &["a", "b", ""])
}

fn namespace_labels() -> impl Strategy<Value = api::StringMap> {
    labels(&["env"], &["prod", "dev"])
}

fn namespace() -> impl Strategy<Value = &'static str> {
    one_of(&["default", "prod", "dev", "gone"])
}

fn requirement(keys: &'static [&'static str], values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let with_values = (one_of(keys), one_of(&["In", "NotIn"]), prop::sample::subsequence(values, 1..=values.len()));
    prop_oneof![
        3 => with_values.prop_map(|(key, operator, values)| json!({ "key": key, "operator": operator, "values": values })),
        1 => (one_of(keys), one_of(&["Exists", "DoesNotExist"]))
            .prop_map(|(key, operator)| json!({ "key": key, "operator": operator })),
    ]
}

/// A selector that is absent, empty, or has requirements.
fn selector(keys: &'static [&'static str], values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let requirements = prop::collection::vec(requirement(keys, values), 0..3);
    prop_oneof![
        1 => Just(Value::Null),
        8 => requirements.prop_map(|requirements| json!({ "matchExpressions": requirements })),
    ]
}

fn term() -> impl Strategy<Value = Value> {
    let namespaces = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(namespace(), 1..3)];
    let namespace_selector = prop_oneof![3 => Just(Value::Null), 2 => selector(&["env"], &["prod", "dev"])];
    let pods = selector(&["app", "tier"], &["x", "y"]);
    (pods, namespaces, namespace_selector, one_of(&["host", "zone", "nowhere"])).prop_map(
        |(pods, namespaces, namespace_selector, key)| {
            json!({
                "labelSelector": pods, "namespaces": namespaces, "namespaceSelector": namespace_selector,
                "topologyKey": key,
            })
        },
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let required = || prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(term(), 1..3)];
    let weighted = || (1..=100, term()).prop_map(|(weight, term)| json!({ "weight": weight, "podAffinityTerm": term }));
    let preferred = || prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(weighted(), 1..3)];
    let kind = |required: Vec<Value>, preferred: Vec<Value>| {
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        })
    };
    (required(), preferred(), required(), preferred()).prop_map(move |(required, preferred, anti, anti_preferred)| {
        json!({ "podAffinity": kind(required, preferred), "podAntiAffinity": kind(anti, anti_preferred) })
    })
}

fn pod() -> impl Strategy<Value = api::Pod> {
    (namespace(), labels(&["app", "tier"], &["x", "y"]), affinity()).prop_map(|(namespace, labels, affinity)| {
        let pod = super::pod(namespace, &[], &affinity);
        api::Pod { metadata: api::ObjectMeta { labels, ..pod.metadata }, ..pod }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6u32, pod(), 0..3u32).prop_map(|(slot, pod, node)| Step::Place { slot, pod: Box::new(pod), node }),
        3 => (0..6u32).prop_map(Step::Remove),
        2 => (0..3u32, node_labels()).prop_map(|(node, labels)| Step::SetNode(node, labels)),
        1 => (0..3u32).prop_map(Step::RemoveNode),
        2 => (namespace(), prop::option::of(namespace_labels()))
            .prop_map(|(namespace, labels)| Step::SetNamespace(namespace, labels)),
    ]
}

impl TwoFormCluster {
    fn start(nodes: Vec<api::StringMap>) -> Self {
        let mut cluster = Self::default();
        (0..).zip(nodes).for_each(|(node, labels)| cluster.set_node(node, labels));
        cluster
    }

    fn apply(&mut self, step: Step) {
        match step {
            // The node table holds only pods of known nodes.
            Step::Place { node, .. } if !self.objects.nodes.contains_key(&node) => {}
            Step::Place { slot, pod, node } => self.place(slot, *pod, node),
            Step::Remove(slot) => self.remove(slot),
            Step::SetNode(node, labels) => self.set_node(node, labels),
            Step::RemoveNode(node) => self.remove_node(node),
            Step::SetNamespace(namespace, labels) => self.set_namespace(namespace, labels),
        }
    }

    fn naive_verdicts(&self, pod: &api::Pod) -> Vec<&'static str> {
        self.objects.nodes.keys().map(|node| naive::verdict(&self.objects, pod, *node)).collect()
    }
}

/// Nodes, steps with the pod to schedule after each, `hardPodAffinityWeight` and `ignorePreferredTermsOfExistingPods`.
fn steps_and_args() -> impl Strategy<Value = (Vec<api::StringMap>, Vec<(Step, api::Pod)>, i64, bool)> {
    let steps = prop::collection::vec((step(), pod()), 1..25);
    (prop::collection::vec(node_labels(), 3), steps, one_of(&[0, 1, 7]), any::<bool>())
}

/// The verdict on a node with some of its pods removed and others added.
fn naive_case(objects: &ApiObjects, pod: &api::Pod, node: u32, gone: &[u32], come: &[api::Pod]) -> &'static str {
    let mut other = objects.clone();
    other.pods.retain(|slot, _| !gone.contains(slot));
    other.pods.extend((100..).zip(come).map(|(slot, pod)| (slot, (pod.clone(), node))));
    naive::verdict(&other, pod, node)
}

/// Removes every pod, every second pod or no pod of the node, and adds `added` or not.
fn dry_runs_agree(
    plugin: &mut InterPodAffinity,
    cluster: &mut TwoFormCluster,
    (pod, interned): (&api::Pod, &Pod),
    added: &api::Pod,
) -> Result<(), TestCaseError> {
    let mut pods: Vec<Pod> = vec![cluster.intern(added)];
    let (mut cases, mut expected) = (Vec::new(), Vec::new());
    for &node in cluster.objects.nodes.keys() {
        let here: Vec<u32> =
            cluster.objects.pods.iter().filter(|(_, (_, on))| *on == node).map(|(slot, _)| *slot).collect();
        for (stride, n_added) in [(1, 0), (2, 0), (1, 1), (2, 1), (usize::MAX, 1)] {
            let gone: Vec<u32> = here.iter().copied().skip(stride / 2).step_by(stride).collect();
            let mut minus = Vec::new();
            for slot in &gone {
                minus.push(u32::try_from(pods.len()).unwrap());
                pods.push(cluster.placed(*slot).clone());
            }
            cases.push(DryRunCase { node: cluster.row(node), minus, plus: (0..n_added).collect() });
            expected.push(naive_case(&cluster.objects, pod, node, &gone, &vec![added.clone(); n_added as usize]));
        }
    }
    let pods: Vec<&Pod> = pods.iter().collect();
    let statuses = plugin.dry_run(&cluster.cluster.call(1, interned), &pods, &cases).unwrap();
    prop_assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), expected);
    Ok(())
}

/// The kept data about the terms of existing pods, in an order that does not depend on the order of the changes.
fn describe(view: &ClusterView) -> [String; 2] {
    [&view.existing.anti_affinity, &view.existing.scored].map(|table| table.describe())
}

proptest! {
    #[test]
    fn answers_equal_the_naive_ones((nodes, steps, weight, ignores_others) in steps_and_args()) {
        let mut cluster = TwoFormCluster::start(nodes);
        let args = json!({ "hardPodAffinityWeight": weight, "ignorePreferredTermsOfExistingPods": ignores_others });
        let mut plugin = plugin(&args);
        let mut added = super::pod("default", &[], &json!({}));
        for (step, pod) in steps {
            cluster.apply(step);
            let interned = cluster.intern(&pod);
            let is_skipped = plugin.pre_filter(&cluster.cluster.call(1, &interned)) == Err(Status::skip());
            prop_assert_eq!(is_skipped, naive::skips(&cluster.objects, &pod));
            prop_assert_eq!(verdicts(&mut plugin, &cluster, &interned), cluster.naive_verdicts(&pod));
            dry_runs_agree(&mut plugin, &mut cluster, (&pod, &interned), &added)?;
            let raw = scores(&mut plugin, &cluster, &interned).map(|(raw, _)| raw);
            prop_assert_eq!(raw, naive::scores(&cluster.objects, &pod, weight, ignores_others));
            added = pod;
        }
    }

    #[test]
    fn the_view_equals_a_rebuilt_one((nodes, steps, weight, _) in steps_and_args()) {
        let mut cluster = TwoFormCluster::start(nodes);
        let mut kept = ClusterView::new(weight);
        for (at, (step, pod)) in steps.into_iter().enumerate() {
            cluster.apply(step);
            let interned = cluster.intern(&pod);
            if at % 3 == 0 {
                continue;
            }
            kept.follow(cluster.cluster.table());
            let mut rebuilt = ClusterView::new(weight);
            rebuilt.follow(cluster.cluster.table());
            prop_assert_eq!(describe(&kept), describe(&rebuilt));
            let symbols = &cluster.cluster.table().symbols;
            for term in interned.affinity.required.iter().chain(&interned.affinity.anti_required) {
                let Some(selector) = &term.namespace_selector else { continue };
                let matching = |view: &mut ClusterView| view.namespaces.matching(selector, symbols).to_vec();
                let with_pods: Vec<_> = kept.namespaces.with_pods().to_vec();
                with_pods.into_iter().for_each(|namespace| rebuilt.namespaces.add_with_pods(namespace));
                prop_assert_eq!(matching(&mut kept), matching(&mut rebuilt));
            }
        }
    }

    #[test]
    fn required_anti_affinity_is_never_violated(
        nodes in prop::collection::vec(node_labels(), 3),
        namespaces in prop::collection::btree_map(namespace(), namespace_labels(), 0..4),
        pods in prop::collection::vec((pod(), any::<prop::sample::Index>()), 1..20),
    ) {
        let mut cluster = TwoFormCluster::start(nodes);
        namespaces.into_iter().for_each(|(name, labels)| cluster.set_namespace(name, Some(labels)));
        let mut plugin = plugin(&json!({}));
        for (slot, (pod, choice)) in (0..).zip(pods) {
            let interned = cluster.intern(&pod);
            let mut nodes: NodeSet = cluster.cluster.table().nodes().clone();
            let call = cluster.cluster.call(1, &interned);
            if plugin.pre_filter(&call) != Err(Status::skip()) {
                plugin.filter(&call, &mut nodes).unwrap();
            }
            let passed: Vec<NodeIdx> = nodes.iter().collect();
            if !passed.is_empty() {
                // The test removes no node, so the row of a node equals its number.
                cluster.place(slot, pod, choice.get(&passed).0);
            }
        }
        for (slot, (pod, on)) in &cluster.objects.pods {
            for (other_slot, (other, other_on)) in cluster.objects.pods.iter().filter(|(it, _)| *it != slot) {
                let violated = naive::repels(&cluster.objects, (pod, *on), (other, *other_on));
                prop_assert!(!violated, "pod {} must not share a domain with pod {}", slot, other_slot);
            }
        }
    }
}
