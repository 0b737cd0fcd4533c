//! Counting volumes: which volumes count, which volumes count only once, and changes while claims are being bound.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{Features, PodUid, Release};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    storage::testing::{bound, claim, class, merged, node, pod, pod_with, volume},
    testing::{TestCluster, show, verdicts},
};

const REJECTED: &str = "Unschedulable: node(s) exceed max volume count";

fn plugin() -> NodeVolumeLimits {
    NodeVolumeLimits::new("").unwrap()
}

fn csi_node(name: &str, limits: &[(&str, i64)]) -> Value {
    let drivers = limits.iter().map(|(driver, count)| json!({"name": driver, "allocatable": {"count": count}}));
    let drivers: Vec<Value> = drivers.chain([json!({"name": "boundless"})]).collect();
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": drivers}})
}

fn attachment(name: &str, node: &str, volume: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "disk", "nodeName": node, "source": {"persistentVolumeName": volume}}})
}

/// A node that can hold two volumes of `disk` and holds `a`; claims and volumes `a`, `b` and `c`.
fn small() -> (TestCluster, NodeIdx) {
    let mut cluster = TestCluster::default();
    let here = node(&mut cluster, "here", &[]);
    cluster.set_object(&csi_node("here", &[("disk", 2)]));
    for name in ["a", "b", "c"] {
        cluster.set_object(&volume(name, "", "1Gi"));
        cluster.set_object(&bound(claim(name, "", "1Gi"), name));
    }
    let user = pod(&mut cluster, "user", &["a"]);
    cluster.place(here, user);
    (cluster, here)
}

#[test]
fn new_volumes_must_fit_beside_those_attached() {
    let cases: [(&[&str], &str); 5] =
        [(&["b"], ""), (&["b", "c"], REJECTED), (&["a", "b"], ""), (&["a"], ""), (&["b", "b"], "")];
    for (claims, expected) in cases {
        let (mut cluster, _) = small();
        let pod = pod(&mut cluster, "pod", claims);
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [expected], "{claims:?}");
    }
}

/// KEP-5030: the CSIDriver says whether pods stay off nodes that lack the driver.
#[test]
fn a_missing_driver_keeps_pods_off_the_node_from_1_37_on() {
    let missing = "Unschedulable: disk CSI driver is not installed on the node";
    let (elsewhere, installed) = (csi_node("here", &[("other", 2)]), csi_node("here", &[("disk", 2)]));
    for (prevents, on_node, expected) in [
        (Some(true), None, missing),
        (Some(true), Some(&elsewhere), missing),
        (Some(true), Some(&installed), ""),
        (Some(false), None, ""),
        (None, None, ""),
    ] {
        for claimed in ["bound", "unbound"] {
            let verdict = Release::ALL.map(|release| {
                let mut cluster = TestCluster::default();
                node(&mut cluster, "here", &[]);
                cluster.set_object(&class("made", "disk", "WaitForFirstConsumer"));
                cluster.set_object(&volume("pv", "", "1Gi"));
                cluster.set_object(&bound(claim("bound", "", "1Gi"), "pv"));
                cluster.set_object(&claim("unbound", "made", "1Gi"));
                if let Some(prevents) = prevents {
                    let spec = json!({"preventPodSchedulingIfMissing": prevents});
                    cluster.set_object(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
                        "metadata": {"name": "disk"}, "spec": spec}));
                }
                on_node.iter().for_each(|object| cluster.set_object(object));
                let pod = pod(&mut cluster, "pod", &[claimed]);
                let args = json!({ Features::IN_ARGS: Features::of(release) }).to_string();
                verdicts(&mut NodeVolumeLimits::new(&args).unwrap(), &cluster, &pod).swap_remove(0)
            });
            assert_eq!(verdict, ["", expected], "{claimed}: {prevents:?} {on_node:?}");
        }
    }
}

/// kube-scheduler translates a volume of an in-tree plugin only on nodes with a `CSINode`.
#[test]
fn in_tree_volumes_need_no_driver_on_nodes_without_csi_node() {
    let mut cluster = TestCluster::default();
    node(&mut cluster, "without", &[]);
    node(&mut cluster, "with", &[]);
    cluster.set_object(&csi_node("with", &[("other", 2)]));
    let driver = "ebs.csi.aws.com";
    cluster.set_object(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver},
        "spec": {"preventPodSchedulingIfMissing": true}}));
    let sources = [
        ("in-tree", json!({"awsElasticBlockStore": {"volumeID": "vol-1"}, "csi": null})),
        ("of-driver", json!({"csi": {"driver": driver, "volumeHandle": "vol-1"}})),
    ];
    for (name, source) in sources {
        cluster.set_object(&merged(volume(name, "", "1Gi"), &json!({ "spec": source })));
        cluster.set_object(&bound(claim(name, "", "1Gi"), name));
    }
    cluster.set_object(&class("made", "kubernetes.io/aws-ebs", "WaitForFirstConsumer"));
    cluster.set_object(&claim("unbound", "made", "1Gi"));
    let args = json!({ Features::IN_ARGS: Features::of(Release::V1_37) }).to_string();
    let missing = "Unschedulable: ebs.csi.aws.com CSI driver is not installed on the node";
    for (claims, expected) in
        [(&["in-tree"][..], ""), (&["unbound"], ""), (&["of-driver"], missing), (&["in-tree", "of-driver"], missing)]
    {
        let pod = pod(&mut cluster, "pod", claims);
        let mut plugin = NodeVolumeLimits::new(&args).unwrap();
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), [expected, missing], "{claims:?}");
    }
}

#[test]
fn nodes_without_limits_take_any_number() {
    let (mut cluster, _) = small();
    node(&mut cluster, "free", &[]);
    let pod = pod(&mut cluster, "pod", &["b", "c"]);
    assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [REJECTED, ""]);
}

#[test]
fn an_attachment_counts_until_it_is_gone() {
    let (mut cluster, _) = small();
    let mut plugin = plugin();
    let pod_of_b = pod(&mut cluster, "pod", &["b"]);
    let of_a = attachment("of-a", "here", "a");
    cluster.set_object(&of_a);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod_of_b), [""], "a is held by its pod already");
    let of_c = attachment("of-c", "here", "c");
    cluster.set_object(&of_c);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod_of_b), [REJECTED]);
    let pod_of_c = pod(&mut cluster, "pod", &["c"]);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod_of_c), [REJECTED], "c counts as attached and as new");
    cluster.remove_object(&of_c);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod_of_b), [""]);
}

#[test]
fn an_attachment_counts_once_its_node_is_there() {
    let mut cluster = TestCluster::default();
    for name in ["a", "b"] {
        cluster.set_object(&volume(name, "", "1Gi"));
        cluster.set_object(&bound(claim(name, "", "1Gi"), name));
    }
    cluster.set_object(&csi_node("late", &[("disk", 1)]));
    cluster.set_object(&attachment("of-a", "late", "a"));
    node(&mut cluster, "other", &[]);
    let mut plugin = plugin();
    let pod = pod(&mut cluster, "pod", &["b"]);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [""]);
    node(&mut cluster, "late", &[]);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", REJECTED]);
    cluster.remove_node("late");
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [""]);
}

#[test]
fn claims_to_be_provisioned_count_by_their_class() {
    let (mut cluster, _) = small();
    cluster.set_object(&class("fast", "disk", "WaitForFirstConsumer"));
    for name in ["x", "y", "z"] {
        cluster.set_object(&claim(name, if name == "z" { "none" } else { "fast" }, "1Gi"));
    }
    for (claims, expected) in [(&["x"][..], ""), (&["x", "y"], REJECTED), (&["x", "z"], "")] {
        let pod = pod(&mut cluster, "pod", claims);
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [expected], "{claims:?}");
    }
}

/// Migration cannot be turned off for these volumes, even by the `CSINode`.
#[test]
fn in_tree_volumes_count_for_the_driver_that_replaced_them() {
    let sources = [
        ("ebs.csi.aws.com", "awsElasticBlockStore", "volumeID"),
        ("pd.csi.storage.gke.io", "gcePersistentDisk", "pdName"),
        ("disk.csi.azure.com", "azureDisk", "diskURI"),
        ("cinder.csi.openstack.org", "cinder", "volumeID"),
        ("pxd.portworx.com", "portworxVolume", "volumeID"),
    ];
    for (driver, field, id) in sources {
        let mut cluster = TestCluster::default();
        node(&mut cluster, "node", &[]);
        cluster.set_object(&csi_node("node", &[(driver, 1)]));
        let volume = |name: &str| json!({field: {id: name, "diskName": name}});
        let pod = pod_with(&mut cluster, "pod", &[volume("vol-1"), volume("vol-2")]);
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [REJECTED], "{field}");
        let pod = pod_with(&mut cluster, "pod", &[volume("vol-1"), volume("vol-1")]);
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [""], "{field}");
    }
}

#[test]
fn other_in_tree_volumes_count_where_they_were_migrated() {
    let mut cluster = TestCluster::default();
    node(&mut cluster, "old", &[]);
    node(&mut cluster, "new", &[]);
    let plugins = "kubernetes.io/azure-disk,kubernetes.io/azure-file";
    let annotation = json!({"storage.alpha.kubernetes.io/migrated-plugins": plugins});
    cluster.set_object(&csi_node("old", &[("file.csi.azure.com", 1)]));
    let migrated = json!({"metadata": {"annotations": annotation}});
    cluster.set_object(&merged(csi_node("new", &[("file.csi.azure.com", 1)]), &migrated));
    let share = json!({"azureFile": {"shareName": "a"}});
    let pod = pod_with(&mut cluster, "pod", std::slice::from_ref(&share));
    assert_eq!(verdicts(&mut plugin(), &cluster, &pod), ["", ""]);
    let pod = pod_with(&mut cluster, "pod", &[share.clone(), share]);
    assert_eq!(
        verdicts(&mut plugin(), &cluster, &pod),
        ["", REJECTED],
        "each volume is a mount, even of the same share"
    );
}

/// A disk of GCE has its zone in its handle, so two disks with the same name in two zones are two volumes. A pod that
/// names a disk directly names no zone.
#[test]
fn disks_of_gce_differ_by_their_zones() {
    let disk = |name: &str, zone: &str| {
        let spec = json!({"gcePersistentDisk": {"pdName": "data"}, "csi": null});
        let labels = json!({"topology.kubernetes.io/zone": zone});
        merged(volume(name, "", "1Gi"), &json!({"spec": spec, "metadata": {"labels": labels}}))
    };
    let of_driver =
        json!({"driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/UNSPECIFIED/zones/a/disks/data"});
    let of_driver = merged(volume("of-driver", "", "1Gi"), &json!({"spec": {"csi": of_driver}}));
    let cases = [(disk("same", "a"), ""), (disk("other", "b"), REJECTED), (of_driver, "")];
    for (second, expected) in cases {
        let mut cluster = TestCluster::default();
        let here = node(&mut cluster, "here", &[]);
        cluster.set_object(&csi_node("here", &[("pd.csi.storage.gke.io", 1)]));
        let name = second["metadata"]["name"].as_str().unwrap().to_owned();
        for (name, volume) in [("first", disk("first", "a")), (name.as_str(), second)] {
            cluster.set_object(&volume);
            cluster.set_object(&bound(claim(name, "", "1Gi"), name));
        }
        let user = pod(&mut cluster, "user", &["first"]);
        cluster.place(here, user);
        let pod_of_second = pod(&mut cluster, "pod", &[name.as_str()]);
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod_of_second), [expected], "{name}");
        let inline = pod_with(&mut cluster, "pod", &[json!({"gcePersistentDisk": {"pdName": "data"}})]);
        assert_eq!(verdicts(&mut plugin(), &cluster, &inline), [REJECTED], "{name}");
    }
}

/// `aws://zone/vol-1` is the volume `vol-1`, whether a pod or a `PersistentVolume` names it.
#[test]
fn a_volume_is_the_same_under_its_in_tree_name() {
    let mut cluster = TestCluster::default();
    let here = node(&mut cluster, "node", &[]);
    cluster.set_object(&csi_node("node", &[("ebs.csi.aws.com", 1)]));
    let store = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let user = pod_with(&mut cluster, "user", &[store("vol-1")]);
    cluster.place(here, user);
    let pod = pod_with(&mut cluster, "pod", &[store("aws://zone/vol-1")]);
    assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [""]);
}

#[test]
fn claims_that_cannot_be_looked_up() {
    let (mut cluster, here) = small();
    let gone = pod(&mut cluster, "pod", &["gone"]);
    let expected =
        "UnschedulableAndUnresolvable: looking up PVC default/gone: persistentvolumeclaim \"gone\" not found";
    assert_eq!(verdicts(&mut plugin(), &cluster, &gone), [expected]);
    cluster.set_object(&claim("pod-v0", "", "1Gi"));
    let ephemeral = pod_with(&mut cluster, "pod", &[json!({"ephemeral": {}})]);
    let mut plugin = plugin();
    plugin.pre_filter(&cluster.call(1, &ephemeral)).unwrap();
    let not_owned = "PVC default/pod-v0 was not created for pod default/pod (pod is not owner)";
    let mut nodes = cluster.table().nodes().clone();
    assert_eq!(plugin.filter(&cluster.call(1, &ephemeral), &mut nodes), Err(Status::error(not_owned)));
    // The volume of a pod on the node blocks every other pod with volumes.
    cluster.place(here, ephemeral);
    let other = pod(&mut cluster, "other", &["b"]);
    plugin.pre_filter(&cluster.call(1, &other)).unwrap();
    assert_eq!(plugin.filter(&cluster.call(1, &other), &mut nodes), Err(Status::error(not_owned)));
    let owner = json!([{"controller": true, "uid": "uid-of-pod", "name": "pod", "kind": "Pod", "apiVersion": "v1"}]);
    let owned = merged(claim("pod-v0", "", "1Gi"), &json!({"metadata": {"ownerReferences": owner}}));
    cluster.set_object(&owned);
    assert_eq!(verdicts(&mut plugin, &cluster, &other), [""]);
}

#[test]
fn dry_runs_take_volumes_away_and_bring_others() {
    let (mut cluster, here) = small();
    let user = pod(&mut cluster, "user", &["a"]);
    let (of_b, of_c) = (pod(&mut cluster, "b", &["b"]), pod(&mut cluster, "c", &["c"]));
    let pod = pod(&mut cluster, "pod", &["b", "c"]);
    let mut plugin = plugin();
    let call = cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let case = |minus: &[u32], plus: &[u32]| DryRunCase { node: here, minus: minus.to_vec(), plus: plus.to_vec() };
    let cases = [case(&[], &[]), case(&[0], &[]), case(&[], &[1]), case(&[0], &[0]), case(&[0], &[1, 2])];
    let statuses = plugin.dry_run(&call, &[&user, &of_b, &of_c], &cases).unwrap();
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [REJECTED, "", REJECTED, REJECTED, ""]);
}

#[test]
fn nonsense_counts_for_nothing() {
    let (mut cluster, _) = small();
    for object in [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": 7}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "nowhere"}, "spec": {}}),
        attachment("of-nothing", "nowhere", "nothing"),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "x"}, "spec": []}),
    ] {
        cluster.set_object(&object);
    }
    let pod = pod(&mut cluster, "pod", &["b", "c"]);
    assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [""], "a is no volume of the driver any more");
}

/// Limits of the two nodes for the drivers `disk` and `tape`.
const LIMITS: [[i64; 2]; 2] = [[2, 1], [3, 2]];
const DRIVERS: [&str; 2] = ["disk", "tape"];

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// A pod with these claims goes to the first node that takes it.
    Place(u32, Vec<usize>),
    Leave(u32),
    /// A claim is bound to a volume, or unbound.
    Bind(usize, Option<usize>),
    Volume(usize, bool),
    Attach(usize, usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8u32, prop::collection::vec(0..6usize, 1..3)).prop_map(|(slot, claims)| Step::Place(slot, claims)),
        2 => (0..8u32).prop_map(Step::Leave),
        2 => (0..6usize, prop::option::of(0..4usize)).prop_map(|(claim, volume)| Step::Bind(claim, volume)),
        1 => (0..4usize, any::<bool>()).prop_map(|(volume, exists)| Step::Volume(volume, exists)),
        1 => (0..4usize, 0..2usize, any::<bool>()).prop_map(|(volume, node, exists)| Step::Attach(volume, node, exists)),
    ]
}

/// A model that counts from scratch, with sets of volume names, as Kubernetes' documentation describes it.
#[derive(Default)]
struct Naive {
    bound: BTreeMap<usize, usize>,
    volumes: BTreeSet<usize>,
    attached: BTreeSet<(usize, usize)>,
    pods: BTreeMap<u32, (usize, Vec<usize>)>,
}

impl Naive {
    /// Driver and name of the volume behind a claim.
    fn volume(&self, claim: usize) -> (usize, String) {
        match self.bound.get(&claim).filter(|volume| self.volumes.contains(volume)) {
            Some(volume) => (volume % 2, format!("volume {volume}")),
            None => (claim % 2, format!("claim {claim}")),
        }
    }

    fn in_use(&self, node: usize) -> BTreeSet<(usize, String)> {
        let pods = self.pods.values().filter(|(at, _)| *at == node);
        pods.flat_map(|(_, claims)| claims.iter().map(|claim| self.volume(*claim))).collect()
    }

    fn takes(&self, node: usize, claims: &[usize]) -> bool {
        let in_use = self.in_use(node);
        let wanted: BTreeSet<_> = claims.iter().map(|claim| self.volume(*claim)).collect();
        let attachments = self.attached.iter().filter(|(volume, at)| *at == node && self.volumes.contains(volume));
        let attached: BTreeSet<_> =
            attachments.map(|(volume, _)| (volume % 2, format!("volume {volume}"))).chain(in_use.clone()).collect();
        (0..2).all(|driver| {
            let n_new = wanted.difference(&in_use).filter(|(of, _)| *of == driver).count();
            let n_attached = attached.iter().filter(|(of, _)| *of == driver).count();
            n_new == 0 || n_attached + n_new <= usize::try_from(LIMITS[node][driver]).unwrap()
        })
    }
}

fn pv(index: usize) -> Value {
    let driver = json!({"driver": DRIVERS[index % 2], "volumeHandle": format!("volume {index}")});
    merged(volume(&format!("pv{index}"), "", "1Gi"), &json!({"spec": {"csi": driver}}))
}

fn pvc(index: usize, volume: Option<usize>) -> Value {
    let claim = claim(&format!("claim{index}"), DRIVERS[index % 2], "1Gi");
    volume.map_or(claim.clone(), |volume| bound(claim, &format!("pv{volume}")))
}

/// Two nodes with [`LIMITS`], and unbound claims 0 to 5.
fn limited_cluster() -> TestCluster {
    let mut cluster = TestCluster::default();
    for (index, limits) in LIMITS.iter().enumerate() {
        node(&mut cluster, &format!("n{index}"), &[]);
        cluster.set_object(&csi_node(&format!("n{index}"), &[("disk", limits[0]), ("tape", limits[1])]));
    }
    DRIVERS.iter().for_each(|driver| cluster.set_object(&class(driver, driver, "Immediate")));
    (0..6).for_each(|index| cluster.set_object(&pvc(index, None)));
    cluster
}

fn slot_uid(slot: u32) -> PodUid {
    PodUid::from(format!("slot-{slot}"))
}

fn follow(step: &Step, cluster: &mut TestCluster, naive: &mut Naive) {
    match step {
        Step::Place(..) => {}
        Step::Leave(slot) => {
            cluster.remove_pod(&slot_uid(*slot));
            naive.pods.remove(slot);
        }
        Step::Bind(index, volume) => {
            cluster.set_object(&pvc(*index, *volume));
            naive.bound.remove(index);
            naive.bound.extend(volume.map(|volume| (*index, volume)));
        }
        Step::Volume(index, true) => {
            cluster.set_object(&pv(*index));
            naive.volumes.insert(*index);
        }
        Step::Volume(index, false) => {
            cluster.remove_object(&pv(*index));
            naive.volumes.remove(index);
        }
        Step::Attach(volume, node, exists) => {
            let object = attachment(&format!("a{volume}-{node}"), &format!("n{node}"), &format!("pv{volume}"));
            if *exists {
                cluster.set_object(&object);
                naive.attached.insert((*volume, *node));
            } else {
                cluster.remove_object(&object);
                naive.attached.remove(&(*volume, *node));
            }
        }
    }
}

proptest! {
    /// A plugin that follows the history gives the same answers as a count from scratch, keeps no trace of removed
    /// objects, and lets no node exceed its limits.
    #[test]
    fn verdicts_equal_a_naive_count(steps in prop::collection::vec(step(), 1..40)) {
        let (mut cluster, mut naive) = (limited_cluster(), Naive::default());
        let mut kept = plugin();
        for step in &steps {
            follow(step, &mut cluster, &mut naive);
            let Step::Place(slot, claims) = step else { continue };
            cluster.remove_pod(&slot_uid(*slot));
            naive.pods.remove(slot);
            let names: Vec<String> = claims.iter().map(|claim| format!("claim{claim}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let pod = pod(&mut cluster, "pod", &names);
            let got: Vec<bool> = verdicts(&mut kept, &cluster, &pod).iter().map(String::is_empty).collect();
            let expected: Vec<bool> = (0..2).map(|node| naive.takes(node, claims)).collect();
            prop_assert_eq!(&got, &expected);
            let mut fresh = plugin();
            fresh.pre_filter(&cluster.call(1, &pod)).unwrap();
            prop_assert_eq!(kept.tracker.attached().picture(), fresh.tracker.attached().picture());
            if let Some(chosen) = got.iter().position(|passes| *passes) {
                let row = NodeIdx(u32::try_from(chosen).unwrap());
                cluster.place(row, Pod { uid: slot_uid(*slot), ..pod });
                naive.pods.insert(*slot, (chosen, claims.clone()));
            }
        }
    }
}

proptest! {
    /// A pod that passes never makes a node exceed a limit, as long as no claim is bound to another volume.
    #[test]
    fn limits_hold(pods in prop::collection::vec(prop::collection::vec(0..6usize, 1..3), 1..12)) {
        let (mut cluster, mut naive) = (limited_cluster(), Naive::default());
        let mut plugin = plugin();
        for (slot, claims) in (0u32..).zip(&pods) {
            let names: Vec<String> = claims.iter().map(|claim| format!("claim{claim}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let pod = pod(&mut cluster, "pod", &names);
            let Some(chosen) = verdicts(&mut plugin, &cluster, &pod).iter().position(String::is_empty) else { continue };
            cluster.place(NodeIdx(u32::try_from(chosen).unwrap()), Pod { uid: slot_uid(slot), ..pod });
            naive.pods.insert(slot, (chosen, claims.clone()));
        }
        for (node, limits) in LIMITS.iter().enumerate() {
            for (driver, limit) in limits.iter().enumerate() {
                let n_used = naive.in_use(node).iter().filter(|(of, _)| *of == driver).count();
                prop_assert!(i64::try_from(n_used).unwrap() <= *limit);
            }
        }
    }
}
