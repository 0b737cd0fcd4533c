//! Mistakes that only JavaScript has.

use anyhow::{Context as _, ensure};
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language};

use super::{Asked, refusal};
use crate::run;

const JAVASCRIPT: Language = LANGUAGES[2];

/// A plugin with these members beside its name and version, with the exports of the example.
fn source(members: &str) -> String {
    let rest = "  score: () => 1,\n  normalize: (_pod, scores) => scores,\n};\n";
    format!(
        "import {{ on }} from \"berth\";\n\nexport default {{\n  name: \"Mistaken\",\n  version: \"1\",\n{members}{rest}"
    )
}

#[test]
fn a_member_that_is_misspelt_or_has_another_form_is_refused_with_its_line() {
    run(JAVASCRIPT, |language| {
        for (members, told) in [
            ("  colums: [\"name\"],\n", "6: colums is nothing that Berth reads: did you mean columns?"),
            ("  podPlace: () => {},\n", "6: podPlace is nothing that Berth calls: did you mean podPlaced?"),
            (
                "  configure(args, more) {\n    return more;\n  },\n",
                "6: configure takes 2 parameters: write configure(args)",
            ),
            (
                "  objects: \"v1/ConfigMap\",\n",
                "6: objects: must be a list, as [{apiVersion: \"v1\", kind: \"ConfigMap\"}]",
            ),
            (
                "  objects: [\"v1/ConfigMap\"],\n",
                "6: objects: \"v1/ConfigMap\" is not a kind; write {apiVersion: \"v1\", kind: \"Service\"}",
            ),
            (
                "  eventsToRegister: [\"Node\"],\n",
                "6: eventsToRegister: \"Node\" is not an event; write on(\"Node\", \"Add\")",
            ),
            ("  pods: \"yes\",\n", "6: pods: must be true or false"),
        ] {
            let source = source(&format!("{members}  filter: () => null,\n"));
            let said = refusal(language, "plugin.js", &source)?;
            ensure!(said == format!("error: plugin.js:{told}\n"), "{said}");
        }
        Ok(())
    });
}

#[test]
fn a_plugin_that_is_not_exported_is_told_with_the_line_to_write() {
    run(JAVASCRIPT, |language| {
        let source = |name: &str| source("").replace("export default", &format!("const {name} ="));
        for (name, file, told) in [
            ("zone", "plugin.js", "plugin.js: exports no plugin: write export default zone;"),
            ("zone: Plugin", "plugin.ts", "plugin.ts: exports no plugin: write export default zone;"),
        ] {
            let said = refusal(language, file, &source(name))?;
            ensure!(said == format!("error: {told}\n"), "{said}");
        }
        for (text, name) in [("import \"berth\";\n", "plugin"), ("const zone = {};\n", "zone")] {
            let said = refusal(language, "plugin.js", text)?;
            ensure!(said == format!("error: plugin.js: exports no plugin: write export default {name};\n"), "{said}");
        }
        Ok(())
    });
}

/// A helper may have any name, and so may an inherited method.
#[test]
fn members_that_the_plugin_uses_itself_or_inherits_are_no_mistake() {
    run(JAVASCRIPT, |language| {
        let source = "class Base {\n  filterNode() {\n    return null;\n  }\n\n  sign() {\n    return null;\n  }\n}\n\n\
                      class Mistaken extends Base {\n  name = \"Mistaken\";\n  version = \"1\";\n\n  filter() {\n    return this.filterNode();\n  }\n\n  \
                      score() {\n    return 1;\n  }\n}\n\nexport default new Mistaken();\n";
        let said = refusal(language, "plugin.js", source)?;
        let told = "warning: plugin.js:6: sign is never called: plugin.wit lacks the line\n    export berth:scheduler/sign@0.2.0;\n\
                    error: plugin.wit:11: exports normalize-score, and plugin.js has no normalize or normalizeColumns: write it, \
                    or take the line away\n";
        ensure!(said == told, "{said}");
        Ok(())
    });
}

/// No line of the plugin runs when its answer is looked at: the fault names the member's own line.
#[test]
fn an_answer_that_is_none_names_the_member_the_node_and_the_line() {
    run(JAVASCRIPT, |language| {
        for (interface, member, told) in [
            (
                "score",
                "score: (_pod, node) => (node.name === \"b\" ? 0 / 0 : 7)",
                "score gave NaN for node b, which is not a score, at plugin.js:5 in score",
            ),
            (
                "score",
                "score: (_pod, node) => (node.name === \"b\" ? undefined : 7)",
                "score gave undefined for node b, which is not a score, at plugin.js:5 in score",
            ),
            (
                "score",
                "scoreNodes: (_pod, nodes) => nodes.map(() => 1n)",
                "scoreNodes gave 1n for node a, which is not a score, at plugin.js:5 in scoreNodes",
            ),
            (
                "score",
                "scoreColumns: () => [1]",
                "scoreColumns gave 1 answers about 2 nodes, at plugin.js:5 in scoreColumns",
            ),
            (
                "filter",
                "filter: (_pod, node) => node.name === \"b\"",
                "filter gave false for node a, which is neither null nor a rejection, at plugin.js:5 in filter",
            ),
            (
                "pre-filter",
                "preFilter: () => \"b\"",
                "preFilter gave \"b\", which is neither null, a rejection nor a list of the names of nodes, at plugin.js:5 \
                 in preFilter",
            ),
            (
                "pre-filter",
                "preFilter: () => nodes()",
                "preFilter gave a list with an object, which is not the name of a node, at plugin.js:5 in preFilter",
            ),
            (
                "pre-score",
                "preScore: () => false",
                "preScore gave false, which is neither null nor a rejection, at plugin.js:5 in preScore",
            ),
        ] {
            let source = format!(
                "import {{ nodes }} from \"berth\"; export default {{\n  name: \"Mistaken\",\n  version: \"1\",\n  columns: \
                 [\"name\"],\n  {member},\n}};\n"
            );
            let mut asked = Asked::new(language, "plugin.js", &source, &[interface], &[])?;
            let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
            ensure!(fault.message().contains(&format!("TypeError: {told}")), "{fault:?}");
        }
        Ok(())
    });
}
