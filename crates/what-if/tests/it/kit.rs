//! Manifests of small clusters, and kube-scheduler's default profile.

use berth_builtins::factories;
use berth_config::{InTree, ProvidedPlugin};
use berth_framework::{BuildError, Grants, Profile};
use berth_what_if::{Cluster, ClusterReader};

pub(crate) fn profile() -> Profile {
    let config = berth_config::Profile::from_json(None, &InTree::new(&factories())).unwrap();
    let factories = factories();
    config
        .build(|name, args| {
            let factory = factories.iter().find(|factory| factory.manifest().name == **name).unwrap();
            let plugin = factory.build(args).unwrap();
            Ok::<_, BuildError>(Some(ProvidedPlugin { plugin, grants: Grants::ALL }))
        })
        .unwrap()
}

pub(crate) fn cluster(text: &str) -> Cluster {
    let mut reader = ClusterReader::default();
    reader.read("cluster.yaml", text);
    let (cluster, errors) = reader.finish();
    assert!(errors.is_empty(), "{errors:#?}");
    cluster
}

pub(crate) fn node(name: &str, zone: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, topology.kubernetes.io/zone: {zone}}}}}\nspec: {{}}\n\
         status: {{allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 10}}}}\n---\n"
    )
}

pub(crate) fn pod(name: &str, cpu: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{{more} containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n---\n"
    )
}
