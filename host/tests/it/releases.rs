//! The Kubernetes release that decides: the API server's, unless the command line names another.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::cluster::{Cluster, pod};

const FOUND: &str =
    "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node ";

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_is_of_the_release_of_its_api_server_unless_told_another() {
    for (server, arguments, release, said_by) in [
        ("1.37", &[][..], "1.37", "the API server"),
        ("1.37", &["--emulated-version=1.36"][..], "1.36", "--emulated-version"),
        ("1.36", &[][..], "1.36", "the API server"),
    ] {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1", "--kubernetes-version", server]).await;
        let classes: Api<PriorityClass> = Api::all(cluster.pods.clone().into_client());
        let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"});
        let class = serde_json::from_value(class).expect("a class");
        classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
        let mut scheduler = cluster.scheduler(arguments).await;
        let line = scheduler.process.line("making the decisions of kube-scheduler of this release").await;
        assert!(line.contains(release) && line.contains(said_by), "{line}");
        let is_new = release == "1.37";
        let text = scheduler.until("/metrics", |text| text.contains("scheduler_pending_pods{")).await;
        assert!(text.contains(&format!("git_version=\"v{release}.")), "{text}");
        assert_eq!(text.contains("scheduler_queued_entities{"), is_new, "{text}");
        let of_pods = "{group=\"\",name=\"kube-scheduler\",resource=\"pods\",version=\"v1\"}";
        for name in ["store_resource_version", "queued_items", "processing_latency_seconds_count"] {
            assert_eq!(text.contains(&format!("informer_{name}{of_pods}")), is_new, "{name}: {text}");
        }

        let mut low = pod("low", "12", "1Gi");
        low["spec"]["terminationGracePeriodSeconds"] = json!(0);
        cluster.create(&low).await;
        cluster.node_of("low").await;
        let mut high = pod("high", "12", "1Gi");
        high["spec"]["priorityClassName"] = json!("high");
        cluster.create(&high).await;
        cluster.node_of("high").await;
        let label = if is_new { "event=\"UnscheduledPodAdd\"" } else { "event=\"UnschedulablePodAdd\"" };
        scheduler.until("/metrics", |text| text.contains(label)).await;
        let seen = cluster.until("high told", |seen| seen.messages.contains_key("high")).await;
        assert_eq!(seen.messages["high"].contains(FOUND), is_new, "{seen:?}");
    }
}
