//! The API server: does it answer, what time does it have, and may the scheduler do what it does?

use std::collections::{BTreeMap, BTreeSet};

use berth_cluster::{Client, ConnectError, ConnectOptions, ResourceAccess, connect, has_access, server_info};
use berth_config::LeaderElection;
use berth_framework::Permission;
use berth_model::PluginName;

use super::{Area, Doctor, Findings, files::Setup};
use crate::{failure::chain, user_agent::USER_AGENT, watched_kinds};

/// Leases and tokens of Kubernetes bear this much.
const MAX_SECONDS_AHEAD: i64 = 5;

/// What every scheduler does, whatever its plugins.
const ALWAYS: [(&str, &str, &[&str]); 5] = [
    ("", "pods", &["get", "list", "watch"]),
    ("", "pods/binding", &["create"]),
    ("", "pods/status", &["patch"]),
    ("", "nodes", &["list", "watch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
];

/// What the effects of some built-in plugins need.
const BY_PLUGIN: [(&str, &str, &str, &[&str]); 6] = [
    ("DefaultPreemption", "", "pods", &["delete"]),
    ("VolumeBinding", "", "persistentvolumeclaims", &["patch"]),
    ("VolumeBinding", "", "persistentvolumes", &["patch"]),
    ("DynamicResources", "resource.k8s.io", "resourceclaims", &["create", "delete", "patch"]),
    ("DynamicResources", "resource.k8s.io", "resourceclaims/status", &["patch"]),
    ("DynamicResources", "", "pods/status", &["patch"]),
];

pub(super) async fn look(doctor: &Doctor, setup: Option<&Setup>, findings: &mut Findings) {
    let named = setup.map(|setup| setup.settings.client_connection.kubeconfig.clone()).filter(|file| !file.is_empty());
    let kubeconfig = doctor.kubeconfig.clone().or_else(|| named.map(Into::into));
    let options = ConnectOptions {
        kubeconfig,
        context: doctor.context.clone(),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    let connection = match connect(&options).await {
        Ok(connection) => connection,
        Err(error) => {
            let fix = match &error {
                ConnectError::NoCluster => "give --kubeconfig FILE, or --offline to look at files only",
                _ => "correct the kubeconfig",
            };
            return findings.problem(Area::Cluster, chain(&error), fix);
        }
    };
    let server = connection.server;
    match server_info(&connection.client).await {
        Err(error) => {
            let fix = "is the address right, and can this machine reach it?";
            return findings.problem(Area::Cluster, format!("{server}: {}", chain(&error)), fix);
        }
        Ok(facts) => {
            findings.ok(Area::Cluster, format!("{server} answers: Kubernetes {}", facts.version));
            clocks(facts.seconds_ahead, findings);
        }
    }
    rights(&connection.client, wanted(setup), findings).await;
}

fn clocks(seconds_ahead: Option<i64>, findings: &mut Findings) {
    match seconds_ahead {
        None => findings.warning(Area::Cluster, "the API server does not say what time it is", "compare by hand"),
        Some(ahead) if ahead.abs() > MAX_SECONDS_AHEAD => {
            let relation = if ahead > 0 { "ahead of" } else { "behind" };
            let text = format!("the API server's clock is {} s {relation} this machine's", ahead.abs());
            findings.problem(Area::Cluster, text, "set the clocks (NTP): ages and time-outs of pods depend on them");
        }
        Some(_) => findings.ok(Area::Cluster, "the clocks agree"),
    }
}

async fn rights(client: &Client, wanted: BTreeMap<ResourceAccess, BTreeSet<String>>, findings: &mut Findings) {
    let mut missing = 0;
    let n_wanted = wanted.len();
    for (right, users) in wanted {
        match has_access(client, &right).await {
            Ok(true) => {}
            Ok(false) => {
                missing += 1;
                let users: Vec<String> = users.into_iter().collect();
                let text = format!("this user may not {right}, which is for {}", users.join(", "));
                let role = match right.namespace.as_str() {
                    "" => "its ClusterRole".to_owned(),
                    namespace => format!("a Role for it in the namespace {namespace}"),
                };
                let fix = format!("add to {role}: {}", right.rule());
                findings.problem(Area::Cluster, text, fix);
            }
            Err(error) => {
                let fix = "ask whoever runs the cluster; every user may ask about itself by default";
                return findings.problem(Area::Cluster, chain(&error), fix);
            }
        }
    }
    if missing == 0 {
        findings.ok(Area::Cluster, format!("this user may do all {n_wanted} things that the scheduler does"));
    }
}

/// What must be allowed, and for whom.
fn wanted(setup: Option<&Setup>) -> BTreeMap<ResourceAccess, BTreeSet<String>> {
    let mut wanted = BTreeMap::<ResourceAccess, BTreeSet<String>>::new();
    let mut want = |group: &str, resource: &str, verbs: &[&str], user: &str| {
        for verb in verbs {
            wanted.entry(ResourceAccess::new(group, resource, verb)).or_default().insert(user.to_owned());
        }
    };
    for (group, resource, verbs) in ALWAYS {
        want(group, resource, verbs, "the scheduler");
    }
    let Some(Setup { settings, plugins }) = setup else { return wanted };
    for access in of_the_election(&settings.leader_election) {
        wanted.entry(access).or_default().insert("leader election".to_owned());
    }
    let mut want = |group: &str, resource: &str, verbs: &[&str], user: &str| {
        for verb in verbs {
            wanted.entry(ResourceAccess::new(group, resource, verb)).or_default().insert(user.to_owned());
        }
    };
    let names: BTreeSet<&PluginName> = settings.profiles.iter().flat_map(|profile| profile.plugins.named()).collect();
    for name in names {
        let Some(manifest) = plugins.inventory.manifest(name) else { continue };
        for kind in watched_kinds::wanted(&manifest).into_iter().filter(|kind| !kind.plural.is_empty()) {
            want(&kind.group, &kind.plural, &["list", "watch"], name);
        }
        for (plugin, group, resource, verbs) in BY_PLUGIN {
            if *name == plugin {
                want(group, resource, verbs, name);
            }
        }
        if plugins.inventory.serving_grants(name).allows(Permission::Evict) {
            want("", "pods", &["delete"], name);
        }
    }
    wanted
}

/// What the election writes. RBAC cannot limit by name who may create.
fn of_the_election(election: &LeaderElection) -> Vec<ResourceAccess> {
    if !election.leader_elect {
        return Vec::new();
    }
    let access = |(verb, name): (&str, &str)| {
        ResourceAccess::new("coordination.k8s.io", "leases", verb).to_object(&election.resource_namespace, name)
    };
    let name = &election.resource_name;
    [("create", ""), ("get", name), ("update", name)].map(access).to_vec()
}

#[cfg(test)]
mod tests {
    use berth_config::{InTree, Settings};

    use super::*;

    #[test]
    fn the_lease_is_looked_at_if_there_is_an_election() {
        let mut election = Settings::defaults(&InTree::new(&berth_builtins::factories())).leader_election;
        let accesses: Vec<String> = of_the_election(&election).iter().map(ToString::to_string).collect();
        let expected = [
            "create leases.coordination.k8s.io in namespace \"kube-system\"",
            "get leases.coordination.k8s.io \"kube-scheduler\" in namespace \"kube-system\"",
            "update leases.coordination.k8s.io \"kube-scheduler\" in namespace \"kube-system\"",
        ];
        assert_eq!(accesses, expected);
        election.leader_elect = false;
        assert!(of_the_election(&election).is_empty());
    }
}
