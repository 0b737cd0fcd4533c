//! The task that owns the roster: facts and wishes come in over one channel, swaps go to the scheduler.
//!
//! The roster decides; here its decisions are carried out and told, in the log and as metrics. A plugin's fault is
//! reported from the scheduling thread, which must not wait: a report that finds the channel full is lost, but the fault
//! is counted all the same, and where faults come that fast the next one will do.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use berth_cluster::EventRecorder;
use berth_config::PluginHostSettings;
use berth_framework::PluginVersion;
use berth_scheduler::Event;
use berth_wasm_host::{
    ComponentFactory, DirectoryChange, DirectoryEvent, DirectoryWatch, Engine, FaultKind, FaultReport, PluginStats,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

use super::{
    announcing::Announcer,
    binary::{Binary, Figures, Source},
    chain,
    ledger::Ledger,
    limits, plugin_limits,
    report::{self, PluginReport},
    roster::{Consequences, News, Roster, Swap},
    settings_file::SettingsWatch,
    stand_in::NO_DIGEST,
};
use crate::{metrics::Metrics, scheduling::now};

/// Faults, files and wishes come one at a time; this many at once is a plugin that fails in every call.
pub(super) const INBOX_BOUND: usize = 256;

/// How often quarantines and probations are looked at, and figures published.
const EVERY: Duration = Duration::from_secs(1);

/// What the supervisor is told or asked.
#[derive(Debug)]
pub(crate) enum Input {
    Directory(DirectoryEvent),
    Fault(FaultReport),
    /// How the scheduler got on with a swap in one profile.
    Swapped {
        scheduler_name: String,
        plugin: String,
        version: PluginVersion,
        result: Result<(), String>,
    },
    /// What the operator's file says from here on, or what is wrong with it.
    Settings(Result<PluginHostSettings, String>),
    List(oneshot::Sender<Vec<PluginReport>>),
    HostSettings(oneshot::Sender<HostSettings>),
    Order {
        plugin: String,
        order: Order,
        answer: oneshot::Sender<Result<PluginReport, Refusal>>,
    },
}

/// What an operator wants done with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Read the file again and try it, even if it was refused.
    Reload,
    Enable,
    Disable,
    /// Go back to the binary before.
    Rollback,
}

/// The operator's settings, as operators are shown them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HostSettings {
    /// The file; none when the defaults hold.
    pub file: Option<PathBuf>,
    /// Why what the file says at the moment does not hold.
    pub error: Option<String>,
}

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unknown(String),
    Impossible(String),
}

/// What the task works with.
pub(crate) struct Supervisor {
    pub roster: Roster,
    pub events: mpsc::Sender<Event>,
    pub metrics: Arc<Metrics>,
    pub recorder: EventRecorder,
    pub announcer: Announcer,
    /// Loads what comes later.
    pub engine: Engine,
    pub settings: HostSettings,
    pub _settings_watch: Option<SettingsWatch>,
    /// The plugins directory and its watch.
    pub directory: Option<(PathBuf, DirectoryWatch)>,
    pub ledger: Ledger,
}

impl Figures for PluginStats {
    fn calls(&self) -> u64 {
        PluginStats::calls(self)
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        FaultKind::ALL.into_iter().map(|kind| (kind.as_str(), PluginStats::faults(self, kind))).collect()
    }

    fn dropped_log_lines(&self) -> u64 {
        PluginStats::dropped_log_lines(self)
    }
}

impl Binary {
    pub(super) fn component(factory: Arc<ComponentFactory>, source: Source) -> Self {
        let figures = Arc::clone(factory.stats());
        Self { factory: Arc::clone(&factory) as _, source, figures: Some(figures), component: Some(factory) }
    }
}

impl Supervisor {
    /// Works until it is aborted.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Input>) {
        let mut every = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                input = inbox.recv() => match input {
                    Some(input) => self.take(input).await,
                    None => return,
                },
                _ = every.tick() => {
                    let consequences = self.roster.tick(now());
                    self.follow(consequences).await;
                    self.publish();
                }
            }
        }
    }

    async fn take(&mut self, input: Input) {
        let consequences = match input {
            Input::Directory(event) => self.directory_changed(event),
            Input::Fault(report) => {
                let FaultReport { plugin, digest, reason, .. } = report;
                self.roster.faulted(&plugin, &digest, &reason, now())
            }
            Input::Swapped { scheduler_name, plugin, version, result } => {
                self.swapped(&scheduler_name, &plugin, version, result)
            }
            Input::Settings(settings) => self.settings_changed(settings),
            Input::HostSettings(answer) => {
                // Whoever asked may have left.
                let _ = answer.send(self.settings.clone());
                return;
            }
            Input::List(answer) => {
                // Whoever asked may have left.
                let _ = answer.send(report::all(&self.roster).into_iter().map(|it| self.with_refusals(it)).collect());
                return;
            }
            Input::Order { plugin, order, answer } => return self.obey(plugin, order, answer).await,
        };
        self.follow(consequences).await;
    }

    fn directory_changed(&mut self, event: DirectoryEvent) -> Consequences {
        let DirectoryEvent { name, change } = event;
        let dir = self.directory.as_ref().map(|(dir, _)| dir.clone()).unwrap_or_default();
        let file = dir.join(format!("{name}.wasm"));
        match change {
            DirectoryChange::Loaded(factory) => {
                let mut binary = Binary::component(Arc::clone(&factory), Source::Directory);
                info!(plugin = name, file = %file.display(), digest = binary.digest(), "compiled");
                // It was compiled for the limits of a while ago.
                binary.set_limits(&limits(self.roster.rules.plugin(&name).limits));
                self.ledger.add(&name, factory.stats());
                self.roster.found(&name, binary, now())
            }
            DirectoryChange::Removed => {
                info!(plugin = name, file = %file.display(), "gone");
                self.roster.removed(&name)
            }
            DirectoryChange::Refused { digest, error } => self.roster.refused(&name, &digest, &chain(&error)),
        }
    }

    fn settings_changed(&mut self, settings: Result<PluginHostSettings, String>) -> Consequences {
        let file = self.settings.file.clone().unwrap_or_default();
        let settings = match settings {
            Ok(settings) => settings,
            Err(reason) => {
                error!(reason, "the plugin configuration is not taken over; the settings before it hold");
                self.announcer.settings_refused(&reason);
                self.settings.error = Some(reason);
                return Consequences::default();
            }
        };
        self.settings.error = None;
        info!(file = %file.display(), "plugin configuration taken over");
        let (consequences, to_retry) =
            self.roster.reconfigure(settings, |rules, name| limits(rules.plugin(name).limits));
        let rules = &self.roster.rules;
        self.engine.set_limits(limits(rules.plugin("").limits), plugin_limits(rules));
        if let Some((_, watch)) = &self.directory {
            to_retry.iter().for_each(|plugin| watch.reload(plugin));
        }
        consequences
    }

    fn swapped(
        &mut self,
        scheduler_name: &str,
        plugin: &str,
        version: PluginVersion,
        result: Result<(), String>,
    ) -> Consequences {
        let digest = version.digest.clone();
        match result {
            Ok(()) if digest == NO_DIGEST => {
                self.metrics.swap(plugin, "withdrawn");
                self.metrics.remove_plugin(scheduler_name, plugin);
                self.roster.accepted(plugin, scheduler_name, "", now());
            }
            Ok(()) => {
                info!(plugin, profile = scheduler_name, version = version.version, digest, "serves");
                self.metrics.swap(plugin, "swapped");
                self.metrics.set_plugin(scheduler_name, PluginVersion { name: plugin.to_owned(), ..version });
                self.roster.accepted(plugin, scheduler_name, &digest, now());
            }
            Err(reason) => {
                error!(plugin, profile = scheduler_name, reason, "not swapped; the version that serves goes on");
                self.announcer.not_taken(plugin, &reason);
                self.metrics.swap(plugin, "refused");
                return self.roster.not_taken(plugin, &digest, &reason, now());
            }
        }
        Consequences::default()
    }

    async fn obey(&mut self, plugin: String, order: Order, answer: oneshot::Sender<Result<PluginReport, Refusal>>) {
        info!(plugin, ?order, "ordered by an operator");
        let consequences = match order {
            Order::Reload => self.reload(&plugin).map(|()| Consequences::default()),
            Order::Enable => self.roster.set_disabled(&plugin, false).map_err(Refusal::Unknown),
            Order::Disable => self.roster.set_disabled(&plugin, true).map_err(Refusal::Unknown),
            Order::Rollback if self.roster.get(&plugin).is_none() => {
                Err(Refusal::Unknown(format!("there is no plugin {plugin:?}")))
            }
            Order::Rollback => self.roster.roll_back(&plugin).map_err(Refusal::Impossible),
        };
        let outcome = match consequences {
            Err(refusal) => Err(refusal),
            Ok(consequences) => {
                self.follow(consequences).await;
                report::one(&self.roster, &plugin)
                    .map(|it| self.with_refusals(it))
                    .ok_or_else(|| Refusal::Unknown(format!("there is no plugin {plugin:?}")))
            }
        };
        // Whoever asked may have left.
        let _ = answer.send(outcome);
    }

    /// Effects are refused on the scheduling thread, which counts them.
    fn with_refusals(&self, mut report: PluginReport) -> PluginReport {
        report.effects_refused = self.metrics.effects_refused(&report.name);
        report
    }

    fn reload(&self, plugin: &str) -> Result<(), Refusal> {
        let Some((dir, watch)) = &self.directory else {
            return Err(Refusal::Impossible("there is no plugins directory to load from".to_owned()));
        };
        let file = dir.join(format!("{plugin}.wasm"));
        if self.roster.get(plugin).is_none() {
            return Err(Refusal::Unknown(format!("there is no plugin {plugin:?}")));
        }
        if !file.exists() {
            return Err(Refusal::Impossible(format!("there is no {}", file.display())));
        }
        watch.reload(plugin);
        Ok(())
    }

    async fn follow(&mut self, consequences: Consequences) {
        for news in consequences.news {
            self.tell(&news);
        }
        for swap in consequences.swaps {
            let scheduler_names = Some(swap.scheduler_names.clone());
            let Swap { plugin: name, factory, grants, .. } = swap;
            let event = Event::PluginReady { name, scheduler_names, factory, grants: Some(grants) };
            // The scheduling thread ends before this task only when the process does.
            let _ = self.events.send(event).await;
        }
    }

    fn tell(&self, news: &News) {
        self.announcer.news(news);
        match news {
            News::Refused { plugin, reason } => {
                let file = self.directory.as_ref().map(|(dir, _)| dir.join(format!("{plugin}.wasm")));
                error!(plugin, "{} {reason}; what served before goes on", file.unwrap_or_default().display());
                self.metrics.swap(plugin, "refused");
            }
            News::RolledBack { plugin, digest, reason } => {
                error!(plugin, digest, reason, "rolled back to the version before");
                self.metrics.swap(plugin, "rolled_back");
            }
            News::Quarantined { plugin, milliseconds, reason } => {
                error!(plugin, milliseconds, reason, "quarantined");
                self.metrics.quarantined(plugin);
            }
            News::Released { plugin } => info!(plugin, "its quarantine is over"),
            News::Proven { plugin } => info!(plugin, "its probation is over"),
            News::Absent { plugin, reason } => warn!(plugin, "{reason}"),
        }
    }

    /// Keeps the figures that nobody pushes up to date.
    fn publish(&mut self) {
        for (plugin, sums) in self.ledger.sums() {
            for (kind, total) in sums.faults {
                self.metrics.set_faults(&plugin, kind, total);
            }
            self.metrics.set_dropped_log_lines(&plugin, sums.dropped_log_lines);
            for (name, total) in sums.custom {
                self.metrics.set_custom(&plugin, &name, total);
            }
        }
        self.metrics.set_events_dropped(self.recorder.n_dropped());
    }
}
