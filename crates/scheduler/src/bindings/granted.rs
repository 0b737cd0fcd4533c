//! Whether a plugin was granted what it asks for.
//!
//! Rules speak of the pod of the cycle and of its claims. Which objects these are is decided here, from the pod, from the
//! objects that the cache holds, and from what the same answer creates.

use berth_framework::{
    Demand, Effect, EffectKind, Grants, Namespaces, ObjectAccess, ObjectRule, Permission, RuleObjects,
};
use berth_model::{
    ClusterTable, Pod,
    pod::{ClaimName, VolumeSource},
};
use serde_json::Value;

const VOLUME_CLAIM: (&str, &str) = ("", "PersistentVolumeClaim");
const RESOURCE_CLAIM: (&str, &str) = ("resource.k8s.io", "ResourceClaim");

/// The pod of a cycle, and the cluster that its claims are looked up in.
#[derive(Clone, Copy, Debug)]
pub struct CyclePod<'a> {
    pod: &'a Pod,
    table: &'a ClusterTable,
}

/// What was not granted, and what would grant it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedEffect {
    /// It concerns pods or the scheduler.
    Named(Permission),
    /// It changes an object.
    Object {
        /// As refusals are counted.
        kind: EffectKind,
        /// `patch of v1/Secret default/token`.
        what: String,
        /// It would cover this change and no more.
        rule: ObjectRule,
    },
}

impl RefusedEffect {
    /// As refusals are counted.
    #[must_use]
    pub fn kind(&self) -> EffectKind {
        match self {
            RefusedEffect::Named(permission) => EffectKind::Named(*permission),
            RefusedEffect::Object { kind, .. } => *kind,
        }
    }

    /// For the pod and its user: what was refused, and the entry of a `PluginHostConfiguration` that would allow it.
    #[must_use]
    pub fn message(&self, plugin: &str) -> String {
        let (what, grants) = match self {
            RefusedEffect::Named(permission) => (permission.as_str(), format!("effects: [{}]", permission.as_str())),
            RefusedEffect::Object { what, rule, .. } => (what.as_str(), format!("rules: [{rule}]")),
        };
        format!(
            "plugin \"{plugin}\" asked for {what}, which it was not granted; in --plugin-config this would allow it: \
             plugins: [{{name: {plugin}, grants: {{{grants}}}}}]"
        )
    }
}

impl<'a> CyclePod<'a> {
    /// `table` holds the objects that rules may be about.
    #[must_use]
    pub fn new(pod: &'a Pod, table: &'a ClusterTable) -> Self {
        Self { pod, table }
    }

    /// The first of an answer's effects that these grants do not cover.
    #[must_use]
    pub fn first_refused(self, grants: &Grants, answer: &[Effect]) -> Option<RefusedEffect> {
        answer.iter().find_map(|effect| match effect.demand() {
            Demand::Named(permission) => (!grants.allows(permission)).then_some(RefusedEffect::Named(permission)),
            Demand::Object(access) => {
                let covers = |objects: &RuleObjects| self.covers(objects, &access, effect, answer);
                (!grants.allow_access(&access, covers)).then(|| self.refused(&access, effect, answer))
            }
        })
    }

    fn covers(self, objects: &RuleObjects, access: &ObjectAccess<'_>, effect: &Effect, answer: &[Effect]) -> bool {
        match objects {
            RuleObjects::Pod => self.is_pod(access),
            RuleObjects::Claims => self.is_claim(access, effect, answer),
            RuleObjects::Any(namespaces) => namespaces.contain(access.namespace, self.namespace()),
        }
    }

    fn refused(self, access: &ObjectAccess<'_>, effect: &Effect, answer: &[Effect]) -> RefusedEffect {
        let objects = if self.is_pod(access) {
            RuleObjects::Pod
        } else if self.is_claim(access, effect, answer) {
            RuleObjects::Claims
        } else if access.namespace.is_empty() {
            RuleObjects::Any(Namespaces::All)
        } else if access.namespace == self.namespace() {
            RuleObjects::Any(Namespaces::OfPod)
        } else {
            RuleObjects::Any(Namespaces::Named(vec![access.namespace.to_owned()]))
        };
        let kind = EffectKind::Object(access.verb);
        let subresource = access.subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
        let place = match (access.namespace, access.name) {
            ("", None) => String::new(),
            ("", Some(name)) => format!(" {name}"),
            (namespace, None) => format!(" in namespace {namespace}"),
            (namespace, Some(name)) => format!(" {namespace}/{name}"),
        };
        let what = format!("{} of {}{subresource}{place}", kind.as_str(), access.kind);
        RefusedEffect::Object { kind, what, rule: ObjectRule::for_access(access, objects) }
    }

    fn namespace(self) -> &'a str {
        self.table.symbols.text(self.pod.namespace)
    }

    fn is_pod(self, access: &ObjectAccess<'_>) -> bool {
        access.group_and_kind() == ("", "Pod")
            && access.namespace == self.namespace()
            && access.name.is_some_and(|name| *name == *self.pod.name)
    }

    /// Whether it is a claim that the pod names, or one whose controller is the pod.
    fn is_claim(self, access: &ObjectAccess<'_>, effect: &Effect, answer: &[Effect]) -> bool {
        let kind = access.group_and_kind();
        if !matches!(kind, VOLUME_CLAIM | RESOURCE_CLAIM) || access.namespace != self.namespace() {
            return false;
        }
        match access.name {
            None => self.created_name(effect).is_some(),
            Some(name) => self.names(kind, name) || self.controls(access, name) || self.creates(access, name, answer),
        }
    }

    fn names(self, kind: (&str, &str), name: &str) -> bool {
        if kind == VOLUME_CLAIM {
            return self.pod.volumes.iter().any(|volume| match &volume.source {
                VolumeSource::Claim(claim) => **claim == *name,
                VolumeSource::Ephemeral => format!("{}-{}", self.pod.name, volume.name) == name,
                VolumeSource::GcePersistentDisk { .. }
                | VolumeSource::AwsElasticBlockStore { .. }
                | VolumeSource::Iscsi { .. }
                | VolumeSource::Rbd { .. }
                | VolumeSource::Csi { .. }
                | VolumeSource::InTree { .. } => false,
            });
        }
        let is_named = |claim: &ClaimName| match claim {
            ClaimName::Known(known) => **known == *name,
            ClaimName::Pending | ClaimName::NotNeeded => false,
        };
        self.pod.resource_claims.iter().any(|claim| is_named(&claim.claim))
            || self.pod.extended_claim.as_deref() == Some(name)
    }

    /// Whether the cache holds the object, and it says that the pod is its controller.
    fn controls(self, access: &ObjectAccess<'_>, name: &str) -> bool {
        let object = access
            .kind
            .rsplit_once('/')
            .and_then(|(api_version, kind)| self.table.objects().get(api_version, kind, access.namespace, name));
        object.and_then(|json| self.controlled_name(json)).is_some()
    }

    /// Whether the answer creates the object, with the pod as its controller.
    fn creates(self, access: &ObjectAccess<'_>, name: &str, answer: &[Effect]) -> bool {
        let is_it = |effect: &Effect| {
            matches!(effect, Effect::Create { kind, namespace, .. }
                if kind == access.kind && namespace == access.namespace)
        };
        answer.iter().filter(|effect| is_it(effect)).any(|effect| self.created_name(effect).as_deref() == Some(name))
    }

    fn created_name(self, effect: &Effect) -> Option<String> {
        if let Effect::Create { body, .. } = effect { self.controlled_name(body) } else { None }
    }

    /// The object's name, if its controller is the pod.
    fn controlled_name(self, json: &[u8]) -> Option<String> {
        let object: Value = serde_json::from_slice(json).ok()?;
        let metadata = object.get("metadata")?;
        let owners = metadata.get("ownerReferences")?.as_array()?;
        let is_pod = |owner: &Value| owner["uid"] == *self.pod.uid && owner["controller"] == true;
        owners.iter().any(is_pod).then(|| metadata["name"].as_str().unwrap_or_default().to_owned())
    }
}
