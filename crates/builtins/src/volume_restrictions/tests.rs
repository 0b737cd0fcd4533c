//! Disks and claims that two pods cannot share.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    storage::testing::{claim, merged, node, pod, pod_with},
    testing::{TestCluster, show, verdicts},
};

const DISK: &str = "Unschedulable: node(s) had no available disk";
const CLAIM: &str = "Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
                     already in-use by another pod";

fn plugin() -> VolumeRestrictions {
    VolumeRestrictions::new("").unwrap()
}

fn rbd(monitors: &[&str], image: &str, read_only: bool) -> Value {
    json!({"rbd": {"monitors": monitors, "pool": "p", "image": image, "readOnly": read_only}})
}

#[test]
fn disks_conflict_by_identity_and_read_only() {
    let gce = |name: &str, read_only: bool| json!({"gcePersistentDisk": {"pdName": name, "readOnly": read_only}});
    let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
    let iscsi = |iqn: &str, read_only: bool| json!({"iscsi": {"iqn": iqn, "readOnly": read_only}});
    let cases = [
        (gce("a", false), gce("a", false), true),
        (gce("a", true), gce("a", false), true),
        (gce("a", true), gce("a", true), false),
        (gce("a", false), gce("b", false), false),
        (aws("a"), aws("a"), true),
        (aws("a"), aws("b"), false),
        (aws("a"), gce("a", false), false),
        (iscsi("a", true), iscsi("a", true), false),
        (iscsi("a", true), iscsi("a", false), true),
        (rbd(&["1", "2"], "i", false), rbd(&["2", "3"], "i", false), true),
        (rbd(&["1"], "i", false), rbd(&["2"], "i", false), false),
        (rbd(&["1"], "i", false), rbd(&["1"], "j", false), false),
        (rbd(&["1"], "i", true), rbd(&["1"], "i", true), false),
    ];
    for (ours, theirs, conflicts) in cases {
        let mut cluster = TestCluster::default();
        let here = node(&mut cluster, "here", &[]);
        node(&mut cluster, "there", &[]);
        let other = pod_with(&mut cluster, "other", std::slice::from_ref(&theirs));
        cluster.place(here, other);
        let pod = pod_with(&mut cluster, "pod", std::slice::from_ref(&ours));
        let expected = if conflicts { DISK } else { "" };
        assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [expected, ""], "{ours} {theirs}");
    }
}

fn exclusive(name: &str) -> Value {
    merged(claim(name, "", "1Gi"), &json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}))
}

#[test]
fn an_exclusive_claim_in_use_rejects_every_node() {
    let mut cluster = TestCluster::default();
    let here = node(&mut cluster, "here", &[]);
    node(&mut cluster, "there", &[]);
    cluster.set_object(&exclusive("one"));
    cluster.set_object(&claim("many", "", "1Gi"));
    let mut plugin = plugin();
    let pod_of_one = pod(&mut cluster, "pod", &["one", "many"]);
    assert_eq!(plugin.pre_filter(&cluster.call(1, &pod_of_one)), Err(Status::skip()));
    let user = pod(&mut cluster, "user", &["one", "many"]);
    cluster.place(here, user);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod_of_one), [CLAIM, CLAIM]);
    let pod_of_many = pod(&mut cluster, "pod", &["many"]);
    assert_eq!(plugin.pre_filter(&cluster.call(1, &pod_of_many)), Err(Status::skip()));
    let lost = pod(&mut cluster, "pod", &["gone"]);
    let expected = Status::unresolvable("persistentvolumeclaim \"gone\" not found");
    assert_eq!(plugin.pre_filter(&cluster.call(1, &lost)), Err(expected));
    cluster.remove_pod("uid-of-user");
    assert_eq!(plugin.pre_filter(&cluster.call(1, &pod_of_one)), Err(Status::skip()));
}

#[test]
fn dry_runs_take_users_away_and_bring_others() {
    let mut cluster = TestCluster::default();
    let here = node(&mut cluster, "here", &[]);
    cluster.set_object(&exclusive("one"));
    let disk = json!({"awsElasticBlockStore": {"volumeID": "a"}});
    let user = pod_with(&mut cluster, "user", &[disk.clone(), json!({"persistentVolumeClaim": {"claimName": "one"}})]);
    let other = pod_with(&mut cluster, "other", std::slice::from_ref(&disk));
    cluster.place(here, user.clone());
    let pod = pod_with(&mut cluster, "pod", &[disk, json!({"persistentVolumeClaim": {"claimName": "one"}})]);
    let mut plugin = plugin();
    let call = cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let case = |minus: &[u32], plus: &[u32]| DryRunCase { node: here, minus: minus.to_vec(), plus: plus.to_vec() };
    let cases = [case(&[], &[]), case(&[0], &[]), case(&[0], &[1]), case(&[0], &[0])];
    let statuses = plugin.dry_run(&call, &[&user, &other], &cases).unwrap();
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [DISK, "", DISK, DISK]);
}

proptest! {
    /// The usage that follows the journal equals a recount.
    #[test]
    fn usage_equals_a_recount(steps in prop::collection::vec((0..6u32, 0..3u32, 0..8usize, any::<bool>()), 1..60)) {
        let mut cluster = TestCluster::default();
        (0..3).for_each(|at| { node(&mut cluster, &format!("n{at}"), &[]); });
        cluster.set_object(&exclusive("one"));
        let volumes = [
            json!({"persistentVolumeClaim": {"claimName": "one"}}),
            json!({"gcePersistentDisk": {"pdName": "a"}}),
            json!({"gcePersistentDisk": {"pdName": "a", "readOnly": true}}),
            rbd(&["1", "2"], "i", false),
        ];
        let mut kept = plugin();
        for (slot, at, variant, goes) in steps {
            let chosen = [volumes[variant % 4].clone(), volumes[(variant / 2) % 4].clone()];
            let pod = pod_with(&mut cluster, "pod", &chosen);
            if goes {
                cluster.remove_pod(&format!("slot-{slot}"));
            } else {
                cluster.place(NodeIdx(at), Pod { uid: format!("slot-{slot}").into(), ..pod.clone() });
            }
            let mut fresh = plugin();
            let call = cluster.call(1, &pod);
            prop_assert_eq!(kept.pre_filter(&call), fresh.pre_filter(&call));
            prop_assert_eq!(kept.usage.sizes(), fresh.usage.sizes());
            prop_assert!(kept.blocked.iter().eq(fresh.blocked.iter()));
        }
    }
}
