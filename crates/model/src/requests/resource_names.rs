//! The names of resources, by the way in which the scheduler treats them.

use crate::qualified_name;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
pub(super) const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

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

/// Whether a pod as a whole may request the resource.
#[must_use]
pub fn is_pod_level_resource_name(name: &str) -> bool {
    name == CPU || name == MEMORY || is_huge_page_resource_name(name)
}
