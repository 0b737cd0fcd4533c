//! Objects of a scheduler that is followed. The API server takes over an object when a request changes the object.

use std::sync::Arc;

use berth_framework::Effect;
use berth_model::ObjectKey;
use berth_scheduler::{Action, PodRequest, Request};
use serde_json::Value;

use super::{ApiServer, ApiServerError, Result, key, read};

/// A function that looks for an object that the scheduler knows. The result is JSON.
type Find<'a> = &'a dyn Fn(&ObjectKey) -> Option<Arc<[u8]>>;

impl ApiServer {
    /// Takes over the objects that a request changes, if only the scheduler knows these objects.
    ///
    /// # Errors
    /// An effect names no kind, or an object is not JSON.
    pub(crate) fn take_over(&mut self, action: &Action, find: Find<'_>) -> Result<()> {
        let Action::Pod(PodRequest {
            request: Request::Effects(requested) | Request::AwaitedEffects(requested), ..
        }) = action
        else {
            return Ok(());
        };
        for granted in &requested.effects {
            match &granted.effect {
                Effect::Patch { kind, namespace, name, patch, .. } => {
                    self.take_over_one(key(kind, namespace.clone(), name.clone())?, find)?;
                    if kind == "v1/PersistentVolume"
                        && let Some(claim) = claim_of(&read(kind, patch)?)
                    {
                        self.take_over_one(claim, find)?;
                    }
                }
                Effect::Delete { kind, namespace, name } => {
                    self.take_over_one(key(kind, namespace.clone(), name.clone())?, find)?;
                }
                Effect::Evict { .. }
                | Effect::Create { .. }
                | Effect::Bind
                | Effect::Allow { .. }
                | Effect::Reject { .. }
                | Effect::Activate { .. }
                | Effect::Nominate { .. }
                | Effect::Event { .. }
                | Effect::Wait { .. } => {}
            }
        }
        Ok(())
    }

    fn take_over_one(&mut self, key: ObjectKey, find: Find<'_>) -> Result<()> {
        if self.objects.contains_key(&key) {
            return Ok(());
        }
        let Some(json) = find(&key) else { return Ok(()) };
        let object = serde_json::from_slice(&json)
            .map_err(|error| ApiServerError::Object { object: String::from_utf8_lossy(&json).into_owned(), error })?;
        self.objects.insert(key, object);
        Ok(())
    }

    /// Forgets all objects and the journal of their changes. The scheduler that is followed still has the objects.
    pub(crate) fn forget_objects(&mut self) {
        self.objects.clear();
        self.journal = None;
    }
}

/// The claim that is bound to a volume. The claim changes together with the volume.
fn claim_of(patch: &Value) -> Option<ObjectKey> {
    let reference = patch.pointer("/spec/claimRef")?;
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    Some(ObjectKey {
        api_version: "v1".to_owned(),
        kind: "PersistentVolumeClaim".to_owned(),
        namespace: text("namespace"),
        name: text("name"),
    })
}
