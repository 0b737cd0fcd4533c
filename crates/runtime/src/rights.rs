//! The rights that a setup needs at the API server, and the parts of the scheduler that need each right. `berth doctor`
//! asks the API server whether the user has these rights, and `berth rbac` prints the roles that grant the rights.
//!
//! This module lists the rights of every scheduler. The other rights follow from the plugins that profiles enable: from
//! the kinds that they read, and from their grants. Rights that no plugin needs are not included.

use std::collections::{BTreeMap, BTreeSet};

use berth_cluster::ResourceAccess;
use berth_config::{LeaderElection, Settings};
use berth_framework::{Namespaces, ObjectRule, Permission, RuleObjects, grants::kind_and_subresource};
use berth_model::{Features, KindRef, PluginName, Release};
use berth_plugin_host::{Granted, PluginInventory, watched_kinds};

/// A group, a resource and verbs.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// The rights of every scheduler, with or without plugins.
const ALWAYS: [Row; 4] = [
    ("", "nodes", &["list", "watch"]),
    ("", "pods", &["list", "watch"]),
    ("", "pods/status", &["patch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
];

/// The rights for bindings. The pod is read if the answer to its binding was lost.
const BIND: [Row; 2] = [("", "pods", &["get"]), ("", "pods/binding", &["create"])];

const EVICT: [Row; 1] = [("", "pods", &["get", "delete"])];

/// Changes that the API server allows only together with another right.
const IMPLIED: [((&str, &str, &str), Row); 2] = [
    // The fields of a claim's status that allocate and reserve have a separate right (KEP-4381, feature gate
    // DRAResourceClaimGranularStatusAuthorization).
    (("resource.k8s.io", "resourceclaims/status", "patch"), ("resource.k8s.io", "resourceclaims/binding", &["patch"])),
    // A claim that is created for a pod blocks the pod's deletion (admission plugin
    // OwnerReferencesPermissionEnforcement).
    (("resource.k8s.io", "resourceclaims", "create"), ("", "pods/finalizers", &["update"])),
];

/// The rights to identify callers and to check what they may do.
const REVIEWS: [Row; 2] = [
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
];

/// The protocol over which the endpoints are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// Plain HTTP without authentication, or no endpoints.
    Http,
    /// HTTPS. The cluster identifies callers, and decides which certificates count.
    Https,
}

/// The method of leader election, if `leaderElection.leaderElect` is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The replicas contend for the Lease.
    Lease,
    /// The API server chooses from the LeaseCandidates of the replicas (KEP-4355, feature gate
    /// CoordinatedLeaderElection).
    Coordinated,
}

/// The options of the scheduler that rights depend on, in addition to its settings and plugins.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub serving: Serving,
    pub election: Election,
}

/// Rights, each with the parts of the scheduler that need it.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    needed: BTreeMap<ResourceAccess, BTreeSet<String>>,
    guessed: BTreeSet<KindRef>,
    unbounded: Vec<(PluginName, ObjectRule)>,
}

impl Rights {
    /// The rights that the scheduler needs without its plugins.
    #[must_use]
    pub fn of_scheduler(serving: Serving) -> Self {
        let mut rights = Self::default();
        rights.want_all(&ALWAYS, "the scheduler");
        if serving == Serving::Https {
            rights.want_all(&REVIEWS, "the endpoints over HTTPS");
            for verb in ["get", "watch"] {
                let authorities = ResourceAccess::new("", "configmaps", verb)
                    .to_object("kube-system", "extension-apiserver-authentication");
                rights.want(authorities, "the endpoints over HTTPS");
            }
        }
        rights
    }

    /// The rights that the scheduler needs with these settings and plugins.
    #[must_use]
    pub fn of_setup(settings: &Settings, inventory: &PluginInventory, operation: Operation) -> Self {
        let mut rights = Self::of_scheduler(operation.serving);
        for access in of_the_election(&settings.leader_election, operation.election) {
            rights.want(access, "leader election");
        }
        let names: BTreeSet<&PluginName> =
            settings.profiles.iter().flat_map(|profile| profile.plugins.named()).collect();
        for name in names {
            let Some(manifest) = inventory.manifest(name) else { continue };
            for kind in watched_kinds::wanted(&manifest, inventory.rules().features) {
                let resource = rights.resource(&kind);
                rights.want_all(&[(&kind.group, &resource, &["list", "watch"])], name);
            }
            rights.grant(name, &inventory.serving_granted(name));
        }
        rights
    }

    /// The rights that the scheduler needs with these settings and plugins in any Kubernetes release.
    #[must_use]
    pub fn of_any_release(settings: &Settings, inventory: &mut PluginInventory, operation: Operation) -> Self {
        let mut rights = Self::default();
        for release in Release::ALL {
            inventory.decide_as(Features::of(release));
            let Self { needed, guessed, unbounded } = Self::of_setup(settings, inventory, operation);
            for (access, users) in needed {
                rights.needed.entry(access).or_default().extend(users);
            }
            rights.guessed.extend(guessed);
            rights.unbounded = unbounded;
        }
        rights
    }

    /// Each right, with the parts that need it.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceAccess, &BTreeSet<String>)> {
        self.needed.iter()
    }

    /// The kinds with resource names that only the server knows. The names in these rights are guesses.
    pub fn guessed(&self) -> impl Iterator<Item = &KindRef> {
        self.guessed.iter()
    }

    /// The rules with `*`, which cover kinds that are not known. The rights for these kinds are not included.
    #[must_use]
    pub fn unbounded(&self) -> &[(PluginName, ObjectRule)] {
        &self.unbounded
    }

    fn want(&mut self, access: ResourceAccess, user: &str) {
        self.needed.entry(access).or_default().insert(user.to_owned());
    }

    fn want_all(&mut self, rows: &[(&str, &str, &[&str])], user: &str) {
        for (group, resource, verbs) in rows {
            for verb in *verbs {
                self.want(ResourceAccess::new(group, resource, verb), user);
            }
        }
    }

    /// The name of the kind's resource in paths and roles.
    fn resource(&mut self, kind: &KindRef) -> String {
        if !kind.has_known_plural() {
            self.guessed.insert(kind.clone());
        }
        kind.likely_plural()
    }

    /// Adds the rights for the effects of a plugin.
    fn grant(&mut self, plugin: &PluginName, granted: &Granted) {
        for effect in &granted.effects {
            match effect {
                Permission::Bind => self.want_all(&BIND, plugin),
                Permission::Evict => self.want_all(&EVICT, plugin),
                // The scheduler carries out the other effects itself, or with rights that it has anyway.
                Permission::WaitingPods
                | Permission::Activate
                | Permission::Nominate
                | Permission::Event
                | Permission::Wait => {}
            }
        }
        for rule in &granted.rules {
            let has_star = |names: &[String]| names.iter().any(|name| name.starts_with('*'));
            if has_star(&rule.api_groups) || has_star(&rule.kinds) {
                self.unbounded.push((plugin.clone(), rule.clone()));
            } else {
                self.grant_rule(plugin, rule);
            }
        }
    }

    fn grant_rule(&mut self, plugin: &PluginName, rule: &ObjectRule) {
        let namespaces = match &rule.objects {
            RuleObjects::Any(Namespaces::Named(names)) => names.clone(),
            // A pod may be in any namespace.
            RuleObjects::Pod | RuleObjects::Claims | RuleObjects::Any(Namespaces::OfPod | Namespaces::All) => {
                vec![String::new()]
            }
        };
        for (group, named) in rule.api_groups.iter().flat_map(|group| rule.kinds.iter().map(move |kind| (group, kind)))
        {
            let (kind, subresource) = kind_and_subresource(named);
            let kind = KindRef { group: group.clone(), kind: kind.to_owned(), ..KindRef::default() };
            let slash = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
            let resource = format!("{}{slash}", self.resource(&kind));
            for (verb, namespace) in rule.verbs.iter().flat_map(|verb| namespaces.iter().map(move |it| (verb, it))) {
                let access = ResourceAccess::new(group, &resource, verb.as_str()).to_object(namespace, "");
                self.want(access, plugin);
                for (change, row) in IMPLIED {
                    if change == (group.as_str(), resource.as_str(), verb.as_str()) {
                        self.want_all(&[row], plugin);
                    }
                }
            }
        }
    }
}

/// The rights for the election: the Lease, the LeaseCandidates if the API server chooses, and events about the election.
/// RBAC cannot limit creation to a name, and the names of LeaseCandidates are the identities of the replicas.
fn of_the_election(settings: &LeaderElection, election: Election) -> Vec<ResourceAccess> {
    if !settings.leader_elect {
        return Vec::new();
    }
    let (group, name, namespace) =
        ("coordination.k8s.io", settings.resource_name.as_str(), settings.resource_namespace.as_str());
    let mut rows = vec![
        ("", "events", "create", namespace, ""),
        (group, "leases", "create", namespace, ""),
        (group, "leases", "get", namespace, name),
        (group, "leases", "update", namespace, name),
    ];
    if election == Election::Coordinated {
        let candidates = "leasecandidates";
        rows.extend(["list", "watch"].map(|verb| (group, candidates, verb, "", "")));
        rows.extend(["get", "create", "update"].map(|verb| (group, candidates, verb, namespace, "")));
    }
    let access = |(group, resource, verb, namespace, name)| {
        ResourceAccess::new(group, resource, verb).to_object(namespace, name)
    };
    rows.into_iter().map(access).collect()
}

#[cfg(test)]
mod tests;
