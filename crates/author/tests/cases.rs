//! Files of cases about the points around a pod's way to its node, with a plugin that has them all.

use std::{cell::RefCell, collections::BTreeMap, path::Path, rc::Rc, sync::LazyLock};

use berth_author::{CaseEffect, CaseFile, CaseHost, CheckOutcome, PluginAnswers, Situation, conformance};
use berth_framework::{
    Bind, BuildError, Call, Code, Configure, ConfigureError, DryRun, Effect, EventSubject, Failure, Grants, HintCall,
    Manifest, PatchType, Permission, Permit, PermitVerdict, Plugin, PluginFactory, PluginType as _, PluginVersion,
    Points, PostBind, PostFilter, PostFilterOutcome, PreBind, PreEnqueue, PreFilter, QueueSort, QueueingHint, Reserve,
    Status,
};
use berth_model::{ClusterTable, NodeIdx, Pod, Sym};
use serde_json::json;

/// Allows as many reserved pods per namespace as its argument says.
#[derive(Debug)]
struct Quota {
    limit: u64,
    used: BTreeMap<String, u64>,
}

berth_framework::plugin!(
    Quota: PreEnqueue, QueueSort, PreFilter, PostFilter, Reserve, Permit, PreBind, Bind, PostBind, QueueingHint
);

fn text(call: &Call<'_>, symbol: Sym) -> String {
    call.table.symbols.text(symbol).to_owned()
}

impl Configure for Quota {
    fn describe() -> Manifest {
        Manifest { name: "Quota".to_owned(), ..Manifest::default() }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { limit: args.parse().map_err(ConfigureError::new)?, used: BTreeMap::new() })
    }
}

impl PreEnqueue for Quota {
    fn pre_enqueue(&mut self, pod: &Pod, _table: &ClusterTable) -> Status {
        if pod.priority < 0 { Status::unresolvable("may never run") } else { Status::success() }
    }
}

impl QueueSort for Quota {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        (-i64::from(pod.priority), queued_at)
    }
}

impl PreFilter for Quota {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let used = self.used.get(&text(call, call.pod.namespace)).copied().unwrap_or_default();
        if used < self.limit { Ok(None) } else { Err(Status::unschedulable(format!("{used} pods are there"))) }
    }
}

impl PostFilter for Quota {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let uids = failure.absent.map(|status| status.reasons.clone()).unwrap_or_default();
        let effects = vec![Effect::Activate { uids }];
        Ok(PostFilterOutcome { status: Status::unschedulable("no help"), nominate: Some(None), effects })
    }
}

impl Reserve for Quota {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        *self.used.entry(text(call, call.pod.namespace)).or_default() += 1;
        Status::success()
    }

    /// Gives the claim of a pod of priority 3 back.
    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.used.entry(text(call, call.pod.namespace)).and_modify(|used| *used -= 1);
        let status = json!({"reservedFor": [{"$patch": "delete", "uid": call.pod.uid.as_str()}]});
        let release = Effect::Patch {
            kind: "resource.k8s.io/v1/ResourceClaim".to_owned(),
            namespace: text(call, call.pod.namespace),
            name: "gpu".to_owned(),
            subresource: Some("status".to_owned()),
            patch: json!({"status": status}).to_string().into_bytes(),
            patch_type: PatchType::StrategicMerge,
        };
        if call.pod.priority == 3 { vec![release] } else { Vec::new() }
    }
}

impl Permit for Quota {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let verdict = match call.pod.priority {
            0 => PermitVerdict::Allow,
            1 => PermitVerdict::Wait(500),
            _ => PermitVerdict::Deny(Status::new(Code::Unschedulable, ["not today"])),
        };
        (verdict, Vec::new())
    }
}

impl PreBind for Quota {
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let node = text(call, call.table.name(node));
        let [reason, action] = ["Counted", "Binding"].map(str::to_owned);
        Ok(vec![Effect::Event { warning: false, reason, action, note: format!("goes to {node}") }])
    }
}

impl Bind for Quota {
    fn bind(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        Ok(vec![Effect::Bind])
    }
}

impl PostBind for Quota {
    fn post_bind(&mut self, call: &Call<'_>, _node: NodeIdx) {
        // The next step shows this value.
        *self.used.entry(text(call, call.pod.namespace)).or_default() += 10;
    }
}

impl QueueingHint for Quota {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        matches!(call.subject, EventSubject::Pod { old: Some(old), new: None } if old.namespace == call.pod.namespace)
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Quota::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Quota::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Quota::configure(args)?))
    }
}

const CASES: &str = "
plugin: Quota
cases:
- name: a pod is placed, and the next one finds no room
  args: 11
  pod: {metadata: {name: web, namespace: team}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindTo: a
    expect:
      preBind: {effects: [{event: {warning: false, reason: Counted, action: Binding, note: goes to a}}]}
      bind: {effects: [bind]}
  - expect:
      preFilter: {code: Unschedulable, reasons: [11 pods are there]}
      postFilter: {code: Unschedulable, reasons: [no help], nominate: '', effects: [{activate: [11 pods are there]}]}
  - gonePods: [team/web]
    pod: {metadata: {name: web, namespace: other}}
- name: a pod that is turned down on Permit is not there
  args: 1
  pod: {metadata: {name: web, namespace: team}, spec: {priority: 2}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindTo: a
    expect: {permit: {code: Unschedulable, reasons: [not today]}}
  - pod: {metadata: {name: web, namespace: team}, spec: {priority: 1}}
    bindTo: a
    expect:
      permit: {waitMilliseconds: 500}
      preBind: {effects: [{event: {warning: false, reason: Counted, action: Binding, note: goes to a}}]}
      bind: {effects: [bind]}
- name: a pod whose binding fails gives its share back
  args: 1
  pod: {metadata: {name: web, namespace: team}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindingFailsOn: a
    expect:
      preBind: {effects: [{event: {warning: false, reason: Counted, action: Binding, note: goes to a}}]}
      bind: {effects: [bind]}
  - {}
- name: the queue, and what brings a pod back
  args: 1
  pod: {metadata: {name: web, namespace: team}}
  steps:
  - queue:
    - pod: {metadata: {name: late}}
      queuedAt: 20
    - pod: {metadata: {name: early}}
      queuedAt: 10
    - pod: {metadata: {name: urgent}, spec: {priority: 5}}
      queuedAt: 30
    event: {resource: Pod, actions: [Delete], old: {metadata: {name: db, namespace: team}}}
    expect: {order: [urgent, early, late], hint: queue}
  - event: {resource: Pod, actions: [Delete], old: {metadata: {name: db, namespace: other}}}
    expect: {hint: skip}
  - pod: {metadata: {name: never}, spec: {priority: -1}}
    expect: {preEnqueue: {code: UnschedulableAndUnresolvable, reasons: [may never run]}}
";

#[expect(clippy::expect_used, reason = "tests write the text")]
fn cases(text: &str) -> CaseFile {
    serde_saphyr::from_str(text).expect("cases")
}

#[test]
fn every_point_has_its_place_in_a_case() {
    for result in cases(CASES).run(&Factory, &CaseHost::default()) {
        assert_eq!(result.differences, Vec::<String>::new(), "{}", result.name);
    }
}

/// Permit rejects a pod of priority 3.
const GIVEN_BACK: &str = "
plugin: Quota
cases:
- name: a claim is given back
  args: 1
  pod: {metadata: {name: web, namespace: team, uid: u}, spec: {priority: 3}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindTo: a
    expect:
      permit: {code: Unschedulable, reasons: [not today]}
      unreserve:
        effects:
        - patch:
            kind: resource.k8s.io/v1/ResourceClaim
            namespace: team
            name: gpu
            subresource: status
            patch: {status: {reservedFor: [{$patch: delete, uid: u}]}}
            patchType: strategicMerge
";

#[test]
fn the_effects_of_unreserve_are_answers() {
    let differences = |text: &str, grants: Grants| -> Vec<String> {
        let host = CaseHost::new(grants, |_| {});
        cases(text).run(&Factory, &host).into_iter().flat_map(|result| result.differences).collect()
    };
    assert_eq!(differences(GIVEN_BACK, Grants::ALL), Vec::<String>::new());
    let other = differences(&GIVEN_BACK.replace("strategicMerge", "merge"), Grants::ALL);
    assert!(matches!(&other[..], [line] if line.starts_with("Unreserve: {\"effects\":[{\"patch\":")), "{other:?}");
    let refused = differences(GIVEN_BACK, Grants::default()).concat();
    let expected = "Unreserve: the plugin asks for patch of resource.k8s.io/v1/ResourceClaim/status team/gpu";
    assert!(refused.starts_with(expected), "{refused}");
    let updated = cases(GIVEN_BACK).updated(&Factory, &CaseHost::default()).expect("answers");
    let text = serde_saphyr::to_string(&updated).expect("YAML");
    assert_eq!(differences(&text, Grants::ALL), Vec::<String>::new());
}

/// The differences of a case in which the binding of a pod fails. In the second step, the pod's share is free again.
fn of_failing(step: &str) -> String {
    let text = format!(
        "plugin: Quota\ncases:\n- name: a\n  args: 1\n  pod: {{metadata: {{name: web, namespace: team}}, spec: \
         {{priority: 1}}}}\n  steps:\n  - nodes: [{{metadata: {{name: a}}}}]\n    {step}\n  - {{}}\n"
    );
    cases(&text).run(&Factory, &CaseHost::default()).remove(0).differences.concat()
}

#[test]
fn a_binding_fails_after_the_point_that_the_step_names() {
    let answers = [
        "permit: {waitMilliseconds: 500}",
        "preBind: {effects: [{event: {warning: false, reason: Counted, action: Binding, note: goes to a}}]}",
        "bind: {effects: [bind]}",
    ];
    let points = ["Reserve", "Permit", "PreBind", "Bind"];
    for (n_answers, point) in points.into_iter().enumerate() {
        let expect = answers[..n_answers].join(", ");
        let told = of_failing(&format!("bindingFailsOn: a\n    failsAt: {point}\n    expect: {{{expect}}}"));
        assert_eq!(told, "", "{point}");
    }
    let told = of_failing(&format!("bindingFailsOn: a\n    expect: {{{}}}", answers.join(", ")));
    assert_eq!(told, "", "without failsAt");
}

#[test]
fn a_point_after_the_failure_is_not_called() {
    let expect = "expect: {permit: {waitMilliseconds: 500}, bind: {effects: [bind]}}";
    assert_eq!(
        of_failing(&format!("bindingFailsOn: a\n    failsAt: Permit\n    {expect}")),
        "step 1: Bind: not called, because with failsAt the attempt fails at an earlier point (name a later point in \
         failsAt), expected {\"effects\":[\"bind\"]}"
    );
    assert_eq!(
        of_failing("bindTo: a\n    failsAt: Permit"),
        "step 1: failsAt is only for a step with bindingFailsOn: add `bindingFailsOn: NODE`, or leave failsAt out"
    );
    is_refused("failsAt: Postbind", "failsAt", "`Postbind`, expected one of Reserve, Permit, PreBind, Bind");
}

#[test]
fn what_differs_is_told_point_by_point() {
    let wrong = CASES
        .replace("bind: {effects: [bind]}", "bind: {effects: []}")
        .replace("[urgent, early, late]", "[early, late, urgent]")
        .replace("waitMilliseconds: 500", "waitMilliseconds: 5")
        .replace("hint: skip", "hint: queue");
    let told: Vec<String> =
        cases(&wrong).run(&Factory, &CaseHost::default()).into_iter().flat_map(|result| result.differences).collect();
    let expected = [
        "step 1: Bind: {\"effects\":[\"bind\"]}, expected {}",
        "step 2: Permit: {\"waitMilliseconds\":500}, expected {\"waitMilliseconds\":5}",
        "step 2: Bind: {\"effects\":[\"bind\"]}, expected {}",
        "step 1: Bind: {\"effects\":[\"bind\"]}, expected {}",
        "step 1: QueueSort: urgent, early, late, expected early, late, urgent",
        "step 2: QueueingHint: \"skip\", expected \"queue\"",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_answers_that_are_given_can_be_written_down() {
    let updated = cases(CASES).updated(&Factory, &CaseHost::default()).expect("answers");
    let text = serde_saphyr::to_string(&updated).expect("YAML");
    for result in cases(&text).run(&Factory, &CaseHost::default()) {
        assert_eq!(result.differences, Vec::<String>::new(), "{}", result.name);
    }
}

/// A step without `expect` does not change, although the plugin gives no answer at this step either.
#[test]
fn a_step_without_answers_needs_no_place_for_them() {
    let wrong = CASES.replace("hint: skip", "hint: queue");
    let updated = cases(&wrong).updated(&Factory, &CaseHost::default()).expect("answers");
    let expected = CASES.replace("expect: {hint: skip}", "expect:\n      hint: skip");
    assert_eq!(cases(&wrong).text_with(&updated, &wrong), Some(expected));
}

#[test]
fn steps_that_make_no_sense_are_told() {
    let one = |step: &str| {
        let text = format!("{{plugin: Quota, cases: [{{name: a, args: 1, steps: [{step}]}}]}}");
        cases(&text).run(&Factory, &CaseHost::default()).remove(0).differences.concat()
    };
    for key in ["bindTo", "bindingFailsOn", "waitsOn"] {
        assert_eq!(
            one(&format!("{{{key}: nowhere}}")),
            format!("{key}: node nowhere does not exist: correct the name, or add the node to `nodes`")
        );
    }
    assert!(one("{bindTo: a, bindingFailsOn: a}").starts_with("bindTo, bindingFailsOn and waitsOn cannot be used"));
    assert_eq!(
        one("{pods: [{metadata: {name: web}, spec: {nodeName: nowhere}}]}"),
        "pod web is on node nowhere, which does not exist: add the node to `nodes`"
    );
    assert_eq!(
        one("{gonePods: [team/web]}"),
        "gonePods: no pod has the uid \"team/web\"; a pod without metadata.uid has NAMESPACE/NAME as its uid"
    );
    assert!(
        one("{goneObjects: [{apiVersion: v1, kind: Service, metadata: {name: a}}]}").ends_with("it does not exist")
    );
    let label = one("{nodes: [{metadata: {name: a, labels: {x: true}}}]}");
    let place = "nodes[0] (a): metadata.labels.x: invalid type: boolean `true`, expected a string";
    assert!(label.starts_with(place) && label.ends_with("quote the string)"), "{label}");
    let name = one("{nodes: [{metadata: {name: n}}]}");
    let place =
        "nodes[0]: metadata.name: invalid type: boolean `false`, expected a string (YAML reads false, no, off and n";
    assert!(name.starts_with(place), "{name}");
    let containers = |pod: &str| {
        let told = one(pod);
        let (place, _) = told.split_once(": spec.containers: invalid type: map").expect("a mistake of that kind");
        place.to_owned()
    };
    let pod = "{metadata: {name: web}, spec: {nodeName: a, containers: {name: main}}}";
    assert_eq!(containers(&format!("{{pod: {pod}}}")), "pod (web)");
    assert_eq!(containers(&format!("{{nodes: [{{metadata: {{name: a}}}}], pods: [{pod}]}}")), "pods[0] (web)");
    assert_eq!(containers(&format!("{{queue: [{{pod: {pod}}}]}}")), "queue[0].pod (web)");
    assert_eq!(containers(&format!("{{event: {{resource: Pod, actions: [Add], new: {pod}}}}}")), "event.new (web)");
}

#[test]
fn effects_beyond_what_is_granted_are_differences() {
    let host = |effects: &[Permission]| CaseHost::new(Grants::new(effects.iter().copied(), []), |_| {});
    let differences = |host: &CaseHost| {
        let results = cases(CASES).run(&Factory, host).into_iter();
        results.flat_map(|result| result.differences).collect::<Vec<String>>()
    };
    let all = [Permission::Bind, Permission::Event, Permission::Activate];
    assert_eq!(differences(&host(&all)), Vec::<String>::new());
    let told = differences(&host(&[Permission::Bind, Permission::Event]));
    let expected = "step 2: PostFilter: the plugin asks for activate, which `grants` in this file does not have: write \
                    `grants: {effects: [bind, activate, event]}` there, and in its entry of --plugin-config";
    assert_eq!(told, [expected]);
}

#[test]
fn the_grants_that_cases_need_are_worked_out() {
    let needed = cases(CASES).grants_asked_for(&Factory, Grants::default(), |grants| CaseHost::new(grants, |_| {}));
    assert_eq!(needed, Grants::new([Permission::Bind, Permission::Event, Permission::Activate], []));
}

/// The scheduler treats scores outside 0 to 100 as faults.
#[test]
fn scores_out_of_range_are_differences_although_they_are_expected() {
    let mut expect = PluginAnswers::default();
    expect.scores.insert("a".to_owned(), 150);
    let told = expect.differences(&expect);
    assert_eq!(told, ["a: invalid score 150: must be from 0 to 100; the scheduler treats it as a fault"]);
}

#[test]
fn the_time_of_a_step_is_told_and_stays() {
    let told = Rc::new(RefCell::new(Vec::new()));
    let host = CaseHost::new(Grants::ALL, {
        let told = Rc::clone(&told);
        move |milliseconds| told.borrow_mut().push(milliseconds)
    });
    let text = "{plugin: Quota, cases: [{name: a, args: 1, steps: [{now: 1970-01-01T01:00:00.5+01:00}, {}]}]}";
    let results = cases(text).run(&Factory, &host);
    assert_eq!((results[0].differences.len(), told.borrow().as_slice()), (0, [500].as_slice()));
    let wrong = serde_saphyr::from_str::<CaseFile>(&text.replace("1970-01-01T01:00:00.5+01:00", "noon"));
    let error = wrong.expect_err("no time").to_string();
    assert!(error.contains("invalid time \"noon\": expected a time such as 2026-11-23T09:00:00Z"), "{error}");
}

#[test]
fn a_case_is_a_situation_in_which_properties_are_checked() {
    let file = cases(CASES);
    let names: Vec<String> = Situation::of_cases(&file).filter_map(|it| it.name().map(str::to_owned)).collect();
    assert_eq!(names.len(), 4);
    for situation in Situation::of_cases(&file) {
        for check in conformance(&Factory, &situation, 1).expect("accepted arguments") {
            // The plugin counts nothing, because the check does not call PostBind and Reserve.
            assert!(!matches!(check.outcome, CheckOutcome::Failed(_)), "{check:?}");
        }
    }
}

/// The error when a file with this step is read.
fn refusal(step: &str) -> String {
    let text = format!("plugin: Quota\ncases:\n- name: a\n  steps:\n  - {step}\n");
    CaseFile::from_text(Path::new("cases.yaml"), &text).err().map(|error| error.to_string()).unwrap_or_default()
}

#[track_caller]
fn is_refused(step: &str, field: &str, reason: &str) {
    let told = refusal(step);
    let first = told.lines().next().unwrap_or_default();
    assert!(first.starts_with(&format!("cases.yaml: cases[0].steps[0].{field}: ")), "{told}");
    assert!(first.contains("line 5 column ") && first.contains(reason), "{told}");
}

#[test]
fn keys_of_effects_that_there_are_not_are_refused() {
    let effect = |effect: &str| format!("expect: {{preBind: {{effects: [{effect}]}}}}");
    is_refused(
        &effect("{wait: {objects: [], timeout: 5, message: a}}"),
        "expect.preBind.effects[0].wait.timeout",
        "unknown field `timeout`, expected one of objects, timeoutMilliseconds, message",
    );
    let names = "expected one of bind, patch, create, delete, evict, allow, reject, activate, nominate, event, wait";
    is_refused(&effect("{waits: {objects: []}}"), "expect.preBind.effects[0]", &format!("`waits`, {names}"));
    is_refused(&effect("binds"), "expect.preBind.effects[0]", &format!("`binds`, {names}"));
    is_refused(
        &effect("{patch: {kind: v1/Pod, name: a, body: {}}}"),
        "expect.preBind.effects[0].patch.body",
        "unknown field `body`, expected one of kind, namespace, name, subresource, patch, patchType",
    );
}

#[test]
fn codes_that_there_are_not_are_refused() {
    let codes = "`Unresolvable`, expected one of Success, Error, Unschedulable, UnschedulableAndUnresolvable, Wait, Skip, \
                 Pending";
    is_refused("expect: {preFilter: {code: Unresolvable}}", "expect.preFilter.code", codes);
    is_refused("expect: {rejected: {a: {code: Unresolvable}}}", "expect.rejected.a.code", codes);
    is_refused("expect: {permit: {code: Unresolvable}}", "expect.permit.code", codes);
}

#[test]
fn actions_that_there_are_not_are_refused() {
    let reason = "unknown action \"UpdatePodLabels\" (did you mean \"UpdatePodLabel\"?): expected one of Add, Delete, ";
    is_refused("event: {resource: Pod, actions: [Add, UpdatePodLabels]}", "event.actions[1]", reason);
}

#[test]
fn keys_that_no_pod_and_no_node_has_are_refused() {
    let told = |step: &str| refusal(step).replace("cases.yaml:5: cases[0].steps[0].", "");
    let name = told("pod: {metadata: {nam: web}}");
    let meant = "pod.metadata: unknown field `nam` (did you mean `name`?), expected one of name, generateName, ";
    assert!(name.starts_with(meant), "{name}");
    let spec = "unknown field `spc` (did you mean `spec`?), expected one of apiVersion, kind, metadata, spec, status";
    assert_eq!(told("nodes: [{metadata: {name: a}}, {spc: {}}]"), format!("nodes[1]: {spec}"));
    assert_eq!(told("queue: [{pod: {spc: {}}}]"), format!("queue[0].pod: {spec}"));
    assert_eq!(told("event: {resource: Node, actions: [Add], new: {spc: {}}}"), format!("event.new: {spec}"));
    let object = told("objects: [{apiVersion: v1, kind: Service, metadata: {nam: a}, whatever: 1}]");
    assert!(object.starts_with("objects[0].metadata: unknown field `nam`"), "{object}");
    // If a key is on several lines, the error names no line, because a wrong line would mislead.
    let twice = refusal("nodes: [{metadata: {lables: {}}},\n      {metadata: {lables: {}}}]");
    let place = "cases.yaml: cases[0].steps[0].nodes[0].metadata: unknown field `lables` (did you mean `labels`?), ";
    assert!(twice.starts_with(place), "{twice}");
}

/// If a key is on one line, the error names the line.
#[test]
fn an_object_of_another_form_is_refused_with_its_place() {
    let told = |step: &str| refusal(step).lines().next().unwrap_or_default().to_owned();
    let pod = "{metadata: {name: web}, spec: {nodeName: a, containers: {name: main}}}";
    let reason = "spec.containers: invalid type: map";
    let one = told(&format!("pods: [{pod}]"));
    assert!(one.starts_with(&format!("cases.yaml:5: cases[0].steps[0].pods[0] (web): {reason}")), "{one}");
    let queued = told(&format!("queue: [{{pod: {pod}}}]"));
    assert!(queued.starts_with(&format!("cases.yaml:5: cases[0].steps[0].queue[0].pod (web): {reason}")), "{queued}");
    let label = told("event: {resource: Node, actions: [Add], new: {metadata: {name: a, labels: {quiet: true}}}}");
    let place = "cases.yaml:5: cases[0].steps[0].event.new (a): metadata.labels.quiet: invalid type: boolean `true`";
    assert!(label.starts_with(place) && label.ends_with("quote the string)"), "{label}");
}

/// The pod would be left out without a message.
#[test]
fn a_pod_on_no_node_is_refused() {
    let told = |spec: &str| refusal(&format!("pods: [{{metadata: {{name: r1}}{spec}}}]"));
    let place = "cases[0].steps[0].pods[0]: pod r1 has no spec.nodeName";
    let fix = "write the node that the pod is on, or write the pod under `pod`";
    assert_eq!(told(""), format!("cases.yaml: {place}: {fix}"));
    assert_eq!(told(", spec: {nodeName: ''}"), format!("cases.yaml: {place}: {fix}"));
    let meant = "(did you mean `nodeName` by `nodename`?)";
    assert_eq!(told(", spec: {nodename: a}"), format!("cases.yaml:5: {place} {meant}: {fix}"));
    assert_eq!(told(", spec: {nodeName: a}"), "");
}

/// The parser does not know the key at this place, but only the line.
#[test]
fn a_wrong_indent_is_refused_with_its_line() {
    let told = refusal("nodes: []\n   expect: {}");
    assert!(told.starts_with("cases.yaml: ") && !told.contains("?: ") && told.contains("line "), "{told}");
}

/// Each effect is written as the table of the guide shows.
#[test]
fn effects_are_written_as_the_guide_shows() {
    let guide = include_str!("../../../docs/src/testing.md");
    let shown = guide.lines().filter_map(|line| line.strip_prefix("| `effects: [")?.split_once("]` |"));
    let effects: Vec<CaseEffect> = shown
        .map(|(effect, _)| serde_saphyr::from_str(effect).unwrap_or_else(|error| panic!("{effect}: {error}")))
        .collect();
    let names: std::collections::BTreeSet<String> = effects
        .iter()
        .map(|effect| match serde_json::to_value(effect).expect("JSON") {
            serde_json::Value::String(name) => name,
            other => other.as_object().and_then(|fields| fields.keys().next().cloned()).expect("a name"),
        })
        .collect();
    let all =
        ["activate", "allow", "bind", "create", "delete", "event", "evict", "nominate", "patch", "reject", "wait"];
    assert!(names.iter().map(String::as_str).eq(all), "{names:?}");
}

#[test]
fn the_cases_of_the_examples_and_templates_are_read() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut n_read = 0;
    for folder in ["plugins/examples", "sdks", "sdks/templates"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            for file in [path.join("cases.yaml"), path.join("template/cases.yaml"), path] {
                if file.is_file() && file.to_string_lossy().ends_with("cases.yaml") {
                    let text = std::fs::read_to_string(&file).expect("a file").replace("{{name}}", "Zone");
                    CaseFile::from_text(&file, &text).unwrap_or_else(|error| panic!("{error}"));
                    n_read += 1;
                }
            }
        }
    }
    assert!(n_read > 10, "{n_read} files");
}
