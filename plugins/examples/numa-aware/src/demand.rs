//! The part of a pod's requests that must lie in one zone.

use std::collections::BTreeMap;

use berth_sdk::model::quantity::Quantity;
use serde::Deserialize;

/// Amounts by resource: milli-CPU for `cpu`, bytes, or units.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// The requests of a pod's containers.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The containers that run side by side.
    pub(crate) containers: Vec<Amounts>,
    /// The init containers that run before all other containers, one after the other, with the resources that the other
    /// containers get later.
    pub(crate) init_containers: Vec<Amounts>,
}

impl Demand {
    pub(crate) fn of_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let PodJson { spec, status } = serde_json::from_slice(json)?;
        let is_guaranteed = status.qos_class == "Guaranteed";
        let amounts = |container: &Container| container.amounts(is_guaranteed);
        Ok(Self {
            containers: spec.containers.iter().map(amounts).collect(),
            init_containers: spec.init_containers.iter().map(amounts).collect(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.containers.iter().chain(&self.init_containers).all(BTreeMap::is_empty)
    }

    /// The requests of the pod as a whole.
    pub(crate) fn total(&self) -> Amounts {
        let mut total = Amounts::new();
        for (resource, amount) in self.containers.iter().flatten() {
            *total.entry(resource.clone()).or_default() += amount;
        }
        for (resource, amount) in self.init_containers.iter().flatten() {
            let most = total.entry(resource.clone()).or_default();
            *most = (*most).max(*amount);
        }
        total
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodJson {
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    qos_class: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: ContainerResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerResources {
    requests: BTreeMap<String, Quantity>,
}

impl Container {
    fn amounts(&self, is_guaranteed: bool) -> Amounts {
        let requests = self.resources.requests.iter();
        let counted = requests.filter(|(resource, amount)| !amount.is_zero() && (is_guaranteed || is_device(resource)));
        counted.map(|(resource, amount)| (resource.clone(), units(resource, amount))).collect()
    }
}

/// Whether a device plugin provides the resource: its name has a domain.
fn is_device(resource: &str) -> bool {
    resource.contains('/')
}

pub(crate) fn units(resource: &str, amount: &Quantity) -> i64 {
    if resource == "cpu" { amount.milli_value() } else { amount.value() }
}
