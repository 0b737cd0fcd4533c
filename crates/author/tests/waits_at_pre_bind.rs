//! A pod waits at PreBind in a case, until the plugin is asked again and lets it be bound, or its wait times out.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    Bind, BuildError, Call, Configure, ConfigureError, Effect, Grants, Manifest, Needs, ObjectKind, ObjectRef,
    Permission, Permit, PermitVerdict, Plugin, PluginFactory, PluginType as _, PluginVersion, Points, PreBind, Reserve,
    Status,
};
use berth_model::NodeIdx;

/// At PreBind, holds a pod of priority 0 until a ConfigMap or the pod itself changes, lets a pod of priority 1 continue
/// with an event, and fails for others. At Permit, holds a pod of priority 5 until it changes.
#[derive(Debug, Default)]
struct Prepares {
    n_reserved: u32,
}

berth_framework::plugin!(Prepares: Reserve, Permit, PreBind, Bind);

impl Configure for Prepares {
    fn describe() -> Manifest {
        let map = ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        let needs = Needs { objects: vec![map], ..Needs::default() };
        Manifest { name: "Prepares".to_owned(), needs, ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self::default())
    }
}

impl Reserve for Prepares {
    fn reserve(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Status {
        self.n_reserved += 1;
        Status::success()
    }

    fn unreserve(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.n_reserved -= 1;
        Vec::new()
    }
}

fn wait(kinds: &[&str], call: &Call<'_>) -> Effect {
    let object = |kind: &&str| {
        let name = if *kind == "v1/Pod" { call.pod.name.to_string() } else { "rules".to_owned() };
        ObjectRef { kind: (*kind).to_owned(), namespace: "team".to_owned(), name }
    };
    let objects = kinds.iter().map(object).collect();
    Effect::Wait { objects, timeout_ms: 60_000, timeout_message: "late".to_owned() }
}

impl Permit for Prepares {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        match call.pod.priority {
            5 => (PermitVerdict::Wait(30_000), vec![wait(&["v1/Pod"], call)]),
            _ => (PermitVerdict::Allow, Vec::new()),
        }
    }
}

impl PreBind for Prepares {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        match call.pod.priority {
            0 => Ok(vec![wait(&["v1/ConfigMap", "v1/Pod"], call)]),
            1 => {
                let [reason, action] = ["Asked", "Binding"].map(str::to_owned);
                Ok(vec![Effect::Event {
                    warning: false,
                    reason,
                    action,
                    note: format!("{} reserved", self.n_reserved),
                }])
            }
            _ => Err(Status::error("it is lost")),
        }
    }
}

impl Bind for Prepares {
    fn bind(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        Ok(vec![Effect::Bind])
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Prepares::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Prepares::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Prepares::configure(args)?))
    }
}

const OWN: &str = "{kind: v1/Pod, namespace: team, name: web}";
const MAP: &str = "{kind: v1/ConfigMap, namespace: team, name: rules}";

/// The effect `wait` for these objects.
fn waits(objects: &str) -> String {
    format!("{{wait: {{objects: [{objects}], timeoutMilliseconds: 60000, message: late}}}}")
}

#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences_of(steps: &str, grants: Grants) -> Vec<String> {
    let text = format!(
        "
plugin: Prepares
cases:
- name: a pod that waits
  pod: {{metadata: {{name: web, namespace: team}}}}
  steps:
{steps}"
    );
    let file: CaseFile = serde_saphyr::from_str(&text).expect("cases");
    let results = file.run(&Factory, &CaseHost::new(grants, |_| {}));
    results.into_iter().flat_map(|result| result.differences).collect()
}

/// A step in which the pod waits at PreBind.
fn begins() -> String {
    let wait = waits(&format!("{MAP}, {OWN}"));
    format!(
        "  - now: 2026-11-23T09:00:00Z
    nodes: [{{metadata: {{name: a}}}}]
    waitsOn: a
    expect: {{preBind: {{effects: [{wait}]}}}}
"
    )
}

/// The differences of a case with a pod that waits, and these steps after it.
fn differences(steps: &str) -> Vec<String> {
    differences_of(&(begins() + steps), Grants::ALL)
}

/// A step in which the pod that waits changes.
fn changed(priority: u8, expect: &str) -> String {
    format!(
        "  - pod: {{metadata: {{name: web, namespace: team}}, spec: {{priority: {priority}}}}}\n    expect: {expect}\n"
    )
}

/// An answer with the number of reserved pods.
fn told(n_reserved: u32) -> String {
    let event = format!("{{event: {{warning: false, reason: Asked, action: Binding, note: {n_reserved} reserved}}}}");
    format!("preBind: {{effects: [{event}]}}, bind: {{effects: [bind]}}")
}

/// A step that shows how many pods are reserved, with this one.
fn counted(n_reserved: u32) -> String {
    format!(
        "  - pod: {{metadata: {{name: other, namespace: team}}, spec: {{priority: 1}}}}\n    bindTo: a\n    expect: \
         {{{}}}\n",
        told(n_reserved)
    )
}

#[test]
fn a_pod_that_changes_is_bound() {
    let bound = format!("{{released: {{team/web: {{{}}}}}}}", told(1));
    assert_eq!(differences(&changed(1, &bound)), Vec::<String>::new());
    let unexpected = differences(&changed(1, "{}")).concat();
    assert!(
        unexpected.starts_with("step 2: released pod team/web: {\"bind\":{\"effects\":[\"bind\"]},\"preBind\":"),
        "{unexpected}"
    );
    let held = "step 2: released pod team/web: does not go on, or has nothing to do, expected {}";
    assert_eq!(differences(&changed(0, "{released: {team/web: {}}}")), [held]);
}

/// The pod's place is free afterwards.
#[test]
fn a_pod_that_changes_fails() {
    let lost = "{released: {team/web: {preBind: {code: Error, reasons: [it is lost]}}}}";
    assert_eq!(differences(&(changed(3, lost) + &counted(1))), Vec::<String>::new());
}

/// The plugin gives the same answer, so the pod waits until 60 seconds after the first wait. After a change to an
/// object that the plugin did not name, the plugin is not called.
#[test]
fn an_object_that_changes_asks_again() {
    let map = |name: &str, now: &str| {
        let object = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: team, name: {name}}}}}");
        format!("  - now: 2026-11-23T{now}Z\n    objects: [{object}]\n")
    };
    let steps = map("rules", "09:00:10") + &map("others", "09:00:59") + &counted(2);
    assert_eq!(differences(&steps), Vec::<String>::new());
    let late = map("rules", "09:00:59") + "  - now: 2026-11-23T09:01:00Z\n" + &counted(1);
    assert_eq!(differences(&late), Vec::<String>::new());
    for gone in ["gonePods: [team/web]", "gone: [a]\n    nodes: [{metadata: {name: a}}]"] {
        assert_eq!(differences(&format!("  - {gone}\n{}", counted(1))), Vec::<String>::new(), "{gone}");
    }
}

#[test]
fn a_pod_that_permit_lets_go_on_waits_at_pre_bind() {
    let begins = format!(
        "  - now: 2026-11-23T09:00:00Z
    nodes: [{{metadata: {{name: a}}}}]
    pod: {{metadata: {{name: web, namespace: team}}, spec: {{priority: 5}}}}
    waitsOn: a
    expect: {{permit: {{waitMilliseconds: 30000, effects: [{}]}}}}
",
        waits(OWN)
    );
    let now_at_pre_bind =
        format!("{{released: {{team/web: {{preBind: {{effects: [{}]}}}}}}}}", waits(&format!("{MAP}, {OWN}")));
    let bound = format!("{{released: {{team/web: {{{}}}}}}}", told(1));
    // The time of Permit no longer counts.
    let later = "  - now: 2026-11-23T09:00:45Z\n";
    let steps = begins + &changed(0, &now_at_pre_bind) + later + &changed(1, &bound);
    assert_eq!(differences_of(&steps, Grants::ALL), Vec::<String>::new());
}

/// With `bindTo` the wait counts as over.
#[test]
fn a_pod_that_is_bound_at_once_does_not_wait() {
    let at_once = begins().replace("waitsOn", "bindTo").replace("]}}\n", "]}, bind: {effects: [bind]}}\n");
    assert_eq!(differences_of(&(at_once + &counted(2)), Grants::ALL), Vec::<String>::new());
}

#[test]
fn a_plugin_that_holds_the_pod_nowhere_is_told() {
    let text = changed(1, "{}").replace("    expect", "    nodes: [{metadata: {name: a}}]\n    waitsOn: a\n    expect");
    let told = differences_of(&text, Grants::ALL).concat();
    let start = "waitsOn: the plugin does not hold the pod at Permit or PreBind: PreBind answers {\"effects\":";
    assert!(told.starts_with(start) && told.ends_with("; write bindTo instead of waitsOn"), "{told}");
}

/// As in the scheduler, an effect that is not granted is not carried out, so nothing asks again.
#[test]
fn a_wait_that_is_not_granted_is_not_asked_again() {
    let told = differences_of(&(begins() + &changed(1, "{}")), Grants::new([Permission::Event, Permission::Bind], []));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("step 1: PreBind: the plugin asks for wait, which `grants`"), "{told:?}");
}
