//! Compares small random clusters with a check of one node at a time. The check follows Kubernetes' documentation of
//! persistent volumes: a claim gets the smallest available volume of its class that is large enough, has its access
//! modes, matches its selector and can be used from the node; no volume goes to two claims.

use proptest::prelude::*;

use super::*;

const HOSTS: [&str; 3] = ["h0", "h1", "h2"];
const MODES: [&str; 2] = ["ReadWriteOnce", "ReadOnlyMany"];
const CLASSES: [&str; 2] = ["local", "other"];

#[derive(Clone, Debug)]
struct TestVolume {
    size: u32,
    class: usize,
    modes: Vec<usize>,
    tier: usize,
    /// The hosts; `None` means every host.
    hosts: Option<Vec<usize>>,
    is_available: bool,
}

#[derive(Clone, Debug)]
struct TestClaim {
    size: u32,
    class: usize,
    modes: Vec<usize>,
    tier: Option<usize>,
}

fn test_volume() -> impl Strategy<Value = TestVolume> {
    let hosts = prop::option::weighted(0.7, prop::sample::subsequence(vec![0, 1, 2], 1..=3));
    let modes = prop::sample::subsequence(vec![0, 1], 1..=2);
    (1..4u32, 0..2usize, modes, 0..2usize, hosts, prop::bool::weighted(0.85)).prop_map(
        |(size, class, modes, tier, hosts, is_available)| TestVolume { size, class, modes, tier, hosts, is_available },
    )
}

fn test_claim() -> impl Strategy<Value = TestClaim> {
    let modes = prop::sample::subsequence(vec![0, 1], 1..=2);
    let tier = prop::option::weighted(0.4, 0..2usize);
    (1..4u32, prop::sample::select(vec![0, 0, 0, 1]), modes, tier).prop_map(|(size, class, modes, tier)| TestClaim {
        size,
        class,
        modes,
        tier,
    })
}

fn suits(spec: &TestVolume, claim_spec: &TestClaim, host: usize) -> bool {
    spec.is_available
        && spec.size >= claim_spec.size
        && spec.class == claim_spec.class
        && claim_spec.modes.iter().all(|mode| spec.modes.contains(mode))
        && claim_spec.tier.is_none_or(|tier| tier == spec.tier)
        && spec.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
}

/// The volumes of the claims; `None` if some claim gets nothing on this host.
fn naive(volumes: &[TestVolume], claims: &[TestClaim], host: usize) -> Option<Vec<String>> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|at| claims[*at].size);
    let (mut taken, mut choices) = (Vec::new(), Vec::new());
    for at in order {
        let left = (0..volumes.len()).filter(|spec| !taken.contains(spec) && suits(&volumes[*spec], &claims[at], host));
        let smallest = left.min_by_key(|spec| (volumes[*spec].size, *spec))?;
        taken.push(smallest);
        choices.push(format!("claim{at}=pv{smallest}"));
    }
    Some(choices)
}

fn volume_of(index: usize, spec: &TestVolume) -> Value {
    let modes: Vec<&str> = spec.modes.iter().map(|mode| MODES[*mode]).collect();
    let plain = volume(&format!("pv{index}"), CLASSES[spec.class], &format!("{}Gi", spec.size));
    let plain = match &spec.hosts {
        None => plain,
        Some(hosts) => on_hosts(plain, &hosts.iter().map(|host| HOSTS[*host]).collect::<Vec<_>>()),
    };
    let phase = if spec.is_available { "Available" } else { "Failed" };
    let labels = json!({"tier": format!("t{}", spec.tier)});
    merged(plain, &json!({"metadata": {"labels": labels}, "spec": {"accessModes": modes}, "status": {"phase": phase}}))
}

fn claim_of(index: usize, claim_spec: &TestClaim) -> Value {
    let modes: Vec<&str> = claim_spec.modes.iter().map(|mode| MODES[*mode]).collect();
    let plain = claim(&format!("claim{index}"), CLASSES[claim_spec.class], &format!("{}Gi", claim_spec.size));
    let selector = claim_spec.tier.map(|tier| json!({"matchLabels": {"tier": format!("t{tier}")}}));
    merged(plain, &json!({"spec": {"accessModes": modes, "selector": selector}}))
}

proptest! {
    #[test]
    fn choices_equal_those_of_one_node_at_a_time(
        volumes in prop::collection::vec(test_volume(), 0..8),
        claims in prop::collection::vec(test_claim(), 1..4),
        replaced in prop::option::of((0..8usize, test_volume())),
    ) {
        let mut cluster = TestCluster::default();
        HOSTS.iter().for_each(|host| { node(&mut cluster, host, &[]); });
        for class_name in CLASSES {
            cluster.set_object(&class(class_name, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
        }
        let mut volumes = volumes;
        volumes.iter().enumerate().for_each(|(at, spec)| cluster.set_object(&volume_of(at, spec)));
        claims.iter().enumerate().for_each(|(at, claim_spec)| cluster.set_object(&claim_of(at, claim_spec)));
        let names: Vec<String> = (0..claims.len()).map(|at| format!("claim{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pod = pod(&mut cluster, "pod", &names);
        let mut plugin = plugin();
        check(&mut plugin, &cluster, &pod, &volumes, &claims)?;
        // One plugin follows a volume that changes.
        if let Some((at, spec)) = replaced.filter(|(at, _)| *at < volumes.len()) {
            cluster.set_object(&volume_of(at, &spec));
            volumes[at] = spec;
            check(&mut plugin, &cluster, &pod, &volumes, &claims)?;
        }
    }
}

fn check(
    plugin: &mut VolumeBinding,
    cluster: &TestCluster,
    pod: &Pod,
    volumes: &[TestVolume],
    claims: &[TestClaim],
) -> Result<(), TestCaseError> {
    let got = verdicts(plugin, cluster, pod);
    for (host, verdict) in got.iter().enumerate() {
        let expected = naive(volumes, claims, host);
        let reasons = if expected.is_some() { &[][..] } else { &[UNSATISFIED] };
        prop_assert_eq!(verdict, &rejected(reasons), "host {}", host);
        let choices = choices(plugin, cluster, pod, u32::try_from(host).unwrap());
        prop_assert_eq!(choices, expected.unwrap_or_default(), "host {}", host);
    }
    Ok(())
}
