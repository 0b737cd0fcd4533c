//! Small random clusters against a check of one node at a time, written from Kubernetes' documentation of persistent
//! volumes: a claim gets the smallest available volume of its class that is large enough, has its access modes, matches
//! its selector and can be used from the node; no volume goes to two claims.

use proptest::prelude::*;

use super::*;

const HOSTS: [&str; 3] = ["h0", "h1", "h2"];
const MODES: [&str; 2] = ["ReadWriteOnce", "ReadOnlyMany"];
const CLASSES: [&str; 2] = ["local", "other"];

#[derive(Clone, Debug)]
struct Disk {
    size: u32,
    class: usize,
    modes: Vec<usize>,
    tier: usize,
    /// `None`: everywhere.
    hosts: Option<Vec<usize>>,
    is_available: bool,
}

#[derive(Clone, Debug)]
struct Wish {
    size: u32,
    class: usize,
    modes: Vec<usize>,
    tier: Option<usize>,
}

fn disk() -> impl Strategy<Value = Disk> {
    let hosts = prop::option::weighted(0.7, prop::sample::subsequence(vec![0, 1, 2], 1..=3));
    let modes = prop::sample::subsequence(vec![0, 1], 1..=2);
    (1..4u32, 0..2usize, modes, 0..2usize, hosts, prop::bool::weighted(0.85)).prop_map(
        |(size, class, modes, tier, hosts, is_available)| Disk { size, class, modes, tier, hosts, is_available },
    )
}

fn wish() -> impl Strategy<Value = Wish> {
    let modes = prop::sample::subsequence(vec![0, 1], 1..=2);
    let tier = prop::option::weighted(0.4, 0..2usize);
    (1..4u32, prop::sample::select(vec![0, 0, 0, 1]), modes, tier).prop_map(|(size, class, modes, tier)| Wish {
        size,
        class,
        modes,
        tier,
    })
}

fn suits(disk: &Disk, wish: &Wish, host: usize) -> bool {
    disk.is_available
        && disk.size >= wish.size
        && disk.class == wish.class
        && wish.modes.iter().all(|mode| disk.modes.contains(mode))
        && wish.tier.is_none_or(|tier| tier == disk.tier)
        && disk.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
}

/// `None` if some claim gets nothing on this host.
fn naive(disks: &[Disk], wishes: &[Wish], host: usize) -> Option<Vec<String>> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by_key(|at| wishes[*at].size);
    let (mut taken, mut choices) = (Vec::new(), Vec::new());
    for at in order {
        let left = (0..disks.len()).filter(|disk| !taken.contains(disk) && suits(&disks[*disk], &wishes[at], host));
        let smallest = left.min_by_key(|disk| (disks[*disk].size, *disk))?;
        taken.push(smallest);
        choices.push(format!("claim{at}=pv{smallest}"));
    }
    Some(choices)
}

fn volume_of(index: usize, disk: &Disk) -> Value {
    let modes: Vec<&str> = disk.modes.iter().map(|mode| MODES[*mode]).collect();
    let plain = volume(&format!("pv{index}"), CLASSES[disk.class], &format!("{}Gi", disk.size));
    let plain = match &disk.hosts {
        None => plain,
        Some(hosts) => on_hosts(plain, &hosts.iter().map(|host| HOSTS[*host]).collect::<Vec<_>>()),
    };
    let phase = if disk.is_available { "Available" } else { "Failed" };
    let labels = json!({"tier": format!("t{}", disk.tier)});
    merged(plain, &json!({"metadata": {"labels": labels}, "spec": {"accessModes": modes}, "status": {"phase": phase}}))
}

fn claim_of(index: usize, wish: &Wish) -> Value {
    let modes: Vec<&str> = wish.modes.iter().map(|mode| MODES[*mode]).collect();
    let plain = claim(&format!("claim{index}"), CLASSES[wish.class], &format!("{}Gi", wish.size));
    let selector = wish.tier.map(|tier| json!({"matchLabels": {"tier": format!("t{tier}")}}));
    merged(plain, &json!({"spec": {"accessModes": modes, "selector": selector}}))
}

proptest! {
    #[test]
    fn choices_equal_those_of_one_node_at_a_time(
        disks in prop::collection::vec(disk(), 0..8),
        wishes in prop::collection::vec(wish(), 1..4),
        replaced in prop::option::of((0..8usize, disk())),
    ) {
        let mut cluster = Cluster::default();
        HOSTS.iter().for_each(|host| { node(&mut cluster, host, &[]); });
        for class_name in CLASSES {
            put(&mut cluster, &class(class_name, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
        }
        let mut disks = disks;
        disks.iter().enumerate().for_each(|(at, disk)| put(&mut cluster, &volume_of(at, disk)));
        wishes.iter().enumerate().for_each(|(at, wish)| put(&mut cluster, &claim_of(at, wish)));
        let names: Vec<String> = (0..wishes.len()).map(|at| format!("claim{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pod = pod(&mut cluster, "pod", &names);
        let mut plugin = plugin();
        check(&mut plugin, &cluster, &pod, &disks, &wishes)?;
        // The same plugin follows a volume that changes.
        if let Some((at, disk)) = replaced.filter(|(at, _)| *at < disks.len()) {
            put(&mut cluster, &volume_of(at, &disk));
            disks[at] = disk;
            check(&mut plugin, &cluster, &pod, &disks, &wishes)?;
        }
    }
}

fn check(
    plugin: &mut VolumeBinding,
    cluster: &Cluster,
    pod: &Pod,
    disks: &[Disk],
    wishes: &[Wish],
) -> Result<(), TestCaseError> {
    let got = verdicts(plugin, cluster, pod);
    for (host, verdict) in got.iter().enumerate() {
        let expected = naive(disks, wishes, host);
        let reasons = if expected.is_some() { &[][..] } else { &[UNSATISFIED] };
        prop_assert_eq!(verdict, &rejected(reasons), "host {}", host);
        let choices = choices(plugin, cluster, pod, u32::try_from(host).unwrap());
        prop_assert_eq!(choices, expected.unwrap_or_default(), "host {}", host);
    }
    Ok(())
}
