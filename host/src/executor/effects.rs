//! What plugins asked for, as requests to the API server.

use anyhow::{Result, anyhow, bail};
use berth_cluster::{Evicted, KindRef, ObjectRef, PatchType, WriteError};
use berth_framework::{CycleId, Effect};
use berth_model::BinaryId;
use berth_scheduler::{EventRecord, PodRef};
use futures::future::join_all;
use serde_json::Value;
use tracing::info;

use super::{Executor, new_event};
use crate::audit::{self, AuditEvent, By, EffectEntry, EffectTarget};

/// Where ResourceClaims live.
const RESOURCE_GROUP: &str = "resource.k8s.io";

/// Which plugin asked for an effect, and for which pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause<'a> {
    pub(super) pod: &'a PodRef,
    /// The profile, which users see as the reporter of events.
    pub(super) scheduler_name: &'a str,
    pub(super) plugin: &'a str,
    /// The binary that asked.
    pub(super) binary: Option<BinaryId>,
    pub(super) cycle: CycleId,
}

impl Executor {
    /// Carries effects out in order, up to the first that fails. Victims that follow each other leave together, but for
    /// the last, whose deletion lets the pod try again.
    pub(super) async fn effects(&self, cause: &Cause<'_>, effects: Vec<Effect>) -> Result<()> {
        let mut victims = Vec::new();
        for effect in effects {
            if let Effect::Evict { namespace, name, uid, message } = effect {
                victims.push((berth_cluster::PodRef { namespace, name, uid }, message));
                continue;
            }
            self.evict_all(cause, std::mem::take(&mut victims)).await?;
            self.effect(cause, effect).await?;
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
        let evicted = self.writer.evict(victim, message).await;
        let (namespace, name) = (&victim.namespace, &victim.name);
        let Evicted::Deleted { node, resource_version } =
            evicted.map_err(|error| anyhow!("evicting pod {namespace}/{name}: {error}"))?
        else {
            return Ok(());
        };
        info!(victim = name, namespace, node, preemptor = &*cause.pod.name, "preempted");
        self.recorder.record(new_event(EventRecord {
            regarding: PodRef {
                namespace: namespace.as_str().into(),
                name: name.as_str().into(),
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

    async fn effect(&self, cause: &Cause<'_>, effect: Effect) -> Result<()> {
        let target = if self.audit.is_on() { target(cause.pod, &effect) } else { None };
        let result = self.request(cause, effect).await;
        if let Some(target) = target {
            self.audit_effect(cause, target, &result);
        }
        result
    }

    fn audit_effect(&self, cause: &Cause<'_>, target: EffectTarget, result: &Result<()>) {
        let effect = EffectEntry {
            profile: cause.scheduler_name.to_owned(),
            digest: audit::binary(cause.binary),
            pod: cause.pod.into(),
            cycle: cause.cycle.0,
            target,
            result: result.as_ref().err().map_or_else(|| "ok".to_owned(), |error| format!("{error:#}")),
        };
        self.audit.record(cause.plugin, By::Plugin, AuditEvent::Effect(effect));
    }

    async fn request(&self, cause: &Cause<'_>, effect: Effect) -> Result<()> {
        match effect {
            Effect::Patch { kind, namespace, name, subresource, patch } => {
                let object = self.place(&kind, namespace, name).await?;
                let patch: Value = parse("patch", &patch)?;
                let subresource = subresource.as_deref();
                let patched = self.writer.patch_object(&object, subresource, PatchType::Merge, &patch).await;
                patched.map(drop).map_err(|error| failed("patching", &object, &error))
            }
            Effect::Create { kind, namespace, body } => {
                let object = self.place(&kind, namespace, String::new()).await?;
                let body: Value = parse("body", &body)?;
                let created = self.writer.create_object(&object, &body).await;
                if object.group == RESOURCE_GROUP && object.plural == "resourceclaims" {
                    self.metrics.claim_created(created.is_ok());
                }
                created.map(drop).map_err(|error| failed("creating", &object, &error))
            }
            Effect::Delete { kind, namespace, name } => {
                let object = self.place(&kind, namespace, name).await?;
                self.writer.delete_object(&object).await.map_err(|error| failed("deleting", &object, &error))
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
                Ok(())
            }
            Effect::Evict { namespace, name, uid, message } => {
                self.evict(cause, &berth_cluster::PodRef { namespace, name, uid }, &message).await
            }
            Effect::Wait { .. } => bail!("plugin {} waits for objects outside PreBind", cause.plugin),
            Effect::Bind
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. } => {
                bail!("plugin {} asks the API server for what only the scheduler does: {effect:?}", cause.plugin)
            }
        }
    }

    /// Where objects of `kind`, an `apiVersion/kind`, live.
    async fn place(&self, kind: &str, namespace: String, name: String) -> Result<ObjectRef> {
        let (api_version, kind) =
            kind.rsplit_once('/').ok_or_else(|| anyhow!("{kind:?} is no kind: write apiVersion/kind, as in v1/Pod"))?;
        let wanted = KindRef::of_kind(api_version, kind);
        let KindRef { group, version, plural, .. } = self.kinds.resolve(&wanted).await?;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        Ok(ObjectRef { group, version, plural, namespace, name })
    }
}

/// What the effect changes, if that is an object. Evictions are recorded one by one.
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

fn parse(what: &str, json: &[u8]) -> Result<Value> {
    serde_json::from_slice(json).map_err(|error| anyhow!("the {what} is not JSON: {error}"))
}

fn failed(doing: &str, object: &ObjectRef, error: &WriteError) -> anyhow::Error {
    let slash = if object.name.is_empty() { "" } else { "/" };
    anyhow!("{doing} {}{slash}{}: {error}", object.plural, object.name)
}
