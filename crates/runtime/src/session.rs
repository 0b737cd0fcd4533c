//! A running scheduler on one API server, with all parts that `berth run`, `berth sandbox` and `berth demo` start and
//! stop.
//!
//! [`Session::start`] lists the parts in the order in which they start. A session owns its tasks and the scheduling
//! thread. It begins with the metrics, the probes and the tasks of a [`Front`], which answers before anything is
//! loaded.
//!
//! # End
//! [`Session::run_until`] ends the session when its work is done, when another replica may lead, or when a part ends
//! that should not end. After the work, bindings in progress have [`DRAIN`] to finish, and unwritten events have
//! [`FLUSH`]. If another replica may already schedule, nothing is finished.
//!
//! A task may return because the scheduling thread has ended. The reason of the thread is then reported.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use berth_cluster::{Client, Connection, EventRecorder, Kinds, LeadershipLost, Renewal, RequestRate, Writer};
use berth_config::{Overrides, RunningConfiguration, Settings};
use berth_framework::Profile;
use berth_plugin_host::{Plugins, Surroundings, WholePods};
use berth_scheduler::{Event, HostObjects, Scheduler};
use berth_serving::{Health, ReadModel as _};
use berth_telemetry::{
    audit::AuditLog,
    clock,
    metrics::Metrics,
    notices::{PluginHistory, Sinks},
};
use berth_wasm_host::FaultSink;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::spawn_blocking,
};
use tracing::{error, info, warn};

use crate::{
    cache_dump::{self, Dump},
    client_metrics::ClientMetrics,
    configuration::{ConfigurationSource, scheduler_settings},
    credentials,
    election::Election,
    executor::Executor,
    extenders::HttpExtenders,
    follower::Follower,
    front::Front,
    informers::Informers,
    log_lines::LogLines,
    options::Options,
    page,
    placement_reason::{PlacementReason, PlacementReasons},
    plan::Plan,
    plugin_events::PluginEvents,
    readers::{Endpoints, Readers},
    reload::Reload,
    scheduling::{ACTIONS_BOUND, Outlets, Parts, SchedulingThread, Sources},
    score_lines::ScoreLines,
    tasks::{EndedEarly, Tasks},
    traces::Traces,
    watching::{Begin, EVENTS_BOUND, WatchPlan, WatchRequest},
};

/// The time for bindings in progress when the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(3);

/// The further time for unwritten events, as long as some are written. The time is less than a pod's usual grace period
/// of 30 seconds.
const FLUSH: Duration = Duration::from_secs(15);
const FLUSH_STEP: Duration = Duration::from_secs(2);

/// The time between two publications of the number of dropped events.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// The time for the scheduling thread to report why it ended, after a task that works for it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running scheduler. The session owns all its tasks. If one task ends unexpectedly, the whole session ends.
#[derive(Debug)]
pub struct Session {
    events: mpsc::Sender<Event>,
    thread: SchedulingThread,
    recorder: EventRecorder,
    health: Health,
    election: Election,
    metrics: Arc<Metrics>,
    audit: AuditLog,
    traces: Traces,
    tasks: Tasks,
    /// The address of the page on loopback.
    page: Option<SocketAddr>,
}

/// The clients of the API server, and their counters.
struct ClusterClients {
    client: Client,
    hostname: String,
    writer: Writer,
    recorder: EventRecorder,
    sinks: Sinks,
    /// The objects that events and actions name.
    objects: HostObjects,
}

/// The configuration alone, checked against all existing plugins.
///
/// # Errors
/// Fails as [`Plan::new`](crate::Plan::new) does.
pub async fn settings(scheduling: &Options, overrides: Overrides) -> Result<Settings> {
    let scheduling = scheduling.clone();
    let reading = move || {
        let plugins = Plugins::load_all(&scheduling.plugins, FaultSink::default())?;
        ConfigurationSource { file: scheduling.config, overrides }.read(&plugins.inventory)
    };
    spawn_blocking(reading).await.context("the task that loads the plugins failed")?
}

impl ClusterClients {
    fn new(connection: Connection, settings: &Settings, audit: AuditLog, metrics: Arc<Metrics>) -> Self {
        let client = connection.observed_client(Arc::new(ClientMetrics::new(&connection.server, &metrics)));
        let limits = &settings.client_connection;
        let rate = RequestRate { per_second: limits.qps, burst: limits.burst };
        let writer = Writer::new(client.clone()).with_rate(rate);
        let hostname = hostname();
        let recorder = EventRecorder::spawn(client.clone(), hostname.clone(), rate);
        let events = Arc::new(PluginEvents::new(recorder.clone()));
        let sinks = Sinks { metrics, audit, events, history: PluginHistory::default() };
        Self { client, hostname, writer, recorder, sinks, objects: HostObjects::default() }
    }

    fn executor(
        &self,
        events: &mpsc::Sender<Event>,
        extenders: watch::Receiver<Option<Arc<HttpExtenders>>>,
        traces: &Traces,
        scheduling: &Options,
    ) -> Executor {
        Executor {
            writer: self.writer.clone(),
            kinds: Kinds::new(self.client.clone()),
            recorder: self.recorder.clone(),
            events: events.clone(),
            sinks: self.sinks.clone(),
            extenders,
            traces: traces.clone(),
            api_calls: scheduling.gates.is_on("SchedulerAsyncAPICalls").then(|| self.sinks.metrics.count_api_calls()),
        }
    }

    /// Starts the plugin supervisor, and waits for an end of the writer of events.
    fn supervise(
        &self,
        events: &mpsc::Sender<Event>,
        plugins: Plugins,
        scheduling: &Options,
        watch_requests: mpsc::UnboundedSender<WatchRequest>,
        started: oneshot::Sender<()>,
        tasks: &mut Tasks,
    ) -> Result<()> {
        let writing = self.recorder.clone();
        let metrics = Arc::clone(&self.sinks.metrics);
        tasks.spawn("the writer of events", async move {
            let mut every = tokio::time::interval(COUNTED_EVERY);
            loop {
                tokio::select! {
                    () = writing.closed() => return,
                    _ = every.tick() => metrics.set_events_dropped(writing.n_dropped()),
                }
            }
        });
        let (events, objects) = (events.clone(), self.objects.clone());
        // The watch of the cluster ends before the supervisor only if the process ends.
        let whole_pods = WholePods::new(move |answer| drop(watch_requests.send(WatchRequest::WholePods(answer))));
        let surroundings = Surroundings { events, objects, sinks: self.sinks.clone(), whole_pods };
        tasks.spawn(
            "the plugin supervisor",
            berth_plugin_host::start(plugins, &scheduling.plugins, surroundings, started)?,
        );
        Ok(())
    }
}

impl Session {
    /// Starts to schedule the pods of the API server of `connection`.
    #[expect(clippy::too_many_lines, reason = "a list: what a session consists of, in the order in which it starts")]
    pub async fn start(
        connection: Connection,
        plan: Plan,
        scheduling: &Options,
        reasons: Option<mpsc::UnboundedSender<PlacementReason>>,
    ) -> Result<Self> {
        let Plan { mut settings, source, mut plugins, front, traces, faults } = plan;
        let Front { metrics, health, mut tasks, door } = front;
        settings.ignore_managed_resources();
        let running = RunningConfiguration::new(settings.clone());
        let audit = AuditLog::open(scheduling.audit_log.as_deref())?;
        let clients = ClusterClients::new(connection, &settings, audit, metrics);
        let ClusterClients { client, recorder, sinks, .. } = &clients;
        let metrics = &sinks.metrics;
        let traces = Traces::start(traces, metrics.traces.clone(), &clients.hostname, &mut tasks)?;
        let endpoints = Endpoints {
            client,
            metrics,
            health: &health,
            running: &running,
            supervisor: &plugins.inbox.0,
            scheduling,
            serves_all: source.file.is_none() && source.overrides.scheduler_name.is_none(),
        };
        let Readers { follower, follow, decisions, page } = endpoints.serve(&door, &mut tasks)?;
        let page = match scheduling.page {
            Some(address) => Some(page::serve_on_loopback(address, page, &mut tasks).await?),
            None => None,
        };
        let extenders = HttpExtenders::connect(&settings.extenders, &health).await?;
        let profiles = plugins.inventory.profiles(&settings)?;
        profiles.iter().for_each(|profile| metrics.set_plugins(profile));
        let (events, incoming) = mpsc::channel(EVENTS_BOUND);
        let (actions, to_do) = mpsc::channel(ACTIONS_BOUND);
        let (election, turn) = Election::start(client, &settings, &scheduling.gates, &clients.hostname);
        election.report(&settings.leader_election.resource_name, &health, metrics, &mut tasks);
        let (set_extenders, current_extenders) = watch::channel(extenders.clone());
        let executor = clients.executor(&events, current_extenders, &traces, scheduling);
        tasks.spawn("the executor", executor.run(to_do));
        let watch_plan = WatchPlan::new(
            plugins.inventory.settle_pod_json(),
            plugins.inventory.rules().features,
            &profiles,
            extenders.as_deref(),
        );
        tasks.spawn("the listener for SIGUSR2", dump_on_signal(client, follower)?);
        let (watch_requests, later) = mpsc::unbounded_channel();
        let reload = Reload {
            source,
            running,
            command_line: scheduling.clone(),
            supervisor: plugins.inbox.0.clone(),
            extenders: set_extenders,
            watch_requests: watch_requests.clone(),
            writer: clients.writer.clone(),
            recorder: recorder.clone(),
            health: health.clone(),
            sinks: sinks.clone(),
        };
        tasks.spawn("the reader of the configuration", reload.start()?);
        let thread = SchedulingThread::spawn(Parts {
            scheduler: new_scheduler(&settings, scheduling, profiles, extenders)
                .with_time(plugins.engine.time().clone())
                .with_objects(clients.objects.clone())
                .with_traces(traces.sampling()),
            sources: Sources { events: incoming, faults, follow },
            outlets: Outlets::new(
                actions,
                plugins.inbox.0.clone(),
                &events,
                watch_requests.clone(),
                clients.objects.clone(),
                traces.clone(),
            ),
            metrics: Arc::clone(metrics),
            history: sinks.history.clone(),
            health: health.clone(),
            plugins: plugins.engine.clone(),
            reasons: PlacementReasons::new(reasons),
            decisions,
            log_lines: LogLines::of(scheduling.gates.release()),
            score_lines: ScoreLines::default(),
            traces: traces.clone(),
            pause: Duration::ZERO,
            watch_requests: watch_requests.clone(),
        })?;
        let (started, plugins_started) = oneshot::channel();
        let begin = Begin { plugins: plugins_started, turn };
        let informers = Arc::new(Informers::new(Arc::clone(metrics)));
        let watching = watch_plan.run(client.clone(), events.clone(), later, health.clone(), informers, begin);
        tasks.spawn("the watch of the cluster", watching);
        clients.supervise(&events, plugins, scheduling, watch_requests, started, &mut tasks)?;
        let ClusterClients { recorder, sinks: Sinks { metrics, audit, .. }, .. } = clients;
        Ok(Self { events, thread, recorder, health, election, metrics, audit, traces, tasks, page })
    }

    /// The address of the page on loopback, if it is served there.
    #[must_use]
    pub fn page(&self) -> Option<SocketAddr> {
        self.page
    }

    /// Renews the credentials of requests when their files change, when the API server refuses the credentials, and
    /// upon SIGHUP.
    ///
    /// # Errors
    /// The program cannot listen for SIGHUP.
    pub fn renew_credentials(&mut self, renewal: Renewal) -> Result<()> {
        let following = credentials::follow(renewal, Arc::clone(&self.metrics))?;
        self.tasks.spawn("the renewal of credentials", following);
        Ok(())
    }

    /// Schedules until `work` is done. It then waits a limited time for the bindings in progress. If a binding has no
    /// answer by then, its pod stays pending or is bound, depending on the API server.
    ///
    /// # Errors
    /// Another replica may lead, a part of the scheduler has ended so that nothing can be scheduled any more, or `work`
    /// fails.
    pub async fn run_until<T>(mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let lost = self.election.lost();
        let outcome = tokio::select! {
            outcome = work => outcome,
            lost = lost => {
                self.health.stopping();
                if let LeadershipLost::EndOfTerm { until, .. } = lost {
                    // No other replica schedules before the Lease is released or runs out, so attempts that began are
                    // finished.
                    let _ = tokio::time::timeout_at(until, self.stop()).await;
                    return Err(anyhow::Error::new(lost).context("leader election lost"));
                }
                // Another replica may schedule from now on, so nothing is finished. The process ends with all its
                // requests.
                return Err(anyhow::Error::new(lost).context("leader election lost"));
            }
            ended = self.ended_early() => {
                self.health.stopping();
                error!("{ended}");
                return Err(ended.into());
            }
        };
        self.stop().await;
        outcome
    }

    /// Waits for the end of a part that should not end.
    async fn ended_early(&mut self) -> EndedEarly {
        let first = tokio::select! {
            ended = self.thread.ended_early() => return ended,
            ended = self.tasks.first_end() => ended,
        };
        match first {
            EndedEarly::Panicked { .. } => first,
            // The thread that the task works for may have ended. A panic of the thread explains more.
            EndedEarly::Returned { .. } => {
                let thread = tokio::time::timeout(LAST_WORDS, self.thread.ended_early()).await;
                thread.unwrap_or(first)
            }
        }
    }

    async fn stop(mut self) {
        self.health.stopping();
        if self.events.send(Event::Shutdown).await.is_err() {
            warn!("the scheduling thread had already ended");
        }
        match self.thread.finished(DRAIN).await {
            Some(0) => info!("all bindings finished"),
            Some(n) => warn!(bindings = n, "stopping with bindings in progress"),
            None => warn!("stopping although bindings may be in progress"),
        }
        // The next leader does not wait for the events.
        tokio::join!(
            self.election.release(),
            write_events(&self.recorder),
            self.audit.flush(LAST_WORDS),
            self.traces.flush(LAST_WORDS)
        );
    }
}

async fn write_events(recorder: &EventRecorder) {
    let until = Instant::now() + FLUSH;
    loop {
        let before = recorder.n_unwritten();
        if recorder.flush(FLUSH_STEP).await {
            return;
        }
        let events = recorder.n_unwritten();
        if events >= before || Instant::now() >= until {
            return warn!(events, "some events were not written");
        }
        info!(events, "writing the last events");
    }
}

fn new_scheduler(
    settings: &Settings,
    scheduling: &Options,
    profiles: Vec<Profile>,
    extenders: Option<Arc<HttpExtenders>>,
) -> Scheduler {
    let scheduler = Scheduler::new(scheduler_settings(settings, scheduling), profiles)
        .with_clock(Arc::new(clock::Stopwatch), clock::now().0);
    match extenders {
        Some(extenders) => scheduler.with_extenders(extenders),
        None => scheduler,
    }
}

/// Writes the cache and the queue to the log upon SIGUSR2.
fn dump_on_signal(client: &Client, follower: Follower) -> Result<impl Future<Output = ()> + Send + use<>> {
    cache_dump::on_signal(client.clone(), move || {
        let follower = follower.clone();
        async move { follower.read(Dump::of).await }
    })
}

fn hostname() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
