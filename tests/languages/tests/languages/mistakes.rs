//! Tests that mistakes in a plugin are reported with the file and the line of the author's source.

mod c;
mod go;
mod js;
mod kinds;
mod names;
mod permit;
mod python;
mod world;

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_author::PluginHarness;
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, folder, load};
use berth_testing::{node, pod};
use berth_wasm_host::ComponentFactory;

use crate::run;

/// The output of the build of one file, which must fail.
fn refusal(language: Language, file: &str, source: &str) -> Result<String> {
    refusal_of(language, &[(file, source)])
}

/// A plugin of several files. If plugin.wit is not among the files, the plugin.wit of the example is used.
fn refusal_of(language: Language, files: &[(&str, &str)]) -> Result<String> {
    let plugin = tempfile::tempdir()?;
    let example = folder("plugins/examples").join(format!("node-metadata-{}", language.folder));
    fs::copy(example.join("plugin.wit"), plugin.path().join("plugin.wit"))?;
    for (file, source) in files {
        fs::write(plugin.path().join(file), source)?;
    }
    let script = folder("sdks").join(language.folder).join("build.sh");
    let output = Command::new(script).arg(plugin.path()).arg("Mistaken").output()?;
    ensure!(!output.status.success(), "it was built");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_action_that_there_is_not_is_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let members = "filter: () => null,\n  score: () => 1,\n  normalize: (_pod, scores) => scores,\n};\n";
        let source = |event: &str| {
            format!(
                "import {{ on }} from \"berth\";\nexport default {{\n  name: \"Mistaken\",\n  version: \"1\",\n  \
                 eventsToRegister: [on(\"Node\", {event})],\n  {members}"
            )
        };
        let said = refusal(language, "plugin.js", &source("\"moved\""))?;
        let told =
            "error: plugin.js:5:33: Argument of type '\"moved\"' is not assignable to parameter of type 'Action'";
        ensure!(said.starts_with(told), "{said}");
        // The SDK reports the mistake if the compiler cannot find it from types.
        let said = refusal(language, "plugin.js", &source("...JSON.parse('[\"moved\"]')"))?;
        let shown = "      5 │ eventsToRegister: [on(\"Node\", ...JSON.parse('[\"moved\"]'))],";
        let place =
            "\nplugin.js:5: ERROR: Error: \"moved\" is not an action; there are Update, Add, Delete, UpdateNode";
        ensure!(said.contains(shown) && said.contains(place), "{said}");
        Ok(())
    });
}

#[test]
fn an_action_that_there_is_not_is_told_in_python() {
    run(LANGUAGES[1], |language| {
        let source = "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n    \
                      events_to_register = [berth.on(\"Node\", \"moved\")]\n\n    def filter(self, pod, node): ...\n    \
                      def score(self, pod, node): ...\n    def normalize(self, pod, scores): ...\n";
        let said = refusal(language, "plugin.py", source)?;
        // `crates/plugin-cli/src/author_commands/script.rs` makes a short message from this output.
        let place = "  File \"/1/plugin.py\", line 8, in Mistaken\n";
        let message = "\nValueError: 'moved' is not an action; there are Update, Add, Delete, UpdateNode";
        ensure!(said.contains(place) && said.contains(message), "{said}");
        Ok(())
    });
}

/// A world that misspells one interface and names another version of a second interface.
const UNKNOWN: [&str; 2] = [
    "    export berth:scheduler/pre-filtre@0.2.0;\n    export berth:scheduler/score@0.1.0;\n",
    "error: plugin.wit:LINE: there is no interface pre-filtre (did you mean pre-filter?)\n",
];

#[test]
fn an_interface_that_there_is_not_is_told_before_tools_run() {
    for (language, file) in [("python", "plugin.py"), ("go", "plugin.go"), ("c", "plugin.c")] {
        let (is_taken, said) = crate::compared(language, file, "", UNKNOWN[0]);
        assert!(!is_taken && said.starts_with(&UNKNOWN[1].replace("LINE", "2")), "{said}");
        let version = "error: plugin.wit:3: this SDK has @0.2.0: write export berth:scheduler/score@0.2.0;\n";
        assert!(said.ends_with(version) && said.lines().count() == 2, "{said}");
    }
}

#[test]
fn an_interface_that_there_is_not_is_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let score = "    export berth:scheduler/score@0.2.0;\n";
        let said = crate::built_with_another_world(language, |world| world.replace(score, UNKNOWN[0]))?;
        let said = said.err().context("it was built")?;
        ensure!(said.starts_with(&UNKNOWN[1].replace("LINE", "10")), "{said}");
        let version = "error: plugin.wit:11: this SDK has @0.2.0: write export berth:scheduler/score@0.2.0;\n";
        ensure!(said.ends_with(version) && said.lines().count() == 2, "{said}");
        Ok(())
    });
}

/// A line that is one member, in a bundle where the line before ends with a comma.
#[test]
fn a_fault_in_a_member_of_one_line_names_that_line() {
    run(LANGUAGES[2], |language| faults_as_it_scores(language, "node.absent.length", "at plugin.js:5 in score"));
}

fn faults_as_it_scores(language: Language, score: &str, told: &str) -> Result<()> {
    let source = format!(
        "export default {{\n  name: \"Mistaken\",\n  version: \"1\",\n  columns: [\"name\"],\n  \
                      score: (_pod, node) => {score},\n}};\n"
    );
    let mut asked = Asked::new(language, "plugin.js", &source, &["score"], &[])?;
    let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
    ensure!(fault.message().contains(told), "{fault:?}");
    Ok(())
}

/// The message has the method, the value and the node.
#[test]
fn a_score_that_is_no_int_is_a_fault_in_python() {
    run(LANGUAGES[1], |language| {
        let source = "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n    \
                      columns = [berth.NAME]\n\n    def score_columns(self, pod, columns):\n        \
                      return [\"9\" if pod.priority else 7 for _ in range(len(columns))]\n\n    \
                      def normalize(self, pod, scores):\n        return [7, 1 << 64]\n";
        let mut asked = Asked::new(language, "plugin.py", source, &["score", "normalize-score"], &[])?;
        let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
        let told = "normalize gave 18446744073709551616 for node b, which does not fit into 64 bits";
        ensure!(fault.message().contains(told), "{fault:?}");

        let mut harness = PluginHarness::new(&asked.factory, "null")?;
        harness.set_node(&node("a").build());
        let pod = harness.intern(&pod("urgent").priority(1).build());
        let fault = harness.ask(&pod).err().context("nothing failed")?;
        ensure!(fault.message().contains("score_columns gave '9' for node a, which is not an int"), "{fault:?}");
        Ok(())
    });
}

/// A plugin of one file, with `interfaces` beside the interfaces that every plugin exports.
fn built(
    language: Language,
    file: &str,
    source: &str,
    interfaces: &[&str],
    environment: &[(&str, &str)],
) -> Result<ComponentFactory> {
    load("Mistaken", component(language, file, source, interfaces, environment)?)
}

/// The component of a plugin of one file.
fn component(
    language: Language,
    file: &str,
    source: &str,
    interfaces: &[&str],
    environment: &[(&str, &str)],
) -> Result<Vec<u8>> {
    let plugin = tempfile::tempdir()?;
    fs::write(plugin.path().join(file), source)?;
    let exports = ["lifecycle", "sync", "cycle"].iter().chain(interfaces);
    let exports: String = exports.map(|name| format!("    export berth:scheduler/{name}@0.2.0;\n")).collect();
    let imports = "    import berth:scheduler/host@0.2.0;\n";
    let world = format!("package test:mistaken;\n\nworld plugin {{\n{imports}{exports}}}\n");
    fs::write(plugin.path().join("plugin.wit"), world)?;
    if language.folder == "go" {
        let sdk = folder("sdks/go/berth").canonicalize()?;
        fs::write(plugin.path().join("go.mod"), format!("{}\nreplace berth => {}\n", go::MODULE, sdk.display()))?;
    }
    let mut script = Command::new(folder("sdks").join(language.folder).join("build.sh"));
    let output = script.arg(plugin.path()).arg("Mistaken").envs(environment.iter().copied()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(fs::read(plugin.path().join("build/Mistaken.wasm"))?)
}

/// A plugin of one file that was built and sees two nodes.
struct Asked {
    factory: ComponentFactory,
    harness: PluginHarness,
}

impl Asked {
    fn new(
        language: Language,
        file: &str,
        source: &str,
        interfaces: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        Self::of(built(language, file, source, interfaces, environment)?)
    }

    fn of(factory: ComponentFactory) -> Result<Self> {
        let mut harness = PluginHarness::new(&factory, "null")?;
        harness.set_node(&node("a").build());
        harness.set_node(&node("b").label("zone", "east").build());
        Ok(Self { factory, harness })
    }
}

#[test]
fn two_sources_of_a_plugin_are_refused_in_javascript() {
    run(LANGUAGES[2], |language| {
        let said = refusal_of(language, &[("plugin.ts", "export default {};"), ("plugin.js", "export default {};")])?;
        ensure!(said.starts_with("error: ") && said.contains("has plugin.ts and plugin.js"), "{said}");
        Ok(())
    });
}

#[test]
fn a_column_that_there_is_not_is_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "export default {\n  name: \"Mistaken\",\n  version: \"1\",\n  columns: [\"lables\"],\n  \
                      filter: () => null,\n  score: () => 1,\n  normalize: (_pod, scores) => scores,\n};\n";
        let said = refusal(language, "plugin.js", source)?;
        ensure!(
            said.starts_with("error: plugin.js:4: columns: \"lables\" is not a column; there are name, "),
            "{said}"
        );
        Ok(())
    });
}

#[test]
fn types_are_checked_in_typescript_and_names_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "import { type Plugin, reject } from \"berth\";\n\nconst plugin: Plugin = {\n  name: \"Mistaken\",\n  \
                      version: \"1\",\n  filter: (_pod, node) => (node.podCounts ? reject(3) : null),\n  score: () => 1,\n  \
                      normalize: (_pod, scores) => scores,\n};\n\nexport default plugin;\n";
        let said = refusal(language, "plugin.ts", source)?;
        for part in [
            "error: plugin.ts:6:33: Property 'podCounts' does not exist on type 'Node'",
            "error: plugin.ts:6:52: Argument of type 'number' is not assignable to parameter of type 'string'",
        ] {
            ensure!(said.contains(part), "{said}");
        }
        let source = "export default {\n  name: \"Mistaken\",\n  version: \"1\",\n  filter: () => setTimeout(filter, 1),\n  \
                      score: () => 1,\n  normalize: (_pod, scores) => scores,\n};\n";
        let said = refusal(language, "plugin.js", source)?;
        ensure!(said.starts_with("error: plugin.js:4:17: Cannot find name 'setTimeout'"), "{said}");
        Ok(())
    });
}

/// The log contains the output of the console, even while the module is loaded.
#[test]
fn the_console_is_no_mistake_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "console.log(\"early\");\nexport default {\n  name: \"Mistaken\",\n  version: \"1\",\n  \
                      columns: [\"name\"],\n  filter(pod, node) {\n    console.log(\"asked\", { of: node.name }, new Map());\n    \
                      console.warn(node.podCount, pod.json);\n    return null;\n  },\n};\n";
        let mut asked = Asked::new(language, "plugin.js", source, &["filter"], &[])?;
        ensure!(asked.harness.ask(&Pod::default()).map_err(crate::failed)?.rejected.is_empty());
        let reads: Vec<String> = asked.factory.stats().undeclared_reads().into_keys().collect();
        ensure!(reads == ["column pod-count (node.podCount)", "pod-json (pod.json)"], "{reads:?}");
        Ok(())
    });
}

#[test]
fn what_is_read_and_not_declared_is_told_in_python() {
    run(LANGUAGES[1], |language| {
        let source = "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n    \
                      columns = [berth.label(\"zone\")]\n\n    def filter(self, pod, node):\n        \
                      node.labels.get(\"rack\"), node.labels.get(\"zone\"), node.pod_count, pod.json\n";
        let mut asked = Asked::new(language, "plugin.py", source, &["filter"], &[])?;
        ensure!(asked.harness.ask(&Pod::default()).map_err(crate::failed)?.rejected.is_empty());
        let reads: Vec<String> = asked.factory.stats().undeclared_reads().into_keys().collect();
        ensure!(reads == ["column POD_COUNT (node.pod_count)", "label rack", "pod_json (pod.json)"], "{reads:?}");
        Ok(())
    });
}

/// A plugin in C with this body of its filter.
fn c_source(body: &str) -> String {
    format!(
        "#include <assert.h>\n#include <berth.h>\n#include <stdio.h>\n#include <string.h>\n\n\
         static int64_t value_at(const int *place) {{ return *place; }}\n\n\
         static berth_verdict filter(const berth_pod *pod, berth_row node) {{\n  {body}\n}}\n\n\
         static const char *const labels[] = {{\"zone\", NULL}};\n\n\
         const struct berth_plugin berth_plugin = {{\n    .name = \"Mistaken\",\n    .version = \"1\",\n    \
         .label_keys = labels,\n    .filter = filter,\n}};\n"
    )
}

#[test]
fn printing_is_no_mistake_in_c() {
    run(LANGUAGES[0], |language| {
        let body = "printf(\"%s %d\\n\", berth_string(&pod->name), (int)berth_node_pod_count(node));\n  puts(\"asked\");\n  \
                    return berth_node_label(node, \"zone\") && !berth_node_label(node, \"rack\") ? berth_pass() : berth_reject(\"no zone\");";
        let mut asked = Asked::new(language, "plugin.c", &c_source(body), &["filter"], &[])?;
        let answers = asked.harness.ask(&Pod::default()).map_err(crate::failed)?;
        ensure!(answers.rejected.len() == 1, "{answers:?}");
        let reads: Vec<String> = asked.factory.stats().undeclared_reads().into_keys().collect();
        ensure!(reads == ["BERTH_COLUMN_POD_COUNT (berth_node_pod_count)", "label rack"], "{reads:?}");
        Ok(())
    });
}

#[test]
fn a_fault_in_c_names_the_function_or_with_checks_the_line() {
    run(LANGUAGES[0], |language| {
        let checks = [("BERTH_DEBUG", "1")];
        let far =
            "return value_at((const int *)0xfffffff0) + (node > pod->priority) ? berth_pass() : berth_reject(\"no\");";
        let null =
            "return value_at(pod->priority ? (const int *)64 : NULL) + node ? berth_pass() : berth_reject(\"no\");";
        let text = "(void)pod;\n  return strcmp(berth_node_label(node, \"zone\"), \"west\") ? berth_pass() : berth_reject(\"no\");";
        let cut = "(void)pod;\n  return berth_reject(berth_concat(\"no \", berth_node_label(node, \"zone\"), \" here\", NULL));";
        let asserted = "assert(node > 9999 && pod);\n  return berth_pass();";
        for (body, environment, told) in [
            (far, &[][..], "out of bounds memory access in value_at"),
            (asserted, &[][..], "Assertion failed: node > 9999 && pod"),
            (null, &checks[..], "a null pointer is followed, at plugin.c:6"),
            (text, &checks[..], "a null pointer is given to a function that takes none, at plugin.c:10"),
            (cut, &checks[..], "berth_concat got a null pointer, which cuts the text off, at plugin.c:10"),
        ] {
            let mut asked = Asked::new(language, "plugin.c", &c_source(body), &["filter"], environment)?;
            let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
            ensure!(fault.message().contains(told), "{fault:?}");
        }
        Ok(())
    });
}
