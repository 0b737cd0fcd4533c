//! The check whether a plugin was granted the effects that it asks for.
//!
//! Rules refer to the pod of the cycle and to its claims. This module finds the claims in three places: in the pod, in
//! the objects of the cache, and in the objects that earlier effects of the same answer create. The objects are
//! identified by their uids. A granted change is made only if the object is still the checked object.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use berth_framework::{Demand, Effect, EffectKind, Grants, Namespaces, ObjectAccess, ObjectRule, RuleObjects};
use berth_model::{
    ClusterTable, Pod,
    pod::{ClaimName, VolumeSource},
};
use serde_json::Value;

use crate::action::GrantedEffect;

const VOLUME_CLAIM: (&str, &str) = ("", "PersistentVolumeClaim");
const RESOURCE_CLAIM: (&str, &str) = ("resource.k8s.io", "ResourceClaim");

/// The pod of a cycle, and the cluster in which the pod's claims are looked up. The value serves one answer or several
/// answers. It reads each object of the cache once, even if many effects name the object.
#[derive(Debug)]
pub struct CyclePod<'a> {
    pod: &'a Pod,
    table: &'a ClusterTable,
    /// Ownerships by kind, namespace and name.
    cached: RefCell<BTreeMap<[String; 3], Option<Rc<Ownership>>>>,
}

/// An effect that was not granted, and the grants that would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEffect {
    /// The kind under which refusals are counted.
    kind: EffectKind,
    /// `bind`, or `patch of v1/Secret default/token`.
    what: String,
    /// The plugin's grants together with a grant of just this effect.
    enough: Grants,
}

impl RefusedEffect {
    /// The kind under which refusals are counted.
    #[must_use]
    pub fn kind(&self) -> EffectKind {
        self.kind
    }

    /// The refused effect, for example `bind` or `patch of v1/Secret default/token`.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The plugin's grants together with the grants that it would need for this effect.
    #[must_use]
    pub fn enough(&self) -> &Grants {
        &self.enough
    }

    /// The text for the pod and its user. It says what was refused, and shows an entry of a `PluginHostConfiguration`.
    /// The entry would allow the effect in addition to the plugin's present grants.
    #[must_use]
    pub fn message(&self, plugin: &str) -> String {
        self.enough.would_allow(plugin, &self.what)
    }
}

impl<'a> CyclePod<'a> {
    /// A check for effects in the cycle of `pod`. `table` contains the objects that rules may be about.
    #[must_use]
    pub fn new(pod: &'a Pod, table: &'a ClusterTable) -> Self {
        Self { pod, table, cached: RefCell::default() }
    }

    /// The first of an answer's effects that these grants do not cover.
    #[must_use]
    pub fn first_refused(&self, grants: &Grants, answer: &[Effect]) -> Option<RefusedEffect> {
        let mut before = Before::default();
        for effect in answer {
            match effect.demand() {
                Demand::Named(permission) if grants.allows(permission) => {}
                Demand::Named(permission) => {
                    let (kind, what) = (EffectKind::Named(permission), permission.as_str().to_owned());
                    return Some(RefusedEffect { kind, what, enough: grants.clone().with(permission) });
                }
                Demand::Object(access) => {
                    let covers = |objects: &RuleObjects| self.covers(objects, &access, effect, &before);
                    if !grants.allow_access(&access, covers) {
                        return Some(self.refused(grants, &access, effect, &before));
                    }
                    before.add(&access, effect);
                }
            }
        }
        None
    }

    /// The effects of an answer, each with the uid that its object must have. This is the uid of the pod of the cycle,
    /// or of its claim in the cache.
    pub(super) fn with_uids(&self, answer: Vec<Effect>) -> Vec<GrantedEffect> {
        let uids: Vec<Option<Box<str>>> = {
            let mut before = Before::default();
            let uid_of = |effect: &Effect| {
                let Demand::Object(access) = effect.demand() else { return None };
                let uid = self.uid_of(&access, effect, &before);
                before.add(&access, effect);
                uid
            };
            answer.iter().map(uid_of).collect()
        };
        answer.into_iter().zip(uids).map(|(effect, uid)| GrantedEffect { effect, uid }).collect()
    }

    /// The uid that the object of the effect must have. The result is `None` for an object that is neither the pod nor
    /// its claim, for an object that the cache lacks, and for an object that an earlier effect of the answer creates or
    /// deletes.
    fn uid_of(&self, access: &ObjectAccess<'_>, effect: &Effect, before: &Before) -> Option<Box<str>> {
        if self.is_pod(access) {
            return Some(self.pod.uid.to_string().into());
        }
        let name = access.name?;
        if before.concerns(access, name) || !self.is_claim(access, effect, before) {
            return None;
        }
        self.cached(access, name)?.uid.as_deref().map(Into::into)
    }

    fn covers(&self, objects: &RuleObjects, access: &ObjectAccess<'_>, effect: &Effect, before: &Before) -> bool {
        match objects {
            RuleObjects::Pod => self.is_pod(access),
            RuleObjects::Claims => self.is_claim(access, effect, before),
            RuleObjects::Any(namespaces) => namespaces.contain(access.namespace, self.namespace()),
        }
    }

    fn refused(&self, grants: &Grants, access: &ObjectAccess<'_>, effect: &Effect, before: &Before) -> RefusedEffect {
        let objects = if self.is_pod(access) {
            RuleObjects::Pod
        } else if self.is_claim(access, effect, before) {
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
        RefusedEffect { kind, what, enough: grants.clone().with_rule(ObjectRule::for_access(access, objects)) }
    }

    fn namespace(&self) -> &'a str {
        self.table.symbols.text(self.pod.namespace)
    }

    fn is_pod(&self, access: &ObjectAccess<'_>) -> bool {
        access.group_and_kind() == ("", "Pod")
            && access.namespace == self.namespace()
            && access.name.is_some_and(|name| *name == *self.pod.name)
    }

    /// Whether the object is a claim of the pod: a claim that the pod names, or a claim that the pod controls. The
    /// controller is read from the cache, or from an earlier effect of the answer that creates the claim. If an object
    /// of that name exists already, the creation fails, and the later effects are not carried out.
    fn is_claim(&self, access: &ObjectAccess<'_>, effect: &Effect, before: &Before) -> bool {
        if !is_claim_kind(access) || access.namespace != self.namespace() {
            return false;
        }
        let Some(name) = access.name else {
            let made = if let Effect::Create { body, .. } = effect { Ownership::read(body) } else { None };
            return made.is_some_and(|made| made.is_controlled_by(self.pod));
        };
        let is_made = || before.created(access, name).is_some_and(|made| made.is_controlled_by(self.pod));
        let is_controlled = || self.cached(access, name).is_some_and(|object| object.is_controlled_by(self.pod));
        self.names(access, name) || is_made() || is_controlled()
    }

    fn names(&self, access: &ObjectAccess<'_>, name: &str) -> bool {
        if access.group_and_kind() == VOLUME_CLAIM {
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

    fn cached(&self, access: &ObjectAccess<'_>, name: &str) -> Option<Rc<Ownership>> {
        let read = || {
            let (api_version, kind) = access.kind.rsplit_once('/')?;
            Ownership::read(self.table.objects().get(api_version, kind, access.namespace, name)?).map(Rc::new)
        };
        self.cached.borrow_mut().entry(key(access, name)).or_insert_with(read).clone()
    }
}

/// The changes that earlier effects of an answer make to claims.
#[derive(Debug, Default)]
struct Before {
    /// Ownerships by kind, namespace and name; `None` if the claim is deleted.
    claims: BTreeMap<[String; 3], Option<Ownership>>,
}

/// The parts of an object that identify it and its controllers.
#[derive(Debug)]
struct Ownership {
    name: String,
    /// The uid; `None` if the object is still to be created.
    uid: Option<String>,
    /// The uids of the controllers.
    controllers: Vec<String>,
}

impl Before {
    fn add(&mut self, access: &ObjectAccess<'_>, effect: &Effect) {
        if !is_claim_kind(access) {
            return;
        }
        if let Effect::Create { body, .. } = effect
            && let Some(made) = Ownership::read(body)
        {
            self.claims.insert(key(access, &made.name), Some(made));
        }
        if let Effect::Delete { name, .. } = effect {
            self.claims.insert(key(access, name), None);
        }
    }

    fn concerns(&self, access: &ObjectAccess<'_>, name: &str) -> bool {
        self.claims.contains_key(&key(access, name))
    }

    fn created(&self, access: &ObjectAccess<'_>, name: &str) -> Option<&Ownership> {
        self.claims.get(&key(access, name))?.as_ref()
    }
}

fn key(access: &ObjectAccess<'_>, name: &str) -> [String; 3] {
    [access.kind, access.namespace, name].map(ToOwned::to_owned)
}

fn is_claim_kind(access: &ObjectAccess<'_>) -> bool {
    matches!(access.group_and_kind(), VOLUME_CLAIM | RESOURCE_CLAIM)
}

impl Ownership {
    fn read(json: &[u8]) -> Option<Self> {
        let object: Value = serde_json::from_slice(json).ok()?;
        let metadata = object.get("metadata")?;
        let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        let controllers = owners.iter().filter(|owner| owner["controller"] == true);
        let controllers = controllers.filter_map(|owner| owner["uid"].as_str()).map(ToOwned::to_owned).collect();
        let text = |field: &str| metadata[field].as_str().map(ToOwned::to_owned);
        Some(Self { name: text("name").unwrap_or_default(), uid: text("uid"), controllers })
    }

    fn is_controlled_by(&self, pod: &Pod) -> bool {
        self.controllers.iter().any(|uid| **uid == *pod.uid)
    }
}
