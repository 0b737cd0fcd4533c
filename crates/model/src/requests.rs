//! The resources that a pod needs from a node: the requests of its containers, combined as the scheduler counts them.
//!
//! A pod is counted in several ways. Each way has a function named after its use. All of these functions call
//! [`pod_requests`] with different options. The rules are in Kubernetes' documentation on init and sidecar containers
//! (resource sharing), pod overhead, pod-level resources and in-place resize, and in
//! `staging/src/k8s.io/component-helpers/resource/helpers.go` in Kubernetes.

use std::{borrow::Cow, collections::BTreeMap};

use crate::api::{ContainerStatus, NodeAllocatableClaimStatus, Pod, ResourceList};
use crate::features::{Feature, Features};
use crate::quantity::{Format, Quantity};

use pod_totals::{add, add_all};
use resource_names::{CPU, EPHEMERAL_STORAGE, MEMORY};

pub use pod_totals::{Options, Resizes, pod_limits, pod_requests};
pub use resource_names::{
    is_extended_resource_name, is_huge_page_resource_name, is_pod_level_resource_name, is_scalar_resource_name,
};

mod pod_totals;
mod resource_names;
#[cfg(test)]
mod tests;

/// The CPU of a container without a CPU request, for comparing nodes.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// The memory of a container without a memory request, for comparing nodes, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts as the integers of the scheduler, rounded up from quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// CPU in thousandths.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// Other resources in units, for names that [`is_scalar_resource_name`] accepts; explicit zeros are kept.
    pub scalars: BTreeMap<String, i64>,
}

/// CPU and memory. Containers without requests count with a default amount, so that pods of such containers are spread
/// as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZeroRequests {
    /// CPU in thousandths.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

/// The requests of a pod, counted in every way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// The result of [`spec_requests`].
    pub spec: Requests,
    /// The result of [`placed_requests`], which equals that of [`balanced_requests`].
    pub placed: Requests,
    /// The result of [`placed_non_zero`].
    pub placed_non_zero: NonZeroRequests,
    /// The result of [`scoring_requests`].
    pub scoring: Requests,
}

impl PodRequests {
    /// Counts the pod in every way. Most pods have only containers, and their requests are summed once.
    #[must_use]
    pub fn of(pod: &Pod, features: Features) -> Self {
        let counted = without_unused_fields(pod, features);
        let pod = counted.as_ref();
        let claimed = claimed_on_node(pod, features);
        if !claimed.is_empty() || !is_plain(pod) {
            let options = Options { claimed, ..placed(Resizes::of(features)) };
            let placed = Requests::from_list(&pod_requests(pod, &options));
            let (spec, scoring) = (spec_requests(pod), scoring_requests(pod));
            return Self { spec, placed, placed_non_zero: non_zero(pod, options), scoring };
        }
        let spec = match pod.spec.containers.as_slice() {
            [only] => Requests::from_list(&only.resources.requests),
            _ => spec_requests(pod),
        };
        let n_without = |name: &str| {
            let without = pod.spec.containers.iter().filter(|it| !it.resources.requests.contains_key(name)).count();
            i64::try_from(without).unwrap_or(i64::MAX)
        };
        // The defaults are whole numbers, so rounding the sum first makes no difference.
        let with_default =
            |sum: i64, name: &str, default: i64| sum.saturating_add(default.saturating_mul(n_without(name)));
        let scoring = Requests {
            milli_cpu: with_default(spec.milli_cpu, CPU, DEFAULT_MILLI_CPU),
            memory: with_default(spec.memory, MEMORY, DEFAULT_MEMORY),
            ..spec.clone()
        };
        let placed_non_zero = NonZeroRequests { milli_cpu: scoring.milli_cpu, memory: scoring.memory };
        Self { placed: spec.clone(), placed_non_zero, scoring, spec }
    }
}

/// The pod without the fields that a gate leaves out.
fn without_unused_fields(pod: &Pod, features: Features) -> Cow<'_, Pod> {
    let counts = features.has(Feature::PodLevelResources);
    let counts_resizes = counts && features.has(Feature::InPlacePodLevelResourcesVerticalScaling);
    let (spec, status) = (&pod.spec, &pod.status);
    let has_resize = status.resources.is_some() || status.allocated_resources.is_some();
    if (counts || spec.resources.is_none()) && (counts_resizes || !has_resize) {
        return Cow::Borrowed(pod);
    }
    let mut pod = pod.clone();
    if !counts {
        pod.spec.resources = None;
    }
    (pod.status.resources, pod.status.allocated_resources) = (None, None);
    Cow::Owned(pod)
}

/// The amounts that the devices of a pod take from its node. The status of a pod without a node does not count: it is
/// from an earlier attempt.
fn claimed_on_node(pod: &Pod, features: Features) -> ResourceList {
    let statuses = &pod.status.node_allocatable_resource_claim_statuses;
    if statuses.is_empty() || pod.spec.node_name.is_empty() || !features.has(Feature::DRANodeAllocatableResources) {
        return ResourceList::new();
    }
    claimed(statuses)
}

/// The amounts that devices take from their node, according to the entries of a pod's
/// `status.nodeAllocatableResourceClaimStatuses` (KEP-5517). The amount for each container counts for all containers
/// that use the claim, even if some of these containers run one after the other.
#[must_use]
pub fn claimed(statuses: &[NodeAllocatableClaimStatus]) -> ResourceList {
    let mut claimed = ResourceList::new();
    for status in statuses {
        add_all(&mut claimed, &status.resources);
        status.mapping.iter().for_each(|mapping| add(&mut claimed, &mapping.name, &mapping.quantity));
        let n_containers = i64::try_from(status.containers.len()).unwrap_or(i64::MAX);
        let n_containers = Quantity::from_units(n_containers, Format::DecimalSi);
        for overhead in &status.overhead {
            if let Some(amount) = &overhead.per_pod {
                add(&mut claimed, &overhead.name, amount);
            }
            if let Some(amount) = &overhead.per_container {
                add(&mut claimed, &overhead.name, &(amount * &n_containers));
            }
        }
    }
    claimed
}

/// Whether each way of counting the pod gives the sum of its containers' requests. Such a pod has none of the parts
/// that only some ways count.
fn is_plain(pod: &Pod) -> bool {
    let is_resized = |status: &ContainerStatus| status.resources.is_some() || status.allocated_resources.is_some();
    pod.spec.init_containers.is_empty()
        && pod.spec.resources.is_none()
        && pod.spec.overhead.is_none()
        && pod.status.allocated_resources.is_none()
        && !pod.status.container_statuses.iter().any(is_resized)
}

/// The requests that NodeResourcesFit compares with a node's free resources. Only the spec counts.
#[must_use]
pub fn spec_requests(pod: &Pod) -> Requests {
    Requests::from_list(&pod_requests(pod, &Options::default()))
}

/// The amounts that the pod adds to the usage of its node: the larger of the spec and of the state of a resize.
#[must_use]
pub fn placed_requests(pod: &Pod, resizes: Resizes) -> Requests {
    Requests::from_list(&pod_requests(pod, &placed(resizes)))
}

/// Like [`placed_requests`], with defaults for missing requests. A pod with pod-level requests gets a default only for
/// a resource without any request.
#[must_use]
pub fn placed_non_zero(pod: &Pod, resizes: Resizes) -> NonZeroRequests {
    non_zero(pod, placed(resizes))
}

/// The requests with these options, with defaults for missing requests.
fn non_zero(pod: &Pod, options: Options) -> NonZeroRequests {
    let mut defaults = container_defaults();
    if names_pod_level_requests(pod) {
        let requests = pod_requests(pod, &options);
        defaults.retain(|name, _| !requests.contains_key(name));
    }
    let options = Options { container_defaults: defaults, ..options };
    let requests = Requests::from_list(&pod_requests(pod, &options));
    NonZeroRequests { milli_cpu: requests.milli_cpu, memory: requests.memory }
}

fn names_pod_level_requests(pod: &Pod) -> bool {
    let resources = pod.spec.resources.as_ref();
    resources.is_some_and(|resources| resources.requests.keys().any(|name| is_pod_level_resource_name(name)))
}

/// The amounts with which NodeResourcesFit scores. Containers without requests have defaults. As a quirk of Kubernetes,
/// pod-level resources do not count, although the filter of NodeResourcesFit counts them (`calculatePodResourceRequest`
/// in kube-scheduler's `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`).
#[must_use]
pub fn scoring_requests(pod: &Pod) -> Requests {
    let options = Options { skip_pod_level: true, container_defaults: container_defaults(), ..Options::default() };
    Requests::from_list(&pod_requests(pod, &options))
}

/// The amounts with which NodeResourcesBalancedAllocation scores. Pod-level resources count, and there are no defaults.
#[must_use]
pub fn balanced_requests(pod: &Pod, resizes: Resizes) -> Requests {
    placed_requests(pod, resizes)
}

/// A node's `status.allocatable` as integers, rounded like requests.
#[must_use]
pub fn allocatable(allocatable: &ResourceList) -> Requests {
    Requests::from_list(allocatable)
}

fn placed(resizes: Resizes) -> Options {
    Options { resizes, ..Options::default() }
}

fn container_defaults() -> ResourceList {
    [
        (CPU.to_owned(), Quantity::from_milli(DEFAULT_MILLI_CPU)),
        (MEMORY.to_owned(), Quantity::from_units(DEFAULT_MEMORY, Format::DecimalSi)),
    ]
    .into()
}

/// The quantity in thousandths. A quantity beyond `i64` gives the largest `i64`. Kubernetes converts such a quantity to
/// an arbitrary number, for example a negative number. A pod with such a request would then fit on every node.
fn thousandths(quantity: &Quantity) -> i64 {
    if *quantity > Quantity::from_milli(i64::MAX) { i64::MAX } else { quantity.milli_value() }
}

/// The quantity in whole units. A quantity beyond `i64` gives the largest `i64`.
fn units(quantity: &Quantity) -> i64 {
    if *quantity > Quantity::from_units(i64::MAX, Format::DecimalSi) { i64::MAX } else { quantity.value() }
}

impl Requests {
    /// The amounts in a list: CPU in thousandths, everything else in units. Names that the scheduler does not count, such as `pods`, are
    /// left out.
    #[must_use]
    pub fn from_list(list: &ResourceList) -> Self {
        let mut requests = Self::default();
        for (name, quantity) in list {
            match name.as_str() {
                CPU => requests.milli_cpu = thousandths(quantity),
                MEMORY => requests.memory = units(quantity),
                EPHEMERAL_STORAGE => requests.ephemeral_storage = units(quantity),
                _ if is_scalar_resource_name(name) => {
                    requests.scalars.insert(name.clone(), units(quantity));
                }
                _ => {}
            }
        }
        requests
    }

    /// The amount of a resource: CPU in thousandths, and zero for a resource that is not named.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            CPU => self.milli_cpu,
            MEMORY => self.memory,
            EPHEMERAL_STORAGE => self.ephemeral_storage,
            _ => self.scalars.get(name).copied().unwrap_or(0),
        }
    }
}
