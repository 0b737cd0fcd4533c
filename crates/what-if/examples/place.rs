//! `berth simulate` without components. This program builds in a minute. It places the pods of manifests with
//! kube-scheduler's default profile, and prints the time for reading and placing. It can also answer a batch with a
//! number of variants and pods.
//!
//! ```console
//! cargo run --release -p berth-what-if --example place -- --make 5000 10000 /tmp/cluster
//! cargo run --release -p berth-what-if --example place -- /tmp/cluster/*
//! cargo run --release -p berth-what-if --example place -- --what-if 100 1000 /tmp/cluster/nodes.yaml
//! ```

#![expect(clippy::print_stdout, reason = "a program that measures")]

use std::{error::Error, fmt::Write as _, fs, path::Path, time::Instant};

use berth_builtins::factories;
use berth_config::{InTree, ProvidedPlugin};
use berth_framework::{BuildError, Grants, Profile};
use berth_scheduler::Settings;
use berth_what_if::{
    API_VERSION, Arrival, Batch, BatchBounds, Cluster, ClusterReader, Conditions, Report, WhatIfRequest, place, what_if,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--make", n_nodes, n_pods, folder] => make(n_nodes.parse()?, n_pods.parse()?, Path::new(folder)),
        ["--what-if", n_variants, n_pods, files @ ..] => ask(n_variants.parse()?, n_pods.parse()?, files),
        files => place_pods_of(files),
    }
}

fn read(files: &[&str]) -> Result<Cluster, Box<dyn Error>> {
    let mut reader = ClusterReader::default();
    for file in files {
        reader.read(file, &fs::read_to_string(file)?);
    }
    let (cluster, errors) = reader.finish();
    for error in errors {
        println!("{error}");
    }
    Ok(cluster)
}

fn conditions<'a>() -> Result<Conditions<'a>, Box<dyn Error>> {
    Ok(Conditions {
        settings: Settings::default(),
        profiles: vec![profile()?],
        tell_time: Box::new(|_| ()),
        whole_pods: false,
        arrival: Arrival::Together,
        is_over: &|| false,
    })
}

/// Each variant adds other nodes and removes one node.
fn ask(n_variants: usize, n_pods: usize, files: &[&str]) -> Result<(), Box<dyn Error>> {
    let cluster = read(files)?;
    let node = cluster.nodes().first().map(|node| (*node.object).clone()).ok_or("a cluster without nodes")?;
    let names = || cluster.nodes().iter().map(|node| &node.node.metadata.name);
    let variants = names().cycle().take(n_variants).enumerate().map(|(number, name)| {
        let mut node = node.clone();
        node["metadata"]["name"] = json!(format!("added-{number}"));
        json!({"name": format!("variant-{number}"), "addNodes": [{"count": 1 + number % 10, "node": node}],
            "removeNodes": [name]})
    });
    let pods = (0..n_pods).map(|pod| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("asked-{pod}"), "labels": {"app": format!("app-{}", pod % 10)}},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{}m", 100 + pod % 7 * 100)}}}]}})
    });
    let request = json!({"apiVersion": API_VERSION, "kind": "WhatIf",
        "pods": pods.collect::<Vec<_>>(), "variants": variants.collect::<Vec<_>>()});
    let request: WhatIfRequest = serde_json::from_value(request)?;
    let batch = Batch { bounds: BatchBounds::DEFAULT, scheduler_name: None };
    let start = Instant::now();
    let answer = what_if(&cluster, &request, &batch, conditions()?)?;
    let n_placed: usize = answer.variants.iter().map(|variant| variant.placed).sum();
    println!("{n_variants} variants with {n_pods} pods each in {:?}: {n_placed} pods placed", start.elapsed());
    Ok(())
}

fn place_pods_of(files: &[&str]) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let cluster = read(files)?;
    let read = start.elapsed();
    let placed = place(&cluster, conditions()?)?;
    let placed_after = start.elapsed();
    let report = Report::new(&cluster, placed);
    let json = serde_json::to_string(&report)?;
    println!(
        "{:?}: read in {read:?}, placed in {:?}, reported in {:?} ({} bytes); in all {:?}",
        report.summary,
        placed_after - read,
        start.elapsed() - placed_after,
        json.len(),
        start.elapsed()
    );
    Ok(())
}

/// The default profile of kube-scheduler.
fn profile() -> Result<Profile, Box<dyn Error>> {
    let factories = factories();
    let config = berth_config::Profile::from_json(None, &InTree::new(&factories))?;
    let profile = config.build(|name, args| {
        let factory = factories.iter().find(|factory| factory.manifest().name == **name);
        let plugin = factory.map(|factory| factory.build(args)).transpose()?;
        Ok::<_, BuildError>(plugin.map(|plugin| ProvidedPlugin { plugin, grants: Grants::ALL }))
    })?;
    Ok(profile)
}

/// Writes a cluster of three zones as YAML and as JSON, and pods of ten kinds as YAML.
fn make(n_nodes: usize, n_pods: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut yaml = String::new();
    for node in 0..n_nodes {
        let zone = node % 3;
        write!(
            yaml,
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-{node}\n  labels:\n    kubernetes.io/hostname: node-{node}\n    \
             topology.kubernetes.io/zone: zone-{zone}\nstatus:\n  allocatable:\n    cpu: \"8\"\n    memory: 32Gi\n    pods: \"110\"\n---\n"
        )?;
    }
    fs::write(folder.join("nodes.yaml"), yaml)?;
    let mut yaml = String::new();
    for pod in 0..n_pods {
        let (app, cpu) = (pod % 10, 100 + pod % 7 * 100);
        write!(
            yaml,
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-{pod}\n  namespace: default\n  labels:\n    app: app-{app}\nspec:\n  \
             containers:\n  - name: main\n    image: example.com/app-{app}:1\n    resources:\n      requests:\n        cpu: {cpu}m\n        \
             memory: 512Mi\n---\n"
        )?;
    }
    fs::write(folder.join("pods.yaml"), yaml)?;
    Ok(())
}
