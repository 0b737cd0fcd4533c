//! What is said when plugins, or the pods of a namespace, have used up their time on the scheduling thread.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use berth_framework::TimeReport;

/// Plugins that are named as those that took the most.
const NAMED: usize = 5;

/// For the log, and for an event.
pub(crate) fn describe(report: &TimeReport) -> String {
    match report {
        TimeReport::Plugin { plugin, share } => {
            let milliseconds = share.per_second.as_millis();
            format!(
                "plugin {plugin:?} has used up its time, {milliseconds} ms of each second; \
                 limits.millisecondsPerSecond would give it more"
            )
        }
        TimeReport::AllPlugins { share, taken } => {
            let milliseconds = share.per_second.as_millis();
            format!(
                "all plugins together have used up their time, {milliseconds} ms of each second: pods of profiles without \
                 them go first; lately {}; schedulingThread.pluginsMillisecondsPerSecond would give them more",
                greediest(taken)
            )
        }
        TimeReport::Namespace { namespace, share } => {
            let milliseconds = share.per_second.as_millis();
            format!(
                "searches for nodes for pods of namespace {namespace:?} have used up their time, {milliseconds} ms of each \
                 second: pods of other namespaces go first; schedulingThread.namespaceMillisecondsPerSecond would give it more"
            )
        }
    }
}

fn greediest(taken: &[(Arc<str>, Duration)]) -> String {
    let mut text = String::new();
    for (plugin, taken) in taken.iter().take(NAMED) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{plugin:?} took {} ms", taken.as_millis());
    }
    let n_others = taken.len().saturating_sub(NAMED);
    if n_others > 0 {
        let _ = write!(text, " and {n_others} others took less");
    }
    text
}

#[cfg(test)]
mod tests {
    use berth_framework::Share;

    use super::*;

    #[test]
    fn those_that_took_the_most_are_named() {
        let share = Share { per_second: Duration::from_millis(300), burst: Duration::from_millis(300) };
        let took = |plugin: &str, milliseconds| (Arc::from(plugin), Duration::from_millis(milliseconds));
        let taken = (0..7).map(|number| took(&format!("P{number}"), 100 - number)).collect();
        let text = describe(&TimeReport::AllPlugins { share, taken });
        assert!(text.contains("300 ms of each second"), "{text}");
        assert!(text.contains("lately \"P0\" took 100 ms, \"P1\" took 99 ms"), "{text}");
        assert!(text.contains("\"P4\" took 96 ms and 2 others took less;"), "{text}");
    }
}
