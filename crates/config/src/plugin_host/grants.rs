//! The part of a `PluginHostConfiguration` document under `grants`.
//!
//! Only rules grant changes of objects. A verb among `effects` would not say which objects are meant, so it is refused,
//! and the error shows the rule to use instead.

use std::sync::LazyLock;

use berth_framework::{
    Namespaces, ObjectKind, ObjectRule, Permission, RuleObjects, Verb, grants::kind_and_subresource,
};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::PluginGrants;

/// The reason why a grant does not accept a value. The parser adds the place.
#[derive(Debug, thiserror::Error)]
enum GrantError {
    #[error("invalid kind {0:?}: expected apiVersion/kind, such as v1/ConfigMap or apps/v1/Deployment")]
    ObjectKind(String),
    #[error(
        "grants.effects: {0:?} changes objects and is not an effect: grant it in grants.rules, for example rules: \
         [{{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [{0}]}}]. To cover almost every kind, use rules: [{{apiGroups: \
         [\"*\"], kinds: [\"*\"], verbs: [{0}], namespaces: [\"*\"]}}]; \"*\" leaves out kinds that give power over the \
         cluster, such as Secret"
    )]
    VerbAmongEffects(&'static str),
    #[error("a rule needs at least one entry in {0}")]
    Empty(&'static str),
    #[error(
        "invalid kind {0:?} in a rule: expected Kind or Kind/subresource, such as PersistentVolumeClaim/status, or \
         \"*\""
    )]
    Kind(String),
    #[error("invalid API group {0:?}: leave out the version; the core group is \"\"")]
    ApiGroup(String),
    #[error("\"*\" already covers every value: remove the other entries of {0}")]
    StarAmongOthers(&'static str),
    #[error("a namespace must not be empty: \"*\" covers objects without a namespace")]
    EmptyNamespace,
    #[error("objects: {0} covers only the pod's own namespace: leave out namespaces, or set objects: any")]
    NamespacesOf(&'static str),
    #[error("objects: pod covers kind Pod and its subresources in apiGroup \"\", but not {0:?}")]
    NoPod(String),
    #[error("objects: pod cannot be created: the pod of the cycle already exists")]
    PodCreated,
    #[error("objects: claims covers the kinds PersistentVolumeClaim and ResourceClaim, but not {0:?}")]
    NoClaim(String),
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GrantsFields {
    /// The kinds of objects that the plugin may see completely, as `apiVersion/kind`.
    #[serde(default)]
    reads: Vec<ReadableKind>,
    /// Effects on pods and on the scheduler, by name.
    #[serde(default)]
    effects: Vec<NamedEffect>,
    /// The objects that the plugin may change, and the allowed changes.
    #[serde(default)]
    rules: Vec<CheckedRule>,
    /// Whether the plugin may see pending pods completely, including environment variables.
    #[serde(default)]
    pod_json: bool,
}

/// `apiVersion/kind`: `v1/ConfigMap`, `apps/v1/Deployment`.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("pattern" = "^.+/[^/]+$")))]
#[serde(try_from = "String")]
struct ReadableKind(#[cfg_attr(feature = "schema", schemars(with = "String"))] ObjectKind);

/// A kind of effect by its name.
#[derive(Debug)]
struct NamedEffect(Permission);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for NamedEffect {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NamedEffect".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": Permission::ALL.map(Permission::as_str) })
    }
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleFields {
    /// The core group is `""`, and `*` stands for every group.
    api_groups: Vec<String>,
    /// `PersistentVolumeClaim`, with a subresource `PersistentVolumeClaim/status`, or `*`.
    kinds: Vec<String>,
    /// The allowed changes.
    verbs: Vec<VerbName>,
    /// An empty list stands for the namespace of the cycle's pod, and `*` for every namespace and for objects without a
    /// namespace.
    #[serde(default)]
    namespaces: Vec<String>,
    /// The objects of these kinds that the rule covers.
    #[serde(default)]
    objects: ObjectsName,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "RuleFields")]
struct CheckedRule(#[cfg_attr(feature = "schema", schemars(with = "RuleFields"))] ObjectRule);

#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum VerbName {
    Patch,
    Create,
    Delete,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum ObjectsName {
    Pod,
    Claims,
    #[default]
    Any,
}

impl From<GrantsFields> for PluginGrants {
    fn from(grants: GrantsFields) -> Self {
        let GrantsFields { reads, effects, rules, pod_json } = grants;
        Self {
            reads: reads.into_iter().map(|kind| kind.0).collect(),
            effects: effects.into_iter().map(|effect| effect.0).collect(),
            rules: rules.into_iter().map(|rule| rule.0).collect(),
            pod_json,
        }
    }
}

impl<'de> Deserialize<'de> for NamedEffect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| Permission::ALL.map(Permission::as_str).to_vec());
        let name = String::deserialize(deserializer)?;
        if let Some(verb) = Verb::ALL.into_iter().find(|verb| verb.as_str() == name) {
            return Err(D::Error::custom(GrantError::VerbAmongEffects(verb.as_str())));
        }
        let permission = Permission::ALL.into_iter().find(|permission| permission.as_str() == name);
        permission.map(Self).ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
    }
}

impl TryFrom<String> for ReadableKind {
    type Error = GrantError;

    fn try_from(text: String) -> Result<Self, GrantError> {
        match text.rsplit_once('/') {
            Some((api_version, kind)) if !api_version.is_empty() && !kind.is_empty() => {
                Ok(Self(ObjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() }))
            }
            Some(_) | None => Err(GrantError::ObjectKind(text)),
        }
    }
}

impl TryFrom<RuleFields> for CheckedRule {
    type Error = GrantError;

    fn try_from(fields: RuleFields) -> Result<Self, GrantError> {
        let RuleFields { api_groups, kinds, verbs, namespaces, objects } = fields;
        let lengths = [("apiGroups", api_groups.len()), ("kinds", kinds.len()), ("verbs", verbs.len())];
        if let Some((list, _)) = lengths.into_iter().find(|(_, length)| *length == 0) {
            return Err(GrantError::Empty(list));
        }
        if let Some(group) = api_groups.iter().find(|group| group.contains('/') || *group == "v1") {
            return Err(GrantError::ApiGroup(group.clone()));
        }
        if let Some(kind) = kinds.iter().find(|kind| !is_kind(kind)) {
            return Err(GrantError::Kind(kind.clone()));
        }
        for (list, names) in [("apiGroups", &api_groups), ("namespaces", &namespaces)] {
            if names.len() > 1 && names.iter().any(|name| name == "*") {
                return Err(GrantError::StarAmongOthers(list));
            }
        }
        let verbs: Vec<Verb> = verbs.into_iter().map(Verb::from).collect();
        let objects = match objects {
            ObjectsName::Any => RuleObjects::Any(self::namespaces(namespaces)?),
            ObjectsName::Pod if !namespaces.is_empty() => return Err(GrantError::NamespacesOf("pod")),
            ObjectsName::Claims if !namespaces.is_empty() => return Err(GrantError::NamespacesOf("claims")),
            ObjectsName::Pod => {
                check_pod(&api_groups, &kinds, &verbs)?;
                RuleObjects::Pod
            }
            ObjectsName::Claims => {
                check_claims(&kinds)?;
                RuleObjects::Claims
            }
        };
        Ok(Self(ObjectRule { api_groups, kinds, verbs, objects }))
    }
}

/// Whether the name is `*` or `Kind`, with or without a subresource.
fn is_kind(named: &str) -> bool {
    let (kind, subresource) = kind_and_subresource(named);
    let is_subresource = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    (kind == "*" || kind.starts_with(|first: char| first.is_ascii_uppercase()))
        && subresource.is_none_or(is_subresource)
}

fn namespaces(names: Vec<String>) -> Result<Namespaces, GrantError> {
    match names.as_slice() {
        [] => Ok(Namespaces::OfPod),
        [star] if star == "*" => Ok(Namespaces::All),
        names if names.iter().any(String::is_empty) => Err(GrantError::EmptyNamespace),
        names => Ok(Namespaces::Named(names.to_vec())),
    }
}

fn check_pod(api_groups: &[String], kinds: &[String], verbs: &[Verb]) -> Result<(), GrantError> {
    if let Some(group) = api_groups.iter().find(|group| !group.is_empty()) {
        return Err(GrantError::NoPod(group.clone()));
    }
    if let Some(kind) = kinds.iter().find(|kind| kind_and_subresource(kind).0 != "Pod") {
        return Err(GrantError::NoPod(kind.clone()));
    }
    if verbs.contains(&Verb::Create) { Err(GrantError::PodCreated) } else { Ok(()) }
}

fn check_claims(kinds: &[String]) -> Result<(), GrantError> {
    let is_other = |kind: &&String| !matches!(kind_and_subresource(kind).0, "PersistentVolumeClaim" | "ResourceClaim");
    kinds.iter().find(is_other).map_or(Ok(()), |kind| Err(GrantError::NoClaim(kind.clone())))
}

impl From<VerbName> for Verb {
    fn from(name: VerbName) -> Self {
        match name {
            VerbName::Patch => Self::Patch,
            VerbName::Create => Self::Create,
            VerbName::Delete => Self::Delete,
        }
    }
}
