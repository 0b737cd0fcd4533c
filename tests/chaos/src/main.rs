//! `chaos`: replicas of the scheduler are killed, disconnected and misled while pods are created, deleted and resized.
//!
//! The API server and the schedulers are separate processes. The seed determines the actions of users, the faults of
//! the schedulers and the replicas that are killed. The consequences also depend on the machine. The harness has a
//! watch of all pods without faults, in the order of the API server. During the whole run, no pod may change its node,
//! and no pod may be bound to a node without room for the pod. After the last fault, every pod that fits on a node must
//! be bound, no replica may have an assumed pod, and the cache of each replica must equal the API server's lists.
//! Otherwise the exit code is 1, and the history of the pod is printed.

#![expect(clippy::print_stdout, reason = "the result")]
#![expect(clippy::print_stderr, reason = "what happens to the files beside it")]

mod account;
mod observer;
mod plan;
mod replicas;
mod site;
mod users;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;
use tokio::{task::JoinHandle, time::interval};

use crate::{
    observer::Observer,
    plan::{Operation, Plan, Size, Trouble},
    replicas::Replicas,
    site::Site,
};

/// Kills and cuts off schedulers while pods come and go, and checks that each pod is bound once and no node overcommitted
#[derive(Debug, Parser)]
struct Arguments {
    /// The seed of all random choices [default: another seed each time, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods created in all
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// How long pods come and go
    #[arg(long, default_value_t = 6.0)]
    minutes: f64,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    replicas: u8,
    /// Against the etcd and kube-apiserver of the folder that KUBEBUILDER_ASSETS names, instead of a sandbox
    #[arg(long)]
    real: bool,
    /// Keep the output of every scheduler process in this folder
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

/// The time until the first replica leads.
const START: Duration = Duration::from_secs(120);
/// The time after the last fault. A silenced watch is closed after three quarters of a minute, and the longest backoff
/// is ten seconds. The five minutes after which unschedulable pods are always tried again must not be needed.
const CALM: Duration = Duration::from_secs(110);
/// The time between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// The time between two checks of the replicas.
const TICK: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome =
        tokio::runtime::Runtime::new().context("starting").and_then(|runtime| runtime.block_on(run(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let seed = arguments.seed.unwrap_or_else(seed_of_the_day);
    let Arguments { nodes, pods, minutes, replicas, real, .. } = *arguments;
    let place = if real { " --real" } else { "" };
    println!("chaos --seed {seed} --nodes {nodes} --pods {pods} --minutes {minutes} --replicas {replicas}{place}");
    let time = Duration::try_from_secs_f64(minutes * 60.0).context("--minutes")?;
    let plan = Plan::new(seed, Size { nodes, pods, time }, replicas.into());
    let site = if real { Site::real(nodes).await? } else { Site::sandbox(nodes).await? };
    let replicas = Replicas::start(&site, replicas.into(), arguments.logs.clone())?;
    let mut run = Run::begin(site, replicas).await?;
    let outcome = run.through(plan, pods).await;
    run.replicas.keep_logs();
    outcome.with_context(|| format!("with --seed {seed}"))
}

fn seed_of_the_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs()).unwrap_or_default()
}

/// A run that is in progress.
struct Run {
    site: Site,
    pods: Api<Pod>,
    replicas: Replicas,
    observer: Observer,
    began: Instant,
    last_progress: Instant,
}

impl Run {
    async fn begin(site: Site, mut replicas: Replicas) -> Result<Self> {
        let started = Instant::now();
        while replicas.leader().is_none() {
            ensure!(started.elapsed() < START, "no replica leads after {START:?}");
            replicas.tend(&site).await?;
            tokio::time::sleep(TICK).await;
        }
        let pods: Api<Pod> = Api::default_namespaced(site.client.clone());
        let began = Instant::now();
        let observer = Observer::start(pods.clone(), began, site.has_kubelets).await?;
        Ok(Self { site, pods, replicas, observer, began, last_progress: began })
    }

    async fn through(&mut self, plan: Plan, n_pods: u32) -> Result<()> {
        let Plan { operations, troubles } = plan;
        let end = operations.last().map(|(at, _)| *at).unwrap_or_default();
        let mut users = tokio::spawn(users::act(self.pods.clone(), self.began, operations));
        let mut troubles = troubles.into_iter().peekable();
        let mut every = interval(TICK);
        while !users.is_finished() || self.began.elapsed() < end || troubles.peek().is_some() {
            tokio::select! {
                fault = self.observer.fault() => fault?,
                _ = every.tick() => {}
            }
            if let Some((_, trouble)) = troubles.next_if(|(at, _)| *at <= self.began.elapsed()) {
                self.make(trouble).await?;
            }
            self.replicas.tend(&self.site).await?;
            self.say_how_it_goes();
        }
        (&mut users).await??;
        report_hits(&self.site.end_faults().await?);
        println!("faults are over");
        let over = Instant::now();
        self.calm_down("after the faults").await?;
        self.afterwards(n_pods).await?;
        self.agree(over).await?;
        let account = self.observer.account();
        let (n_killed, n_ended) = (self.replicas.n_killed, self.replicas.n_ended);
        println!(
            "{} pods seen, {} bound, each once, {} deleted; {} do not fit; {n_killed} replicas killed, {n_ended} gave up their lease",
            account.n_pods(),
            account.n_bound,
            account.n_deleted,
            account.pending().count(),
        );
        Ok(())
    }

    async fn make(&mut self, trouble: Trouble) -> Result<()> {
        match trouble {
            Trouble::Faults(rules) => self.site.add_faults(&rules).await,
            Trouble::Kill { whom, pause } => {
                self.replicas.kill(whom, pause);
                Ok(())
            }
        }
    }

    /// Creates some more pods without faults. Resizes count completely from now on.
    async fn afterwards(&mut self, n_pods: u32) -> Result<()> {
        self.observer.account().settle();
        let pods = n_pods..n_pods + n_pods / 50 + 1;
        let operations = pods.map(|pod| (Duration::ZERO, Operation::Create { pod, milli_cpu: 250 })).collect();
        let users: JoinHandle<Result<()>> = tokio::spawn(users::act(self.pods.clone(), self.began, operations));
        users.await??;
        self.calm_down("of the pods that came after the faults").await
    }

    /// Waits until every pod that fits is bound and no pod is assumed.
    async fn calm_down(&mut self, when: &str) -> Result<()> {
        let nodes = self.site.nodes().await?;
        let since = Instant::now();
        let mut every = interval(TICK);
        loop {
            tokio::select! {
                fault = self.observer.fault() => fault?,
                _ = every.tick() => {}
            }
            self.replicas.tend(&self.site).await?;
            self.say_how_it_goes();
            let assumed = self.replicas.assumed();
            let account = self.observer.account();
            let stuck = account.stuck(&nodes);
            let is_calm = assumed.as_ref().is_ok_and(|assumed| assumed.iter().all(|n_pods| *n_pods == 0));
            if stuck.is_empty() && is_calm {
                println!("{when}: calm after {:.1} s", since.elapsed().as_secs_f64());
                return Ok(());
            }
            if since.elapsed() > CALM {
                if let Some(first) = stuck.first() {
                    bail!("{when}: {} pods fit and are not bound, such as\n{}", stuck.len(), account.history(first));
                }
                bail!("{when}: pods are assumed still: {:?}", assumed?);
            }
        }
    }

    /// Waits until the data of every replica equals the API server's lists.
    async fn agree(&mut self, since: Instant) -> Result<()> {
        loop {
            let differences = self.replicas.differences().await?;
            if differences.is_empty() {
                println!(
                    "all replicas agree with the API server's lists, {:.1} s after the faults",
                    since.elapsed().as_secs_f64()
                );
                return Ok(());
            }
            ensure!(since.elapsed() < CALM, "caches are wrong:\n{}", differences.join("\n"));
            tokio::time::sleep(PROGRESS / 2).await;
        }
    }

    fn say_how_it_goes(&mut self) {
        if self.last_progress.elapsed() < PROGRESS {
            return;
        }
        self.last_progress = Instant::now();
        let account = self.observer.account();
        let leader = self.replicas.leader().map_or("nobody".to_owned(), |index| format!("replica {index}"));
        println!(
            "{:5.0} s: {} pods seen, {} bound, {} deleted, {} pending; {leader} leads, {} killed, {} gave up",
            self.began.elapsed().as_secs_f64(),
            account.n_pods(),
            account.n_bound,
            account.n_deleted,
            account.pending().count(),
            self.replicas.n_killed,
            self.replicas.n_ended,
        );
    }
}

fn report_hits(rules: &Value) {
    let mut hits = std::collections::BTreeMap::<String, u64>::new();
    for rule in rules["faults"].as_array().into_iter().flatten() {
        let fault = &rule["fault"];
        let code = fault["code"].as_u64().map(|code| format!(" {code}")).unwrap_or_default();
        let kind = format!("{}{code}", fault["type"].as_str().unwrap_or_default());
        *hits.entry(kind).or_default() += rule["hits"].as_u64().unwrap_or_default();
    }
    let hits: Vec<String> = hits.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    println!("faults that hit: {}", hits.join(", "));
}
