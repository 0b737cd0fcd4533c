//! The output of `berth plugin` about a component.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use berth_test_guests::{At, BadStart, Behavior, GuestFault, WantedEffect, asks_for, bad_start, faults_at};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    journey::blocks,
    plugin_life::{Bench, PLUGIN_CONFIG, by_priority, digest, place},
    process::{Ended, Process},
};

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a component, as after an author's build.
struct Project(TempDir);

impl Project {
    fn new(name: &str, component: &[u8]) -> Self {
        let project = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(project.path().join("build")).expect("a folder");
        fs::write(project.path().join(format!("build/{name}.wasm")), component).expect("a file");
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    async fn berth(&self, arguments: &[&str]) -> Ended {
        let ended = self.tries(arguments).await;
        assert!(ended.status.success(), "{}{}", ended.out, ended.err);
        ended
    }

    async fn tries(&self, arguments: &[&str]) -> Ended {
        let (here, cache) = (self.path().display().to_string(), self.path().join("cache").display().to_string());
        let arguments = [&["plugin"], arguments, &[here.as_str()]].concat();
        Process::berth_with(arguments, &[("XDG_CACHE_HOME", &cache)]).ended(LIMIT).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_bring_pods_back_are_shown_in_words() {
    let component = berth_components::COMPONENTS.iter().find(|component| component.name == "NodeAffinity");
    let project = Project::new("NodeAffinity", component.expect("a built-in").bytes());
    let shown = project.berth(&["inspect"]).await.out;
    assert!(shown.contains("Tries pods again on  Node: Add, UpdateNodeLabel\n"), "{shown}");
    let report: Value = serde_json::from_str(&project.berth(&["inspect", "-o", "json"]).await.out).expect("JSON");
    assert_eq!(report["eventsToRegister"][0], "Node: Add, UpdateNodeLabel");
}

/// The component is a built-in that binds and reads no names.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_warns_of_a_component_that_cannot_know_names() {
    for (name, warns) in [("DefaultBinder", true), ("NodeAffinity", false)] {
        let component = berth_components::COMPONENTS.iter().find(|component| component.name == name);
        let project = Project::new(name, component.expect("a built-in").bytes());
        let script = project.path().join("build.sh");
        fs::write(&script, "#!/bin/sh\n").expect("a file");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file");
        let said = project.berth(&["build"]).await.err;
        assert_eq!(said.contains("warning: the plugin exports cycle but not sync"), warns, "{name}: {said}");
    }
}

/// The component is the example that reads a kind, and time passes in its cases.
#[tokio::test(flavor = "multi_thread")]
async fn cases_say_what_a_plugin_may_do_and_what_it_is_verified_with() {
    let project = Project::new("LoadAware", berth_test_components::component("LoadAware"));
    let cases = include_str!("../../../plugins/examples/load-aware/cases.yaml");
    let (granted, cases) = cases.split_once("cases:").expect("cases");
    assert!(granted.contains("grants: {reads: ["), "the example says what it needs");
    let file = project.path().join("cases.yaml");
    let path = file.display().to_string();
    let write = |terms: &str| fs::write(&file, format!("plugin: LoadAware\n{terms}\ncases:{cases}")).expect("a file");
    write("limits: {memory: 32Mi}\ngrants: {reads: [slo.koordinator.sh/v1alpha1/NodeMetric]}");
    project.berth(&["test"]).await;
    let before = fs::read_to_string(&file).expect("a file");
    let updated = project.berth(&["test", "--update"]).await.err;
    assert!(updated.contains("cases.yaml: all answers are the same"), "{updated}");
    assert_eq!(fs::read_to_string(&file).expect("a file"), before);
    let verified = project.berth(&["verify", "--cases", &path]).await.out;
    assert!(
        verified.contains(
            "a report of six minutes ago says nothing:\n  ok      each exported extension point answers without a fault"
        ),
        "{verified}"
    );
    let measured = project.berth(&["bench", "--cases", &path, "--nodes", "50", "-o", "json"]).await.out;
    let report: Value = serde_json::from_str(&measured).expect("JSON");
    let sizes = &report["sizes"][0];
    assert!(sizes["memory"].as_u64() >= Some(1 << 20) && sizes["nNodes"] == 50, "{sizes}");
    assert!(sizes["fullDelta"].as_u64() > sizes["onePod"].as_u64() && sizes["onePod"].as_u64() > Some(0), "{sizes}");
    assert!(report["calls"].as_array().is_some_and(|calls| calls.len() == 5), "{report}");
    let table = project.berth(&["bench", "--cases", &path, "--nodes", "50"]).await.out;
    assert!(table.contains("FULL DELTA"), "{table}");

    for (terms, code, parts) in [
        (
            "grants: {effects: [event]}",
            2,
            [
                "cases.yaml: grants: LoadAware reads slo.koordinator.sh/v1alpha1/NodeMetric, as its manifest says",
                "write `grants: {reads: [slo.koordinator.sh/v1alpha1/NodeMetric], effects: [event]}` here",
            ],
        ),
        ("limits: {memory: 1Mi}", 1, ["asked for", "bytes of memory (limit 1048576)"]),
        (
            "limits: {memry: 1Mi}",
            2,
            ["cases.yaml: limits.memry: error: line 2 column 10: unknown field `memry`", "memory"],
        ),
        ("grants: {effects: [waits]}", 2, ["cases.yaml: grants.effects[0]: error: line 2 column 20: ", "`waits`"]),
    ] {
        write(terms);
        let refused = project.tries(&["test"]).await;
        let said = refused.out + &refused.err;
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{terms}: {said}");
    }
}

/// The scheduler treats a hint that traps as `queue`, and the instance is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_case_fails_whose_hint_traps() {
    let guest = berth_test_guests::trapping_hint("Hinted").expect("a component");
    let project = Project::new("Hinted", &guest);
    let cases = "plugin: Hinted\ncases:\n- name: a node comes\n  steps:\n  - pod: {metadata: {name: p, namespace: default}}\n    \
                 event: {resource: Node, actions: [Add], new: {metadata: {name: a}}}\n    expect: {hint: queue}\n";
    fs::write(project.path().join("cases.yaml"), cases).expect("a file");
    let tested = project.tries(&["test"]).await;
    assert_eq!(tested.status.code(), Some(1), "{}{}", tested.out, tested.err);
    assert!(tested.out.contains("the plugin fails: "), "{}{}", tested.out, tested.err);
}

/// The component builds and serves until it gets a question.
#[tokio::test(flavor = "multi_thread")]
async fn verify_finds_a_line_of_plugin_wit_that_has_no_method() {
    let project =
        Project::new("NoMethod", &faults_at("NoMethod", At::Permit, GuestFault::NoMethod).expect("a component"));
    let verified = project.tries(&["verify"]).await;
    assert!(verified.out.contains(": the scheduler accepts the component\n"), "{}", verified.out);
    assert_eq!(verified.status.code(), Some(1), "{}{}", verified.out, verified.err);
    let property = "FAILED  each exported extension point answers without a fault\n";
    let sentence = "does the plugin have a method for `permit`, which its plugin.wit exports?";
    assert!(verified.out.contains(property) && verified.out.contains(sentence), "{}", verified.out);
    assert_eq!(verified.out.matches("FAILED").count(), 1, "{}", verified.out);
    let harmless = berth_test_guests::harmless("Harmless", At::Permit).expect("a component");
    Project::new("Harmless", &harmless).berth(&["verify"]).await;
}

/// Writes a case for the plugin `ByPriority`, with a pod of this priority.
fn case_of(project: &Project, priority: i32, expect: &str) {
    let text = format!(
        "plugin: ByPriority\ncases:\n- name: one\n  pod: {{metadata: {{name: p}}, spec: {{priority: {priority}}}}}\n  \
         steps:\n  - nodes: [{{metadata: {{name: a}}}}]\n    expect: {{{expect}}}\n"
    );
    fs::write(project.path().join("cases.yaml"), text).expect("a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_takes_the_cases_beside_the_plugin() {
    let project = Project::new("ByPriority", &by_priority(1));
    case_of(&project, Behavior::Trap.priority(), "");
    let with_cases = project.tries(&["verify"]).await;
    assert!(with_cases.out.contains("\none:\n") && with_cases.out.contains("a test trap"), "{}", with_cases.out);
    let without = project.tries(&["verify", "--args", "null"]).await;
    assert!(!without.out.contains("a test trap"), "{}", without.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_that_the_scheduler_faults_fails_the_test_that_expects_it() {
    let project = Project::new("ByPriority", &by_priority(1));
    case_of(&project, Behavior::ScoreTooHigh.priority(), "scores: {a: 1000000}");
    let tested = project.tries(&["test"]).await;
    assert_eq!(tested.status.code(), Some(1), "{}{}", tested.out, tested.err);
    assert!(tested.out.contains("a: invalid score 1000000: must be from 0 to 100"), "{}", tested.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_that_the_scheduler_faults_is_one_failed_property() {
    let project = Project::new("ByPriority", &by_priority(1));
    case_of(&project, Behavior::ScoreTooHigh.priority(), "");
    let verified = project.tries(&["verify"]).await;
    assert_eq!(verified.out.matches("FAILED").count(), 1, "{}", verified.out);
    assert!(verified.out.contains("FAILED  normalised scores lie between 0 and 100\n"), "{}", verified.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_refused_or_no_json_are_one_error() {
    let refuses = bad_start("Refuses", BadStart::RefuseArguments).expect("a component");
    let project = Project::new("Refuses", &refuses);
    for command in ["verify", "bench"] {
        let refused = project.tries(&[command, "--args", "{\"prefer\":\"x\"}"]).await;
        assert_eq!((refused.status.code(), refused.out.as_str()), (Some(2), ""), "{}", refused.err);
        assert!(
            refused.err.contains(&format!("error: --args: {}", BadStart::RefuseArguments.reason())),
            "{}",
            refused.err
        );
        let no_json = project.tries(&[command, "--args", "{prefer: x}"]).await;
        assert_eq!((no_json.status.code(), no_json.out.as_str()), (Some(2), ""), "{}", no_json.err);
        assert!(
            no_json.err.contains("error: --args: not valid JSON: key must be a string at line 1"),
            "{}",
            no_json.err
        );
    }
    let cases = "plugin: Refuses\ncases:\n- name: one\n  args: 1\n  steps: [{}]\n";
    fs::write(project.path().join("cases.yaml"), cases).expect("a file");
    let refused = project.tries(&["verify"]).await;
    let place = format!("cases.yaml: case \"one\": {}", BadStart::RefuseArguments.reason());
    assert_eq!((refused.status.code(), refused.out.as_str()), (Some(2), ""), "{}", refused.err);
    assert!(refused.err.contains(&place), "{}", refused.err);
    fs::write(project.path().join("cases.yaml"), cases.replace("plugin: Refuses", "plugin: Refuse")).expect("a file");
    let other = project.tries(&["test"]).await;
    let place = "cases.yaml: plugin: the cases are about \"Refuse\", and the component is \"Refuses\"";
    assert!(other.status.code() == Some(2) && other.err.contains(place), "{}", other.err);
}

/// The plugin copies many columns for each node, and the file grants it little memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_shows_the_sizes_before_the_one_that_fails() {
    let component = berth_components::COMPONENTS.iter().find(|component| component.name == "NodeAffinity");
    let project = Project::new("NodeAffinity", component.expect("a built-in").bytes());
    let cases = "plugin: NodeAffinity\nlimits: {memory: 1400Ki}\ncases:\n- name: one\n";
    fs::write(project.path().join("cases.yaml"), cases).expect("a file");
    let sizes = ["--nodes", "10,3000"];
    let shown = project.tries(&["bench", sizes[0], sizes[1]]).await;
    assert_eq!(shown.status.code(), Some(1), "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("PreFilter") && shown.out.contains("FULL DELTA"), "{}{}", shown.out, shown.err);
    assert!(shown.err.contains("error: 3000 nodes: NodeAffinity "), "{}", shown.err);
    let json = project.tries(&["bench", sizes[0], sizes[1], "-o", "json"]).await;
    assert_eq!(json.status.code(), Some(1), "{}{}", json.out, json.err);
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&report["sizes"][0]["nNodes"], &report["failed"]["nNodes"]), (&10.into(), &3000.into()), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_older_than_its_source_is_warned_about_and_compared_under_any_name() {
    let project = Project::new("ByPriority", &by_priority(2));
    let before = project.path().join("build-before");
    fs::write(&before, by_priority(1)).expect("a file");
    let against = ["bench", "--nodes", "10", "--against", before.to_str().expect("a path")];
    let shown = project.berth(&against).await;
    assert!(!shown.err.contains("is older than"), "{}", shown.err);
    fs::write(project.path().join("plugin.py"), "").expect("a file");
    let source = fs::File::options().write(true).open(project.path().join("plugin.py")).expect("a file");
    source.set_modified(SystemTime::now() + Duration::from_secs(60)).expect("a time");
    let shown = project.berth(&against).await;
    assert!(shown.err.contains("plugin.py; run `berth plugin build`"), "{}", shown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_refuses_a_plugins_directory_inside_the_project() {
    let project = Project::new("ByPriority", &by_priority(1));
    for inside in [".", "build"] {
        let dir = project.path().join(inside).display().to_string();
        let refused = project.tries(&["dev", "--plugins-dir", &dir]).await;
        assert_eq!(refused.status.code(), Some(2), "{}", refused.err);
        let told = format!("error: --plugins-dir {dir}: lies inside the plugin's folder ");
        assert!(refused.err.contains(&told) && refused.err.contains("outside of this folder"), "{}", refused.err);
    }
}

/// The scheduler accepts the kind, because a CRD may define it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_nearly_one_of_kubernetes_is_warned_of() {
    for (kind, warns) in [("Configmap", true), ("ConfigMap", false), ("Secret", false)] {
        let component = berth_test_guests::shows_objects("Shows", "v1", kind).expect("a component");
        let project = Project::new("Shows", &component);
        let said = project.berth(&["inspect"]).await.err;
        let warning =
            "warning: the manifest names v1/Configmap, which is not a Kubernetes kind: did you mean ConfigMap?\n";
        assert_eq!(said.contains(warning), warns, "{kind}: {said}");
        assert_eq!(said.contains("is not a Kubernetes kind"), warns, "{kind}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_tells_of_events_only_where_pods_can_be_rejected() {
    for (at, tells) in [(At::Score, false), (At::Permit, true)] {
        let project = Project::new("Harmless", &berth_test_guests::harmless("Harmless", at).expect("a component"));
        let shown = project.berth(&["inspect"]).await.out;
        assert_eq!(shown.contains("Tries pods again on"), tells, "{shown}");
    }
}

/// `verify` asks dozens of instances, and each of them reports the read.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_was_not_declared_is_one_warning() {
    let project = Project::new("ByPriority", &by_priority(1));
    case_of(&project, Behavior::ReadUndeclared.priority(), "scores: {a: 1}");
    for (command, options) in [("test", &[][..]), ("verify", &[]), ("bench", &["--nodes", "10,20"])] {
        let said = project.tries(&[&[command], options].concat()).await.err;
        let about: Vec<&str> = said.lines().filter(|line| line.contains("column labels")).collect();
        let [warning] = about.as_slice() else { panic!("{command}: {said}") };
        let expected = "warning: ByPriority reads column labels, which its manifest does not name: it is always empty (reported by ";
        assert!(warning.starts_with(expected), "{command}: {said}");
        assert_eq!(warning.ends_with(" 1 instance)"), command == "test", "{command}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_names_all_grants_that_a_plugin_needs_and_no_other() {
    let text = str::to_owned;
    let patch = WantedEffect::Patch([text("v1/ConfigMap"), text("default"), text("map"), text("{}")]);
    // The component has the name of a built-in, but other needs.
    let component = asks_for("DefaultPreemption", At::Bind, &[WantedEffect::Bind, patch]).expect("a component");
    let project = Project::new("DefaultPreemption", &component);
    let shown = project.berth(&["inspect"]).await.out;
    let unknown =
        "nothing; the plugin needs no grants; and the effects that it asks for: cases.yaml beside it would show these";
    assert!(shown.contains(unknown), "{shown}");
    let cases = "plugin: DefaultPreemption\ncases:\n- name: one\n  pod: {metadata: {name: p, namespace: default}}\n  steps:\n  \
                 - {nodes: [{metadata: {name: a}}], bindTo: a}\n";
    fs::write(project.path().join("cases.yaml"), cases).expect("a file");
    let shown = project.berth(&["inspect"]).await.out;
    let needs = "nothing; the plugin needs plugins: [{name: DefaultPreemption, grants: {effects: [bind], rules: [{apiGroups: [\"\"], \
        kinds: [ConfigMap], verbs: [patch]}]}}]\n";
    assert!(shown.contains(needs), "{shown}");
    let file = "\n--plugin-config      {apiVersion: berth.dev/v1alpha1, kind: PluginHostConfiguration, plugins: [";
    assert!(shown.contains(file) && !shown.ends_with("\n\n"), "{shown}");
    // The grants of the cases are not contradicted, even if the cases use fewer grants.
    let with_grants = |grants: &str| fs::write(project.path().join("cases.yaml"), format!("{grants}\n{cases}"));
    let granted = "grants: {effects: [bind, event], rules: [{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [patch, create], \
                   namespaces: [\"*\"]}]}";
    with_grants(granted).expect("a file");
    let shown = project.berth(&["inspect"]).await.out;
    let own = format!(
        "nothing; its test cases (cases.yaml) use these grants, which are enough: plugins: [{{name: DefaultPreemption, {granted}}}]\n"
    );
    assert!(shown.contains(&own), "{shown}");
    with_grants("grants: {effects: [bind, event]}").expect("a file");
    let shown = project.berth(&["inspect"]).await.out;
    let more = "nothing; the plugin needs plugins: [{name: DefaultPreemption, grants: {effects: [bind, event], rules: [{apiGroups: [\"\"], \
        kinds: [ConfigMap], verbs: [patch]}]}}]; `grants` in its files of cases has less: berth plugin test shows what is missing\n";
    assert!(shown.contains(more), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_compiled_once_is_not_compiled_again() {
    let project = Project::new("ByPriority", &by_priority(1));
    let compiled = || {
        let files = fs::read_dir(project.path().join("cache/berth/plugins")).expect("a folder");
        let files = files.map(|entry| entry.expect("an entry").path());
        let mut compiled = files.filter(|path| path.extension().is_some_and(|extension| extension == "compiled"));
        let only = compiled.next().expect("the plugin's");
        assert_eq!(compiled.next(), None, "one plugin, one file");
        (only.metadata().expect("a file").len(), only)
    };
    project.berth(&["inspect"]).await;
    let (_, first) = compiled();
    let name = first.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.starts_with(&digest(1)), "{name}");
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("a file"));
    let before = inode(&first);
    project.berth(&["inspect", "-o", "json"]).await;
    assert_eq!(inode(&compiled().1), before, "it was written anew");
}

/// The project's build copies an existing file, so the test needs no toolchain.
#[tokio::test(flavor = "multi_thread")]
async fn dev_says_what_the_scheduler_makes_of_each_build() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    let project = Project::new("ByPriority", &by_priority(1));
    let source = project.path().join("source");
    place(&source, &by_priority(1));
    let script = project.path().join("build.sh");
    fs::write(&script, "#!/bin/sh\nset -eu\ncp source build/ByPriority.wasm\necho >> build/builds\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file");
    let plugins = bench.file().parent().expect("a folder").display().to_string();
    let (here, socket) = (project.path().display().to_string(), bench.scheduler.socket());
    let mut dev = Process::berth(["plugin", "dev", "--plugins-dir", &plugins, "--socket", &socket, &here]);
    dev.line("ByPriority.wasm is in place").await;
    dev.line("the scheduler accepted ByPriority").await;
    place(&source, b"no component");
    dev.line("not swapped: ").await;
    place(&source, &by_priority(2));
    dev.line(": on probation in ").await;
    place(&project.path().join("dev.log"), b"no source");
    bench.create("trapping", Behavior::Trap).await;
    dev.line("the scheduler rolled ByPriority back to the previous binary: ").await;
    bench.serves(&digest(1)).await;
    let builds = fs::read_to_string(project.path().join("build/builds")).expect("a file");
    assert_eq!(builds.len(), 3, "a log in the folder is no change of the sources");
    dev.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_says_the_commands_of_the_guide() {
    let pages = ["rust", "go", "python", "js", "c"].map(|language| match language {
        "rust" => (language, blocks("first-plugin.md", "console")[1].clone()),
        "js" => (language, blocks("languages/javascript.md", "console")[0].clone()),
        other => (language, blocks(&format!("languages/{other}.md"), "console")[0].clone()),
    });
    let home = tempfile::tempdir().expect("a folder");
    for (language, guide) in pages {
        let dir = home.path().join(language).display().to_string();
        let made = Process::berth(["plugin", "new", "AvoidZone", "--lang", language, "--dir", &dir]).ended(LIMIT).await;
        assert!(made.status.success(), "{}", made.err);
        let readme = fs::read_to_string(home.path().join(language).join("README.md")).expect("a file");
        let commands = |text: &str| {
            let lines = text.lines().filter(|line| line.starts_with("berth plugin ") && !line.contains(" new "));
            let words = lines.map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
            words.collect::<Vec<_>>()
        };
        assert_eq!(commands(&readme), commands(&guide), "{language}");
    }
}

/// The script prints the output of componentize-py.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_the_source_is_three_lines() {
    let project = Project::new("Zone", b"");
    let here = project.path().canonicalize().expect("a folder").display().to_string();
    let said = format!(
        "Traceback (most recent call last):\n  File \"{here}/plugin.py\", line 3\n    def filter(self\n              ^\n\
         SyntaxError: '(' was never closed\n\nCaused by:\n    0: error while executing at wasm backtrace:\n"
    );
    fs::write(project.path().join("said"), said).expect("a file");
    let script = project.path().join("build.sh");
    fs::write(&script, "#!/bin/sh\necho installing\ncat said >&2\nexit 1\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file");
    let ended = Process::berth(["plugin", "build", &here]).ended(LIMIT).await;
    assert_eq!(ended.status.code(), Some(1));
    let expected = "error: plugin.py:3\n    def filter(self\nSyntaxError: '(' was never closed\n(the complete output of the \
         tools: ";
    assert!(ended.err.starts_with("installing\n") && ended.err.contains(expected), "{}", ended.err);
    assert!(!ended.err.contains("backtrace"), "{}", ended.err);
    assert!(fs::read_to_string(project.path().join("build/build.log")).expect("a file").contains("backtrace"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_names_of_a_plugin_are_told_with_their_places() {
    let project = Project::new("Zone", &by_priority(1));
    fs::write(project.path().join("build.sh"), "#!/bin/sh\nexec berth/build.sh . \"Zone\"\n").expect("a file");
    fs::write(project.path().join("plugin.py"), "class Plugin:\n    name = 'ByPriority'\n").expect("a file");
    let told = project.tries(&["inspect"]).await.err;
    let places = "must be equal. The file name is set at build.sh:2, and the manifest name at plugin.py:2\n";
    assert!(told.contains(places), "{told}");
}

/// The output names a missing tool only if the tool is really missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_build_in_rust_says_what_the_machine_lacks() {
    let home = tempfile::tempdir().expect("a folder");
    let here = home.path().display().to_string();
    fs::create_dir(home.path().join("src")).expect("a folder");
    fs::write(home.path().join("src/lib.rs"), "pub fn zone() -> u8 { \"west\" }\n").expect("a file");
    let manifest = "[package]\nname = \"zone\"\nversion = \"0.1.0\"\n\n[workspace]\n\n[dependencies]\n";
    let fetch = "error: cargo build failed: a package is not on this machine; if its name is right, run `cargo fetch ";
    for (dependency, told) in [("", "\nerror: cargo build failed\n"), ("berth-absent-package = \"9\"\n", fetch)] {
        fs::write(home.path().join("Cargo.toml"), format!("{manifest}{dependency}")).expect("a file");
        let variables = [("CARGO_NET_OFFLINE", "true"), ("CARGO_TARGET_DIR", &format!("{here}/target"))];
        let ended = Process::berth_with(["plugin", "build", &here], &variables).ended(LIMIT).await;
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.err.contains(told) && !ended.err.contains("rustup target"), "{}", ended.err);
    }
}

/// The project is made, because a component may replace a built-in plugin on purpose.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_with_the_name_of_a_built_in_one_is_warned_of() {
    let home = tempfile::tempdir().expect("a folder");
    let dir = home.path().join("plugin").display().to_string();
    let made = Process::berth(["plugin", "new", "NodeName", "--dir", &dir]).ended(LIMIT).await;
    assert!(made.status.success(), "{}", made.err);
    assert!(made.err.contains("warning: NodeName is the name of a built-in plugin"), "{}", made.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_templates_are_listed_with_a_sentence_each() {
    let listed = Process::berth(["plugin", "new", "--list"]).ended(LIMIT).await;
    assert!(listed.status.success(), "{}", listed.err);
    let names: Vec<&str> = listed.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["avoid-zone", "filter-by-label", "score-by-metric", "quota", "approval"]);
    assert!(listed.out.lines().all(|line| line.split_whitespace().count() > 8), "{}", listed.out);
    let refused = Process::berth(["plugin", "new"]).ended(LIMIT).await;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.err);
}
