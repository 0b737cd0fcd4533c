//! A scheduler at work on one API server: everything that `berth run`, `berth sandbox` and `berth demo` start and stop.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use berth_cluster::{Client, EventRecorder, RequestRate, WatchEvent, WatchHandle, Watches, Writer, spawn_watches};
use berth_framework::PluginFactory;
use berth_queue::Backoff;
use berth_scheduler::{Event, Scheduler, Settings};
use berth_wasm_host::{DirectoryChange, DirectoryEvent, DirectoryWatch, FaultKind};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
};
use tracing::{error, info, warn};

use crate::{
    cli::Scheduling,
    decision::Decision,
    endpoints::{self, Health},
    executor::Executor,
    metrics::Metrics,
    plugins::{self, Registry, chain},
    scheduling::{ACTIONS_BOUND, EVENTS_BOUND, Parts, SchedulingThread},
};

/// Bindings under way get this long when the process is told to stop, events what is left of five seconds.
const DRAIN: Duration = Duration::from_secs(3);
const FLUSH: Duration = Duration::from_secs(1);

/// A running scheduler.
pub(crate) struct Session {
    events: mpsc::Sender<Event>,
    thread: SchedulingThread,
    watches: WatchHandle,
    recorder: EventRecorder,
    tasks: Vec<JoinHandle<()>>,
    _directory: Option<DirectoryWatch>,
}

/// The settings and plugins of a session, ready to start.
pub(crate) struct Plan {
    pub settings: berth_config::Settings,
    registry: Registry,
    directory: Option<berth_wasm_host::PluginsDirectory>,
}

impl Plan {
    /// Reads the configuration and loads the plugins.
    ///
    /// # Errors
    /// What is wrong with the configuration, the plugins directory, or a plugin.
    pub(crate) async fn new(scheduling: &Scheduling, scheduler_name: Option<String>) -> Result<Self> {
        let scheduling = scheduling.clone();
        spawn_blocking(move || {
            let mut registry = Registry::new(&scheduling)?;
            let directory = scheduling.plugins_dir.as_deref().map(|dir| registry.scan(dir)).transpose()?;
            let settings = plugins::settings(scheduling.config.as_deref(), scheduler_name.as_deref(), &registry)?;
            Ok(Self { settings, registry, directory })
        })
        .await
        .context("loading the plugins")?
    }
}

impl Session {
    /// Starts scheduling the pods of the API server that `client` speaks to.
    pub(crate) async fn start(
        client: Client,
        plan: Plan,
        scheduling: &Scheduling,
        decisions: Option<mpsc::UnboundedSender<Decision>>,
    ) -> Result<Self> {
        let Plan { settings, registry, directory } = plan;
        let metrics = Arc::new(Metrics::new());
        let health = Health::default();
        let mut tasks = Vec::new();
        if let Some(address) = scheduling.metrics_address {
            tasks.push(endpoints::serve(address, Arc::clone(&metrics), health.clone()).await?.1);
        }
        let profiles = registry.profiles(&settings)?;
        for profile in &profiles {
            for version in profile.versions() {
                metrics.set_plugin(&profile.scheduler_name, version);
            }
        }
        let (events, incoming) = mpsc::channel(EVENTS_BOUND);
        let (actions, to_do) = mpsc::channel(ACTIONS_BOUND);
        let rate = RequestRate { per_second: 0.0, burst: 0 };
        let writer = Writer::new(client.clone()).with_rate(rate);
        let recorder = EventRecorder::spawn(client.clone(), hostname());
        let executor =
            Executor { writer, recorder: recorder.clone(), events: events.clone(), metrics: Arc::clone(&metrics) };
        tasks.push(executor.spawn(to_do));
        let thread = SchedulingThread::spawn(Parts {
            scheduler: Scheduler::new(scheduler_settings(&settings), profiles),
            events: incoming,
            actions,
            metrics: Arc::clone(&metrics),
            plugins: registry.engine.clone(),
            decisions,
        })?;
        let (watched, from_watches) = mpsc::channel(EVENTS_BOUND);
        let watches = Watches { pods: true, pod_json: registry.wants_pod_json(), nodes: true, kinds: Vec::new() };
        let watches = spawn_watches(&client, watches, &watched);
        tasks.push(tokio::spawn(forward(from_watches, events.clone(), health)));
        let registry = Arc::new(Mutex::new(registry));
        tasks.push(tokio::spawn(publish(Arc::clone(&registry), metrics, recorder.clone())));
        let directory = match (directory, &scheduling.plugins_dir) {
            (Some(directory), Some(dir)) => {
                let sink = directory_sink(dir, registry, events.clone());
                Some(directory.watch(sink).map_err(|error| anyhow::anyhow!(chain(&error)))?)
            }
            _ => None,
        };
        Ok(Self { events, thread, watches, recorder, tasks, _directory: directory })
    }

    /// Finishes the bindings under way, or gives them up after a while: those pods stay pending, or turn out bound.
    pub(crate) async fn stop(self) {
        if self.events.send(Event::Shutdown).await.is_err() {
            warn!("the scheduling thread had ended before");
        }
        match self.thread.finished(DRAIN).await {
            Some(0) => info!("all bindings are answered"),
            Some(n) => warn!(bindings = n, "stopping with bindings under way"),
            None => warn!("stopping although bindings are under way"),
        }
        self.watches.shutdown().await;
        if !self.recorder.flush(FLUSH).await {
            warn!("some events were not written");
        }
        for task in self.tasks {
            task.abort();
        }
    }
}

fn scheduler_settings(settings: &berth_config::Settings) -> Settings {
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let backoff =
        Backoff { initial: milliseconds(settings.pod_initial_backoff), max: milliseconds(settings.pod_max_backoff) };
    Settings {
        percentage_of_nodes_to_score: i32::from(settings.percentage_of_nodes_to_score),
        queue: berth_queue::Settings { backoff, ..berth_queue::Settings::default() },
    }
}

/// Turns what the watches saw into the scheduler's events.
async fn forward(mut watched: mpsc::Receiver<WatchEvent>, events: mpsc::Sender<Event>, health: Health) {
    let (mut pods, mut nodes) = (false, false);
    while let Some(event) = watched.recv().await {
        let event = match event {
            WatchEvent::PodApplied(pod) => Event::PodApplied(pod),
            WatchEvent::PodDeleted(pod) => {
                let metadata = pod.metadata;
                Event::PodDeleted { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid }
            }
            WatchEvent::NodeApplied(node) => Event::NodeApplied(node),
            WatchEvent::NodeDeleted(node) => Event::NodeDeleted { name: node.metadata.name },
            WatchEvent::PodsSynced | WatchEvent::NodesSynced => {
                pods |= event == WatchEvent::PodsSynced;
                nodes |= event == WatchEvent::NodesSynced;
                if !(pods && nodes) {
                    continue;
                }
                info!("pods and nodes are listed; scheduling");
                health.set_ready(true);
                Event::Synced
            }
            WatchEvent::ObjectApplied { .. } | WatchEvent::ObjectDeleted { .. } | WatchEvent::Synced { .. } => continue,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// What the plugins directory's own thread calls.
fn directory_sink(
    dir: &Path,
    registry: Arc<Mutex<Registry>>,
    events: mpsc::Sender<Event>,
) -> impl FnMut(DirectoryEvent) + Send + 'static {
    let dir = dir.to_owned();
    move |event| {
        let DirectoryEvent { name, change } = event;
        let file = dir.join(format!("{name}.wasm"));
        let loaded = match change {
            DirectoryChange::Loaded(factory) => {
                info!(plugin = name, file = %file.display(), digest = factory.version().digest, "compiled");
                Some(factory)
            }
            DirectoryChange::Removed => None,
            DirectoryChange::Refused(error) => {
                error!(plugin = name, "{} {}; what served before goes on", file.display(), chain(&error));
                return;
            }
        };
        let removed = loaded.is_none();
        let factory = registry.lock().unwrap_or_else(PoisonError::into_inner).put(&name, loaded);
        match factory {
            Some(factory) => {
                // The scheduling thread ends before this one only when the process does.
                let _ = events.blocking_send(Event::PluginReady { name, scheduler_names: None, factory });
            }
            None if removed => warn!(plugin = name, "its file is gone, and no built-in has its name; it goes on"),
            None => {}
        }
    }
}

/// Keeps the figures that nobody pushes up to date.
async fn publish(registry: Arc<Mutex<Registry>>, metrics: Arc<Metrics>, recorder: EventRecorder) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let stats = registry.lock().unwrap_or_else(PoisonError::into_inner).stats().to_vec();
        for kind in FaultKind::ALL {
            let mut faults = std::collections::BTreeMap::<&str, u64>::new();
            for (plugin, stats) in &stats {
                *faults.entry(plugin).or_default() += stats.faults(kind);
            }
            for (plugin, total) in faults {
                metrics.set_faults(plugin, kind.as_str(), total);
            }
        }
        metrics.set_events_dropped(recorder.n_dropped());
    }
}

fn hostname() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
