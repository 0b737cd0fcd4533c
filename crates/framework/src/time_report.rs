//! Shares of the scheduling thread, and the reports that plugins, or the pods of a namespace, have used up their share.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use berth_model::serde_with::shared_text;
use serde::{Deserialize, Serialize};

/// A share of the scheduling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The time that may be used in each second. A whole second means no bound.
    pub per_second: Duration,
    /// The time that may be saved up.
    pub burst: Duration,
}

/// The maximum number of plugins or namespaces that a report names. The plugins or namespaces that took the most time
/// are named.
const NAMED: usize = 5;

/// A report that a share is used up. Reports of one kind are at least [`SchedulingTime::REPORT_EVERY`] apart.
///
/// [`SchedulingTime::REPORT_EVERY`]: crate::SchedulingTime::REPORT_EVERY
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeReport {
    /// A plugin was not asked.
    Plugin {
        /// The plugin.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// The share of the plugin.
        share: Share,
    },
    /// Pods of profiles with plugins wait for pods of profiles without plugins.
    AllPlugins {
        /// The share of all plugins together.
        share: Share,
        /// The time that each plugin took since the last report, the highest first.
        taken: Vec<(String, Duration)>,
    },
    /// The long searches of all namespaces together have used up their share.
    Searches {
        /// The share of all namespaces together.
        share: Share,
        /// The time that the searches of each namespace took lately, the highest first.
        taken: Vec<(String, Duration)>,
    },
    /// Pods of a namespace wait for pods of other namespaces.
    Namespace {
        /// The namespace.
        #[serde(with = "shared_text")]
        namespace: Arc<str>,
        /// The share of the namespace.
        share: Share,
    },
}

impl fmt::Display for TimeReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin { plugin, share } => write!(
                formatter,
                "plugin {plugin:?} has used up its time, {} ms of each second; \
                 limits.millisecondsPerSecond would give it more",
                share.per_second.as_millis()
            ),
            Self::AllPlugins { share, taken } => write!(
                formatter,
                "all plugins together have used up their time, {} ms of each second: pods of profiles without \
                 them go first; lately {}; schedulingThread.pluginsMillisecondsPerSecond would give them more",
                share.per_second.as_millis(),
                greediest("", taken)
            ),
            Self::Searches { share, taken } => write!(
                formatter,
                "long searches for nodes have used up their time, {} ms of each second: pods with shorter searches go first; \
                 lately {}; schedulingThread.namespaceMillisecondsPerSecond would give them more",
                share.per_second.as_millis(),
                greediest("namespace ", taken)
            ),
            Self::Namespace { namespace, share } => write!(
                formatter,
                "searches for nodes for pods of namespace {namespace:?} have used up their time, {} ms of each \
                 second: pods of other namespaces go first; schedulingThread.namespaceMillisecondsPerSecond would give it more",
                share.per_second.as_millis()
            ),
        }
    }
}

fn greediest(kind: &str, taken: &[(String, Duration)]) -> String {
    let mut text = String::new();
    for (name, taken) in taken.iter().take(NAMED) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{kind}{name:?} took {} ms", taken.as_millis());
    }
    let n_others = taken.len().saturating_sub(NAMED);
    if n_others > 0 {
        let _ = write!(text, " and {n_others} others took less");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_took_the_most_are_named() {
        let share = Share { per_second: Duration::from_millis(300), burst: Duration::from_millis(300) };
        let took = |plugin: &str, milliseconds| (plugin.to_owned(), Duration::from_millis(milliseconds));
        let taken = (0..7).map(|number| took(&format!("P{number}"), 100 - number)).collect();
        let text = TimeReport::AllPlugins { share, taken }.to_string();
        assert!(text.contains("300 ms of each second"), "{text}");
        assert!(text.contains("lately \"P0\" took 100 ms, \"P1\" took 99 ms"), "{text}");
        assert!(text.contains("\"P4\" took 96 ms and 2 others took less;"), "{text}");
    }
}
