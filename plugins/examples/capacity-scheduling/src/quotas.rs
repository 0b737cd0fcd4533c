//! ElasticQuotas, and the amounts that the pods of their namespaces use.

use std::collections::BTreeMap;

use berth_sdk::model::{ClusterTable, ObjectView, Pod, PodUid, quantity::Quantity};
use serde::Deserialize;

use crate::amounts::{Amounts, add, of_pod, of_quantities, subtract};

pub(crate) const API_VERSION: &str = "scheduling.x-k8s.io/v1alpha1";
pub(crate) const KIND: &str = "ElasticQuota";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ElasticQuota {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    min: BTreeMap<String, Quantity>,
    max: BTreeMap<String, Quantity>,
}

/// The quota of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quota {
    /// The amounts that the namespace is guaranteed.
    pub(crate) min: Amounts,
    /// The amounts that the namespace may use, including borrowed amounts.
    pub(crate) max: Amounts,
}

/// All quotas, and the amounts that each namespace uses.
#[derive(Debug)]
pub(crate) struct Quotas {
    objects: ObjectView<ElasticQuota>,
    by_namespace: BTreeMap<String, Quota>,
    /// The namespace and the requests of each pod on a node.
    pods: BTreeMap<PodUid, (String, Amounts)>,
    /// The sums of the requests in `pods`, by namespace.
    used: BTreeMap<String, Amounts>,
    nothing: Amounts,
    /// The position up to which the changes of pods on nodes were followed.
    position: Option<u64>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            objects: ObjectView::new(API_VERSION, KIND),
            by_namespace: BTreeMap::new(),
            pods: BTreeMap::new(),
            used: BTreeMap::new(),
            nothing: Amounts::new(),
            position: None,
        }
    }
}

impl Quotas {
    pub(crate) fn follow(&mut self, table: &ClusterTable) {
        if self.objects.refresh(table.objects()) {
            let quota = |spec: &Spec| Quota { min: of_quantities(&spec.min), max: of_quantities(&spec.max) };
            let objects = self.objects.iter();
            self.by_namespace =
                objects.map(|(namespace, _, object)| (namespace.to_owned(), quota(&object.spec))).collect();
        }
        let pods = table.pods();
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => {
                for change in changes {
                    self.leave(&change.pod.uid);
                    if change.sign > 0 {
                        self.come(table, &change.pod);
                    }
                }
            }
            None => {
                self.pods.clear();
                self.used.clear();
                pods.iter().for_each(|(_, pod, _)| self.come(table, pod));
            }
        }
        self.position = Some(pods.position());
    }

    fn come(&mut self, table: &ClusterTable, pod: &Pod) {
        let namespace = table.symbols.text(pod.namespace).to_owned();
        let requests = of_pod(&pod.placed_requests, &table.symbols);
        add(self.used.entry(namespace.clone()).or_default(), &requests);
        self.pods.insert(pod.uid.clone(), (namespace, requests));
    }

    fn leave(&mut self, uid: &PodUid) {
        if let Some((namespace, requests)) = self.pods.remove(uid)
            && let Some(used) = self.used.get_mut(&namespace)
        {
            subtract(used, &requests);
        }
    }

    pub(crate) fn of(&self, namespace: &str) -> Option<&Quota> {
        self.by_namespace.get(namespace)
    }

    pub(crate) fn used(&self, namespace: &str) -> &Amounts {
        self.used.get(namespace).unwrap_or(&self.nothing)
    }

    /// The amounts that all namespaces with a quota use together.
    pub(crate) fn total_used(&self) -> Amounts {
        sum(self.by_namespace.keys().map(|namespace| self.used(namespace)))
    }

    /// The amounts that all quotas together guarantee.
    pub(crate) fn total_min(&self) -> Amounts {
        sum(self.by_namespace.values().map(|quota| &quota.min))
    }

    /// The amounts that each namespace uses beyond its `min`. A resource that `min` does not name is not guaranteed.
    pub(crate) fn borrowed(&self) -> BTreeMap<String, Amounts> {
        let beyond = self.by_namespace.iter().map(|(namespace, quota)| {
            let mut borrowed = self.used(namespace).clone();
            subtract(&mut borrowed, &quota.min);
            (namespace.clone(), borrowed)
        });
        beyond.collect()
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Amounts>) -> Amounts {
    let mut sum = Amounts::new();
    all.for_each(|more| add(&mut sum, more));
    sum
}
