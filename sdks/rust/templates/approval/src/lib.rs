//! {{name}}: a pod with the label `example.com/approval: wanted` waits at Permit, and is bound after this approval:
//!
//! ```console
//! kubectl label --overwrite pod web example.com/approval=given
//! ```
//!
//! If the value is `denied`, or after the timeout, the pod is rejected. The operator must grant the effect `wait`.

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Configure, ConfigureError, Effect, Manifest, ObjectRef, Permit, PermitVerdict, Status,
    },
    model::NodeIdx,
};
use serde::Deserialize;

berth_sdk::plugin!({{name}}: Permit);
// `sync` brings the texts behind symbols, labels among them.
berth_sdk::export!({{name}}, sync);

const APPROVAL: &str = "example.com/approval";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Args {
    seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { seconds: 300 }
    }
}

/// The plugin, configured.
#[derive(Debug)]
pub struct {{name}} {
    milliseconds: u64,
}

impl Configure for {{name}} {
    fn describe() -> Manifest {
        Manifest {
            name: "{{name}}".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // A rejected pod is retried when its labels change.
            events_to_register: Some(vec![ClusterEvent::new("Pod", ClusterEvent::UPDATE_POD_LABEL)]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        let seconds = berth_sdk::decode_args(args).map_or(0, |Args { seconds }| seconds);
        if !(1..=900).contains(&seconds) {
            return Err(ConfigureError::new("seconds: must be a number from 1 to 900"));
        }
        Ok(Self { milliseconds: 1000 * seconds })
    }
}

/// The value of the pod's label.
fn approval<'a>(call: &Call<'a>) -> Option<&'a str> {
    let symbols = &call.table.symbols;
    let key = symbols.lookup(APPROVAL)?;
    let (_, value) = call.pod.labels.iter().find(|(other, _)| *other == key)?;
    Some(symbols.text(*value))
}

impl Permit for {{name}} {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        match approval(call) {
            Some("wanted") => {
                let itself = ObjectRef {
                    kind: "v1/Pod".to_owned(),
                    namespace: call.table.symbols.text(call.pod.namespace).to_owned(),
                    name: call.pod.name.to_string(),
                };
                // Permit is called again when the pod changes.
                let again = Effect::Wait {
                    objects: vec![itself],
                    timeout_ms: self.milliseconds,
                    timeout_message: "the pod was not approved".to_owned(),
                };
                (PermitVerdict::Wait(self.milliseconds), vec![again])
            }
            Some("denied") => (PermitVerdict::Deny(Status::unresolvable("the pod was denied")), Vec::new()),
            _ => (PermitVerdict::Allow, Vec::new()),
        }
    }
}
