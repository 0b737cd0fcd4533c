//! Tests with pods of small clusters that are explained with the built-in plugins.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

use std::sync::Arc;

use berth_explain::{
    Analysis, Cause, DecisionRecord, EarlierAttempt, Explanation, Holder, Lack, MissingNodes, NotBound, Outcome,
    PodIdentity, PodRejected, PodState, Question, RankedNode, Rejected, Retry, Sampled, Subject, analyze,
};
use berth_framework::{Call, CycleId, Profile, Status, run::NominatedPods};
use berth_model::{Pod, Time, api};
use berth_testing::{NodeMaker, TestCluster, node, pod};
use serde_json::json;

const PLUGINS: [&str; 5] =
    ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit", "DefaultPreemption"];

fn profile() -> Profile {
    let mut profile = Profile::new("berth");
    for name in PLUGINS {
        let factory = berth_builtins::factory(name).expect(name);
        profile.add_everywhere(factory.build("null").expect(name), "null");
    }
    profile
}

/// The plugins' answers about the pod.
fn analysis(cluster: &mut TestCluster, api: &api::Pod, about: Option<&str>) -> Analysis {
    asked(cluster, api, about, None)
}

/// The plugins' answers about a pod that has the node `chosen`.
fn asked(cluster: &mut TestCluster, api: &api::Pod, about: Option<&str>, chosen: Option<&str>) -> Analysis {
    let pod: Arc<Pod> = Arc::new(cluster.intern(api));
    cluster.settle();
    let mut profile = profile();
    profile.sync(cluster.cache()).expect("native plugins follow");
    let table = cluster.table();
    let nominated = NominatedPods::new(table, &pod, []);
    let find = |name: &str| table.find(table.symbols.lookup(name)?);
    let (node, chosen) = (about.and_then(find), chosen.and_then(find));
    let question = Question { order: cluster.cache().order(), nominated: &nominated, node, chosen };
    analyze(&mut profile, &Call::new(CycleId(1), Time(0), &pod, table), &question)
}

fn subject() -> Subject {
    let state = PodState::Queued {
        queue: "unschedulable".to_owned(),
        since_milliseconds: 65_000,
        backoff_ends_in_milliseconds: None,
        behind: None,
    };
    Subject {
        pod: PodIdentity { namespace: "default".to_owned(), name: "web".to_owned(), uid: "u".to_owned() },
        scheduler_name: "berth".to_owned(),
        priority: 0,
        state,
        attempts: 2,
        rejected_by: Vec::new(),
        nominated_node: None,
        holders: Vec::new(),
        retries: Vec::new(),
    }
}

fn explained(cluster: &mut TestCluster, pod: &api::Pod) -> Explanation {
    Explanation::new(subject(), None, Some(analysis(cluster, pod, None)))
}

fn sized(name: &str, cpu: &str) -> NodeMaker {
    node(name).allocatable("cpu", cpu).allocatable("memory", "8Gi").allocatable("pods", "10")
}

/// Two small nodes, a tainted node, and a small tainted node.
fn mixed() -> TestCluster {
    let mut cluster = TestCluster::default();
    cluster.set_node(&sized("small-1", "1").build());
    cluster.set_node(&sized("small-2", "1500m").build());
    cluster.set_node(&sized("gpu", "8").taint("gpu", "true", "NoSchedule").build());
    cluster.set_node(&sized("gpu-small", "1").taint("gpu", "true", "NoSchedule").build());
    cluster
}

#[test]
fn each_plugin_is_counted_by_itself_and_in_combination() {
    let analysis = analysis(&mut mixed(), &pod("web").request("cpu", "1800m").build(), None);
    let reports = analysis.plugins.iter();
    let counts: Vec<_> = reports.map(|report| (&*report.plugin, report.rejected, report.alone)).collect();
    assert_eq!(counts, [("TaintToleration", 2, 1), ("NodeResourcesFit", 3, 2)]);
    let combinations = analysis.combinations.iter();
    let combinations: Vec<_> = combinations.map(|it| (it.plugins.join("+"), it.nodes)).collect();
    let expected = [("NodeResourcesFit", 2), ("TaintToleration", 1), ("TaintToleration+NodeResourcesFit", 1)];
    assert_eq!(combinations, expected.map(|(plugins, nodes)| (plugins.to_owned(), nodes)));
    assert_eq!((analysis.nodes, analysis.feasible), (4, 0));
}

#[test]
fn the_nearest_node_comes_first_and_says_what_it_lacks() {
    let explanation = explained(&mut mixed(), &pod("web").request("cpu", "1800m").build());
    let analysis = explanation.analysis.as_ref().expect("it was worked out");
    let nearest: Vec<&str> = analysis.nearest.iter().map(|near| near.node.as_str()).collect();
    assert_eq!(nearest, ["gpu", "small-2", "small-1", "gpu-small"]);
    let lack = Lack { resource: "cpu".to_owned(), requested: 1800, free: 1500, missing: 300 };
    assert_eq!(analysis.nearest[1].lacks, [lack]);
    let text = explanation.text();
    assert!(text.contains("small-2: lacks 300m cpu (1500m left)"), "{text}");
    assert!(text.contains("2 refused by TaintToleration, 1 of them by it alone"), "{text}");
    assert_eq!(explanation.reason, Cause::Fragmented, "{text}");
}

/// PreFilter of NodeAffinity names the nodes of the pod's `matchFields`. In this test, the pod names all nodes.
#[test]
fn a_plugin_that_leaves_no_node_out_is_not_reported() {
    let field = |node: &str| {
        let expression = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        json!({"matchFields": [expression]})
    };
    let terms = ["small-1", "small-2", "gpu", "gpu-small"].map(field);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": terms}}});
    let web = pod("web").request("cpu", "1800m").spec("affinity", affinity).build();
    let explanation = explained(&mut mixed(), &web);
    let reports = &explanation.analysis.as_ref().expect("it was worked out").plugins;
    let plugins: Vec<&str> = reports.iter().map(|report| report.plugin.as_str()).collect();
    assert_eq!(plugins, ["TaintToleration", "NodeResourcesFit"]);
    let text = explanation.text();
    assert!(!text.contains(" 0 refused by") && !text.contains("didn't satisfy plugin(s)"), "{text}");
}

/// A change is suggested only if the pod then fits. If no single change helps, all changes together may.
#[test]
fn changes_that_help_are_suggested() {
    let suggested = |pod: &api::Pod| -> Vec<(String, usize)> {
        let analysis = analysis(&mut mixed(), pod, None);
        analysis.suggestions.into_iter().map(|suggestion| (suggestion.change, suggestion.nodes)).collect()
    };
    let own = |expected: &[(&str, usize)]| -> Vec<(String, usize)> {
        expected.iter().map(|(change, nodes)| ((*change).to_owned(), *nodes)).collect()
    };
    let web = |cpu: &str| pod("web").request("cpu", cpu);
    let elsewhere = json!({"zone": "none"});
    let each_helps = [("request no more than 1500m cpu", 1), ("tolerate gpu=true:NoSchedule", 1)];
    assert_eq!(suggested(&web("1800m").build()), own(&each_helps));
    let by_selector = [("leave out nodeSelector and the required nodeAffinity", 2)];
    assert_eq!(suggested(&web("500m").spec("nodeSelector", elsewhere.clone()).build()), own(&by_selector));
    let together = "request no more than 1500m cpu, and tolerate gpu=true:NoSchedule, and leave out nodeSelector and the \
                    required nodeAffinity";
    assert_eq!(suggested(&web("1800m").spec("nodeSelector", elsewhere).build()), own(&[(together, 2)]));
    assert_eq!(suggested(&web("500m").build()), own(&[]), "it fits");
    let text = explained(&mut mixed(), &web("1800m").build()).text();
    assert!(text.contains("Would help: tolerate gpu=true:NoSchedule; one node fits then (gpu)"), "{text}");
}

#[test]
fn the_first_cause_that_holds_is_the_reason() {
    let of = |cluster: &mut TestCluster, pod: &api::Pod| explained(cluster, pod).reason;
    let web = |cpu: &str| pod("web").request("cpu", cpu);
    assert_eq!(of(&mut mixed(), &web("9").build()), Cause::LargerThanAnyNode);
    assert_eq!(of(&mut mixed(), &web("1800m").build()), Cause::Fragmented);
    assert_eq!(of(&mut mixed(), &web("3").build()), Cause::OutOfCapacity);
    assert_eq!(of(&mut mixed(), &web("500m").build()), Cause::Fits);
    let elsewhere = web("100m").spec("nodeSelector", json!({"zone": "none"})).build();
    assert_eq!(of(&mut mixed(), &elsewhere), Cause::Constrained);
    let gated = Subject {
        holders: vec![Holder {
            point: Some("PreEnqueue".to_owned()),
            plugin: "SchedulingGates".to_owned(),
            since_milliseconds: 0,
            ends_in_milliseconds: None,
            message: None,
            would_let_go: false,
        }],
        ..subject()
    };
    let gated = Explanation::new(gated, None, Some(analysis(&mut mixed(), &web("500m").build(), None)));
    assert_eq!(gated.reason, Cause::Held);
    assert_eq!(gated.message, "it is held back by SchedulingGates at PreEnqueue");
    let nothing_known = Explanation::new(subject(), None, None);
    assert_eq!(nothing_known.reason, Cause::Unknown, "that is an answer as well");
}

/// A user's plugin may reject a pod for a temporary reason, so the rejection does not mean that the pod is
/// misconfigured.
#[test]
fn a_full_quota_is_no_misconfiguration() {
    let rejected = |plugin: &str, code: &str, message: &str| {
        let rejected =
            PodRejected { plugins: vec![plugin.to_owned()], code: code.to_owned(), message: message.to_owned() };
        let analysis = Analysis { nodes: 3, pod_rejected: Some(rejected), ..Analysis::default() };
        Explanation::new(subject(), None, Some(analysis))
    };
    let full = "team red has 4 of 4 pods";
    for code in ["Unschedulable", "UnschedulableAndUnresolvable"] {
        let explanation = rejected("TeamQuota", code, full);
        assert_eq!(explanation.reason, Cause::Rejected, "{code}");
        assert_eq!(explanation.message, format!("it is rejected for every node by TeamQuota: {full}"));
    }
    let missing = "persistentvolumeclaim \"data\" not found";
    let explanation = rejected("VolumeBinding", "UnschedulableAndUnresolvable", missing);
    assert_eq!(explanation.reason, Cause::Misconfigured);
    assert_eq!(explanation.message, format!("no node can take it: {missing}"));
}

#[test]
fn preemption_is_told_and_not_done() {
    let mut cluster = TestCluster::default();
    cluster.set_node(&sized("a", "2").build());
    let low = pod("low").uid("low").label("app", "low").on("a").request("cpu", "2").spec("priority", json!(-1)).build();
    cluster.set_pod(&low).expect("a pod with a node");
    let web = pod("web").request("cpu", "1").build();
    let explanation = explained(&mut cluster, &web);
    let preemption = explanation.analysis.as_ref().and_then(|it| it.preemption.as_ref()).expect("it was tried");
    assert_eq!((preemption.node.as_deref(), preemption.victims), (Some("a"), 1));
    assert_eq!(preemption.examples, ["default/low"]);
    assert_eq!(preemption.violated_budgets, []);
    for (allowed, disrupted, is_violated) in
        [(0, json!({}), true), (1, json!({}), false), (0, json!({"low": ""}), false)]
    {
        let status = json!({"disruptionsAllowed": allowed, "disruptedPods": disrupted});
        cluster.set_object(&json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "pdb", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "low"}}},
            "status": status}));
        let text = explained(&mut cluster, &web).text();
        let budget =
            "against PodDisruptionBudget default/pdb, which allows 0 evictions at the moment, and 1 of these pods";
        assert_eq!(text.contains(budget), is_violated, "{status}: {text}");
    }
    assert_eq!(cluster.table().pods().n_pods(), 1, "it is there still");
}

/// As in kube-scheduler, this holds even if the selector of the budget selects the pod.
#[test]
fn no_budget_protects_a_pod_without_labels() {
    let mut cluster = TestCluster::default();
    cluster.set_node(&sized("a", "2").build());
    let low = pod("low").uid("low").on("a").request("cpu", "2").spec("priority", json!(-1)).build();
    cluster.set_pod(&low).expect("a pod with a node");
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    cluster.set_object(&json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default"}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0}}));
    let explanation = explained(&mut cluster, &pod("web").request("cpu", "1").build());
    let preemption = explanation.analysis.and_then(|it| it.preemption).expect("it was tried");
    assert_eq!((preemption.victims, preemption.violated_budgets), (1, Vec::new()));
}

#[test]
fn a_node_that_is_asked_about_says_all_that_refuses_it_or_its_rank() {
    let web = pod("web").request("cpu", "1200m").build();
    let refused = analysis(&mut mixed(), &web, Some("gpu-small")).node.expect("it was asked about");
    let plugins: Vec<&str> = refused.reasons.iter().map(|reason| reason.plugin.as_str()).collect();
    assert_eq!((plugins, refused.rank), (vec!["TaintToleration", "NodeResourcesFit"], None));
    let fits = analysis(&mut mixed(), &web, Some("small-2")).node.expect("it was asked about");
    assert_eq!((fits.rank, fits.reasons.len()), (Some(1), 0));
}

/// The scores of a node say little without the scores of the pod's node, or of the best node.
#[test]
fn a_node_is_compared_with_the_winner() {
    let web = pod("web").request("cpu", "500m").build();
    let compared = |about: &str, chosen: Option<&str>| {
        let report = asked(&mut mixed(), &web, Some(about), chosen).node.expect("it was asked about");
        let name = |node: Option<RankedNode>| node.map_or_else(String::new, |node| node.node.to_string());
        (report.rank, name(report.winner), name(report.scores))
    };
    let expected = |rank, winner: &str, node: &str| (Some(rank), winner.to_owned(), node.to_owned());
    assert_eq!(compared("small-1", None), expected(2, "small-2", "small-1"));
    assert_eq!(compared("small-2", None), expected(1, "", "small-2"), "it is the best itself");
    assert_eq!(compared("small-2", Some("small-1")), expected(1, "small-1", "small-2"), "the pod is elsewhere");
}

#[test]
fn attempts_say_what_had_the_pod_tried() {
    let record = |attempt: u32, brought_by: &str, outcome: Outcome| DecisionRecord {
        uid: "web".into(),
        at: Time(0),
        attempt,
        brought_by: brought_by.into(),
        outcome,
        sampled: Sampled { nodes: 4, visited: 4, feasible: 3, tied: 2, ..Sampled::default() },
        best: Vec::new(),
        rejected: Vec::new(),
        not_bound: None,
        cycle: CycleId::default(),
        trace: None,
    };
    let no_node = || Outcome::Rejected { message: "no node".to_owned() };
    let last = record(3, "NodeAdd", Outcome::Placed { node: "a".into() });
    let mut explanation = Explanation::new(subject(), Some((last, 2_000)), None);
    let earlier = [record(2, "", no_node()), record(1, "UnscheduledPodAdd", no_node())];
    explanation.earlier_attempts = earlier.iter().map(|record| EarlierAttempt::of(record, Time(5_000))).collect();
    let text = explanation.text();
    let lines = "\nAttempt 3 after NodeAdd, 2.0s ago, chose a: it looked at 4 nodes, and 3 of them fit; 2 have the best \
                 total, and their order in the search decided\nAttempt 2, 5.0s ago: no node\nAttempt 1 after \
                 UnscheduledPodAdd, 5.0s ago: no node\n";
    assert!(text.ends_with(lines), "{text}");
    let json = serde_json::to_value(&explanation).expect("JSON");
    assert_eq!(json["earlierAttempts"][1]["broughtBy"], "UnscheduledPodAdd");
    assert_eq!(serde_json::from_value::<Explanation>(json).expect("it is read again"), explanation);
}

#[test]
fn an_explanation_is_data() {
    let explanation = explained(&mut mixed(), &pod("web").request("cpu", "1800m").build());
    let json = serde_json::to_value(&explanation).expect("JSON");
    assert_eq!((&json["reason"], &json["state"]["queue"]), (&json!("Fragmented"), &json!("unschedulable")));
    assert_eq!(serde_json::from_value::<Explanation>(json).expect("it is read again"), explanation);
}

/// A node fits, but the last attempt failed after it had chosen a node.
#[test]
fn a_rejection_after_the_choice_of_a_node_is_named() {
    let not_bound = |plugin: Option<&str>, point: Option<&str>| DecisionRecord {
        uid: "web".into(),
        at: Time(0),
        attempt: 2,
        brought_by: "NodeAdd".into(),
        outcome: Outcome::Placed { node: "gpu".into() },
        sampled: Sampled { nodes: 4, visited: 4, feasible: 1, ..Sampled::default() },
        best: Vec::new(),
        rejected: Vec::new(),
        not_bound: Some(NotBound {
            point: point.map(str::to_owned),
            plugin: plugin.map(str::to_owned),
            message: "the group is gone".to_owned(),
        }),
        cycle: CycleId::default(),
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
    };
    let web = pod("web").request("cpu", "500m").build();
    let of = |decision| {
        let analysis = analysis(&mut mixed(), &web, None);
        Explanation::new(subject(), Some((decision, 0)), Some(analysis))
    };
    let explanation = of(not_bound(Some("Gang"), Some("Permit")));
    assert_eq!(explanation.reason, Cause::NotBound);
    let message = "node gpu was chosen for it, but plugin Gang rejected the pod at Permit: the group is gone; 2 nodes fit at \
                   the moment";
    assert_eq!(explanation.message, message);
    let text = explanation.text();
    let then = "\n  Trace 4bf92f3577b34da6a3ce929d0e0e4736\n  Then plugin Gang rejected the pod at Permit: the group is gone\n";
    assert!(text.contains(then), "{text}");
    let message = "node gpu was chosen for it, but the attempt failed: the group is gone; 2 nodes fit at the moment";
    assert_eq!(of(not_bound(None, None)).message, message);
    let impossible = Explanation::new(
        subject(),
        Some((not_bound(Some("Gang"), Some("Permit")), 0)),
        Some(analysis(&mut mixed(), &pod("web").request("cpu", "1800m").build(), None)),
    );
    assert_eq!(impossible.reason, Cause::Fragmented, "it no longer fits");
}

/// The pod is held back after its second fault, so its later attempts end before a decision.
#[test]
fn attempts_that_ended_before_a_decision_are_named() {
    let text = |attempts: u32| {
        let failed = DecisionRecord {
            uid: "web".into(),
            at: Time(0),
            cycle: CycleId(3),
            trace: None,
            attempt: 2,
            brought_by: "".into(),
            outcome: Outcome::Failed { message: "trapped in filter".to_owned() },
            sampled: Sampled::default(),
            best: Vec::new(),
            rejected: Vec::new(),
            not_bound: None,
        };
        Explanation::new(Subject { attempts, ..subject() }, Some((failed, 0)), None).text()
    };
    let ended = "ended before the scheduler looked for a node\n\nAttempt 2, 0.0s ago, failed: trapped in filter";
    assert!(!text(2).contains("ended before"), "{}", text(2));
    assert!(text(3).contains(&format!("attempts so far: 3\n\nAttempt 3 {ended}")), "{}", text(3));
    assert!(text(5).contains(&format!("attempts so far: 5\n\nAttempts 3 to 5 {ended}")), "{}", text(5));
}

/// A plugin is asked about a gated pod only after an event, so its answer may have changed long ago.
#[test]
fn a_gate_that_would_open_says_what_has_it_asked_again() {
    let gated = |status: &Status, events: &[&str]| {
        let mut holder = Holder {
            point: Some("PreEnqueue".to_owned()),
            plugin: "NotBefore".to_owned(),
            since_milliseconds: 490_000,
            ends_in_milliseconds: None,
            message: None,
            would_let_go: false,
        };
        holder.answers(status);
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        let retries = vec![Retry { plugin: "NotBefore".to_owned(), events }];
        Explanation::new(Subject { holders: vec![holder], retries, ..subject() }, None, None)
    };
    let explanation = gated(&Status::unresolvable("not before 9:00"), &["ConfigMap/Add|Update"]);
    assert_eq!(explanation.message, "it is held back by NotBefore at PreEnqueue");
    let text = explanation.text();
    assert!(text.contains("Held by: NotBefore at PreEnqueue, for 8m10s: not before 9:00\n"), "{text}");

    let explanation = gated(&Status::success(), &["ConfigMap/Add|Update", "Pod/Update"]);
    assert_eq!(explanation.message, "it is held back by NotBefore at PreEnqueue, which would let it go now");
    let again = "for 8m10s; it would let the pod go now, and it is asked again at the next of these events: \
                 ConfigMap/Add|Update, Pod/Update\n";
    assert!(explanation.text().contains(again), "{}", explanation.text());
    let json = serde_json::to_value(&explanation).expect("JSON");
    assert_eq!((&json["holders"][0]["wouldLetGo"], &json["holders"][0]["message"]), (&json!(true), &json!(null)));

    let text = gated(&Status::success(), &[]).text();
    assert!(text.contains("it would let the pod go now, but no event makes the scheduler ask it again\n"), "{text}");
}

#[test]
fn a_pod_of_a_file_would_be_held() {
    let holder = Holder {
        point: Some("PreEnqueue".to_owned()),
        plugin: "NotBefore".to_owned(),
        since_milliseconds: 0,
        ends_in_milliseconds: None,
        message: Some("not before 9:00".to_owned()),
        would_let_go: false,
    };
    let held = Subject { state: PodState::NotCreated, attempts: 0, holders: vec![holder], ..subject() };
    let explanation = Explanation::new(held, None, None);
    assert_eq!(
        (explanation.reason, &*explanation.message),
        (Cause::Held, "it would be held back by NotBefore at PreEnqueue")
    );
    let text = explanation.text();
    assert!(text.contains("Would be held by: NotBefore at PreEnqueue: not before 9:00\n"), "{text}");
}

#[test]
fn nodes_that_an_extender_left_out_are_its_own() {
    let placed = DecisionRecord {
        uid: "web".into(),
        at: Time(0),
        attempt: 1,
        brought_by: "".into(),
        outcome: Outcome::Placed { node: "a".into() },
        sampled: Sampled { nodes: 3, visited: 3, feasible: 1, ..Sampled::default() },
        best: Vec::new(),
        rejected: vec![Rejected {
            plugin: "".into(),
            nodes: 2,
            message: String::new(),
            examples: vec!["b".to_owned()],
        }],
        not_bound: None,
        cycle: CycleId::default(),
        trace: None,
    };
    let text = Explanation::new(subject(), Some((placed, 0)), None).text();
    assert!(text.contains("2 refused by an HTTP extender (b, ...)"), "{text}");
}

/// kube-scheduler ignores the name of a node that does not exist. The explanation shows such a name, which may be
/// misspelt.
#[test]
fn nodes_that_do_not_exist_are_named() {
    let expression = json!({"key": "metadata.name", "operator": "In", "values": ["node-1"]});
    let term = json!({"matchFields": [expression]});
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let explanation = explained(&mut mixed(), &pod("web").spec("affinity", affinity).build());
    let missing = MissingNodes { plugin: "NodeAffinity".to_owned(), nodes: 1, examples: vec!["node-1".to_owned()] };
    assert_eq!(explanation.analysis.as_ref().expect("it was worked out").missing_nodes, [missing]);
    let text = explanation.text();
    let line = "PreFilter of NodeAffinity restricts the pod to nodes of which 1 do not exist (node-1)";
    assert!(text.contains(line), "{text}");
}
