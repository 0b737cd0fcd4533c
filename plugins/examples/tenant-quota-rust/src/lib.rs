//! TenantQuota: a tenant may have only a fixed number of pods. The value of a label names a pod's tenant.

use std::collections::BTreeMap;

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Configure, ConfigureError, Effect, Follow, Manifest, Needs, PreFilter, Reserve, Status,
    },
    model::{ClusterTable, NodeIdx, Pod, PodUid},
};
use serde::Deserialize;

berth_sdk::plugin!(TenantQuota: PreFilter, Reserve; Follow);
berth_sdk::export!(TenantQuota);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    label: String,
    limit: usize,
}

/// The plugin, and the number of pods of each tenant.
#[derive(Debug)]
pub struct TenantQuota {
    args: Args,
    /// The tenants of the pods that are on a node or have a reserved node.
    held: BTreeMap<PodUid, String>,
    /// The position up to which the changes of pods on nodes were followed.
    position: Option<u64>,
}

impl TenantQuota {
    fn tenant<'t>(&self, table: &'t ClusterTable, pod: &Pod) -> Option<&'t str> {
        let label = table.symbols.lookup(&self.args.label)?;
        let (_, tenant) = pod.labels.iter().find(|(key, _)| *key == label)?;
        Some(table.symbols.text(*tenant))
    }

    fn hold(&mut self, table: &ClusterTable, pod: &Pod) {
        if let Some(tenant) = self.tenant(table, pod) {
            self.held.insert(pod.uid.clone(), tenant.to_owned());
        }
    }
}

impl Configure for TenantQuota {
    fn describe() -> Manifest {
        Manifest {
            name: "TenantQuota".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { pods: true, ..Needs::default() },
            events_to_register: Some(vec![ClusterEvent::new("Pod", ClusterEvent::DELETE)]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        let usage = || ConfigureError::new("label and limit: must be the key of a label and a number of pods");
        let args = serde_json::from_str(args).ok().filter(|args: &Args| !args.label.is_empty() && args.limit > 0);
        let args = args.ok_or_else(usage)?;
        Ok(Self { args, held: BTreeMap::new(), position: None })
    }
}

impl Follow for TenantQuota {
    fn follow(&mut self, table: &ClusterTable) {
        let pods = table.pods();
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => {
                for change in changes {
                    // The pod is found by its uid alone, because the strings of a pod that is gone may be freed.
                    self.held.remove(&change.pod.uid);
                    if change.sign > 0 {
                        self.hold(table, &change.pod);
                    }
                }
            }
            None => {
                self.held.clear();
                pods.iter().for_each(|(_, pod, _)| self.hold(table, pod));
            }
        }
        self.position = Some(pods.position());
    }
}

impl PreFilter for TenantQuota {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let Some(tenant) = self.tenant(call.table, call.pod) else { return Ok(None) };
        let n_held = self.held.values().filter(|it| *it == tenant).count();
        if n_held < self.args.limit {
            return Ok(None);
        }
        Err(Status::unresolvable(format!("tenant {tenant} has {n_held} of {} pods", self.args.limit)))
    }
}

impl Reserve for TenantQuota {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        self.hold(call.table, call.pod);
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.held.remove(&call.pod.uid);
        Vec::new()
    }
}
