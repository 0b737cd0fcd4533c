//! Answers of Permit and arguments of effects that are not in the contract. A fault names the value, the method and the
//! line.

use anyhow::{Context as _, Result, bail, ensure};
use berth_author::PluginHarness;
use berth_framework::PermitVerdict;
use berth_model::NodeIdx;
use berth_test_languages::{LANGUAGES, Language};
use berth_testing::{node, pod};
use berth_wasm_host::ComponentFactory;

use super::built;
use crate::{failed, run};

/// The verdict of a fresh instance about a pod with this name.
fn verdict(factory: &ComponentFactory, name: &str) -> Result<PermitVerdict> {
    let mut harness = PluginHarness::new(factory, "null")?;
    harness.set_node(&node("a").build());
    harness.sync().map_err(failed)?;
    let pod = harness.intern(&pod(name).build());
    let answer = harness.in_cycle(&pod, |plugin, call| Some(plugin.permit()?.permit(call, NodeIdx(0)).0));
    answer.context("no permit")
}

/// Builds a plugin that answers about the pod `good` with a wait of 5 ms, and asks the plugin about the other pods. The
/// fault about each of these pods must contain the words.
fn check(language: Language, file: &str, source: &str, faults: &[(&str, &str)]) -> Result<()> {
    let factory = built(language, file, source, &["permit"], &[])?;
    ensure!(verdict(&factory, "good")? == PermitVerdict::Wait(5));
    for (name, told) in faults {
        let PermitVerdict::Deny(status) = verdict(&factory, name)? else { bail!("{name} was taken") };
        ensure!(status.message().contains(told), "{name}: {status:?}");
    }
    Ok(())
}

/// A result of `any` has no type, so the build cannot refuse it.
const JAVASCRIPT: &str = r#"import { effects } from "berth";
const any = (value) => JSON.parse(JSON.stringify(value));
const go = { kind: "v1/ConfigMap", namespace: "a", name: "go" };
const answers = {
  good: () => ({ wait: 5.5, reject: null, effects: [effects.wait([go], 2.5, "no go"), effects.activate(["u"])] }),
  less: () => ({ wait: -1 }),
  none: () => ({ wait: NaN }),
  text: () => ({ wait: "5000" }),
  null: () => ({ wait: 5, effects: [null] }),
  five: () => 5,
  reason: () => ({ reject: "full" }),
  words: () => ({ waitMilliseconds: 5000 }),
  capital: () => ({ Wait: 5 }),
  strange: () => ({ held: 5 }),
  past: () => ({ wait: 5, effects: [effects.wait([go], -5, "no go")] }),
  place: () => ({ wait: 5, effects: [effects.wait([any({ kind: "v1/Pod", name: "x" })], 5, "no go")] }),
  uid: () => ({ effects: [effects.allow(any(7))] }),
  key: () => ({ effects: [effects.event(any({ reason: "R", action: "A", notes: "n" }))] }),
};
export default {
  name: "Mistaken",
  version: "1",
  permit: (pod) => answers[pod.name](),
};
"#;

#[test]
fn an_answer_of_permit_that_is_none_is_a_fault_with_its_line_in_javascript() {
    run(LANGUAGES[2], |language| {
        let faults = [
            (
                "less",
                "TypeError: permit gave wait -1, which is not a number of milliseconds, at plugin.js:23 in permit",
            ),
            ("none", "permit gave wait NaN, which is not a number of milliseconds, at plugin.js:23 in permit"),
            ("text", "permit gave wait \"5000\", which is not a number of milliseconds, at plugin.js:23 in permit"),
            ("null", "permit gave the effect null, which no function of effects made, at plugin.js:23 in permit"),
            (
                "five",
                "permit gave 5, which is neither null, a rejection nor { wait, reject, effects }, at plugin.js:23",
            ),
            ("reason", "permit gave reject \"full\", which is not a rejection, at plugin.js:23 in permit"),
            (
                "words",
                "permit gave waitMilliseconds, which is nothing that Berth reads (did you mean wait?), at plugin.js:23",
            ),
            ("capital", "permit gave Wait, which is nothing that Berth reads (did you mean wait?), at plugin.js:23"),
            ("strange", "permit gave held, which is nothing that Berth reads (it reads wait, reject, effects), at"),
            ("past", "effects.wait got timeoutMs -5, which is not a number of milliseconds, at plugin.js:15 in past"),
            (
                "place",
                "effects.wait got namespace undefined, which is not a text; it is \"\" for a kind without namespaces, at \
                 plugin.js:16 in place",
            ),
            ("uid", "effects.allow got uid 7, which is not a text, at plugin.js:17 in uid"),
            ("key", "effects.event got notes, which is nothing that Berth reads (did you mean note?), at plugin.js:18"),
        ];
        check(language, "plugin.js", JAVASCRIPT, &faults)
    });
}

const PYTHON: &str = r#"import berth
from berth import effects

GO = ("v1/ConfigMap", "a", "go")
ANSWERS = {
    "good": lambda: (berth.Wait(5), [effects.wait([GO], 2, "no go"), effects.activate(["u"])]),
    "less": lambda: berth.Wait(-1),
    "text": lambda: berth.Wait("5000"),
    "none": lambda: (berth.Wait(5), [None]),
    "lone": lambda: (berth.Wait(5), effects.allow("u")),
    "five": lambda: 5,
    "words": lambda: {"wait": 5},
    "past": lambda: (berth.Wait(5), [effects.wait([GO], -5, "no go")]),
    "place": lambda: (berth.Wait(5), [effects.wait([("v1/Pod", None, "x")], 5, "no go")]),
    "short": lambda: (berth.Wait(5), [effects.wait([("v1/Pod", "x")], 5, "no go")]),
    "uid": lambda: (None, [effects.allow(7)]),
    "level": lambda: berth.log("info", "granted"),
}


@berth.plugin
class Mistaken:
    name = "Mistaken"
    version = "1"

    def permit(self, pod, node):
        return ANSWERS[pod.name]()
"#;

#[test]
fn an_answer_of_permit_that_is_none_is_a_fault_with_its_line_in_python() {
    run(LANGUAGES[1], |language| {
        let faults = [
            ("less", "TypeError: Wait got -1, which is not a number of milliseconds, at plugin.py:7 in "),
            ("text", "Wait got '5000', which is not a number of milliseconds, at plugin.py:8 in "),
            ("none", "permit gave the effect None, which no function of berth.effects made, at plugin.py:26 in permit"),
            ("lone", "which is not a list of effects, at plugin.py:26 in permit"),
            ("five", "permit gave 5, which is neither None, a rejection nor a Wait, at plugin.py:26 in permit"),
            (
                "words",
                "permit gave {'wait': 5}, which is neither None, a rejection nor a Wait, at plugin.py:26 in permit",
            ),
            ("past", "effects.wait got timeout_ms -5, which is not a number of milliseconds, at plugin.py:13 in "),
            (
                "place",
                "effects.wait got namespace None, which is not a text; it is \"\" for a kind without namespaces, at \
                 plugin.py:14 in ",
            ),
            (
                "short",
                "effects.wait got the object ('v1/Pod', 'x'), which is not a tuple (kind, namespace, name), at plugin.py:15",
            ),
            ("uid", "effects.allow got uid 7, which is not a text, at plugin.py:16 in "),
            (
                "level",
                "log got level 'granted', which is none of debug, info, warn, error; write log(message, level), at \
                 plugin.py:17 in ",
            ),
        ];
        check(language, "plugin.py", PYTHON, &faults)
    });
}

const GO: &str = r#"package plugin

import "berth"

type plugin struct{}

func init() { berth.Register(plugin{}) }

func (plugin) Describe() berth.Manifest { return berth.Manifest{Name: "Mistaken", Version: "1"} }

func (plugin) Permit(pod *berth.Pod, node *berth.Node) berth.Verdict {
	minus := -5
	if pod.Name == "less" {
		return berth.Verdict{WaitMilliseconds: uint64(minus)}
	}
	effects := map[string][]berth.Effect{
		"good":    {berth.WaitFor{Milliseconds: 2}, berth.Activate{UIDs: []string{"u"}}},
		"none":    {nil},
		"pointer": {&berth.Bind{}},
		"past":    {berth.WaitFor{Milliseconds: uint64(minus)}},
		"nobody":  {berth.Evict{Message: "go"}},
	}
	return berth.Verdict{WaitMilliseconds: 5, Effects: effects[pod.Name]}
}
"#;

/// The compiler refuses all other mistakes.
#[test]
fn an_effect_that_is_none_is_a_fault_in_go() {
    run(LANGUAGES[3], |language| {
        let negative = "18446744073709551611, which is a negative number that was converted";
        let faults = [
            ("less", format!("Permit gave WaitMilliseconds {negative}")),
            ("none", "Permit gave the effect nil, which is none".to_owned()),
            (
                "pointer",
                "Permit gave the effect *berth.Bind, which is none of the types of package berth: return a value, not a \
                 pointer"
                    .to_owned(),
            ),
            ("past", format!("Permit gave the effect berth.WaitFor with Milliseconds {negative}")),
            ("nobody", "Permit gave the effect berth.Evict, which has no Pod".to_owned()),
        ];
        let faults = faults.each_ref().map(|(name, told)| (*name, told.as_str()));
        check(language, "plugin.go", GO, &faults)
    });
}
