//! Tests with plugins that explain their answers in their own words.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

use std::sync::Arc;

use berth_explain::{Analysis, Explanation, PluginWords, PodIdentity, PodState, Question, Subject, add_words, analyze};
use berth_framework::{
    Call, Configure, ConfigureError, CycleId, Explain, Filter, Manifest, PreFilter, Profile, RejectedNodes, Status,
    run::NominatedPods,
};
use berth_model::{NodeIdx, NodeSet, Pod, Time};
use berth_testing::{TestCluster, node, pod};

/// A plugin that keeps all pods off the first node. Its words name the cycle and the priority that its PreFilter saw.
/// It fails if it is asked about a pod with priority 1.
struct Talks {
    seen: Option<(CycleId, i32)>,
}

berth_framework::plugin!(Talks: PreFilter, Filter, Explain);

impl Configure for Talks {
    fn describe() -> Manifest {
        Manifest { name: "Talks".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { seen: None })
    }
}

impl PreFilter for Talks {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.seen = Some((call.cycle, call.pod.priority));
        Ok(None)
    }
}

impl Filter for Talks {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| node != NodeIdx(0));
        Ok(())
    }

    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(vec![RejectedNodes { status: Status::unschedulable("it is taken"), nodes: rejected.clone() }])
    }

    fn dry_run(
        &mut self,
        _call: &Call<'_>,
        _pods: &[&Pod],
        cases: &[berth_framework::DryRunCase],
    ) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|_| Status::success()).collect())
    }
}

impl Explain for Talks {
    fn explain(&mut self, call: &Call<'_>, node: Option<NodeIdx>) -> Result<String, Status> {
        let (cycle, priority) = self.seen.ok_or_else(|| Status::error("PreFilter comes before"))?;
        match (priority, node) {
            (1, _) => Err(Status::error("no words for it")),
            _ if cycle != call.cycle => Err(Status::error("PreFilter saw another cycle")),
            (_, None) => Ok(format!("priority {priority} keeps the first node free")),
            (_, Some(NodeIdx(0))) => Ok("it is the first".to_owned()),
            (_, Some(_)) => Ok(String::new()),
        }
    }
}

fn explained(priority: i32, about: Option<&str>) -> Explanation {
    let mut cluster = TestCluster::default();
    for name in ["a", "b"] {
        cluster.set_node(&node(name).allocatable("cpu", "1").allocatable("pods", "10").build());
    }
    let mut web = cluster.intern(&pod("web").build());
    web.priority = priority;
    let web = Arc::new(web);
    cluster.settle();
    let mut profile = Profile::new("berth");
    profile.add_everywhere(Box::new(Talks { seen: None }), "null");
    profile.sync(cluster.cache()).expect("native plugins follow");
    let table = cluster.table();
    let nominated = NominatedPods::new(table, &web, []);
    let node = about.and_then(|name| table.find(table.symbols.lookup(name)?));
    let question = Question { order: cluster.cache().order(), nominated: &nominated, node, chosen: None };
    let call = Call::new(CycleId(1), Time(0), &web, table);
    let mut analysis: Analysis = analyze(&mut profile, &call, &question);
    assert_eq!(analysis.words, [], "words are another question");
    add_words(&mut profile, &call, &question, &mut analysis);
    Explanation::new(subject(), None, Some(analysis))
}

fn subject() -> Subject {
    Subject {
        pod: PodIdentity { namespace: "default".to_owned(), name: "web".to_owned(), uid: "u".to_owned() },
        scheduler_name: "berth".to_owned(),
        priority: 0,
        state: PodState::NotCreated,
        attempts: 0,
        rejected_by: Vec::new(),
        nominated_node: None,
        holders: Vec::new(),
        retries: Vec::new(),
    }
}

fn words(node: Option<&str>, text: &str) -> PluginWords {
    PluginWords { plugin: "Talks".to_owned(), node: node.map(str::to_owned), text: text.to_owned() }
}

#[test]
fn words_stand_under_their_plugin_and_under_the_node() {
    let explanation = explained(7, Some("a"));
    let said = [words(None, "priority 7 keeps the first node free"), words(Some("a"), "it is the first")];
    assert_eq!(explanation.analysis.as_ref().map(|it| it.words.as_slice()), Some(&said[..]));
    let text = explanation.text();
    let under = "1 refused by Talks, 1 of them by it alone\n              1 it is taken (a)\n         says: priority 7 keeps the first node free\n";
    assert!(text.contains(under), "{text}");
    assert!(text.ends_with("  Talks says about a: it is the first\n"), "{text}");
    let json = serde_json::to_value(&explanation).expect("JSON");
    assert_eq!(json["analysis"]["words"][1]["node"], "a");
    assert_eq!(json["analysis"]["words"][1]["text"], "it is the first");
    assert_eq!(serde_json::from_value::<Explanation>(json).expect("it is read again"), explanation);
}

#[test]
fn a_plugin_may_have_nothing_to_say() {
    let explanation = explained(7, Some("b"));
    assert_eq!(
        explanation.analysis.as_ref().map(|it| it.words.as_slice()),
        Some(&[words(None, "priority 7 keeps the first node free")][..])
    );
    assert_eq!(explanation.notes, Vec::<String>::new());
}

/// The answer contains all other parts.
#[test]
fn words_that_fail_are_a_note() {
    let explanation = explained(1, None);
    assert_eq!(explanation.notes, ["the words of Talks are unknown: no words for it"]);
    let analysis = explanation.analysis.as_ref().expect("it was worked out");
    assert_eq!((analysis.feasible, analysis.error.as_ref(), analysis.words.len()), (1, None, 0));
    assert!(explanation.text().ends_with("\nNote: the words of Talks are unknown: no words for it\n"));
}
