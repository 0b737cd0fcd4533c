//! One round: both sides, the steps, and the results.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use berth_test_control_plane::Assets;
use berth_test_processes::{beside, until};
use futures::try_join;
use serde_json::{Value, json};

use crate::{
    devices::{self, CLAIMS},
    difference::{Aspect, Difference},
    events::events,
    known,
    metrics::moved,
    outcomes::{name, outcomes},
    plan::Plan,
    requests::requests,
    round_kind::RoundKind,
    side::{Applied, PODS, Program, Side},
    step::{Step, create_node},
};

/// The request for a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) kind: RoundKind,
    pub(crate) seed: u64,
    pub(crate) n_pods: u32,
    pub(crate) n_nodes: u8,
    pub(crate) is_verbose: bool,
    pub(crate) feature_gates: Option<&'a str>,
    /// The folder for the schedulers' logs.
    pub(crate) logs: Option<&'a Path>,
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) summary: String,
    pub(crate) differences: Vec<Difference>,
}

struct Sides {
    kube_scheduler: Side,
    berth: Side,
}

/// The number of checks after which a difference in time must be gone.
const LOOKS: u32 = 40;

impl fmt::Display for Round<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seed {}, {:?}", self.seed, self.kind)
    }
}

impl Round<'_> {
    pub(crate) async fn run(&self, assets: &Assets, kube_scheduler: &Path) -> Result<Outcome> {
        let begin = Instant::now();
        let program = |path, command| {
            let feature_gates = self.feature_gates.map(str::to_owned);
            Program { path, command, feature_gates, is_detailed: self.logs.is_some() }
        };
        let kube_scheduler = program(kube_scheduler.to_owned(), None);
        let berth = program(beside("berth")?, Some("kube-scheduler"));
        let (theirs, ours) = (Side::start(assets, kube_scheduler, self.kind), Side::start(assets, berth, self.kind));
        let (kube_scheduler, berth) = try_join!(theirs, ours)?;
        let mut sides = Sides { kube_scheduler, berth };
        let mut plan = Plan::new(self.seed, self.n_nodes, self.kind);
        for (collection, object) in plan.surroundings() {
            let (theirs, ours) = (&sides.kube_scheduler.objects, &sides.berth.objects);
            try_join!(theirs.create(&collection, &object), ours.create(&collection, &object))?;
        }
        let (counts, mut differences) = match self.kind {
            RoundKind::Steps | RoundKind::Devices | RoundKind::Volumes => self.steps(&mut sides, &mut plan).await?,
            RoundKind::Backlog => self.backlog(&mut sides, &mut plan).await?,
        };
        if let Some(logs) = self.logs {
            fs::create_dir_all(logs)?;
            fs::write(logs.join("kube-scheduler.log"), sides.kube_scheduler.log())?;
            fs::write(logs.join("berth.log"), sides.berth.log())?;
            fs::write(logs.join("nodes.json"), json!(sides.berth.objects.list("/api/v1/nodes").await?).to_string())?;
        }
        // If the pods of both schedulers differ, the events of these pods differ too, so events, requests and metrics
        // are compared only for equal pods.
        if differences.is_empty() {
            differences.extend(sides.traces().await?);
        }
        let summary = format!("{counts}, {:.0} s", begin.elapsed().as_secs_f64());
        Ok(Outcome { summary, differences })
    }

    async fn steps(&self, sides: &mut Sides, plan: &mut Plan) -> Result<(String, Vec<Difference>)> {
        // Nodes that exist before the schedulers start arrive in no particular order.
        sides.start_schedulers().await?;
        for node in plan.nodes() {
            sides.apply(&create_node(node)).await?;
        }
        let (mut n_steps, mut n_refused, mut n_created) = (0, 0, 0);
        let mut differences = Vec::new();
        let (mut pods, mut nodes) = sides.compare("the start", &mut differences).await?;
        while n_created < self.n_pods && differences.is_empty() {
            let mut steps = Plan::superfluous(&pods);
            if steps.is_empty() {
                steps.push(plan.step(&pods, &nodes));
            }
            for step in steps {
                n_steps += 1;
                n_created += u32::from(matches!(step, Step::CreatePod(_)));
                if self.is_verbose {
                    println!("{n_steps}: {}", step.describe());
                }
                if sides.apply(&step).await? == Applied::Refused {
                    n_refused += 1;
                    continue;
                }
                let context = format!("after step {n_steps}: {}", step.describe());
                (pods, nodes) = sides.compare(&context, &mut differences).await?;
                sides.run_pods(&pods, n_steps).await?;
                while sides.release_claim(&pods).await? {
                    (pods, nodes) =
                        sides.compare(&format!("{context}, then a claim released"), &mut differences).await?;
                }
            }
        }
        Ok((format!("{n_steps} steps, of which {n_refused} were refused, {n_created} pods"), differences))
    }

    async fn backlog(&self, sides: &mut Sides, plan: &mut Plan) -> Result<(String, Vec<Difference>)> {
        for node in plan.ranked_nodes() {
            sides.apply(&create_node(node)).await?;
        }
        let mut n_refused = 0;
        let mut pods = BTreeMap::new();
        for _ in 0..self.n_pods {
            let pod = plan.patient_pod();
            let step = Step::CreatePod(pod.clone());
            n_refused += u32::from(sides.apply(&step).await? == Applied::Refused);
            pods.insert(name(&pod).to_owned(), pod);
        }
        sides.start_schedulers().await?;
        let mut differences = Vec::new();
        sides.compare("", &mut differences).await?;
        // The difference about the pod that was tried first may explain the differences about other pods.
        let priority = |it: &Difference| pods.get(&it.subject).and_then(|pod| pod["spec"]["priority"].as_u64());
        differences.sort_by_key(|it| Reverse(priority(it)));
        for difference in &mut differences {
            difference.context = pods.get(&difference.subject).map(|pod| pod["spec"].to_string()).unwrap_or_default();
        }
        Ok((format!("{} pods, of which {n_refused} were refused", self.n_pods), differences))
    }
}

impl Sides {
    async fn start_schedulers(&mut self) -> Result<()> {
        try_join!(self.kube_scheduler.start_scheduler(), self.berth.start_scheduler())?;
        Ok(())
    }

    async fn apply(&self, step: &Step) -> Result<Applied> {
        let (theirs, ours) = try_join!(self.kube_scheduler.apply(step), self.berth.apply(step))?;
        ensure!(theirs == ours, "the API servers disagree about {}", step.describe());
        Ok(ours)
    }

    async fn run_pods(&self, pods: &[Value], second: u32) -> Result<()> {
        try_join!(self.kube_scheduler.run_pods(pods, second), self.berth.run_pods(pods, second))?;
        Ok(())
    }

    /// Whether a claim was released.
    async fn release_claim(&self, pods: &[Value]) -> Result<bool> {
        let (theirs, ours) = (self.kube_scheduler.release_claim(pods), self.berth.release_claim(pods));
        let (theirs, ours) = try_join!(theirs, ours)?;
        Ok(theirs || ours)
    }

    /// Waits until both are done, and compares their pods. Returns kube-scheduler's pods and nodes.
    async fn compare(&self, context: &str, found: &mut Vec<Difference>) -> Result<(Vec<Value>, Vec<Value>)> {
        for look in 1..=LOOKS {
            let (theirs, ours) = try_join!(self.kube_scheduler.settled(), self.berth.settled())?;
            let mut differences = Difference::between(Aspect::Pod, &outcomes(&theirs), &outcomes(&ours));
            let of_claims = try_join!(self.kube_scheduler.objects.list(CLAIMS), self.berth.objects.list(CLAIMS))?;
            let (theirs_claims, ours_claims) = (devices::outcomes(&of_claims.0), devices::outcomes(&of_claims.1));
            differences.extend(Difference::between(Aspect::Claim, &theirs_claims, &ours_claims));
            let (theirs_volumes, ours_volumes) = try_join!(self.kube_scheduler.volumes(), self.berth.volumes())?;
            differences.extend(Difference::between(Aspect::Volume, &theirs_volumes, &ours_volumes));
            if differences.is_empty() || look == LOOKS {
                for difference in &mut differences {
                    context.clone_into(&mut difference.context);
                }
                found.append(&mut differences);
                return Ok((theirs, self.kube_scheduler.objects.list("/api/v1/nodes").await?));
            }
        }
        Ok(Default::default())
    }

    /// The remaining results of both sides: events, requests and metrics.
    async fn traces(&self) -> Result<Vec<Difference>> {
        // Events are written later, and slowly.
        let mut said = Vec::new();
        let agreed = until("the same events", async || {
            let (theirs, ours) = try_join!(events(&self.kube_scheduler.objects), events(&self.berth.objects))?;
            said = Difference::between(Aspect::Event, &theirs, &ours);
            Ok(said.is_empty().then_some(()))
        });
        // If the events still differ at the end, `said` shows it.
        let _ = tokio::time::timeout(Duration::from_secs(10), agreed).await;
        let mut differences = said;
        let (theirs, ours) = (self.kube_scheduler.control_plane.audit()?, self.berth.control_plane.audit()?);
        differences.extend(Difference::between(Aspect::Request, &requests(&theirs), &requests(&ours)));
        differences.extend(self.metrics().await?);
        ensure!(!self.kube_scheduler.objects.list(PODS).await?.is_empty(), "there were pods");
        Ok(differences)
    }

    /// Gauges are only updated at times, so short differences do not count.
    async fn metrics(&self) -> Result<Vec<Difference>> {
        const LOOKS: u32 = 20;
        let mut differences = Vec::new();
        for _ in 0..LOOKS {
            let (theirs, ours) = try_join!(self.kube_scheduler.metrics(), self.berth.metrics())?;
            differences = Difference::between(Aspect::Metric, &moved(&theirs), &moved(&ours));
            if differences.iter().all(|difference| known::reason(difference).is_some()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(differences)
    }
}
