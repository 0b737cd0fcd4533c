//! Waits for devices that need work before a pod can run with them (KEP-5007).

use std::collections::BTreeSet;

use berth_scheduler::WaitResult;
use prometheus::{HistogramVec, IntCounterVec, exponential_buckets};
use serde::Deserialize;

use super::registration::{Registration, Stability::Alpha};

/// Written by the scheduling thread alone.
#[derive(Debug)]
pub(super) struct BindingConditionMetrics {
    allocations: IntCounterVec,
    wait: HistogramVec,
}

impl BindingConditionMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        let labels = ["profile", "driver", "status"];
        Self {
            allocations: add.counter(
                Alpha,
                (
                    "scheduler_dra_bindingconditions_allocations_total",
                    "Attempts that waited for binding conditions of a driver's devices, by how the wait ended.",
                ),
                &labels,
            ),
            wait: add.histogram(
                Alpha,
                ("scheduler_dra_bindingconditions_wait_duration_seconds", "How long they waited."),
                &labels,
                exponential_buckets(0.1, 2.0, 14).unwrap_or_default(),
            ),
        }
    }

    /// A pod has waited for these claims, as they are now.
    pub(super) fn waited(&self, profile: &str, claims: &[impl AsRef<[u8]>], result: WaitResult, seconds: f64) {
        let drivers: BTreeSet<String> = claims.iter().flat_map(|claim| drivers(claim.as_ref())).collect();
        for driver in &drivers {
            let labels = [profile, driver, result.as_str()];
            self.allocations.with_label_values(&labels).inc();
            self.wait.with_label_values(&labels).observe(seconds);
        }
    }
}

/// The drivers of those devices of a claim that have binding conditions.
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
    // The plugin has read these claims; one that it could not read kept the pod from getting here.
    let Ok(Claim { status: Status { allocation: Some(allocation) } }) = serde_json::from_slice(claim) else {
        return Vec::new();
    };
    let devices = allocation.devices.results.into_iter();
    devices.filter(|device| !device.binding_conditions.is_empty()).map(|device| device.driver).collect()
}
