//! What a component in Python is made of.

use std::{fs, process::Command};

use anyhow::ensure;
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, folder};

use super::{Asked, component, load};
use crate::run;

const PYTHON: Language = LANGUAGES[1];

/// A module that is installed for the user, and one in a virtual environment.
#[test]
fn what_is_installed_on_the_machine_is_no_part_of_a_component() {
    run(PYTHON, |language| {
        let source = "import berth\n\ntry:\n    import planted\nexcept ImportError:\n    planted = None\n\n\n@berth.plugin\n\
                      class Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n\n    def filter(self, pod, node):\n        \
                      return berth.reject(\"it was there\") if planted else None\n";
        let machine = tempfile::tempdir()?;
        let home = machine.path().display().to_string();
        let mut python = Command::new("python3");
        let asked = python.args(["-c", "import site; print(site.getusersitepackages())"]).env("PYTHONUSERBASE", &home);
        let users = String::from_utf8(asked.output()?.stdout)?;
        for (variable, packages) in
            [("PYTHONUSERBASE", users.trim()), ("VIRTUAL_ENV", &format!("{home}/lib/python3/site-packages"))]
        {
            fs::create_dir_all(packages)?;
            fs::write(format!("{packages}/planted.py"), "NAME = \"planted by the test\"\n")?;
            let component = component(language, "plugin.py", source, &["filter"], &[(variable, &home)])?;
            let mark = b"planted by the test";
            ensure!(!component.windows(mark.len()).any(|bytes| bytes == mark), "{variable}: it is in the component");
            let mut asked = Asked::of(load("Mistaken", component)?)?;
            let answers = asked.harness.ask(&Pod::default()).map_err(crate::failed)?;
            ensure!(answers.rejected.is_empty(), "{variable}: {answers:?}");
        }
        Ok(())
    });
}

/// A module that the plugin can do without, and one of the folder, need no package.
#[test]
fn a_package_that_is_not_in_the_folder_is_warned_of() {
    let plugin = tempfile::tempdir().unwrap();
    let source = "import json\n\nimport berth\nimport racks\nfrom yaml.loader import Loader\n\ntry:\n    import numpy\n\
                  except ImportError:\n    numpy = None\n";
    fs::write(plugin.path().join("plugin.py"), source).unwrap();
    fs::write(plugin.path().join("racks.py"), "").unwrap();
    let mut python = Command::new("python3");
    let output = python.arg(folder("sdks/python/imports.py")).arg(plugin.path()).output().unwrap();
    let told = "warning: plugin.py:5: imports yaml, which is not in the plugin's folder: python3 -m pip install --target . yaml\n";
    assert_eq!((output.status.success(), String::from_utf8(output.stderr).unwrap()), (true, told.to_owned()));
}
