//! Files of cases about a plugin's words to people.

use std::sync::LazyLock;

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, Explain, Manifest, Plugin, PluginFactory, PluginType as _,
    PluginVersion, Points, PreFilter, Status,
};
use berth_model::NodeIdx;

/// Keeps pods with a negative priority off all nodes, and says the number that its PreFilter saw.
#[derive(Debug)]
struct Priorities {
    seen: i32,
}

berth_framework::plugin!(Priorities: PreFilter, Explain);

impl Configure for Priorities {
    fn describe() -> Manifest {
        Manifest { name: "Priorities".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { seen: 0 })
    }
}

impl PreFilter for Priorities {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.seen = call.pod.priority;
        if self.seen < 0 { Err(Status::unresolvable("below zero")) } else { Ok(None) }
    }
}

impl Explain for Priorities {
    fn explain(&mut self, call: &Call<'_>, node: Option<NodeIdx>) -> Result<String, Status> {
        let text = |node| call.table.symbols.text(call.table.name(node));
        Ok(match (self.seen, node) {
            (0, _) => String::new(),
            (seen, None) => format!("priority {seen} counts here"),
            (seen, Some(node)) => format!("priority {seen} counts on {}", text(node)),
        })
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Priorities::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Priorities::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Priorities::configure(args)?))
    }
}

const CASES: &str = "
plugin: Priorities
cases:
- name: the plugin explains itself
  steps:
  - nodes: [{metadata: {name: a}}, {metadata: {name: b}}]
    pod: {metadata: {name: web, namespace: team}, spec: {priority: 7}}
    expect:
      explain:
        contains: priority 7
      explainNodes:
        a: priority 7 counts on a
  - pod: {metadata: {name: web, namespace: team}, spec: {priority: -1}}
    expect:
      preFilter:
        code: UnschedulableAndUnresolvable
        reasons:
        - below zero
      explain: priority -1 counts here
  - pod: {metadata: {name: web, namespace: team}}
    expect:
      explain: ''
";

#[expect(clippy::expect_used, reason = "tests write the text")]
fn cases(text: &str) -> CaseFile {
    serde_saphyr::from_str(text).expect("cases")
}

fn differences(text: &str) -> Vec<String> {
    let results = cases(text).run(&Factory, &CaseHost::default());
    results.into_iter().flat_map(|result| result.differences).collect()
}

#[test]
fn words_are_compared_where_a_case_expects_some() {
    assert_eq!(differences(CASES), Vec::<String>::new());
    let wrong = CASES
        .replace("contains: priority 7", "contains: priority 8")
        .replace("a: priority 7 counts on a", "b: priority 7 counts on a")
        .replace("explain: ''", "explain: something");
    let told = [
        "step 1: Explain: \"priority 7 counts here\", expected a text with \"priority 8\"",
        "step 1: Explain about b: \"priority 7 counts on b\", expected \"priority 7 counts on a\"",
        "step 3: Explain: nothing, expected \"something\"",
    ];
    assert_eq!(differences(&wrong), told);
    let unknown = CASES.replace("a: priority 7 counts on a", "c: priority 7 counts on c");
    let told = "explainNodes: node c does not exist: correct the name, or add the node to `nodes`";
    assert!(differences(&unknown).concat().contains(told), "{:?}", differences(&unknown));
}

/// If the words are as expected, the author's text does not change, in full or in part.
#[test]
fn an_update_writes_the_words_down() {
    let wrong = CASES.replace("explain: priority -1 counts here", "explain: nobody counts");
    let updated = cases(&wrong).updated(&Factory, &CaseHost::default()).expect("answers");
    let text = serde_saphyr::to_string(&updated).expect("YAML");
    assert_eq!(differences(&text), Vec::<String>::new(), "{text}");
    assert!(text.contains("contains: priority 7") && text.contains("priority -1 counts here"), "{text}");
}
