//! Objects of a kind that the manifest does not name: the plugin finds no objects, and the SDK says so once.

use anyhow::{Result, ensure};
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language};

use super::{Asked, go::SOURCE};
use crate::{failed, run};

/// The undeclared reads of a plugin with a Filter that lets every node pass.
fn reads(language: Language, file: &str, source: &str) -> Result<Vec<String>> {
    let mut asked = Asked::new(language, file, source, &["filter"], &[])?;
    let answers = asked.harness.ask(&Pod::default()).map_err(failed)?;
    ensure!(answers.rejected.is_empty(), "{answers:?}");
    Ok(asked.factory.stats().undeclared_reads().into_keys().collect())
}

/// No Secret exists either, but the manifest names the kind.
fn told(language: Language, file: &str, source: &str) -> Result<()> {
    let reads = reads(language, file, source)?;
    ensure!(reads == ["objects v1/ConfigMap"], "{reads:?}");
    Ok(())
}

#[test]
fn objects_of_an_undeclared_kind_are_told_in_c() {
    run(LANGUAGES[0], |language| {
        for read in
            ["berth_object(\"v1\", \"ConfigMap\", \"team\", \"a\")", "berth_next_object(\"v1\", \"ConfigMap\", NULL)"]
        {
            let source = format!(
                "#include <berth.h>\n\nstatic berth_verdict filter(const berth_pod *pod, berth_row node) {{\n  \
                 (void)pod, (void)node;\n  if (berth_object(\"v1\", \"Secret\", \"team\", \"a\")) return berth_reject(\"no\");\n  \
                 return {read} ? berth_reject(\"no\") : berth_pass();\n}}\n\n\
                 static const struct berth_object_kind kinds[] = {{{{\"v1\", \"Secret\"}}, {{0}}}};\n\n\
                 const struct berth_plugin berth_plugin = {{\n    .name = \"Mistaken\",\n    .version = \"1\",\n    \
                 .columns = BERTH_COLUMN_NAME,\n    .objects = kinds,\n    .filter = filter,\n}};\n"
            );
            told(language, "plugin.c", &source)?;
        }
        Ok(())
    });
}

#[test]
fn objects_of_an_undeclared_kind_are_told_in_python() {
    run(LANGUAGES[1], |language| {
        let source = "import berth\n\n\n@berth.plugin\nclass Mistaken:\n    name = \"Mistaken\"\n    version = \"1\"\n    \
                      columns = [berth.NAME]\n    objects = [(\"v1\", \"Secret\")]\n\n    def filter(self, pod, node):\n        \
                      if berth.objects(\"v1\", \"Secret\") or berth.objects(\"v1\", \"ConfigMap\"):\n            \
                      return berth.reject(\"no\")\n";
        told(language, "plugin.py", source)
    });
}

#[test]
fn objects_of_an_undeclared_kind_are_told_in_javascript() {
    run(LANGUAGES[2], |language| {
        let source = "import { objects, reject } from \"berth\";\n\nexport default {\n  name: \"Mistaken\",\n  \
                      version: \"1\",\n  columns: [\"name\"],\n  objects: [{ apiVersion: \"v1\", kind: \"Secret\" }],\n  filter: () => \
                      (objects(\"v1\", \"Secret\").size + objects(\"v1\", \"ConfigMap\").size > 0 ? reject(\"no\") : null),\n};\n";
        told(language, "plugin.js", source)
    });
}

#[test]
fn objects_of_an_undeclared_kind_are_told_in_go() {
    run(LANGUAGES[3], |language| {
        let filter = "func (*plugin) Filter(*berth.Pod, *berth.Node) *berth.Rejection {\n\tfor _, name := range \
                      []string{\"Secret\", \"ConfigMap\", \"ConfigMap\"} {\n\t\tkind := berth.ObjectKind{APIVersion: \
                      \"v1\", Kind: name}\n\t\tif len(berth.Objects(kind)) > 0 {\n\t\t\treturn \
                      berth.Reject(\"no\")\n\t\t}\n\t}\n\treturn nil\n}";
        let manifest = "Version: \"1\", Columns: []berth.Column{berth.Name}, Objects: \
                        []berth.ObjectKind{{APIVersion: \"v1\", Kind: \"Secret\"}}}";
        let source = SOURCE
            .replace("Version: \"1\"}", manifest)
            .replace("func (*plugin) Filter(*berth.Pod, *berth.Node) *berth.Rejection { return nil }", filter);
        told(language, "plugin.go", &source)
    });
}
