//! Mistakes that only Go has.

use std::{fs, process::Command};

use anyhow::ensure;
use berth_framework::{ClusterEvent, EventSubject, HintCall};
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, folder};
use berth_testing::node;

use super::{Asked, component, refusal_of};
use crate::run;

const GO: Language = LANGUAGES[3];

/// A plugin in Go with the exports of the example. The plugin has sixteen lines, so that code behind the plugin begins
/// at line 17.
pub(super) const SOURCE: &str = r#"package plugin

import "berth"

type plugin struct{}

func init() { berth.Register(&plugin{}) }

func (*plugin) Describe() berth.Manifest { return berth.Manifest{Name: "Mistaken", Version: "1"} }

func (*plugin) Filter(*berth.Pod, *berth.Node) *berth.Rejection { return nil }

func (*plugin) Score(*berth.Pod, *berth.Node) int64 { return 1 }

func (*plugin) Normalize(*berth.Pod, []int64) {}

"#;

pub(super) const MODULE: &str = "module example.com/plugin\n\ngo 1.27\n\nrequire berth v0.0.0\n";

/// The stack of a fault has the names of functions that the component has.
#[test]
fn a_component_has_the_names_of_its_functions() {
    run(GO, |language| {
        let component = component(language, "plugin.go", SOURCE, &["filter", "score", "normalize-score"], &[])?;
        let name = b"example.com_plugin.__plugin_.Filter";
        ensure!(component.windows(name.len()).any(|bytes| bytes == name), "the linker removed the names");
        Ok(())
    });
}

#[test]
fn an_error_of_the_compiler_names_the_file_as_the_author_does() {
    run(GO, |language| {
        let source = format!("{SOURCE}var zone int = \"west\"\n");
        let said = refusal_of(language, &[("plugin.go", &source), ("go.mod", MODULE)])?;
        ensure!(said.starts_with("plugin.go:17:16: cannot use \"west\""), "{said}");
        let source = format!("{SOURCE}func (*plugin) Score(*berth.Pod, *berth.Node) int64 {{ return 2 }}\n");
        let said = refusal_of(language, &[("plugin.go", &source), ("go.mod", MODULE)])?;
        let told = "plugin.go:17:16: method plugin.Score already declared at plugin.go:13:16\n";
        ensure!(said.starts_with(told), "{said}");
        let source = SOURCE.replace("import \"berth\"", "import \"berth\"\nimport _ \"example.com/plugin/racks\"");
        let said = refusal_of(language, &[("plugin.go", &source), ("go.mod", MODULE)])?;
        ensure!(said == "plugin.go:4:8: there is no package in the folder racks\n", "{said}");
        Ok(())
    });
}

/// Go would treat the method as the plugin's own method, and nothing would call it.
#[test]
fn a_method_that_is_not_the_sdks_is_refused() {
    run(GO, |language| {
        let source = SOURCE.replace("Normalize(*berth.Pod, []int64)", "Normalize([]int64)")
            + "func (*plugin) Configure(args string) error { return nil }\n\n\
               func (*plugin) FilterNodes(\n\tpod berth.Pod, nodes []*berth.Node,\n) []*berth.Node {\n\treturn nodes\n}\n\n\
               func (*plugin) PodPlaced(pod *berth.Pod, node *berth.Node) {}\n";
        let said = refusal_of(language, &[("plugin.go", &source), ("go.mod", MODULE)])?;
        for error in [
            "error: plugin.go:15: Normalize has another signature than the SDK's: Normalize(*berth.Pod, []int64)\n",
            "error: plugin.go:17: Configure has another signature than the SDK's: Configure([]byte) error\n",
            "error: plugin.go:19: FilterNodes has another signature than the SDK's: \
             FilterNodes(*berth.Pod, []*berth.Node) []*berth.Node\n",
            "error: plugin.go:25: PodPlaced is never called: the plugin has no PodRemoved\n",
        ] {
            ensure!(said.contains(error), "{said}");
        }
        let source = SOURCE.replace("&plugin{}", "plugin{}").replace("(*plugin) Describe", "(plugin) Describe");
        let said = refusal_of(language, &[("plugin.go", &source), ("go.mod", MODULE)])?;
        let error = "error: plugin.go:11: Filter is never called: write berth.Register(&plugin{..}), since Filter is a \
                     method of *plugin\n";
        ensure!(said.contains(error), "{said}");
        Ok(())
    });
}

/// Without this line, Go's message names a line of a file that the build makes.
#[test]
fn a_package_that_cannot_be_a_plugin_is_refused_with_its_line() {
    let other = ("other.go", "// Package other is not the plugin's.\npackage other\n");
    let program = SOURCE.replace("package plugin", "package main");
    let unregistered = SOURCE.replace("func init() { berth.Register(&plugin{}) }", "");
    for (files, told) in [
        (
            &[("plugin.go", program.as_str()), ("go.mod", MODULE)][..],
            "plugin.go:1: the package is main, and the build makes the main package itself: write package plugin",
        ),
        (
            &[("plugin.go", SOURCE), ("go.mod", MODULE), other, ("more.go", "package plugin\n")],
            "other.go:2: the package is other, and that of the other files is plugin: write package plugin",
        ),
        (
            &[("plugin.go", &unregistered), ("go.mod", MODULE)],
            "plugin.go: nothing calls berth.Register: write func init() { berth.Register(&plugin{}) }",
        ),
        (
            &[("plugin.go", SOURCE)],
            "go.mod:1: the file is not there; a new project has one: write module example.com/plugin",
        ),
        (
            &[("plugin.go", SOURCE), ("go.mod", "go 1.27\n")],
            "go.mod:1: the file has no line with the module's path: write module example.com/plugin",
        ),
    ] {
        let plugin = tempfile::tempdir().unwrap();
        for (file, source) in files {
            fs::write(plugin.path().join(file), source).unwrap();
        }
        let mut python = Command::new("python3");
        let output = python.arg(folder("sdks/go/package.py")).arg(plugin.path()).output().unwrap();
        assert!(!output.status.success(), "{told}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("error: {told}\n"));
    }
}

#[test]
fn a_version_of_go_that_the_build_lacks_is_told_of_the_authors_file() {
    run(GO, |language| {
        let said = refusal_of(language, &[("plugin.go", SOURCE), ("go.mod", &MODULE.replace("1.27", "1.99"))])?;
        ensure!(said.starts_with("go.mod: the module requires go >= 1.99"), "{said}");
        Ok(())
    });
}

#[test]
fn labels_and_annotations_that_are_read_and_not_declared_are_told_once() {
    run(GO, |language| {
        let filter = "func (*plugin) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {\n\t\
                      for _, key := range []string{\"zone\", \"rack\", \"rack\"} {\n\t\tnode.Labels.Get(key)\n\t\tnode.Annotations.Get(key)\n\t\t\
                      pod.Labels.Get(key)\n\t}\n\treturn nil\n}";
        let columns = "Columns: []berth.Column{berth.Label(\"zone\"), berth.Annotation(\"rack\")}}";
        let reads = |columns: &str| -> anyhow::Result<Vec<String>> {
            let source = SOURCE.replace("Version: \"1\"}", &format!("Version: \"1\", {columns}"));
            let source = source
                .replace("func (*plugin) Filter(*berth.Pod, *berth.Node) *berth.Rejection { return nil }", filter);
            let mut asked = Asked::new(language, "plugin.go", &source, &["filter"], &[])?;
            ensure!(asked.harness.ask(&Pod::default()).map_err(crate::failed)?.rejected.is_empty());
            Ok(asked.factory.stats().undeclared_reads().into_keys().collect())
        };
        let told = reads(columns)?;
        ensure!(told == ["annotation zone", "label rack"], "{told:?}");
        let all = "Columns: []berth.Column{berth.Labels, berth.Annotation(\"zone\"), berth.Annotation(\"rack\")}}";
        let told = reads(all)?;
        ensure!(told.is_empty(), "{told:?}");
        Ok(())
    });
}

/// The node of an event has no annotations, whatever the manifest names.
#[test]
fn an_annotation_of_an_events_node_is_told() {
    run(GO, |language| {
        let columns = "Version: \"1\", Columns: []berth.Column{berth.Annotation(\"zone\")}}";
        let hint = "func (*plugin) QueueingHint(_ *berth.Pod, _ berth.Event, subject berth.Subject) bool {\n\t\
                    _, has := subject.NewNode.Annotations.Get(\"zone\")\n\treturn has\n}\n";
        let source = SOURCE.replace("Version: \"1\"}", columns) + hint;
        let mut asked = Asked::new(language, "plugin.go", &source, &["filter", "queueing-hint"], &[])?;
        let pod = Pod::default();
        asked.harness.ask(&pod).map_err(crate::failed)?;
        let changed = asked.harness.cluster_mut().intern_node(&node("a").build());
        let event = ClusterEvent::new("Node", ClusterEvent::UPDATE_NODE_ANNOTATION);
        let subject = EventSubject::Node { old: None, new: Some(&changed) };
        let hint = asked.harness.in_cycle(&pod, |plugin, call| {
            let call = HintCall { table: call.table, pod: &pod, event: &event, subject };
            plugin.queueing_hint().map(|point| point.queueing_hint(&call))
        });
        ensure!(hint == Some(false), "{hint:?}");
        let told: Vec<String> = asked.factory.stats().undeclared_reads().into_keys().collect();
        ensure!(told == ["the event node's annotation zone"], "{told:?}");
        Ok(())
    });
}
