//! The list of workloads, and the scene of each workload.

use berth_testing::PodMaker;
use serde_json::Value;

use super::{
    Size, Workload,
    affinity::{self, Where},
    devices::{self, Ask},
    nodes,
    pods::{self, default_pod},
    scene::{Change, Changes, Pods, Scene},
    volumes::{self, Disk},
};

const MOONS: &[&str] = &["moon-1", "moon-2", "moon-3"];
const ONE_ZONE: &[&str] = &["zone1"];

/// The number of pods in each namespace, if there are many namespaces.
const PER_NAMESPACE: usize = 40;

/// The number of pods that are bound between two changes, if 500 pods are bound in a second. This rate is near
/// scheduler_perf's thresholds. A run has at least ten changes.
fn pods_between(size: Size, changes_a_second: usize) -> usize {
    (500 / changes_a_second).min(size.measured.div_ceil(10)).max(1)
}

const fn size(nodes: usize, initial: usize, measured: usize) -> Size {
    Size { nodes, initial, measured }
}

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload { name: "SchedulingBasic", full: size(5000, 1000, 10_000), scene: |size| plain(size, &[]) },
    Workload { name: "SchedulingPodAntiAffinity", full: size(5000, 1000, 2000), scene: pod_anti_affinity },
    Workload {
        name: "SchedulingPodMatchingAntiAffinity",
        full: size(5000, 1000, 5000),
        scene: pod_matching_anti_affinity,
    },
    Workload { name: "SchedulingPodAffinity", full: size(5000, 5000, 5000), scene: pod_affinity },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        full: size(5000, 5000, 5000),
        scene: |size| in_two_namespaces(size, &[], affinity::preferred_affinity),
    },
    Workload {
        name: "SchedulingPreferredPodAntiAffinity",
        full: size(5000, 5000, 5000),
        scene: |size| in_two_namespaces(size, &[], affinity::preferred_anti_affinity),
    },
    Workload { name: "SchedulingNodeAffinity", full: size(5000, 5000, 10_000), scene: node_affinity },
    Workload { name: "MixedSchedulingBasePod", full: size(5000, 10_000, 5000), scene: mixed },
    Workload {
        name: "SchedulingRequiredPodAntiAffinityWithNSSelector",
        full: size(6000, 4000, 2000),
        scene: |size| in_many_namespaces(size, &[], affinity::anti_affinity),
    },
    Workload {
        name: "SchedulingPreferredAntiAffinityWithNSSelector",
        full: size(5000, 4000, 2000),
        scene: |size| in_many_namespaces(size, &[], affinity::preferred_anti_affinity),
    },
    Workload {
        name: "SchedulingRequiredPodAffinityWithNSSelector",
        full: size(5000, 4000, 2000),
        scene: |size| in_many_namespaces(size, ONE_ZONE, affinity::affinity),
    },
    Workload {
        name: "SchedulingPreferredAffinityWithNSSelector",
        full: size(5000, 4000, 5000),
        scene: |size| in_many_namespaces(size, &[], affinity::preferred_affinity),
    },
    Workload {
        name: "TopologySpreading",
        full: size(5000, 5000, 5000),
        scene: |size| spreading(size, "DoNotSchedule"),
    },
    Workload {
        name: "PreferredTopologySpreading",
        full: size(5000, 5000, 5000),
        scene: |size| spreading(size, "ScheduleAnyway"),
    },
    Workload { name: "DefaultTopologySpreading", full: size(5000, 5000, 10_000), scene: default_spreading },
    Workload { name: "SchedulingWithMixedChurn", full: size(5000, 0, 10_000), scene: mixed_churn },
    Workload { name: "Unschedulable", full: size(5000, 20_000, 10_000), scene: unschedulable },
    Workload { name: "SchedulingWhileGated", full: size(1, 20_000, 20_000), scene: while_gated },
    Workload { name: "GatedPodsWithPodAffinity", full: size(1, 0, 20_000), scene: gated_with_affinity },
    Workload { name: "SchedulingDaemonset", full: size(15_000, 0, 30_000), scene: daemon_set },
    Workload { name: "PreemptionBasic", full: size(1000, 4000, 1000), scene: preemption },
    Workload { name: "PreemptionAsync", full: size(5000, 20_000, 5000), scene: preemption_beside },
    Workload { name: "PreemptionPVs", full: size(1000, 4000, 1000), scene: preemption_with_volumes },
    Workload { name: "SchedulingSecrets", full: size(5000, 1000, 10_000), scene: secrets },
    Workload {
        name: "SchedulingInTreePVs",
        full: size(5000, 1000, 2000),
        scene: |size| bound_volumes(size, Disk::InTree, None),
    },
    Workload {
        name: "SchedulingMigratedInTreePVs",
        full: size(5000, 5000, 5000),
        scene: |size| bound_volumes(size, Disk::InTree, Some(true)),
    },
    Workload {
        name: "SchedulingCSIPVs",
        full: size(5000, 5000, 5000),
        scene: |size| bound_volumes(size, Disk::Csi, Some(false)),
    },
    Workload { name: "SchedulingWithExtendedResource", full: size(5000, 0, 5000), scene: extended_resource },
    Workload {
        name: "SchedulingWithResourceClaimTemplate",
        full: size(500, 2500, 2500),
        scene: |size| claim_templates(size, Ask::One),
    },
    Workload {
        name: "SchedulingWithResourceClaimTemplateToleration",
        full: size(500, 2500, 2500),
        scene: |size| claim_templates(size, Ask::Tolerating),
    },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplate",
        full: size(500, 0, 2500),
        scene: |size| steady_claims(size, Ask::One),
    },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplateFirstAvailable",
        full: size(500, 0, 2500),
        scene: |size| steady_claims(size, Ask::FirstAvailable),
    },
    Workload { name: "SchedulingWithResourceClaim", full: size(500, 2500, 2500), scene: shared_claims },
];

const INIT: &str = "init";
const MEASURED: &str = "pod";

/// Pods of one kind.
fn lot(n: usize, prefix: &'static str, make: impl Fn(PodMaker) -> PodMaker + 'static) -> Pods {
    Pods::new(n, move |index| make(default_pod(prefix, index)).json())
}

fn plain(size: Size, zones: &'static [&'static str]) -> Scene {
    Scene {
        nodes: nodes::nodes(size.nodes, zones),
        initial: lot(size.initial, INIT, |pod| pod),
        measured: lot(size.measured, MEASURED, |pod| pod),
        ..Scene::default()
    }
}

fn in_two_namespaces(size: Size, zones: &'static [&'static str], kind: fn(PodMaker, Where) -> PodMaker) -> Scene {
    Scene {
        objects: ["sched-0", "sched-1"].map(pods::namespace).into(),
        initial: lot(size.initial, INIT, move |pod| kind(pod.namespace("sched-0"), Where::Named)),
        measured: lot(size.measured, MEASURED, move |pod| kind(pod.namespace("sched-1"), Where::Named)),
        ..plain(size, zones)
    }
}

fn pod_anti_affinity(size: Size) -> Scene {
    in_two_namespaces(size, &[], affinity::anti_affinity)
}

fn pod_matching_anti_affinity(size: Size) -> Scene {
    let measured = |pod: PodMaker| pod.namespace("sched-1").label("color", "green");
    Scene { measured: lot(size.measured, MEASURED, measured), ..pod_anti_affinity(size) }
}

fn pod_affinity(size: Size) -> Scene {
    in_two_namespaces(size, ONE_ZONE, affinity::affinity)
}

fn node_affinity(size: Size) -> Scene {
    Scene {
        initial: lot(size.initial, INIT, pods::with_node_affinity),
        measured: lot(size.measured, MEASURED, pods::with_node_affinity),
        ..plain(size, ONE_ZONE)
    }
}

/// Ordinary pods among pods of five kinds.
fn mixed(size: Size) -> Scene {
    let n = size.initial;
    let initial = move |index: usize| {
        let pod = default_pod(INIT, index).namespace("sched-0");
        let pod = match index * 5 / n {
            0 => pod,
            1 => affinity::affinity(pod, Where::Named),
            2 => affinity::anti_affinity(pod, Where::Named),
            3 => affinity::preferred_affinity(pod, Where::Named),
            _ => affinity::preferred_anti_affinity(pod, Where::Named),
        };
        pod.json()
    };
    Scene { objects: vec![pods::namespace("sched-0")], initial: Pods::new(n, initial), ..plain(size, ONE_ZONE) }
}

fn in_many_namespaces(size: Size, zones: &'static [&'static str], kind: fn(PodMaker, Where) -> PodMaker) -> Scene {
    let name = |number: usize| format!("init-ns-{number}");
    let n_namespaces = size.initial.div_ceil(PER_NAMESPACE);
    let initial = move |index: usize| {
        kind(default_pod(INIT, index).namespace(&name(index / PER_NAMESPACE)), Where::Selected).json()
    };
    let mut objects: Vec<Value> = (0..n_namespaces).map(|number| pods::namespace(&name(number))).collect();
    objects.push(pods::namespace("measure-ns-0"));
    Scene {
        objects,
        initial: Pods::new(size.initial, initial),
        measured: lot(size.measured, MEASURED, move |pod| kind(pod.namespace("measure-ns-0"), Where::Selected)),
        ..plain(size, zones)
    }
}

fn spreading(size: Size, action: &'static str) -> Scene {
    Scene { measured: lot(size.measured, MEASURED, move |pod| pods::spreading(pod, action)), ..plain(size, MOONS) }
}

/// Pods of a service, which the profile's default constraints spread.
fn default_spreading(size: Size) -> Scene {
    let measured = |pod: PodMaker| pod.namespace("service-ns").label("app", "scheduler-perf");
    Scene {
        objects: vec![pods::namespace("service-ns"), pods::service("service-ns", "service")],
        measured: lot(size.measured, MEASURED, measured),
        ..plain(size, MOONS)
    }
}

/// A node, a pod that fits nowhere and a service are replaced once a second.
fn mixed_churn(size: Size) -> Scene {
    let changing = |number: usize| {
        [
            nodes::churning_node(number),
            pods::too_large("churn", number).json(),
            pods::service("default", &format!("churn-{number}")),
        ]
    };
    let change = move |number: usize| {
        let gone = number.checked_sub(1).map(changing).into_iter().flatten().map(Change::Delete);
        gone.chain(changing(number).map(Change::Create)).collect()
    };
    Scene {
        objects: vec![pods::priority_class()],
        changes: Some(Changes::new(pods_between(size, 1), change)),
        ..plain(size, &[])
    }
}

/// New pods that fit nowhere keep coming.
fn unschedulable(size: Size) -> Scene {
    let change = |number: usize| vec![Change::Create(pods::too_large("churn", number).json())];
    Scene {
        objects: vec![pods::priority_class()],
        changes: Some(Changes::new(pods_between(size, 5), change)),
        ..plain(size, &[])
    }
}

/// Gated pods, half as many as the initial pods, wait, and the initial pods are deleted one by one.
fn while_gated(size: Size) -> Scene {
    let light = |n: usize, prefix: &'static str| Pods::new(n, move |index| pods::light_pod(prefix, index).json());
    let n_initial = size.initial;
    let change = move |number: usize| {
        let gone = (number < n_initial).then(|| Change::Delete(pods::light_pod(INIT, number).json()));
        gone.into_iter().collect()
    };
    Scene {
        nodes: vec![nodes::named_node()],
        initial: light(size.initial, INIT),
        pending: Pods::new(size.initial / 2, |index| pods::gated("gated", index).json()),
        measured: light(size.measured, MEASURED),
        changes: Some(Changes::new(pods_between(size, 25), change)),
        ..Scene::default()
    }
}

fn gated_with_affinity(size: Size) -> Scene {
    let gated = |index: usize| affinity::gated_with_affinity(pods::gated("gated", index)).json();
    Scene {
        nodes: vec![nodes::named_node()],
        pending: Pods::new(size.measured / 2, gated),
        measured: Pods::new(size.measured, |index| pods::light_pod(MEASURED, index).json()),
        ..Scene::default()
    }
}

fn daemon_set(size: Size) -> Scene {
    let mut nodes = nodes::nodes(size.nodes, &[]);
    nodes.push(nodes::named_node());
    Scene {
        nodes,
        measured: Pods::new(size.measured, |index| pods::daemon(MEASURED, index).json()),
        ..Scene::default()
    }
}

fn filled(size: Size) -> Scene {
    Scene {
        objects: vec![pods::priority_class()],
        initial: Pods::new(size.initial, |index| pods::low_priority(INIT, index).json()),
        ..plain(size, &[])
    }
}

/// Each measured pod preempts three other pods.
fn preemption(size: Size) -> Scene {
    Scene { measured: Pods::new(size.measured, |index| pods::high_priority(MEASURED, index).json()), ..filled(size) }
}

/// Ordinary pods, while other pods preempt.
fn preemption_beside(size: Size) -> Scene {
    let change = |number: usize| vec![Change::Create(pods::high_priority("churn", number).json())];
    Scene { changes: Some(Changes::new(pods_between(size, 5), change)), ..filled(size) }
}

fn preemption_with_volumes(size: Size) -> Scene {
    let measured = |index| volumes::with_claim(pods::high_priority(MEASURED, index), MEASURED, index).json();
    let mut scene = Scene { measured: Pods::new(size.measured, measured), ..filled(size) };
    scene.objects.extend((0..size.measured).flat_map(|index| volumes::bound_volume(MEASURED, index, Disk::InTree)));
    scene
}

fn secrets(size: Size) -> Scene {
    Scene {
        initial: lot(size.initial, INIT, volumes::with_secret),
        measured: lot(size.measured, MEASURED, volumes::with_secret),
        ..plain(size, &[])
    }
}

/// If `limited` is set, each node gets a CSINode, which limits the node's number of volumes. The value says whether CSI
/// attaches the volumes of the in-tree plugin.
fn bound_volumes(size: Size, disk: Disk, limited: Option<bool>) -> Scene {
    let pods = |n: usize, prefix: &'static str| {
        Pods::new(n, move |index| volumes::with_claim(default_pod(prefix, index), prefix, index).json())
    };
    let volumes = |n: usize, prefix| (0..n).flat_map(move |index| volumes::bound_volume(prefix, index, disk));
    let csi_nodes =
        limited.into_iter().flat_map(|migrates| (0..size.nodes).map(move |node| nodes::csi_node(node, migrates)));
    let objects = csi_nodes.chain(volumes(size.initial, INIT)).chain(volumes(size.measured, MEASURED));
    Scene {
        objects: objects.collect(),
        initial: pods(size.initial, INIT),
        measured: pods(size.measured, MEASURED),
        ..plain(size, &[])
    }
}

fn extended_resource(size: Size) -> Scene {
    const RESOURCE: &str = "example.com/foo";
    Scene {
        nodes: nodes::with_resource(size.nodes, RESOURCE, "10"),
        initial: Pods::default(),
        measured: lot(size.measured, MEASURED, |pod| pods::with_resource(pod, RESOURCE)),
        ..Scene::default()
    }
}

/// Nodes with `per_node` devices each.
fn with_devices(size: Size, per_node: usize, ask: Ask) -> Scene {
    let mut objects = vec![pods::namespace("init"), pods::namespace("test"), devices::class()];
    objects.extend((0..size.nodes).map(|node| devices::slice(node, per_node, ask)));
    Scene { nodes: nodes::nodes(size.nodes, &[]), objects, ..Scene::default() }
}

/// Each pod has a separate claim, which a controller makes.
fn claim_templates(size: Size, ask: Ask) -> Scene {
    let pods = |n: usize, (prefix, namespace): (&'static str, &'static str)| {
        Pods::new(n, move |index| {
            devices::with_template(pods::light_pod(prefix, index).namespace(namespace), prefix, index).json()
        })
    };
    let claims = |n: usize, (prefix, namespace): (&'static str, &'static str)| {
        (0..n).map(move |index| devices::generated_claim(namespace, prefix, index, ask))
    };
    let (initial, measured) = ((INIT, "init"), (MEASURED, "test"));
    let mut scene = with_devices(size, devices::PER_NODE, ask);
    scene.objects.extend(["init", "test"].map(|namespace| devices::template(namespace, ask)));
    scene.made_by_controllers = claims(size.initial, initial).chain(claims(size.measured, measured)).collect();
    scene.initial = pods(size.initial, initial);
    scene.measured = pods(size.measured, measured);
    scene
}

/// The scene of [`claim_templates`], in which ten pods are deleted for each ten that are bound.
fn steady_claims(size: Size, ask: Ask) -> Scene {
    const LOT: usize = 10;
    let change = move |number: usize| {
        let gone = number.checked_sub(1).map(|number| number * LOT..(number + 1) * LOT);
        let delete = |index: usize| {
            let pod = pods::light_pod(MEASURED, index).namespace("test").json();
            [pod, devices::generated_claim("test", MEASURED, index, ask)].map(Change::Delete)
        };
        gone.into_iter().flatten().flat_map(delete).collect()
    };
    Scene { changes: Some(Changes::new(LOT, change)), ..claim_templates(size, ask) }
}

/// Five pods share a claim, and nodes have two devices.
fn shared_claims(size: Size) -> Scene {
    const SHARING: usize = 5;
    let pods = |n: usize, (prefix, namespace): (&'static str, &'static str)| {
        Pods::new(n, move |index| {
            let pod = pods::light_pod(prefix, index).namespace(namespace);
            devices::with_claim(pod, &format!("claim-{}", index / SHARING)).json()
        })
    };
    let claims = |n: usize, namespace: &'static str| {
        (0..n.div_ceil(SHARING)).map(move |number| devices::claim(namespace, &format!("claim-{number}"), Ask::One))
    };
    let mut scene = with_devices(size, 2, Ask::One);
    scene.objects.extend(claims(size.initial, "init").chain(claims(size.measured, "test")));
    scene.initial = pods(size.initial, (INIT, "init"));
    scene.measured = pods(size.measured, (MEASURED, "test"));
    scene
}
