//! A scene through the scheduling core, with an API server that accepts every request immediately.
//!
//! Every pod costs as much as in a real scheduler between the decoded watch event and the request to bind. The two
//! events that follow are included: the API server's answer, and the watch event that shows the pod on its node. The
//! cost of decoding objects is deliberately absent: pods are decoded before the clock starts.
//!
//! `berth simulate` has the same API server, and the same loop that drives the scheduler and the API server
//! ([`berth_what_if::Simulation`]).
//!
//! The scheduler's time follows the work, a millisecond for each pod that is bound, so that two runs make the same
//! decisions. Its time is the real time if pods come at a rate.

mod storms;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use berth_builtins::factories;
use berth_config::InTree;
use berth_framework::{Grants, PluginFactory, Profile};
use berth_model::Time;
use berth_scheduler::{Event, Settings};
use berth_what_if::Simulation;
use serde_json::{Value, json};

use crate::{
    run::{AnswerTimes, EngineFigures, Run, RunConditions, Runner, StormFigures},
    usage,
    workload::{Change, Changes, Cluster, SCHEDULER_NAME, Scene},
};

/// The number of bound pods between two calls that report the progress.
const TOLD_EVERY: usize = 256;

/// The prefix of the names of pods that come during the measurement but do not count.
const CHURN: &str = "churn-";

/// Makes the profile for each run, which must be called [`SCHEDULER_NAME`].
pub type MakeProfile<'a> = Box<dyn FnMut() -> Result<Profile> + 'a>;

/// Runs scenes through the scheduling core.
pub struct EngineRunner<'a> {
    name: String,
    profile: MakeProfile<'a>,
    /// Gets the scheduler's time, which components must know.
    tell_time: Box<dyn Fn(Time) + 'a>,
}

impl std::fmt::Debug for EngineRunner<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the engine, {}", self.name)
    }
}

impl EngineRunner<'static> {
    /// The engine with the built-in plugins as linked into this program, in kube-scheduler's default profile.
    #[must_use]
    pub fn native() -> Self {
        Self::new("native", Box::new(|| default_profile(&factories())))
    }
}

impl<'a> EngineRunner<'a> {
    /// The engine with plugins that the caller provides; `name` says how they run.
    #[must_use]
    pub fn new(name: &str, profile: MakeProfile<'a>) -> Self {
        Self { name: name.to_owned(), profile, tell_time: Box::new(|_| ()) }
    }

    /// Sets `tell_time`, which is called before the scheduler works.
    #[must_use]
    pub fn telling_time(self, tell_time: impl Fn(Time) + 'a) -> Self {
        Self { tell_time: Box::new(tell_time), ..self }
    }
}

impl Runner for EngineRunner<'_> {
    fn name(&self) -> String {
        format!("engine, {}", self.name)
    }

    fn run(&mut self, scene: Scene, conditions: &RunConditions, progress: &mut dyn FnMut(usize)) -> Result<Run> {
        usage::forget_peak();
        let mut stage = Stage::new((self.profile)()?, &self.tell_time, conditions);
        stage.set_up(&scene)?;
        stage.play(&scene, conditions, progress)
    }

    fn storms(&mut self, conditions: &RunConditions, cluster: &Cluster) -> Result<Vec<StormFigures>> {
        self.all_storms(conditions, cluster)
    }
}

/// The names of the plugins that [`default_profile`] takes.
#[must_use]
pub fn plugins() -> Vec<String> {
    factories().iter().map(|factory| factory.manifest().name.to_string()).collect()
}

/// kube-scheduler's default profile, with these plugins.
///
/// # Errors
/// A plugin is missing, or refuses its arguments.
pub fn default_profile(factories: &[Arc<dyn PluginFactory>]) -> Result<Profile> {
    let entry = json!({"schedulerName": SCHEDULER_NAME});
    let config = berth_config::Profile::from_json(Some(&entry), &InTree::new(&berth_builtins::factories()))?;
    config.build(|name, args| {
        let factory = factories.iter().find(|factory| factory.manifest().name == **name);
        let factory = factory.with_context(|| format!("no plugin is called {name}"))?;
        let plugin = factory.build(args).map_err(|error| anyhow!("{name}: {error}"))?;
        Ok(Some(berth_config::ProvidedPlugin { plugin, grants: Grants::ALL }))
    })
}

/// A scheduler and its API server.
struct Stage<'a> {
    simulation: Simulation<'a>,
    figures: EngineFigures,
    /// The changes of pods. The list is empty between two turns.
    changes: Vec<berth_what_if::Change>,
}

/// Bindings of the measured pods.
struct Bound {
    start: Instant,
    /// Pods, each with its node.
    placements: Vec<(Arc<str>, Arc<str>)>,
    at: Vec<Duration>,
}

/// Pods that are created at a rate.
struct Arrivals {
    pods: std::vec::IntoIter<Event>,
    n_created: usize,
    per_second: f64,
}

impl<'a> Stage<'a> {
    fn new(profile: Profile, tell_time: &'a dyn Fn(Time), conditions: &RunConditions) -> Self {
        let settings = Settings {
            percentage_of_nodes_to_score: conditions.percentage_of_nodes_to_score,
            equivalence_cache: conditions.equivalence_cache,
            ..Settings::default()
        };
        let simulation = Simulation::new(settings, vec![profile]).telling_time(tell_time);
        Self { simulation, figures: EngineFigures::default(), changes: Vec::new() }
    }

    fn handle(&mut self, event: Event) {
        self.simulation.handle(event);
    }

    /// Creates the objects that exist before the clock starts, and places the initial pods.
    fn set_up(&mut self, scene: &Scene) -> Result<()> {
        self.simulation.tell_time();
        for object in scene.nodes.iter().chain(&scene.objects).chain(&scene.made_by_controllers) {
            self.create(object)?;
        }
        for pod in scene.placed.iter() {
            self.create(&pod)?;
        }
        self.handle(Event::Synced);
        for pod in scene.initial.iter() {
            self.create(&pod)?;
        }
        let mut bound = Bound::new();
        self.work(&mut bound, scene.initial.len(), None, &mut |_| ())?;
        for pod in scene.pending.iter() {
            self.create(&pod)?;
        }
        // The scheduler tries the pods that fit nowhere once, before the clock starts.
        while self.turn(&mut bound)? {}
        self.figures = EngineFigures::default();
        Ok(())
    }

    fn create(&mut self, object: &Value) -> Result<()> {
        Ok(self.simulation.create(object)?)
    }

    fn play(&mut self, scene: &Scene, conditions: &RunConditions, progress: &mut dyn FnMut(usize)) -> Result<Run> {
        let server = self.simulation.server_mut();
        let pods: Vec<Event> = scene.measured.iter().map(|pod| server.create(&pod)).collect::<Result<_, _>>()?;
        let n_pods = pods.len();
        let before = self.simulation.scheduler().metrics();
        let allocations = conditions.allocations.map(|count| count());
        let cpu = usage::cpu_of_this_thread();
        let mut bound = Bound::new();
        let mut latencies = Vec::new();
        match conditions.rate {
            None => {
                pods.into_iter().for_each(|pod| self.handle(pod));
                self.figures.queueing = bound.start.elapsed();
                self.work(&mut bound, n_pods, scene.changes.as_ref(), progress)?;
            }
            Some(rate) => {
                let arrivals = Arrivals { pods: pods.into_iter(), n_created: 0, per_second: rate };
                let order: Vec<String> = scene.measured.iter().map(|pod| name_of(&pod)).collect();
                self.work_at_rate(&mut bound, arrivals, scene.changes.as_ref(), progress)?;
                latencies = bound.latencies(&order, rate);
            }
        }
        let wall = bound.start.elapsed();
        let cpu = usage::cpu_of_this_thread().zip(cpu).map(|(end, start)| end.saturating_sub(start));
        let allocations = conditions.allocations.map(|count| count()).zip(allocations);
        let after = self.simulation.scheduler().metrics();
        self.figures.n_cycles = after.cycles - before.cycles;
        self.figures.n_cycles_with_earlier_answers =
            after.cycles_with_earlier_answers - before.cycles_with_earlier_answers;
        Ok(Run {
            n_pods,
            wall,
            threads: cpu.map(|cpu| ("scheduler".to_owned(), cpu)).into_iter().collect(),
            placements: bound.placements(),
            bound_at: bound.at,
            latencies,
            answers: AnswerTimes::default(),
            allocations: allocations.map(|(end, start)| end - start),
            peak_memory: usage::peak_memory("self"),
            engine: Some(self.figures),
        })
    }

    /// Works until `n_pods` are bound.
    fn work(
        &mut self,
        bound: &mut Bound,
        n_pods: usize,
        changes: Option<&Changes>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<()> {
        let mut n_told = 0;
        while bound.len() < n_pods {
            let n_before = bound.len();
            if !self.turn(bound)? {
                ensure!(self.simulation.sleep(), "{} of {n_pods} pods were not placed", n_pods - bound.len());
            }
            self.change(changes, n_before, bound.len())?;
            if bound.len() >= n_told + TOLD_EVERY {
                n_told = bound.len();
                self.simulation.drop_observations();
                progress(n_told);
            }
        }
        Ok(())
    }

    /// Works until all pods are bound. Each pod is created at its due time.
    fn work_at_rate(
        &mut self,
        bound: &mut Bound,
        mut arrivals: Arrivals,
        changes: Option<&Changes>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<()> {
        let n_pods = arrivals.pods.len();
        let mut n_told = 0;
        while bound.len() < n_pods {
            let elapsed = bound.start.elapsed();
            self.simulation.set_now(Simulation::START + u64::try_from(elapsed.as_millis())?);
            while let Some(pod) = arrivals.next_by(elapsed) {
                self.handle(pod);
            }
            let n_before = bound.len();
            if !self.turn(bound)? && arrivals.pods.len() == 0 {
                let is_stuck = self.simulation.scheduler().next_wakeup().is_none();
                ensure!(!is_stuck, "{} of {n_pods} pods were not placed", n_pods - bound.len());
            }
            self.change(changes, n_before, bound.len())?;
            if bound.len() >= n_told + TOLD_EVERY {
                n_told = bound.len();
                self.simulation.drop_observations();
                progress(n_told);
            }
        }
        Ok(())
    }

    /// Runs one cycle and its consequences. Returns whether anything happened.
    fn turn(&mut self, bound: &mut Bound) -> Result<bool> {
        let start = Instant::now();
        let did_something = self.simulation.decide();
        self.figures.cycles += start.elapsed();
        let start = Instant::now();
        self.simulation.confirm(&mut self.changes)?;
        for change in self.changes.drain(..) {
            if let berth_what_if::Change::Bound { pod, node } = change
                && !pod.name.starts_with(CHURN)
            {
                self.simulation.set_now(self.simulation.now() + 1);
                bound.put(pod.name, node);
            }
        }
        self.figures.confirming += start.elapsed();
        Ok(did_something)
    }

    fn change(&mut self, changes: Option<&Changes>, n_before: usize, n_bound: usize) -> Result<()> {
        let Some(changes) = changes else { return Ok(()) };
        for n_bound in n_before + 1..=n_bound {
            for change in changes.after(n_bound) {
                let server = self.simulation.server_mut();
                let event = match change {
                    Change::Create(object) => server.create(&object)?,
                    Change::Delete(object) => server.delete(&object)?,
                };
                self.handle(event);
            }
        }
        Ok(())
    }
}

impl Arrivals {
    /// The next pod; `None` if the pod is not due yet.
    fn next_by(&mut self, elapsed: Duration) -> Option<Event> {
        let due = self.n_created as f64 / self.per_second;
        if due > elapsed.as_secs_f64() {
            return None;
        }
        self.n_created += 1;
        self.pods.next()
    }
}

impl Bound {
    fn new() -> Self {
        Self { start: Instant::now(), placements: Vec::new(), at: Vec::new() }
    }

    fn len(&self) -> usize {
        self.at.len()
    }

    fn put(&mut self, pod: Arc<str>, node: Arc<str>) {
        self.placements.push((pod, node));
        self.at.push(self.start.elapsed());
    }

    /// The node of each pod.
    fn placements(&self) -> BTreeMap<String, String> {
        self.placements.iter().map(|(pod, node)| (pod.to_string(), node.to_string())).collect()
    }

    /// The time from the moment at which each pod was due, even if the loop created it late.
    fn latencies(&self, order: &[String], rate: f64) -> Vec<Duration> {
        let created: BTreeMap<&str, Duration> = order
            .iter()
            .enumerate()
            .map(|(at, pod)| (pod.as_str(), Duration::from_secs_f64(at as f64 / rate)))
            .collect();
        let latency =
            |((pod, _), at): (&(Arc<str>, Arc<str>), &Duration)| Some(at.saturating_sub(*created.get(&**pod)?));
        self.placements.iter().zip(&self.at).filter_map(latency).collect()
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
