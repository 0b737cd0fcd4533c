//! A plugin that holds a pod at Permit is asked again when an object that it waits for changes.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, Effect, Grants, Manifest, Needs, ObjectKind, ObjectRef, Permission,
    Permit, PermitVerdict, Plugin, PluginFactory, PluginType as _, PluginVersion, Points, PreBind, Reserve, Status,
};
use berth_model::NodeIdx;

/// Holds a pod of priority 0 until a ConfigMap or the pod itself changes, lets a pod of priority 1 continue, and
/// rejects others. A pod of priority 2 continues with an event.
#[derive(Debug, Default)]
struct Holds {
    n_reserved: u32,
}

berth_framework::plugin!(Holds: Reserve, Permit, PreBind);

impl Configure for Holds {
    fn describe() -> Manifest {
        let map = ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        let needs = Needs { objects: vec![map], ..Needs::default() };
        Manifest { name: "Holds".to_owned(), needs, ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self::default())
    }
}

impl Reserve for Holds {
    fn reserve(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Status {
        self.n_reserved += 1;
        Status::success()
    }

    fn unreserve(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.n_reserved -= 1;
        Vec::new()
    }
}

fn event(note: String) -> Effect {
    let [reason, action] = ["Asked", "Binding"].map(str::to_owned);
    Effect::Event { warning: false, reason, action, note }
}

impl Permit for Holds {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let object = |kind: &str, name: &str| ObjectRef {
            kind: kind.to_owned(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
        };
        match call.pod.priority {
            0 => {
                let objects = vec![object("v1/ConfigMap", "rules"), object("v1/Pod", &call.pod.name)];
                let wait = Effect::Wait { objects, timeout_ms: 60_000, timeout_message: "late".to_owned() };
                (PermitVerdict::Wait(90_000), vec![wait])
            }
            1 | 2 => (PermitVerdict::Allow, Vec::new()),
            _ => (PermitVerdict::Deny(Status::unschedulable("not today")), Vec::new()),
        }
    }
}

impl PreBind for Holds {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let is_told = call.pod.priority == 2;
        Ok(is_told.then(|| event(format!("{} reserved", self.n_reserved))).into_iter().collect())
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Holds::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Holds::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Holds::configure(args)?))
    }
}

const WAIT: &str = "{wait: {objects: [{kind: v1/ConfigMap, namespace: team, name: rules}, {kind: v1/Pod, namespace: \
                    team, name: web}], timeoutMilliseconds: 60000, message: late}}";

/// The differences of a case with a pod that waits, and these steps after it.
#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences_with(steps: &str, grants: Grants) -> Vec<String> {
    let text = format!(
        "
plugin: Holds
cases:
- name: a pod that waits
  pod: {{metadata: {{name: web, namespace: team}}}}
  steps:
  - now: 2026-11-23T09:00:00Z
    nodes: [{{metadata: {{name: a}}}}]
    waitsOn: a
    expect: {{permit: {{waitMilliseconds: 90000, effects: [{WAIT}]}}}}
{steps}"
    );
    let file: CaseFile = serde_saphyr::from_str(&text).expect("cases");
    let results = file.run(&Factory, &CaseHost::new(grants, |_| {}));
    results.into_iter().flat_map(|result| result.differences).collect()
}

fn differences(steps: &str) -> Vec<String> {
    differences_with(steps, Grants::ALL)
}

fn changed(priority: u8, expect: &str) -> String {
    format!(
        "  - pod: {{metadata: {{name: web, namespace: team}}, spec: {{priority: {priority}}}}}\n    expect: {expect}\n"
    )
}

#[test]
fn a_pod_that_changes_goes_on() {
    assert_eq!(differences(&changed(1, "{released: {team/web: {}}}")), Vec::<String>::new());
    let told = "{event: {warning: false, reason: Asked, action: Binding, note: 1 reserved}}";
    let pre_bind = format!("{{released: {{team/web: {{preBind: {{effects: [{told}]}}}}}}}}");
    assert_eq!(differences(&changed(2, &pre_bind)), Vec::<String>::new());
    let unexpected = "step 2: released pod team/web: {}, expected does not go on, or has nothing to do";
    assert_eq!(differences(&changed(1, "{}")), [unexpected]);
    let held = "step 2: released pod team/web: does not go on, or has nothing to do, expected {}";
    assert_eq!(differences(&changed(0, "{released: {team/web: {}}}")), [held]);
}

/// The pod's place is free afterwards.
#[test]
fn a_pod_that_changes_is_turned_down() {
    let denied = "{released: {team/web: {permit: {code: Unschedulable, reasons: [not today]}}}}";
    let after = "  - pod: {metadata: {name: other, namespace: team}, spec: {priority: 2}}\n    bindTo: a\n    expect: \
                 {preBind: {effects: [{event: {warning: false, reason: Asked, action: Binding, note: 1 reserved}}]}}\n";
    assert_eq!(differences(&(changed(3, denied) + after)), Vec::<String>::new());
}

/// A change to an object that the plugin did not name does not lead to a question.
#[test]
fn an_object_that_changes_asks_again() {
    let map = |name: &str| {
        format!("  - objects: [{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: team, name: {name}}}}}]\n")
    };
    assert_eq!(differences(&(map("rules") + &map("others"))), Vec::<String>::new());
    // The plugin gives the same answer, so the pod waits until 60 seconds after the first wait.
    let late = "  - now: 2026-11-23T09:00:59Z\n    objects: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: \
                team, name: rules}}]\n  - now: 2026-11-23T09:01:00Z\n    pod: {metadata: {name: other, namespace: \
                team}, spec: {priority: 2}}\n    bindTo: a\n    expect: {preBind: {effects: [{event: {warning: false, \
                reason: Asked, action: Binding, note: 1 reserved}}]}}\n";
    assert_eq!(differences(late), Vec::<String>::new());
}

#[test]
fn nothing_before_permit_is_asked_about_a_pod_that_waits() {
    let told = differences("  - expect: {reserve: {code: Pending}}\n");
    let expected = "step 2: Reserve: not called, because the pod of the step waits at Permit or PreBind (`released` \
                    has the answers once its wait ends), expected {\"code\":\"Pending\"}";
    assert_eq!(told, [expected]);
}

/// An effect without a grant is not carried out, as in the scheduler, so the plugin is not asked again.
#[test]
fn a_wait_that_is_not_granted_is_not_asked_again() {
    let told = differences_with(&changed(1, "{}"), Grants::new([Permission::Event], []));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("step 1: Permit: the plugin asks for wait, which `grants`"), "{told:?}");
}
