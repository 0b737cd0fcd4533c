//! Tests of the examples in `plugins/examples` that exist in only one language. Each example gives the answers in its
//! `cases.yaml`, and needs only the grants in this file.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use berth_author::{CaseFile, CaseHost};
use berth_config::PluginSettings;
use berth_framework::{Grants, PluginFactory as _};
use berth_test_languages::{LANGUAGES, Language, build, folder, load};
use berth_wasm_host::ComponentFactory;

/// The folder and name of the examples in Rust.
const RUST: [(&str, &str); 4] = [
    ("capacity-scheduling", "CapacityScheduling"),
    ("gpu-bin-pack", "GpuBinPack"),
    ("load-aware", "LoadAware"),
    ("numa-aware", "NumaAware"),
];

const PYTHON: Language = LANGUAGES[1];
const JAVASCRIPT: Language = LANGUAGES[2];

#[test]
fn in_rust() {
    for (plugin, name) in RUST {
        let factory = load(name, berth_test_components::component(name)).unwrap();
        answers(plugin, &factory).unwrap();
    }
}

#[test]
fn in_python() {
    crate::run(PYTHON, |_| builds_and_answers("cost-aware", "CostAware"));
}

#[test]
fn in_javascript() {
    crate::run(JAVASCRIPT, |_| builds_and_answers("business-hours", "BusinessHours"));
}

fn builds_and_answers(plugin: &str, name: &str) -> Result<()> {
    let component = build(&folder("plugins/examples").join(plugin), name)?;
    answers(plugin, &load(name, component)?)
}

fn answers(plugin: &str, factory: &ComponentFactory) -> Result<()> {
    let file = CaseFile::read(&folder("plugins/examples").join(plugin).join("cases.yaml"))?;
    ensure!(file.plugin == factory.manifest().name, "{plugin}: the cases are about {}", file.plugin);
    let settings = PluginSettings::with_terms(&file.limits, &file.grants)?;
    let granted = settings.grants.with_context(|| format!("{plugin}: the cases do not say what it is granted"))?;
    let kinds = &factory.manifest().needs.objects;
    ensure!(kinds.iter().all(|kind| granted.reads.contains(kind)), "{plugin}: the cases do not grant {kinds:?}");
    let clock = factory.clone();
    let grants = Grants::new(granted.effects, granted.rules);
    let host = CaseHost::new(grants, move |milliseconds| clock.set_now(milliseconds));
    for result in file.run(factory, &host) {
        ensure!(result.differences.is_empty(), "{plugin}: {}: {:#?}", result.name, result.differences);
    }
    Ok(())
}

/// Each language has a page in the guide.
#[test]
fn have_pages() {
    let summary = fs::read_to_string(folder("docs/src/SUMMARY.md")).unwrap();
    for plugin in RUST.map(|(plugin, _)| plugin).into_iter().chain(["business-hours", "cost-aware"]) {
        assert!(summary.contains(&format!("(examples/{plugin}.md)")), "docs/src/SUMMARY.md does not name {plugin}");
        let page = fs::read_to_string(folder(&format!("docs/src/examples/{plugin}.md"))).unwrap();
        assert!(page.contains(&format!("`plugins/examples/{plugin}`")), "docs/src/examples/{plugin}.md");
    }
}
