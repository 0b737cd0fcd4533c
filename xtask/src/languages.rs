//! Plugins in every language: installs their tools, tests the plugins, and runs the author's journey.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{cargo_with, setup};

/// The languages, by their folders in `sdks/`. Languages with a `toolchain.sh` need tools.
const LANGUAGES: [&str; 5] = ["rust", "c", "python", "js", "go"];

/// Installs the missing tools for the named languages, or for all languages, and runs their tests.
pub(crate) fn languages(named: &[String]) -> Result<()> {
    setup()?;
    let chosen: Vec<&str> = LANGUAGES
        .into_iter()
        .filter(|language| named.is_empty() || named.iter().any(|name| name == language))
        .collect();
    ensure!(named.len() <= chosen.len(), "languages are: {}", LANGUAGES.join(", "));
    let mut tests: Vec<String> = COMMON.iter().map(|test| (*test).to_owned()).collect();
    for language in &chosen {
        tests.extend(
            [
                "examples",
                "quotas",
                "probes",
                "usage",
                "columns",
                "every_point",
                "refused_imports",
                "methods_without_a_line",
                "mistakes::world",
                "journey",
                "author_templates",
            ]
            .map(|group| format!("{group}::{language}")),
        );
        tests.extend(of_one_language(language).iter().map(|test| (*test).to_owned()));
        let script = Path::new("sdks").join(language).join("toolchain.sh");
        if script.exists() {
            eprintln!("{}", script.display());
            let status =
                Command::new(&script).status().with_context(|| format!("cannot start {}", script.display()))?;
            ensure!(status.success(), "{} failed", script.display());
        }
    }
    // The selection of packages is the usual selection, since another selection would compile wasmtime again.
    let mut arguments = vec!["test", "--locked", "--test", "languages", "--test", "it", "--", "--exact"];
    arguments.extend(tests.iter().map(String::as_str));
    cargo_with(&arguments, &[("BERTH_LANGUAGES", &chosen.join(","))])
}

/// Tests that exist for only one language.
fn of_one_language(language: &str) -> &'static [&'static str] {
    match language {
        "c" => C,
        "python" => PYTHON,
        "js" => JAVASCRIPT,
        "go" => GO,
        _ => &[],
    }
}

/// Tests that need no tools of a language.
const COMMON: &[&str] = &[
    "the_example_in_rust_answers",
    "a_panic_in_rust_is_a_fault_that_names_the_line",
    "the_quota_in_rust_holds",
    "a_guest_written_by_hand_conforms",
    "the_guide_shows_the_quotas",
    "the_guide_lists_the_functions_of_effects",
    "the_quota_template_is_that_of_the_guide",
    "an_interface_that_there_is_not_is_told_with_one_that_is_alike",
    "mistakes::an_interface_that_there_is_not_is_told_before_tools_run",
    "mistakes::names::a_name_that_is_not_the_components_is_told_with_its_line",
    "one_language::in_rust",
    "one_language::have_pages",
    "tools::a_tool_is_fetched_once_whatever_an_interruption_left",
    "tools::a_tool_with_another_digest_is_refused",
    "tools::the_bindings_for_c_and_go_are_those_of_the_contract",
];

const C: &[&str] = &[
    "mistakes::printing_is_no_mistake_in_c",
    "mistakes::a_fault_in_c_names_the_function_or_with_checks_the_line",
    "mistakes::c::a_list_without_its_end_is_refused",
    "mistakes::c::a_list_of_nodes_without_its_end_is_refused",
    "mistakes::c::a_list_without_its_end_is_refused_although_its_entry_is_a_macro",
    "mistakes::c::a_member_that_is_null_is_no_member",
    "mistakes::c::a_list_with_an_entry_that_is_none_is_refused",
    "mistakes::c::arguments_that_a_template_does_not_know_are_refused",
    "mistakes::c::a_call_that_needs_a_clock_or_files_is_refused_with_its_line",
    "mistakes::c::reads_that_are_not_declared_are_told_once",
    "mistakes::c::a_function_that_takes_most_of_the_stack_is_refused",
    "mistakes::c::a_stack_that_is_used_up_is_suspected",
    "mistakes::kinds::objects_of_an_undeclared_kind_are_told_in_c",
];

const PYTHON: &[&str] = &[
    "mistakes::an_action_that_there_is_not_is_told_in_python",
    "mistakes::what_is_read_and_not_declared_is_told_in_python",
    "mistakes::a_score_that_is_no_int_is_a_fault_in_python",
    "mistakes::python::what_is_installed_on_the_machine_is_no_part_of_a_component",
    "mistakes::python::a_package_that_is_not_in_the_folder_is_warned_of",
    "mistakes::python::an_attribute_of_another_form_is_refused_when_the_class_is_loaded",
    "mistakes::python::a_member_that_is_misspelt_is_refused_with_its_line",
    "mistakes::python::a_class_without_the_decorator_is_refused_with_its_line",
    "mistakes::python::a_member_that_the_plugin_uses_itself_is_not_misspelt",
    "mistakes::python::a_method_with_other_parameters_is_refused_with_its_line",
    "mistakes::python::inherited_methods_are_seen",
    "mistakes::python::an_answer_that_is_none_names_the_method_the_node_and_the_line",
    "mistakes::kinds::objects_of_an_undeclared_kind_are_told_in_python",
    "mistakes::permit::an_answer_of_permit_that_is_none_is_a_fault_with_its_line_in_python",
    "one_language::in_python",
];

const JAVASCRIPT: &[&str] = &[
    "two_builds_in_javascript_have_the_same_bytes",
    "mistakes::an_action_that_there_is_not_is_told_in_javascript",
    "mistakes::an_interface_that_there_is_not_is_told_in_javascript",
    "mistakes::a_column_that_there_is_not_is_told_in_javascript",
    "mistakes::two_sources_of_a_plugin_are_refused_in_javascript",
    "mistakes::a_fault_in_a_member_of_one_line_names_that_line",
    "mistakes::js::a_member_that_is_misspelt_or_has_another_form_is_refused_with_its_line",
    "mistakes::js::a_plugin_that_is_not_exported_is_told_with_the_line_to_write",
    "mistakes::js::members_that_the_plugin_uses_itself_or_inherits_are_no_mistake",
    "mistakes::js::an_answer_that_is_none_names_the_member_the_node_and_the_line",
    "mistakes::kinds::objects_of_an_undeclared_kind_are_told_in_javascript",
    "mistakes::names::a_name_that_is_not_the_components_is_told_in_javascript",
    "mistakes::permit::an_answer_of_permit_that_is_none_is_a_fault_with_its_line_in_javascript",
    "mistakes::the_console_is_no_mistake_in_javascript",
    "mistakes::types_are_checked_in_typescript_and_names_in_javascript",
    "one_language::in_javascript",
];

const GO: &[&str] = &[
    "the_unit_test_of_the_guide_passes_in_go",
    "mistakes::go::a_package_that_cannot_be_a_plugin_is_refused_with_its_line",
    "mistakes::go::a_version_of_go_that_the_build_lacks_is_told_of_the_authors_file",
    "mistakes::go::labels_and_annotations_that_are_read_and_not_declared_are_told_once",
    "mistakes::go::a_method_that_is_not_the_sdks_is_refused",
    "mistakes::go::an_error_of_the_compiler_names_the_file_as_the_author_does",
    "mistakes::kinds::objects_of_an_undeclared_kind_are_told_in_go",
    "mistakes::permit::an_effect_that_is_none_is_a_fault_in_go",
    "methods_without_a_line::go_with_pods",
    "methods_without_a_line::go_with_calls_that_panic",
    "methods_without_a_line::go_with_columns_and_json",
    "methods_without_a_line::go_with_a_hint",
    "methods_without_a_line::go_with_a_hint_that_searches_all_nodes",
    "mistakes::go::a_component_has_the_names_of_its_functions",
    "mistakes::go::an_annotation_of_an_events_node_is_told",
    "the_example_in_go_finds_the_node_group_for_a_plugin_of_ones_own",
    "what_if::the_example_in_go_is_answered_by_a_running_scheduler",
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::PathBuf};

    use super::*;

    /// The texts of all sources below a folder of the repository.
    fn sources(folder: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        let (mut folders, mut texts): (Vec<PathBuf>, Vec<String>) = (vec![root], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    texts.push(fs::read_to_string(path).unwrap());
                }
            }
        }
        texts
    }

    /// The names of the tests in a file, without the tests that a macro makes.
    fn names(text: &str) -> Vec<String> {
        let after = text.split("#[test]").skip(1);
        let name = |rest: &str| Some(rest.split_once("fn ")?.1.split_once('(')?.0.to_owned());
        after.filter_map(name).filter(|name| !name.starts_with('$')).collect()
    }

    /// The last parts of the names that are listed.
    fn listed() -> BTreeSet<&'static str> {
        [COMMON, C, PYTHON, JAVASCRIPT, GO].into_iter().flatten().filter_map(|path| path.rsplit("::").next()).collect()
    }

    /// `--exact` silently leaves out tests that are not listed.
    #[test]
    fn every_test_of_the_languages_is_run() {
        let listed = listed();
        let mut found: Vec<String> =
            sources("tests/languages/tests/languages").iter().flat_map(|text| names(text)).collect();
        // Tests with the name of a language are listed by their module.
        found.retain(|name| !LANGUAGES.contains(&name.as_str()));
        assert!(found.len() > 50, "{found:?}");
        let missing: Vec<&String> = found.iter().filter(|name| !listed.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// `--exact` silently runs nothing for a name that no test has.
    #[test]
    fn every_test_in_the_list_exists() {
        let folders = ["tests/languages/tests/languages", "host/tests/it", "crates/libberth/tests/it"];
        let sources = folders.map(sources).concat().concat();
        let gone: Vec<&str> = listed().into_iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
        assert!(gone.is_empty(), "{gone:?}");
    }
}
