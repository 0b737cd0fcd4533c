//! Events of plugins and configuration, and the outputs that get each of them: the log, metrics, the audit log,
//! Kubernetes events.
//!
//! [`Notice::row`] is the table. A [`Row`] names all four outputs. The match over the notices is complete, so a new
//! notice without outputs does not compile.

#[cfg(test)]
mod guide;
mod history;
mod log_line;
mod row;

use std::sync::Arc;

use berth_framework::TimeReport;
use berth_model::{BinaryId, Digest};
use berth_scheduler::PodRef;

pub use self::{
    history::{MeasuredCalls, PastEvent, PluginHistory, PointLatency},
    row::{EventReason, PluginEvent, Severity},
};
use self::{
    log_line::Fields,
    row::{Counted, Metric, Row},
};
use crate::{
    audit::{AuditEvent, AuditLog, By, PodEntry, digest_or_built_in},
    clock,
    metrics::Metrics,
};

/// Writes events to the API server. Implementations must not wait.
pub trait EventSink: std::fmt::Debug + Send + Sync {
    fn record(&self, event: PluginEvent);
}

/// An event of a plugin, or of the settings of all plugins.
#[derive(Debug)]
pub enum Notice {
    /// A binary may not serve. `file` names the source of the binary, and `reason` continues the sentence about the
    /// file. In all notices, `standing` says what serves now.
    Refused {
        digest: Option<Digest>,
        file: String,
        reason: String,
        standing: String,
    },
    /// A new binary was replaced by the previous binary, or by the built-in if there was no previous binary.
    RolledBack {
        digest: Digest,
        to: Option<Digest>,
        reason: String,
    },
    Quarantined {
        digest: Digest,
        milliseconds: u64,
        reason: String,
        standing: String,
    },
    /// Profiles lost their instances through a fault, and get new ones after this number of milliseconds.
    Restarting {
        digest: Digest,
        milliseconds: u64,
        reason: String,
    },
    /// A quarantine has ended.
    Released {
        digest: Digest,
        standing: String,
    },
    ProbationOver,
    /// No binary serves any longer, or none serves yet. `reason` names the plugin.
    NotServed {
        reason: String,
    },
    /// An instance was lost. The text of `aftermath` continues the sentence about the fault.
    Faulted {
        digest: Digest,
        pod: String,
        milliseconds: u64,
        reason: String,
        aftermath: String,
        is_out_of_service: bool,
    },
    /// No profile enables the plugin of this file.
    Unused {
        file: String,
    },
    /// The configuration enables the plugin at a point that the binary which serves does not implement.
    PointMissed {
        /// The list of the configuration, and the mistake in this list.
        missed: String,
    },
    /// The pods of one owner are held back because of a plugin's faults.
    PodsHeld {
        /// A sentence that names the held pods and the time of the hold.
        held: String,
        reason: String,
    },
    /// A binary serves in a profile. `is_restart` says that the binary also served in the profile before its fault.
    Swapped {
        profile: String,
        version: String,
        binary: BinaryId,
        is_restart: bool,
    },
    /// Nothing serves in a profile any longer. `reason` names the plugin; `None` means that a binary is on its way.
    Withdrawn {
        profile: String,
        reason: Option<String>,
    },
    /// A profile could not take a binary. `is_told` says that another notice gives users the reason.
    NotSwapped {
        profile: String,
        binary: Option<BinaryId>,
        reason: String,
        standing: String,
        is_told: bool,
    },
    /// An operator's order, and the reason if the order was refused.
    Ordered {
        order: &'static str,
        by: By,
        refused: Option<String>,
        standing: String,
    },
    /// The grants of a file under the plugin's name changed.
    GrantsChanged {
        old: serde_json::Value,
        new: serde_json::Value,
    },
    /// The plugin asked for an effect without a grant.
    EffectRefused {
        effect: &'static str,
        pod: PodRef,
        count: u32,
        message: String,
    },
    /// A share of the scheduling thread's time is used up.
    OutOfTime(TimeReport),
    /// The operator's settings of plugins are in force.
    SettingsApplied {
        file: String,
    },
    /// The settings name a plugin that does not exist.
    UselessName {
        file: String,
        problem: String,
    },
    /// The settings cannot be used.
    SettingsRefused {
        reason: String,
    },
    /// The scheduler's configuration was read again.
    ConfigurationReloaded {
        has_changed: bool,
    },
    /// The configuration cannot be used.
    ConfigurationRefused {
        reason: String,
    },
}

/// The outputs for notices. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sinks {
    pub metrics: Arc<Metrics>,
    pub audit: AuditLog,
    pub events: Arc<dyn EventSink>,
    pub history: PluginHistory,
}

impl Sinks {
    /// Sends a notice about this plugin to all outputs. An empty name stands for all plugins. This function never
    /// waits.
    pub fn tell(&self, plugin: &str, by: By, notice: Notice) {
        if let Notice::Swapped { binary, is_restart: false, .. } = &notice {
            self.history.swapped(plugin, *binary, &self.metrics.scheduler.plugin_timings());
        }
        self.tell_row(plugin, by, notice.row(plugin));
    }

    /// Sends a notice that follows from another notice. The log line of the other notice covers both. If `is_announced`
    /// is true, the Kubernetes event of this notice also covers both.
    pub fn tell_as_part(&self, plugin: &str, by: By, notice: Notice, is_announced: bool) {
        let row = notice.row(plugin);
        let event = row.event.filter(|_| is_announced);
        self.tell_row(plugin, by, Row { log: None, event, metric: row.metric, audit: row.audit });
    }

    fn tell_row(&self, plugin: &str, by: By, row: Row) {
        let Row { log, metric, audit, event } = row;
        let counted = metric.map_or(Counted::Plainly, |metric| metric.count(&self.metrics, plugin));
        if !plugin.is_empty()
            && counted != Counted::Often
            && let Some(text) = Row::past(plugin, log.as_ref(), event.as_ref())
        {
            self.history.add(plugin, text);
        }
        match (log, counted) {
            (Some(line), Counted::Plainly) => line.write(plugin),
            (Some(line), Counted::Total(total)) => line.with_total(total).write(plugin),
            (Some(_), Counted::Often) | (None, _) => {}
        }
        if let Some(entry) = audit {
            self.audit.record(plugin, by, entry);
        }
        if let Some(event) = event {
            self.events.record(event);
        }
    }
}

impl Notice {
    /// The output of a notice for each sink.
    #[expect(clippy::too_many_lines, reason = "it is a table")]
    fn row(self, plugin: &str) -> Row {
        let about = |note: String| format!("plugin {plugin}: {note}");
        match self {
            Self::Refused { digest, file, reason, standing } => {
                let short = digest.map(|digest| format!(" {}", digest.short())).unwrap_or_default();
                Row {
                    log: Row::error(Fields::default(), format!("{file} {reason}; {standing}")),
                    metric: Some(Metric::Swap("refused")),
                    event: Row::event(
                        EventReason::PluginRefused,
                        about(format!("the file{short} {reason}; {standing}")),
                    )
                    .of(plugin),
                    audit: Some(AuditEvent::Refused { digest: digest.map(|digest| digest.to_string()), reason }),
                }
            }
            Self::RolledBack { digest, to, reason } => {
                let short = to.map_or_else(|| "the built-in".to_owned(), |to| to.short());
                let note = about(format!("rolled back from {} to {short}: {reason}", digest.short()));
                let (digest, to) = (digest.to_string(), digest_or_built_in(to));
                let fields = Fields { digest: Some(digest.clone()), to: Some(to.clone()), ..Fields::reason(&reason) };
                Row {
                    log: Row::error(fields, "rolled back to the previous version"),
                    metric: Some(Metric::Swap("rolled_back")),
                    audit: Some(AuditEvent::RolledBack { digest, to, reason }),
                    event: Row::event(EventReason::PluginRolledBack, note).of(plugin),
                }
            }
            Self::Quarantined { digest, milliseconds, reason, standing } => {
                let (short, seconds) = (digest.short(), milliseconds / 1000);
                let note = about(format!("{short} is out of service for {seconds} s: {reason}; {standing}"));
                let until = clock::rfc3339(clock::wall(clock::now() + milliseconds));
                let digest = digest.to_string();
                let fields = Fields {
                    digest: Some(digest.clone()),
                    milliseconds: Some(milliseconds),
                    ..Fields::reason(&reason)
                };
                Row {
                    log: Row::error(fields, "quarantined"),
                    metric: Some(Metric::Quarantined),
                    audit: Some(AuditEvent::Quarantined { digest, until, reason }),
                    event: Row::event(EventReason::PluginQuarantined, note).of(plugin),
                }
            }
            Self::Restarting { digest, milliseconds, reason } => {
                let delay = if milliseconds == 0 { String::new() } else { format!(" in {} s", milliseconds / 1000) };
                let digest = digest.short();
                let note = about(format!("{digest} is restarted{delay} after a fault: {reason}"));
                let fields =
                    Fields { digest: Some(digest), milliseconds: Some(milliseconds), ..Fields::reason(&reason) };
                Row {
                    log: Row::warn(fields, "is being restarted after a fault"),
                    metric: Some(Metric::Restarted),
                    audit: None,
                    event: Row::event(EventReason::PluginRestarting, note).of(plugin),
                }
            }
            Self::Released { digest, standing } => Row {
                log: Row::info(Fields::default(), "its quarantine is over"),
                metric: None,
                audit: Some(AuditEvent::Released { digest: digest.to_string() }),
                event: Row::event(
                    EventReason::PluginReleased,
                    about(format!("the quarantine of {} is over; {standing}", digest.short())),
                )
                .of(plugin),
            },
            Self::ProbationOver => Row {
                log: Row::info(Fields::default(), "its probation is over"),
                metric: None,
                audit: None,
                event: None,
            },
            Self::NotServed { reason } => {
                Row { log: Row::warn(Fields::default(), reason), metric: None, audit: None, event: None }
            }
            Self::Faulted { digest, pod, milliseconds, reason, aftermath, is_out_of_service } => {
                let fields = Fields {
                    digest: Some(digest.short()),
                    pod: Some(pod),
                    milliseconds: Some(milliseconds),
                    ..Fields::reason(&reason)
                };
                let text = format!("a plugin faulted{aftermath}");
                let log = if is_out_of_service { Row::error(fields, text) } else { Row::warn(fields, text) };
                Row { log, metric: None, audit: None, event: None }
            }
            Self::PointMissed { missed } => {
                Row { log: Row::warn(Fields::default(), missed), metric: None, audit: None, event: None }
            }
            Self::PodsHeld { held, reason } => {
                let note = about(format!("{held}: the plugin {reason}"));
                // The log line about the fault already reports the held pods.
                Row {
                    log: None,
                    metric: None,
                    audit: None,
                    event: Row::event(EventReason::PluginPodsHeld, note).of(plugin),
                }
            }
            Self::Unused { file } => Row {
                log: Row::warn(Fields::default(), format!("{file} is not used: no profile of --config enables it")),
                metric: None,
                audit: None,
                event: None,
            },
            Self::Swapped { profile, version, binary, is_restart } => {
                let shown = match binary {
                    BinaryId::Component(digest) => format!("{} (version {version})", digest.short()),
                    BinaryId::Native => "the built-in".to_owned(),
                };
                let note = about(format!("{shown} serves in profile {profile}"));
                let digest = binary.to_string();
                let fields = Fields {
                    profile: Some(profile.clone()),
                    version: Some(version.clone()),
                    digest: Some(digest.clone()),
                    ..Fields::default()
                };
                Row {
                    log: if is_restart { Row::debug(fields, "serves again") } else { Row::info(fields, "serves") },
                    metric: Some(Metric::Swap("swapped")),
                    audit: Some(AuditEvent::Swapped { profile, version, digest }),
                    event: if is_restart { None } else { Row::event(EventReason::PluginSwapped, note).of(plugin) },
                }
            }
            Self::Withdrawn { profile, reason } => Row {
                log: None,
                metric: Some(Metric::Swap("withdrawn")),
                event: reason.and_then(|reason| {
                    let note = about(format!("the plugin no longer runs in profile {profile}: {reason}"));
                    Row::event(EventReason::PluginWithdrawn, note).of(plugin)
                }),
                audit: Some(AuditEvent::Withdrawn { profile }),
            },
            Self::NotSwapped { profile, binary, reason, standing, is_told } => {
                let note = about(format!("{reason}; {standing}"));
                let fields = Fields { profile: Some(profile.clone()), ..Fields::reason(&reason) };
                Row {
                    log: Row::error(fields, format!("not swapped; {standing}")),
                    metric: Some(Metric::Swap("refused")),
                    audit: Some(AuditEvent::NotSwapped {
                        profile,
                        digest: binary.map(|binary| binary.to_string()),
                        reason,
                    }),
                    event: if is_told { None } else { Row::event(EventReason::PluginRefused, note).of(plugin) },
                }
            }
            Self::Ordered { order, by, refused, standing } => {
                // The consequences of other orders are reported when they happen.
                let event = match order {
                    "enable" => Some((EventReason::PluginEnabled, "switched on")),
                    "disable" => Some((EventReason::PluginDisabled, "switched off")),
                    _ => None,
                };
                let event = event.filter(|_| refused.is_none());
                let fields = Fields {
                    order: Some(order),
                    by: Some(by.to_string()),
                    reason: refused.clone(),
                    ..Fields::default()
                };
                Row {
                    log: Row::info(fields, "requested by an operator"),
                    metric: None,
                    event: event.and_then(|(reason, what)| {
                        Row::event(reason, about(format!("{what} by an operator; {standing}"))).of(plugin)
                    }),
                    audit: Some(AuditEvent::Ordered { order, refused }),
                }
            }
            Self::GrantsChanged { old, new } => {
                Row { log: None, metric: None, audit: Some(AuditEvent::GrantsChanged { old, new }), event: None }
            }
            Self::EffectRefused { effect, pod, count, message } => {
                let fields = Fields {
                    effect: Some(effect),
                    pod: Some(pod.name.to_string()),
                    namespace: Some(pod.namespace.to_string()),
                    ..Fields::default()
                };
                Row {
                    log: Row::warn(fields, message.clone()),
                    metric: Some(Metric::EffectsRefused { effect, count }),
                    audit: Some(AuditEvent::EffectRefused {
                        effect,
                        pod: PodEntry::from(&pod),
                        count,
                        reason: message,
                    }),
                    event: None,
                }
            }
            Self::OutOfTime(report) => {
                let text = report.to_string();
                let event = match &report {
                    TimeReport::Plugin { plugin, .. } => {
                        Row::event(EventReason::PluginOutOfTime, text.clone()).of(plugin)
                    }
                    TimeReport::AllPlugins { .. } => Row::event(EventReason::PluginsOutOfTime, text.clone()).of(""),
                    TimeReport::Searches { .. } => Row::event(EventReason::SearchesOutOfTime, text.clone()).of(""),
                    TimeReport::Namespace { .. } => Row::event(EventReason::NamespaceOutOfTime, text.clone()).of(""),
                };
                Row {
                    log: Row::warn(Fields::default(), text),
                    metric: Some(Metric::ShareSpent(report)),
                    audit: None,
                    event,
                }
            }
            Self::SettingsApplied { file } => Row {
                log: Row::info(Fields { file: Some(file), ..Fields::default() }, "plugin configuration applied"),
                metric: Some(Metric::ConfigReloaded("applied")),
                audit: None,
                event: None,
            },
            Self::UselessName { file, problem } => Row {
                log: Row::warn(Fields { file: Some(file), ..Fields::default() }, problem),
                metric: None,
                audit: None,
                event: None,
            },
            Self::SettingsRefused { reason } => Row {
                log: Row::error(
                    Fields::reason(&reason),
                    "plugin configuration rejected; keeping the previous settings",
                ),
                metric: Some(Metric::ConfigReloaded("refused")),
                audit: None,
                event: Row::event(
                    EventReason::PluginSettingsRefused,
                    format!("{reason}; the previous settings stay in effect"),
                )
                .of(""),
            },
            Self::ConfigurationReloaded { has_changed } => Row {
                log: None,
                metric: Some(Metric::ConfigReloaded(if has_changed { "applied" } else { "unchanged" })),
                audit: None,
                event: None,
            },
            Self::ConfigurationRefused { reason } => Row {
                log: Row::error(Fields::reason(&reason), "configuration rejected; keeping the previous one"),
                metric: Some(Metric::ConfigReloaded("refused")),
                audit: None,
                event: Row::event(
                    EventReason::ConfigurationRefused,
                    format!("{reason}; the previous configuration stays in effect"),
                )
                .of(""),
            },
        }
    }
}
