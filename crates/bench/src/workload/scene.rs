//! What there is before the clock starts, and what happens then. Objects are JSON, as an API server takes them.

use std::fmt;

use serde_json::{Value, json};

use super::{SCHEDULER_NAME, nodes, pods};

/// A workload at one size.
#[derive(Debug, Default)]
pub struct Scene {
    pub nodes: Vec<Value>,
    /// Namespaces, volumes, claims, services and their like, in the order in which they are created.
    pub objects: Vec<Value>,
    /// What controllers make of the objects and pods. An API server that has such controllers does not need them.
    pub made_by_controllers: Vec<Value>,
    /// Pods that are on nodes from the start.
    pub placed: Pods,
    /// Pods that the scheduler places before the clock starts.
    pub initial: Pods,
    /// Pods that wait all the time: gated ones, and such that fit nowhere.
    pub pending: Pods,
    /// Pods whose scheduling is measured.
    pub measured: Pods,
    pub changes: Option<Changes>,
}

/// Pods that are made when they are needed.
#[derive(Default)]
pub struct Pods {
    n: usize,
    make: Option<Box<dyn Fn(usize) -> Value>>,
}

/// What happens while the measured pods are scheduled.
pub struct Changes {
    /// How many measured pods are bound between two changes.
    pub every: usize,
    make: Box<dyn Fn(usize) -> Vec<Change>>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is created.
    Create(Value),
    /// The object is deleted, if it is there.
    Delete(Value),
}

impl Pods {
    /// `n` pods; `make` is told which.
    pub fn new(n: usize, make: impl Fn(usize) -> Value + 'static) -> Self {
        Self { n, make: Some(Box::new(make)) }
    }

    /// Pods without requests that are on nodes already, one node after the other.
    #[must_use]
    pub fn placed(n: usize, n_nodes: usize) -> Self {
        Self::new(n, move |index| pods::light_pod("placed", index).on(&nodes::name(index % n_nodes)).json())
    }

    /// Pods that fit on no node, even an empty one.
    #[must_use]
    pub fn unschedulable(n: usize) -> Self {
        Self::new(n, |index| pods::too_large_of_low_priority("too-large", index).json())
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.make.is_some() { self.n } else { 0 }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each of them, for the profile [`SCHEDULER_NAME`].
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        let make = self.make.as_deref();
        (0..self.len()).filter_map(move |index| {
            let mut pod = make?(index);
            pod["spec"]["schedulerName"] = json!(SCHEDULER_NAME);
            Some(pod)
        })
    }
}

impl fmt::Debug for Pods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} pods", self.len())
    }
}

impl Changes {
    /// `make` is told the number of the change.
    pub fn new(every: usize, make: impl Fn(usize) -> Vec<Change> + 'static) -> Self {
        Self { every, make: Box::new(make) }
    }

    /// What happens when so many measured pods have been bound; nothing most of the time.
    #[must_use]
    pub fn after(&self, n_bound: usize) -> Vec<Change> {
        if !n_bound.is_multiple_of(self.every) {
            return Vec::new();
        }
        let mut changes = (self.make)(n_bound / self.every - 1);
        for change in &mut changes {
            if let Change::Create(object) = change
                && object["kind"] == "Pod"
            {
                object["spec"]["schedulerName"] = json!(SCHEDULER_NAME);
            }
        }
        changes
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a change every {} pods", self.every)
    }
}

impl Scene {
    /// Divides the measured pods into so many equivalence classes, in turn: they differ in a label.
    #[must_use]
    pub fn in_classes(mut self, n_classes: usize) -> Self {
        if n_classes > 1
            && let Some(make) = self.measured.make.take()
        {
            self.measured.make = Some(Box::new(move |index| {
                let mut pod = make(index);
                pod["metadata"]["labels"]["class"] = json!((index % n_classes).to_string());
                pod
            }));
        }
        self
    }
}
