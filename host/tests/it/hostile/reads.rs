//! The rights to see objects. A plugin never sees a kind that was not granted, and a plugin that asks for such a kind
//! does not serve.

use berth_test_guests::{At, harmless, hears_of, shows_objects};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, api::PostParams};
use serde_json::json;

use super::bench::{Bench, Guest, name_of};
use crate::cluster::Cluster;

const RULES: &str = "
plugins:
- name: Granted
  grants: {reads: [v1/ConfigMap]}
- name: NotGranted
  grants: {reads: [v1/ConfigMap]}
";

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_shown_to_those_who_were_granted_them() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let client = cluster.pods.clone().into_client();
    let (maps, secrets): (Api<ConfigMap>, Api<Secret>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
    let map = serde_json::from_value(json!({"metadata": {"name": "map"}, "data": {"seen": "plain-text"}}));
    let secret = json!({"metadata": {"name": "secret"}, "stringData": {"key": "never-shown"}});
    maps.create(&PostParams::default(), &map.expect("a map")).await.expect("the sandbox takes it");
    let secret = serde_json::from_value(secret).expect("a secret");
    let secret = secrets.create(&PostParams::default(), &secret).await.expect("the sandbox takes it");
    assert!(secret.data.expect("data").contains_key("key"));

    let guest = |name: &str, kind: &str| shows_objects(name, "v1", kind).expect("a component");
    let guests = vec![
        Guest::new("Granted", At::Filter, guest("Granted", "ConfigMap")),
        Guest::new("NotGranted", At::Filter, guest("NotGranted", "Secret")).late(),
        Guest::new("Hears", At::Filter, hears_of("Hears", "leases.v1.coordination.k8s.io").expect("a component")),
        Guest::new("HearsClaims", At::Filter, hears_of("HearsClaims", "PersistentVolumeClaim").expect("a component")),
        Guest::new("NewVersion", At::Filter, harmless("NewVersion", At::Filter).expect("a component")),
    ];
    let bench = Bench::start(cluster, guests, RULES).await;
    for name in ["Granted", "NotGranted", "NewVersion", "Hears", "HearsClaims"] {
        bench.create(name, 1).await;
    }
    bench.binds_healthy(5).await;
    // The plugin that was granted the kind repeats the objects that it has seen.
    let tells = |pod: &str, what: &'static str| {
        let pod = name_of(pod, 0);
        let cluster = &bench.cluster;
        async move { cluster.until(what, |seen| seen.messages.get(&pod).is_some_and(|text| text.contains(what))).await }
    };
    tells("Granted", "plain-text").await;
    let wanted = "wants to read v1/Secret, but its grants.reads";
    tells("NotGranted", wanted).await;
    let unheard = "registers for events of leases.v1.coordination.k8s.io (`events-to-register` in its manifest), which \
                   the built-in plugins do not watch";
    bench.shows([("Hears", json!({"state": "refused", "lastReason": unheard, "calls": 0}))]).await;
    tells("Hears", unheard).await;
    bench.cluster.node_of(&name_of("HearsClaims", 0)).await;
    bench.cluster.node_of(&name_of("NewVersion", 0)).await;

    // A binary that asks for more does not replace a plugin that serves.
    bench.place("NewVersion", &guest("NewVersion", "Secret"));
    bench.shows([("NewVersion", json!({"state": "serving", "lastReason": wanted}))]).await;
    bench.shows([("NotGranted", json!({"state": "refused", "lastReason": wanted, "calls": 0}))]).await;
    let list = bench.list().await;
    assert_eq!(list["NewVersion"]["needs"]["objects"], json!([]));
    assert_eq!(list["Granted"]["needs"]["objects"], json!(["v1/ConfigMap"]));
    bench.cluster.create(&super::bench::pod_of("NewVersion", 1)).await;
    bench.cluster.node_of(&name_of("NewVersion", 1)).await;

    let seen = bench.cluster.until("everything was said", |_| true).await;
    // The text `never-shown`, and its form in a Secret.
    for hidden in ["never-shown", "bmV2ZXItc2hvd24="] {
        assert!(seen.messages.values().all(|text| !text.contains(hidden)), "{:?}", seen.messages);
        assert!(!bench.scheduler.process.text().contains(hidden));
    }
    for name in ["Granted", "NotGranted", "Hears"] {
        bench.place(name, &harmless(name, At::Filter).expect("a component"));
    }
    bench.cluster.all_bound(11).await;
}
