//! Extended resources that devices serve (KEP-5004): the resources that a DeviceClass names.

use berth_model::{ObjectTable, ObjectView};
use serde::Deserialize;

pub(super) const API_VERSION: &str = "resource.k8s.io/v1";
pub(super) const KIND: &str = "DeviceClass";

/// The prefix of the implicit extended resource of a class. The name of the class follows the prefix.
const PREFIX: &str = "deviceclass.resource.kubernetes.io/";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClass {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    extended_resource_name: Option<String>,
}

impl DeviceClass {
    pub(super) fn extended_resource(&self) -> Option<&str> {
        self.spec.extended_resource_name.as_deref()
    }
}

/// Whether the resource is the implicit resource of the class with the name `class`.
pub(super) fn is_implicit(resource: &str, class: &str) -> bool {
    resource.strip_prefix(PREFIX) == Some(class)
}

/// All device classes.
#[derive(Debug)]
pub(super) struct DeviceClasses(ObjectView<DeviceClass>);

impl Default for DeviceClasses {
    fn default() -> Self {
        Self(ObjectView::new(API_VERSION, KIND))
    }
}

impl DeviceClasses {
    pub(super) fn refresh(&mut self, objects: &ObjectTable) {
        self.0.refresh(objects);
    }

    /// Whether some class has the resource as its `extendedResourceName` or as its implicit extended resource.
    pub(super) fn serve(&self, resource: &str) -> bool {
        self.0.iter().any(|(_, name, class)| is_implicit(resource, name) || class.extended_resource() == Some(resource))
    }
}
