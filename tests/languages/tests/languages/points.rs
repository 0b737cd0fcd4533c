//! Tests of every extension point of the SDKs. The plugins (`points/`) have known answers, and are called as in the
//! scheduler.

use std::{collections::BTreeSet, fs, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use berth_author::PluginHarness;
use berth_framework::{
    Call, ClusterEvent, DryRun, Effect, EventSubject, Failure, HintCall, ObjectRef, PatchType, PermitVerdict, Plugin,
    PluginFactory as _, Point, PostFilterOutcome, PreFlight, Preemption, Reach, RejectedNodes, Removal, Status,
};
use berth_model::{ClusterTable, Node, NodeIdx, NodeSet, ObjectKey, Pod, api, pod::Owner};
use berth_test_languages::{Language, build, folder, load};
use berth_wasm_host::ComponentFactory;
use serde_json::{Value, json};

use crate::failed;

pub(crate) fn every_point_answers(language: Language) -> Result<()> {
    let plugin = folder("tests/languages/points").join(language.folder);
    let factory = load("Points", build(&plugin, "Points")?)?;
    ensure!(factory.points().iter().eq(Point::ALL), "exports {:?}", factory.points());
    let events = [
        ClusterEvent::new("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
        ClusterEvent::new("Pod", ClusterEvent::ALL),
        ClusterEvent::new("ConfigMap", ClusterEvent::ADD | ClusterEvent::UPDATE),
    ];
    ensure!(
        factory.manifest().events_to_register.as_deref() == Some(&events[..]),
        "{:?}",
        factory.manifest().events_to_register
    );
    let mut scene = Scene::new(&factory)?;
    queueing(&mut scene)?;
    hints(&mut scene)?;
    placing(&mut scene)?;
    post_filter(&mut scene)?;
    ensure!(factory.stats().errors(Point::PreFilter) == 1 && factory.stats().errors(Point::PostFilter) == 1);
    binding(&mut scene)?;
    words(&mut scene)?;
    state(&mut scene, &factory)?;
    if fs::read_to_string(plugin.join("plugin.wit"))?.contains("/reuse@") {
        reaches(&mut scene)?;
    }
    some_interfaces_alone(language)
}

/// The scheduler asks about the second of two pods that differ only in their names.
fn reaches(scene: &mut Scene) -> Result<()> {
    let nothing = [Reach::Nothing, Reach::NothingYet, Reach::NothingAnywhere];
    let answers = [Reach::Cluster, Reach::Row { version: 3 }].into_iter().chain(nothing);
    for (priority, expected) in (7..).zip(answers) {
        let mut reach = Reach::Cluster;
        for name in ["first", "second"] {
            let pod = Pod { priority, ..scene.pod(name)? };
            reach = scene.call(&pod, |plugin, call| Ok(plugin.reach(call)))?;
        }
        ensure!(reach == expected, "{reach:?}, expected {expected:?}");
    }
    Ok(())
}

/// A plugin may lack every part that it does not export, even the replica and cycles.
fn some_interfaces_alone(language: Language) -> Result<()> {
    let sdk = folder("sdks").join(language.folder);
    for (exports, points) in [
        (&["pre-enqueue"][..], &[Point::PreEnqueue][..]),
        (&["cycle", "reserve", "permit"][..], &[Point::Reserve, Point::Permit][..]),
    ] {
        let directory = tempfile::tempdir()?;
        let plugin = directory.path().join("points");
        fs::create_dir(&plugin)?;
        for entry in fs::read_dir(folder("tests/languages/points").join(language.folder))? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, plugin.join(name))?;
            }
        }
        let repository = folder(".").canonicalize()?;
        for name in ["build.sh", "go.mod"] {
            let file = plugin.join(name);
            if let Ok(text) = fs::read_to_string(&file) {
                let text = text.replace("$here/../../../..", &repository.display().to_string());
                fs::write(file, text.replace("../../../../sdks/go", &format!("{}/sdks/go", repository.display())))?;
            }
        }
        // A plugin without a replica asks for no columns.
        let source = ["plugin.py", "plugin.js", "plugin.go", "plugin.c"].map(|name| plugin.join(name));
        let source = source.iter().find(|path| path.is_file()).context("no source")?;
        let text = fs::read_to_string(source)?;
        fs::write(source, without_replica(&text))?;
        let exports: String =
            exports.iter().map(|name| format!("    export berth:scheduler/{name}@0.2.0;\n")).collect();
        let world = "package example:points;\n\nworld plugin {\n    import berth:scheduler/host@0.2.0;\n";
        let world = format!("{world}    export berth:scheduler/lifecycle@0.2.0;\n{exports}}}\n");
        fs::write(plugin.join("plugin.wit"), world)?;
        let factory = load("Points", build(&plugin, "Points").with_context(|| sdk.display().to_string())?)?;
        ensure!(factory.points().iter().eq(points.iter().copied()), "exports {:?}", factory.points());
        let mut scene = Scene::new(&factory)?;
        if points == [Point::PreEnqueue] {
            queueing_gates(&mut scene)?;
        } else {
            let refused = scene.pod("refused")?;
            let status =
                scene.call(&refused, |plugin, call| Ok(plugin.reserve().map(|it| it.reserve(call, NodeIdx(0)))))?;
            ensure!(status == Some(Status::unschedulable("no room on ")), "{status:?}");
        }
    }
    Ok(())
}

fn without_replica(source: &str) -> String {
    let asks = ["columns", "Columns", "pods", "Pods", "objects", "Objects", ".columns", ".pods", ".objects"];
    let is_kept = |line: &&str| {
        let line = line.trim_start();
        !asks.iter().any(|word| {
            line.strip_prefix(word).is_some_and(|rest| [" = ", ": "].iter().any(|sign| rest.starts_with(sign)))
        })
    };
    let kept: Vec<&str> = source.lines().filter(is_kept).collect();
    let text = kept.join("\n") + "\n";
    text.replace("Columns: []berth.Column{berth.Name}, Pods: true,", "")
}

/// Nodes a, b and c, a pod on c, a ConfigMap, and the plugin.
struct Scene {
    harness: PluginHarness,
}

impl Scene {
    fn new(factory: &ComponentFactory) -> Result<Self> {
        let mut harness = PluginHarness::new(factory, "null").map_err(anyhow::Error::msg)?;
        for name in ["a", "b", "c"] {
            harness.set_node(&serde_json::from_value(json!({"metadata": {"name": name}}))?);
        }
        let placed =
            json!({"metadata": {"name": "placed", "namespace": "default", "uid": "u-p"}, "spec": {"nodeName": "c"}});
        harness.set_pod(&serde_json::from_value(placed)?).map_err(anyhow::Error::msg)?;
        let data = json!({"half": 0.5, "größe": {"of": "klein"}, "rate": null});
        harness.set_object(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "default"}, "data": data,
        }));
        harness.sync().map_err(failed)?;
        Ok(Self { harness })
    }

    fn pod(&mut self, name: &str) -> Result<Pod> {
        let pod: api::Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"priority": 7},
        }))?;
        Ok(self.harness.intern(&pod))
    }

    /// Makes a call in its own cycle.
    fn call<R>(&mut self, pod: &Pod, ask: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> Result<R>) -> Result<R> {
        self.harness.sync().map_err(failed)?;
        self.harness.in_cycle(pod, ask)
    }

    fn row(&mut self, name: &str) -> Result<NodeIdx> {
        self.harness.cluster().node(name).context("no such node")
    }
}

/// The accessor of a point that the plugin exports.
macro_rules! point {
    ($plugin:expr, $point:ident) => {
        $plugin.$point().context(concat!("no ", stringify!($point)))?
    };
}

fn queueing_gates(scene: &mut Scene) -> Result<()> {
    let (gated, free) = (scene.pod("gated")?, scene.pod("free")?);
    let point = point!(scene.harness.plugin(), pre_enqueue);
    let status = point.pre_enqueue(&gated, &ClusterTable::default());
    ensure!((status.code.as_str(), status.message().as_str()) == ("Pending", "gated"), "{status:?}");
    ensure!(point.pre_enqueue(&free, &ClusterTable::default()).is_success());
    let [api_version, kind, name, uid] = ["apps/v1", "ReplicaSet", "web", "uid-web"].map(Arc::from);
    let owned = Pod { owner: Some(Owner { api_version, kind, name, uid }), ..free };
    let point = point!(scene.harness.plugin(), pre_enqueue);
    let status = point.pre_enqueue(&owned, &ClusterTable::default());
    ensure!((status.code.as_str(), status.message().as_str()) == ("Pending", "owned by web"), "{status:?}");
    Ok(())
}

fn queueing(scene: &mut Scene) -> Result<()> {
    queueing_gates(scene)?;
    let free = scene.pod("free")?;
    // The signature of a plugin with `reuse` holds for all pods that differ only in their names.
    let twin = Pod { priority: 6, ..scene.pod("twin-1")? };
    let key = point!(scene.harness.plugin(), queue_sort).sort_key(&free, 1_700_000_000_123);
    ensure!(key == (-7, 1_700_000_000_123), "{key:?}");
    let signatures = [&free, &twin].map(|pod| scene.harness.plugin().sign().and_then(|point| point.sign(pod)));
    ensure!(signatures == [None, Some("twin".to_owned())], "{signatures:?}");
    Ok(())
}

/// An event leads to another attempt if its object says "yes" afterwards and did not before.
fn hints(scene: &mut Scene) -> Result<()> {
    let free = scene.pod("free")?;
    let [pod_yes, pod_no] = both(|word| said_pod(scene, word))?;
    let [node_yes, node_no] = both(|word| said_node(scene, word))?;
    let [yes, no] = both(|word| Ok(json!({"data": {"go": word}}).to_string().into_bytes()))?;
    let notes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "default"}});
    let key = &ObjectKey::of(&notes);
    let hidden = ["Pod", "Node", "ConfigMap"].map(|resource| (resource, EventSubject::Hidden, false));
    let mut cases = Vec::from(hidden);
    // Whether the object says yes before and after the event; `None` if the object does not exist.
    for (old, new, expected) in [
        (None, Some(true), true),
        (Some(false), Some(true), true),
        (Some(true), Some(true), false),
        (Some(true), Some(false), false),
        (Some(true), None, false),
    ] {
        let [old_pod, new_pod] = [old, new].map(|it| it.map(|yes| if yes { &pod_yes } else { &pod_no }));
        let [old_node, new_node] = [old, new].map(|it| it.map(|yes| if yes { &node_yes } else { &node_no }));
        let [old_json, new_json] = [old, new].map(|it| it.map(|is_yes| if is_yes { &yes[..] } else { &no[..] }));
        cases.extend([
            ("Pod", EventSubject::Pod { old: old_pod, new: new_pod }, expected),
            ("Node", EventSubject::Node { old: old_node, new: new_node }, expected),
            ("ConfigMap", EventSubject::Object { key, old: old_json, new: new_json }, expected),
            ("Secret", EventSubject::Object { key, old: old_json, new: new_json }, false),
        ]);
    }
    scene.call(&free, |plugin, call| {
        let hints = point!(plugin, queueing_hint);
        for (resource, subject, expected) in cases {
            // Plugins in Python and JavaScript also read the names of actions.
            let actions = if resource == "ConfigMap" { ClusterEvent::UPDATE } else { ClusterEvent::ADD };
            let event = &ClusterEvent::new(resource, actions);
            let hint = hints.queueing_hint(&HintCall { table: call.table, pod: &free, event, subject });
            ensure!(hint == expected, "{resource} {subject:?}: {hint}");
        }
        Ok(())
    })
}

fn both<T>(mut make: impl FnMut(&str) -> Result<T>) -> Result<[T; 2]> {
    Ok([make("yes")?, make("no")?])
}

fn said_pod(scene: &mut Scene, word: &str) -> Result<Pod> {
    let pod = json!({"metadata": {"name": "other", "namespace": "default", "labels": {"go": word}}});
    Ok(scene.harness.intern(&serde_json::from_value(pod)?))
}

/// A node outside any table, with all data that a plugin sees of a node.
fn said_node(scene: &mut Scene, word: &str) -> Result<Node> {
    let node = json!({
        "metadata": {"name": "d", "labels": {"go": word}},
        "spec": {
            "unschedulable": true,
            "taints": [{"key": "example.com/busy", "value": "very", "effect": "NoExecute"}],
        },
        "status": {
            "allocatable": {"cpu": "4", "pods": "110", "example.com/gpu": "2"},
            "declaredFeatures": ["Naps"],
        },
    });
    Ok(scene.harness.cluster_mut().intern_node(&serde_json::from_value(node)?))
}

fn placing(scene: &mut Scene) -> Result<()> {
    for (name, expected) in [
        ("nowhere", Err(Status::unresolvable("no place"))),
        ("pinned", Ok(Some(vec!["a".to_owned()]))),
        ("skipped", Err(Status::skip())),
        ("broken", Err(Status::error("broken"))),
        ("free", Ok(None)),
    ] {
        let pod = scene.pod(name)?;
        let answer = scene.call(&pod, |plugin, call| Ok(point!(plugin, pre_filter).pre_filter(call)))?;
        ensure!(answer == expected, "{name}: {answer:?}");
    }
    let free = scene.pod("free")?;
    let answers = scene.harness.ask(&free).map_err(failed)?;
    ensure!(answers.rejected.keys().eq(["c"]), "{answers:?}");
    let scores: Vec<i64> = answers.scores.values().copied().collect();
    ensure!(scores == [1, 11], "{answers:?}");
    for (name, expected) in [("unscored", Err(Status::skip())), ("free", Ok(()))] {
        let pod = scene.pod(name)?;
        let nodes = scene.harness.cluster().table().nodes().clone();
        let answer = scene.call(&pod, |plugin, call| Ok(point!(plugin, pre_score).pre_score(call, &nodes)))?;
        ensure!(answer == expected, "{name}: {answer:?}");
    }
    Ok(())
}

/// The other plugins, which give the answer that the test sets, and remember the question. An extender reports five
/// more violations, or fails if `failure` has a reason.
struct Others(Status, Vec<Removal>);

impl DryRun for Others {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.1 = cases.to_vec();
        Ok(cases.iter().map(|_| self.0.clone()).collect())
    }

    fn ask_extenders(&mut self, preemptions: Vec<Preemption>) -> Result<Vec<Preemption>, Status> {
        if !self.0.is_success() {
            return Err(self.0.clone());
        }
        let more = |asked: Preemption| Preemption { n_violations: asked.n_violations + 5, ..asked };
        Ok(preemptions.into_iter().map(more).collect())
    }
}

fn post_filter(scene: &mut Scene) -> Result<()> {
    let (free, nominated, c) = (scene.pod("free")?, scene.pod("nominated")?, scene.row("c")?);
    let rejections = [RejectedNodes { status: Status::unschedulable("not c"), nodes: NodeSet::from_iter([c]) }];
    let nominated = [(c, nominated.into())];
    let mut ask = |absent: Option<&Status>, others: &mut Others| {
        let failure = Failure { rejections: &rejections, absent, nominated: &nominated };
        scene
            .call(&free, |plugin, call| point!(plugin, post_filter).post_filter(call, &failure, others).map_err(failed))
    };
    let mut others = Others(Status::success(), Vec::new());
    let outcome = ask(None, &mut others)?;
    ensure!(others.1.len() == 1 && others.1[0].node == c && others.1[0].pods.len() == 1, "asked {:?}", others.1);
    let effects = vec![
        Effect::Evict {
            namespace: "default".into(),
            name: "placed".into(),
            uid: "u-p".into(),
            message: "for free".into(),
        },
        Effect::Nominate { uid: "uid-nominated".into(), node: None },
    ];
    let expected = PostFilterOutcome { status: Status::success(), nominate: Some(Some(c)), effects };
    ensure!(outcome == expected, "{outcome:?}");

    let outcome = ask(None, &mut Others(Status::unresolvable("never"), Vec::new()))?;
    ensure!(outcome.status == Status::unresolvable("never") && outcome.nominate.is_none(), "{outcome:?}");
    let outcome = ask(Some(&Status::unresolvable("elsewhere")), &mut others)?;
    ensure!(outcome.status == Status::unschedulable("absent: elsewhere"), "{outcome:?}");
    extenders(scene, &rejections)
}

/// The extenders' agreement comes back with the nodes and pods of the question, and their failure is the answer.
fn extenders(scene: &mut Scene, rejections: &[RejectedNodes]) -> Result<()> {
    let extended = scene.pod("extended")?;
    let mut ask = |others: &mut Others| {
        let failure = Failure { rejections, absent: None, nominated: &[] };
        scene.call(&extended, |plugin, call| Ok(point!(plugin, post_filter).post_filter(call, &failure, others)))
    };
    let outcome = ask(&mut Others(Status::success(), Vec::new()))?.map_err(failed)?;
    let [Effect::Evict { uid, message, .. }] = &outcome.effects[..] else { anyhow::bail!("{outcome:?}") };
    ensure!(uid == "u-p" && message == "6 violations", "{outcome:?}");
    let failure = match ask(&mut Others(Status::error("an extender is down"), Vec::new()))? {
        Ok(outcome) => outcome.status,
        Err(status) => status,
    };
    ensure!(failure == Status::error("an extender is down"), "{failure:?}");
    Ok(())
}

fn binding(scene: &mut Scene) -> Result<()> {
    let (refused, free, plain, a) = (scene.pod("refused")?, scene.pod("free")?, scene.pod("plain")?, scene.row("a")?);
    let status = scene.call(&refused, |plugin, call| Ok(point!(plugin, reserve).reserve(call, a)))?;
    ensure!(status == Status::unschedulable("no room on a"), "{status:?}");
    let [undone, nothing] = [&free, &plain].map(|pod| {
        scene.call(pod, |plugin, call| {
            let reserve = point!(plugin, reserve);
            Ok((reserve.reserve(call, a), reserve.unreserve(call, a)))
        })
    });
    let (undone, nothing) = (undone?, nothing?);
    ensure!(undone.0.is_success() && nothing == (Status::success(), Vec::new()), "{undone:?} {nothing:?}");
    check_unreserve(&undone.1)?;

    let held = vec![
        Effect::Allow { uid: "u-1".into() },
        Effect::Reject { uid: "u-2".into(), reason: "too late".into() },
        Effect::Activate { uids: vec!["u-3".into(), "u-4".into()] },
    ];
    for (name, verdict, effects) in [
        ("waits", PermitVerdict::Wait(5000), held),
        ("denied", PermitVerdict::Deny(Status::unschedulable("not today")), Vec::new()),
        ("free", PermitVerdict::Allow, Vec::new()),
    ] {
        let pod = scene.pod(name)?;
        let answer = scene.call(&pod, |plugin, call| Ok(point!(plugin, permit).permit(call, a)))?;
        ensure!(answer == (verdict, effects), "{name}: {answer:?}");
    }

    for (name, expected) in [
        ("plain", Err(Status::skip())),
        ("free", Ok(PreFlight { allow_parallel: true })),
        ("waits", Ok(PreFlight { allow_parallel: false })),
    ] {
        let pod = scene.pod(name)?;
        let answer =
            scene.call(&pod, |plugin, call| Ok(point!(plugin, pre_bind_pre_flight).pre_bind_pre_flight(call, a)))?;
        ensure!(answer == expected, "{name}: {answer:?}");
    }
    let skipped = scene.call(&plain, |plugin, call| {
        Ok((point!(plugin, pre_bind).pre_bind(call, a), point!(plugin, bind).bind(call, a)))
    })?;
    ensure!(skipped == (Err(Status::skip()), Err(Status::skip())), "{skipped:?}");
    let (before, bound) = scene.call(&free, |plugin, call| {
        let before = point!(plugin, pre_bind).pre_bind(call, a).map_err(failed)?;
        let bound = point!(plugin, bind).bind(call, a).map_err(failed)?;
        point!(plugin, post_bind).post_bind(call, a);
        Ok((before, bound))
    })?;
    check_pre_bind(&before)?;
    let note = "1 objects, größe, half, rate: klein, in time".to_owned();
    let event = Effect::Event { warning: true, reason: "Bound".into(), action: "Binding".into(), note };
    ensure!(bound == [Effect::Bind, event], "{bound:?}");
    Ok(())
}

/// Checks the effects of Unreserve about the pod `free`.
fn check_unreserve(effects: &[Effect]) -> Result<()> {
    let [Effect::Patch { kind, namespace, name, subresource, patch, patch_type: PatchType::StrategicMerge }] = effects
    else {
        anyhow::bail!("{effects:?}")
    };
    ensure!([kind, namespace, name] == ["v1/Pod", "default", "free"] && subresource.as_deref() == Some("status"));
    let expected = json!({"status": {"conditions": [{"$patch": "delete", "type": "Held"}]}});
    ensure!(serde_json::from_slice::<Value>(patch)? == expected, "{effects:?}");
    Ok(())
}

fn check_pre_bind(effects: &[Effect]) -> Result<()> {
    let [
        Effect::Patch { kind, namespace, name, subresource, patch, patch_type: PatchType::Merge },
        Effect::Create { kind: made, body, .. },
        rest @ ..,
    ] = effects
    else {
        anyhow::bail!("{effects:?}")
    };
    ensure!(
        [kind, namespace, name] == ["v1/ConfigMap", "default", "notes"] && subresource.as_deref() == Some("status")
    );
    ensure!(serde_json::from_slice::<Value>(patch)? == json!({"data": {"pod": "free"}}), "{effects:?}");
    ensure!(made == "v1/ConfigMap" && serde_json::from_slice::<Value>(body)? == json!({"metadata": {"name": "free"}}));
    let notes = ObjectRef { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() };
    let expected = [
        Effect::Delete { kind: "v1/Secret".into(), namespace: "default".into(), name: "old".into() },
        Effect::Nominate { uid: "uid-free".into(), node: Some("a".into()) },
        Effect::Wait { objects: vec![notes], timeout_ms: 1500, timeout_message: "no notes".into() },
    ];
    ensure!(*rest == expected, "{rest:?}");
    Ok(())
}

/// The plugins explain the pod as a whole, and the pod on a node. A line break becomes a space.
fn words(scene: &mut Scene) -> Result<()> {
    let c = scene.row("c")?;
    for (name, node, expected) in
        [("free", None, "free goes to a or b"), ("free", Some(c), "c is no place for free"), ("mute", None, "")]
    {
        let pod = scene.pod(name)?;
        let words = scene.call(&pod, |plugin, call| Ok(point!(plugin, explain).explain(call, node)))?;
        ensure!(words.as_deref() == Ok(expected), "{name}: {words:?}");
    }
    Ok(())
}

/// The record of reservations and bindings goes from one instance to the next.
fn state(scene: &mut Scene, factory: &ComponentFactory) -> Result<()> {
    let diary = point!(scene.harness.plugin(), state).snapshot();
    let lines: BTreeSet<&str> = std::str::from_utf8(&diary)?.lines().collect();
    let expected = ["bound free a", "reserve free a", "reserve plain a", "unreserve free a", "unreserve plain a"];
    ensure!(lines == BTreeSet::from(expected), "{lines:?}");
    let mut next = factory.build("null")?;
    let state = point!(next, state);
    let refused = state.restore(b"bad");
    ensure!(refused == Err("not a diary".into()), "{refused:?}");
    state.restore(&diary)?;
    ensure!(state.snapshot() == diary);
    Ok(())
}
