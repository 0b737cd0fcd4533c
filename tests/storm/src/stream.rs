//! A stream of pods, which are created at a steady rate, watched until they are bound, and then deleted, so that the
//! cluster never fills.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use berth_cluster::{
    Client, ConnectOptions, Creator, PodRef, WatchEvent, WatchHandle, Watches, Writer, connect, spawn_watches,
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use crate::figures::ClientView;

/// If there is no binding for this long, the remaining pods are lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stream that is running.
#[derive(Debug)]
pub struct PodStream {
    records: Arc<Mutex<PodRecords>>,
    is_over: Arc<AtomicBool>,
    creator: JoinHandle<Result<()>>,
    follower: JoinHandle<Result<()>>,
    _watches: WatchHandle,
}

/// The record of each pod.
#[derive(Debug, Default)]
struct PodRecords {
    created: HashMap<String, Instant>,
    nodes: HashMap<String, String>,
    /// The pods that [`PodStream::newly_late`] has returned.
    late: HashSet<String>,
    bound: Vec<(Instant, Duration)>,
    bound_twice: Option<String>,
}

/// The state of the stream at one time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: Instant,
    n_bound: usize,
}

/// The final state of the stream.
#[derive(Debug)]
pub struct Finished {
    pub n_created: usize,
}

impl PodStream {
    /// Starts the stream. `pod` makes a pod from a name and a number.
    pub async fn start(kubeconfig: &Path, rate: u32, pod: fn(&str, u64) -> Value) -> Result<Self> {
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ConnectOptions::default() };
        let client = connect(&options).await?.client();
        let records = Arc::new(Mutex::new(PodRecords::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (sink, events) = mpsc::channel(4096);
        let watches = spawn_watches(&client, Watches { pods: true, ..Watches::default() }, &sink);
        let follower = tokio::spawn(follow(client.clone(), events, Arc::clone(&records)));
        let creator = tokio::spawn(create(client, (rate, pod), Arc::clone(&records), Arc::clone(&is_over)));
        Ok(Self { records, is_over, creator, follower, _watches: watches })
    }

    pub fn mark(&self) -> Moment {
        Moment { at: Instant::now(), n_bound: self.lock().bound.len() }
    }

    pub fn since(&self, from: Moment) -> ClientView {
        let records = self.lock();
        let latencies = records.bound.iter().skip(from.n_bound).map(|(_, latency)| *latency).collect();
        ClientView { elapsed: from.at.elapsed(), latencies }
    }

    /// The pods that have waited for a node for longer than this. Each is returned once.
    pub fn newly_late(&self, limit: Duration) -> Vec<String> {
        let mut records = self.lock();
        let PodRecords { created, nodes, late, .. } = &mut *records;
        let is_late = |(name, at): &(&String, &Instant)| at.elapsed() > limit && !nodes.contains_key(*name);
        let waiting = created.iter().filter(is_late).map(|(name, _)| name.clone());
        waiting.filter(|name| late.insert(name.clone())).collect()
    }

    /// The pods that have no node.
    pub fn unbound(&self) -> Vec<String> {
        let records = self.lock();
        records.created.keys().filter(|name| !records.nodes.contains_key(*name)).cloned().collect()
    }

    /// Creates no further pods, and waits for the pods that are not bound yet.
    pub async fn finish(&mut self) -> Result<Finished> {
        self.is_over.store(true, Ordering::Relaxed);
        (&mut self.creator).await??;
        let mut news = (self.lock().bound.len(), Instant::now());
        loop {
            let (n_created, n_bound) = {
                let records = self.lock();
                if let Some(pod) = &records.bound_twice {
                    anyhow::bail!("{pod} was bound twice");
                }
                (records.created.len(), records.bound.len())
            };
            if n_bound == n_created {
                self.follower.abort();
                return Ok(Finished { n_created });
            }
            if n_bound > news.0 {
                news = (n_bound, Instant::now());
            }
            ensure!(news.1.elapsed() < PATIENCE, "{} of {n_created} pods were never bound", n_created - n_bound);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PodRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn create(
    client: Client,
    (rate, pod): (u32, fn(&str, u64) -> Value),
    records: Arc<Mutex<PodRecords>>,
    is_over: Arc<AtomicBool>,
) -> Result<()> {
    let mut creator = Creator::new(client);
    let mut pace = interval(Duration::from_secs(1) / rate.max(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0u64.. {
        pace.tick().await;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("storm-{number:07}");
        records.lock().unwrap_or_else(PoisonError::into_inner).created.insert(name.clone(), Instant::now());
        creator.create(&pod(&name, number)).await.with_context(|| format!("cannot create {name}"))?;
    }
    Ok(())
}

async fn follow(client: Client, mut events: mpsc::Receiver<WatchEvent>, records: Arc<Mutex<PodRecords>>) -> Result<()> {
    let writer = Writer::new(client);
    while let Some(event) = events.recv().await {
        let WatchEvent::PodApplied(pod) = event else { continue };
        if pod.spec.node_name.is_empty() {
            continue;
        }
        let (name, node) = (pod.metadata.name.clone(), pod.spec.node_name);
        let is_new = note(&mut records.lock().unwrap_or_else(PoisonError::into_inner), &name, node);
        if is_new && pod.metadata.deletion_timestamp.is_none() {
            let pod = PodRef { namespace: pod.metadata.namespace, name, uid: pod.metadata.uid };
            let writer = writer.clone();
            // A pod that stays a little longer does no harm.
            tokio::spawn(async move { drop(writer.delete_pod(&pod).await) });
        }
    }
    Ok(())
}

/// Records a binding, and returns whether it is the pod's first.
fn note(records: &mut PodRecords, name: &str, node: String) -> bool {
    let Some(created) = records.created.get(name).copied() else { return false };
    match records.nodes.insert(name.to_owned(), node.clone()) {
        None => {
            records.bound.push((Instant::now(), created.elapsed()));
            true
        }
        Some(before) => {
            if before != node {
                records.bound_twice = Some(name.to_owned());
            }
            false
        }
    }
}
