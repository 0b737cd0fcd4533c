//! Cases in which other plugins reject nodes before this plugin's PostFilter is called.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, DryRun, Effect, Failure, Manifest, Plugin, PluginFactory,
    PluginType as _, PluginVersion, Points, PostFilter, PostFilterOutcome, Score, Status,
};
use berth_model::NodeSet;

/// Nominates the first node whose rejection says that the node is full. The plugin has no Filter.
#[derive(Debug)]
struct MakesRoom;

berth_framework::plugin!(MakesRoom: Score, PostFilter);

impl Configure for MakesRoom {
    fn describe() -> Manifest {
        Manifest { name: "MakesRoom".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self)
    }
}

impl Score for MakesRoom {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.extend(nodes.iter().map(|_| 7));
        Ok(())
    }
}

impl PostFilter for MakesRoom {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        if failure.rejections.iter().any(|rejection| rejection.status.reasons == ["gone"]) {
            return Err(Status::unresolvable("nothing can be done"));
        }
        if failure.rejections.iter().any(|rejection| rejection.status.reasons == ["broken"]) {
            return Err(Status::error("boom"));
        }
        let full = failure.rejections.iter().find(|rejection| rejection.status.reasons == ["full"]);
        let Some(node) = full.and_then(|rejection| rejection.nodes.iter().next()) else {
            return Ok(PostFilterOutcome {
                status: Status::unschedulable("no node is full"),
                nominate: None,
                effects: Vec::new(),
            });
        };
        let effects = vec![Effect::Activate { uids: Vec::new() }];
        Ok(PostFilterOutcome { status: Status::success(), nominate: Some(Some(node)), effects })
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(MakesRoom::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        MakesRoom::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(MakesRoom::configure(args)?))
    }
}

/// The differences of a case with the nodes a and b.
#[expect(clippy::expect_used, reason = "tests write the text")]
fn differences(step: &str) -> Vec<String> {
    let nodes = "nodes: [{metadata: {name: a}}, {metadata: {name: b}}]";
    let text = format!("plugin: MakesRoom\ncases:\n- name: a\n  steps:\n  - {nodes}\n    {step}\n");
    let file: CaseFile = serde_saphyr::from_str(&text).expect("cases");
    file.run(&Factory, &CaseHost::default()).into_iter().flat_map(|result| result.differences).collect()
}

const FULL: &str = "{code: Unschedulable, reasons: [full]}";
const TAINTED: &str = "{code: UnschedulableAndUnresolvable, reasons: [tainted]}";

#[test]
fn post_filter_is_asked_about_nodes_that_others_reject() {
    let others = format!("rejectedByOthers: {{a: {TAINTED}, b: {FULL}}}");
    for code in ["code: Success, ", ""] {
        let answer = format!("{{{code}nominate: b, effects: [{{activate: []}}]}}");
        assert_eq!(differences(&format!("{others}\n    expect: {{postFilter: {answer}}}")), Vec::<String>::new());
    }
    let others = format!("rejectedByOthers: {{a: {TAINTED}, b: {TAINTED}}}");
    let answer = "{code: Unschedulable, reasons: [no node is full]}";
    assert_eq!(differences(&format!("{others}\n    expect: {{postFilter: {answer}}}")), Vec::<String>::new());
}

/// The scheduler also treats the error as a rejection. An error ends the case.
#[test]
fn a_rejection_may_come_as_an_error_of_post_filter() {
    let by = |reason: &str| {
        let rejection = format!("{{code: Unschedulable, reasons: [{reason}]}}");
        format!("rejectedByOthers: {{a: {rejection}, b: {rejection}}}")
    };
    let answer = "{code: UnschedulableAndUnresolvable, reasons: [nothing can be done]}";
    let rejected = format!("{}\n    expect: {{postFilter: {answer}}}", by("gone"));
    assert_eq!(differences(&rejected), Vec::<String>::new());
    let told = differences(&by("broken")).concat();
    assert!(told.contains("the plugin fails: boom"), "{told}");
}

/// The scheduler does not ask Score about a rejected node, and does not ask PostFilter while another node passes.
#[test]
fn a_node_that_others_reject_is_no_candidate() {
    let one = format!("rejectedByOthers: {{a: {FULL}}}\n    expect: {{scores: {{b: 7}}}}");
    assert_eq!(differences(&one), Vec::<String>::new());
    let told = differences("expect: {scores: {a: 7, b: 7}, postFilter: {code: Success}}");
    let why = "PostFilter: not called, because a node passes, or there are no nodes (`rejectedByOthers` makes nodes \
               fail), expected {\"code\":\"Success\"}";
    assert_eq!(told, [why]);
    let told = differences(&format!("rejectedByOthers: {{c: {FULL}}}"));
    assert_eq!(told, ["rejectedByOthers: node c does not exist: correct the name, or add the node to `nodes`"]);
}
