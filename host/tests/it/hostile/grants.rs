//! Plugins that try to get more than they were granted: by a built-in's name, by a rule for everything, and by a rule
//! for other objects than the requested objects.

use std::time::Duration;

use berth_test_guests::{At, WantedEffect, asks_for, harmless, shows_objects};
use berth_wasm_host::Binary;
use k8s_openapi::api::{
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, api::PostParams};
use serde_json::json;

use super::bench::{Bench, Guest, is_bound, name_of, pod_of};
use crate::{
    cluster::{Cluster, pod},
    process::within,
};

/// The time within which a healthy pod is bound, despite the guests.
const HEALTHY_TIME: Duration = Duration::from_secs(5);

/// Files with a built-in's name have an effect only in one profile.
const RULES: &str = "
profiles:
- {schedulerName: healthy, execution: native}
- {schedulerName: wide, execution: native}
- {schedulerName: near, execution: native}
- {schedulerName: claims, execution: native}
plugins:
- name: Wide
  grants: {rules: [{apiGroups: ['*'], kinds: ['*', '*/status'], verbs: [patch, create, delete], namespaces: ['*']}]}
- name: Near
  grants: {rules: [{apiGroups: [''], kinds: [ConfigMap], verbs: [patch]}]}
- name: Claims
  grants: {rules: [{apiGroups: [''], kinds: [PersistentVolumeClaim], verbs: [patch], objects: claims}]}
";

fn triple(kind: &str, namespace: &str, name: &str) -> [String; 3] {
    [kind, namespace, name].map(str::to_owned)
}

fn patch(kind: &str, namespace: &str, name: &str) -> WantedEffect {
    let [kind, namespace, name] = triple(kind, namespace, name);
    WantedEffect::Patch([kind, namespace, name, r#"{"metadata":{"labels":{"taken":"yes"}}}"#.to_owned()])
}

fn delete(kind: &str, namespace: &str, name: &str) -> WantedEffect {
    WantedEffect::Delete(triple(kind, namespace, name))
}

fn create(kind: &str, namespace: &str, body: &serde_json::Value) -> WantedEffect {
    WantedEffect::Create(triple(kind, namespace, &body.to_string()))
}

/// The plugin that asks, the effect, the kind of effect in the metric, and the text that its pod gets.
fn cases() -> Vec<(&'static str, WantedEffect, &'static str, &'static str)> {
    let binding = json!({"metadata": {"name": "waiting"}, "target": {"kind": "Node", "name": "node-00000"}});
    let admin = json!({"metadata": {"name": "taken"}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    let map = |namespace| patch("v1/ConfigMap", namespace, "kept");
    let event = WantedEffect::Event(["Said", "Saying", "whatever"].map(str::to_owned));
    vec![
        // The built-in of this name may ask for this effect.
        ("DynamicResources", event, "event", "grants: {effects: [event]}"),
        ("DynamicResources", map("default"), "patch", "{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [patch]}"),
        (
            "DynamicResources",
            create("v1/ConfigMap", "default", &json!({"metadata": {"name": "taken"}})),
            "create",
            "{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [create]}",
        ),
        (
            "DynamicResources",
            delete("resource.k8s.io/v1/ResourceClaim", "default", "kept"),
            "delete",
            "{apiGroups: [resource.k8s.io], kinds: [ResourceClaim], verbs: [delete]}",
        ),
        ("Wide", create("v1/Binding", "default", &binding), "create", "kinds: [Binding], verbs: [create]}"),
        (
            "Wide",
            delete("v1/Pod", "kube-system", "kept"),
            "delete",
            "kinds: [Pod], verbs: [delete], namespaces: [kube-system]}",
        ),
        ("Wide", patch("v1/Secret", "default", "kept"), "patch", "kinds: [Secret], verbs: [patch]}"),
        (
            "Wide",
            create("rbac.authorization.k8s.io/v1/ClusterRoleBinding", "", &admin),
            "create",
            "{apiGroups: [rbac.authorization.k8s.io], kinds: [ClusterRoleBinding], verbs: [create], namespaces: [\"*\"]}",
        ),
        ("Near", map("kube-system"), "patch", "kinds: [ConfigMap], verbs: [patch], namespaces: [kube-system]}"),
        ("Claims", patch("v1/PersistentVolumeClaim", "default", "kept"), "patch", "kinds: [PersistentVolumeClaim]"),
    ]
}

/// Puts a binary into the plugins directory, and waits until the plugin serves.
async fn place(bench: &Bench, name: &str, bytes: &[u8]) {
    bench.place(name, bytes);
    let digest = Binary::new(name, bytes.to_vec()).digest().to_string();
    bench.shows([(name, json!({"profiles": {name.to_lowercase(): digest}}))]).await;
}

async fn healthy_pod_is_bound(bench: &Bench, number: usize) {
    bench.cluster.create(&pod_of("healthy", number)).await;
    let bound = within(HEALTHY_TIME, bench.cluster.node_of(&name_of("healthy", number))).await;
    assert!(bound.is_some(), "healthy pod {number} is not bound within {HEALTHY_TIME:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_cover_what_they_say_and_names_cover_nothing() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let client = cluster.pods.clone().into_client();
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let kept = serde_json::from_value(json!({"metadata": {"name": "kept"}})).expect("a map");
    for namespace in ["default", "kube-system"] {
        maps(namespace).create(&PostParams::default(), &kept).await.expect("the sandbox takes it");
    }
    let system_pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let system_pod = serde_json::from_value(pod("kept", "1", "1Gi")).expect("a pod");
    system_pods.create(&PostParams::default(), &system_pod).await.expect("the sandbox takes it");
    let mut waiting = pod("waiting", "1", "1Gi");
    waiting["spec"]["schedulerName"] = json!("nobody");
    cluster.create(&waiting).await;

    let names = ["DynamicResources", "Wide", "Near", "Claims"];
    let guests = names.map(|name| Guest::new(name, At::PreBind, Vec::new()).late());
    let bench = Bench::start(cluster, guests.into(), RULES).await;
    for (number, (name, effect, kind, told)) in cases().into_iter().enumerate() {
        place(&bench, name, &asks_for(name, At::PreBind, &[effect]).expect("a component")).await;
        bench.cluster.create(&pod_of(name, number)).await;
        healthy_pod_is_bound(&bench, number).await;
        bench.counts(&format!("berth_plugin_effects_refused_total{{effect=\"{kind}\",plugin=\"{name}\"}}"), 1).await;
        let pod = name_of(name, number);
        let says = |text: &String| text.contains(&format!("plugin \"{name}\" asked for {kind}")) && text.contains(told);
        let seen = bench.cluster.until(told, |seen| seen.messages.get(&pod).is_some_and(says)).await;
        assert!(!is_bound(&seen, &pod), "{pod} is bound");
        assert!(bench.list().await[name]["effectsRefused"][kind].as_u64() >= Some(1));
    }
    let list = bench.list().await;
    let rule = json!(["{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [patch]}"]);
    assert_eq!(list["Near"]["grants"]["rules"], rule);
    for namespace in ["default", "kube-system"] {
        let map = maps(namespace).get("kept").await.expect("it is there");
        assert!(map.metadata.labels.is_none_or(|labels| labels.is_empty()), "{namespace}");
    }
    assert!(maps("default").get_opt("taken").await.expect("an answer").is_none());
    assert!(system_pods.get("kept").await.expect("it is there").metadata.deletion_timestamp.is_none());
    let roles: Api<ClusterRoleBinding> = Api::all(client.clone());
    assert!(!matches!(roles.get_opt("taken").await, Ok(Some(_))));
    let seen = bench.cluster.until("everything", |_| true).await;
    assert!(!is_bound(&seen, "waiting"));

    // An effect that the rule does name is carried out.
    bench.place(
        "Near",
        &asks_for("Near", At::PreBind, &[patch("v1/ConfigMap", "default", "kept")]).expect("a component"),
    );
    bench.cluster.node_of(&name_of("Near", cases().len() - 2)).await;
    let map = maps("default").get("kept").await.expect("it is there");
    assert!(map.metadata.labels.is_some_and(|labels| labels.contains_key("taken")));
}

/// Effects before the creation of a claim, or after a creation that failed, concern another pod's claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_an_answer_creates_is_the_pods_from_then_on() {
    const KIND: &str = "v1/PersistentVolumeClaim";
    let rules = "
profiles:
- {schedulerName: healthy, execution: native}
- {schedulerName: claims, execution: native}
plugins:
- name: Claims
  grants: {rules: [{apiGroups: [''], kinds: [PersistentVolumeClaim], verbs: [patch, create, delete], objects: claims}]}
";
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.pods.clone().into_client(), "default");
    let claim = |name: &str, owners: serde_json::Value| {
        json!({"metadata": {"name": name, "ownerReferences": owners},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let kept = serde_json::from_value(claim("kept", json!([]))).expect("a claim");
    let kept = claims.create(&PostParams::default(), &kept).await.expect("the sandbox takes it");
    let bench = Bench::start(cluster, vec![Guest::new("Claims", At::PreBind, Vec::new()).late()], rules).await;
    let pod = name_of("Claims", 0);
    // An effect that is not granted holds the pod back until its uid is known.
    place(&bench, "Claims", &asks_for("Claims", At::PreBind, &[patch(KIND, "default", "kept")]).expect("a component"))
        .await;
    bench.create("Claims", 1).await;
    let refused = |effect: &str| format!("berth_plugin_effects_refused_total{{effect=\"{effect}\",plugin=\"Claims\"}}");
    bench.counts(&refused("patch"), 1).await;
    let uid = bench.cluster.pods.get(&pod).await.expect("it is there").metadata.uid;
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true}]);
    let make = |name: &str| create(KIND, "default", &claim(name, owner.clone()));
    let takes_over = [
        (
            vec![delete(KIND, "default", "kept"), make("kept")],
            "asked for delete of v1/PersistentVolumeClaim default/kept",
        ),
        (
            vec![patch(KIND, "default", "kept"), make("kept")],
            "asked for patch of v1/PersistentVolumeClaim default/kept",
        ),
        (vec![make("kept"), patch(KIND, "default", "kept")], "cannot create persistentvolumeclaims"),
    ];
    for (number, (effects, told)) in takes_over.into_iter().enumerate() {
        place(&bench, "Claims", &asks_for("Claims", At::PreBind, &effects).expect("a component")).await;
        let says = |text: &String| text.contains(told);
        let seen = bench.cluster.until(told, |seen| seen.messages.get(&pod).is_some_and(says)).await;
        assert!(!is_bound(&seen, &pod), "{told}");
        healthy_pod_is_bound(&bench, number).await;
    }
    bench.counts(&refused("delete"), 1).await;
    let now = claims.get("kept").await.expect("it is there").metadata;
    assert_eq!((now.uid, now.labels, now.owner_references), (kept.metadata.uid, kept.metadata.labels, None));

    let own = [make("own"), patch(KIND, "default", "own")];
    bench.place("Claims", &asks_for("Claims", At::PreBind, &own).expect("a component"));
    bench.cluster.node_of(&pod).await;
    let own = claims.get("own").await.expect("it is there").metadata;
    assert!(own.labels.is_some_and(|labels| labels.contains_key("taken")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_built_in_is_granted_what_the_refusal_says() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let rules = "profiles: [{schedulerName: healthy, execution: native}]\n";
    let guests = vec![
        Guest::new("DefaultBinder", At::Bind, Vec::new()).late(),
        Guest::new("VolumeBinding", At::Filter, Vec::new()).late(),
    ];
    let bench = Bench::start(cluster, guests, rules).await;
    let binder = asks_for("DefaultBinder", At::Bind, &[WantedEffect::Bind]).expect("a component");
    place(&bench, "DefaultBinder", &binder).await;
    bench.create("DefaultBinder", 1).await;
    let lines = "plugins: [{name: DefaultBinder, grants: {effects: [bind]}}]";
    let pod = name_of("DefaultBinder", 0);
    let says = |text: &String| text.contains(lines);
    let seen = bench.cluster.until(lines, |seen| seen.messages.get(&pod).is_some_and(says)).await;
    assert!(!is_bound(&seen, &pod));
    healthy_pod_is_bound(&bench, 0).await;
    bench.configure(&format!("{rules}{lines}\n"));
    bench.cluster.node_of(&pod).await;

    // A plugin with the name of a built-in does not get the built-in's right to read either.
    let shows = shows_objects("VolumeBinding", "v1", "PersistentVolumeClaim").expect("a component");
    bench.place("VolumeBinding", &shows);
    let refused = "wants to read v1/PersistentVolumeClaim, but its grants.reads";
    let whole = "to grant it, add: plugins: [{name: VolumeBinding, grants: {reads: [v1/PersistentVolumeClaim, ";
    for part in [refused, whole] {
        bench.shows([("VolumeBinding", json!({"source": "native", "lastReason": part}))]).await;
    }
    place(&bench, "VolumeBinding", &harmless("VolumeBinding", At::Filter).expect("a component")).await;
    assert_eq!(bench.list().await["VolumeBinding"]["grants"]["reads"], json!([]));
    healthy_pod_is_bound(&bench, 1).await;
}
