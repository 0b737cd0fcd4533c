//! Resources that devices may serve in place of the node (KEP-5004): those that some DeviceClass stands for.

use berth_model::{ObjectTable, ObjectView};
use serde::Deserialize;

pub(super) const API_VERSION: &str = "resource.k8s.io/v1";
pub(super) const KIND: &str = "DeviceClass";

/// Before the name of a class, a resource of that class.
const PREFIX: &str = "deviceclass.resource.kubernetes.io/";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeviceClass {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    extended_resource_name: Option<String>,
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

    /// Whether a class stands for the resource, by its own word or by its name.
    pub(super) fn serve(&self, resource: &str) -> bool {
        let named = resource.strip_prefix(PREFIX);
        self.0.iter().any(|(_, name, class)| {
            named == Some(name) || class.spec.extended_resource_name.as_deref() == Some(resource)
        })
    }
}
