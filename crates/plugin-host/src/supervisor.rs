//! The task that manages the plugins while the scheduler runs. Facts and orders arrive over one channel, and swaps go
//! to the scheduler.
//!
//! The registry decides, and this module carries out the consequences. [`Notice`] says where each consequence is
//! reported. The task ends only with the session. If it ends earlier, the process ends.
//!
//! # Surprises
//! - A swap is only asked for here. Its result arrives later as [`Supervision::Swapped`], so `causes`, `restarts` and
//!   `sent_swaps` remember what was asked.
//! - The task may wait until the scheduling thread takes an event. The scheduling thread never waits for this task.
//! - Building profiles takes seconds. Messages that arrive in this time wait.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_config::Usage;
use berth_file_watch::FileWatch;
use berth_framework::PluginVersion;
use berth_lifecycle::{
    Consequences, Fault, OperatorPolicy as _, OrderError, PluginNotice, PluginNoticeKind, PluginState, Service, Swap,
};
use berth_model::{BinaryId, PluginName};
use berth_scheduler::{Event, HeldPods, HostObjects, Supervision, SwapError};
use berth_telemetry::{
    audit::By,
    clock::now,
    notices::{Notice, Sinks},
};
use berth_wasm_host::Engine;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::{
    directory::{DirectoryEvent, DirectoryWatch},
    error::{PluginHostError, Result},
    faults::{Aftermath, Restarts},
    inventory::PluginInventory,
    limits::{file_limits, limits, plugin_limits, time_bounds},
    load::Plugins,
    message::{HostSettings, Message, Order, OrderRefusal, Proposal},
    options::PluginHostOptions,
    provenance::CurrentProvenance,
    pulls::{PullOrder, Pulls},
    ready_binary::ReadyBinary,
    report::{self, GrantsReport, OrderReport, PluginReport},
    sent_swaps::{SentSwaps, SwapResults},
    settings_file::{self, HostFile, SettingsFileError},
    standing::standing,
    state_file::StateKeeper,
    whole_pods::{WholePods, pods_are_whole},
};

/// The time between two checks of quarantines and probations, and between two publications of figures.
const TICK: Duration = Duration::from_secs(1);

/// The maximum time for which an operator waits until an order is on disk.
const LONGEST_SAVING: Duration = Duration::from_secs(5);

/// The parts of the process that the supervisor uses.
#[derive(Debug)]
pub struct Surroundings {
    /// The binaries, profiles and other objects that events and actions name.
    pub objects: HostObjects,
    pub events: mpsc::Sender<Event>,
    /// The outputs for notices about plugins.
    pub sinks: Sinks,
    pub whole_pods: WholePods,
}

struct Supervisor {
    inventory: PluginInventory,
    surroundings: Surroundings,
    /// Loads binaries that arrive later.
    engine: Engine,
    settings: HostSettings,
    _settings_watch: Option<FileWatch>,
    /// Watches the plugins directory.
    directory: Option<DirectoryWatch>,
    /// The current settings, for the threads that load binaries.
    provenance: CurrentProvenance,
    /// The channel for orders to pull. The channel has no limit, because orders come only from operators and settings.
    /// With a limit, two tasks could wait for each other.
    pulls: mpsc::UnboundedSender<PullOrder>,
    /// Writes the file of `--plugin-state`.
    state: Option<StateKeeper>,
    /// The cause of the last swap of each plugin. The result of a swap arrives later.
    causes: BTreeMap<PluginName, By>,
    restarts: Restarts,
    sent_swaps: SentSwaps,
    /// The channel for the message that all plugins of the start serve or are refused; `None` once it was sent.
    starting: Option<oneshot::Sender<()>>,
    /// The answer to the request for whole pods; `None` if there is no such request, or if it is answered.
    whole_pods: Option<oneshot::Receiver<()>>,
}

/// Starts the watches of the plugins directory and of the operator's settings. The future is the supervisor; it never
/// ends. `started` gets a message when every plugin that existed at the start serves or is refused.
///
/// # Errors
/// The plugins directory or the settings cannot be watched.
pub fn start(
    plugins: Plugins,
    options: &PluginHostOptions,
    surroundings: Surroundings,
    started: oneshot::Sender<()>,
) -> Result<impl Future<Output = ()> + Send + use<>> {
    let Plugins { engine, inventory, directory, pulls, inbox } = plugins;
    let (to_supervisor, inbox) = inbox;
    let provenance = pulls.provenance.clone();
    let (to_pulls, pull_orders) = mpsc::unbounded_channel();
    let pulls = Pulls::new(pulls, to_supervisor.clone(), pull_orders);
    let file = options.plugin_config.clone();
    let settings_watch = file.as_deref().map(|file| watch_settings(file, &inventory, &to_supervisor)).transpose()?;
    // The supervisor ends before the watch's threads only if the process ends.
    let sink = move |event: DirectoryEvent| drop(to_supervisor.blocking_send(Message::Found(event.into())));
    let directory = directory.map(|directory| directory.watch(sink)).transpose()?;
    let supervisor = Supervisor {
        inventory,
        surroundings,
        engine,
        settings: HostSettings { file, error: None },
        _settings_watch: settings_watch,
        directory,
        provenance,
        pulls: to_pulls,
        state: None,
        causes: BTreeMap::new(),
        restarts: Restarts::default(),
        sent_swaps: SentSwaps::default(),
        starting: Some(started),
        whole_pods: None,
    };
    let state_file = options.plugin_state.clone();
    Ok(async { tokio::join!(supervisor.run(inbox, state_file), pulls.run()).0 })
}

/// Sends every change of the operator's settings to the supervisor, including the first reading, because the file may
/// have changed since the start.
fn watch_settings(file: &Path, inventory: &PluginInventory, supervisor: &mpsc::Sender<Message>) -> Result<FileWatch> {
    let (inbox, name) = (supervisor.clone(), file.to_owned());
    // The supervisor ends before the watch's thread only if the process ends.
    let changed = move || drop(inbox.blocking_send(Message::Settings(settings_file::read(&name).map(Box::new))));
    let watch = berth_file_watch::watch(vec![file.to_owned()], changed)
        .map_err(|source| PluginHostError::Settings { file: file.to_owned(), source })?;
    let again = settings_file::read(file);
    let rules = inventory.rules();
    let known = HostFile { settings: rules.settings.clone(), provenance: rules.provenance.clone() };
    if again.as_ref() != Ok(&known) {
        // The channel contains no other message yet.
        let _ = supervisor.try_send(Message::Settings(again.map(Box::new)));
    }
    Ok(watch)
}

impl Supervisor {
    /// Runs until it is aborted.
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>, state: Option<PathBuf>) {
        self.state = state.map(|file| StateKeeper::spawn(file, self.inventory.remembered()));
        let mut every = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => return,
                },
                _ = every.tick() => {
                    let consequences = self.inventory.tick(now());
                    self.carry_out(consequences, By::Scheduler).await;
                    self.publish();
                }
                () = pods_are_whole(&mut self.whole_pods) => self.retry_with_whole_pods(),
            }
            if !self.inventory.is_starting()
                && let Some(starting) = self.starting.take()
            {
                // The caller may have stopped waiting.
                let _ = starting.send(());
            }
        }
    }

    async fn take(&mut self, message: Message) {
        let (consequences, by) = match message {
            Message::Found(finding) => {
                let (by, plugin) = (finding.found_in.by(), finding.plugin.clone());
                let consequences = self.inventory.take_in(finding, now()).consequences;
                self.tell_if_unused(&plugin);
                (consequences, by)
            }
            Message::Supervise(Supervision::Faulted { plugin, digest, reason, took, pod, held, scheduler_names }) => {
                let about = pod.as_ref().map(|(pod, _)| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
                let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let owner = pod.map(|(_, owner)| owner);
                let fault = Fault { digest, reason, milliseconds, owner, scheduler_names };
                return self.take_fault(&plugin.into(), fault, about, held).await;
            }
            Message::Supervise(Supervision::Swapped { scheduler_name, plugin, version, result, n_released }) => {
                let plugin = PluginName::from(plugin);
                self.sent_swaps.ended(&plugin, &scheduler_name, version.binary, n_released);
                (self.swapped(&scheduler_name, &plugin, version, result), By::Scheduler)
            }
            Message::Supervise(Supervision::OutOfTime(report)) => {
                return self.tell("", By::Scheduler, Notice::OutOfTime(report));
            }
            Message::Settings(settings) => {
                let consequences = self.settings_changed(settings);
                // The task of pulls ends only together with the supervisor.
                let _ = self.pulls.send(PullOrder::Settings);
                (consequences, By::PluginConfig)
            }
            Message::HostSettings(answer) => {
                // The caller may have stopped waiting.
                let _ = answer.send(self.settings.clone());
                return;
            }
            Message::List(answer) => {
                // The caller may have stopped waiting.
                let _ = answer.send(self.with_past(report::all(&self.inventory)));
                return;
            }
            Message::Order { plugin, order, user, answer } => {
                return self.follow_order(&plugin.into(), order, By::Operator { user }, answer).await;
            }
            Message::Consult(consultation) => return consultation.hold(&self.inventory),
            Message::CopyProfile { settings, scheduler_name, has_time, answer } => {
                // Components may take seconds to start, so none is started for a caller that has stopped waiting.
                if !answer.is_closed() {
                    let copy = || self.inventory.copy_of_profile(&settings, &scheduler_name, has_time);
                    let _ = answer.send(tokio::task::block_in_place(copy));
                }
                return;
            }
            Message::Reconfigure { proposal, answer } => {
                let outcome = self.reconfigure(*proposal).await;
                // The caller may have stopped waiting.
                let _ = answer.send(outcome);
                return;
            }
        };
        self.carry_out(consequences, by).await;
    }

    /// Handles a fault of a component over a pod; `pod` is empty for a fault without a pod. `held` has the pods that
    /// are held because of the fault. The log has one line about the fault and its consequences, and there is one event
    /// about the most serious consequence.
    async fn take_fault(&mut self, plugin: &PluginName, fault: Fault, pod: String, held: Option<HeldPods>) {
        let Fault { digest, reason, milliseconds, owner: _, scheduler_names } = fault.clone();
        let Consequences { swaps, notices } = self.inventory.faulted(plugin, fault, now());
        let aftermath = Aftermath::of(&notices, held);
        let is_out_of_service = matches!(aftermath, Aftermath::OutOfService(_));
        let (reason_of_fault, aftermath_text) = (reason.clone(), aftermath.to_string());
        let faulted =
            Notice::Faulted { digest, pod, milliseconds, reason, aftermath: aftermath_text, is_out_of_service };
        self.tell(plugin, By::Scheduler, faulted);
        if notices.iter().any(|notice| matches!(notice.kind, PluginNoticeKind::Restarting { .. })) {
            self.restarts.begin(plugin, &scheduler_names, digest);
        }
        let sinks = &self.surroundings.sinks;
        let announced = match aftermath {
            Aftermath::OutOfService(notice) | Aftermath::Restarting(notice) => Some(notice.clone()),
            Aftermath::PodsHeld(held) => {
                let held = held.to_string();
                sinks.tell(plugin, By::Scheduler, Notice::PodsHeld { held, reason: reason_of_fault });
                None
            }
            Aftermath::Nothing => None,
        };
        for notice in notices {
            let is_announced = announced.as_ref() == Some(&notice);
            let notice = self.notice(&notice.plugin, notice.kind);
            sinks.tell_as_part(plugin, By::Scheduler, notice, is_announced);
        }
        self.hand_over(swaps, By::Scheduler).await;
    }

    /// Reports a binary that no profile uses. A binary without effect is not a fault.
    fn tell_if_unused(&self, plugin: &PluginName) {
        let Some(status) = self.inventory.status(plugin) else { return };
        if let (PluginState::Unused, Service::Directory(_)) = (status.state, &status.service) {
            let file = self.inventory.rules().origin(plugin).unwrap_or_default();
            self.tell(plugin, By::PluginsDirectory, Notice::Unused { file });
        }
    }

    fn settings_changed(&mut self, settings: Result<Box<HostFile>, SettingsFileError>) -> Consequences<ReadyBinary> {
        let file = self.settings.file.clone().unwrap_or_default();
        let settings = match settings {
            Ok(settings) => settings,
            Err(reason) => {
                let reason = reason.to_string();
                self.settings.error = Some(reason.clone());
                self.tell("", By::PluginConfig, Notice::SettingsRefused { reason });
                return Consequences::default();
            }
        };
        self.settings.error = None;
        self.tell("", By::PluginConfig, Notice::SettingsApplied { file: file.display().to_string() });
        settings_file::tell_what_stars_leave_out(&settings.settings);
        settings_file::tell_misspelt_kinds(&settings.settings);
        self.provenance.set(settings.provenance.clone());
        let before = self.grants();
        let (consequences, to_retry) = self.inventory.settings_changed(*settings, now());
        for useless in self.inventory.useless_names_now() {
            let file = file.display().to_string();
            self.tell("", By::PluginConfig, Notice::UselessName { file, problem: useless.to_string() });
        }
        let rules = self.inventory.rules();
        self.engine.set_limits(limits(&rules.plugin("")), plugin_limits(rules));
        self.engine.set_file_limits(file_limits(rules.settings.files()));
        self.engine.time().set_bounds(time_bounds(rules.settings.scheduling_thread()));
        self.engine.set_denied(rules.settings.denied_digests().clone());
        if self.inventory.wants_pod_json() && self.whole_pods.is_none() {
            self.whole_pods = Some(self.surroundings.whole_pods.request());
        }
        self.read_again(&to_retry);
        self.audit_grants(before);
        consequences
    }

    /// Reads the files of these plugins again.
    fn read_again(&self, plugins: &[PluginName]) {
        if let Some(watch) = &self.directory {
            plugins.iter().for_each(|plugin| watch.reload(plugin));
        }
    }

    /// Tries the plugins that were refused while pods were reported without their JSON.
    fn retry_with_whole_pods(&mut self) {
        let to_retry = self.inventory.pod_json_listed();
        self.read_again(&to_retry);
        // The task of pulls ends only together with the supervisor.
        let _ = self.pulls.send(PullOrder::Settings);
    }

    /// The grants of a file under the name of each plugin.
    fn grants(&self) -> BTreeMap<PluginName, Value> {
        let inventory = &self.inventory;
        let names = inventory.names().chain(inventory.rules().settings.named());
        let grants = |name: &PluginName| json!(GrantsReport::from(&inventory.granted(name, None)));
        names.map(|name| (name.clone(), grants(name))).collect()
    }

    fn audit_grants(&self, mut before: BTreeMap<PluginName, Value>) {
        for (name, new) in self.grants() {
            let old = before.remove(&name).unwrap_or_else(|| json!(GrantsReport::default()));
            if old != new {
                self.tell(&name, By::PluginConfig, Notice::GrantsChanged { old, new });
            }
        }
    }

    fn swapped(
        &mut self,
        scheduler_name: &str,
        plugin: &PluginName,
        version: PluginVersion,
        result: Result<(), SwapError>,
    ) -> Consequences<ReadyBinary> {
        let inventory = &mut self.inventory;
        let sinks = &self.surroundings.sinks;
        let by = self.causes.get(plugin).cloned().unwrap_or(By::Scheduler);
        let profile = scheduler_name.to_owned();
        match (result, version.binary) {
            (Ok(()), None) => {
                // A new reason is not a change if no binary served before either.
                if inventory.taken_by(plugin, scheduler_name).is_some() {
                    // If a binary is already on its way, the report that nothing serves would be wrong. If a new
                    // instance is being made, the report of the fault already said so.
                    let is_restarting = self.restarts.is_under_way(plugin, scheduler_name);
                    let reason = match inventory.service(plugin, scheduler_name).filter(|_| !is_restarting) {
                        Some(Service::Hold(reason) | Service::Pass(reason)) => Some(reason),
                        Some(Service::Native(_) | Service::Embedded(_) | Service::Directory(_)) | None => None,
                    };
                    sinks.tell(plugin, by, Notice::Withdrawn { profile, reason });
                }
                sinks.metrics.remove_plugin(scheduler_name, plugin);
                inventory.taken(plugin, scheduler_name, None, now())
            }
            (Ok(()), Some(binary)) => {
                let restarted = self.restarts.end(plugin, scheduler_name).map(BinaryId::Component);
                let (version_number, is_restart) = (version.version.clone(), restarted == Some(binary));
                let swapped = Notice::Swapped { profile, version: version_number, binary, is_restart };
                sinks.tell(plugin, by.clone(), swapped);
                // The missed points were already reported for the first instance of the binary.
                if !is_restart {
                    for missed in inventory.missed_points(plugin, scheduler_name) {
                        sinks.tell(plugin, by.clone(), Notice::PointMissed { missed });
                    }
                }
                sinks.metrics.set_plugin(scheduler_name, PluginVersion { name: plugin.to_string(), ..version });
                inventory.taken(plugin, scheduler_name, Some(binary), now())
            }
            (Err(error), binary) => {
                let reason = error.to_string();
                let consequences = inventory.not_taken(plugin, binary, &reason, now());
                let standing = standing(inventory, plugin);
                let is_told = !consequences.notices.is_empty();
                sinks.tell(plugin, by, Notice::NotSwapped { profile, binary, reason, standing, is_told });
                consequences
            }
        }
    }

    async fn follow_order(
        &mut self,
        plugin: &PluginName,
        order: Order,
        by: By,
        answer: oneshot::Sender<Result<OrderReport, OrderRefusal>>,
    ) {
        let inventory = &mut self.inventory;
        let consequences = match order {
            Order::Reload => self.reload(plugin),
            Order::Enable => inventory.set_disabled(plugin, false, now()).map_err(OrderRefusal::from),
            Order::Disable => inventory.set_disabled(plugin, true, now()).map_err(OrderRefusal::from),
            Order::Rollback => inventory.roll_back(plugin, now()).map_err(OrderRefusal::from),
        };
        let consequences = consequences.map_err(|refusal| refusal.with_nearest(self.inventory.names()));
        let refused = consequences.as_ref().err().map(ToString::to_string);
        let standing = standing(&self.inventory, plugin);
        let ordered = Notice::Ordered { order: order.as_str(), by: by.clone(), refused, standing };
        self.tell(plugin, by.clone(), ordered);
        let (outcome, swaps): (Result<PluginReport, OrderRefusal>, Option<SwapResults>) = match consequences {
            Err(refusal) => (Err(refusal), None),
            Ok(consequences) => {
                let swaps = self.carry_out(consequences, by).await;
                let swaps = takes_away(order).then_some(swaps);
                let report = report::one(&self.inventory, plugin).into_iter().collect();
                let report = self.with_past(report).pop();
                (report.ok_or_else(|| OrderError::UnknownPlugin(plugin.clone()).into()), swaps)
            }
        };
        let saving = self.state.as_ref().map(StateKeeper::saving);
        // Other work does not wait for the disk, nor for the scheduling thread.
        tokio::spawn(async move {
            if let Some(saving) = saving {
                saving.done(LONGEST_SAVING).await;
            }
            let released_from_permit = match swaps {
                Some(swaps) => swaps.n_released().await,
                None => None,
            };
            // The caller may have stopped waiting.
            let _ = answer.send(outcome.map(|plugin| OrderReport { plugin, released_from_permit }));
        });
    }

    /// Adds the data that the inventory does not have to each report: refused effects, the history, the stack of the
    /// last fault, and how long calls took.
    fn with_past(&self, mut reports: Vec<PluginReport>) -> Vec<PluginReport> {
        let Sinks { metrics, history, .. } = &self.surroundings.sinks;
        let timings = metrics.scheduler.plugin_timings();
        for report in &mut reports {
            report.effects_refused = metrics.effects_refused(&report.name);
            report.history = history.of(&report.name);
            report.fault_stack = history.stack(&report.name);
            report.latencies = history.latencies(&report.name, &timings);
        }
        reports
    }

    /// Gives the scheduler another configuration, if all of its plugins can be built.
    async fn reconfigure(&mut self, proposal: Proposal) -> Result<(), Usage> {
        let Proposal { settings, scheduler_settings, has_other_profiles, extenders } = proposal;
        let profiles = if has_other_profiles {
            // Components may take seconds to start.
            let profiles = tokio::task::block_in_place(|| self.inventory.profiles(&settings))?;
            let metrics = &self.surroundings.sinks.metrics;
            for (plugin, scheduler_name) in self.inventory.leave_profiles(&profiles) {
                metrics.remove_plugin(&scheduler_name, &plugin);
                self.tell_if_unused(&plugin);
            }
            for profile in &profiles {
                metrics.set_plugins(profile);
            }
            Some(profiles)
        } else {
            None
        };
        let event = Event::reconfigured(&self.surroundings.objects, scheduler_settings, profiles, extenders);
        // The scheduling thread ends before the supervisor only if the process ends.
        let _ = self.surroundings.events.send(event).await;
        if has_other_profiles {
            for plugin in self.inventory.refused_by_profiles() {
                // A deleted file is not tried.
                let _ = self.reload(&plugin);
            }
        }
        Ok(())
    }

    /// Orders that the plugin's file is read again, or that its artifact is pulled again. The consequences follow
    /// later.
    fn reload(&self, plugin: &PluginName) -> Result<Consequences<ReadyBinary>, OrderRefusal> {
        if self.inventory.is_pulled(plugin) {
            // The task of pulls ends only together with the supervisor.
            let _ = self.pulls.send(PullOrder::Now(plugin.clone()));
            return Ok(Consequences::default());
        }
        let Some(watch) = &self.directory else { return Err(OrderRefusal::NoDirectory) };
        if !self.inventory.contains(plugin) {
            return Err(OrderError::UnknownPlugin(plugin.clone()).into());
        }
        let file = self.inventory.file_of(plugin);
        if !file.exists() {
            return Err(OrderRefusal::NoFile(file));
        }
        watch.reload(plugin);
        Ok(Consequences::default())
    }

    async fn carry_out(&mut self, consequences: Consequences<ReadyBinary>, by: By) -> SwapResults {
        for PluginNotice { plugin, kind } in consequences.notices {
            let notice = self.notice(&plugin, kind);
            self.tell(&plugin, by.clone(), notice);
        }
        self.hand_over(consequences.swaps, by).await
    }

    /// Asks the scheduler to make the swaps, and saves the state that must survive the process.
    async fn hand_over(&mut self, swaps: Vec<Swap<ReadyBinary>>, by: By) -> SwapResults {
        let mut results = SwapResults::default();
        for swap in swaps {
            self.sent_swaps.send(&swap, &mut results);
            self.causes.insert(swap.plugin.clone(), by.clone());
            let grants = self.inventory.grants(&swap.plugin, &swap.service);
            let profile = swap.scheduler_names.first().map_or("", String::as_str);
            let (name, factory) =
                (swap.plugin.to_string(), self.inventory.factory(&swap.plugin, profile, &swap.service));
            let objects = &self.surroundings.objects;
            let event = Event::plugin_ready(objects, name, Some(swap.scheduler_names), factory, Some(grants));
            // The scheduling thread ends before the supervisor only if the process ends.
            let _ = self.surroundings.events.send(event).await;
        }
        if let Some(state) = &self.state {
            state.remember(self.inventory.remembered());
        }
        results
    }

    fn tell(&self, plugin: &str, by: By, notice: Notice) {
        self.surroundings.sinks.tell(plugin, by, notice);
    }

    /// A notice about the registry's decision, with the binary that serves now.
    fn notice(&self, plugin: &PluginName, kind: PluginNoticeKind) -> Notice {
        let standing = standing(&self.inventory, plugin);
        match kind {
            PluginNoticeKind::Refused { digest, reason } => {
                let file = self.inventory.rules().origin(plugin).unwrap_or_default();
                Notice::Refused { digest, file, reason, standing }
            }
            PluginNoticeKind::RolledBack { digest, to, reason } => Notice::RolledBack { digest, to, reason },
            PluginNoticeKind::Quarantined { digest, milliseconds, reason } => {
                Notice::Quarantined { digest, milliseconds, reason, standing }
            }
            PluginNoticeKind::Restarting { digest, milliseconds, reason } => {
                Notice::Restarting { digest, milliseconds, reason }
            }
            PluginNoticeKind::Released { digest } => Notice::Released { digest, standing },
            PluginNoticeKind::ProbationOver => Notice::ProbationOver,
            PluginNoticeKind::NotServed { reason } => Notice::NotServed { reason },
        }
    }

    /// Updates the figures that no notice updates.
    fn publish(&mut self) {
        let metrics = &self.surroundings.sinks.metrics;
        for (plugin, totals) in self.inventory.figures() {
            for (kind, total) in totals.faults {
                metrics.set_faults(&plugin, kind, total);
            }
            for (point, total) in totals.errors {
                metrics.set_errors(&plugin, point, total);
            }
            metrics.set_dropped_log_lines(&plugin, totals.dropped_log_lines);
            metrics.set_out_of_time(&plugin, totals.out_of_time);
            for (name, total) in totals.custom {
                metrics.set_custom(&plugin, &name, total);
            }
        }
        for (plugin, taken) in self.engine.time().totals() {
            metrics.set_scheduling_thread_time(&plugin, taken);
        }
        metrics.set_audit_entries_dropped(self.surroundings.sinks.audit.n_dropped());
    }
}

/// Whether a binary no longer serves after the order, so that pods held by this binary may continue.
fn takes_away(order: Order) -> bool {
    match order {
        Order::Disable | Order::Rollback => true,
        Order::Reload | Order::Enable => false,
    }
}
