//! The two names of a plugin, in its source and in build.sh, must be equal: the build says so before it compiles anything.

use std::{fs, process::Command};

use anyhow::ensure;
use berth_test_languages::{LANGUAGES, folder};

use super::refusal;
use crate::run;

/// A plugin of the name `Mistaken` without methods, for a component of another name.
const SOURCES: [(&str, &str, &str); 3] = [
    (
        "c",
        "plugin.c",
        "static const char *const name = \"Other\";\n\nconst struct berth_plugin berth_plugin = {\n    .name = \"Mistaken\",\n};\n",
    ),
    (
        "python",
        "plugin.py",
        "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n",
    ),
    (
        "go",
        "plugin.go",
        "package plugin\n\nfunc (*p) Describe() berth.Manifest {\n\treturn berth.Manifest{\n\t\tName: \"Mistaken\",\n\t}\n}\n",
    ),
];

#[test]
fn a_name_that_is_not_the_components_is_told_with_its_line() {
    let world = "package local:plugin;\nworld plugin {\n    import berth:scheduler/host@0.2.0;\n    \
                 export berth:scheduler/lifecycle@0.2.0;\n}\n";
    for ((language, file, source), line) in SOURCES.into_iter().zip([4, 6, 5]) {
        let plugin = tempfile::tempdir().unwrap();
        fs::write(plugin.path().join(file), source).unwrap();
        fs::write(plugin.path().join("plugin.wit"), world).unwrap();
        for (component, told) in [
            ("Mistaken", String::new()),
            (
                "Zone",
                format!(
                    "error: {file}:{line}: the name is \"Mistaken\", and build.sh makes Zone.wasm: write the same name in \
                     both\n"
                ),
            ),
        ] {
            let mut python = Command::new("python3");
            let output =
                python.arg(folder("sdks/methods.py")).arg(language).arg(plugin.path()).arg(component).output().unwrap();
            assert_eq!((output.status.success(), String::from_utf8(output.stderr).unwrap()), (told.is_empty(), told));
        }
    }
}

#[test]
fn a_name_that_is_not_the_components_is_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "export default {\n  name: \"Zone\",\n  version: \"1\",\n  filter: () => null,\n  \
                      score: () => 1,\n  normalize: (_pod, scores) => scores,\n};\n";
        let said = refusal(language, "plugin.js", source)?;
        let told =
            "error: plugin.js:2: the name is \"Zone\", and build.sh makes Mistaken.wasm: write the same name in both\n";
        ensure!(said == told, "{said}");
        Ok(())
    });
}
