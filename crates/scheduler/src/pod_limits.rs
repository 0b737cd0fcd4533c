//! The limits of pods. Scheduling does not use limits. `/metrics/resources` shows them.

use std::sync::Arc;

use berth_model::{
    PodUid, api,
    requests::{Requests, pod_limits},
};
use rustc_hash::FxHashMap;

/// The limits of each known pod that has limits.
#[derive(Debug, Default)]
pub(crate) struct PodLimits(FxHashMap<PodUid, Arc<Requests>>);

impl PodLimits {
    /// Notes the limits of a pod that appeared or changed.
    pub(crate) fn set(&mut self, uid: &PodUid, pod: &api::Pod) {
        if has_limits(&pod.spec) {
            self.0.insert(uid.clone(), Arc::new(Requests::from_list(&pod_limits(pod))));
        } else {
            self.0.remove(uid);
        }
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<Requests>> {
        self.0.get(uid)
    }
}

fn has_limits(spec: &api::PodSpec) -> bool {
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let mut of_parts = containers.map(|container| &container.resources).chain(&spec.resources);
    of_parts.any(|resources| !resources.limits.is_empty())
}
