//! The scheduler processes: several elect a leader. The plan kills the processes, and each process is started again.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use berth_test_processes::{Endpoints, Process, free_addresses, until};

use crate::{plan::Victim, site::Site};

/// The loss of a leader costs six seconds, not fifteen. Requests are sent as fast as the API server accepts them.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}
";

const LEADING: &str = "leader_election_master_status{name=\"kube-scheduler\"} 1";
const ASSUMED: &str = "scheduler_cache_size{type=\"assumed_pods\"} ";

/// The message of a process that ends because another process may schedule.
const LOST: &str = "leader election lost";

/// The text in the log lines of SIGUSR2, whether the lists agree or differ.
const COMPARED: &str = "the API server's lists";

/// The maximum number of characters that are shown of a report. A report may name thousands of pods.
const REPORT_CHARACTERS: usize = 600;

/// The time limit for the output of a process that has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// All replicas, which end when this value is dropped.
pub(crate) struct Replicas {
    replicas: Vec<Replica>,
    config: PathBuf,
    /// The folder for the output of processes that have ended.
    logs: Option<PathBuf>,
    n_started: u32,
    pub(crate) n_killed: u32,
    /// The number of replicas that ended by themselves, as a replica must that loses the Lease.
    pub(crate) n_ended: u32,
}

enum Replica {
    Running(Scheduler),
    Down { until: Instant },
}

struct Scheduler {
    process: Process,
    endpoints: Endpoints,
    /// The number of the process among all processes of the run, from 1.
    number: u32,
}

impl Replicas {
    pub(crate) fn start(site: &Site, n: usize, logs: Option<PathBuf>) -> Result<Self> {
        let config = site.write_config(CONFIG)?;
        if let Some(logs) = &logs {
            fs::create_dir_all(logs).with_context(|| format!("--logs {}", logs.display()))?;
        }
        let mut replicas = Self { replicas: Vec::new(), config, logs, n_started: 0, n_killed: 0, n_ended: 0 };
        for _ in 0..n {
            let scheduler = replicas.scheduler(site)?;
            replicas.replicas.push(Replica::Running(scheduler));
        }
        Ok(replicas)
    }

    fn scheduler(&mut self, site: &Site) -> Result<Scheduler> {
        let [address] = free_addresses()?;
        let (mut command, kubeconfig) = site.scheduler()?;
        command
            .args(["run", "--log", "info", "--metrics-address", &address.to_string(), "--kubeconfig"])
            .arg(kubeconfig);
        command.arg("--config").arg(&self.config);
        self.n_started += 1;
        let process = Process::start(command)?;
        Ok(Scheduler { process, endpoints: Endpoints::new(address), number: self.n_started })
    }

    /// Kills a replica, unless the replica is already down or no replica leads.
    pub(crate) fn kill(&mut self, whom: Victim, pause: Duration) {
        let index = match whom {
            Victim::Leader => self.leader(),
            Victim::Replica(index) => Some(index),
        };
        let Some(replica @ Replica::Running(_)) = index.and_then(|index| self.replicas.get_mut(index)) else { return };
        // Dropping the process kills it.
        if let Replica::Running(gone) = std::mem::replace(replica, Replica::Down { until: Instant::now() + pause }) {
            keep_log(self.logs.as_ref(), &gone);
        }
        self.n_killed += 1;
    }

    /// Starts replicas after their pauses, and checks the replicas that ended by themselves.
    ///
    /// # Errors
    /// A replica ended for a reason other than a lost Lease.
    pub(crate) async fn tend(&mut self, site: &Site) -> Result<()> {
        for index in 0..self.replicas.len() {
            let is_due = match &mut self.replicas[index] {
                Replica::Down { until } => *until <= Instant::now(),
                Replica::Running(scheduler) => scheduler.process.has_ended()?,
            };
            if !is_due {
                continue;
            }
            let next = Replica::Running(self.scheduler(site)?);
            if let Replica::Running(ended) = std::mem::replace(&mut self.replicas[index], next) {
                keep_log(self.logs.as_ref(), &ended);
                let output = ended.process.ended(LAST_WORDS).await?.err;
                let gave_up = output.lines().any(|line| line.starts_with("error: ") && line.contains(LOST));
                ensure!(
                    gave_up,
                    "replica {index} ended by itself:\n{}",
                    output.lines().rev().take(20).collect::<Vec<_>>().join("\n")
                );
                self.n_ended += 1;
            }
        }
        Ok(())
    }

    /// The replica that reports to be the leader.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |it: &Scheduler| it.endpoints.get("/metrics").is_ok_and(|text| text.contains(LEADING));
        self.running().find(|(_, scheduler)| leads(scheduler)).map(|(index, _)| index)
    }

    /// The number of pods that each replica has assumed on nodes.
    ///
    /// # Errors
    /// A replica does not answer.
    pub(crate) fn assumed(&self) -> Result<Vec<u64>> {
        let mut assumed = Vec::new();
        for (index, scheduler) in self.running() {
            let text = scheduler.endpoints.get("/metrics").with_context(|| format!("replica {index}"))?;
            let line = text.lines().find_map(|line| line.strip_prefix(ASSUMED)).context(ASSUMED)?;
            assumed.push(line.trim().parse()?);
        }
        Ok(assumed)
    }

    /// Lets each replica compare its cache and queue with the API server. Returns the differences, with the replicas
    /// that have them.
    pub(crate) async fn differences(&self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for (index, scheduler) in self.running() {
            let reports = || {
                let text = scheduler.process.text();
                text.lines().filter(|line| line.contains(COMPARED)).map(str::to_owned).collect::<Vec<_>>()
            };
            let n_before = reports().len();
            scheduler.process.signal("-USR2")?;
            let report = until("a report of cache and queue", async || Ok(reports().into_iter().nth(n_before))).await?;
            if !report.contains("agree with") {
                let shown: String = report.chars().take(REPORT_CHARACTERS).collect();
                differences.push(format!("replica {index}: {shown}"));
            }
        }
        Ok(differences)
    }

    /// Keeps the output of the replicas that still run.
    pub(crate) fn keep_logs(&self) {
        for (_, scheduler) in self.running() {
            keep_log(self.logs.as_ref(), scheduler);
        }
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Scheduler)> {
        self.replicas.iter().enumerate().filter_map(|(index, replica)| match replica {
            Replica::Running(scheduler) => Some((index, scheduler)),
            Replica::Down { .. } => None,
        })
    }
}

/// If a log can't be written, it is missing, and the run continues.
fn keep_log(logs: Option<&PathBuf>, scheduler: &Scheduler) {
    let Some(logs) = logs else { return };
    let file = logs.join(format!("scheduler-{:03}.log", scheduler.number));
    if let Err(error) = fs::write(&file, scheduler.process.text()) {
        eprintln!("cannot write {}: {error}", file.display());
    }
}
