//! CapacityScheduling: each namespace has a guaranteed share of the cluster. It may borrow unused shares of other
//! namespaces, and must give a borrowed share back when the owner needs it.
//!
//! The shares are ElasticQuota objects, one in each namespace (`elasticquota.yaml` has the custom resource's
//! definition). The pods of the namespace use at most `spec.max`. All pods of namespaces with a quota together use at
//! most the sum of their `spec.min`. If a pod stays within its namespace's `min` and no node has room for it, pods of
//! namespaces that use more than their own `min` are evicted, the pods of the lowest priority first. Pods of namespaces
//! without a quota are ignored.

mod amounts;
mod quotas;
mod reclaim;

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Code, Configure, ConfigureError, DryRun, Effect, Failure, Follow, Manifest, Needs,
        ObjectKind, PostFilter, PostFilterOutcome, PreFilter, Status,
    },
    model::ClusterTable,
};

use crate::{
    amounts::{first_excess, of_pod},
    quotas::{API_VERSION, KIND, Quotas},
    reclaim::candidates,
};

berth_sdk::plugin!(CapacityScheduling: PreFilter, PostFilter; Follow);
berth_sdk::export!(CapacityScheduling);

/// The plugin.
#[derive(Debug, Default)]
pub struct CapacityScheduling {
    quotas: Quotas,
    /// Whether PreFilter rejected the pod of this cycle because other namespaces borrow the room.
    waits_for_borrowers: bool,
}

impl Configure for CapacityScheduling {
    fn describe() -> Manifest {
        let kind = ObjectKind { api_version: API_VERSION.to_owned(), kind: KIND.to_owned() };
        Manifest {
            name: "CapacityScheduling".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { pods: true, objects: vec![kind], ..Needs::default() },
            events_to_register: Some(vec![
                ClusterEvent::new("Pod", ClusterEvent::DELETE),
                ClusterEvent::new("elasticquotas.v1alpha1.scheduling.x-k8s.io", ClusterEvent::ALL),
            ]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        match args {
            "null" | "{}" => Ok(Self::default()),
            _ => Err("CapacityScheduling takes no arguments; the quotas are ElasticQuota objects".into()),
        }
    }
}

impl Follow for CapacityScheduling {
    fn follow(&mut self, table: &ClusterTable) {
        self.quotas.follow(table);
    }
}

impl PreFilter for CapacityScheduling {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.waits_for_borrowers = false;
        let namespace = call.table.symbols.text(call.pod.namespace);
        let Some(quota) = self.quotas.of(namespace) else { return Ok(None) };
        let wanted = of_pod(&call.pod.requests, &call.table.symbols);
        let used = self.quotas.used(namespace);
        if let Some(excess) = first_excess(used, &wanted, &quota.max) {
            return Err(Status::unresolvable(format!("quota of {namespace}: {excess}")));
        }
        let Some(excess) = first_excess(&self.quotas.total_used(), &wanted, &self.quotas.total_min()) else {
            return Ok(None);
        };
        let reason = format!("all quotas together: {excess}");
        // A namespace that wants to borrow waits. Only a namespace within its own quota may evict pods.
        self.waits_for_borrowers = first_excess(used, &wanted, &quota.min).is_none();
        Err(if self.waits_for_borrowers { Status::unschedulable(reason) } else { Status::unresolvable(reason) })
    }
}

impl PostFilter for CapacityScheduling {
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        _failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let symbols = &call.table.symbols;
        let namespace = symbols.text(call.pod.namespace);
        let wanted = of_pod(&call.pod.requests, symbols);
        let is_within_min = self
            .quotas
            .of(namespace)
            .is_some_and(|quota| first_excess(self.quotas.used(namespace), &wanted, &quota.min).is_none());
        if !is_within_min || call.pod.never_preempts {
            return Ok(self.nothing_done());
        }
        let candidates = candidates(call.table, &self.quotas, &wanted);
        let verdicts = dry_run.dry_run(&candidates)?;
        let fitting = candidates.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_success());
        let pods = call.table.pods();
        let best = fitting.map(|(removal, _)| removal).min_by_key(|removal| {
            let victims = removal.pods.iter().filter_map(|idx| pods.get(*idx));
            (victims.map(|(pod, _)| pod.priority).max(), removal.pods.len(), removal.node)
        });
        let Some(best) = best else { return Ok(self.nothing_done()) };
        let evict = |(pod, _): (&std::sync::Arc<berth_sdk::model::Pod>, _)| Effect::Evict {
            namespace: symbols.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            message: format!("namespace {namespace} needs the resources that its quota guarantees"),
        };
        let effects = best.pods.iter().filter_map(|idx| pods.get(*idx)).map(evict).collect();
        Ok(PostFilterOutcome { status: Status::success(), nominate: Some(Some(best.node)), effects })
    }
}

impl CapacityScheduling {
    /// The outcome without evictions. The next plugin may try if evictions by priority can help. They do not help a
    /// namespace that exceeds its quota.
    fn nothing_done(&self) -> PostFilterOutcome {
        let code = if self.waits_for_borrowers { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        PostFilterOutcome { status: Status { code, reasons: Vec::new() }, nominate: None, effects: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
