//! Answers that the scheduler refuses or ignores, or that wait in vain, are differences even if a case expects them.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, Effect, Manifest, Needs, ObjectKind, ObjectRef, Permit, PermitVerdict,
    Plugin, PluginFactory, PluginType as _, PluginVersion, Points, PreBind, Status,
};
use berth_model::NodeIdx;

/// Answers at Permit and at PreBind according to the name of the pod.
#[derive(Debug, Default)]
struct Careless;

berth_framework::plugin!(Careless: Permit, PreBind);

impl Configure for Careless {
    fn describe() -> Manifest {
        let map = ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        let needs = Needs { objects: vec![map], ..Needs::default() };
        Manifest { name: "Careless".to_owned(), needs, ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self)
    }
}

fn wait(objects: &[&str]) -> Effect {
    let object =
        |kind: &&str| ObjectRef { kind: (*kind).to_owned(), namespace: "team".to_owned(), name: "other".to_owned() };
    let objects = objects.iter().map(object).collect();
    Effect::Wait { objects, timeout_ms: 60_000, timeout_message: "late".to_owned() }
}

fn event() -> Effect {
    let [reason, action, note] = ["Asked", "Binding", "it waits"].map(str::to_owned);
    Effect::Event { warning: false, reason, action, note }
}

impl Permit for Careless {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let hold = PermitVerdict::Wait(60_000);
        match &*call.pod.name {
            "waits-for-a-pod" => (hold, vec![wait(&["v1/Pod"])]),
            "misspelt" => (hold, vec![wait(&["v1/Configmap"])]),
            "waits-for-nothing" => (hold, vec![wait(&[])]),
            "does-not-hold" => (PermitVerdict::Allow, vec![wait(&["v1/ConfigMap"])]),
            "not-last" => (hold, vec![wait(&["v1/ConfigMap"]), event()]),
            "binds" => (hold, vec![Effect::Bind]),
            "denies" => (PermitVerdict::Deny(Status::unschedulable("no")), vec![wait(&["v1/Pod"])]),
            "right" => (hold, vec![event(), wait(&["v1/ConfigMap"])]),
            _ => (PermitVerdict::Allow, Vec::new()),
        }
    }
}

impl PreBind for Careless {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        Ok(match &*call.pod.name {
            "pre-bind-waits" => vec![wait(&["v1/Secret"])],
            "pre-bind-binds" => vec![Effect::Bind],
            "pre-bind-creates" => {
                let [kind, namespace] = ["v1/ConfigMap", "team"].map(str::to_owned);
                vec![Effect::Create { kind, namespace, body: b"[]".to_vec() }]
            }
            _ => Vec::new(),
        })
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Careless::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Careless::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Careless::configure(args)?))
    }
}

/// The differences of a case that expects exactly the plugin's answers, with these further steps.
#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences(pod: &str, target: &str, steps: &str) -> Vec<String> {
    let text = format!(
        "
plugin: Careless
cases:
- name: a
  pod: {{metadata: {{name: {pod}, namespace: team}}}}
  steps:
  - nodes: [{{metadata: {{name: a}}}}]
    pods: [{{metadata: {{name: other, namespace: team}}, spec: {{nodeName: a}}}}]
    {target}: a
{steps}"
    );
    let file: CaseFile = serde_saphyr::from_str(&text).expect("cases");
    let updated = file.updated(&Factory, &CaseHost::default()).expect("answers");
    let results = updated.run(&Factory, &CaseHost::default());
    results.into_iter().flat_map(|result| result.differences).collect()
}

#[test]
fn effects_that_the_scheduler_does_not_carry_out_are_differences() {
    for (pod, told) in [
        (
            "misspelt",
            "Permit: the plugin waits for v1/Configmap team/other, and its manifest's `objects` do not name \
             v1/Configmap, so it would never be asked again when that object changes: write v1/ConfigMap, which they name",
        ),
        (
            "waits-for-nothing",
            "Permit: the effect wait names no objects, so the plugin would never be asked again: name them, or leave the \
             effect out",
        ),
        (
            "does-not-hold",
            "Permit: the scheduler ignores the effect wait, because the plugin does not hold the pod: answer `wait` with \
             a time as well, or leave the effect out",
        ),
        (
            "not-last",
            "Permit: the effect wait is not the last effect, and the scheduler ignores changes of objects after it: put \
             it at the end",
        ),
        ("binds", "Permit: the scheduler refuses the effect bind outside of Bind: leave it out"),
        (
            "pre-bind-waits",
            "PreBind: the plugin waits for v1/Secret team/other, and its manifest's `objects` do not name v1/Secret, so it \
             would never be asked again when that object changes: add v1/Secret to `objects`, and grant \
             `reads: [v1/Secret]`",
        ),
        ("pre-bind-binds", "PreBind: the scheduler refuses the effect bind outside of Bind: leave it out"),
        ("pre-bind-creates", "PreBind: the new v1/ConfigMap is not a JSON object, so the scheduler cannot send it"),
    ] {
        assert_eq!(differences(pod, "bindTo", ""), [told], "{pod}");
    }
    for pod in ["denies", "right"] {
        assert_eq!(differences(pod, "bindTo", ""), Vec::<String>::new(), "{pod}");
    }
}

/// The scheduler would never release the pod, so the second step of the case releases nothing.
#[test]
fn a_wait_for_a_kind_that_the_manifest_does_not_name_is_in_vain() {
    let told = "step 1: Permit: the plugin waits for v1/Pod team/other, and its manifest's `objects` do not name v1/Pod, so \
                it would never be asked again when that object changes: add v1/Pod to `objects`, and grant \
                `reads: [v1/Pod]`";
    let gone = "  - gonePods: [team/other]\n";
    // If the plugin were asked again, it would also wait in vain in step 2.
    assert_eq!(differences("waits-for-a-pod", "waitsOn", gone), [told]);
}
