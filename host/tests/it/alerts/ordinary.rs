//! The events of an ordinary day of the replicas.

use std::{fs, time::Duration};

use super::{
    prometheus::{Moment, Scrape},
    replicas::{Bench, CONFIG, leads_with, stands_by_with},
};
use crate::{cluster::pod, plugin_life::place};

const ENOUGH: Duration = Duration::from_secs(60);

const PODS: usize = 20;

/// The leader is restarted and another replica takes over. Then pods come, one of which fits nowhere, and the plugin,
/// the configuration and the credentials are replaced.
pub(super) async fn work() -> Vec<Moment> {
    let bench = Bench::start().await;
    let first = bench.replica("a").await;
    let leading = leads_with(&first, 1).await;
    let second = bench.replica("b").await;
    let standing_by = stands_by_with(&second, 1).await;
    let mut moments = vec![Moment::from([("a", Some(leading)), ("b", Some(standing_by))])];

    first.process.terminate();
    let ended = first.process.ended(ENOUGH).await;
    assert!(ended.status.success(), "{}", ended.err);
    moments.push(Moment::from([("a", None), ("b", Some(leads_with(&second, 1).await))]));
    let first = bench.replica("a").await;
    let standing_by = stands_by_with(&first, 1).await;
    moments.push(Moment::from([("a", Some(standing_by)), ("b", Some(leads_with(&second, 1).await))]));

    let pods = (0..PODS).map(|number| pod(&format!("pod-{number}"), "100m", "64Mi"));
    bench.cluster.create_all(pods).await;
    bench.cluster.create(&pod("huge", "100", "1Gi")).await;
    Scrape::at_least(&second, "scheduler_pod_scheduling_sli_duration_seconds_count{", 20.0).await;
    bench.cluster.until("a reason", |seen| seen.messages.contains_key("huge")).await;
    bench.put("a", 2);
    stands_by_with(&first, 2).await;
    bench.put("b", 2);
    leads_with(&second, 2).await;
    place(&bench.config(), CONFIG.replace("podMaxBackoffSeconds: 1", "podMaxBackoffSeconds: 2").as_bytes());
    let kubeconfig = fs::read_to_string(bench.cluster.kubeconfig()).expect("a kubeconfig");
    place(&bench.cluster.kubeconfig(), format!("{kubeconfig}\n# another token\n").as_bytes());
    for scheduler in [&first, &second] {
        Scrape::at_least(scheduler, "berth_config_reloads_total{result=\"applied\"}", 1.0).await;
        Scrape::at_least(scheduler, "berth_credential_renewals_total{result=\"renewed\"}", 1.0).await;
    }
    let (first, second) = (stands_by_with(&first, 2).await, leads_with(&second, 2).await);
    moments.push(Moment::from([("a", Some(first)), ("b", Some(second))]));
    moments
}
