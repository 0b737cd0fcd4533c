//! Cases of a plugin whose PreFilter narrows the nodes.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, DryRun, Failure, Manifest, Plugin, PluginFactory, PluginType as _,
    PluginVersion, Points, PostFilter, PostFilterOutcome, PreFilter, Status,
};

/// Lets a pod run on the nodes that its arguments name.
#[derive(Debug)]
struct Pinned(Vec<String>);

berth_framework::plugin!(Pinned: PreFilter, PostFilter);

impl Configure for Pinned {
    fn describe() -> Manifest {
        Manifest { name: "Pinned".to_owned(), ..Manifest::default() }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self(serde_json::from_str(args).map_err(ConfigureError::new)?))
    }
}

impl PreFilter for Pinned {
    fn pre_filter(&mut self, _call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        Ok(Some(self.0.clone()))
    }
}

impl PostFilter for Pinned {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let told = failure.absent.map(Status::message).unwrap_or_default();
        Ok(PostFilterOutcome { status: Status::unschedulable(told), nominate: None, effects: Vec::new() })
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Pinned::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Pinned::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Pinned::configure(args)?))
    }
}

/// The differences of a case with two nodes.
#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences(args: &str, expect: &str) -> Vec<String> {
    let nodes = "[{metadata: {name: a}}, {metadata: {name: b}}]";
    let text = format!(
        "{{plugin: Pinned, cases: [{{name: a, args: {args}, steps: [{{nodes: {nodes}, expect: {expect}}}]}}]}}"
    );
    let file: CaseFile = serde_saphyr::from_str(&text).expect("cases");
    file.run(&Factory, &CaseHost::default()).into_iter().flat_map(|result| result.differences).collect()
}

#[test]
fn a_narrowing_is_expected_by_the_names_of_the_nodes() {
    assert_eq!(differences("[b, a]", "{preFilter: {nodes: [a, b]}}"), Vec::<String>::new());
    assert_eq!(differences("[b]", "{preFilter: {nodes: [b]}}"), Vec::<String>::new());
    assert_eq!(
        differences("[b]", "{preFilter: {nodes: [a]}}"),
        ["PreFilter: passes with only b, expected passes with only a"]
    );
    assert_eq!(differences("[b]", "{}"), ["PreFilter: passes with only b, expected passes with all nodes"]);
}

/// The wrong name leaves no node, and the scheduler does not report the name.
#[test]
fn a_name_that_no_node_has_is_told() {
    let status = "{code: Unschedulable, reasons: [\"node(s) didn't satisfy plugin(s) [Pinned]\"]}";
    let told = differences("[nonexistent]", &format!("{{postFilter: {status}}}"));
    let expected = "PreFilter: passes with only nonexistent (the cluster of this step has no node nonexistent), expected \
                    passes with all nodes";
    assert_eq!(told, [expected]);
    let named = format!("{{preFilter: {{nodes: [nonexistent]}}, postFilter: {status}}}");
    assert_eq!(differences("[nonexistent]", &named), Vec::<String>::new());
}
