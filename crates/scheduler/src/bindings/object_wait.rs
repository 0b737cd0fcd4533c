//! What a PreBind plugin waits for once it has answered [`Effect::Wait`].

use berth_framework::{Effect, ObjectRef};
use berth_model::{ObjectKey, Time};

/// Objects, one of which must change before the plugin is asked again, and how long that may take.
#[derive(Debug)]
pub(crate) struct ObjectWait {
    pub(crate) objects: Vec<ObjectKey>,
    pub(crate) deadline: Time,
    pub(crate) timeout_message: String,
    /// One of the objects changed while the plugin's other effects were being carried out.
    pub(crate) has_changed: bool,
}

/// The first wait among `effects`, which ends them: it and what follows it are taken out.
pub(crate) struct RequestedWait {
    pub(crate) objects: Vec<ObjectKey>,
    pub(crate) timeout: u64,
    pub(crate) timeout_message: String,
    /// Effects that followed the wait; nobody carries them out.
    pub(crate) n_dropped: usize,
}

impl RequestedWait {
    pub(crate) fn take_from(effects: &mut Vec<Effect>) -> Option<Self> {
        let position = effects.iter().position(|effect| matches!(effect, Effect::Wait { .. }))?;
        let mut rest = effects.split_off(position).into_iter();
        let Some(Effect::Wait { objects, timeout_ms, timeout_message }) = rest.next() else { return None };
        let objects = objects.into_iter().map(key).collect();
        Some(Self { objects, timeout: timeout_ms, timeout_message, n_dropped: rest.len() })
    }

    /// The wait begins. If the plugin waited before, it may not wait longer than it could then.
    pub(crate) fn begin(self, now: Time, earlier: Option<Time>) -> ObjectWait {
        let deadline = now + self.timeout;
        let deadline = earlier.map_or(deadline, |earlier| earlier.min(deadline));
        ObjectWait { objects: self.objects, deadline, timeout_message: self.timeout_message, has_changed: false }
    }
}

/// Takes `apiVersion/kind` apart.
fn key(object: ObjectRef) -> ObjectKey {
    let (api_version, kind) = object.kind.rsplit_once('/').unwrap_or(("", &object.kind));
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    ObjectKey { api_version, kind, namespace: object.namespace, name: object.name }
}
