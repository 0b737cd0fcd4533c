//! One difference between kube-scheduler and Berth.

use std::collections::BTreeMap;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Aspect {
    /// A pod after a step: its node, nomination, conditions.
    Pod,
    /// A claim for devices after a step: the allocation, and the pods for which it is reserved.
    Claim,
    /// A volume or a claim for one after a step: its phase, and its counterpart.
    Volume,
    Event,
    Request,
    Metric,
}

/// A difference. `subject` is the pod, the event's pod or the metric. A text is empty if one side lacks the subject.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) aspect: Aspect,
    pub(crate) subject: String,
    pub(crate) kube_scheduler: String,
    pub(crate) berth: String,
    /// The step at which the difference was seen, and further facts that explain the difference.
    pub(crate) context: String,
}

impl Difference {
    /// Compares two tables, key by key.
    pub(crate) fn between(
        aspect: Aspect,
        kube_scheduler: &BTreeMap<String, String>,
        berth: &BTreeMap<String, String>,
    ) -> Vec<Self> {
        let mut keys: Vec<&String> = kube_scheduler.keys().chain(berth.keys()).collect();
        keys.sort();
        keys.dedup();
        let mut differences = Vec::new();
        for key in keys {
            let text = |table: &BTreeMap<String, String>| table.get(key).cloned().unwrap_or_default();
            let (ours, theirs) = (text(berth), text(kube_scheduler));
            if ours != theirs {
                let (subject, context) = (key.clone(), String::new());
                differences.push(Self { aspect, subject, kube_scheduler: theirs, berth: ours, context });
            }
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_lacks_is_a_difference() {
        let table =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let differences = Difference::between(Aspect::Pod, &table(&[("a", "1"), ("b", "2")]), &table(&[("a", "1")]));
        let shown: Vec<_> =
            differences.iter().map(|it| (it.subject.as_str(), it.kube_scheduler.as_str(), it.berth.as_str())).collect();
        assert_eq!(shown, [("b", "2", "")]);
    }
}
