//! Questions about the cluster of a scheduler that is followed. The answers are about the cluster as the scheduler
//! knows it. A question leaves no trace.

use berth_model::Time;
use berth_scheduler::{CopyKind, Event, Scheduler, Settings};
use berth_what_if::{Batch, BatchBounds, Cluster, Placing, WhatIfAnswer, WhatIfRequest, what_if_followed};
use serde_json::{Value, json};

use crate::kit::{cluster, node, pod, profile};

const NOW: Time = Time(1);

/// A scheduler, and a simulation that follows it.
struct Bench {
    scheduler: Scheduler,
    placing: Placing<'static>,
}

impl Bench {
    fn new(text: &str) -> Self {
        let mut bench = Self {
            scheduler: Scheduler::new(Settings::default(), vec![profile()]),
            placing: Placing::following(Settings::default(), Box::new(|_| ())),
        };
        bench.scheduler.handle(Event::Synced, NOW);
        bench.apply(text);
        bench.catch_up();
        bench.placing.reconfigure(Settings::default(), vec![profile()]);
        bench
    }

    /// Shows nodes and pods to the scheduler.
    fn apply(&mut self, text: &str) {
        let cluster = cluster(text);
        for node in cluster.nodes() {
            self.scheduler.handle(Event::NodeApplied(Box::new((*node.node).clone())), NOW);
        }
        for pod in cluster.pods() {
            self.scheduler.handle(Event::PodApplied(Box::new((*pod.pod).clone())), NOW);
        }
    }

    /// Applies the changes of the scheduler. Returns whether anything differs from before.
    fn catch_up(&mut self) -> bool {
        let mut differs = false;
        loop {
            let batch = self.scheduler.changes_for(CopyKind::Asked, NOW);
            let is_complete = batch.is_complete;
            differs |= self.placing.follow(batch);
            if is_complete {
                return differs;
            }
        }
    }

    fn ask(&mut self, pods: &[Value], variants: &Value) -> WhatIfAnswer {
        let request = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": pods, "variants": variants});
        let request: WhatIfRequest = serde_json::from_value(request).unwrap();
        let batch = Batch { bounds: BatchBounds::DEFAULT, scheduler_name: None };
        what_if_followed(&mut self.placing, &Cluster::default(), &request, &batch, "token".to_owned()).unwrap()
    }
}

fn pods(n: usize, labels: &Value, selector: &Value) -> Vec<Value> {
    let pod = |at| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{at}"), "labels": labels},
            "spec": {"nodeSelector": selector, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
    };
    (0..n).map(pod).collect()
}

fn template(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})
}

fn counts(answer: &WhatIfAnswer) -> Vec<(usize, usize)> {
    answer.variants.iter().map(|variant| (variant.placed, variant.pending)).collect()
}

fn small() -> String {
    [
        node("n1", "a", "2"),
        node("n2", "b", "2"),
        pod("there", "1", "nodeName: n1, priority: 0, schedulerName: default-scheduler,"),
        pod("others", "1", "nodeName: n2, priority: 0, schedulerName: another,"),
    ]
    .concat()
}

#[test]
fn variants_change_the_cluster_of_the_scheduler_and_leave_no_trace() {
    let mut bench = Bench::new(&small());
    let variants = json!([{"name": "as it is"}, {"name": "larger", "addNodes": [{"count": 1, "node": template("x-", &json!({"own": "x"}))}]},
        {"name": "smaller", "removeNodes": ["n1"]}, {"name": "as it is"}]);
    let none = json!({});
    let answer = bench.ask(&pods(5, &json!({"app": "web"}), &none), &variants);
    // The pod of the removed node waits, too.
    assert_eq!(counts(&answer), [(2, 3), (5, 0), (1, 5), (2, 3)]);
    assert_eq!(answer.variants[0], answer.variants[3]);
    let again = bench.ask(&pods(5, &json!({"app": "web"}), &none), &variants);
    assert_eq!(answer, again);
    assert!(!bench.catch_up(), "a question changes nothing of the scheduler");
}

/// The numbers of a question's symbols stand for other strings later.
#[test]
fn strings_of_a_question_are_forgotten() {
    let mut bench = Bench::new(&small());
    let own = json!({"pool": "asked"});
    let variants = json!([{"addNodes": [{"count": 2, "node": template("asked-", &own)}]}, {}]);
    for _ in 0..3 {
        let answer = bench.ask(&pods(3, &json!({"app": "asked"}), &own), &variants);
        assert_eq!(counts(&answer), [(3, 0), (0, 3)]);
    }
    // The strings of the new node and pod get the numbers that the strings of the question had.
    bench.apply(&[node("n3", "c", "2"), pod("new", "1", "nodeName: n3, priority: 0, schedulerName: third,")].concat());
    assert!(bench.catch_up(), "a node and a pod came");
    let zone = json!({"topology.kubernetes.io/zone": "c"});
    let answer = bench.ask(&pods(3, &json!({}), &zone), &json!([{}]));
    assert_eq!(counts(&answer), [(1, 2)], "one pod is on the new node already");
    let answer = bench.ask(&pods(3, &json!({"app": "asked"}), &own), &variants);
    assert_eq!(counts(&answer), [(3, 0), (0, 3)]);
}

#[test]
fn changes_of_the_scheduler_are_followed_between_questions() {
    let mut bench = Bench::new(&small());
    let ask = |bench: &mut Bench| counts(&bench.ask(&pods(9, &json!({}), &json!({})), &json!([{}])));
    assert_eq!(ask(&mut bench), [(2, 7)]);
    assert!(!bench.catch_up());
    let (namespace, name, uid) = ("default".to_owned(), "there".to_owned(), "default/there".to_owned());
    bench.scheduler.handle(Event::PodDeleted { namespace, name, uid }, NOW);
    assert!(bench.catch_up());
    assert_eq!(ask(&mut bench), [(3, 6)], "the pod has left its node");
    bench.scheduler.handle(Event::NodeDeleted { name: "n1".to_owned() }, NOW);
    assert!(bench.catch_up());
    assert_eq!(ask(&mut bench), [(1, 8)]);
    // A pod that the scheduler itself places is counted before the API server shows it on its node.
    bench.apply(&pod("placed", "1", "priority: 0, schedulerName: default-scheduler,"));
    while bench.scheduler.run(NOW, false) {}
    assert!(bench.catch_up());
    assert_eq!(ask(&mut bench), [(0, 9)]);
}

/// The scheduler keeps room for a pod that it nominated, and a question gives this room to no other pod.
#[test]
fn nominated_pods_keep_their_room() {
    let mut bench = Bench::new(&small());
    let coming = |status: &Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "coming", "namespace": "default", "uid": "coming"},
            "spec": {"priority": 10, "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": status})
    };
    let nominated = coming(&json!({"nominatedNodeName": "n2"}));
    let ask = |bench: &mut Bench| counts(&bench.ask(&pods(2, &json!({}), &json!({})), &json!([{}])));
    assert_eq!(ask(&mut bench), [(2, 0)]);
    bench.apply(&nominated.to_string());
    assert!(bench.catch_up());
    assert_eq!(ask(&mut bench), [(1, 1)], "n2 has no room beside the nominated pod");
    let own = bench.ask(std::slice::from_ref(&nominated), &json!([{}]));
    assert_eq!(own.variants[0].pods[0].node.as_deref(), Some("n2"), "its own nomination is no obstacle: {own:?}");
    assert_eq!(ask(&mut bench), [(1, 1)], "it is nominated still");
    bench.apply(&coming(&json!({})).to_string());
    assert!(bench.catch_up(), "the nomination has ended");
    assert_eq!(ask(&mut bench), [(2, 0)]);
}

#[test]
fn pods_of_the_scheduler_are_evicted_in_a_question_and_come_back() {
    let mut bench = Bench::new(&small());
    let urgent = json!([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"},
        "spec": {"priority": 100, "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}]);
    let urgent = urgent.as_array().unwrap();
    let first = bench.ask(urgent, &json!([{}]));
    assert_eq!(counts(&first), [(1, 0)]);
    assert_eq!(first.variants[0].evictions.len(), 1, "{first:?}");
    assert!(["n1", "n2"].contains(&first.variants[0].evictions[0].node.as_str()), "{first:?}");
    assert_eq!(bench.ask(urgent, &json!([{}])), first, "the pod came back");
    assert!(!bench.catch_up());
}
