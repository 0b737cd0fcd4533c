//! The task that pulls plugins from registries, and the result of one pull.
//!
//! Every plugin with a `source` is pulled when the scheduler starts, when its tag is due, when an operator asks for it,
//! and when the settings have changed. This module checks and compiles pulled artifacts. The artifacts then go to the
//! supervisor in the same way as files of the plugins directory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_model::{Digest, PluginName};
use berth_provenance::{Cache, PullSchedule, Pulled, Puller, Source};
use berth_telemetry::chain;
use berth_wasm_host::{Binary, Engine};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use crate::{
    finding::{Finding, Found, FoundIn},
    message::Message,
    provenance::{CurrentProvenance, Provenance, PullSource},
    ready_binary::{Origin, component},
};

/// The maximum time for which a plugin without a binary waits for its registry if the cache has an earlier artifact.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum time for which a plugin without a binary waits for its registry if the cache has no artifact. The
/// plugin's state then says that nothing was pulled, and the registry is asked again.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// A message that gives the task something to do.
#[derive(Debug)]
pub(crate) enum PullOrder {
    /// The settings may have changed.
    Settings,
    /// Pull this plugin, even if the last pull was recent.
    Now(PluginName),
}

/// The parts that pulls need.
#[derive(Clone, Debug)]
pub(crate) struct PullKit {
    pub engine: Engine,
    pub provenance: CurrentProvenance,
    pub cache: Option<Cache>,
}

/// The state of one plugin's pulls.
#[derive(Debug)]
struct Tracked {
    source: PullSource,
    schedule: PullSchedule,
    /// The time of the next pull; `None` if there is no reason for a pull, or if a pull is in progress.
    due: Option<Instant>,
    /// The digest of the manifest of the component that was last taken.
    taken: Option<Digest>,
    /// Whether anything was ever received, even from the cache.
    is_served: bool,
    /// The failure that was last reported, so that each failure is reported once.
    told: Option<String>,
}

/// The result of a pull that has ended.
struct Done {
    plugin: PluginName,
    source: PullSource,
    outcome: Option<(Found, Option<Digest>)>,
}

impl PullKit {
    /// Pulls all plugins at the same time. Artifacts that do not arrive in time are taken from the cache.
    pub(crate) async fn pull_all(&self) -> Vec<Finding> {
        let provenance = self.provenance.get();
        let mut pulls = JoinSet::new();
        for (plugin, source) in &provenance.sources {
            let (kit, plugin, source) = (self.clone(), plugin.clone(), source.clone());
            let provenance = Arc::clone(&provenance);
            pulls.spawn(async move {
                let (outcome, _) = kit.first_pull(&provenance, &plugin, &source).await;
                found(plugin, outcome)
            });
        }
        let mut arrivals = pulls.join_all().await;
        arrivals.sort_by(|one, other| one.plugin.cmp(&other.plugin));
        arrivals
    }

    /// The first pull. A digest is looked up in the cache first, and a tag in the registry.
    async fn first_pull(
        &self,
        provenance: &Provenance,
        plugin: &PluginName,
        source: &PullSource,
    ) -> (Found, Option<Digest>) {
        let limit = self.engine.max_file_bytes();
        let puller = match provenance.puller(self.cache.clone()) {
            Ok(puller) => puller,
            Err(error) => return (Found::Unreachable(chain(&error)), None),
        };
        let cached = puller.cached(&source.reference, limit);
        let patience = if cached.is_some() { PATIENCE } else { LONG_PATIENCE };
        if source.reference.is_pinned()
            && let Some(cached) = cached
            && let (ready @ Found::Binary(_), manifest) = self.take(provenance, plugin, source, cached).await
        {
            return (ready, manifest);
        }
        let pulled = timeout(patience, puller.pull(&source.reference, limit, None)).await;
        let reason = match pulled {
            Ok(Ok(Some(pulled))) => return self.take(provenance, plugin, source, pulled).await,
            Ok(Ok(None)) => "the registry sent no content".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("cannot be pulled within {} s", patience.as_secs()),
        };
        self.take_from_cache(&puller, provenance, plugin, source, reason).await
    }

    async fn take_from_cache(
        &self,
        puller: &Puller,
        provenance: &Provenance,
        plugin: &PluginName,
        source: &PullSource,
        reason: String,
    ) -> (Found, Option<Digest>) {
        let Some(cached) = puller.cached(&source.reference, self.engine.max_file_bytes()) else {
            return (Found::Unreachable(reason), None);
        };
        warn!(plugin = plugin.as_str(), reference = %source.reference, reason, "the plugin cannot be pulled; using \
                                                                                the copy in the cache");
        let (outcome, _) = self.take(provenance, plugin, source, cached).await;
        // The registry is asked again soon.
        (outcome, None)
    }

    /// Checks the pulled artifact and compiles it. Also returns the manifest's digest, unless the artifact must be
    /// pulled again.
    async fn take(
        &self,
        provenance: &Provenance,
        plugin: &PluginName,
        source: &PullSource,
        pulled: Pulled,
    ) -> (Found, Option<Digest>) {
        let Pulled { component: bytes, digest, manifest, signatures, host } = pulled;
        let reference = source.reference.clone();
        let from = Source::Registry { reference: reference.clone(), manifest };
        let signed_by = match provenance.admit(plugin, &from, None, &signatures) {
            Ok(signed_by) => signed_by,
            Err(refusal) => return (Found::NotAdmitted { digest: Some(digest), reason: refusal.to_string() }, None),
        };
        let (engine, name) = (self.engine.clone(), plugin.to_string());
        let compiled = tokio::task::spawn_blocking(move || engine.load_unless_denied(&Binary::new(name, bytes))).await;
        match compiled {
            Ok(Ok(factory)) => {
                let host = host.as_deref().unwrap_or("the cache");
                let (digest, manifest_text) = (digest.to_string(), manifest.to_string());
                info!(plugin = plugin.as_str(), %reference, host, digest, manifest = manifest_text, "pulled");
                let origin = Origin { reference: Some(reference.at(manifest).to_string()), signed_by };
                (Found::Binary(component(Arc::new(factory), origin)), Some(manifest))
            }
            // The artifact is pulled again soon, and the present binary continues to serve.
            Ok(Err(error)) if error.is_of_the_moment() => (Found::Unreachable(chain(&error)), None),
            Ok(Err(error)) => (Found::NotAdmitted { digest: Some(digest), reason: chain(&error) }, Some(manifest)),
            Err(error) => {
                (Found::NotAdmitted { digest: Some(digest), reason: format!("cannot be compiled: {error}") }, None)
            }
        }
    }

    /// Pulls again. `None` if nothing is new.
    async fn pull(
        &self,
        plugin: &PluginName,
        source: &PullSource,
        known: Option<Digest>,
        is_served: bool,
    ) -> Option<(Found, Option<Digest>)> {
        let limit = self.engine.max_file_bytes();
        let provenance = self.provenance.get();
        if !is_served {
            return Some(self.first_pull(&provenance, plugin, source).await);
        }
        let puller = match provenance.puller(self.cache.clone()) {
            Ok(puller) => puller,
            Err(error) => return Some((Found::Unreachable(chain(&error)), None)),
        };
        match puller.pull(&source.reference, limit, known).await {
            Ok(None) => None,
            Ok(Some(pulled)) => Some(self.take(&provenance, plugin, source, pulled).await),
            Err(error) => Some((Found::Unreachable(error.to_string()), None)),
        }
    }
}

fn found(plugin: PluginName, found: Found) -> Finding {
    Finding { plugin, found_in: FoundIn::Registry, found }
}

/// The task.
pub(crate) struct Pulls {
    kit: PullKit,
    supervisor: mpsc::Sender<Message>,
    orders: mpsc::UnboundedReceiver<PullOrder>,
    tracked: BTreeMap<PluginName, Tracked>,
    running: JoinSet<Done>,
}

impl Pulls {
    pub(crate) fn new(
        kit: PullKit,
        supervisor: mpsc::Sender<Message>,
        orders: mpsc::UnboundedReceiver<PullOrder>,
    ) -> Self {
        let mut pulls = Self { kit, supervisor, orders, tracked: BTreeMap::new(), running: JoinSet::new() };
        pulls.follow_settings();
        pulls
    }

    /// Runs until it is aborted, or until no more orders can arrive.
    pub(crate) async fn run(mut self) {
        loop {
            let next = self.tracked.values().filter_map(|tracked| tracked.due).min();
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(PullOrder::Settings) => self.follow_settings(),
                    Some(PullOrder::Now(plugin)) => {
                        if let Some(tracked) = self.tracked.get_mut(&plugin) {
                            (tracked.due, tracked.taken, tracked.told) = (Some(Instant::now()), None, None);
                        }
                    }
                    None => return,
                },
                Some(done) = self.running.join_next() => match done {
                    Ok(done) => self.finished(done).await,
                    Err(error) => warn!("the task that pulls a plugin from its registry failed: {error}"),
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => self.start_due(),
            }
        }
    }

    /// Examines every plugin again, because keys and signers may have changed.
    fn follow_settings(&mut self) {
        let provenance = self.kit.provenance.get();
        self.tracked.retain(|plugin, _| provenance.sources.contains_key(plugin));
        for (plugin, source) in &provenance.sources {
            let interval = (!source.reference.is_pinned()).then_some(source.interval);
            let fresh = Tracked {
                source: source.clone(),
                schedule: PullSchedule::new(interval),
                due: Some(Instant::now()),
                taken: None,
                is_served: false,
                told: None,
            };
            self.tracked.insert(plugin.clone(), fresh);
        }
        let references: Vec<_> = provenance.sources.values().map(|source| source.reference.clone()).collect();
        if let Some(cache) = &self.kit.cache
            && let Err(error) = cache.prune(&references)
        {
            warn!("{}", chain(&error));
        }
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for (plugin, tracked) in &mut self.tracked {
            if tracked.due.is_none_or(|due| due > now) {
                continue;
            }
            tracked.due = None;
            let (kit, plugin, source, known) =
                (self.kit.clone(), plugin.clone(), tracked.source.clone(), tracked.taken);
            let is_served = tracked.is_served;
            self.running.spawn(async move {
                let outcome = kit.pull(&plugin, &source, known, is_served).await;
                Done { plugin, source, outcome }
            });
        }
    }

    async fn finished(&mut self, done: Done) {
        let Done { plugin, source, outcome } = done;
        // If the settings changed during the pull, the pull is repeated.
        let Some(tracked) = self.tracked.get_mut(&plugin).filter(|tracked| tracked.source == source) else { return };
        let (outcome, manifest) = match outcome {
            None => (None, tracked.taken),
            Some((outcome, manifest)) => (Some(outcome), manifest),
        };
        let wait = match manifest {
            Some(_) => tracked.schedule.succeeded(fastrand::f64()),
            None => Some(tracked.schedule.failed(fastrand::f64())),
        };
        tracked.due = wait.map(|wait| Instant::now() + wait);
        tracked.taken = manifest.or(tracked.taken);
        tracked.is_served |= matches!(outcome, Some(Found::Binary(_)));
        let told = match &outcome {
            Some(Found::NotAdmitted { reason, .. } | Found::Unreachable(reason)) => Some(reason.clone()),
            Some(Found::Binary(_) | Found::NoPlugin { .. } | Found::Gone) | None => None,
        };
        let is_known = told.is_some() && told == tracked.told;
        tracked.told = told;
        if let Some(outcome) = outcome.filter(|_| !is_known) {
            // The supervisor ends before the task of pulls only if the process ends.
            let _ = self.supervisor.send(Message::Found(found(plugin, outcome))).await;
        }
    }
}
