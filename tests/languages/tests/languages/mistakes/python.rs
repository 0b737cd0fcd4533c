//! Mistakes that are possible only in Python, and the parts of a component in Python.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, folder};

use super::{Asked, component, load, refusal};
use crate::run;

const PYTHON: Language = LANGUAGES[1];

/// A plugin whose class has these members beside its name and version.
fn source(members: &str) -> String {
    format!("import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n{members}")
}

/// The output of members.py for a plugin's files, which members.py must refuse.
fn members_refused(files: &[(&str, &str)]) -> Result<String> {
    let plugin = tempfile::tempdir()?;
    for (file, source) in files {
        fs::write(plugin.path().join(file), source)?;
    }
    let mut python = Command::new("python3");
    let output = python.arg(folder("sdks/python/members.py")).arg(plugin.path()).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.success() == said.is_empty(), "{said}");
    Ok(said)
}

/// A module that is installed for the user, and a module in a virtual environment.
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

/// An optional module and a module of the folder need no package.
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

#[test]
fn an_attribute_of_another_form_is_refused_when_the_class_is_loaded() {
    run(PYTHON, |language| {
        let methods = "\n    def filter(self, pod, node): ...\n    def score(self, pod, node): ...\n    \
                       def normalize(self, pod, scores): ...\n";
        for (attribute, told) in [
            (
                "objects = [\"v1/ConfigMap\"]",
                "Mistaken.objects: 'v1/ConfigMap' is not a kind; write [(\"v1\", \"ConfigMap\")], the apiVersion and the kind",
            ),
            (
                "objects = (\"v1\", \"ConfigMap\")",
                "Mistaken.objects: 'v1' is not a kind; write [(\"v1\", \"ConfigMap\")], the apiVersion and the kind",
            ),
            (
                "events_to_register = [\"Node\"]",
                "Mistaken.events_to_register: 'Node' is not an event; write berth.on(\"Node\", \"Add\")",
            ),
            ("pods = \"yes\"", "Mistaken.pods: must be True or False"),
        ] {
            let said = refusal(language, "plugin.py", &source(&format!("    {attribute}\n{methods}")))?;
            ensure!(said.contains("  File \"/1/plugin.py\", line 4, in <module>\n"), "{said}");
            ensure!(said.contains(&format!("\nTypeError: {told}\n")), "{said}");
        }
        Ok(())
    });
}

#[test]
fn a_member_that_is_misspelt_is_refused_with_its_line() {
    let wrong = source(
        "    colums = [berth.NAME]\n    event_to_register = []\n\n    def pod_place(self, pod, node): ...\n\n    \
         def Configure(self, args): ...\n\n    def filter(self, pod, node): ...\n",
    );
    let said = members_refused(&[("plugin.py", &wrong)]).unwrap();
    let told = "error: plugin.py:8: Mistaken.colums is nothing that Berth reads: did you mean columns?\n\
                error: plugin.py:9: Mistaken.event_to_register is nothing that Berth reads: did you mean \
                events_to_register?\n\
                error: plugin.py:11: Mistaken.pod_place is nothing that Berth calls: did you mean pod_placed?\n\
                error: plugin.py:13: Mistaken.Configure is nothing that Berth calls: did you mean configure?\n";
    assert_eq!(said, told);
}

/// Without the check, only the finished component would say so, a minute later.
#[test]
fn a_class_without_the_decorator_is_refused_with_its_line() {
    let bare = source("\n    def filter(self, pod, node): ...\n").replace("@berth.plugin\n", "");
    let helper = bare.replace("class Mistaken", "class Helper:\n    zone = 1\n\n\nclass Mistaken");
    let told = "class Mistaken lacks @berth.plugin: write it on the line before the class";
    assert_eq!(members_refused(&[("plugin.py", &bare)]).unwrap(), format!("error: plugin.py:4: {told}\n"));
    assert_eq!(members_refused(&[("plugin.py", &helper)]).unwrap(), format!("error: plugin.py:8: {told}\n"));
    let told = "error: plugin.py: has no class with @berth.plugin: write the plugin as a class with it\n";
    assert_eq!(members_refused(&[("plugin.py", "import berth\n")]).unwrap(), told);
    for decorated in [
        format!("{bare}\n\nberth.plugin(Mistaken)\n"),
        source("").replace("import berth", "from berth import plugin as made").replace("@berth.plugin", "@made"),
    ] {
        assert_eq!(members_refused(&[("plugin.py", &decorated)]).unwrap(), "");
    }
    let elsewhere = [("plugin.py", "from zones import Mistaken\n"), ("zones.py", &source(""))];
    assert_eq!(members_refused(&elsewhere).unwrap(), "");
}

/// Members of the author's own may have any name.
#[test]
fn a_member_that_the_plugin_uses_itself_is_not_misspelt() {
    let right = source(
        "    column = 3\n    columns = []\n    scores = {}\n\n    def filter_node(self, pod, node): ...\n\n    \
         def filter(self, pod, node):\n        return self.filter_node(pod, node)\n",
    );
    assert_eq!(members_refused(&[("plugin.py", &right)]).unwrap(), "");
}

#[test]
fn a_method_with_other_parameters_is_refused_with_its_line() {
    let wrong = source(
        "\n    def filter(self, pod: berth.Pod): ...\n\n    async def score(self, pod, node): ...\n\n    \
         def configure(self): ...\n\n    @staticmethod\n    def reach(self, pod): ...\n\n    sign = lambda pod: None\n",
    );
    let said = members_refused(&[("plugin.py", &wrong)]).unwrap();
    let told = "error: plugin.py:9: Mistaken.filter takes (self, pod): write filter(self, pod, node)\n\
                error: plugin.py:11: Mistaken.score is async, and nothing waits for it: write def score(self, pod, \
                node)\n\
                error: plugin.py:13: Mistaken.configure takes (self): write configure(self, args)\n\
                error: plugin.py:16: Mistaken.reach takes (self, pod): write reach(pod)\n\
                error: plugin.py:18: Mistaken.sign takes (pod): write sign(self, pod)\n";
    assert_eq!(said, told);
    let right = source(
        "\n    def filter(self, *others): ...\n\n    def score(self, pod, node, most=100): ...\n\n    \
         @staticmethod\n    def reach(pod): ...\n\n    sign = lambda self, pod: None\n",
    );
    assert_eq!(members_refused(&[("plugin.py", &right)]).unwrap(), "");
}

/// The base class is in another file of the folder.
#[test]
fn inherited_methods_are_seen() {
    let plugin = tempfile::tempdir().unwrap();
    let source = "import berth\nfrom parts.base import Base as Common\n\n\n@berth.plugin\nclass Mistaken(Common):\n    \
                  def filter(self, pod, node): ...\n";
    let base =
        "class Root:\n    def reserve(self, pod, node): ...\n\n\nclass Base(Root):\n    def sign(self, pod): ...\n";
    fs::create_dir(plugin.path().join("parts")).unwrap();
    fs::write(plugin.path().join("plugin.py"), source).unwrap();
    fs::write(plugin.path().join("parts/base.py"), base).unwrap();
    let world = "package local:plugin;\nworld plugin {\n    import berth:scheduler/host@0.2.0;\n    export berth:scheduler/lifecycle@0.2.0;\n    \
                 export berth:scheduler/cycle@0.2.0;\n    export berth:scheduler/filter@0.2.0;\n    export berth:scheduler/reserve@0.2.0;\n}\n";
    fs::write(plugin.path().join("plugin.wit"), world).unwrap();
    let mut python = Command::new("python3");
    let output = python.arg(folder("sdks/methods.py")).arg("python").arg(plugin.path()).output().unwrap();
    let told = "warning: parts/base.py:6: sign is never called: plugin.wit lacks the line\n    \
                export berth:scheduler/sign@0.2.0;\n\
                error: plugin.wit:7: exports reserve, and plugin.py has no method unreserve: write it, or take the line away\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
}

/// No line of the plugin runs when its answer is looked at: the fault names the method's own line.
#[test]
fn an_answer_that_is_none_names_the_method_the_node_and_the_line() {
    run(PYTHON, |language| {
        let source = source(
            "    columns = [berth.NAME]\n\n    def filter(self, pod, node):\n        return node.name == \"b\" and \"no\" or None\n\n    \
             def pre_filter(self, pod):\n        return \"b\" if pod.priority else None\n",
        );
        let mut asked = Asked::new(language, "plugin.py", &source, &["filter", "pre-filter"], &[])?;
        let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
        let told =
            "TypeError: filter gave 'no' for node b, which is neither None nor a rejection, at plugin.py:10 in filter";
        ensure!(fault.message().contains(told), "{fault:?}");
        // A text is a list of letters, so it must not pass for a list of names.
        let mut asked = Asked::of(asked.factory)?;
        let fault = asked.harness.ask(&Pod { priority: 1, ..Pod::default() }).err().context("nothing failed")?;
        let told = "TypeError: pre_filter gave 'b', which is neither None, a rejection nor a list of the names of nodes, at \
                    plugin.py:13 in pre_filter";
        ensure!(fault.message().contains(told), "{fault:?}");
        Ok(())
    });
}
