//! Checks that the resources of a whole pod include the amounts that its devices take from their node. The API server
//! cannot check this, because the devices are not known when the pod is created.

use berth_framework::Status;
use berth_model::{
    Feature, Features,
    api::{NodeAllocatableClaimStatus, Pod, ResourceList, ResourceRequirements},
    quantity::Quantity,
    requests::{self, Options, is_huge_page_resource_name, is_pod_level_resource_name},
};

/// # Errors
/// The text of kube-scheduler for a resource that the pod's resources do not cover.
pub(super) fn check(
    pod: &Pod,
    claims: &[NodeAllocatableClaimStatus],
    claimed: &ResourceList,
    features: Features,
) -> Result<(), Status> {
    let Some(resources) = &pod.spec.resources else { return Ok(()) };
    if !features.has(Feature::DevicesMayHaveOverhead) {
        return check_requests_in_1_36(pod, resources, claimed);
    }
    let mut containers_alone = pod.clone();
    (containers_alone.spec.resources, containers_alone.spec.overhead) = (None, None);
    check_requests(&containers_alone, resources, claimed)?;
    check_limits(&containers_alone, resources, claims, claimed)
}

/// In Kubernetes 1.36, both sums include the pod's overhead.
fn check_requests_in_1_36(pod: &Pod, resources: &ResourceRequirements, claimed: &ResourceList) -> Result<(), Status> {
    if resources.requests.is_empty() {
        return Ok(());
    }
    let total = |skip_pod_level| {
        let options = Options { skip_pod_level, claimed: claimed.clone(), ..Options::default() };
        requests::pod_requests(pod, &options)
    };
    let (of_pod, of_containers) = (total(false), total(true));
    let is_exceeded = |(name, of_pod): &(&String, &Quantity)| of_containers.get(*name).is_some_and(|it| it > *of_pod);
    of_pod.iter().find(is_exceeded).map_or(Ok(()), |(name, _)| Err(too_small_request(name)))
}

fn check_requests(pod: &Pod, resources: &ResourceRequirements, claimed: &ResourceList) -> Result<(), Status> {
    let options = Options { claimed: claimed.clone(), ..Options::default() };
    let of_containers = requests::pod_requests(pod, &options);
    let mut of_pod = resources.requests.iter().filter(|(name, _)| is_pod_level_resource_name(name));
    let is_exceeded = |(name, of_pod): &(&String, &Quantity)| of_containers.get(*name).is_some_and(|it| it > *of_pod);
    of_pod.find(is_exceeded).map_or(Ok(()), |(name, _)| Err(too_small_request(name)))
}

fn too_small_request(name: &str) -> Status {
    Status::unresolvable(format!(
        "pod level request for {name} is insufficient to cover the aggregated container and node-allocatable DRA requests"
    ))
}

/// Huge pages of all containers together, and any other resource of each container, must fit the limit of the pod.
fn check_limits(
    pod: &Pod,
    resources: &ResourceRequirements,
    claims: &[NodeAllocatableClaimStatus],
    claimed: &ResourceList,
) -> Result<(), Status> {
    let of_containers = requests::pod_limits(pod);
    let none = Quantity::default();
    for (name, limit) in resources.limits.iter().filter(|(name, _)| is_huge_page_resource_name(name)) {
        let amount = of_containers.get(name).unwrap_or(&none) + claimed.get(name).unwrap_or(&none);
        if amount > *limit {
            return Err(Status::unresolvable(format!(
                "pod level limit for {name} is insufficient to cover the aggregated container and node-allocatable DRA limits"
            )));
        }
    }
    for container in &pod.spec.containers {
        let of_devices = taken_by(claims, &container.name);
        for (name, own) in container.resources.limits.iter().filter(|(name, _)| !is_huge_page_resource_name(name)) {
            let Some(limit) = resources.limits.get(name) else { continue };
            if own + of_devices.get(name).unwrap_or(&none) > *limit {
                return Err(Status::unresolvable(format!(
                    "pod level limit for {name} is insufficient to cover the limit and DRA overhead for container {}",
                    container.name
                )));
            }
        }
    }
    Ok(())
}

/// The amounts that the devices of this container take from their node.
fn taken_by(claims: &[NodeAllocatableClaimStatus], container: &str) -> ResourceList {
    let used = claims.iter().filter(|claim| claim.containers.iter().any(|user| user == container));
    let of_one = |claim: &NodeAllocatableClaimStatus| NodeAllocatableClaimStatus {
        containers: vec![container.to_owned()],
        ..claim.clone()
    };
    requests::claimed(&used.map(of_one).collect::<Vec<_>>())
}
