//! The resources that a pod needs from a node: the requests of its containers, combined as the scheduler counts them.
//!
//! A pod is counted in several ways. Each way has a function named after its use. All of these functions call
//! [`pod_requests`] with different options. The rules are in Kubernetes' documentation on init and sidecar containers
//! (resource sharing), pod overhead, pod-level resources and in-place resize, and in
//! `staging/src/k8s.io/component-helpers/resource/helpers.go` in Kubernetes.

use std::{borrow::Cow, collections::BTreeMap};

use crate::api::{Container, ContainerStatus, NodeAllocatableClaimStatus, Pod, ResourceList, ResourceRequirements};
use crate::features::{Feature, Features};
use crate::qualified_name;
use crate::quantity::{Format, Quantity};

/// The CPU of a container without a CPU request, for comparing nodes.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// The memory of a container without a memory request, for comparing nodes, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

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
    /// The amounts that the pod's devices take from the node: the result of [`claimed`]. These amounts are added to the
    /// requests of the containers.
    pub claimed: ResourceList,
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
        resources.map_or_else(|| allocated_of(container), |resources| resources.requests.clone())
    };
    let whole_pod = pod.status.allocated_resources.clone().zip(pod.status.resources.clone());
    let (mut largest, allocated) = match whole_pod {
        Some((allocated, actual)) => (actual.requests, allocated),
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
/// status are included.
fn pod_level_requests(pod: &Pod, resizes: Resizes) -> ResourceList {
    let Some(resources) = &pod.spec.resources else {
        return ResourceList::new();
    };
    let mut requests = resources.requests.clone();
    requests.retain(|name, _| is_pod_level_resource_name(name));
    let actual = pod.status.resources.as_ref().filter(|_| resizes != Resizes::Ignored);
    let Some(ResourceRequirements { requests: actual, .. }) = actual else { return requests };
    let infeasible = is_resize_infeasible(pod);
    let mut effective = resized(&requests, actual, pod.status.allocated_resources.as_ref(), infeasible);
    if resizes == Resizes::MaximumOfTotals {
        effective.retain(|name, _| is_pod_level_resource_name(name));
        requests.extend(effective);
        return requests;
    }
    for (name, request) in &mut requests {
        if let Some(effective) = effective.get(name) {
            *request = effective.clone();
        }
    }
    requests
}

fn names_pod_level_requests(pod: &Pod) -> bool {
    let resources = pod.spec.resources.as_ref();
    resources.is_some_and(|resources| resources.requests.keys().any(|name| is_pod_level_resource_name(name)))
}

/// Whether a pod as a whole may request the resource.
#[must_use]
pub fn is_pod_level_resource_name(name: &str) -> bool {
    name == CPU || name == MEMORY || is_huge_page_resource_name(name)
}

fn add_all(sum: &mut ResourceList, addends: &ResourceList) {
    addends.iter().for_each(|(name, addend)| add(sum, name, addend));
}

fn add(sum: &mut ResourceList, name: &str, addend: &Quantity) {
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

/// Whether the scheduler counts the resource besides CPU, memory and ephemeral storage.
#[must_use]
pub fn is_scalar_resource_name(name: &str) -> bool {
    is_extended_resource_name(name)
        || is_huge_page_resource_name(name)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether a device plugin or an administrator may define the resource: a prefixed name outside `kubernetes.io/`.
#[must_use]
pub fn is_extended_resource_name(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native
        && !name.starts_with("requests.")
        // A ResourceQuota must be able to name the resource with the prefix `requests.`.
        && qualified_name::problems(&format!("requests.{name}")).is_empty()
}

/// Whether the resource is memory in huge pages of one size.
#[must_use]
pub fn is_huge_page_resource_name(name: &str) -> bool {
    name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::{
        PodRequests, Resizes, balanced_requests, is_extended_resource_name, is_scalar_resource_name, placed_non_zero,
        placed_requests, scoring_requests, spec_requests,
    };
    use crate::{Feature, Features, Release, api::Pod};

    fn pod(spec: &str) -> Pod {
        serde_json::from_str(&format!(r#"{{"spec":{spec}}}"#)).unwrap()
    }

    #[test]
    fn init_containers_run_beside_earlier_sidecars() {
        let pod = pod(r#"{
            "initContainers": [
                {"name": "i1", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}},
                {"name": "s1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
                {"name": "i2", "resources": {"requests": {"cpu": "800m", "memory": "512Mi"}}}
            ],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}},
                {"name": "b", "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}}
            ],
            "overhead": {"cpu": "50m", "memory": "32Mi"}
        }"#);
        let requests = spec_requests(&pod);
        assert_eq!((requests.milli_cpu, requests.memory), (1050, 608 << 20));
    }

    #[test]
    fn a_plain_pod_that_is_added_up_once_is_counted_as_any_other() {
        let requests = [
            "{}",
            r#"{"cpu": "1500u"}"#,
            r#"{"cpu": "0", "memory": "1.5"}"#,
            r#"{"memory": "0.5"}"#,
            r#"{"cpu": "2", "memory": "1Gi", "example.com/gpu": "1", "pods": "3"}"#,
            r#"{"cpu": "9223372036854775807", "memory": "8Ei"}"#,
        ];
        let container = |requests: &str| format!(r#"{{"name": "a", "resources": {{"requests": {requests}}}}}"#);
        let alone = requests.iter().map(|first| container(first));
        let pairs = requests
            .iter()
            .flat_map(|first| requests.iter().map(move |second| [container(first), container(second)].join(", ")));
        for containers in alone.chain(pairs).chain([String::new()]) {
            let plain = pod(&format!(r#"{{"containers": [{containers}]}}"#));
            assert_eq!(PodRequests::of(&plain, Features::of(Release::V1_37)), each_way(&plain), "{containers}");
        }
        for more in [
            r#""overhead": {"cpu": "10m"}"#,
            r#""resources": {"requests": {"cpu": "2"}}"#,
            r#""initContainers": [{"name": "i"}]"#,
        ] {
            let other = pod(&format!(r#"{{"containers": [{}], {more}}}"#, container("{}")));
            assert_eq!(PodRequests::of(&other, Features::of(Release::V1_37)), each_way(&other), "{more}");
        }
    }

    fn each_way(pod: &Pod) -> PodRequests {
        let [placed, also] =
            [Resizes::MaximumOfEachContainer, Resizes::MaximumOfTotals].map(|it| placed_requests(pod, it));
        assert_eq!(placed, also, "there is no resize");
        assert_eq!(placed, balanced_requests(pod, Resizes::MaximumOfTotals));
        let (placed_non_zero, scoring) = (placed_non_zero(pod, Resizes::MaximumOfTotals), scoring_requests(pod));
        PodRequests { spec: spec_requests(pod), placed, placed_non_zero, scoring }
    }

    /// The thousandths of a CPU that a resized pod takes, in 1.36 and in 1.37.
    fn resized(spec: &str, status: &str) -> [i64; 2] {
        let pod: Pod = serde_json::from_str(&format!(r#"{{"spec": {spec}, "status": {status}}}"#)).unwrap();
        Release::ALL.map(|release| placed_requests(&pod, Resizes::of(Features::of(release))).milli_cpu)
    }

    fn of_containers(cpus: &[&str]) -> String {
        let container = |(at, cpu): (usize, &&str)| {
            format!(r#"{{"name": "c{at}", "resources": {{"requests": {{"cpu": "{cpu}"}}}}}}"#)
        };
        format!(r#"{{"containers": [{}]}}"#, cpus.iter().enumerate().map(container).collect::<Vec<_>>().join(","))
    }

    fn allocated_and_actual(cpus: &[&str]) -> String {
        let status = |(at, cpu): (usize, &&str)| {
            let cpu = format!(r#"{{"cpu": "{cpu}"}}"#);
            format!(r#"{{"name": "c{at}", "allocatedResources": {cpu}, "resources": {{"requests": {cpu}}}}}"#)
        };
        format!(r#"{{"containerStatuses": [{}]}}"#, cpus.iter().enumerate().map(status).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_resize_counts_by_container_or_by_totals() {
        assert_eq!(resized(&of_containers(&["1", "2"]), &allocated_and_actual(&["2", "1"])), [4000, 3000]);
        assert_eq!(resized(&of_containers(&["1", "1"]), &allocated_and_actual(&["2", "1"])), [3000, 3000]);
        let infeasible = r#"{"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "2"}}]}"#;
        assert_eq!(resized(&of_containers(&["4"]), infeasible), [4000, 2000]);
    }

    #[test]
    fn totals_take_the_status_of_the_whole_pod_and_of_every_init_container() {
        let spec = r#"{"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "2"}}}"#;
        let status = r#"{"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}}"#;
        assert_eq!(resized(spec, status), [4000, 4000]);
        let only_in_status = spec.replace(r#""resources": {"requests": {"cpu": "2"}}}"#, r#""resources": {}}"#);
        assert_eq!(resized(&only_in_status, status), [1000, 4000]);
        let init = r#"{"initContainers": [{"name": "c0", "resources": {"requests": {"cpu": "1"}}}]}"#;
        assert_eq!(resized(init, &allocated_and_actual(&["2"]).replace("containerS", "initContainerS")), [1000, 2000]);
    }

    #[test]
    fn pod_level_resources_and_their_resizes_need_their_gates() {
        let pod = r#"{"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "2"}}},
            "status": {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}}}"#;
        let pod: Pod = serde_json::from_str(pod).unwrap();
        for release in Release::ALL {
            let without = |gate: Option<Feature>| {
                let features = Features::of(release);
                let features = gate.map_or(features, |gate| features.with(gate, false));
                let PodRequests { spec, placed, .. } = PodRequests::of(&pod, features);
                (spec.milli_cpu, placed.milli_cpu)
            };
            assert_eq!(without(None), (2000, 4000));
            assert_eq!(without(Some(Feature::InPlacePodLevelResourcesVerticalScaling)), (2000, 2000));
            assert_eq!(without(Some(Feature::PodLevelResources)), (1000, 1000));
        }
    }

    /// KEP-5517. Kubernetes 1.36 writes `resources`, and 1.37 writes `mapping` and `overhead`.
    #[test]
    fn what_devices_take_of_the_node_counts_with_its_gate_once_the_pod_has_a_node() {
        let spec = r#""containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]"#;
        let old =
            r#"{"resourceClaimName": "c", "containers": ["a"], "resources": {"cpu": "2", "hugepages-2Mi": "4Mi"}}"#;
        let new = r#"{"resourceClaimName": "c", "containers": ["a", "b"], "mapping": [{"name": "cpu", "quantity": "1500m"}],
            "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "200m"}]}"#;
        let placed = |more: &str, status: &str, is_on| {
            let text = format!(
                r#"{{"spec": {{{spec}{more}}},
                "status": {{"nodeAllocatableResourceClaimStatuses": [{status}]}}}}"#
            );
            let features = Features::of(Release::V1_37).with(Feature::DRANodeAllocatableResources, is_on);
            let PodRequests { spec, placed, placed_non_zero, .. } =
                PodRequests::of(&serde_json::from_str(&text).unwrap(), features);
            assert_eq!(spec.milli_cpu, if more.contains("resources") { 5000 } else { 1000 });
            (placed.milli_cpu, placed_non_zero.milli_cpu, placed.get("hugepages-2Mi"))
        };
        let on_node = r#", "nodeName": "n""#;
        assert_eq!(placed(on_node, old, true), (3000, 3100, 4 << 20));
        assert_eq!(placed(on_node, new, true), (3000, 3100, 0));
        assert_eq!(placed(on_node, old, false), (1000, 1100, 0));
        assert_eq!(placed("", old, true), (1000, 1100, 0), "the status is from an earlier attempt");
        let whole = r#", "nodeName": "n", "resources": {"requests": {"cpu": "5"}}"#;
        assert_eq!(
            placed(whole, old, true),
            (5000, 5000, 4 << 20),
            "the requests of the whole pod include its devices"
        );
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        for more in ["8Ei", "9223372036854775807", "16Mi"] {
            let huge = r#"{"cpu": "9223372036854775807", "memory": "8Ei"}"#;
            let containers =
                format!(r#"[{{"resources": {{"requests": {huge}}}}}, {{"resources": {{"requests": {huge}}}}}]"#);
            let overhead = format!(r#"{{"cpu": "10m", "memory": "{more}"}}"#);
            let requests = spec_requests(&pod(&format!(r#"{{"containers": {containers}, "overhead": {overhead}}}"#)));
            assert_eq!((requests.milli_cpu, requests.memory), (i64::MAX, i64::MAX), "{more}");
        }
    }

    #[test]
    fn fit_scores_without_pod_level_resources() {
        let pod = pod(r#"{"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "a"}]}"#);
        assert_eq!(spec_requests(&pod).milli_cpu, 2000);
        assert_eq!(scoring_requests(&pod).milli_cpu, 100);
        let non_zero = placed_non_zero(&pod, Resizes::MaximumOfEachContainer);
        assert_eq!((non_zero.milli_cpu, non_zero.memory), (2000, 200 << 20));
    }

    #[test]
    fn resource_names_are_told_apart() {
        assert!(is_extended_resource_name("nvidia.com/gpu"));
        assert!(!is_extended_resource_name("requests.example.com/gpu"));
        assert!(!is_extended_resource_name("example.com/bad name"));
        assert!(!is_extended_resource_name("gpu"));
        for name in ["nvidia.com/gpu", "hugepages-2Mi", "kubernetes.io/batch", "attachable-volumes-ebs"] {
            assert!(is_scalar_resource_name(name), "{name}");
        }
        assert!(!is_scalar_resource_name("pods"));
    }
}
