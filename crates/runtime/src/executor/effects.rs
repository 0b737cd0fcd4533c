//! Carries out the effects that plugins asked for, as requests to the API server.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use berth_cluster::{Evicted, ObjectRef, WriteError};
use berth_framework::{CycleId, Effect, PatchType, Point};
use berth_model::{BinaryId, KindRef};
use berth_scheduler::{EventRecord, GrantedEffect, PodRef};
use berth_telemetry::{
    audit::{self, AuditEvent, By, EffectEntry, EffectTarget},
    klog::{V2, lines},
};
use futures::future::join_all;
use serde_json::{Value, json};
use tracing::debug;

use super::{Executor, is_gone, new_event};
use crate::traces::{ApiRequest, OpenRequest};

/// The API group of ResourceClaims.
const RESOURCE_GROUP: &str = "resource.k8s.io";

/// The plugin that asked for an effect, and the pod that the effect is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause<'a> {
    pub(super) pod: &'a PodRef,
    /// The profile, which events show to users as the reporter.
    pub(super) scheduler_name: &'a str,
    pub(super) plugin: &'a str,
    /// The binary that asked for the effect.
    pub(super) binary: Option<BinaryId>,
    pub(super) cycle: CycleId,
    /// The extension point at which the plugin asked for the effect.
    pub(super) point: Point,
}

/// The error of an effect that changes the pod of its [`Cause`], if this pod no longer exists.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct PodIsGone(String);

impl Cause<'_> {
    /// The error for a request about `object` that failed: [`PodIsGone`], or another error of the same text.
    fn failed(&self, verb: &str, object: &ObjectRef, error: &WriteError) -> anyhow::Error {
        let slash = if object.name.is_empty() { "" } else { "/" };
        let message = format!("cannot {verb} {}{slash}{}: {error}", object.plural, object.name);
        let is_the_pod = object.group.is_empty()
            && object.plural == "pods"
            && object.namespace.as_deref() == Some(&*self.pod.namespace)
            && object.name == *self.pod.name;
        if is_the_pod && is_gone(error) { PodIsGone(message).into() } else { anyhow!(message) }
    }
}

impl Executor {
    /// Carries out effects in order, up to the first that fails. Consecutive victims are evicted together, except the
    /// last victim, because its deletion lets the pod try again. An effect on an object that an earlier effect created
    /// is only applied to that object, and not to another object of the same name.
    pub(super) async fn effects(&self, cause: &Cause<'_>, effects: Vec<GrantedEffect>) -> Result<()> {
        let mut victims = Vec::new();
        let mut created = BTreeMap::new();
        for GrantedEffect { effect, uid } in effects {
            if let Effect::Evict { namespace, name, uid, message } = effect {
                victims.push((berth_cluster::PodRef { namespace, name, uid }, message));
                continue;
            }
            self.evict_all(cause, std::mem::take(&mut victims)).await?;
            let uid = uid.or_else(|| created.get(&object_key(&effect)?).cloned());
            let key = object_key(&effect);
            let made = self.effect(cause, effect, uid.as_deref()).await?;
            if let Some((key, uid)) = key.zip(made) {
                created.insert(key, uid);
            }
        }
        self.evict_all(cause, victims).await
    }

    async fn evict_all(&self, cause: &Cause<'_>, victims: Vec<(berth_cluster::PodRef, String)>) -> Result<()> {
        let Some(((last, message), others)) = victims.split_last() else { return Ok(()) };
        let gone = join_all(others.iter().map(|(victim, message)| self.evict(cause, victim, message))).await;
        gone.into_iter().collect::<Result<()>>()?;
        self.evict(cause, last, message).await
    }

    async fn evict(&self, cause: &Cause<'_>, victim: &berth_cluster::PodRef, message: &str) -> Result<()> {
        let result = self.evict_one(cause, victim, message).await;
        let (namespace, name) = (victim.namespace.clone(), victim.name.clone());
        let target = EffectTarget { verb: "evict", kind: "v1/Pod".to_owned(), subresource: None, namespace, name };
        self.audit_effect(cause, target, &result);
        result
    }

    async fn evict_one(&self, cause: &Cause<'_>, victim: &berth_cluster::PodRef, message: &str) -> Result<()> {
        let (namespace, name) = (victim.namespace.as_str(), victim.name.as_str());
        let request = ApiRequest { method: "DELETE", resource: "pods", subresource: None, namespace, name };
        let span = self.traces.begin_request(Some(cause.cycle), Some(cause.point), request);
        let evicted = self.writer.evict(victim, message).await;
        span.end(&evicted);
        let victim_name = format_args!("{namespace}/{name}");
        let preemptor = format_args!("{}/{}", cause.pod.namespace, cause.pod.name);
        let Evicted::Deleted { node, resource_version } =
            evicted.map_err(|error| anyhow!("cannot evict pod {victim_name}: {error}"))?
        else {
            debug!(target: V2, %preemptor, victim = %victim_name, "{}", lines::VICTIM_IS_GONE.message);
            return Ok(());
        };
        debug!(target: V2, %preemptor, victim = %victim_name, node, "{}", lines::PREEMPTED.message);
        self.recorder.record(new_event(EventRecord {
            regarding: PodRef {
                namespace: namespace.into(),
                name: name.into(),
                uid: victim.uid.as_str().into(),
                resource_version: resource_version.into(),
            },
            related: Some(cause.pod.clone()),
            warning: false,
            reason: "Preempted".into(),
            action: "Preempting".into(),
            note: format!("Preempted by pod {} on node {node}", cause.pod.uid),
            reporting_controller: cause.scheduler_name.into(),
        }));
        Ok(())
    }

    /// Carries out one effect. If the effect creates an object, returns the object's uid.
    async fn effect(&self, cause: &Cause<'_>, effect: Effect, uid: Option<&str>) -> Result<Option<Box<str>>> {
        let target = if self.sinks.audit.is_on() { target(cause.pod, &effect) } else { None };
        let result = self.request(cause, effect, uid).await;
        if let Some(target) = target {
            self.audit_effect(cause, target, &result);
        }
        result
    }

    fn audit_effect<T>(&self, cause: &Cause<'_>, target: EffectTarget, result: &Result<T>) {
        let effect = EffectEntry {
            profile: cause.scheduler_name.to_owned(),
            digest: audit::binary(cause.binary),
            pod: cause.pod.into(),
            cycle: cause.cycle.0,
            point: cause.point.shown_with_effects(),
            target,
            result: result.as_ref().err().map_or_else(|| "ok".to_owned(), |error| format!("{error:#}")),
        };
        self.sinks.audit.record(cause.plugin, By::Plugin, AuditEvent::Effect(effect));
    }

    async fn request(&self, cause: &Cause<'_>, effect: Effect, uid: Option<&str>) -> Result<Option<Box<str>>> {
        match effect {
            Effect::Patch { kind, namespace, name, subresource, patch, patch_type } => {
                let object = self.place(&kind, namespace, name).await?;
                let mut patch: Value = parse("patch", &patch)?;
                if let Some(uid) = uid {
                    require_uid(&mut patch, uid)?;
                }
                let subresource = subresource.as_deref();
                let span = self.begin_effect(cause, "PATCH", &object, subresource);
                let patched = self.writer.patch_object(&object, subresource, sent_as(patch_type), &patch).await;
                span.end(&patched);
                patched.map_err(|error| cause.failed("patch", &object, &error))?;
            }
            Effect::Create { kind, namespace, body } => return self.create(cause, &kind, namespace, &body).await,
            Effect::Delete { kind, namespace, name } => {
                let object = self.place(&kind, namespace, name).await?;
                let span = self.begin_effect(cause, "DELETE", &object, None);
                let deleted = self.writer.delete_object(&object, uid).await;
                span.end(&deleted);
                deleted.map_err(|error| cause.failed("delete", &object, &error))?;
            }
            Effect::Event { warning, reason, action, note } => {
                self.recorder.record(new_event(EventRecord {
                    regarding: cause.pod.clone(),
                    related: None,
                    warning,
                    reason: reason.into(),
                    action: action.into(),
                    note,
                    reporting_controller: cause.scheduler_name.into(),
                }));
            }
            Effect::Evict { namespace, name, uid, message } => {
                self.evict(cause, &berth_cluster::PodRef { namespace, name, uid }, &message).await?;
            }
            Effect::Wait { .. } => {
                bail!("plugin {} asked for the effect wait, which is allowed only at Permit and PreBind", cause.plugin)
            }
            Effect::Bind
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. } => {
                bail!(
                    "bug in Berth: the effect {effect:?} of plugin {} should have been carried out on the scheduling thread",
                    cause.plugin
                )
            }
        }
        Ok(None)
    }

    /// Creates the object, and returns its uid.
    async fn create(&self, cause: &Cause<'_>, kind: &str, namespace: String, body: &[u8]) -> Result<Option<Box<str>>> {
        let object = self.place(kind, namespace, String::new()).await?;
        let body: Value = parse("body", body)?;
        let span = self.begin_effect(cause, "POST", &object, None);
        let created = self.writer.create_object(&object, &body).await;
        span.end(&created);
        if object.group == RESOURCE_GROUP && object.plural == "resourceclaims" {
            self.sinks.metrics.claim_created(created.is_ok());
        }
        let created = created.map_err(|error| cause.failed("create", &object, &error))?;
        Ok(created["metadata"]["uid"].as_str().map(Into::into))
    }

    fn begin_effect(
        &self,
        cause: &Cause<'_>,
        method: &'static str,
        object: &ObjectRef,
        subresource: Option<&str>,
    ) -> OpenRequest {
        let (resource, namespace) = (&*object.plural, object.namespace.as_deref().unwrap_or_default());
        let request = ApiRequest { method, resource, subresource, namespace, name: &object.name };
        self.traces.begin_request(Some(cause.cycle), Some(cause.point), request)
    }

    /// The place of objects of `kind`, which is an `apiVersion/kind`.
    async fn place(&self, kind: &str, namespace: String, name: String) -> Result<ObjectRef> {
        let (api_version, kind) = kind
            .rsplit_once('/')
            .ok_or_else(|| anyhow!("invalid kind {kind:?}: expected apiVersion/kind, as in v1/Pod"))?;
        let wanted = KindRef::of_kind(api_version, kind);
        let KindRef { group, version, plural, .. } = self.kinds.resolve(&wanted).await?;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        Ok(ObjectRef { group, version, plural, namespace, name })
    }
}

/// The object that the effect changes, for the audit log; `None` if the effect changes no object. The result is also
/// `None` for an eviction, because [`Executor::evict`] writes the entry of the audit log.
fn target(pod: &PodRef, effect: &Effect) -> Option<EffectTarget> {
    match effect {
        Effect::Patch { kind, namespace, name, subresource, .. } => Some(EffectTarget {
            verb: "patch",
            kind: kind.clone(),
            subresource: subresource.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        }),
        Effect::Create { kind, namespace, body } => {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let name = ["name", "generateName"].into_iter().find_map(|field| body["metadata"][field].as_str());
            let (kind, namespace, name) = (kind.clone(), namespace.clone(), name.unwrap_or_default().to_owned());
            Some(EffectTarget { verb: "create", kind, subresource: None, namespace, name })
        }
        Effect::Delete { kind, namespace, name } => {
            let (kind, namespace, name) = (kind.clone(), namespace.clone(), name.clone());
            Some(EffectTarget { verb: "delete", kind, subresource: None, namespace, name })
        }
        Effect::Event { .. } => {
            let (kind, namespace, name) = ("v1/Pod".to_owned(), pod.namespace.to_string(), pod.name.to_string());
            Some(EffectTarget { verb: "event", kind, subresource: None, namespace, name })
        }
        Effect::Evict { .. }
        | Effect::Wait { .. }
        | Effect::Bind
        | Effect::Allow { .. }
        | Effect::Reject { .. }
        | Effect::Activate { .. }
        | Effect::Nominate { .. } => None,
    }
}

/// The kind, namespace and name of the object that the effect changes, creates or deletes.
fn object_key(effect: &Effect) -> Option<[String; 3]> {
    match effect {
        Effect::Patch { kind, namespace, name, .. } | Effect::Delete { kind, namespace, name } => {
            Some([kind.clone(), namespace.clone(), name.clone()])
        }
        Effect::Create { kind, namespace, body } => {
            let body: Value = serde_json::from_slice(body).ok()?;
            Some([kind.clone(), namespace.clone(), body["metadata"]["name"].as_str()?.to_owned()])
        }
        Effect::Evict { .. }
        | Effect::Event { .. }
        | Effect::Wait { .. }
        | Effect::Bind
        | Effect::Allow { .. }
        | Effect::Reject { .. }
        | Effect::Activate { .. }
        | Effect::Nominate { .. } => None,
    }
}

/// Adds the uid to the patch. The API server then applies the patch only to the object with this uid.
fn require_uid(patch: &mut Value, uid: &str) -> Result<()> {
    let patch = patch.as_object_mut().ok_or_else(|| anyhow!("the patch is not a JSON object"))?;
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(|| anyhow!("the patch's metadata is not a JSON object"))?;
    let named = metadata.entry("uid").or_insert_with(|| json!(uid));
    if named != uid {
        bail!("the patch names uid {named}, but the object has uid {uid}");
    }
    Ok(())
}

/// The patch type in the request to the API server.
fn sent_as(patch_type: PatchType) -> berth_cluster::PatchType {
    match patch_type {
        PatchType::Merge => berth_cluster::PatchType::Merge,
        PatchType::StrategicMerge => berth_cluster::PatchType::StrategicMerge,
    }
}

fn parse(what: &str, json: &[u8]) -> Result<Value> {
    serde_json::from_slice(json).map_err(|error| anyhow!("the {what} is not JSON: {error}"))
}
