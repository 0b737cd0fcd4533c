//! Mistakes in a plugin in C.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_author::PluginHarness;
use berth_model::Pod;
use berth_test_languages::{LANGUAGES, Language, folder};

use super::{Asked, built, c_source};
use crate::{compared, failed, run};

const C: Language = LANGUAGES[0];

/// The output of lists.py for a plugin with this list and this member, and whether lists.py accepts the plugin.
fn looked_at(list: &str, member: &str) -> Result<(bool, String)> {
    let plugin = tempfile::tempdir()?;
    let source = format!("{list}\nconst struct berth_plugin berth_plugin = {{\n    {member},\n}};\n");
    fs::write(plugin.path().join("plugin.c"), source)?;
    let output = Command::new("python3").arg(folder("sdks/c/lists.py")).arg(plugin.path()).output()?;
    Ok((output.status.success(), String::from_utf8(output.stderr)?))
}

#[test]
fn a_list_without_its_end_is_refused() {
    let keys = |entries: &str| {
        looked_at(&format!("static const char *const keys[] = {{{entries}}};"), ".label_keys = keys").unwrap()
    };
    let events = |entries: &str| {
        let list = format!("static const struct berth_cluster_event on[] = {{{entries}}};");
        looked_at(&list, ".events_to_register = on").unwrap()
    };
    for ended in [
        keys("\"zone\", NULL"),
        keys("\n  \"zone\", /* east */\n  NULL, // the \"end\"\n"),
        keys("ZONE_AND_END"),
        events("{\"Pod\", ADD | DELETE}, {0}"),
        events("{\"Pod\", ADD}, {NULL, 0},"),
    ] {
        assert_eq!(ended, (true, String::new()));
    }
    let no_keys = "the list label_keys has no end: write NULL as its last entry\n";
    let no_events = "the list events_to_register has no end: write {0} as its last entry\n";
    for (unended, error) in [
        (keys("\n  \"zone\",\n  \"//rack\", // NULL\n"), format!("error: plugin.c:1: {no_keys}")),
        (
            looked_at("", ".label_keys = (const char *const[]){\"zone\"}").unwrap(),
            format!("error: plugin.c:3: {no_keys}"),
        ),
        (events("{\"Pod\", ADD | DELETE}"), format!("error: plugin.c:1: {no_events}")),
    ] {
        assert_eq!(unended, (false, error));
    }
}

/// The array is not among the members of `berth_plugin`.
#[test]
fn a_list_of_nodes_without_its_end_is_refused() {
    let stored = |before: &str, array: &str, value: &str| {
        let source = format!(
            "{before}\nstatic berth_verdict pre_filter(const berth_pod *pod, const char *const **nodes) {{\n  \
             {array}\n  *nodes = {value};\n  return berth_pass();\n}}\n"
        );
        looked_at(&source, ".pre_filter = pre_filter").unwrap()
    };
    let other = "static void other(void) { static const char *names[] = {\"x\"}; }";
    for ended in [
        stored("", "static const char *names[] = {\"a\", \"b\", NULL};", "names"),
        stored("", "static const char *names[3] = {\"a\", \"b\"};", "names"),
        stored("#define N 3", "static const char *names[N] = {\"a\"};", "names"),
        stored(other, "static const char *names[] = {\"a\", NULL};", "names"),
        stored("", "", "chosen(pod)"),
    ] {
        assert_eq!(ended, (true, String::new()));
    }
    let error = "error: plugin.c:3: the list *nodes has no end: write NULL as its last entry\n";
    for unended in [
        stored("", "static const char *names[] = {\"a\", \"b\"};", "names"),
        stored("", "static const char *names[2] = {\"a\", \"b\"};", "names"),
        stored("#define N 1", "static const char *names[N] = {\"a\"};", "names"),
    ] {
        assert_eq!(unended, (false, error.to_owned()));
    }
    let literal = stored("", "", "(const char *const[]){\"a\"}");
    assert_eq!(literal, (false, error.replace(":3:", ":4:")));
}

#[test]
fn a_member_that_is_null_is_no_member() {
    let source = |members: &str| format!("const struct berth_plugin berth_plugin = {{.name = \"A\", {members}}};\n");
    let filter = "    export berth:scheduler/filter@0.2.0;\n";
    for members in [".filter = filter, .score = NULL", ".score = 0, .filter = filter, .sign = NULL /* none */"] {
        assert_eq!(compared("c", "plugin.c", &source(members), filter), (true, String::new()), "{members}");
    }
    let (is_taken, said) = compared("c", "plugin.c", &source(".filter = NULL"), filter);
    assert!(!is_taken && said.contains("exports filter, and berth_plugin has no .filter: write it"), "{said}");
}

/// Other memory would follow a list without its end, and the plugin would fail in `describe` without a line.
#[test]
fn a_list_without_its_end_is_refused_although_its_entry_is_a_macro() {
    let defined = "#define ZONE PREFIX \"/zone\"  // the key\n#define PREFIX \"topology.kubernetes.io\"\n#define END NULL\n\
                   static const char rack[] = \"rack\";\n";
    let keys = |entries: &str| {
        looked_at(&format!("{defined}static const char *const keys[] = {{{entries}}};"), ".label_keys = keys").unwrap()
    };
    for ended in [keys("ZONE, NULL"), keys("rack, END"), keys("ZONE, OF_A_HEADER")] {
        assert_eq!(ended, (true, String::new()));
    }
    let error = "error: plugin.c:5: the list label_keys has no end: write NULL as its last entry\n";
    for unended in [keys("ZONE"), keys("\"zone\", ZONE,"), keys("rack")] {
        assert_eq!(unended, (false, error.to_owned()));
    }
    let events = "#define POD \"Pod\"\nstatic const struct berth_cluster_event on[] = {{POD, ADD}};";
    let error = "error: plugin.c:2: the list events_to_register has no end: write {0} as its last entry\n";
    assert_eq!(looked_at(events, ".events_to_register = on").unwrap(), (false, error.to_owned()));
}

/// The compiler finds mistakes in a call that lists.py does not see in the source. The SDK finds other mistakes when
/// the component is loaded.
#[test]
fn a_list_with_an_entry_that_is_none_is_refused() {
    run(C, |language| {
        let good = c_source("(void)pod, (void)node;\n  return berth_reject(berth_concat(\"no\", \"de\", NULL));");
        let event = "static const struct berth_cluster_event on[] = {{\"Pod\", 0}, {0}};\n\nconst struct";
        let kind = "static const struct berth_object_kind of[] = {{NULL, \"Kind\"}, {0}};\n\nconst struct";
        let no_key = good.replace("zone\", NULL", "zone\", (const char *)0xfffffff0, NULL");
        for (source, told) in [
            (no_key.clone(), "label_keys is not ended by NULL"),
            (no_key.replace(".label_", ".annotation_"), "annotation_keys is not ended by NULL"),
            (
                good.replace("const struct", event).replace(".filter", ".events_to_register = on, .filter"),
                "events_to_register is not ended by {0}",
            ),
            (
                good.replace("const struct", kind).replace(".filter", ".objects = of, .filter"),
                "objects is not ended by {0}",
            ),
            (good.replace("\"de\", NULL", "\"de\""), "plugin.c:10:46: error: missing sentinel in function call"),
        ] {
            let refused = Asked::new(language, "plugin.c", &source, &["filter"], &[]).err().context("it was taken")?;
            ensure!(format!("{refused:#}").contains(told), "{refused:#}");
        }
        Ok(())
    });
}

/// A template, and arguments that it refuses, each with the message.
struct Refusals {
    template: &'static str,
    interfaces: &'static [&'static str],
    messages: &'static [(&'static str, &'static str)],
}

const REFUSALS: [Refusals; 4] = [
    Refusals {
        template: "template",
        interfaces: &["filter", "score"],
        messages: &[(r#"{"avoids": "west"}"#, "unknown key \"avoids\"; known: avoid")],
    },
    Refusals {
        template: "templates/filter-by-label",
        interfaces: &["filter"],
        messages: &[(r#"{"label": "a", "é": 1}"#, "unknown key \"é\"; known: label")],
    },
    Refusals {
        template: "templates/approval",
        interfaces: &["permit"],
        messages: &[(r#"{"Seconds": 9}"#, "unknown key \"Seconds\"; known: seconds")],
    },
    Refusals {
        template: "templates/quota",
        interfaces: &["pre-filter", "reserve"],
        messages: &[
            (r#"{"label": "a", "limit": 1, "limits": {"b": 2}}"#, "unknown key \"limits\"; known: label, limit"),
            (r#"["label", "limit"]"#, "must be a JSON object"),
            (r#"{"label": "a", "limit": 0}"#, NO_QUOTA),
            (r#"{"label": "a", "limit": -1}"#, NO_QUOTA),
            (r#"{"label": "", "limit": 1}"#, NO_QUOTA),
        ],
    },
];

const NO_QUOTA: &str = "label and limit: must be the key of a label and a number of pods";

#[test]
fn arguments_that_a_template_does_not_know_are_refused() {
    run(C, |language| {
        for Refusals { template, interfaces, messages } in REFUSALS {
            let source = fs::read_to_string(folder("sdks/c").join(template).join("plugin.c"))?;
            let factory = built(language, "plugin.c", &source.replace("{{name}}", "Mistaken"), interfaces, &[])?;
            for (args, expected) in messages {
                let refused = PluginHarness::new(&factory, args).err().context("it took the arguments")?.to_string();
                ensure!(refused == *expected, "{template}: {refused}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_call_that_needs_a_clock_or_files_is_refused_with_its_line() {
    run(C, |language| {
        let body = "(void)pod, (void)node;\n  return is_old() || is_there() ? berth_pass() : berth_reject(\"no\");";
        let source = |time: &str, other: &str| {
            let old = format!("static bool is_old(void) {{ return {time} > 5; }}\n\n");
            let there = format!("static bool is_there(void) {{\n  return {other};\n}}\n\n");
            let source = c_source(body).replace("static berth_verdict", &(old + &there + "static berth_verdict"));
            format!("#include <stdlib.h>\n#include <time.h>\n{source}")
        };
        let clock = "error: plugin.c:10: is_old calls time; a plugin has no clock: use berth_now()\n";
        let no_files = "a plugin has no files: use its arguments, or objects of the cluster\n";
        let no_environment = "a plugin has no environment: use its arguments\n";
        for (other, told) in [
            ("fopen(\"a\", \"r\")", format!("error: plugin.c:13: is_there calls fopen; {no_files}")),
            ("getchar()", format!("error: something calls fopen, getchar or the like (fd_read); {no_files}")),
            ("getenv(\"A\")", format!("error: plugin.c:13: is_there calls getenv; {no_environment}")),
        ] {
            let source = source("time(NULL)", other);
            let refused = built(language, "plugin.c", &source, &["filter"], &[]).err().context("it was built")?;
            let refused = refused.to_string();
            ensure!(refused.contains(&told) && refused.contains(clock), "{refused}");
        }
        built(language, "plugin.c", &source("rand()", "rand()"), &["filter"], &[])?;
        Ok(())
    });
}

#[test]
fn reads_that_are_not_declared_are_told_once() {
    run(C, |language| {
        let body = "return berth_pod_json(pod) || berth_node_annotation(node, \"load\") || \
                    berth_node_annotation(node, \"rack\") || berth_node_label(node, \"topology.kubernetes.io/zone\") || \
                    berth_node_label(node, \"rack\") || berth_object(\"v1\", \"Secret\", \"team\", \"a\") || \
                    berth_object(\"v1\", \"ConfigMap\", \"team\", \"a\") ? berth_pass() : berth_reject(\"no\");";
        let source = c_source(body).replace("    .label_keys = labels,\n", "");
        let mut asked = Asked::new(language, "plugin.c", &source, &["filter"], &[])?;
        asked.harness.ask(&Pod::default()).map_err(failed)?;
        let reads: Vec<String> = asked.factory.stats().undeclared_reads().into_keys().collect();
        let undeclared = [
            "annotation load",
            "annotation rack",
            "label rack",
            "label topology.kubernetes.io/zone",
            "objects v1/ConfigMap",
            "objects v1/Secret",
            "pod_json (berth_pod_json)",
        ];
        ensure!(reads == undeclared, "{reads:?}");
        Ok(())
    });
}

#[test]
fn a_function_that_takes_most_of_the_stack_is_refused() {
    run(C, |language| {
        let body = "char name[100000];\n  snprintf(name, sizeof name, \"%d\", (int)node);\n  \
                    return name[pod->priority] ? berth_pass() : berth_reject(name);";
        let refused = built(language, "plugin.c", &c_source(body), &["filter"], &[]).err().context("it was built")?;
        let told = "plugin.c:8:22: error: stack frame size (100016) exceeds limit (49152) in 'filter'";
        ensure!(refused.to_string().contains(told), "{refused}");
        Ok(())
    });
}

#[test]
fn a_stack_that_is_used_up_is_suspected() {
    run(C, |language| {
        let dig = "static int64_t dig(int64_t depth) {\n  volatile int64_t room[200];\n  room[depth] = depth;\n  \
                   return depth ? dig(depth - 1) + room[depth] : 0;\n}\n\nstatic berth_verdict";
        let suspicion = " (the address is just below 0: did the component's stack overflow?)";
        for (call, place, is_near) in
            [("dig(100)", "dig", true), ("value_at((const int *)0x80000000)", "value_at", false)]
        {
            let body = format!("return {call} + node > pod->priority ? berth_pass() : berth_reject(\"no\");");
            let source = c_source(&body).replace("static berth_verdict", dig);
            let mut asked = Asked::new(language, "plugin.c", &source, &["filter"], &[])?;
            let fault = asked.harness.ask(&Pod::default()).err().context("nothing failed")?;
            ensure!(fault.message().contains(&format!("out of bounds memory access in {place}")), "{fault:?}");
            ensure!(fault.message().contains(suspicion) == is_near, "{fault:?}");
        }
        Ok(())
    });
}
