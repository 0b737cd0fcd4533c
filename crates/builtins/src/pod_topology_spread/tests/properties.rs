//! Filter compared with a simple model of the documentation, on clusters that change step by step.
//!
//! The model counts all pods again for each pod to schedule, from the API objects
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A node of the model.
#[derive(Clone, Debug)]
struct ModelNode {
    labels: BTreeMap<String, String>,
    is_tainted: bool,
}

#[derive(Clone, Debug)]
struct ModelPod {
    namespace: &'static str,
    labels: BTreeMap<String, String>,
    is_terminating: bool,
    constraints: Vec<ModelConstraint>,
    /// `nodeSelector: disk=ssd`.
    wants_ssd: bool,
    tolerates: bool,
}

#[derive(Clone, Debug)]
enum ModelSelector {
    Absent,
    Empty,
    In(Vec<&'static str>),
    NotIn(&'static str),
}

#[derive(Clone, Debug)]
struct ModelConstraint {
    key: &'static str,
    max_skew: i64,
    min_domains: Option<usize>,
    selector: ModelSelector,
    matches_tier: bool,
    honors_affinity: Option<bool>,
    honors_taints: Option<bool>,
}

type Placed = BTreeMap<u32, (usize, ModelPod)>;

impl ModelConstraint {
    fn selects(&self, pod: &ModelPod, labels: &BTreeMap<String, String>) -> bool {
        let app = labels.get("app").map(String::as_str);
        let tier = pod.labels.get("tier").filter(|_| self.matches_tier);
        let same_tier = tier.is_none_or(|tier| labels.get("tier") == Some(tier));
        same_tier
            && match &self.selector {
                ModelSelector::Absent => tier.is_some(),
                ModelSelector::Empty => true,
                ModelSelector::In(values) => app.is_some_and(|app| values.contains(&app)),
                ModelSelector::NotIn(value) => app != Some(value),
            }
    }

    /// kube-scheduler's exception: an empty selector counts nothing.
    fn counts_nothing(&self, pod: &ModelPod) -> bool {
        matches!(self.selector, ModelSelector::Empty) && !(self.matches_tier && pod.labels.contains_key("tier"))
    }

    fn counts_node(&self, pod: &ModelPod, node: &ModelNode) -> bool {
        let has_all_keys = pod.constraints.iter().all(|it| node.labels.contains_key(it.key));
        let selected = !pod.wants_ssd || node.labels.get("disk").is_some_and(|disk| disk == "ssd");
        let tolerated = pod.tolerates || !node.is_tainted;
        has_all_keys
            && (selected || self.honors_affinity == Some(false))
            && (tolerated || self.honors_taints != Some(true))
    }

    /// Matching pods of each eligible domain.
    fn domains(&self, pod: &ModelPod, nodes: &[ModelNode], placed: &Placed) -> BTreeMap<String, i64> {
        let eligible = (0..).zip(nodes).filter(|(_, node)| self.counts_node(pod, node));
        let mut domains = BTreeMap::new();
        for (at, node) in eligible {
            let on_node = placed.values().filter(|(place, _)| *place == at);
            let matching = on_node.filter(|(_, other)| {
                other.namespace == pod.namespace
                    && !other.is_terminating
                    && !self.counts_nothing(pod)
                    && self.selects(pod, &other.labels)
            });
            *domains.entry(node.labels[self.key].clone()).or_insert(0) += i64::try_from(matching.count()).unwrap();
        }
        domains
    }

    fn to_json(&self) -> Value {
        let selector = match &self.selector {
            ModelSelector::Absent => Value::Null,
            ModelSelector::Empty => json!({}),
            ModelSelector::In(values) => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": values }] })
            }
            ModelSelector::NotIn(value) => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [value] }] })
            }
        };
        let policy = |honors: Option<bool>| honors.map(|honors| if honors { "Honor" } else { "Ignore" });
        json!({
            "topologyKey": self.key, "maxSkew": self.max_skew, "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": self.min_domains, "labelSelector": selector,
            "matchLabelKeys": if self.matches_tier { vec!["tier"] } else { vec![] },
            "nodeAffinityPolicy": policy(self.honors_affinity), "nodeTaintsPolicy": policy(self.honors_taints),
        })
    }
}

impl ModelPod {
    fn to_json(&self) -> Value {
        let constraints: Vec<Value> = self.constraints.iter().map(ModelConstraint::to_json).collect();
        let mut pod = json!({
            "metadata": { "namespace": self.namespace, "name": "pod", "labels": self.labels },
            "spec": { "topologySpreadConstraints": constraints },
        });
        if self.is_terminating {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if self.wants_ssd {
            pod["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
        }
        if self.tolerates {
            pod["spec"]["tolerations"] = json!([{ "key": "gpu", "operator": "Exists" }]);
        }
        pod
    }

    fn verdict(&self, at: usize, nodes: &[ModelNode], placed: &Placed) -> &'static str {
        for constraint in &self.constraints {
            let Some(value) = nodes[at].labels.get(constraint.key) else { return MISSING };
            let domains = constraint.domains(self, nodes, placed);
            let enough = domains.len() >= constraint.min_domains.unwrap_or(1);
            let lowest = domains.values().min().copied().filter(|_| enough).unwrap_or(0);
            let own = i64::from(constraint.selects(self, &self.labels));
            if domains.get(value).copied().unwrap_or(0) + own - lowest > constraint.max_skew {
                return SKEWED;
            }
        }
        ""
    }
}

impl ModelNode {
    fn to_json(&self, at: usize) -> Value {
        let taints = if self.is_tainted { json!([{ "key": "gpu", "effect": "NoSchedule" }]) } else { json!([]) };
        json!({ "metadata": { "name": format!("n{at}"), "labels": self.labels }, "spec": { "taints": taints } })
    }
}

fn labels(pairs: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
    let present = pairs.iter().filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned())));
    present.collect()
}

fn any_node() -> impl Strategy<Value = ModelNode> {
    let zone = prop::sample::select(vec![Some("a"), Some("a"), Some("b"), Some("c"), Some(""), None]);
    let rack = prop::sample::select(vec![Some("r1"), Some("r2"), Some("r3"), None]);
    (zone, rack, prop::sample::select(vec![Some("ssd"), Some("hdd"), None]), prop::bool::weighted(0.2)).prop_map(
        |(zone, rack, disk, is_tainted)| ModelNode {
            labels: labels(&[("zone", zone), ("rack", rack), ("disk", disk)]),
            is_tainted,
        },
    )
}

fn any_constraint(key: &'static str) -> impl Strategy<Value = ModelConstraint> {
    let selector = prop_oneof![
        1 => Just(ModelSelector::Absent),
        1 => Just(ModelSelector::Empty),
        4 => Just(ModelSelector::In(vec!["x"])),
        2 => Just(ModelSelector::In(vec!["x", "y"])),
        1 => Just(ModelSelector::NotIn("x")),
    ];
    let policy = || prop::option::of(any::<bool>());
    (1..4i64, prop::option::of(1..5usize), selector, prop::bool::weighted(0.3), policy(), policy()).prop_map(
        move |(max_skew, min_domains, selector, matches_tier, honors_affinity, honors_taints)| ModelConstraint {
            key,
            max_skew,
            min_domains,
            selector,
            matches_tier,
            honors_affinity,
            honors_taints,
        },
    )
}

fn any_pod() -> impl Strategy<Value = ModelPod> {
    let constraints = prop_oneof![
        any_constraint("zone").prop_map(|one| vec![one]),
        (any_constraint("zone"), any_constraint("rack")).prop_map(|(one, other)| vec![one, other]),
    ];
    let app = prop::sample::select(vec![Some("x"), Some("x"), Some("y"), None]);
    let tier = prop::sample::select(vec![Some("1"), Some("2"), None]);
    let namespace = prop::sample::select(vec!["ns", "ns", "ns", "other"]);
    (namespace, app, tier, prop::bool::weighted(0.1), constraints, prop::bool::weighted(0.3), any::<bool>()).prop_map(
        |(namespace, app, tier, is_terminating, constraints, wants_ssd, tolerates)| ModelPod {
            namespace,
            labels: labels(&[("app", app), ("tier", tier)]),
            is_terminating,
            constraints,
            wants_ssd,
            tolerates,
        },
    )
}

/// A change to the cluster.
#[derive(Clone, Debug)]
enum Step {
    Place(u32, usize, ModelPod),
    Remove(u32),
    Change(usize, ModelNode),
    Add(ModelNode),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..16u32, 0..8usize, any_pod()).prop_map(|(slot, node, pod)| Step::Place(slot, node, pod)),
        2 => (0..16u32).prop_map(Step::Remove),
        1 => (0..8usize, any_node()).prop_map(|(at, node)| Step::Change(at, node)),
        1 => any_node().prop_map(Step::Add),
    ]
}

/// One cluster twice: in the form of the model and in the form of the plugin.
struct Twins {
    nodes: Vec<ModelNode>,
    placed: Placed,
    world: World,
}

impl Twins {
    fn new(nodes: Vec<ModelNode>) -> Self {
        let mut twins = Self { nodes: Vec::new(), placed: Placed::new(), world: World::default() };
        nodes.into_iter().for_each(|node| twins.apply(Step::Add(node)));
        twins
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Place(slot, node, pod) => {
                let node = node % self.nodes.len();
                let interned = Pod { uid: format!("slot-{slot}").into(), ..self.world.pod(&pod.to_json()) };
                self.world.cluster.place(NodeIdx(u32::try_from(node).unwrap()), interned);
                self.placed.insert(slot, (node, pod));
            }
            Step::Remove(slot) => {
                self.world.cluster.remove_pod(&format!("slot-{slot}"));
                self.placed.remove(&slot);
            }
            Step::Change(at, node) => {
                let at = at % self.nodes.len();
                self.world.node(&node.to_json(at));
                self.nodes[at] = node;
            }
            Step::Add(node) => {
                self.world.node(&node.to_json(self.nodes.len()));
                self.nodes.push(node);
            }
        }
    }

    fn expected(&self, pod: &ModelPod) -> Vec<&'static str> {
        (0..self.nodes.len()).map(|at| pod.verdict(at, &self.nodes, &self.placed)).collect()
    }
}

proptest! {
    /// One plugin follows all changes. It must agree with the model, which counts again.
    #[test]
    fn verdicts_equal_those_of_the_documentation(
        nodes in prop::collection::vec(any_node(), 1..8),
        steps in prop::collection::vec((any_step(), 0..4usize), 1..40),
        pods in prop::collection::vec(any_pod(), 4),
    ) {
        let mut twins = Twins::new(nodes);
        let mut plugin = plugin("null");
        for (step, asked) in steps {
            twins.apply(step);
            let pod = twins.world.pod(&pods[asked].to_json());
            let found = verdicts(&mut plugin, &twins.world.cluster, &pod);
            prop_assert_eq!(found, twins.expected(&pods[asked]));
        }
    }

    /// A dry run gives the same verdict as the real change, and does not change the plugin's counts.
    #[test]
    fn dry_runs_equal_real_changes(
        nodes in prop::collection::vec(any_node(), 1..8),
        placed in prop::collection::vec((0..8usize, any_pod()), 0..16),
        more in prop::collection::vec(any_pod(), 0..3),
        (at, minus, pod) in (0..8usize, any::<u16>(), any_pod()),
    ) {
        let mut twins = Twins::new(nodes);
        for (slot, (node, pod)) in (0u32..).zip(placed) {
            // Pods that are being deleted, and empty selectors, give different results in dry runs and in real counts.
            twins.apply(Step::Place(slot, node, ModelPod { is_terminating: false, ..pod }));
        }
        prop_assume!(!pod.constraints.iter().any(|it| it.counts_nothing(&pod)));
        let at = at % twins.nodes.len();
        let leaving: Vec<u32> = twins.placed.iter().filter(|(slot, (node, _))| *node == at && minus >> **slot & 1 == 1).map(|(slot, _)| *slot).collect();
        let mut bodies: Vec<Pod> = Vec::new();
        for slot in &leaving {
            let body = twins.placed[slot].1.to_json();
            bodies.push(twins.world.pod(&body));
        }
        let more: Vec<ModelPod> = more.into_iter().map(|pod| ModelPod { is_terminating: false, ..pod }).collect();
        for pod in &more {
            bodies.push(twins.world.pod(&pod.to_json()));
        }
        let n_leaving = u32::try_from(leaving.len()).unwrap();
        let node = NodeIdx(u32::try_from(at).unwrap());
        let case = DryRunCase {
            node,
            minus: (0..n_leaving).collect(),
            plus: (n_leaving..u32::try_from(bodies.len()).unwrap()).collect(),
        };
        let interned = twins.world.pod(&pod.to_json());
        let mut plugin = plugin("null");
        let call = twins.world.cluster.call(1, &interned);
        plugin.pre_filter(&call).unwrap();
        let bodies: Vec<&Pod> = bodies.iter().collect();
        let tried = plugin.dry_run(&call, &bodies, &[case.clone(), DryRunCase { node, ..DryRunCase::default() }]).unwrap();
        prop_assert_eq!(show(&tried[1]), twins.expected(&pod)[at]);
        leaving.into_iter().for_each(|slot| twins.apply(Step::Remove(slot)));
        for (slot, pod) in (100..).zip(more) {
            twins.apply(Step::Place(slot, at, pod));
        }
        prop_assert_eq!(show(&tried[0]), twins.expected(&pod)[at], "{:?}", case);
    }

    /// No two domains differ by more than `maxSkew`, in any order of pods.
    #[test]
    fn skew_never_exceeds_its_limit(
        nodes in prop::collection::vec(any_node(), 1..8),
        (zone_skew, rack_skew) in (1..4i64, prop::option::of(1..4i64)),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let constraint = |key, max_skew| ModelConstraint {
            key,
            max_skew,
            min_domains: None,
            selector: ModelSelector::In(vec!["x"]),
            matches_tier: false,
            honors_affinity: None,
            honors_taints: None,
        };
        let constraints = [Some(constraint("zone", zone_skew)), rack_skew.map(|max_skew| constraint("rack", max_skew))];
        let pod = ModelPod {
            namespace: "ns",
            labels: labels(&[("app", Some("x"))]),
            is_terminating: false,
            constraints: constraints.into_iter().flatten().collect(),
            wants_ssd: false,
            tolerates: true,
        };
        let mut twins = Twins::new(nodes);
        let mut plugin = plugin("null");
        for (slot, choice) in (0..).zip(choices) {
            let interned = twins.world.pod(&pod.to_json());
            let found = verdicts(&mut plugin, &twins.world.cluster, &interned);
            let open: BTreeSet<usize> = (0..found.len()).filter(|&at| found[at].is_empty()).collect();
            if open.is_empty() {
                break;
            }
            let at = *choice.get(&open.into_iter().collect::<Vec<_>>());
            twins.apply(Step::Place(slot, at, pod.clone()));
            for constraint in &pod.constraints {
                let domains = constraint.domains(&pod, &twins.nodes, &twins.placed);
                let (most, least) = (domains.values().max().unwrap(), domains.values().min().unwrap());
                prop_assert!(most - least <= constraint.max_skew, "{:?}", domains);
            }
        }
    }
}
