//! Every kind of effect at every extension point that may ask for effects. An effect that was not granted never reaches
//! the API server, and the operator sees which plugin asked for which effect.

use std::time::Duration;

use berth_test_guests::{At, WantedEffect, asks_for, harmless, holds};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    events::v1::Event,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use super::bench::{Bench, Guest, is_bound, name_of, pod_of};
use crate::{
    cluster::{Cluster, Seen},
    process::DEADLINE,
};

const POINTS: [At; 4] = [At::PostFilter, At::Permit, At::PreBind, At::Bind];

/// One plugin is granted every effect but `bind` and `wait`, and another is granted `bind`.
const RULES: &str = "
plugins:
- name: Trusted
  grants:
    effects: [evict, waitingPods, activate, nominate, event]
    rules: [{apiGroups: [''], kinds: [ConfigMap, Secret], verbs: [patch, create, delete]}]
- name: Binder
  grants: {effects: [bind]}
";

/// The objects that the effects name, in two sets: no plugin may change the objects named `kept`, and `Trusted` may
/// change the objects named `given`.
struct Targets {
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    events: Api<Event>,
}

impl Targets {
    async fn create(bench: &Bench) -> Self {
        let client = bench.cluster.pods.clone().into_client();
        let maps = Api::default_namespaced(client.clone());
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        for (name, owner) in [("kept", "safe"), ("given", "free")] {
            let secret = serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"owner": owner}}));
            secrets.create(&PostParams::default(), &secret.expect("a secret")).await.expect("the sandbox takes it");
            let map = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a map");
            maps.create(&PostParams::default(), &map).await.expect("the sandbox takes it");
        }
        // Pods of each set: a bound pod to evict, a pod that Permit holds, and a pod that fits nowhere, to nominate and
        // activate.
        for name in ["kept", "given"] {
            let named = |role: &str, guest: &str| {
                let mut pod = pod_of(guest, 0);
                pod["metadata"]["name"] = json!(format!("{name}-{role}"));
                pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
                pod
            };
            let mut stranded = named("stranded", "healthy");
            stranded["spec"]["nodeSelector"] = json!({"no": "such-node"});
            bench.cluster.create_all([named("bound", "healthy"), named("held", "Holder"), stranded]).await;
            bench.cluster.node_of(&format!("{name}-bound")).await;
            let stranded = format!("{name}-stranded");
            bench.cluster.until("stranded", |seen| seen.messages.contains_key(&stranded)).await;
        }
        Self { maps, secrets, events: Api::default_namespaced(client) }
    }

    /// One effect of each kind on the objects of this name, each with the grant that it needs.
    async fn effects(bench: &Bench, name: &str) -> Vec<(&'static str, WantedEffect)> {
        let uid = async |role: &str| {
            let pod = bench.cluster.pods.get(&format!("{name}-{role}")).await.expect("the pod");
            pod.metadata.uid.expect("a uid")
        };
        let (bound, held, stranded) = (uid("bound").await, uid("held").await, uid("stranded").await);
        let text = str::to_owned;
        let (secret, map) = (text("v1/Secret"), text("v1/ConfigMap"));
        let (namespace, name) = (text("default"), text(name));
        let patch = text(r#"{"stringData":{"owner":"nobody"},"metadata":{"labels":{"taken":"yes"}}}"#);
        let new = json!({"metadata": {"name": format!("{name}-new")}}).to_string();
        vec![
            ("patch", WantedEffect::Patch([secret, namespace.clone(), name.clone(), patch])),
            ("create", WantedEffect::Create([map.clone(), namespace.clone(), new])),
            ("delete", WantedEffect::Delete([map.clone(), namespace.clone(), name.clone()])),
            ("evict", WantedEffect::Evict([namespace.clone(), format!("{name}-bound"), bound, text("out")])),
            ("nominate", WantedEffect::Nominate([stranded.clone(), text("node-00001")])),
            ("event", WantedEffect::Event([format!("Said-{name}"), text("Saying"), text("whatever")])),
            ("activate", WantedEffect::Activate(stranded)),
            ("waitingPods", WantedEffect::Reject([held.clone(), text("turned down by a plugin")])),
            ("waitingPods", WantedEffect::Allow(held)),
            ("wait", WantedEffect::Wait([map, namespace, name])),
            ("bind", WantedEffect::Bind),
        ]
    }

    /// Whether each effect of a granted plugin has changed the objects of this name.
    async fn were_changed(&self, name: &str, seen: &Seen) -> [bool; 7] {
        let secret = self.secrets.get(name).await.expect("the secret");
        let events = self.events.list(&ListParams::default()).await.expect("a list").items;
        let said = format!("Said-{name}");
        let told = seen.messages.get(&format!("{name}-held")).is_some_and(|text| text.contains("turned down"));
        let bound = format!("{name}-bound");
        [
            secret.metadata.labels.is_some_and(|labels| labels.contains_key("taken")),
            self.maps.get_opt(&format!("{name}-new")).await.expect("an answer").is_some(),
            self.maps.get_opt(name).await.expect("an answer").is_none(),
            seen.deleted.contains(&bound) || seen.disruptions.contains_key(&bound),
            seen.nominations.get(&format!("{name}-stranded")).is_some_and(|nodes| !nodes.is_empty()),
            events.iter().any(|event| event.reason.as_deref() == Some(&said)),
            told || is_bound(seen, &format!("{name}-held")),
        ]
    }
}

/// A guest for each point and kind of effect, with the refused effect.
fn guests(all: &[(&'static str, WantedEffect)]) -> Vec<(Guest, &'static str)> {
    let guest = |at: At, (permission, effect): &(&'static str, WantedEffect)| {
        let case = format!("{effect:?}");
        let name = format!("{at:?}{}", case.split('(').next().expect("a word"));
        let bytes = asks_for(&name, at, std::slice::from_ref(effect)).expect("a component");
        (Guest::new(name, at, bytes), *permission)
    };
    POINTS.into_iter().flat_map(|at| all.iter().map(move |effect| guest(at, effect))).collect()
}

/// The names and points of the guests, before their targets exist.
fn announced() -> Vec<Guest> {
    let nothing = String::new;
    let triple = || [nothing(), nothing(), nothing()];
    let kinds = [
        WantedEffect::Patch([nothing(), nothing(), nothing(), nothing()]),
        WantedEffect::Create(triple()),
        WantedEffect::Delete(triple()),
        WantedEffect::Evict([nothing(), nothing(), nothing(), nothing()]),
        WantedEffect::Nominate([nothing(), nothing()]),
        WantedEffect::Event(triple()),
        WantedEffect::Activate(nothing()),
        WantedEffect::Reject([nothing(), nothing()]),
        WantedEffect::Allow(nothing()),
        WantedEffect::Wait(triple()),
        WantedEffect::Bind,
    ];
    let guests = guests(&kinds.map(|kind| ("", kind))).into_iter().map(|(guest, _)| guest);
    let others = [("Holder", At::Permit), ("Trusted", At::PreBind), ("Binder", At::Bind)];
    let others = others.map(|(name, at)| Guest::new(name, at, Vec::new()));
    guests.chain(others).map(|guest| Guest { bytes: Vec::new(), ..guest.late() }).collect()
}

/// Waits until a guest was called and its effect refused, and checks the call and the refusal.
async fn check(bench: &Bench, Guest { name, at, .. }: &Guest, effect: &str) {
    let counter = format!("berth_plugin_effects_refused_total{{effect=\"{effect}\",plugin=\"{name}\"}}");
    bench.counts(&counter, 1).await;
    let pod = name_of(name, 0);
    let reason = match at {
        At::Permit => {
            bench.cluster.node_of(&pod).await;
            return;
        }
        At::PostFilter => "0/2 nodes are available: 2 Insufficient cpu.".to_owned(),
        _ => format!("plugin \"{name}\" asked for {effect}"),
    };
    let says = |text: &String| text.contains(&reason);
    let seen = bench.cluster.until(&reason, |seen| seen.messages.get(&pod).is_some_and(says)).await;
    assert!(!is_bound(&seen, &pod), "{pod} is bound");
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_are_for_those_who_were_granted_them() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let bench = Bench::start(cluster, announced(), RULES).await;
    bench.place("Holder", &holds("Holder").expect("a component"));
    let targets = Targets::create(&bench).await;
    let kept = targets.secrets.get("kept").await.expect("the secret");

    let guests = guests(&Targets::effects(&bench, "kept").await);
    assert_eq!(guests.len(), POINTS.len() * 11);
    for (guest, _) in &guests {
        bench.place(&guest.name, &guest.bytes);
        let mut pod = pod_of(&guest.name, 0);
        if guest.at == At::PostFilter {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(1000);
        }
        bench.cluster.create(&pod).await;
    }
    bench.binds_healthy(10).await;
    for (guest, effect) in &guests {
        check(&bench, guest, effect).await;
    }
    let list = bench.list().await;
    for (Guest { name, .. }, effect) in &guests {
        let entry = &list[name];
        assert!(["serving", "probation"].map(Value::from).contains(&entry["state"]), "{entry}");
        assert_eq!(entry["grants"]["effects"], json!([]), "{entry}");
        assert_eq!(entry["grants"]["rules"], json!([]), "{entry}");
        assert!(entry["effectsRefused"][effect].as_u64() >= Some(1), "{entry}");
    }

    // Granted effects are carried out.
    let granted = Targets::effects(&bench, "given").await.into_iter();
    let granted: Vec<WantedEffect> =
        granted.filter(|(permission, _)| !["bind", "wait"].contains(permission)).map(|(_, effect)| effect).collect();
    bench.place("Trusted", &asks_for("Trusted", At::PreBind, &granted).expect("a component"));
    bench.place("Binder", &asks_for("Binder", At::Bind, &[WantedEffect::Bind]).expect("a component"));
    bench.create("Binder", 1).await;
    bench.create("Trusted", 1).await;
    bench.cluster.node_of(&name_of("Binder", 0)).await;
    bench.cluster.node_of(&name_of("Trusted", 0)).await;
    let is_done = |seen: &Seen| seen.deleted.contains("given-bound") && seen.messages.contains_key("given-held");
    bench.cluster.until("the granted effects", is_done).await;
    let seen = bench.cluster.until("a nomination", |seen| !seen.nominations["given-stranded"].is_empty()).await;
    // Events are written after the other effects.
    let mut every = interval(Duration::from_millis(50));
    let done = timeout(DEADLINE, async {
        while targets.were_changed("given", &seen).await != [true; 7] {
            every.tick().await;
        }
    });
    done.await.expect("the granted effects are carried out");
    assert_eq!(targets.were_changed("kept", &bench.cluster.until("now", |_| true).await).await, [false; 7]);
    assert_eq!(targets.secrets.get("kept").await.expect("the secret"), kept);
    check_recovery(&bench, &guests).await;
}

/// Checks that better binaries let the refused pods be bound.
async fn check_recovery(bench: &Bench, guests: &[(Guest, &str)]) {
    for (Guest { name, at, .. }, _) in guests {
        bench.place(name, &harmless(name, *at).expect("a component"));
    }
    for (Guest { name, at, .. }, _) in guests {
        if *at != At::PostFilter {
            bench.cluster.node_of(&name_of(name, 0)).await;
        }
    }
    let list: Vec<Value> = bench.list().await.into_values().collect();
    assert!(list.iter().all(|entry| entry["state"] != "quarantined"), "a refused effect is not a fault");
}
