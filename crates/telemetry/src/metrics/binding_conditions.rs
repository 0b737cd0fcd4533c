//! The time that pods wait for devices which need preparation before a pod can run with them (KEP-5007).

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use berth_scheduler::WaitResult;
use prometheus::{HistogramVec, IntCounterVec, exponential_buckets};
use serde::Deserialize;

use super::registration::{Registration, Stability::Alpha};

/// The maximum number of drivers with a label of their own, because any publisher of devices can choose their names.
/// Other drivers are counted as [`OTHER`].
const MAX_DRIVERS: usize = 64;
const OTHER: &str = "other";

/// The metrics. Only the scheduling thread writes them.
#[derive(Debug)]
pub(super) struct BindingConditionMetrics {
    drivers: Mutex<BTreeSet<String>>,
    allocations: IntCounterVec,
    wait: HistogramVec,
}

impl BindingConditionMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        let labels = ["profile", "driver", "status"];
        Self {
            drivers: Mutex::default(),
            allocations: add.counter(
                Alpha,
                "scheduler_dra_bindingconditions_allocations_total",
                "Attempts that waited for binding conditions of a driver's devices, by how the wait ended.",
                &labels,
            ),
            wait: add.histogram(
                Alpha,
                "scheduler_dra_bindingconditions_wait_duration_seconds",
                "How long attempts waited for binding conditions of a driver's devices.",
                &labels,
                exponential_buckets(0.1, 2.0, 14).unwrap_or_default(),
            ),
        }
    }

    /// Records that a pod has waited for these claims, which are given in their current state.
    pub(super) fn waited(&self, profile: &str, claims: &[impl AsRef<[u8]>], result: WaitResult, seconds: f64) {
        let drivers: BTreeSet<String> = claims.iter().flat_map(|claim| drivers(claim.as_ref())).collect();
        for driver in &drivers {
            let driver = self.label(driver);
            let labels = [profile, driver, result.as_str()];
            self.allocations.with_label_values(&labels).inc();
            self.wait.with_label_values(&labels).observe(seconds);
        }
    }

    fn label<'a>(&self, driver: &'a str) -> &'a str {
        let mut known = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(driver) {
            return driver;
        }
        if known.len() >= MAX_DRIVERS {
            return OTHER;
        }
        known.insert(driver.to_owned());
        driver
    }
}

/// The drivers of the devices in a claim that have binding conditions.
fn drivers(claim: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Claim {
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    struct Status {
        #[serde(default)]
        allocation: Option<Allocation>,
    }
    #[derive(Deserialize)]
    struct Allocation {
        #[serde(default)]
        devices: Devices,
    }
    #[derive(Default, Deserialize)]
    struct Devices {
        #[serde(default)]
        results: Vec<Device>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Device {
        driver: String,
        #[serde(default)]
        binding_conditions: Vec<String>,
    }
    // The plugin has read these claims before. A claim that the plugin could not read would have ended the attempt.
    let Ok(Claim { status: Status { allocation: Some(allocation) } }) = serde_json::from_slice(claim) else {
        return Vec::new();
    };
    let devices = allocation.devices.results.into_iter();
    devices.filter(|device| !device.binding_conditions.is_empty()).map(|device| device.driver).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_drivers_are_told_apart() {
        let mut add = Registration::default();
        let metrics = BindingConditionMetrics::new(&mut add);
        let labels: BTreeSet<String> =
            (0..1000).map(|number| metrics.label(&format!("driver-{number}")).to_owned()).collect();
        assert_eq!(labels.len(), MAX_DRIVERS + 1);
        assert_eq!((metrics.label("driver-3"), metrics.label("driver-999")), ("driver-3", OTHER));
    }
}
