//! The feature gates of kube-scheduler 1.36.2, and how each stands there by default: so Berth decides.

/// A gate, its stage and its default a line, as the metric `kubernetes_feature_enabled` lists them.
const GATES: &str = include_str!("feature_gates_1.36.txt");

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    pub name: &'static str,
    /// `ALPHA`, `BETA`, `GA` or `DEPRECATED`.
    pub stage: &'static str,
    pub is_on: bool,
}

/// All of them, by name.
pub fn all() -> impl Iterator<Item = FeatureGate> {
    GATES.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(FeatureGate { name: words.next()?, stage: words.next()?, is_on: words.next()? == "on" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_gate() {
        assert_eq!((all().count(), GATES.lines().count()), (244, 244));
        let hints = all().find(|gate| gate.name == "SchedulerQueueingHints");
        assert_eq!(hints, Some(FeatureGate { name: "SchedulerQueueingHints", stage: "GA", is_on: true }));
    }
}
