//! Effects that a plugin was not granted are not carried out: effects by name, and changes of objects by rules.

use std::sync::Arc;

use berth_framework::{
    Effect, EffectKind, Grants, Namespaces, ObjectKind, ObjectRef, ObjectRule, PatchType, Permission, PermitVerdict,
    PostFilterOutcome, RuleObjects, Status, Verb,
};
use berth_model::{NodeIdx, ObjectKey, api};
use serde_json::json;

use super::kit::{Bench, Factory, Shared, assigned, awaited, binds, events, node, pod, pod_maker};
use crate::{Action, Event, Notice, PluginEffects, PodRequest, Request, effect_bytes::MAX_BYTES};

/// A bench whose plugin has just these grants.
fn granted(grants: Grants) -> Bench {
    let script = Shared::default();
    let mut bench = Bench::with_profiles(vec![Bench::profile("berth", &script, grants)], script);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench
}

fn refusals(actions: &[Action]) -> Vec<(String, EffectKind)> {
    let refusal = |action: &Action| match action {
        Action::Notice(Notice::EffectRefused { plugin, effect, .. }) => Some((plugin.to_string(), *effect)),
        _ => None,
    };
    actions.iter().filter_map(refusal).collect()
}

/// The pods with events about refused effects, and the text of each.
fn told_of_refusals(actions: &[Action]) -> Vec<(String, String)> {
    let event = |action: &Action| match action {
        Action::Notice(Notice::Event(event)) if event.reason == "EffectRefused" => {
            Some((event.regarding.name.to_string(), event.note.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(event).collect()
}

fn patch(kind: &str, subresource: Option<&str>, namespace: &str, name: &str) -> Effect {
    Effect::Patch {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.map(str::to_owned),
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    }
}

fn create(kind: &str, namespace: &str, body: &serde_json::Value) -> Effect {
    Effect::Create { kind: kind.to_owned(), namespace: namespace.to_owned(), body: body.to_string().into_bytes() }
}

fn delete(kind: &str, namespace: &str, name: &str) -> Effect {
    Effect::Delete { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

const GROUPS: [&str; 3] = ["", "resource.k8s.io", "example.com"];

fn rule(kinds: &[&str], objects: RuleObjects) -> ObjectRule {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    ObjectRule { api_groups: GROUPS.map(str::to_owned).to_vec(), kinds, verbs: Verb::ALL.to_vec(), objects }
}

/// A pod with a claim of every sort: `data`, `web-scratch`, `gpu` and `web-extended`.
fn claimant() -> api::Pod {
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ]);
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let extended = json!({"resourceClaimName": "web-extended", "requestMappings": []});
    pod_maker("web", 1)
        .spec("volumes", volumes)
        .spec("resourceClaims", claims)
        .status("extendedResourceClaimStatus", extended)
        .build()
}

fn owned(name: &str, uid: &str) -> serde_json::Value {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true});
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "ownerReferences": [owner]}})
}

/// The message for the pod if the effects are refused to a plugin with these rules; `None` if they are carried out.
fn refusal(rules: &[ObjectRule], effects: Vec<Effect>) -> Option<String> {
    sent(rules, effects).err()
}

/// The uids that the objects of the effects must have, as they are sent to the host. `Err` is the message for the pod.
fn sent(rules: &[ObjectRule], effects: Vec<Effect>) -> Result<Vec<Option<Box<str>>>, String> {
    let mut bench = granted(Grants::new([Permission::Bind], rules));
    for (name, controller) in [("made", "uid-web"), ("others", "uid-of-another")] {
        let key = ObjectKey {
            api_version: "resource.k8s.io/v1".to_owned(),
            kind: "ResourceClaim".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        let json = Arc::from(owned(name, controller).to_string().into_bytes());
        bench.event(Event::ObjectApplied { resource: "resource.k8s.io/ResourceClaim".to_owned(), key, json });
    }
    bench.script(|script| script.pre_bind = effects.clone());
    bench.apply(claimant());
    let actions = bench.settle();
    let sent = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest { request: Request::AwaitedEffects(PluginEffects { effects, .. }), .. }) => {
            Some(effects.clone())
        }
        _ => None,
    });
    match sent {
        Some(sent) => {
            assert_eq!(sent.iter().map(|granted| granted.effect.clone()).collect::<Vec<_>>(), effects);
            assert!(refusals(&actions).is_empty());
            Ok(sent.into_iter().map(|granted| granted.uid).collect())
        }
        None => {
            assert_eq!(refusals(&actions).len(), 1, "{actions:?}");
            Err(events(&actions).into_iter().next().expect("the pod is told").1)
        }
    }
}

#[test]
fn a_swap_can_change_what_a_plugin_may_ask_for() {
    let mut bench = granted(Grants::default());
    let factory = Factory::new("2", &bench.script, true);
    let grants = Some(Grants::new([Permission::Bind], []));
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, grants);
    bench.event(ready);
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_plugin_that_may_not_bind_does_not() {
    let mut bench = granted(Grants::default());
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty());
    assert_eq!(refusals(&actions), [("Fake".to_owned(), EffectKind::Named(Permission::Bind))]);
    let told = "plugin \"Fake\" asked for bind, but is not granted it; to grant it, add to --plugin-config: plugins: \
                [{name: Fake, grants: {effects: [bind]}}]";
    assert_eq!(events(&actions)[0].1, told);
    assert_eq!(bench.scheduler.cache().sizes().assumed_pods, 0);
}

/// A user pastes the entry in place of the present entry.
#[test]
fn the_entry_that_would_allow_an_effect_repeats_what_is_granted() {
    let rule = ObjectRule {
        api_groups: vec![String::new()],
        kinds: vec!["ConfigMap".to_owned()],
        verbs: vec![Verb::Create],
        objects: RuleObjects::Any(Namespaces::OfPod),
    };
    let reads = vec![ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() }];
    let mut bench = granted(Grants::new([Permission::Event], [rule]).with_reads(reads, true));
    bench.apply(pod("a", 1));
    let told = events(&bench.settle()).remove(0).1;
    let entry = "to grant it, add to --plugin-config: plugins: [{name: Fake, grants: {reads: [v1/Secret], effects: \
                 [bind, event], rules: [{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [create]}], podJson: true}}]";
    assert!(told.ends_with(entry), "{told}");
}

#[test]
fn a_binding_whose_preparation_was_refused_fails() {
    let mut bench = granted(Grants::new([Permission::Bind, Permission::Event], []));
    let patch = patch("v1/PersistentVolumeClaim", None, "default", "claim");
    let event = Effect::Event { warning: false, reason: "R".to_owned(), action: "A".to_owned(), note: "N".to_owned() };
    bench.script(|script| script.pre_bind = vec![event, patch]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty());
    assert_eq!(refusals(&actions), [("Fake".to_owned(), EffectKind::Object(Verb::Patch))]);
    assert!(events(&actions).iter().all(|(reason, _)| reason != "R"), "all of an answer is carried out, or nothing");
}

#[test]
fn many_refused_effects_of_one_answer_are_one_notice() {
    let mut bench = granted(Grants::new([Permission::Bind], []));
    let activate = Effect::Activate { uids: vec!["uid-other".to_owned()] };
    let outcome =
        PostFilterOutcome { status: Status::unschedulable("no"), nominate: None, effects: vec![activate; 1000] };
    bench.script(|script| script.post_filter = Some(outcome));
    bench.apply(pod("large", 5));
    let actions = bench.settle();
    let counts = actions.iter().filter_map(|action| match action {
        Action::Notice(Notice::EffectRefused { effect: EffectKind::Named(Permission::Activate), count, .. }) => {
            Some(*count)
        }
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1000]);
}

/// A nomination would only keep the room of the node, because no pod would leave the node.
#[test]
fn a_refused_eviction_takes_the_nomination_back() {
    let asked = |grants: &[Permission], status: Status| {
        let mut bench = granted(Grants::new(grants.iter().copied(), []));
        let victim = Effect::Evict {
            namespace: "default".to_owned(),
            name: "low".to_owned(),
            uid: "uid-low".to_owned(),
            message: "makes room".to_owned(),
        };
        bench.apply(assigned("low", 2, "n0"));
        let outcome = PostFilterOutcome { status, nominate: Some(Some(NodeIdx(0))), effects: vec![victim] };
        bench.script(|script| script.post_filter = Some(outcome));
        bench.apply(pod("high", 4));
        let actions = bench.settle();
        let nominated = bench.scheduler.queue().nominator().node_of("uid-high").is_some_and(|node| !node.is_none());
        let failed = events(&actions).into_iter().find(|(reason, _)| reason == "FailedScheduling");
        (nominated, awaited(&actions).len(), failed.expect("the attempt failed").1)
    };
    let no_node = "0/1 nodes are available: 1 Insufficient cpu.";
    let (nominated, evicted, told) = asked(&[Permission::Evict], Status::success());
    assert_eq!((nominated, evicted, &*told), (true, 1, no_node));
    let refusal = "plugin \"Fake\" asked for evict, but is not granted it; to grant it, add to --plugin-config: plugins: \
                   [{name: Fake, grants: {effects: [evict]}}]";
    let (nominated, evicted, told) = asked(&[], Status::success());
    assert_eq!((nominated, evicted, told), (false, 0, format!("{no_node} {refusal}")));
    let (nominated, evicted, told) = asked(&[], Status::unschedulable("not yet"));
    assert_eq!((nominated, evicted, told), (false, 0, format!("{no_node} not yet, {refusal}")));
}

#[test]
fn changes_that_wait_for_the_api_server_are_bounded() {
    let allowed = rule(&["ConfigMap"], RuleObjects::Any(Namespaces::OfPod));
    let mut bench = granted(Grants::new([Permission::Bind], [allowed]));
    let mut large = patch("v1/ConfigMap", None, "default", "map");
    if let Effect::Patch { patch, .. } = &mut large {
        *patch = vec![b' '; MAX_BYTES / 2 + 1];
    }
    bench.script(|script| script.pre_bind = vec![large]);
    bench.apply(pod("a", 1));
    let first = bench.settle();
    assert_eq!(refusals(&first), []);
    bench.apply(pod("b", 1));
    let actions = bench.settle();
    assert_eq!(refusals(&actions), [("Fake".to_owned(), EffectKind::Object(Verb::Patch))]);
    assert!(
        events(&actions).iter().any(|(_, note)| note.contains("with its changes and waits in progress")),
        "{actions:?}"
    );
    // Effects that were carried out make room. The pod is tried again after its backoff.
    drop((first, actions));
    bench.actions.clear();
    bench.advance(20_000);
    assert_eq!(refusals(&bench.settle()), []);
}

/// Up to a thousand objects are named in one wait, which may last an hour.
#[test]
fn objects_that_pods_wait_for_are_bounded() {
    const PODS: usize = 400;
    let mut bench = granted(Grants::new([Permission::Bind, Permission::Wait], []));
    let object = |number| ObjectRef {
        kind: format!("v1/{}", "K".repeat(60)),
        namespace: "n".repeat(60),
        name: format!("{number:0250}"),
    };
    let objects = (0..1024).map(object).collect();
    let wait = Effect::Wait { objects, timeout_ms: 3_600_000, timeout_message: "late".to_owned() };
    bench.script(|script| script.pre_bind = vec![wait]);
    let names: Vec<String> = (0..PODS).map(|number| format!("p{number}")).collect();
    for name in &names {
        bench.apply(pod_maker(name, 0).build());
    }
    let n_refused = refusals(&bench.settle()).len();
    assert!((300..PODS).contains(&n_refused), "{n_refused} of {PODS} pods were refused");
    assert_eq!(bench.scheduler.metrics().bindings, PODS - n_refused);
    // Pods that leave make room.
    for name in &names {
        let uid = format!("uid-{name}");
        bench.event(Event::PodDeleted { namespace: "default".to_owned(), name: name.clone(), uid });
    }
    bench.apply(pod_maker("last", 0).build());
    assert_eq!(refusals(&bench.settle()), []);
}

#[test]
fn the_refusal_says_which_rule_would_allow_it() {
    for (effect, what, rule) in [
        (
            patch("v1/ConfigMap", None, "default", "map"),
            "patch of v1/ConfigMap default/map",
            "{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [patch]}",
        ),
        (
            create("v1/Binding", "kube-system", &json!({})),
            "create of v1/Binding in namespace kube-system",
            "{apiGroups: [\"\"], kinds: [Binding], verbs: [create], namespaces: [kube-system]}",
        ),
        (
            delete("storage.k8s.io/v1/StorageClass", "", "fast"),
            "delete of storage.k8s.io/v1/StorageClass fast",
            "{apiGroups: [storage.k8s.io], kinds: [StorageClass], verbs: [delete], namespaces: [\"*\"]}",
        ),
        (
            patch("v1/Pod", Some("status"), "default", "web"),
            "patch of v1/Pod/status default/web",
            "{apiGroups: [\"\"], kinds: [Pod/status], verbs: [patch], objects: pod}",
        ),
        (
            delete("resource.k8s.io/v1/ResourceClaim", "default", "gpu"),
            "delete of resource.k8s.io/v1/ResourceClaim default/gpu",
            "{apiGroups: [resource.k8s.io], kinds: [ResourceClaim], verbs: [delete], objects: claims}",
        ),
    ] {
        let told = refusal(&[], vec![effect]).expect("nothing was granted");
        assert!(told.contains(&format!("asked for {what}, but is not granted it")), "{told}");
        assert!(
            told.ends_with(&format!("plugins: [{{name: Fake, grants: {{effects: [bind], rules: [{rule}]}}}}]")),
            "{told}"
        );
    }
}

#[test]
fn a_rule_ends_at_the_namespace_of_the_pod_unless_it_says_more() {
    let near = [rule(&["ConfigMap"], RuleObjects::Any(Namespaces::OfPod))];
    let map = |namespace| vec![patch("v1/ConfigMap", None, namespace, "map")];
    assert_eq!(refusal(&near, map("default")), None);
    assert!(refusal(&near, map("kube-system")).is_some());
    assert!(refusal(&near, map("")).is_some());
    let named = [rule(&["ConfigMap"], RuleObjects::Any(Namespaces::Named(vec!["kube-system".to_owned()])))];
    assert_eq!(refusal(&named, map("kube-system")), None);
    assert!(refusal(&named, map("default")).is_some());
    let far = [rule(&["ConfigMap", "Node"], RuleObjects::Any(Namespaces::All))];
    assert_eq!(refusal(&far, map("kube-system")), None);
    assert_eq!(refusal(&far, vec![patch("v1/Node", None, "", "n0")]), None);
}

#[test]
fn a_rule_for_the_pod_covers_no_other() {
    let rules = [rule(&["Pod", "Pod/status"], RuleObjects::Pod)];
    assert_eq!(refusal(&rules, vec![patch("v1/Pod", Some("status"), "default", "web")]), None);
    assert_eq!(refusal(&rules, vec![patch("v1/Pod", None, "default", "web")]), None);
    for other in [
        patch("v1/Pod", None, "default", "other"),
        patch("v1/Pod", None, "kube-system", "web"),
        delete("v1/Pod", "kube-system", "web"),
        create("v1/Pod", "default", &json!({"metadata": {"name": "web"}})),
        patch("example.com/v1/Pod", None, "default", "web"),
    ] {
        assert!(refusal(&rules, vec![other.clone()]).is_some(), "{other:?}");
    }
}

#[test]
fn a_rule_for_claims_covers_those_of_the_pod() {
    const VOLUME: &str = "v1/PersistentVolumeClaim";
    const DEVICES: &str = "resource.k8s.io/v1/ResourceClaim";
    let rules = [rule(&["PersistentVolumeClaim", "ResourceClaim", "ConfigMap"], RuleObjects::Claims)];
    for (kind, name) in
        [(VOLUME, "data"), (VOLUME, "web-scratch"), (DEVICES, "gpu"), (DEVICES, "web-extended"), (DEVICES, "made")]
    {
        assert_eq!(refusal(&rules, vec![patch(kind, None, "default", name)]), None, "{kind} {name}");
    }
    // The same answer creates this claim for the pod.
    let new = create(DEVICES, "default", &owned("new", "uid-web"));
    let after = patch(DEVICES, None, "default", "new");
    assert_eq!(refusal(&rules, vec![new.clone(), after.clone()]), None);
    for others in [
        vec![patch(VOLUME, None, "default", "gpu")],
        vec![patch(VOLUME, None, "default", "other")],
        vec![patch(DEVICES, None, "default", "other")],
        // The cache holds this claim, and another pod controls it.
        vec![patch(DEVICES, None, "default", "others")],
        vec![patch(VOLUME, None, "other", "data")],
        vec![delete("v1/ConfigMap", "default", "data")],
        vec![create(DEVICES, "default", &json!({"metadata": {"name": "gpu"}}))],
        vec![create(DEVICES, "default", &owned("new", "uid-of-another"))],
        vec![create(DEVICES, "kube-system", &owned("new", "uid-web"))],
        vec![after.clone(), delete(DEVICES, "default", "made")],
        // Effects before the creation concern another pod's claim.
        vec![after.clone(), new.clone()],
        vec![delete(DEVICES, "default", "new"), new.clone()],
        // The created claim is deleted, and another claim may have its name.
        vec![new.clone(), delete(DEVICES, "default", "new"), after.clone()],
        // The last claim of that name counts.
        vec![new.clone(), create(DEVICES, "default", &owned("new", "uid-of-another")), after.clone()],
    ] {
        assert!(refusal(&rules, others.clone()).is_some(), "{others:?}");
    }
    // A claim that the answer may create for another pod does not become the pod's.
    let any = RuleObjects::Any(Namespaces::OfPod);
    let may_create = ObjectRule { verbs: vec![Verb::Create], ..rule(&["ResourceClaim"], any) };
    let rules = [&rules[..], &[may_create]].concat();
    let of_another = create(DEVICES, "default", &owned("new", "uid-of-another"));
    assert_eq!(refusal(&rules, vec![of_another.clone()]), None);
    assert!(refusal(&rules, vec![of_another, after]).is_some());
}

/// If another client deletes a claim or pod and creates it again, the new object is a different object.
#[test]
fn changes_of_the_pod_and_its_claims_go_by_uid() {
    const DEVICES: &str = "resource.k8s.io/v1/ResourceClaim";
    let rules = [
        rule(&["ResourceClaim", "ResourceClaim/status"], RuleObjects::Claims),
        rule(&["Pod/status"], RuleObjects::Pod),
        rule(&["ConfigMap"], RuleObjects::Any(Namespaces::OfPod)),
    ];
    let uids = |effects: Vec<Effect>| {
        sent(&rules, effects).expect("granted").into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()
    };
    let made = |subresource| patch(DEVICES, subresource, "default", "made");
    let of_pod = patch("v1/Pod", Some("status"), "default", "web");
    let map = patch("v1/ConfigMap", None, "default", "map");
    assert_eq!(uids(vec![of_pod, map, made(Some("status"))]).join(","), "uid-web,,uid-made");
    assert_eq!(uids(vec![delete(DEVICES, "default", "made")]).join(","), "uid-made");
    // The host learns the uid of a claim that the answer creates.
    let (remove, make) = (delete(DEVICES, "default", "made"), create(DEVICES, "default", &owned("made", "uid-web")));
    assert_eq!(uids(vec![made(None), remove, make, made(None)]).join(","), "uid-made,uid-made,,");
    // The cache does not hold this claim.
    assert_eq!(uids(vec![patch(DEVICES, None, "default", "gpu")]).join(","), "");
}

/// Without a message, a pod would wait for a plugin that lacks the grant to release the pod.
#[test]
fn the_event_of_a_wait_at_permit_says_which_effect_was_refused() {
    let mut bench = granted(Grants::new([], []));
    let object = ObjectRef { kind: "v1/Pod".to_owned(), namespace: "default".to_owned(), name: "a".to_owned() };
    let wait = Effect::Wait { objects: vec![object], timeout_ms: 10_000, timeout_message: String::new() };
    bench.script(|script| {
        script.permit = Some(PermitVerdict::Wait(10_000));
        script.permit_effects = vec![wait];
        script.is_component = true;
    });
    bench.apply(pod("a", 1));
    assert_eq!(refusals(&bench.settle()).len(), 1);
    bench.advance(1_000);
    let told = &events(&bench.settle())[0];
    assert_eq!(told.0, "WaitingOnPermit");
    let words =
        "(plugin \"Fake\" asked for wait, but is not granted it; to grant it, add to --plugin-config: plugins: ";
    assert!(told.1.contains(words), "{}", told.1);
}

/// The pod that waits and the pod that came last both learn why the waiting pod is not released.
#[test]
fn a_release_that_was_not_granted_is_told_to_both_pods() {
    let mut bench = granted(Grants::new([Permission::Bind], []));
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    assert_eq!(events(&bench.settle()), []);
    let reject = Effect::Reject { uid: "uid-a".to_owned(), reason: "no".to_owned() };
    let asked = vec![Effect::Allow { uid: "uid-a".to_owned() }, reject];
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = asked.clone();
    });
    bench.apply(pod("b", 1));
    let told = "plugin \"Fake\" asked for waitingPods, but is not granted it; to grant it, add to --plugin-config: \
                plugins: [{name: Fake, grants: {effects: [bind, waitingPods]}}]";
    let actions = bench.settle();
    assert_eq!(told_of_refusals(&actions), [("b".to_owned(), told.to_owned()), ("a".to_owned(), told.to_owned())]);
    assert_eq!(binds(&actions).len(), 1, "the pod that asked goes on");
    bench.script(|script| script.permit_effects = asked);
    bench.apply(pod("c", 1));
    assert_eq!(told_of_refusals(&bench.settle()), [("c".to_owned(), told.to_owned())], "a knows it already");
}
