//! Reads the KubeSchedulerConfiguration again when its file changes, and upon SIGHUP.
//!
//! A new configuration takes effect between two cycles, as a whole or not at all. If it contains a mistake, the
//! previous configuration stays in force. Fields that cannot change while the scheduler runs keep their values, and the
//! log names them.
//!
//! New extenders may have to wait for lists of the API server. A later change ends this wait, so that a configuration can
//! be taken back while the API server does not answer.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use berth_cluster::{EventRecorder, RequestRate, Writer};
use berth_config::{Change, RunningConfiguration, Settings};
use berth_file_watch::FileWatch;
use berth_plugin_host::{Consultation, Message, Proposal};
use berth_serving::Health;
use berth_telemetry::{
    audit::By,
    notices::{Notice, Sinks},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot, watch},
};
use tracing::{info, warn};

use crate::{
    configuration::{ConfigurationSource, scheduler_settings},
    extenders::HttpExtenders,
    options::Options,
    watching::WatchRequest,
};

/// Puts other configurations into force.
pub(crate) struct Reload {
    pub source: ConfigurationSource,
    pub running: RunningConfiguration,
    /// The settings of the command line.
    pub command_line: Options,
    pub supervisor: mpsc::Sender<Message>,
    /// The channel to the executor for the extenders that bind.
    pub extenders: watch::Sender<Option<Arc<HttpExtenders>>>,
    /// The channel for the kinds that must be watched.
    pub watch_requests: mpsc::UnboundedSender<WatchRequest>,
    pub writer: Writer,
    pub recorder: EventRecorder,
    pub health: Health,
    pub sinks: Sinks,
}

/// A configuration that can be put into force.
struct Candidate {
    settings: Settings,
    extenders: Option<Arc<HttpExtenders>>,
    /// The fields that differ from the running configuration.
    changes: Vec<Change>,
    /// The fields that differ but keep their values until a restart.
    left: Vec<Change>,
}

/// The causes to read the configuration again.
struct Triggers {
    changes: mpsc::Receiver<()>,
    hangup: Signal,
}

/// The end of a reading without mistakes.
enum Outcome {
    Applied,
    Unchanged,
    /// The configuration must be read again before it can be put into force.
    Overtaken,
}

impl Triggers {
    async fn next(&mut self) {
        tokio::select! {
            Some(()) = self.changes.recv() => {}
            _ = self.hangup.recv() => info!("SIGHUP: reading the configuration again"),
        }
    }
}

impl Reload {
    /// Starts to watch the file. The future puts changes into force, and never ends.
    ///
    /// # Errors
    /// The file or the signal cannot be watched.
    pub(crate) fn start(self) -> Result<impl Future<Output = ()> + Send + use<>> {
        let (changed, changes) = mpsc::channel(1);
        let watch = self.source.file.clone().map(|file| {
            let shown = file.display().to_string();
            // A message that is still in the channel also covers this change.
            let watch = berth_file_watch::watch(vec![file], move || {
                let _ = changed.try_send(());
            });
            watch.with_context(|| format!("--config {shown}: cannot be watched"))
        });
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        Ok(self.run(watch.transpose()?, Triggers { changes, hangup }))
    }

    async fn run(self, _watch: Option<FileWatch>, mut triggers: Triggers) {
        triggers.next().await;
        loop {
            let reloaded = self.reload(&mut triggers).await;
            self.watch_for_extenders(None);
            let notice = match reloaded {
                Ok(Outcome::Applied) => Notice::ConfigurationReloaded { has_changed: true },
                Ok(Outcome::Unchanged) => Notice::ConfigurationReloaded { has_changed: false },
                Ok(Outcome::Overtaken) => {
                    info!("a later change came before the extenders could be asked; reading the configuration again");
                    continue;
                }
                Err(error) => Notice::ConfigurationRefused { reason: format!("{error:#}") },
            };
            self.sinks.tell("", By::Scheduler, notice);
            triggers.next().await;
        }
    }

    /// Reads the file, and puts changes into force.
    async fn reload(&self, triggers: &mut Triggers) -> Result<Outcome> {
        let Some(candidate) = self.candidate(triggers).await? else { return Ok(Outcome::Overtaken) };
        let Candidate { settings, extenders, changes, left } = candidate;
        for Change { field, old, new } in &left {
            warn!(field, %old, %new, "this field cannot change while the scheduler runs; restart to apply it");
        }
        if changes.is_empty() {
            info!("configuration unchanged");
            return Ok(Outcome::Unchanged);
        }
        let has_other_profiles = settings.profiles != self.running.settings().profiles;
        let proposal = Box::new(Proposal {
            scheduler_settings: scheduler_settings(&settings, &self.command_line),
            settings: settings.clone(),
            has_other_profiles,
            extenders: extenders.clone().map(|extenders| extenders as _),
        });
        let before = self.extenders.send_replace(extenders);
        let (answer, taken) = oneshot::channel();
        let taken = self.ask(Message::Reconfigure { proposal, answer }, taken).await;
        if let Err(error) = taken.and_then(|taken| Ok(taken?)) {
            self.extenders.send_replace(before);
            let file = self.source.file.as_ref().map(|file| file.display().to_string());
            return Err(match file {
                Some(file) => error.context(file),
                None => error,
            });
        }
        let rate = RequestRate { per_second: settings.client_connection.qps, burst: settings.client_connection.burst };
        self.writer.set_rate(rate);
        self.recorder.set_rate(rate);
        self.running.set(settings);
        for Change { field, old, new } in &changes {
            info!(field, %old, %new, "changed");
        }
        info!(fields = changes.len(), "configuration applied");
        Ok(Outcome::Applied)
    }

    /// Reads the file, and waits until its extenders can be asked; `None` if a later change ends this wait.
    async fn candidate(&self, triggers: &mut Triggers) -> Result<Option<Candidate>> {
        let source = self.source.clone();
        let (consultation, read) = Consultation::new(move |plugins| source.read(plugins));
        let read = self.ask(Message::Consult(consultation), read).await??;
        let running = self.running.settings();
        let (mut settings, left) = running.take_over(read);
        let mut extenders = self.extenders.borrow().clone();
        if settings.extenders != running.extenders {
            extenders = HttpExtenders::connect(&settings.extenders, &self.health).await?;
            self.watch_for_extenders(extenders.as_deref());
            if extenders.is_some() {
                tokio::select! {
                    biased;
                    can_be_asked = self.until_extenders_can_be_asked() => can_be_asked?,
                    () = triggers.next() => return Ok(None),
                }
            }
        }
        settings.ignore_managed_resources();
        let changes = running.changes_to(&settings);
        Ok(Some(Candidate { settings, extenders, changes, left }))
    }

    /// Requests the watches that the extenders in force and the `upcoming` extenders need.
    fn watch_for_extenders(&self, upcoming: Option<&HttpExtenders>) {
        let in_force = self.extenders.borrow().clone();
        let extenders = in_force.as_deref().into_iter().chain(upcoming);
        let request = WatchRequest::Extenders(extenders.map(HttpExtenders::manifest).collect());
        // The watch of the cluster ends before the task of this module only if the process ends.
        let _ = self.watch_requests.send(request);
    }

    /// Waits until the scheduling thread has what the upcoming extenders get: pending pods with their whole JSON, and the
    /// objects of the kinds that the extenders need. If it has both already, this takes no time.
    async fn until_extenders_can_be_asked(&self) -> Result<()> {
        let requests: [fn(oneshot::Sender<()>) -> WatchRequest; 2] =
            [WatchRequest::WholePods, WatchRequest::ExtendersListed];
        for request in requests {
            let (answer, answered) = oneshot::channel();
            // The watch of the cluster ends before the task of this module only if the process ends.
            let _ = self.watch_requests.send(request(answer));
            answered.await.context("the scheduler is stopping")?;
        }
        Ok(())
    }

    /// Asks the supervisor, which ends before this task only if the process ends.
    async fn ask<T>(&self, question: Message, answer: oneshot::Receiver<T>) -> Result<T> {
        self.supervisor.send(question).await.map_err(|_| anyhow!("the scheduler is stopping"))?;
        answer.await.context("the scheduler is stopping")
    }
}
