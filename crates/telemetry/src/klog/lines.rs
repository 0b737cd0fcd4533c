//! The lines of kube-scheduler's log that Berth also writes. The guide has a table of these lines
//! (`docs/src/log-messages.md`), which a test compares with this table.

/// A line of kube-scheduler's log. Verbosities, words and keys are those of kube-scheduler 1.36, or
/// of the release in [`Self::releases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeLine {
    /// The words.
    pub message: &'static str,
    /// The verbosity (`-v`) from which on the line is written.
    pub verbosity: u8,
    /// The keys, as klog writes them.
    pub keys: &'static [&'static str],
    /// The releases of kube-scheduler that write the line.
    pub releases: &'static str,
}

macro_rules! kube_lines {
    ($($name:ident = $releases:literal V($verbosity:literal) $message:literal [$($key:literal),*];)*) => {
        $(
            #[doc = concat!("The line `", $message, "`.")]
            pub const $name: KubeLine = KubeLine {
                message: $message,
                verbosity: $verbosity,
                keys: &[$($key),*],
                releases: $releases,
            };
        )*

        impl KubeLine {
            /// Every line.
            pub const ALL: &[Self] = &[$($name),*];
        }
    };
}

kube_lines! {
    STARTING = "all" V(0) "Starting Kubernetes Scheduler" ["version"];
    LEADERSHIP_LOST = "all" V(0) "Leaderelection lost" [];
    ADD_UNSCHEDULED_POD = "all" V(3) "Add event for unscheduled pod" ["pod"];
    UPDATE_UNSCHEDULED_POD = "all" V(4) "Update event for unscheduled pod" ["pod"];
    DELETE_UNSCHEDULED_POD = "all" V(3) "Delete event for unscheduled pod" ["pod"];
    ADD_SCHEDULED_POD = "all" V(3) "Add event for scheduled pod" ["pod"];
    UPDATE_SCHEDULED_POD = "all" V(4) "Update event for scheduled pod" ["pod"];
    DELETE_SCHEDULED_POD = "all" V(3) "Delete event for scheduled pod" ["pod"];
    ADD_NODE = "all" V(3) "Add event for node" ["node"];
    UPDATE_NODE = "all" V(4) "Update event for node" ["node"];
    DELETE_NODE = "all" V(3) "Delete event for node" ["node"];
    POD_MOVED = "1.36" V(5) "Pod moved to an internal scheduling queue" ["pod", "event", "queue"];
    GATED_POD_MOVED = "1.36" V(5) "Pod moved to an internal scheduling queue, because the pod is gated"
        ["pod", "event", "queue"];
    UPDATED_POD_MOVED = "1.36" V(5) "Pod moved to an internal scheduling queue because the Pod is updated"
        ["pod", "event", "queue"];
    ENTITY_MOVED = "1.37" V(5) "Entity moved to an internal scheduling queue" ["type", "entity", "event", "queue"];
    GATED_ENTITY_MOVED = "1.37" V(5) "Entity moved to an internal scheduling queue, because it is gated"
        ["type", "entity", "event", "queue"];
    UPDATED_ENTITY_MOVED = "1.37" V(5) "Entity moved to an internal scheduling queue because the Pod is updated"
        ["type", "entity", "pod", "event", "queue"];
    FAILED_POD_MOVED = "all" V(3) "Pod moved to an internal scheduling queue"
        ["pod", "event", "queue", "schedulingCycle", "hint", "unschedulable plugins"];
    POD_POPPED = "all" V(4) "About to try and schedule pod" ["pod"];
    ATTEMPT_BEGAN = "all" V(3) "Attempting to schedule pod" ["pod"];
    DELETING_POD_SKIPPED = "all" V(3) "Skip schedule deleting pod" ["pod"];
    POST_FILTER_RAN = "all" V(5) "Status after running PostFilter plugins for pod" ["pod", "status"];
    NO_FIT = "all" V(2) "Unable to schedule pod; no fit; waiting" ["pod", "err"];
    NO_NODES = "all" V(2) "Unable to schedule pod; no nodes are registered to the cluster; waiting" ["pod"];
    ATTEMPT_FAILED = "all" V(0) "Error scheduling pod; retrying" ["pod", "err"];
    PREEMPTION_TARGET = "all" V(2) "the target node for the preemption is determined" ["node", "pod"];
    PREEMPTED = "all" V(2) "Preemptor Pod preempted victim Pod" ["preemptor", "victim", "node"];
    VICTIM_IS_GONE = "all" V(2) "Victim Pod is already deleted" ["preemptor", "victim"];
    BINDING = "all" V(3) "Attempting to bind pod to node" ["pod", "node"];
    BOUND = "all" V(2) "Successfully bound pod to node" ["pod", "node", "evaluatedNodes", "feasibleNodes"];
    PLUGIN_SCORED = "all" V(10) "Plugin scored node for pod" ["pod", "plugin", "node", "score"];
    FINAL_SCORE = "all" V(10) "Calculated node's final score for pod" ["pod", "node", "score"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_the_lines_with_their_verbosities_and_keys() {
        let guide = include_str!("../../../../docs/src/log-messages.md");
        let messages = guide.split("\n## ").find(|section| section.starts_with("The messages")).expect("the section");
        let rows: Vec<&str> = messages.lines().filter(|line| line.starts_with("| `")).collect();
        let known = KubeLine::ALL.iter().map(|line| {
            let KubeLine { message, verbosity, keys, releases } = line;
            let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            format!("| `{message}` | {verbosity} | {} | {releases} |", keys.join(", "))
        });
        assert_eq!(rows, known.collect::<Vec<_>>());
    }
}
