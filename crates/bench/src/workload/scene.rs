//! The objects that exist before the clock starts, and the changes after the start. Objects are JSON, as an API server
//! takes them.

use std::fmt;

use serde_json::{Value, json};

use super::{SCHEDULER_NAME, nodes, pods};

/// A workload at one size.
#[derive(Debug, Default)]
pub struct Scene {
    pub nodes: Vec<Value>,
    /// Namespaces, volumes, claims, services and similar objects, in the order in which they are created.
    pub objects: Vec<Value>,
    /// Objects that controllers make from `objects` and the pods. The benchmark creates them only without an API
    /// server, because no controllers run in that case.
    pub made_by_controllers: Vec<Value>,
    /// Pods that are on nodes from the beginning.
    pub placed: Pods,
    /// Pods that the scheduler places before the clock starts.
    pub initial: Pods,
    /// Pods that wait all the time: gated pods, and pods that fit nowhere.
    pub pending: Pods,
    /// The measured pods.
    pub measured: Pods,
    pub changes: Option<Changes>,
}

/// Pods that are made on demand.
#[derive(Default)]
pub struct Pods {
    n: usize,
    make: Option<Box<dyn Fn(usize) -> Value>>,
}

/// Changes while the measured pods are scheduled.
pub struct Changes {
    /// The number of measured pods that are bound between two changes.
    pub every: usize,
    make: Box<dyn Fn(usize) -> Vec<Change>>,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is created.
    Create(Value),
    /// The object is deleted. A missing object is not an error.
    Delete(Value),
}

impl Pods {
    /// `n` pods. `make` gets the index of a pod.
    pub fn new(n: usize, make: impl Fn(usize) -> Value + 'static) -> Self {
        Self { n, make: Some(Box::new(make)) }
    }

    /// Pods without requests that are already on nodes, one node after the other.
    #[must_use]
    pub fn placed(n: usize, n_nodes: usize) -> Self {
        Self::new(n, move |index| pods::light_pod("placed", index).on(&nodes::name(index % n_nodes)).json())
    }

    /// Pods that do not even fit on an empty node.
    #[must_use]
    pub fn unschedulable(n: usize) -> Self {
        Self::new(n, |index| pods::too_large_of_low_priority("too-large", index).json())
    }

    /// The number of pods.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.make.is_some() { self.n } else { 0 }
    }

    /// Whether there are no pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each of the pods, for the profile [`SCHEDULER_NAME`].
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
    /// Changes after every `every` bound pods. `make` gets the number of the change.
    pub fn new(every: usize, make: impl Fn(usize) -> Vec<Change> + 'static) -> Self {
        Self { every, make: Box::new(make) }
    }

    /// The changes after this number of measured pods has been bound. Most numbers have no changes.
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
    /// Divides the measured pods alternately into `n_classes` equivalence classes, which differ in a label.
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
