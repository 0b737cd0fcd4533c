//! The grants of an operator to a plugin. Effects on pods and the scheduler are granted by name. Changes of objects are
//! granted by rules.
//!
//! A rule names kinds, verbs and objects, as an RBAC rule does. The scheduler decides which objects are the cycle's pod
//! and its claims, because only the scheduler knows the cycle.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    effect::{ObjectAccess, Permission, Verb},
    object_kind::ObjectKind,
};

/// Serializes rules as a list.
mod shared_rules {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::ObjectRule;

    pub(super) fn serialize<S: Serializer>(rules: &Arc<[ObjectRule]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&**rules)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[ObjectRule]>, D::Error> {
        Vec::deserialize(deserializer).map(Arc::from)
    }
}

/// The name that matches every API group, kind or namespace.
const ANY: &str = "*";

/// The effects for which a plugin may ask. The grants also name the objects that the plugin may see. This module does
/// not check the rights to see objects. They are part of the grants so that a message can show the whole configuration
/// entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    permissions: u16,
    objects: GrantedObjects,
    reads: Vec<ObjectKind>,
    pod_json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum GrantedObjects {
    All,
    ByRules(#[serde(with = "shared_rules")] Arc<[ObjectRule]>),
}

/// The objects that a plugin may change, and the allowed changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRule {
    /// The API groups. The core group is the empty text; `*` is every group except the kinds that must be named.
    pub api_groups: Vec<String>,
    /// The kinds, such as `PersistentVolumeClaim`, or with a subresource `PersistentVolumeClaim/status`. `*` is every
    /// kind except the kinds that must be named, and `*/status` is the status of all these kinds.
    pub kinds: Vec<String>,
    /// The allowed actions.
    pub verbs: Vec<Verb>,
    /// The objects of the kinds that the rule covers.
    pub objects: RuleObjects,
}

/// The objects that a rule covers, among the objects of the rule's kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleObjects {
    /// The pod of the cycle.
    Pod,
    /// The PersistentVolumeClaims and ResourceClaims of the pod of the cycle.
    Claims,
    /// All objects in these namespaces.
    Any(Namespaces),
}

/// The namespaces of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// The namespace of the pod of the cycle.
    #[default]
    OfPod,
    /// The namespaces with these names.
    Named(Vec<String>),
    /// All namespaces, and objects without a namespace.
    All,
}

/// Core kinds that give power over the cluster, or rights that no rule mentions. Some of these kinds run pods, and so
/// can use any service account. The other kinds are credentials, nodes, volumes on the nodes' file systems, and whole
/// namespaces. `*` covers these kinds neither as a kind nor as a group.
const GUARDED_KINDS: [&str; 9] = [
    "Binding",
    "Namespace",
    "Node",
    "PersistentVolume",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "Secret",
    "ServiceAccount",
];

/// API groups whose kinds all give power over the cluster or rights.
const GUARDED_GROUPS: [&str; 16] = [
    // The first groups control access, and identify users.
    "admissionregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "rbac.authorization.k8s.io",
    // The next groups decide which kinds exist, which servers serve and store them, and which requests the API server
    // handles first.
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
    // The Leases of this group decide which of several controllers leads, and which nodes are alive.
    "coordination.k8s.io",
    // The next groups run pods.
    "apps",
    "batch",
    // The last groups isolate pods and keep them available.
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
];

impl Default for GrantedObjects {
    fn default() -> Self {
        Self::ByRules(Arc::default())
    }
}

impl Grants {
    /// Grants that allow everything, for tests and for runs in which no effect is carried out.
    pub const ALL: Grants =
        Grants { permissions: u16::MAX, objects: GrantedObjects::All, reads: Vec::new(), pod_json: true };

    /// Grants of these effects by name, and of the changes that the rules cover.
    #[must_use]
    pub fn new(permissions: impl IntoIterator<Item = Permission>, rules: impl Into<Arc<[ObjectRule]>>) -> Self {
        let permissions = permissions.into_iter().fold(0, |bits, permission| bits | 1 << (permission as u16));
        Self { permissions, objects: GrantedObjects::ByRules(rules.into()), ..Self::default() }
    }

    /// Adds rights to see: whole objects of these kinds, and with `pod_json` the JSON of pending pods.
    #[must_use]
    pub fn with_reads(mut self, reads: Vec<ObjectKind>, pod_json: bool) -> Self {
        (self.reads, self.pod_json) = (reads, pod_json);
        self
    }

    /// The kinds of objects that the plugin may see.
    #[must_use]
    pub fn reads(&self) -> &[ObjectKind] {
        &self.reads
    }

    /// Adds this effect to the grants.
    #[must_use]
    pub fn with(mut self, permission: Permission) -> Self {
        self.permissions |= 1 << (permission as u16);
        self
    }

    /// Adds this rule to the grants.
    #[must_use]
    pub fn with_rule(mut self, rule: ObjectRule) -> Self {
        if let GrantedObjects::ByRules(rules) = &mut self.objects {
            *rules = rules.iter().cloned().chain([rule]).collect();
        }
        self
    }

    /// Whether the effect is granted by name.
    #[must_use]
    pub fn allows(&self, permission: Permission) -> bool {
        self.permissions >> (permission as u16) & 1 == 1
    }

    /// Whether a rule covers the change. `covers` is called with the objects of each rule that names the kind and the
    /// verb. It says whether the changed object is among these objects.
    pub fn allow_access(&self, access: &ObjectAccess<'_>, covers: impl Fn(&RuleObjects) -> bool) -> bool {
        match &self.objects {
            GrantedObjects::All => true,
            GrantedObjects::ByRules(rules) => rules.iter().any(|rule| rule.is_about(access) && covers(&rule.objects)),
        }
    }

    /// Whether the grants are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The entry of a `PluginHostConfiguration` with these grants for the plugin, on one line.
    #[must_use]
    pub fn entry(&self, plugin: &str) -> String {
        format!("plugins: [{{name: {plugin}, {}}}]", self.field())
    }

    /// The text for users if `plugin` asked for `what` without a grant, and these grants would allow it.
    #[must_use]
    pub fn would_allow(&self, plugin: &str, what: &str) -> String {
        format!(
            "plugin \"{plugin}\" asked for {what}, but is not granted it; to grant it, add to --plugin-config: {}",
            self.entry(plugin)
        )
    }

    /// A `PluginHostConfiguration` that contains only [`Self::entry`], on one line.
    #[must_use]
    pub fn document(&self, plugin: &str) -> String {
        format!("{{apiVersion: berth.dev/v1alpha1, kind: PluginHostConfiguration, {}}}", self.entry(plugin))
    }

    /// The field `grants` of [`Self::entry`], on one line.
    #[must_use]
    pub fn field(&self) -> String {
        let mut fields = Vec::new();
        let mut list = |field: &str, items: Vec<String>| {
            if !items.is_empty() {
                fields.push(format!("{field}: [{}]", items.join(", ")));
            }
        };
        list("reads", self.reads.iter().map(ToString::to_string).collect());
        let effects = Permission::ALL.into_iter().filter(|permission| self.allows(*permission));
        list("effects", effects.map(|permission| permission.as_str().to_owned()).collect());
        if let GrantedObjects::ByRules(rules) = &self.objects {
            list("rules", rules.iter().map(ToString::to_string).collect());
        }
        fields.extend(self.pod_json.then(|| "podJson: true".to_owned()));
        format!("grants: {{{}}}", fields.join(", "))
    }
}

impl ObjectRule {
    /// Whether the rule names the verb and the kind of the change.
    fn is_about(&self, access: &ObjectAccess<'_>) -> bool {
        let (group, kind) = access.group_and_kind();
        let is_guarded = GUARDED_GROUPS.contains(&group) || (group.is_empty() && GUARDED_KINDS.contains(&kind));
        let names = |named: &str, it: &str| named == it || (named == ANY && !is_guarded);
        let has_kind = |named: &String| {
            let (named, subresource) = kind_and_subresource(named);
            subresource == access.subresource && names(named, kind)
        };
        self.verbs.contains(&access.verb)
            && self.api_groups.iter().any(|named| names(named, group))
            && self.kinds.iter().any(has_kind)
    }

    /// A text for users that lists what `*` does not cover; `None` for a rule without `*`.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let mut kinds = self.kinds.iter().map(|kind| kind_and_subresource(kind).0);
        if !kinds.any(|kind| kind == ANY) && !self.api_groups.iter().any(|group| group == ANY) {
            return None;
        }
        let (kinds, groups) = (GUARDED_KINDS.join(", "), GUARDED_GROUPS.join(", "));
        Some(format!(
            "\"*\" does not cover the kinds that give power over the cluster: {kinds} of the core group (\"\"), and the \
             groups {groups}; a rule that means them names the group and the kind"
        ))
    }

    /// The narrowest rule that covers changes of `objects` by this kind of access.
    #[must_use]
    pub fn for_access(access: &ObjectAccess<'_>, objects: RuleObjects) -> Self {
        let (group, kind) = access.group_and_kind();
        let subresource = access.subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
        let kinds = vec![format!("{kind}{subresource}")];
        Self { api_groups: vec![group.to_owned()], kinds, verbs: vec![access.verb], objects }
    }
}

impl Namespaces {
    /// Whether the namespaces include `namespace` in the cycle of a pod of the namespace `of_pod`. An object without a
    /// namespace has an empty `namespace`.
    #[must_use]
    pub fn contain(&self, namespace: &str, of_pod: &str) -> bool {
        match self {
            Namespaces::OfPod => namespace == of_pod,
            Namespaces::Named(names) => !namespace.is_empty() && names.iter().any(|name| name == namespace),
            Namespaces::All => true,
        }
    }
}

/// Splits a kind as rules write it into the kind and its subresource.
#[must_use]
pub fn kind_and_subresource(named: &str) -> (&str, Option<&str>) {
    named.split_once('/').map_or((named, None), |(kind, subresource)| (kind, Some(subresource)))
}

/// Writes the rule as a configuration contains it, on one line.
impl fmt::Display for ObjectRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| {
            let quoted = names.iter().map(|name| match name.as_str() {
                "" | ANY => format!("{name:?}"),
                name if name.starts_with('*') => format!("{name:?}"),
                name => name.to_owned(),
            });
            quoted.collect::<Vec<_>>().join(", ")
        };
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        let (groups, kinds) = (list(&self.api_groups), list(&self.kinds));
        write!(formatter, "{{apiGroups: [{groups}], kinds: [{kinds}], verbs: [{}]", verbs.join(", "))?;
        match &self.objects {
            RuleObjects::Pod => write!(formatter, ", objects: pod")?,
            RuleObjects::Claims => write!(formatter, ", objects: claims")?,
            RuleObjects::Any(Namespaces::OfPod) => {}
            RuleObjects::Any(Namespaces::Named(names)) => write!(formatter, ", namespaces: [{}]", list(names))?,
            RuleObjects::Any(Namespaces::All) => write!(formatter, ", namespaces: [\"*\"]")?,
        }
        write!(formatter, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], kinds: &[&str], verbs: &[Verb]) -> ObjectRule {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ObjectRule {
            api_groups: own(groups),
            kinds: own(kinds),
            verbs: verbs.to_vec(),
            objects: RuleObjects::Any(Namespaces::All),
        }
    }

    fn access<'a>(verb: Verb, kind: &'a str, subresource: Option<&'a str>) -> ObjectAccess<'a> {
        ObjectAccess { verb, kind, subresource, namespace: "default", name: Some("it") }
    }

    fn allows(rule: &ObjectRule, access: &ObjectAccess<'_>) -> bool {
        Grants::new([], [rule.clone()]).allow_access(access, |_| true)
    }

    #[test]
    fn nothing_is_allowed_without_a_grant() {
        let none = Grants::default();
        assert!(Permission::ALL.iter().all(|permission| !none.allows(*permission)));
        assert!(!none.allow_access(&access(Verb::Patch, "v1/ConfigMap", None), |_| true));
        let some = Grants::new([Permission::Evict], []);
        assert!(some.allows(Permission::Evict) && !some.allows(Permission::Bind));
        assert!(Permission::ALL.iter().all(|permission| Grants::ALL.allows(*permission)));
        assert!(Grants::ALL.allow_access(&access(Verb::Create, "v1/Binding", None), |_| false));
    }

    #[test]
    fn a_rule_covers_its_groups_kinds_subresources_and_verbs() {
        let status = rule(&["resource.k8s.io"], &["ResourceClaim/status"], &[Verb::Patch]);
        assert!(allows(&status, &access(Verb::Patch, "resource.k8s.io/v1/ResourceClaim", Some("status"))));
        assert!(allows(&status, &access(Verb::Patch, "resource.k8s.io/v1beta2/ResourceClaim", Some("status"))));
        for other in [
            access(Verb::Patch, "resource.k8s.io/v1/ResourceClaim", None),
            access(Verb::Delete, "resource.k8s.io/v1/ResourceClaim", Some("status")),
            access(Verb::Patch, "resource.k8s.io/v1/ResourceSlice", Some("status")),
            access(Verb::Patch, "v1/ResourceClaim", Some("status")),
            access(Verb::Patch, "ResourceClaim", Some("status")),
        ] {
            assert!(!allows(&status, &other), "{other:?}");
        }
        let claims = Grants::new([], [ObjectRule { objects: RuleObjects::Claims, ..status }]);
        let patch = access(Verb::Patch, "resource.k8s.io/v1/ResourceClaim", Some("status"));
        assert!(claims.allow_access(&patch, |objects| *objects == RuleObjects::Claims));
        assert!(!claims.allow_access(&patch, |objects| *objects == RuleObjects::Pod));
    }

    #[test]
    fn a_star_does_not_cover_what_must_be_named() {
        let all = rule(&["*"], &["*", "*/status", "*/binding", "*/eviction"], &Verb::ALL);
        assert!(allows(&all, &access(Verb::Delete, "example.com/v1/Ox", None)));
        assert!(allows(&all, &access(Verb::Patch, "v1/PersistentVolumeClaim", Some("status"))));
        assert!(!allows(&all, &access(Verb::Patch, "v1/Service", Some("proxy"))));
        for (kind, subresource) in [
            ("v1/Binding", None),
            ("v1/Pod", None),
            ("v1/Pod", Some("binding")),
            ("v1/Pod", Some("eviction")),
            ("v1/Pod", Some("status")),
            ("v1/Secret", None),
            ("/v1/Secret", None),
            ("v1/ServiceAccount", None),
            ("rbac.authorization.k8s.io/v1/ClusterRoleBinding", None),
            ("admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", None),
            ("certificates.k8s.io/v1/CertificateSigningRequest", Some("status")),
            ("authentication.k8s.io/v1/TokenReview", None),
            ("apiregistration.k8s.io/v1/APIService", None),
            ("apiextensions.k8s.io/v1/CustomResourceDefinition", None),
            ("apiextensions.k8s.io/v1/CustomResourceDefinition", Some("status")),
            ("flowcontrol.apiserver.k8s.io/v1/FlowSchema", None),
            ("coordination.k8s.io/v1/Lease", None),
            ("apps/v1/DaemonSet", None),
            ("batch/v1/Job", None),
            ("networking.k8s.io/v1/NetworkPolicy", None),
            ("policy/v1/PodDisruptionBudget", None),
            ("v1/Namespace", None),
            ("v1/Node", Some("status")),
            ("v1/PersistentVolume", None),
            ("v1/PodTemplate", None),
            ("v1/ReplicationController", None),
            ("authorization.k8s.io/v1/SubjectAccessReview", None),
            ("internal.apiserver.k8s.io/v1alpha1/StorageVersion", Some("status")),
            ("storagemigration.k8s.io/v1beta1/StorageVersionMigration", None),
            ("node.k8s.io/v1/RuntimeClass", None),
        ] {
            let (group, name) = access(Verb::Create, kind, None).group_and_kind();
            let named = subresource.map_or_else(|| name.to_owned(), |subresource| format!("{name}/{subresource}"));
            for verb in Verb::ALL {
                let access = access(verb, kind, subresource);
                for stars in [&all, &rule(&["*"], &[&named], &[verb]), &rule(&[group], &["*", "*/status"], &[verb])] {
                    assert!(!allows(stars, &access), "{access:?}");
                    assert!(stars.left_out().is_some_and(|left_out| left_out.contains(if group.is_empty() {
                        name
                    } else {
                        group
                    })));
                }
                let rule = rule(&[group], &[&named], &[verb]);
                assert!(allows(&rule, &access) && rule.left_out().is_none(), "{access:?}");
            }
        }
        assert!(allows(&all, &access(Verb::Patch, "example.com/v1/Secret", None)), "another Secret");
    }

    #[test]
    fn namespaces_are_those_that_are_said() {
        let named = Namespaces::Named(vec!["a".to_owned()]);
        let contained = |namespaces: &Namespaces| ["own", "a", "b", ""].map(|it| namespaces.contain(it, "own"));
        assert_eq!(contained(&Namespaces::OfPod), [true, false, false, false]);
        assert_eq!(contained(&named), [false, true, false, false]);
        assert_eq!(contained(&Namespaces::All), [true; 4]);
    }

    #[test]
    fn an_entry_shows_all_that_is_granted() {
        assert_eq!(Grants::default().entry("Mine"), "plugins: [{name: Mine, grants: {}}]");
        let reads = vec![ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() }];
        let rule = rule(&[""], &["ConfigMap"], &[Verb::Create]);
        let grants = Grants::new([Permission::Wait], []).with_reads(reads, true).with(Permission::Bind).with_rule(rule);
        let expected = "plugins: [{name: Mine, grants: {reads: [v1/Secret], effects: [bind, wait], rules: [{apiGroups: [\"\"], \
            kinds: [ConfigMap], verbs: [create], namespaces: [\"*\"]}], podJson: true}}]";
        assert_eq!(grants.entry("Mine"), expected);
    }

    #[test]
    fn a_rule_is_shown_as_it_is_written() {
        let access = access(Verb::Patch, "v1/PersistentVolumeClaim", Some("status"));
        let shown = |objects| ObjectRule::for_access(&access, objects).to_string();
        let rule =
            |rest: &str| format!("{{apiGroups: [\"\"], kinds: [PersistentVolumeClaim/status], verbs: [patch]{rest}}}");
        assert_eq!(shown(RuleObjects::Any(Namespaces::OfPod)), rule(""));
        assert_eq!(shown(RuleObjects::Any(Namespaces::All)), rule(", namespaces: [\"*\"]"));
        let named = Namespaces::Named(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(shown(RuleObjects::Any(named)), rule(", namespaces: [a, b]"));
        assert_eq!(shown(RuleObjects::Claims), rule(", objects: claims"));
        assert_eq!(shown(RuleObjects::Pod), rule(", objects: pod"));
    }
}
