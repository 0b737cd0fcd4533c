//! The totals of a pod: its containers, init containers, overhead and pod-level resources together, with resizes in
//! progress.

use std::collections::BTreeMap;

use crate::api::{Container, ContainerStatus, Pod, ResourceList, ResourceRequirements};
use crate::features::{Feature, Features};
use crate::quantity::Quantity;

use super::resource_names::is_pod_level_resource_name;

/// The treatment of a resize in progress, in addition to the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resizes {
    /// The resize does not count, only the spec.
    #[default]
    Ignored,
    /// The largest of each container's requested, allocated and actual resources counts. Kubernetes 1.36 counts this way.
    MaximumOfEachContainer,
    /// The largest of three sums counts: of all requested, allocated and actual resources. Kubernetes 1.37 counts this way.
    MaximumOfTotals,
}

impl Resizes {
    /// The treatment of resized pods in a release with these features.
    #[must_use]
    pub fn of(features: Features) -> Self {
        if features.has(Feature::ResizedPodsTakeMaximumOfTotals) {
            Self::MaximumOfTotals
        } else {
            Self::MaximumOfEachContainer
        }
    }
}

/// The options of [`pod_requests`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The treatment of a resize in progress (`status`), in addition to the spec.
    pub resizes: Resizes,
    /// Whether `spec.resources` is left out.
    pub skip_pod_level: bool,
    /// The amounts for each container that does not name the resource. An explicit zero counts as named.
    pub container_defaults: ResourceList,
    /// The amounts that the pod's devices take from the node: the result of [`claimed`](super::claimed). These amounts
    /// are added to the requests of the containers.
    pub claimed: ResourceList,
}

/// All requests of the pod, including overhead.
#[must_use]
pub fn pod_requests(pod: &Pod, options: &Options) -> ResourceList {
    let mut requests = match options.resizes {
        Resizes::Ignored => with_claimed(spec_total(pod, options), options),
        Resizes::MaximumOfEachContainer => with_claimed(maximum_of_each_container(pod, options), options),
        Resizes::MaximumOfTotals => maximum_of_totals(pod, options),
    };
    if !options.skip_pod_level {
        requests.extend(pod_level_requests(pod, options.resizes));
    }
    if let Some(overhead) = &pod.spec.overhead {
        add_all(&mut requests, overhead);
    }
    requests
}

/// The requests of the containers' specs.
fn spec_total(pod: &Pod, options: &Options) -> ResourceList {
    aggregate(pod, |container, _| with_defaults(container.resources.requests.clone(), options))
}

/// Adds the amounts that devices take.
fn with_claimed(mut requests: ResourceList, options: &Options) -> ResourceList {
    add_all(&mut requests, &options.claimed);
    requests
}

/// Adds the defaults for resources that are not named. An explicit zero counts as named.
fn with_defaults(mut requests: ResourceList, options: &Options) -> ResourceList {
    for (name, default) in &options.container_defaults {
        requests.entry(name.clone()).or_insert_with(|| default.clone());
    }
    requests
}

/// The requests of the pod, in which each container counts with the largest of its requested, allocated and actual
/// resources. An init container that ends cannot be resized, so its status does not count.
fn maximum_of_each_container(pod: &Pod, options: &Options) -> ResourceList {
    let statuses = container_statuses(pod);
    let infeasible = is_resize_infeasible(pod);
    aggregate(pod, |container, keeps_running| {
        let status = statuses.get(container.name.as_str()).filter(|_| keeps_running);
        let requests = match status.and_then(|status| status.resources.as_ref().map(|actual| (status, actual))) {
            Some((status, actual)) => {
                let spec = &container.resources.requests;
                resized(spec, &actual.requests, status.allocated_resources.as_ref(), infeasible)
            }
            None => container.resources.requests.clone(),
        };
        with_defaults(requests, options)
    })
}

/// The largest of the pod's requested, allocated and actual totals, by resource. The statuses of all init containers
/// count. A spec that the node reported as infeasible does not count. The resources that the node reports already
/// include the amounts that devices take, except the allocated resources of single containers. This function adds the
/// amounts to the latter, and to the spec.
fn maximum_of_totals(pod: &Pod, options: &Options) -> ResourceList {
    let statuses = container_statuses(pod);
    let infeasible = is_resize_infeasible(pod);
    let of_spec = |container: &Container| {
        if infeasible { ResourceList::new() } else { container.resources.requests.clone() }
    };
    let allocated_of = |container: &Container| {
        let status = statuses.get(container.name.as_str());
        status.and_then(|status| status.allocated_resources.clone()).unwrap_or_else(|| of_spec(container))
    };
    let actual_of = |container: &Container| {
        let resources = statuses.get(container.name.as_str()).and_then(|status| status.resources.as_ref());
        resources.and_then(named_requests).unwrap_or_else(|| allocated_of(container))
    };
    let actual = pod.status.resources.as_ref().and_then(named_requests);
    let whole_pod = pod.status.allocated_resources.clone().zip(actual);
    let (mut largest, allocated) = match whole_pod {
        Some((allocated, actual)) => (actual, allocated),
        None => {
            let total = |of: &dyn Fn(&Container) -> ResourceList| {
                aggregate(pod, |container, _| with_defaults(of(container), options))
            };
            (total(&actual_of), with_claimed(total(&allocated_of), options))
        }
    };
    raise_all(&mut largest, &allocated);
    if !infeasible {
        raise_all(&mut largest, &with_claimed(spec_total(pod, options), options));
    }
    largest
}

/// The requests in a status; `None` if the status has only limits.
fn named_requests(resources: &ResourceRequirements) -> Option<ResourceList> {
    (!resources.requests.is_empty()).then(|| resources.requests.clone())
}

/// All limits of the pod. Overhead is added only to limits that exist.
#[must_use]
pub fn pod_limits(pod: &Pod) -> ResourceList {
    let mut limits = aggregate(pod, |container, _| container.resources.limits.clone());
    let pod_level = pod.spec.resources.iter().flat_map(|resources| &resources.limits);
    let pod_level = pod_level.filter(|(name, _)| is_pod_level_resource_name(name));
    limits.extend(pod_level.map(|(name, limit)| (name.clone(), limit.clone())));
    for (name, overhead) in pod.spec.overhead.iter().flatten() {
        if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit = &*limit + overhead;
        }
    }
    limits
}

/// Combines the containers. Containers and sidecars run together, and an init container runs together with the sidecars
/// declared before it. The pod needs the largest amount that its containers need at one time. `of_container` gets a
/// flag that says whether the container keeps running.
fn aggregate(pod: &Pod, of_container: impl Fn(&Container, bool) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &pod.spec.containers {
        add_all(&mut total, &of_container(container, true));
    }
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in &pod.spec.init_containers {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let mut needed = of_container(container, is_sidecar);
        if is_sidecar {
            add_all(&mut total, &needed);
            add_all(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add_all(&mut needed, &sidecars);
        }
        raise_all(&mut peak, &needed);
    }
    raise_all(&mut total, &peak);
    total
}

fn container_statuses(pod: &Pod) -> BTreeMap<&str, &ContainerStatus> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    statuses.map(|status| (status.name.as_str(), status)).collect()
}

/// Whether the node reported that the resize in the spec is not possible.
fn is_resize_infeasible(pod: &Pod) -> bool {
    let pending = pod.status.conditions.iter().find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

/// The requests during a resize: the largest of the requested, actual and allocated amounts.
fn resized(
    spec: &ResourceList,
    actual: &ResourceList,
    allocated: Option<&ResourceList>,
    infeasible: bool,
) -> ResourceList {
    let mut largest = if infeasible { ResourceList::new() } else { spec.clone() };
    raise_all(&mut largest, actual);
    if let Some(allocated) = allocated {
        raise_all(&mut largest, allocated);
    }
    largest
}

/// The resources that `spec.resources.requests` sets for the pod as a whole. If totals count, the requests in the pod's
/// status are included, and a spec that the node reported as infeasible does not count.
fn pod_level_requests(pod: &Pod, resizes: Resizes) -> ResourceList {
    let Some(resources) = &pod.spec.resources else {
        return ResourceList::new();
    };
    let mut requests = resources.requests.clone();
    requests.retain(|name, _| is_pod_level_resource_name(name));
    let counts_status = resizes != Resizes::Ignored && !requests.is_empty();
    let actual = pod.status.resources.as_ref().filter(|_| counts_status);
    let Some(ResourceRequirements { requests: actual, .. }) = actual else { return requests };
    let infeasible = is_resize_infeasible(pod);
    let mut effective = resized(&requests, actual, pod.status.allocated_resources.as_ref(), infeasible);
    if resizes == Resizes::MaximumOfTotals {
        effective.retain(|name, _| is_pod_level_resource_name(name));
        return effective;
    }
    // As in kube-scheduler, an infeasible request that the status does not name counts as 0.
    for (name, request) in &mut requests {
        *request = effective.remove(name).unwrap_or_default();
    }
    requests
}

pub(super) fn add_all(sum: &mut ResourceList, addends: &ResourceList) {
    addends.iter().for_each(|(name, addend)| add(sum, name, addend));
}

pub(super) fn add(sum: &mut ResourceList, name: &str, addend: &Quantity) {
    match sum.get_mut(name) {
        Some(quantity) => *quantity = &*quantity + addend,
        None => {
            sum.insert(name.to_owned(), addend.clone());
        }
    }
}

fn raise_all(largest: &mut ResourceList, candidates: &ResourceList) {
    for (name, candidate) in candidates {
        if largest.get(name).is_none_or(|quantity| candidate > quantity) {
            largest.insert(name.clone(), candidate.clone());
        }
    }
}
