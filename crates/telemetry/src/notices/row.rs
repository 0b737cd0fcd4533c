//! A row of the table: the output of one notice for each sink.

use std::panic::Location;

use berth_framework::TimeReport;
use berth_scheduler::Level;

use super::log_line::{Fields, LogLine};
use crate::{audit::AuditEvent, metrics::Metrics};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// An event about a plugin, or about all plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvent {
    /// The plugin; `None` if the event is not about a single plugin.
    pub plugin: Option<String>,
    pub reason: EventReason,
    pub note: String,
}

macro_rules! event_reasons {
    ($($severity:ident $reason:ident,)*) => {
        /// The reason of an event about plugins or settings. The guide has a table of these reasons
        /// (`docs/src/running.md`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventReason {
            $($reason,)*
        }

        impl EventReason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The reason in upper camel case, as in `kubectl get events`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)*
                }
            }

            /// The type of the events with this reason.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$reason => Severity::$severity,)*
                }
            }
        }
    };
}

event_reasons! {
    Warning PluginRefused,
    Warning PluginRolledBack,
    Warning PluginQuarantined,
    Normal PluginReleased,
    Warning PluginRestarting,
    Warning PluginPodsHeld,
    Warning PluginOutOfTime,
    Warning PluginsOutOfTime,
    Warning SearchesOutOfTime,
    Warning NamespaceOutOfTime,
    Normal PluginSwapped,
    Warning PluginWithdrawn,
    Normal PluginDisabled,
    Normal PluginEnabled,
    Warning PluginSettingsRefused,
    Warning ConfigurationRefused,
}

/// The output for each sink; `None` if the sink gets nothing.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) log: Option<LogLine>,
    pub(super) metric: Option<Metric>,
    pub(super) audit: Option<AuditEvent>,
    pub(super) event: Option<PluginEvent>,
}

/// A counter.
#[derive(Debug)]
pub(super) enum Metric {
    /// A swap, with its label `result`.
    Swap(&'static str),
    Quarantined,
    Restarted,
    ShareSpent(TimeReport),
    EffectsRefused {
        effect: &'static str,
        count: u32,
    },
    /// A reload of the configuration, with its label `result`.
    ConfigReloaded(&'static str),
}

/// The consequence of the current count for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// There is no consequence.
    Plainly,
    /// The line contains the number.
    Total(u64),
    /// Enough lines were written before, so this line is not written.
    Often,
}

impl Metric {
    /// Counts the event.
    pub(super) fn count(self, metrics: &Metrics, plugin: &str) -> Counted {
        match self {
            Self::Swap(result) => metrics.swap(plugin, result),
            Self::Quarantined => metrics.quarantined(plugin),
            Self::Restarted => metrics.restarted(plugin),
            Self::ShareSpent(report) => metrics.share_spent(&report),
            Self::ConfigReloaded(result) => metrics.config_reloaded(result),
            Self::EffectsRefused { effect, count } => {
                let total = metrics.effects_refused_now(plugin, effect, u64::from(count));
                // A plugin may ask for the same effect with every pod. Therefore the log has one line after the first
                // refusal, and one line each time the number of refusals has doubled.
                let has_doubled = (total - u64::from(count)).leading_zeros() != total.leading_zeros();
                return if has_doubled { Counted::Total(total) } else { Counted::Often };
            }
        }
        Counted::Plainly
    }
}

/// An event that has no subject yet.
pub(super) struct NewEvent {
    reason: EventReason,
    note: String,
}

impl NewEvent {
    /// Makes this plugin the subject. An empty name stands for no single plugin.
    pub(super) fn of(self, plugin: &str) -> Option<PluginEvent> {
        let Self { reason, note } = self;
        let plugin = (!plugin.is_empty()).then(|| plugin.to_owned());
        Some(PluginEvent { plugin, reason, note })
    }
}

/// The cells of the table.
impl Row {
    #[track_caller]
    pub(super) fn error(fields: Fields, message: impl Into<String>) -> Option<LogLine> {
        Some(LogLine { level: Level::Error, place: Location::caller().into(), fields, message: message.into() })
    }

    #[track_caller]
    pub(super) fn warn(fields: Fields, message: impl Into<String>) -> Option<LogLine> {
        Some(LogLine { level: Level::Warn, place: Location::caller().into(), fields, message: message.into() })
    }

    #[track_caller]
    pub(super) fn info(fields: Fields, message: impl Into<String>) -> Option<LogLine> {
        Some(LogLine { level: Level::Info, place: Location::caller().into(), fields, message: message.into() })
    }

    #[track_caller]
    pub(super) fn debug(fields: Fields, message: impl Into<String>) -> Option<LogLine> {
        Some(LogLine { level: Level::Debug, place: Location::caller().into(), fields, message: message.into() })
    }

    /// The text for the plugin's history: the note of the event, or the text of the log line with its reason.
    pub(super) fn past(plugin: &str, log: Option<&LogLine>, event: Option<&PluginEvent>) -> Option<String> {
        let of_event = event.map(|event| {
            let about = format!("plugin {plugin}: ");
            event.note.strip_prefix(&about).unwrap_or(&event.note).to_owned()
        });
        of_event.or_else(|| log.map(LogLine::text))
    }

    pub(super) fn event(reason: EventReason, note: String) -> NewEvent {
        NewEvent { reason, note }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_lists_the_reasons_with_their_types() {
        let guide = include_str!("../../../../docs/src/running.md");
        let table = guide.split("\n## Events\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or_default();
        let about_plugins = table.split("\n### ").next().unwrap_or_default();
        let rows = about_plugins.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let listed: BTreeSet<(String, &str)> = rows
            .flat_map(|(reasons, rest)| {
                let severity = rest.split(" | ").next().unwrap_or_default();
                reasons.split(", ").map(move |reason| (reason.trim_matches('`').to_owned(), severity))
            })
            .collect();
        let known = EventReason::ALL.iter().map(|it| {
            let severity = match it.severity() {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
            };
            (it.as_str().to_owned(), severity)
        });
        assert_eq!(listed, known.collect());
    }
}
