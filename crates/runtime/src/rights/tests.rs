//! Tests that rights follow from profiles, plugins and grants, and from nothing else.

use berth_config::{Overrides, PluginHostSettings};
use berth_plugin_host::{Plugins, Rules, Sources};
use berth_wasm_host::FaultSink;
use serde_json::json;

use super::*;

/// The rules of kube-scheduler's ClusterRoles.
const THEIRS: &str = include_str!("rules_1.36.txt");

fn rights(profile: serde_json::Value, grants: &str) -> BTreeSet<String> {
    let rights = setup(profile, grants);
    rights.iter().map(|(access, _)| access.to_string()).collect()
}

fn setup(profile: serde_json::Value, plugins: &str) -> Rights {
    elected(profile, plugins, Election::Lease)
}

fn elected(profile: serde_json::Value, plugins: &str, election: Election) -> Rights {
    let text = format!("apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n{plugins}");
    let settings = PluginHostSettings::from_text("test", &text).expect("valid");
    let (plugins, _) =
        Plugins::inspect(Rules { settings, ..Rules::default() }, &Sources::default(), FaultSink::default())
            .expect("built-ins");
    let mut overrides = Overrides::default();
    overrides.fields.insert("profiles".to_owned(), json!([profile]));
    let settings = Settings::without_text(&overrides, &plugins.inventory).expect("valid settings");
    Rights::of_setup(&settings, &plugins.inventory, Operation { serving: Serving::Https, election })
}

fn without(plugin: &str) -> serde_json::Value {
    json!({"schedulerName": "x", "plugins": {"multiPoint": {"disabled": [{"name": plugin}]}}})
}

fn with_all() -> serde_json::Value {
    json!({"schedulerName": "x"})
}

#[test]
fn all_built_ins_need_no_more_than_kube_scheduler_may() {
    let mut theirs = BTreeSet::new();
    for line in THEIRS.lines() {
        let [group, resource, verbs] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let group = if group == "core" { "" } else { group };
        theirs.extend(verbs.split(',').map(|verb| ResourceAccess::new(group, resource, verb).to_string()));
    }
    let own_lease = |right: &String| right.contains("leases.coordination.k8s.io");
    let authorities = ["get", "watch"]
        .map(|verb| format!("{verb} configmaps \"extension-apiserver-authentication\" in namespace \"kube-system\""));
    let ours = rights(with_all(), "");
    let is_theirs = |right: &str| theirs.contains(right.split(" in namespace").next().unwrap_or_default());
    let beyond: Vec<&String> =
        ours.iter().filter(|right| !is_theirs(right) && !own_lease(right) && !authorities.contains(right)).collect();
    assert!(beyond.is_empty(), "{beyond:?}");
    assert_eq!(ours.iter().filter(|right| own_lease(right)).count(), 3);
    assert!(authorities.iter().all(|right| ours.contains(right)), "{ours:?}");
}

#[test]
fn a_coordinated_election_needs_the_candidates() {
    let shown = |election| -> BTreeSet<String> {
        elected(with_all(), "", election).iter().map(|(access, _)| access.to_string()).collect()
    };
    let (lease, coordinated) = (shown(Election::Lease), shown(Election::Coordinated));
    let added: Vec<&String> = coordinated.difference(&lease).collect();
    assert_eq!(
        added,
        [
            "create leasecandidates.coordination.k8s.io in namespace \"kube-system\"",
            "get leasecandidates.coordination.k8s.io in namespace \"kube-system\"",
            "list leasecandidates.coordination.k8s.io",
            "update leasecandidates.coordination.k8s.io in namespace \"kube-system\"",
            "watch leasecandidates.coordination.k8s.io",
        ]
    );
    assert!(lease.is_subset(&coordinated));
}

#[test]
fn a_plugin_that_is_disabled_takes_its_rights_along() {
    let all = rights(with_all(), "");
    let lost = |plugin: &str| all.difference(&rights(without(plugin), "")).cloned().collect::<Vec<_>>();
    assert_eq!(
        lost("DefaultPreemption"),
        ["delete pods", "list poddisruptionbudgets.policy", "watch poddisruptionbudgets.policy"]
    );
    let of_devices = lost("DynamicResources");
    for right in ["create resourceclaims.resource.k8s.io", "patch resourceclaims.resource.k8s.io/binding"] {
        assert!(of_devices.iter().any(|lost| lost == right), "{of_devices:?}");
    }
    assert!(of_devices.iter().all(|right| right.contains("resource.k8s.io") || right.ends_with("pods/finalizers")));
    assert!(lost("VolumeBinding").contains(&"patch persistentvolumes".to_owned()));
    assert_eq!(lost("NodeName"), Vec::<String>::new());
    let nothing = json!({"schedulerName": "x", "plugins": {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]}}});
    let least = rights(nothing, "");
    assert!(
        least.iter().all(|right| ["pods", "nodes", "events", "leases", "reviews", "configmaps"]
            .iter()
            .any(|word| right.contains(word))),
        "{least:?}"
    );
}

#[test]
fn grants_become_rights_where_they_hold() {
    let grants = "plugins: [{name: NodeName, grants: {effects: [evict], rules: [\
                  {apiGroups: [''], kinds: [Node], verbs: [patch], namespaces: ['*']}, \
                  {apiGroups: [example.com], kinds: [Herd/status], verbs: [patch], namespaces: [meadow]}, \
                  {apiGroups: ['*'], kinds: [Ox], verbs: [create]}]}}]\n";
    let preemption = without("DefaultPreemption");
    let setup = setup(preemption.clone(), grants);
    let with: BTreeSet<String> = setup.iter().map(|(access, _)| access.to_string()).collect();
    let more: Vec<String> = with.difference(&rights(preemption, "")).cloned().collect();
    assert_eq!(more, ["delete pods", "patch herds.example.com/status in namespace \"meadow\"", "patch nodes"]);
    let guessed: Vec<String> = setup.guessed().map(|kind| kind.kind.clone()).collect();
    assert_eq!(guessed, ["Herd"]);
    let [(plugin, rule)] = setup.unbounded() else { panic!("{:?}", setup.unbounded()) };
    assert_eq!((plugin.as_str(), rule.kinds.as_slice()), ("NodeName", &["Ox".to_owned()][..]));
}

#[test]
fn the_lease_is_needed_if_there_is_an_election() {
    let (plugins, _) =
        Plugins::inspect(Rules::default(), &Sources::default(), FaultSink::default()).expect("built-ins");
    let settings = Settings::without_text(&Overrides::default(), &plugins.inventory).expect("valid settings");
    let mut election = settings.leader_election;
    let accesses: Vec<String> = of_the_election(&election, Election::Lease).iter().map(ToString::to_string).collect();
    let expected = [
        "create events in namespace \"kube-system\"",
        "create leases.coordination.k8s.io in namespace \"kube-system\"",
        "get leases.coordination.k8s.io \"kube-scheduler\" in namespace \"kube-system\"",
        "update leases.coordination.k8s.io \"kube-scheduler\" in namespace \"kube-system\"",
    ];
    assert_eq!(accesses, expected);
    election.leader_elect = false;
    assert!(of_the_election(&election, Election::Lease).is_empty());
}
