//! scheduler_perf's workloads by its names, with its nodes, pods and sizes (`test/integration/scheduler_perf` in
//! kubernetes/kubernetes).
//!
//! scheduler_perf changes something at an interval in milliseconds. Here, the change happens after a number of bound
//! pods, so that two runs make the same changes. The number is the number of pods that scheduler_perf's thresholds
//! require in that time.

mod affinity;
mod cluster;
mod devices;
mod list;
mod nodes;
mod pods;
mod scene;
mod volumes;

use std::{fmt, str::FromStr};

pub use self::{
    cluster::Cluster,
    list::WORKLOADS,
    scene::{Change, Changes, Pods, Scene},
};

/// The profile that schedules the pods.
pub const SCHEDULER_NAME: &str = "berth-bench";

/// One of scheduler_perf's workloads.
#[derive(Clone, Copy)]
pub struct Workload {
    /// The name that scheduler_perf has for the workload.
    pub name: &'static str,
    /// The largest size that scheduler_perf tests for performance.
    pub full: Size,
    scene: fn(Size) -> Scene,
}

impl fmt::Debug for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {:?}", self.name, self.full)
    }
}

/// The number of nodes and pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub nodes: usize,
    /// Pods that are placed before the clock starts.
    pub initial: usize,
    /// The measured pods.
    pub measured: usize,
}

/// The size at which a workload is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// The part of the full size that this fraction gives.
    Part(f64),
    /// The number of nodes, with pods in proportion. A workload that has one node at every size keeps one node.
    Nodes(usize),
}

/// The text is not `full`, `medium` or `small`.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("unknown size: expected full, medium or small")]
pub struct NotASize;

impl FromStr for Scale {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        match text {
            "full" => Ok(Self::Part(1.0)),
            "medium" => Ok(Self::Part(0.1)),
            "small" => Ok(Self::Part(0.02)),
            _ => Err(NotASize),
        }
    }
}

impl Workload {
    /// The workloads with this text in their names, in upper or lower case. A workload with exactly this name is
    /// returned alone.
    #[must_use]
    pub fn named(text: &str) -> Vec<&'static Self> {
        let text = text.to_lowercase();
        let exact = WORKLOADS.iter().find(|workload| workload.name.to_lowercase() == text);
        if let Some(exact) = exact {
            return vec![exact];
        }
        WORKLOADS.iter().filter(|workload| workload.name.to_lowercase().contains(&text)).collect()
    }

    /// The numbers of nodes and pods at this scale.
    #[must_use]
    pub fn size(&self, scale: Scale) -> Size {
        let full = self.full;
        let (nodes, part) = match scale {
            _ if full.nodes == 1 => (1, if let Scale::Part(part) = scale { part } else { 1.0 }),
            Scale::Part(part) => (scaled(full.nodes, part), part),
            Scale::Nodes(nodes) => (nodes, nodes as f64 / full.nodes as f64),
        };
        Size { nodes, initial: scaled(full.initial, part), measured: scaled(full.measured, part).max(1) }
    }

    /// The objects that exist before the measurement starts, and the changes during it.
    #[must_use]
    pub fn scene(&self, size: Size) -> Scene {
        (self.scene)(size)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far below 2^53, and never negative")]
fn scaled(number: usize, part: f64) -> usize {
    (number as f64 * part).round() as usize
}
