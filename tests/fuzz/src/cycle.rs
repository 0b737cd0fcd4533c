//! An arbitrary cluster and pod go through the whole cycle with all default plugins, twice. The cluster changes between
//! the two cycles.

use std::{convert::Infallible, sync::Arc};

use berth_cache::Cache;
use berth_config::{InTree, ProvidedPlugin};
use berth_framework::{
    Call, CycleId, DeltaSource as _, Grants, Needs, ObjectKind, PluginIdx, Profile, Removal,
    run::{self, Attempt, Decision, Diagnosis, Findings, NoNode, NodeSearch, NominatedPods, PreBindRun},
};
use berth_model::{ClusterTable, Columns, NodeIdx, NodeSet, Pod, PodUid, Symbols};
use serde_json::Value;

use crate::{
    cluster::FuzzCluster,
    single::{self, pods_on},
};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else { return };
    let Some((mut cluster, pod)) = FuzzCluster::build(&document) else { return };
    let mut profile = profile(document.get("profile"));
    let mut replica = Replica::default();
    replica.follow(cluster.cluster.cache());
    let chosen = cycle(&mut profile, &cluster, &pod, CycleId(1));
    alone(&mut profile, &cluster, &pod);
    change(&mut cluster, &pod, chosen);
    replica.follow(cluster.cluster.cache());
    cycle(&mut profile, &cluster, &pod, CycleId(2));
    alone(&mut profile, &cluster, &pod);
}

/// The document's profile, or the default profile if the document's profile is refused.
fn profile(document: Option<&Value>) -> Profile {
    let in_tree = InTree::new(&berth_builtins::factories());
    let config = berth_config::Profile::from_json(document, &in_tree)
        .or_else(|_| berth_config::Profile::from_json(None, &in_tree));
    let Ok(config) = config else { unreachable!("the default profile is valid") };
    let profile = config.build(|name, args| -> Result<_, Infallible> {
        let Some(factory) = berth_builtins::factory(name) else { return Ok(None) };
        let built = factory.build(args);
        assert!(built.is_ok(), "{name} refuses args that its configuration accepts: {args}");
        Ok(built.ok().map(|plugin| ProvidedPlugin { plugin, grants: Grants::ALL }))
    });
    let Ok(profile) = profile;
    profile
}

/// One attempt as in the scheduler, up to the binding and back. Returns the node that was found.
fn cycle(profile: &mut Profile, cluster: &FuzzCluster, pod: &Pod, id: CycleId) -> Option<NodeIdx> {
    let call = cluster.cluster.call(id.0, pod);
    let nominated = &cluster.cluster.nominated_pods(pod);
    let order = cluster.cluster.cache().order();
    let search = NodeSearch {
        order,
        start: order.len() / 2,
        percentage_of_nodes_to_score: 0,
        nominated,
        hint: None,
        extenders: None,
    };
    let mut attempt = Attempt::default();
    let Decision { outcome, findings } = run::place(profile, &call, &search, None, &mut attempt);
    let found = match outcome {
        Ok(node) => Some(node),
        Err(NoNode::Rejected(mut diagnosis)) => {
            rejected(profile, cluster, &call, &findings, nominated, &mut diagnosis);
            None
        }
        Err(NoNode::Broken(status)) => {
            assert!(!status.message().is_empty(), "an error without a text");
            None
        }
        Err(NoNode::EmptyCluster) => None,
    };
    if let Some(node) = found {
        bind(profile, &call, node);
    }
    let nodes: NodeSet = order.iter().copied().collect();
    let _ = run::diagnose_every_plugin(profile, &call, &nodes, &findings);
    profile.end_cycle(id);
    found
}

fn rejected(
    profile: &mut Profile,
    cluster: &FuzzCluster,
    call: &Call<'_>,
    findings: &Findings,
    nominated: &NominatedPods<'_>,
    diagnosis: &mut Diagnosis,
) {
    assert!(diagnosis.message().contains("nodes are available"), "{}", diagnosis.message());
    let removals: Vec<Removal> =
        call.table.nodes().iter().map(|node| Removal { node, pods: pods_on(cluster, node) }).collect();
    if let Ok(statuses) = run::dry_run(profile, call, findings, nominated, &removals) {
        assert_eq!(statuses.len(), removals.len());
    }
    run::post_filter(profile, call, findings, nominated, None, diagnosis);
}

fn bind(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) {
    if run::reserve(profile, call, node).is_ok() && run::permit(profile, call, node).is_ok() {
        let flights = run::pre_bind_pre_flight(profile, call, node).unwrap_or_default();
        let mut at = 0;
        while let Ok(PreBindRun::Group { next, .. }) = run::pre_bind(profile, call, node, at, &flights) {
            at = next;
        }
        let _ = run::bind(profile, call, node);
    }
    run::unreserve(profile, call, node);
}

/// Asks every plugin on its own.
fn alone(profile: &mut Profile, cluster: &FuzzCluster, pod: &Pod) {
    for index in (0u32..).take(profile.instances().len()) {
        if let Some(plugin) = profile.get(PluginIdx(index)) {
            single::ask(plugin, cluster, pod);
        }
    }
}

/// Removes pods and objects, changes nodes, and assumes the pod on the chosen node.
fn change(cluster: &mut FuzzCluster, pod: &Pod, chosen: Option<NodeIdx>) {
    let nodes = std::mem::take(&mut cluster.nodes);
    let (others, cluster) = (&cluster.others, &mut cluster.cluster);
    let leaving: Vec<PodUid> = cluster.table().pods().iter().map(|(_, pod, _)| pod.uid.clone()).step_by(2).collect();
    for uid in leaving {
        cluster.remove_pod(&uid);
    }
    if let Some(node) = chosen {
        let name = cluster.table().name(node);
        if let Ok(assumed) = cluster.cache_mut().assume(&Arc::new(pod.clone()), name) {
            assumed.settled();
        }
    }
    for object in others.iter().step_by(3) {
        cluster.remove_object(object);
    }
    for (at, mut node) in nodes.into_iter().enumerate() {
        node.spec.unschedulable = !node.spec.unschedulable;
        node.metadata.labels.pop_last();
        if at % 4 == 3 {
            cluster.remove_node(&node.metadata.name);
        } else {
            cluster.set_node(&node);
        }
    }
    cluster.settle();
}

/// A table as in a component.
#[derive(Default)]
struct Replica {
    table: ClusterTable,
    generation: u64,
}

impl Replica {
    fn follow(&mut self, source: &Cache) {
        let objects = [("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim")];
        let kind = |(api_version, kind): (&str, &str)| ObjectKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let needs =
            Needs { columns: Columns::all(), pods: true, objects: objects.map(kind).to_vec(), ..Needs::default() };
        let delta = source.delta_since(&needs, self.generation, self.table.symbols_position());
        self.generation = delta.generation;
        self.table.apply(&delta);
        let (own, other) = (&self.table, source.table());
        assert!(own.nodes() == other.nodes(), "a replica has the nodes of its source");
        assert_eq!(own.pods().n_pods(), other.pods().n_pods(), "and its pods");
        assert!(own.symbols.len() >= Symbols::default().len());
        for node in own.nodes().iter() {
            assert_eq!(own.name(node), other.name(node));
            assert_eq!(own.labels().of(node), other.labels().of(node));
        }
    }
}
