//! A fault at a call whose answer has no status is a difference, even in the last step of a case.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, DeltaSource, Effect, EventSubject, HintCall, Hosted, Manifest, Plugin,
    PluginFactory, PluginType as _, PluginVersion, Points, PostBind, QueueSort, QueueingHint, Reserve, Status,
};
use berth_model::{NodeIdx, Pod};

/// Traps at the call that the name of the pod names.
#[derive(Debug, Default)]
struct Fragile {
    fault: Option<&'static str>,
}

impl Fragile {
    fn enter(&mut self, call: &'static str, pod: &Pod) {
        if *pod.name == *call {
            self.fault = Some(call);
        }
    }
}

berth_framework::plugin!(Fragile: QueueSort, Reserve, PostBind, QueueingHint; Hosted);

impl Configure for Fragile {
    fn describe() -> Manifest {
        Manifest { name: "Fragile".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self::default())
    }
}

impl Hosted for Fragile {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        self.out_of_service().map_or(Ok(()), Err)
    }

    fn out_of_service(&self) -> Option<Status> {
        self.fault.map(|call| Status::unresolvable(format!("trapped in {call}")))
    }

    fn answered_badly(&mut self, _reason: &str) {}
}

impl QueueSort for Fragile {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        self.enter("queue-sort", pod);
        (0, queued_at)
    }
}

impl Reserve for Fragile {
    fn reserve(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Status {
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.enter("unreserve", call.pod);
        Vec::new()
    }
}

impl PostBind for Fragile {
    fn post_bind(&mut self, call: &Call<'_>, _node: NodeIdx) {
        self.enter("post-bind", call.pod);
    }
}

impl QueueingHint for Fragile {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        self.enter("queueing-hint", call.pod);
        matches!(call.subject, EventSubject::Hidden)
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Fragile::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Fragile::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Fragile::configure(args)?))
    }
}

/// The difference of each case is a fault in the call that its name says; the answers are as expected.
const CASES: &str = "
plugin: Fragile
cases:
- name: unreserve
  pod: {metadata: {name: unreserve, namespace: team}}
  steps: [{nodes: [{metadata: {name: a}}], bindingFailsOn: a}]
- name: post-bind
  pod: {metadata: {name: post-bind, namespace: team}}
  steps: [{nodes: [{metadata: {name: a}}], bindTo: a}]
- name: queue-sort
  pod: {metadata: {name: web, namespace: team}}
  steps:
  - nodes: [{metadata: {name: a}}]
    queue: [{pod: {metadata: {name: queue-sort, namespace: team}}, queuedAt: 1}]
    expect: {order: [queue-sort]}
- name: queueing-hint
  pod: {metadata: {name: queueing-hint, namespace: team}}
  steps:
  - nodes: [{metadata: {name: a}}]
    event: {resource: Node, actions: [Add]}
    expect: {hint: queue}
";

#[expect(clippy::expect_used, reason = "tests write the text")]
fn cases(text: &str) -> CaseFile {
    serde_saphyr::from_str(text).expect("cases")
}

#[test]
fn a_fault_without_a_status_is_a_difference() {
    let results = cases(CASES).run(&Factory, &CaseHost::default());
    assert_eq!(results.len(), 4);
    for result in results {
        assert_eq!(result.differences, [format!("the plugin fails: trapped in {}", result.name)]);
    }
}

#[test]
fn a_pod_that_meets_no_fault_has_no_difference() {
    let fine = CASES.replace("bindingFailsOn: a", "bindTo: a").replace("name: post-bind", "name: web");
    let results = cases(&fine).run(&Factory, &CaseHost::default());
    for result in results.iter().take(2) {
        assert_eq!(result.differences, Vec::<String>::new(), "{}", result.name);
    }
}

#[test]
fn faults_are_not_written_as_answers() {
    let refused = cases(CASES).updated(&Factory, &CaseHost::default()).expect_err("a fault");
    assert_eq!(refused.to_string(), "case \"unreserve\", step 1: the plugin fails: trapped in unreserve");
}
