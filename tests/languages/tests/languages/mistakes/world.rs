//! Tests that every language with a plugin.wit reports mistakes in this file in the same words, before any tool runs.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_test_languages::{LANGUAGES, Language, folder};

use crate::run;

const WORLD: &str = "package local:plugin;

/// The exports of the plugin.
world plugin {
    import berth:scheduler/host@0.2.0;
    export berth:scheduler/lifecycle@0.2.0;
    export berth:scheduler/sync@0.2.0;
    export berth:scheduler/cycle@0.2.0;
    export berth:scheduler/filter@0.2.0;
}
";

/// A plugin's file, its source, and the name of the member `columns` in this source.
fn source(language: Language) -> (&'static str, &'static str, &'static str) {
    match language.folder {
        "c" => (
            "plugin.c",
            "const struct berth_plugin berth_plugin = {\n    .name = \"P\",\n    .columns = BERTH_COLUMN_NAME,\n    .filter = filter,\n};\n",
            "columns",
        ),
        "python" => (
            "plugin.py",
            "import berth\n\n\n@berth.plugin\nclass P:\n    name = \"P\"\n    version = \"1\"\n    \
             columns = [berth.NAME]\n\n    def filter(self, pod, node): ...\n",
            "columns",
        ),
        "js" => (
            "plugin.js",
            "export default { name: \"P\", version: \"1\", columns: [\"name\"], filter: () => null };\n",
            "columns",
        ),
        _ => (
            "plugin.go",
            "package plugin\n\nfunc init() { berth.Register(&p{}) }\n\n\
             var manifest = berth.Manifest{Columns: []berth.Column{berth.Name}}\n\n\
             func (*p) Filter(*berth.Pod, *berth.Node) *berth.Rejection { return nil }\n",
            "Columns",
        ),
    }
}

/// The output of the build for a world that is changed in one place.
fn said(language: Language, from: &str, to: &str) -> Result<String> {
    ensure!(WORLD.contains(from), "{from}");
    let (file, source, _) = source(language);
    let plugin = tempfile::tempdir()?;
    fs::write(plugin.path().join(file), source)?;
    fs::write(plugin.path().join("go.mod"), "module example.com/plugin\n")?;
    fs::write(plugin.path().join("plugin.wit"), WORLD.replace(from, to))?;
    let script = folder("sdks").join(language.folder).join("build.sh");
    let output = Command::new(script).arg(plugin.path()).arg("Mistaken").output()?;
    ensure!(!output.status.success(), "it was built");
    Ok(String::from_utf8(output.stderr)?)
}

fn mistakes_are_told(language: Language) -> Result<()> {
    let (file, _, columns) = source(language);
    let without_sync =
        format!("4: the world lacks a line, since {file} has {columns}: export berth:scheduler/sync@0.2.0;");
    for (from, to, told) in [
        ("plugin;", "plugin", "1: the line has no semicolon at its end: write package local:plugin;"),
        (
            "filter@0.2.0;",
            "filter@0.2.0",
            "9: the line has no semicolon at its end: write export berth:scheduler/filter@0.2.0;",
        ),
        (
            "export berth:scheduler/filter",
            "exports berth:scheduler/filter",
            "9: exports is neither import nor export: write export berth:scheduler/filter@0.2.0;",
        ),
        (
            "scheduler/filter",
            "schedular/filter",
            "9: there is no package berth:schedular; a plugin has berth:scheduler alone",
        ),
        ("scheduler/filter@0.2.0", "scheduler/filtr@0.2.0", "9: there is no interface filtr (did you mean filter?)"),
        ("filter@0.2.0", "filter@0.1.0", "9: this SDK has @0.2.0: write export berth:scheduler/filter@0.2.0;"),
        ("scheduler/filter", "scheduler/cycle", "9: exports cycle a second time: take the line away"),
        ("package local:plugin;", "", "1: the package has no name: write package local:plugin;"),
        ("world plugin", "world zone", "4: the world is called zone: write world plugin {"),
        ("}\n", "", "9: the world is not closed: write } after this line"),
        (
            "    import berth:scheduler/host@0.2.0;\n",
            "",
            "4: the world lacks a line that every plugin needs: import berth:scheduler/host@0.2.0;",
        ),
        (
            "    export berth:scheduler/lifecycle@0.2.0;\n",
            "",
            "4: the world lacks a line that every plugin needs: export berth:scheduler/lifecycle@0.2.0;",
        ),
        (
            "    export berth:scheduler/cycle@0.2.0;\n",
            "",
            "8: exports filter, which needs one more line: export berth:scheduler/cycle@0.2.0;",
        ),
        ("    export berth:scheduler/sync@0.2.0;\n", "", &without_sync),
    ] {
        let said = said(language, from, to).with_context(|| told.to_owned())?;
        ensure!(said == format!("error: plugin.wit:{told}\n"), "{said}");
    }
    Ok(())
}

#[test]
fn c() {
    run(LANGUAGES[0], mistakes_are_told);
}

#[test]
fn python() {
    run(LANGUAGES[1], mistakes_are_told);
}

#[test]
fn js() {
    run(LANGUAGES[2], mistakes_are_told);
}

#[test]
fn go() {
    run(LANGUAGES[3], mistakes_are_told);
}
