//! One mistake of a plugin is one failed property.

#![expect(clippy::expect_used, clippy::panic, reason = "a test ends where its footing is gone")]

use std::sync::LazyLock;

use berth_author::{CheckOutcome, Situation, conformance, measure};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, DryRunCase, Filter, Manifest, Plugin, PluginFactory, PluginType as _,
    PluginVersion, Points, RejectedNodes, Score, Status,
};
use berth_model::{NodeSet, Pod};

/// A plugin that makes the mistake that its argument names.
#[derive(Debug)]
struct Mistaken {
    mistake: String,
    /// The largest number of nodes that the plugin has seen at a time.
    most: usize,
}

berth_framework::plugin!(Mistaken: Filter, Score);

impl Configure for Mistaken {
    fn describe() -> Manifest {
        Manifest { name: "Mistaken".to_owned(), ..Manifest::default() }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        match args.trim_matches('"') {
            "null" => Err(ConfigureError::new("name a mistake")),
            mistake => Ok(Self { mistake: mistake.to_owned(), most: 0 }),
        }
    }
}

impl Filter for Mistaken {
    fn filter(&mut self, call: &Call<'_>, _candidates: &mut NodeSet) -> Result<(), Status> {
        let n_nodes = call.table.nodes().len();
        match self.mistake.as_str() {
            "always fails" => Err(Status::error("it failed")),
            "fails without nodes" if n_nodes == 0 => Err(Status::error("divided by zero")),
            "fails with ten pods on each node" if call.table.pods().n_pods() > 40_000 => {
                Err(Status::error("took too much"))
            }
            "fails with many nodes" if n_nodes > 1000 => Err(Status::error("took too long")),
            _ => Ok(()),
        }
    }

    fn node_to_status(&mut self, _call: &Call<'_>, _rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(Vec::new())
    }

    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|_| Status::success()).collect())
    }
}

impl Score for Mistaken {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.most = self.most.max(call.table.nodes().len());
        let score = match self.mistake.as_str() {
            "scores 250" => 250,
            "forgets no node" => i64::try_from(self.most % 100).unwrap_or_default(),
            _ => 1,
        };
        scores.extend(nodes.iter().map(|_| score));
        Ok(())
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Mistaken::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Mistaken::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Mistaken::configure(args)?))
    }
}

/// The only property that fails, and the reason.
fn failed(mistake: &str) -> (&'static str, String) {
    let checks = conformance(&Factory, &Situation::of_args(&format!("{mistake:?}")), 1).expect("accepted arguments");
    let failed = checks.into_iter().filter_map(|check| match check.outcome {
        CheckOutcome::Failed(reason) => Some((check.property, reason)),
        CheckOutcome::Passed | CheckOutcome::NotApplicable | CheckOutcome::Unchecked => None,
    });
    let failed: Vec<_> = failed.collect();
    let [only] = failed.as_slice() else { panic!("{mistake}: {failed:?}") };
    only.clone()
}

#[test]
fn a_score_out_of_range_is_told_once() {
    let (property, reason) = failed("scores 250");
    assert_eq!(property, "normalised scores lie between 0 and 100");
    assert!(reason.ends_with(" scores 250"), "{reason}");
}

#[test]
fn a_fault_is_told_once() {
    let expected = ("each exported extension point answers without a fault", "it failed".to_owned());
    assert_eq!(failed("always fails"), expected);
    let checks = conformance(&Factory, &Situation::of_args("always fails"), 1).expect("accepted arguments");
    let unchecked = checks.iter().filter(|check| check.outcome == CheckOutcome::Unchecked).count();
    assert_eq!(unchecked, 7, "{checks:?}");
}

#[test]
fn a_fault_of_one_size_belongs_to_that_size() {
    let empty = ("answers about an empty cluster", "divided by zero".to_owned());
    assert_eq!(failed("fails without nodes"), empty);
    let huge = ("answers about 5,000 nodes with 50,000 pods within the limits", "took too long".to_owned());
    assert_eq!(failed("fails with many nodes"), huge);
}

/// A plugin that `verify` accepts does not fault in `bench`.
#[test]
fn what_bench_finds_is_found_by_verify() {
    let mistake = "fails with ten pods on each node";
    let situation = Situation::of_args(&format!("{mistake:?}"));
    assert_eq!(measure(&Factory, &situation, 5000).expect_err("a fault").to_string(), "took too much");
    let huge = ("answers about 5,000 nodes with 50,000 pods within the limits", "took too much".to_owned());
    assert_eq!(failed(mistake), huge);
}

#[test]
fn the_delta_is_named_that_a_replica_did_not_follow() {
    let (property, reason) = failed("forgets no node");
    assert_eq!(property, "a replica updated by deltas answers like a new replica");
    let told = reason.strip_prefix("the replica differs from a fresh one after a delta with ").expect("a delta");
    let (delta, differences) = told.split_once(": ").expect("differences");
    assert!(
        delta.split(", ").any(|change| change.starts_with("Node node-") && change.ends_with(" removed")),
        "{delta}"
    );
    assert!(delta.split(", ").count() <= 5 && differences.contains("node-0: scores 18, expected 17; "), "{reason}");
    assert!(differences.ends_with(" and 12 more"), "{reason}");
}

#[test]
fn refused_arguments_are_no_property() {
    let refused = conformance(&Factory, &Situation::of_args("null"), 1).expect_err("refused arguments");
    assert_eq!(refused.to_string(), "name a mistake");
}
