//! Pods are placed on the nodes that suit them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{condition, node, pod},
};

/// Each pod has exactly one suitable node.
pub(super) async fn placement(bench: &Bench) -> Result<()> {
    let mut tainted = node("tainted", json!({"zone": "west"}));
    tainted["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    let mut cordoned = node("cordoned", json!({"zone": "north", "disk": "ssd"}));
    cordoned["spec"]["unschedulable"] = json!(true);
    let (east, south) = (node("east", json!({"zone": "east", "disk": "ssd"})), node("south", json!({"zone": "south"})));
    bench.nodes(&[tainted, cordoned, east, south]).await?;
    let _scheduler = bench.scheduler().await?;
    let near_selected = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "selected"}}}
    ]}});
    let port = json!([{"name": "main", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Honor", "labelSelector": {"matchLabels": {"team": "spread"}}}]);
    let in_both = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east", "south"]}]}
    ]}}});
    let prefers_south = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["south"]}]}}
    ]}});
    let cases: [(&str, Value, &str); 7] = [
        ("selected", json!({"nodeSelector": {"disk": "ssd"}}), "east"),
        ("near", json!({"affinity": near_selected}), "east"),
        ("preferring", json!({"affinity": prefers_south}), "south"),
        (
            "tolerant",
            json!({"nodeSelector": {"zone": "west"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}),
            "tainted",
        ),
        ("first-port", json!({"containers": port, "nodeSelector": {"zone": "east"}}), "east"),
        ("second-port", json!({"containers": port}), "south"),
        (
            "spread-a",
            json!({"topologySpreadConstraints": spread, "affinity": in_both, "nodeSelector": {"zone": "east"}}),
            "east",
        ),
    ];
    for (name, spec, expected) in cases {
        let mut pod = pod(name, "100m", spec);
        if name.starts_with("spread") {
            pod["metadata"]["labels"]["team"] = json!("spread");
        }
        bench.create(&pod).await?;
        let found = bench.node_of(name).await?;
        ensure!(found == expected, "{name} is on {found}, not on {expected}");
    }
    let mut other = pod("spread-b", "100m", json!({"topologySpreadConstraints": spread, "affinity": in_both}));
    other["metadata"]["labels"]["team"] = json!("spread");
    bench.create(&other).await?;
    ensure!(bench.node_of("spread-b").await? == "south", "the skew would be 2 on east");
    let bound = bench.pod("spread-b").await?.unwrap_or_default();
    ensure!(condition(&bound, "PodScheduled")["status"] == "True", "{bound}");
    Ok(())
}

/// Two profiles of one process, and a pod that belongs to neither.
pub(super) async fn profiles(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("empty", json!({})), node("full", json!({}))]).await?;
    let packing = json!({"name": "NodeResourcesFit", "args": {"scoringStrategy": {
        "type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    }}});
    let balanced = json!({"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}});
    let config = bench.configuration(json!({
        "leaderElection": {"leaderElect": false},
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "packing", "plugins": balanced, "pluginConfig": [packing]},
        ],
    }))?;
    let _scheduler = bench.scheduler_with(&["--config", &config]).await?;
    bench.create(&pod("large", "2", json!({"nodeSelector": {"kubernetes.io/hostname": "full"}}))).await?;
    bench.node_of("large").await?;
    bench.create(&pod("other", "100m", json!({"schedulerName": "nobodys"}))).await?;
    bench.create(&pod("spreads", "100m", json!({}))).await?;
    ensure!(bench.node_of("spreads").await? == "empty", "LeastAllocated");
    bench.create(&pod("packs", "100m", json!({"schedulerName": "packing"}))).await?;
    ensure!(bench.node_of("packs").await? == "full", "MostAllocated");
    let event = bench.event("packs", "Scheduled").await?;
    ensure!(event["reportingController"] == "packing", "{event}");
    let other = bench.pod("other").await?.unwrap_or_default();
    ensure!(other["spec"]["nodeName"].is_null() && other["status"]["conditions"].is_null(), "{other}");
    Ok(())
}
