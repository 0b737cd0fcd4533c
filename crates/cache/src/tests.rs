//! Replicas follow the cache through any sequence of changes; assumptions leave no trace; slots are reused cleanly.

use std::sync::Arc;

use berth_framework::{DeltaSource, Needs, ObjectKind};
use berth_model::{
    ClusterTable, Column, Columns, Node, NodeIdx, Pod, PodUid, Sym,
    cluster_table::{ResourceTable, at},
    pod::{HostPort, NonZero, Resources, Taint, TaintEffect},
};
use proptest::prelude::*;

use crate::{Added, Assumed, Cache, Inconsistency};
use berth_model::{ObjectKey, ThinVec};

fn node(cache: &mut Cache, name: &str, variant: u8) -> Node {
    let symbols = cache.symbols_mut();
    let zone = symbols.intern(["a", "b", "c"][usize::from(variant % 3)]);
    let (disk, gpu, image) = (symbols.intern("disk"), symbols.intern("example.com/gpu"), symbols.intern("busybox"));
    let mut labels = ThinVec::from([(Sym::ZONE_LABEL, zone)]);
    if variant & 8 != 0 {
        labels.push((disk, symbols.intern("ssd")));
    }
    let taint = Taint { key: symbols.intern("t"), value: Sym::NONE, effect: TaintEffect::NoSchedule };
    let feature = symbols.intern("feature");
    Node {
        name: symbols.intern(name),
        unschedulable: variant & 1 != 0,
        labels,
        taints: if variant & 2 != 0 { vec![taint] } else { Vec::new() },
        allocatable: Resources {
            milli_cpu: 1000 * i64::from(variant),
            scalars: if variant & 4 != 0 { [(gpu, 2)].into() } else { ThinVec::new() },
            ..Resources::default()
        },
        allowed_pods: 110,
        images: if variant & 16 != 0 { vec![(image, i64::from(variant))] } else { Vec::new() },
        declared_features: if variant & 32 != 0 { vec![feature] } else { Vec::new() },
        annotations: Arc::new([("note".to_owned(), (variant & 3).to_string())].into()),
        ..Node::default()
    }
}

fn pod(cache: &mut Cache, uid: &str, node: &str, variant: u8) -> Arc<Pod> {
    let symbols = cache.symbols_mut();
    let gpu = symbols.intern("example.com/gpu");
    let port = HostPort { address: Sym::ANY_ADDRESS, protocol: Sym::TCP, port: i32::from(variant % 3) + 80 };
    Arc::new(Pod {
        uid: PodUid::from(uid),
        name: Arc::from(uid),
        node_name: symbols.intern(node),
        host_ports: if variant & 1 == 0 { [port].into() } else { ThinVec::new() },
        placed_requests: Resources {
            milli_cpu: i64::from(variant) * 10,
            // The sum of two such requests exceeds the range of the number.
            memory: if variant & 128 != 0 { i64::MAX } else { 0 },
            scalars: if variant & 2 != 0 { [(gpu, 1)].into() } else { ThinVec::new() },
            ..Resources::default()
        },
        placed_non_zero: NonZero {
            milli_cpu: 100,
            memory: if variant & 128 != 0 { i64::MAX } else { i64::from(variant) },
        },
        priority: i32::from(variant & 64),
        ..Pod::default()
    })
}

fn all_needs() -> Needs {
    let kind = ObjectKind { api_version: "v1".to_owned(), kind: "Service".to_owned() };
    let annotation_keys = vec!["note".to_owned()];
    Needs { columns: Columns::all(), annotation_keys, pods: true, objects: vec![kind], ..Needs::default() }
}

/// A table as text, row by row. Two tables with the same content have the same text, whatever changes led to the
/// content.
fn picture(table: &ClusterTable) -> Vec<String> {
    let text = |sym: Sym| table.symbols.text(sym).to_owned();
    let resources = |table: &ResourceTable, node: NodeIdx| {
        let mut amounts: Vec<_> = table.names().map(|name| (text(name), table.get(name, node))).collect();
        amounts.retain(|(_, amount)| *amount != 0);
        amounts.sort();
        amounts
    };
    let image = |name: Sym| {
        let image = table.images().get(name).expect("an image that a node has");
        (text(name), image.size, image.n_nodes, image.nodes.iter().collect::<Vec<_>>())
    };
    let row = |node: NodeIdx| {
        let taints = table.taint_sets().get(table.taint_set_id(node) as usize).cloned().unwrap_or_default();
        assert_eq!(table.tainted().contains(node), !taints.is_empty());
        let labels: Vec<_> = table.labels().of(node).iter().map(|(key, value)| (text(*key), text(*value))).collect();
        let by_column = |(key, _): &(Sym, Sym)| table.labels().column(*key).and_then(|column| column.get(node));
        let values: Vec<_> = table.labels().of(node).iter().map(by_column).collect();
        format!(
            "{node:?} {} {} {labels:?} {values:?} {taints:?} {:?} {:?} {} {} {} {:?} {:?} {:?} {:?}",
            text(table.name(node)),
            table.unschedulable().contains(node),
            resources(table.allocatable(), node),
            resources(table.requested(), node),
            at(table.non_zero_cpu(), node),
            at(table.non_zero_memory(), node),
            at(table.pod_counts(), node),
            table.images().of(node).iter().map(|&name| image(name)).collect::<Vec<_>>(),
            table.host_ports(node),
            table.declared_features(node).iter().map(|&feature| text(feature)).collect::<Vec<_>>(),
            table.annotations(node).filter(|annotations| !annotations.is_empty()),
        )
    };
    let found = |node: NodeIdx| assert_eq!(table.find(table.name(node)), Some(node));
    if table.nodes().iter().next().is_some_and(|node| !table.name(node).is_none()) {
        table.nodes().iter().for_each(found);
    }
    let objects = table.objects().iter("v1", "Service").map(|object| format!("{object:?}"));
    let mut pods: Vec<_> = table.pods().iter().map(|(_, pod, node)| format!("{node:?} {pod:?}")).collect();
    pods.sort();
    table.nodes().iter().map(row).chain(pods).chain(objects).collect()
}

fn catch_up(cache: &Cache, needs: &Needs, replica: &mut ClusterTable) {
    let delta = cache.delta_since(needs, replica.generation(), replica.symbols_position());
    replica.apply(&delta);
}

fn full_copy(cache: &Cache, needs: &Needs) -> ClusterTable {
    let mut replica = ClusterTable::default();
    catch_up(cache, needs, &mut replica);
    replica
}

#[derive(Clone, Debug)]
enum Op {
    SetNode(u8, u8),
    RemoveNode(u8),
    AddPod(u8, u8, u8),
    RemovePod(u8),
    Assume(u8, u8, u8),
    Forget,
    SetObject(u8, bool),
    CatchUp(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..6u8, any::<u8>()).prop_map(|(node, variant)| Op::SetNode(node, variant)),
        1 => (0..6u8).prop_map(Op::RemoveNode),
        3 => (0..8u8, 0..6u8, any::<u8>()).prop_map(|(pod, node, variant)| Op::AddPod(pod, node, variant)),
        1 => (0..8u8).prop_map(Op::RemovePod),
        2 => (0..8u8, 0..6u8, any::<u8>()).prop_map(|(pod, node, variant)| Op::Assume(pod, node, variant)),
        1 => Just(Op::Forget),
        1 => (0..3u8, any::<bool>()).prop_map(|(object, exists)| Op::SetObject(object, exists)),
        2 => (0..3u8).prop_map(Op::CatchUp),
    ]
}

fn service(name: u8) -> ObjectKey {
    ObjectKey {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        namespace: "n".to_owned(),
        name: name.to_string(),
    }
}

fn perform(cache: &mut Cache, debts: &mut Vec<Assumed>, op: &Op) {
    match *op {
        Op::SetNode(name, variant) => {
            let node = node(cache, &format!("node-{name}"), variant);
            cache.set_node(node);
        }
        Op::RemoveNode(name) => {
            let name = cache.symbols_mut().intern(&format!("node-{name}"));
            cache.remove_node(name);
        }
        Op::AddPod(uid, node, variant) => {
            let pod = pod(cache, &format!("pod-{uid}"), &format!("node-{node}"), variant);
            cache.add_pod(pod).expect("it has a uid");
        }
        Op::RemovePod(uid) => drop(cache.remove_pod(&format!("pod-{uid}"))),
        Op::Assume(uid, node, variant) => {
            let pod = pod(cache, &format!("pod-{uid}"), "", variant);
            let node = cache.symbols_mut().intern(&format!("node-{node}"));
            debts.extend(cache.assume(&pod, node));
        }
        Op::Forget => {
            if let Some(assumed) = debts.pop() {
                let _ = cache.forget(assumed);
            }
        }
        Op::SetObject(name, exists) => {
            cache.set_object(service(name), exists.then(|| Arc::from(&b"{}"[..])));
        }
        Op::CatchUp(_) => {}
    }
}

/// Computes the sums again from the pods that the cache holds, and compares the table's columns with them.
fn check_sums(cache: &Cache) {
    let table = cache.table();
    for node in table.nodes().iter() {
        let pods: Vec<_> = cache.pods_on(table.name(node)).collect();
        let cpu: i64 = pods.iter().map(|pod| pod.placed_requests.milli_cpu).sum();
        assert_eq!(table.requested().get(Sym::CPU, node), cpu);
        assert_eq!(at(table.pod_counts(), node), i64::try_from(pods.len()).expect("few pods"));
        for port in pods.iter().flat_map(|pod| &pod.host_ports) {
            assert!(table.host_ports(node).contains(port));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn replicas_equal_their_source(ops in proptest::collection::vec(op(), 1..80), capacity in 2..40usize) {
        let mut cache = Cache::with_log_capacity(capacity);
        let mut debts = Vec::new();
        let needs = all_needs();
        let mut replicas = [ClusterTable::default(), ClusterTable::default(), ClusterTable::default()];
        for op in &ops {
            perform(&mut cache, &mut debts, op);
            check_sums(&cache);
            if let Op::CatchUp(replica) = op {
                catch_up(&cache, &needs, &mut replicas[usize::from(*replica)]);
                prop_assert_eq!(picture(&replicas[usize::from(*replica)]), picture(cache.table()));
            }
        }
        for mut replica in replicas {
            catch_up(&cache, &needs, &mut replica);
            prop_assert_eq!(picture(&replica), picture(cache.table()));
        }
        prop_assert_eq!(picture(&full_copy(&cache, &needs)), picture(cache.table()));
        debts.into_iter().for_each(Assumed::settled);
    }

    #[test]
    fn a_replica_of_some_columns_equals_a_full_copy_of_them(ops in proptest::collection::vec(op(), 1..60), mask in any::<u16>()) {
        let mut cache = Cache::new();
        let mut debts = Vec::new();
        let columns = Column::ALL.into_iter().filter(|column| mask >> column.index() & 1 == 1).collect();
        let needs = Needs { columns, label_keys: vec!["disk".to_owned()], ..Needs::default() };
        let mut replica = ClusterTable::default();
        for op in &ops {
            perform(&mut cache, &mut debts, op);
            if matches!(op, Op::CatchUp(_)) {
                catch_up(&cache, &needs, &mut replica);
            }
        }
        catch_up(&cache, &needs, &mut replica);
        prop_assert_eq!(picture(&replica), picture(&full_copy(&cache, &needs)));
        debts.into_iter().for_each(Assumed::settled);
    }

    #[test]
    fn assume_and_forget_leave_no_trace(ops in proptest::collection::vec(op(), 1..40), target in 0..6u8, variant in any::<u8>()) {
        let mut cache = Cache::new();
        let mut debts = Vec::new();
        ops.iter().for_each(|op| perform(&mut cache, &mut debts, op));
        let (before, sizes) = (picture(cache.table()), cache.sizes());
        let pod = pod(&mut cache, "another", "", variant);
        let node = cache.symbols_mut().intern(&format!("node-{target}"));
        let assumed = cache.assume(&pod, node).expect("it is new");
        prop_assert_eq!(cache.forget(assumed), Ok(Some(pod)));
        prop_assert_eq!(picture(cache.table()), before);
        prop_assert_eq!(cache.sizes(), sizes);
        debts.into_iter().for_each(Assumed::settled);
    }
}

#[test]
fn one_of_two_pods_with_the_same_port_may_leave() {
    let mut cache = Cache::new();
    let host = node(&mut cache, "n", 0);
    cache.set_node(host);
    for uid in ["a", "b"] {
        let pod = pod(&mut cache, uid, "n", 0);
        assert_eq!(cache.add_pod(pod), Ok(Added::New));
    }
    cache.remove_pod("a");
    assert_eq!(cache.table().host_ports(NodeIdx(0)).len(), 1);
    cache.remove_pod("b");
    assert!(cache.table().host_ports(NodeIdx(0)).is_empty());
}

/// Sums stop at the largest number. The amount above this number counts again when other pods leave.
#[test]
fn huge_requests_leave_nothing_behind() {
    let mut cache = Cache::new();
    let name = cache.symbols_mut().intern("n");
    let host = node(&mut cache, "n", 4);
    cache.set_node(host);
    let place = |cache: &mut Cache, uid: &str, amount: i64| {
        let requests = Resources { memory: amount, milli_cpu: amount, ..Resources::default() };
        let non_zero = NonZero { milli_cpu: amount, memory: amount };
        let pod = Pod {
            uid: PodUid::from(uid),
            node_name: name,
            placed_requests: requests,
            placed_non_zero: non_zero,
            ..Pod::default()
        };
        cache.add_pod(Arc::new(pod)).unwrap();
    };
    place(&mut cache, "small", 5);
    place(&mut cache, "huge", i64::MAX);
    place(&mut cache, "also huge", i64::MAX);
    let sums = |cache: &Cache| {
        let table = cache.table();
        let requested = table.requested();
        let node = cache.node(name).unwrap().row().unwrap().0;
        let non_zero = (at(table.non_zero_cpu(), node), at(table.non_zero_memory(), node));
        (requested.get(Sym::CPU, node), requested.get(Sym::MEMORY, node), non_zero, at(table.pod_counts(), node))
    };
    assert_eq!(sums(&cache), (i64::MAX, i64::MAX, (i64::MAX, i64::MAX), 3));
    cache.remove_pod("huge");
    assert_eq!(sums(&cache), (i64::MAX, i64::MAX, (i64::MAX, i64::MAX), 2));
    cache.remove_pod("also huge");
    assert_eq!(sums(&cache), (5, 5, (5, 5), 1));
}

#[test]
fn pods_wait_for_their_node() {
    let mut cache = Cache::new();
    let early = pod(&mut cache, "early", "n", 5);
    cache.add_pod(early).expect("it has a uid");
    assert_eq!((cache.table().n_nodes(), cache.sizes().nodes), (0, 1));
    let host = node(&mut cache, "n", 0);
    let name = host.name;
    cache.set_node(host.clone());
    assert_eq!(cache.table().requested().get(Sym::CPU, NodeIdx(0)), 50);
    cache.remove_node(name);
    assert!(cache.node(name).is_some_and(|node| node.row().is_none()), "a ghost while the pod is there");
    cache.set_node(host);
    assert_eq!(cache.table().pod_counts(), [1]);
    cache.remove_node(name);
    cache.remove_pod("early");
    assert!(cache.node(name).is_none());
}

#[test]
fn slots_are_reused_clean() {
    let mut cache = Cache::new();
    let full = node(&mut cache, "full", 0xff);
    let name = full.name;
    cache.set_node(full);
    let guest = pod(&mut cache, "guest", "full", 3);
    cache.add_pod(guest).expect("it has a uid");
    cache.remove_node(name);
    let plain = node(&mut cache, "plain", 0);
    cache.set_node(plain.clone());
    let mut fresh = Cache::new();
    let again = node(&mut fresh, "plain", 0);
    fresh.set_node(again);
    assert_eq!(cache.table().find(plain.name), Some(NodeIdx(0)));
    assert_eq!(picture(cache.table()), picture(fresh.table()));
}

#[test]
fn zones_take_turns() {
    let mut cache = Cache::new();
    let zoned = [("a1", 0), ("a2", 0), ("a3", 0), ("b1", 1), ("c1", 2), ("c2", 2)];
    for (name, zone) in zoned {
        let node = node(&mut cache, name, zone);
        cache.set_node(node);
    }
    cache.settle();
    let names = |cache: &Cache| -> Vec<String> {
        let name = |idx: &NodeIdx| cache.table().symbols.text(cache.table().name(*idx)).to_owned();
        cache.order().iter().map(name).collect()
    };
    assert_eq!(names(&cache), ["a1", "b1", "c1", "a2", "c2", "a3"]);
    let moved = node(&mut cache, "a1", 1);
    cache.set_node(moved);
    cache.settle();
    assert_eq!(names(&cache)[0], "a1", "a node that changes its zone keeps its place for now");
    let name = cache.symbols_mut().intern("a3");
    cache.remove_node(name);
    cache.settle();
    assert_eq!(names(&cache), ["a2", "b1", "c1", "a1", "c2"]);
}

#[test]
fn states_of_a_pod() {
    let mut cache = Cache::new();
    let host = node(&mut cache, "n", 0);
    let name = host.name;
    cache.set_node(host);
    let pending = pod(&mut cache, "p", "", 4);
    let assumed = cache.assume(&pending, name).expect("it is new");
    assert!(matches!(cache.assume(&pending, name), Err(Inconsistency::AlreadyPresent { .. })));
    let bound = pod(&mut cache, "p", "n", 4);
    assert_eq!(cache.add_pod(Arc::clone(&bound)), Ok(Added::Confirmed { assumed_on: name }));
    assert!(matches!(cache.forget(assumed), Err(Inconsistency::NotAssumed { .. })), "it stays where it was seen");
    let resized = pod(&mut cache, "p", "n", 8);
    assert_eq!(cache.add_pod(resized), Ok(Added::Updated { old: bound }));
    assert_eq!(cache.table().requested().get(Sym::CPU, NodeIdx(0)), 80);
    assert!(cache.remove_pod("p").is_some_and(|removed| !removed.was_assumed));
    assert_eq!(cache.sizes().pods, 0);
}

#[test]
fn an_assumed_pod_is_counted_again_and_leaves_no_trace() {
    let mut cache = Cache::new();
    let host = node(&mut cache, "n", 0);
    let name = host.name;
    cache.set_node(host);
    let counted = |cache: &Cache| (cache.table().requested().get(Sym::CPU, NodeIdx(0)), cache.sizes().assumed_pods);
    let pending = pod(&mut cache, "p", "", 4);
    let assumed = cache.assume(&pending, name).expect("it is new");
    let larger = pod(&mut cache, "p", "", 8);
    cache.recount_assumed(Arc::clone(&larger));
    assert_eq!(counted(&cache), (80, 1));
    assert_eq!(cache.forget(assumed), Ok(Some(Arc::clone(&larger))));
    assert_eq!(counted(&cache), (0, 0));
    cache.recount_assumed(larger);
    assert_eq!(counted(&cache), (0, 0), "it is not assumed any more");
}

#[test]
fn a_taint_set_outlives_the_node_that_brought_it() {
    let mut cache = Cache::new();
    let needs = all_needs();
    let plain = node(&mut cache, "plain", 0);
    cache.set_node(plain);
    let mut replica = full_copy(&cache, &needs);
    let tainted = node(&mut cache, "tainted", 2);
    let name = tainted.name;
    cache.set_node(tainted);
    cache.remove_node(name);
    catch_up(&cache, &needs, &mut replica);
    let plain = node(&mut cache, "plain", 2);
    cache.set_node(plain);
    catch_up(&cache, &needs, &mut replica);
    assert_eq!(picture(&replica), picture(cache.table()));
}

#[test]
fn one_change_sends_one_row() {
    let mut cache = Cache::new();
    for index in 0..100 {
        let node = node(&mut cache, &format!("n{index}"), 0);
        cache.set_node(node);
    }
    let needs = all_needs();
    let replica = full_copy(&cache, &needs);
    for uid in 0..3 {
        let pod = pod(&mut cache, &format!("p{uid}"), "n7", 5);
        cache.add_pod(pod).expect("it has a uid");
    }
    let delta = cache.delta_since(&needs, replica.generation(), replica.symbols_position());
    assert!(!delta.full);
    assert_eq!(delta.columns.len(), 3, "requested, non-zero requested, pod count");
    assert!(delta.columns.iter().all(|change| change.rows == [NodeIdx(7)]));
}
