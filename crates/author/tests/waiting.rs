//! Several pods wait at Permit at once in a case, until the plugin lets them go, rejects them, or their waits time out.

use std::{collections::BTreeSet, sync::LazyLock};

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    Bind, BuildError, Call, Configure, ConfigureError, Effect, Grants, Manifest, Permission, Permit, PermitVerdict,
    Plugin, PluginFactory, PluginType as _, PluginVersion, Points, PostBind, PreFilter, Reserve, Status,
};
use berth_model::NodeIdx;

/// Lets pods go once three of them have a node. A pod of priority 9 sends all back. Permit fails for priority 8.
#[derive(Debug, Default)]
struct Gang {
    reserved: BTreeSet<String>,
    bound: BTreeSet<String>,
}

berth_framework::plugin!(Gang: PreFilter, Reserve, Permit, Bind, PostBind);

impl Configure for Gang {
    fn describe() -> Manifest {
        Manifest { name: "Gang".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self::default())
    }
}

impl PreFilter for Gang {
    /// Rejects a pod of priority 5, with the plugin's state and the number of pods on nodes.
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if call.pod.priority != 5 {
            return Ok(None);
        }
        let Self { reserved, bound } = self;
        let n_pods = call.table.pods().n_pods();
        Err(Status::unschedulable(format!("reserved {reserved:?}, bound {bound:?}, {n_pods} on nodes")))
    }
}

impl Reserve for Gang {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        self.reserved.insert(call.pod.uid.to_string());
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.reserved.remove(call.pod.uid.as_str());
        Vec::new()
    }
}

impl Permit for Gang {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let own = call.pod.uid.to_string();
        let others = self.reserved.iter().filter(|uid| **uid != own).cloned();
        if call.pod.priority == 8 {
            return (PermitVerdict::Deny(Status::error("trapped in permit")), Vec::new());
        }
        if call.pod.priority == 9 {
            let effects = others.map(|uid| Effect::Reject { uid, reason: "no gang".to_owned() }).collect();
            return (PermitVerdict::Allow, effects);
        }
        if self.reserved.len() < 3 {
            return (PermitVerdict::Wait(60_000), Vec::new());
        }
        (PermitVerdict::Allow, others.map(|uid| Effect::Allow { uid }).collect())
    }
}

impl Bind for Gang {
    fn bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        if call.pod.priority == 7 { Err(Status::error("it is lost")) } else { Ok(vec![Effect::Bind]) }
    }
}

impl PostBind for Gang {
    fn post_bind(&mut self, call: &Call<'_>, _node: NodeIdx) {
        self.reserved.remove(call.pod.uid.as_str());
        self.bound.insert(call.pod.uid.to_string());
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Gang::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Gang::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Gang::configure(args)?))
    }
}

#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences(text: &str, grants: Grants) -> Vec<String> {
    let file: CaseFile = serde_saphyr::from_str(text).expect("cases");
    let results = file.run(&Factory, &CaseHost::new(grants, |_| {}));
    results.into_iter().flat_map(|result| result.differences).collect()
}

/// A case with two pods that wait, and these steps after them.
fn after_two(steps: &str) -> String {
    format!(
        "
plugin: Gang
cases:
- name: a gang
  steps:
  - now: 2026-11-23T09:00:00Z
    nodes: [{{metadata: {{name: a}}}}, {{metadata: {{name: b}}}}]
    pod: {{metadata: {{name: one, namespace: team}}}}
    waitsOn: a
    expect: {{permit: {{waitMilliseconds: 60000}}}}
  - pod: {{metadata: {{name: two, namespace: team}}, spec: {{priority: 7}}}}
    waitsOn: b
    expect: {{permit: {{waitMilliseconds: 60000}}}}
{steps}"
    )
}

/// A step that shows the state of the plugin.
fn shown(state: &str) -> String {
    format!(
        "  - pod: {{metadata: {{name: ask}}, spec: {{priority: 5}}}}\n    expect: {{preFilter: {{code: Unschedulable, \
         reasons: ['{state}']}}}}\n"
    )
}

/// The pod that cannot be bound leaves its node.
#[test]
fn pods_that_wait_go_on_when_a_later_pod_allows_them() {
    let waiting = shown("reserved {\"team/one\", \"team/two\"}, bound {}, 2 on nodes");
    let third = "  - pod: {metadata: {name: three, namespace: team}}
    bindTo: a
    expect:
      permit: {effects: [{allow: team/one}, {allow: team/two}]}
      bind: {effects: [bind]}
      released:
        team/one: {bind: {effects: [bind]}}
        team/two: {bind: {code: Error, reasons: [it is lost]}}
";
    let after = shown("reserved {}, bound {\"team/one\", \"team/three\"}, 2 on nodes");
    assert_eq!(differences(&after_two(&(waiting + third + &after)), Grants::ALL), Vec::<String>::new());
    let told = differences(&after_two(&third.replace("team/one: {bind: {effects: [bind]}}", "")), Grants::ALL);
    let line = "step 3: released pod team/one: {\"bind\":{\"effects\":[\"bind\"]}}, expected does not go on, or has \
                nothing to do";
    assert_eq!(told, [line]);
}

#[test]
fn pods_that_wait_are_sent_back() {
    let rejected = "  - pod: {metadata: {name: last}, spec: {priority: 9}}
    bindTo: a
    expect:
      permit: {effects: [{reject: {uid: team/one, reason: no gang}}, {reject: {uid: team/two, reason: no gang}}]}
      bind: {effects: [bind]}
";
    let after = shown("reserved {}, bound {\"/last\"}, 1 on nodes");
    assert_eq!(differences(&after_two(&(rejected.to_owned() + &after)), Grants::ALL), Vec::<String>::new());
    for (what, left) in [
        ("gonePods: [team/one]", "reserved {\"team/two\"}, bound {}, 1 on nodes"),
        ("gone: [b]", "reserved {\"team/one\"}, bound {}, 1 on nodes"),
        ("now: 2026-11-23T09:00:59Z", "reserved {\"team/one\", \"team/two\"}, bound {}, 2 on nodes"),
        ("now: 2026-11-23T09:01:00Z", "reserved {}, bound {}, 0 on nodes"),
    ] {
        let step = shown(left).replacen("  - ", &format!("  - {what}\n    "), 1);
        assert_eq!(differences(&after_two(&step), Grants::ALL), Vec::<String>::new(), "{what}");
    }
}

/// As in the scheduler, nothing happens to the pods that wait.
#[test]
fn pods_that_wait_stay_if_the_effect_is_not_granted() {
    let third = "  - pod: {metadata: {name: three, namespace: team}}
    bindTo: a
    expect: {permit: {effects: [{allow: team/one}, {allow: team/two}]}, bind: {effects: [bind]}}
";
    let after = shown("reserved {\"team/one\", \"team/two\"}, bound {\"team/three\"}, 3 on nodes");
    let told = differences(&after_two(&(third.to_owned() + &after)), Grants::new([Permission::Bind], []));
    let expected = "step 3: Permit: the plugin asks for waitingPods, which `grants` in this file does not have: write \
                    `grants: {effects: [bind, waitingPods]}` there, and in its entry of --plugin-config";
    assert_eq!(told, [expected]);
}

#[test]
fn a_wait_that_makes_no_sense_is_refused() {
    let again = "  - pod: {metadata: {name: one, namespace: team}}\n    bindTo: a\n";
    let told = "step 3: pod team/one has been waiting at Permit or PreBind since an earlier step: leave bindTo, \
                bindingFailsOn and waitsOn out, give this step another pod, or take the waiting pod away with gonePods";
    assert_eq!(differences(&after_two(again), Grants::ALL), [told]);
    let goes = "  - pod: {metadata: {name: last}, spec: {priority: 9}}\n    waitsOn: a\n";
    let told = "step 3: waitsOn: the plugin does not hold the pod at Permit or PreBind: Permit answers \
                {\"effects\":[{\"reject\":";
    let given = differences(&after_two(goes), Grants::ALL).concat();
    assert!(given.starts_with(told) && given.ends_with("; write bindTo instead of waitsOn"), "{given}");
}

/// The case is not the cause, so the message gives no advice about the case.
#[test]
fn a_fault_in_the_place_of_a_wait_is_told_as_one() {
    let fails = "  - pod: {metadata: {name: last}, spec: {priority: 8}}\n    waitsOn: a\n";
    let told =
        "step 3: waitsOn: the plugin does not hold the pod at Permit or PreBind: Permit fails: trapped in permit";
    assert_eq!(differences(&after_two(fails), Grants::ALL), [told]);
}

/// An author often leaves out `bindTo`.
#[test]
fn a_point_that_was_not_asked_says_why() {
    let one = |step: &str| {
        let text = format!(
            "plugin: Gang\ncases:\n- name: a\n  steps:\n  - nodes: [{{metadata: {{name: a}}}}]\n    pod: {{metadata: \
             {{name: one}}}}\n    {step}\n"
        );
        differences(&text, Grants::ALL).concat()
    };
    assert_eq!(
        one("expect: {permit: {waitMilliseconds: 60000}}"),
        "Permit: not called, because the step sends the pod to no node (add `bindTo: NODE`, `bindingFailsOn: NODE` \
         or `waitsOn: NODE`), expected {\"waitMilliseconds\":60000}"
    );
    assert_eq!(
        one(
            "bindTo: a\n    expect: {permit: {waitMilliseconds: 60000}, bind: {effects: [bind]}, reserve: {code: Pending}}"
        ),
        "Reserve: lets the pod continue and asks for no effects, expected {\"code\":\"Pending\"}"
    );
    assert_eq!(
        one(
            "bindingFailsOn: a\n    failsAt: PreBind\n    expect: {permit: {waitMilliseconds: 60000}, bind: {effects: [bind]}}"
        ),
        "Bind: not called, because with failsAt the attempt fails at an earlier point (name a later point in failsAt), \
         expected {\"effects\":[\"bind\"]}"
    );
    assert_eq!(
        one("expect: {preBind: {code: Skip}}"),
        "PreBind: the plugin does not implement this point, expected {\"code\":\"Skip\"}"
    );
    assert_eq!(
        one("expect: {hint: queue, order: [one]}"),
        "QueueSort: the plugin does not implement this point, expected oneQueueingHint: the plugin does not implement \
         this point, expected \"queue\""
    );
}
