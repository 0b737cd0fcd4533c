//! The pods of a soak, and the other events that the scheduler must handle.

use std::path::Path;

use anyhow::Result;
use berth_cluster::{ConnectOptions, Creator, connect};
use serde_json::{Value, json};

/// The beginning of the user agent in the scheduler's requests.
const SCHEDULER: &str = "berth/";

/// The number of pods of an unserved profile at a time.
const N_FOREIGN: u64 = 20;

/// A pod with texts that no earlier pod had.
pub(crate) fn pod(name: &str, number: u64) -> Value {
    let image = if number.is_multiple_of(200) { "i".repeat(200_000) } else { format!("registry.example.com/{name}") };
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "soak", "job": name, format!("key-{number}"): "x"}},
        "spec": {
            "containers": [{
                "name": "main",
                "image": format!("{image}:{number}"),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }],
            "tolerations": [{"key": format!("taint-{number}"), "operator": "Exists"}],
        },
    });
    if number.is_multiple_of(10) {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job": name}}});
        pod["spec"]["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    pod
}

/// Faults for a small share of the scheduler's requests to the API server, during the whole run.
pub(crate) fn faults(seed: u64) -> Value {
    let rule = |number: u64, matches: Value, fault: Value, probability: f64| {
        let seed = seed.wrapping_mul(100).wrapping_add(number);
        json!({"match": matches, "fault": fault, "probability": probability, "seed": seed})
    };
    let all = json!({"userAgent": SCHEDULER});
    let watches = json!({"userAgent": SCHEDULER, "verbs": ["watch"]});
    let bindings = json!({"userAgent": SCHEDULER, "resources": ["pods/binding"]});
    Value::Array(vec![
        rule(1, all.clone(), json!({"type": "Status", "code": 500}), 0.003),
        rule(2, all, json!({"type": "Latency", "milliseconds": 300}), 0.005),
        rule(3, bindings, json!({"type": "LostAnswer"}), 0.001),
        rule(4, watches.clone(), json!({"type": "CutWatch", "afterMilliseconds": 3000}), 0.1),
        rule(5, watches, json!({"type": "DuplicateEvents"}), 0.02),
    ])
}

/// Pods of an unserved profile, with image names of 500 kB.
pub(crate) struct ForeignPods {
    creator: Creator,
    n_made: u64,
}

impl ForeignPods {
    pub(crate) async fn new(kubeconfig: &Path) -> Result<Self> {
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ConnectOptions::default() };
        Ok(Self { creator: Creator::new(connect(&options).await?.client()), n_made: 0 })
    }

    /// Adds a pod, unless enough pods exist.
    pub(crate) async fn add_one(&mut self) -> Result<()> {
        if self.n_made < N_FOREIGN {
            let name = format!("foreign-{}", self.n_made);
            let mut pod = pod(&name, self.n_made);
            pod["spec"]["schedulerName"] = "nobody".into();
            pod["spec"]["containers"][0]["image"] = format!("{name}{}", "y".repeat(500_000)).into();
            self.creator.create(&pod).await?;
            self.n_made += 1;
        }
        Ok(())
    }
}
