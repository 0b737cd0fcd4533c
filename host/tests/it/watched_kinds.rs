//! The watch of a kind ends with the last plugin that reads the kind, and begins again with the next such plugin.

use std::fs;

use berth_test_guests::shows_objects;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    cluster::{Cluster, pod},
    forbidden_kinds::flags_of_reader,
    plugin_life::place,
};

async fn create(maps: &Api<ConfigMap>, text: &str) {
    let map = serde_json::from_value(json!({"metadata": {"name": "map"}, "data": {"seen": text}}));
    maps.create(&PostParams::default(), &map.expect("a map")).await.expect("the sandbox takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_of_a_kind_ends_with_its_last_reader() {
    // kube-scheduler has metrics of informers from 1.37 on.
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1", "--kubernetes-version", "1.37"]).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.pods.clone().into_client());
    create(&maps, "the-first-text").await;
    let files = flags_of_reader(&cluster, "Shows", "v1", "ConfigMap");
    let mut scheduler = cluster.scheduler(&files.each_ref().map(String::as_str)).await;
    let tells = |pod: &'static str, what: &'static str| {
        cluster.until(what, move |seen| seen.messages.get(pod).is_some_and(|text| text.contains(what)))
    };
    cluster.create(&pod("early", "100m", "16Mi")).await;
    tells("early", "the-first-text").await;
    let is_watched = |text: &str| text.contains("resource=\"configmaps\"");
    scheduler.until("/metrics", is_watched).await;

    let file = cluster.dir.path().join("plugins/Shows.wasm");
    fs::remove_file(&file).expect("it is there");
    scheduler.process.line("no plugin needs this kind any more; ending its watch").await;
    scheduler.until("/metrics", |text| text.contains("resource=\"pods\"") && !is_watched(text)).await;

    // No watch sees this change.
    maps.delete("map", &DeleteParams::default()).await.expect("it is there");
    create(&maps, "the-second-text").await;
    cluster.create(&pod("late", "100m", "16Mi")).await;
    tells("late", "is missing").await;
    place(&file, &shows_objects("Shows", "v1", "ConfigMap").expect("a component"));
    scheduler.process.line("the objects of this kind are listed; retrying").await;
    tells("late", "the-second-text").await;
    scheduler.until("/metrics", is_watched).await;
}
