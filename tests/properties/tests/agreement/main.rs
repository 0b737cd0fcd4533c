//! Tests that the default plugins always give the same answers: natively and as components, with a history of the
//! cluster and without one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails is a test that fails")]

mod node_shares;
mod workloads;

use std::{cell::RefCell, collections::BTreeMap, sync::LazyLock};

use oracle::{Execution, Native, TestedProfile, Wasm, artefacts_of_tests};
use properties::{
    N_CASES,
    answers::{Answers, Outcome, ProfileRun, differences},
    changing_cluster::ChangingCluster,
    config,
    generate::{self, ClusterRecipe, random::Recipe},
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde_json::Value;

/// A change of up to this many objects is sent piece by piece, and a larger change as a whole.
const LOG_CAPACITY: usize = 150;

/// The components. They take half a minute to compile, unless an earlier test program has compiled them.
static WASM: LazyLock<Wasm> =
    LazyLock::new(|| Wasm::load(Some(&artefacts_of_tests(env!("CARGO_TARGET_TMPDIR")))).unwrap());

fn profile(execution: &dyn Execution) -> TestedProfile {
    TestedProfile::defaults(execution).unwrap()
}

/// One cluster, and two profiles that follow it from case to case.
struct Followers {
    cluster: ChangingCluster,
    native: TestedProfile,
    wasm: TestedProfile,
    n_cycles: u64,
    outcomes: BTreeMap<Outcome, u64>,
}

fn sync(subject: &mut TestedProfile, cluster: &ChangingCluster) {
    if let Err(berth_framework::run::Refusal { plugin, status }) = subject.profile.sync(cluster.cluster.cache()) {
        panic!("{}: {status:?}", subject.profile.name(plugin));
    }
}

fn ask(
    subject: &mut TestedProfile,
    cluster: &mut ChangingCluster,
    pod: &Value,
    order: &[String],
    seed: u64,
    cycle: u64,
) -> (Answers, Outcome) {
    let pod = cluster.intern(pod);
    sync(subject, cluster);
    let cluster = &cluster.cluster;
    let rows: Vec<_> = order.iter().map(|name| cluster.node(name).unwrap()).collect();
    ProfileRun { profile: &mut subject.profile, cluster, pod: &pod, order: &rows, seed, cycle }.answers()
}

fn order(cluster: &ChangingCluster) -> Vec<String> {
    let cluster = &cluster.cluster;
    cluster.cache().order().iter().map(|node| cluster.node_name(*node).to_owned()).collect()
}

/// The data that is needed to understand a difference.
fn report(
    cluster: &ChangingCluster,
    pod: &Value,
    left: (&str, &Answers),
    right: (&str, &Answers),
) -> Result<(), TestCaseError> {
    let differences = differences(left, right);
    if differences.is_empty() {
        return Ok(());
    }
    let objects = cluster.objects();
    let all = objects.nodes.values().chain(objects.pods.values()).chain(objects.others.values());
    let all: Vec<String> = all.map(Value::to_string).collect();
    Err(TestCaseError::fail(format!("{}\nthe pod:\n{pod}\nthe objects:\n{}", differences.join("\n"), all.join("\n"))))
}

impl Followers {
    fn new(wasm: &Wasm) -> Self {
        Self {
            cluster: ChangingCluster::new(LOG_CAPACITY),
            native: profile(&Native),
            wasm: profile(wasm),
            n_cycles: 0,
            outcomes: BTreeMap::new(),
        }
    }

    fn ask(&mut self, pod: &Value, seed: u64) -> Result<Answers, TestCaseError> {
        let order = order(&self.cluster);
        self.n_cycles += 2;
        let (native, outcome) = ask(&mut self.native, &mut self.cluster, pod, &order, seed, self.n_cycles);
        let (wasm, _) = ask(&mut self.wasm, &mut self.cluster, pod, &order, seed, self.n_cycles);
        *self.outcomes.entry(outcome).or_default() += 1;
        report(&self.cluster, pod, ("native", &native), ("wasm", &wasm))?;
        Ok(native)
    }

    /// Checks the percentage, if the run is long enough.
    fn at_least(&self, percent: u64, of: &[Outcome]) {
        let all: u64 = self.outcomes.values().sum();
        if all < 500 {
            return;
        }
        let those: u64 = of.iter().filter_map(|outcome| self.outcomes.get(outcome)).sum();
        assert!(those * 100 >= all * percent, "too few of {of:?}: {:?}", self.outcomes);
    }
}

fn pods() -> impl Strategy<Value = Vec<Recipe>> {
    vec(generate::pending_recipe(), 1..7)
}

fn numbered(pods: &[Recipe]) -> impl Iterator<Item = (Value, u64)> {
    (200..).zip(pods).map(|(number, recipe)| (generate::pending(number, recipe), recipe.seed))
}

/// Each case is a cluster with several pods. The profiles follow the changes from cluster to cluster.
#[test]
fn components_answer_as_native_plugins_do() {
    let followers = RefCell::new(Followers::new(&WASM));
    let cases = (generate::cluster(40), pods());
    let result = TestRunner::new(config(N_CASES)).run(&cases, |(cluster, pods)| {
        let followers = &mut *followers.borrow_mut();
        followers.cluster.become_state(&cluster.objects());
        numbered(&pods).try_for_each(|(pod, seed)| followers.ask(&pod, seed).map(drop))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let followers = followers.into_inner();
    println!("{:?}", followers.outcomes);
    followers.at_least(10, &[Outcome::Scored]);
    followers.at_least(2, &[Outcome::OnlyNode]);
    followers.at_least(3, &[Outcome::RejectedBeforeNodes]);
    followers.at_least(10, &[Outcome::RejectedByNodes]);
    followers.at_least(1, &[Outcome::Preempts]);
}

/// States of one cluster. Some objects change between them.
fn history() -> impl Strategy<Value = Vec<ClusterRecipe>> {
    let change = || (generate::cluster(6), any::<u64>());
    (generate::cluster(12), vec(change(), 0..6)).prop_map(|(first, changes)| {
        let mut history = vec![first];
        for (other, choices) in changes {
            let mut next = history[history.len() - 1].clone();
            next.change(&other, choices);
            history.push(next);
        }
        history
    })
}

/// If nodes report different sizes of an image, kube-scheduler uses the first report. This depends on the history,
/// which a new plugin does not know.
fn one_size(node: &mut Value) {
    let images = node.pointer_mut("/status/images").and_then(Value::as_array_mut);
    images.into_iter().flatten().for_each(|image| image["sizeBytes"] = 300_000_000.into());
}

/// A plugin that followed every change, natively or as a component, gives the same answers as a new plugin that gets
/// the same objects in one delta.
#[test]
fn followers_answer_as_newcomers_do() {
    let followers = RefCell::new(Followers::new(&WASM));
    let cases = (history(), pods());
    let result = TestRunner::new(config(N_CASES / 4)).run(&cases, |(history, pods)| {
        let followers = &mut *followers.borrow_mut();
        for cluster in &history {
            let mut objects = cluster.objects();
            objects.nodes.values_mut().for_each(one_size);
            followers.cluster.become_state(&objects);
            sync(&mut followers.native, &followers.cluster);
            sync(&mut followers.wasm, &followers.cluster);
        }
        let mut rebuilt = ChangingCluster::rebuilt(&followers.cluster);
        let (mut native, mut component) = (profile(&Native), profile(&*WASM));
        let order = order(&followers.cluster);
        for (pod, seed) in numbered(&pods) {
            let followed = followers.ask(&pod, seed)?;
            let (answers, _) = ask(&mut native, &mut rebuilt, &pod, &order, seed, followers.n_cycles);
            report(&rebuilt, &pod, ("follower", &followed), ("newcomer", &answers))?;
            let (answers, _) = ask(&mut component, &mut rebuilt, &pod, &order, seed, followers.n_cycles);
            report(&rebuilt, &pod, ("follower", &followed), ("new component", &answers))?;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    followers.into_inner().at_least(10, &[Outcome::Scored]);
}
