//! Files with mistakes, and a full disk.

use std::fs;

use berth_test_guests::{At, harmless};

use super::prometheus::{Moment, Scrape, alone};
use crate::{
    cluster::Cluster,
    hostile,
    plugin_life::{self, PLUGIN_CONFIG, place},
};

const CONFIG: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

const REFUSED: &str = "berth_config_reloads_total{result=\"refused\"}";

async fn start() -> Cluster {
    Cluster::start(&["--no-scheduler", "--nodes", "2"]).await
}

pub(super) async fn configuration_refused() -> Vec<Moment> {
    let cluster = start().await;
    let config = cluster.dir.path().join("config.yaml");
    fs::write(&config, CONFIG).expect("a file");
    let scheduler = cluster.scheduler(&["--config", &config.display().to_string()]).await;
    let before = Scrape::of(&scheduler).await;
    place(&config, format!("{CONFIG}percentageOfNodesToScore: 101\n").as_bytes());
    let after = Scrape::at_least(&scheduler, REFUSED, 1.0).await;
    vec![alone(before), alone(after)]
}

pub(super) async fn plugin_settings_refused() -> Vec<Moment> {
    let bench = plugin_life::Bench::start(PLUGIN_CONFIG).await;
    let before = Scrape::of(&bench.scheduler).await;
    bench.configure(&PLUGIN_CONFIG.replace("faults: 3", "faults: many"));
    let after = Scrape::at_least(&bench.scheduler, REFUSED, 1.0).await;
    vec![alone(before), alone(after)]
}

pub(super) async fn credentials_not_renewed() -> Vec<Moment> {
    let cluster = start().await;
    let scheduler = cluster.scheduler(&[]).await;
    let before = Scrape::of(&scheduler).await;
    place(&cluster.kubeconfig(), b"no kubeconfig: [");
    let failed = "berth_credential_renewals_total{result=\"failed\"}";
    let after = Scrape::at_least(&scheduler, failed, 1.0).await;
    vec![alone(before), alone(after)]
}

/// Linux has a file that is always full.
pub(super) async fn audit_entries_dropped() -> Vec<Moment> {
    const COUNTER: &str = "berth_audit_entries_dropped_total";
    let guest = hostile::bench::Guest::new("Audited", At::Filter, Vec::new()).late();
    let full = ["--audit-log", "/dev/full"];
    let bench = hostile::bench::Bench::start_with(start().await, vec![guest], "", &full).await;
    let before = Scrape::of(&bench.scheduler).await;
    bench.place("Audited", &harmless("Audited", At::Filter).expect("a component"));
    let after = Scrape::at_least(&bench.scheduler, COUNTER, before.sum(COUNTER) + 1.0).await;
    vec![alone(before), alone(after)]
}
