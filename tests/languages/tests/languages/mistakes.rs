//! Mistakes in a plugin are told with the file and the line of the author's source.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_author::PluginHarness;
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, build, folder, load};
use berth_testing::node;

use crate::run;

/// What the build of one file says, which fails.
fn refusal(language: Language, file: &str, source: &str) -> Result<String> {
    let plugin = tempfile::tempdir()?;
    fs::write(plugin.path().join(file), source)?;
    let example = folder("plugins/examples").join(format!("node-metadata-{}", language.folder));
    fs::copy(example.join("plugin.wit"), plugin.path().join("plugin.wit"))?;
    let script = folder("sdks").join(language.folder).join("build.sh");
    let output = Command::new(script).arg(plugin.path()).arg("Mistaken").output()?;
    ensure!(!output.status.success(), "it was built");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_action_that_there_is_not_is_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "import { on } from \"berth\";\nexport default {\n  name: \"Mistaken\",\n  version: \"1\",\n  \
                      eventsToRegister: [on(\"Node\", \"moved\")],\n  filter: () => null,\n};\n";
        let said = refusal(language, "plugin.js", source)?;
        let shown = "      5 │ eventsToRegister: [on(\"Node\", \"moved\")],";
        let place = "\nplugin.js:5: ERROR: Error: \"moved\" is no action; there are Update, Add, Delete, UpdateNode";
        ensure!(said.contains(shown) && said.contains(place), "{said}");
        Ok(())
    });
}

#[test]
fn an_action_that_there_is_not_is_told_in_python() {
    run(LANGUAGES[1], |language| {
        let source = "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n    \
                      events_to_register = [berth.on(\"Node\", \"moved\")]\n";
        let said = refusal(language, "plugin.py", source)?;
        // `host/src/author/script.rs` makes a short message of it.
        let place = "  File \"/1/plugin.py\", line 8, in Mistaken\n";
        let message = "\nValueError: 'moved' is no action; there are Update, Add, Delete, UpdateNode";
        ensure!(said.contains(place) && said.contains(message), "{said}");
        Ok(())
    });
}

/// A line that is one member, in a bundle where the line before ends with a comma.
#[test]
fn a_fault_in_a_member_of_one_line_names_that_line() {
    run(LANGUAGES[2], |language| faults_as_it_scores(language, "node.absent.length", "at plugin.js:5 in score"));
}

#[test]
fn a_score_that_is_no_number_is_a_fault() {
    run(LANGUAGES[2], |language| faults_as_it_scores(language, "0 / 0", "TypeError: NaN is no score"));
}

fn faults_as_it_scores(language: Language, score: &str, told: &str) -> Result<()> {
    let plugin = tempfile::tempdir()?;
    let source = format!(
        "export default {{\n  name: \"Mistaken\",\n  version: \"1\",\n  columns: [\"name\"],\n  \
                      score: (_pod, node) => {score},\n}};\n"
    );
    fs::write(plugin.path().join("plugin.js"), source)?;
    let example = folder("plugins/examples").join(format!("node-metadata-{}", language.folder));
    let world = fs::read_to_string(example.join("plugin.wit"))?;
    let lines = world.lines().filter(|line| !line.contains("/filter@") && !line.contains("/normalize-score@"));
    fs::write(plugin.path().join("plugin.wit"), lines.collect::<Vec<_>>().join("\n"))?;
    let script = format!("#!/bin/sh\n{} \"$(dirname \"$0\")\" Mistaken\n", folder("sdks/js/build.sh").display());
    let file = plugin.path().join("build.sh");
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;

    let mut harness = PluginHarness::new(&load("Mistaken", build(plugin.path(), "Mistaken")?)?, "null")?;
    harness.set_node(&node("a").build());
    harness.set_node(&node("b").build());
    let fault = harness.ask(&Pod::default()).err().context("nothing failed")?;
    ensure!(fault.message().contains(told), "{fault:?}");
    Ok(())
}
