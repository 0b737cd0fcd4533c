//! `cargo xtask sdk-bench`: the gain from `sync-pods` and `reuse` for a plugin in each language.
//!
//! One plugin in each language is built three times, with fewer lines of its `plugin.wit` each time. `berth bench` then
//! runs with each build, one after the other, and without a plugin.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{cargo, setup, target_dir};

const PLUGIN: &str = "PodCount";
const LANGUAGES: [&str; 4] = ["c", "go", "js", "python"];
const ROUNDS: usize = 3;

/// The interfaces that are left out of `plugin.wit`, with the name of the variant.
const VARIANTS: [(&str, &[&str]); 3] =
    [("neither", &["sync-pods", "reuse"]), ("sync-pods", &["reuse"]), ("sync-pods, reuse", &[])];

/// One measurement of a round: the plugins directory and its figures.
struct Measured {
    name: String,
    plugins_dir: Option<PathBuf>,
    micros_per_pod: Vec<f64>,
}

#[expect(clippy::print_stdout, reason = "the result")]
pub(crate) fn sdk_bench(named: &[String]) -> Result<()> {
    setup()?;
    let known = |name: &&String| LANGUAGES.contains(&name.as_str());
    ensure!(named.iter().all(|name| known(&name)), "languages are: {}", LANGUAGES.join(", "));
    let chosen = LANGUAGES.into_iter().filter(|language| named.is_empty() || named.iter().any(|name| name == language));
    cargo(&["build", "--locked", "--release", "--bin", "berth"])?;
    let root = env::current_dir()?;
    let work = root.join(target_dir()).join("sdk-bench");
    let mut all =
        vec![Measured { name: "without the plugin".to_owned(), plugins_dir: None, micros_per_pod: Vec::new() }];
    for language in chosen {
        for (variant, left_out) in VARIANTS {
            let plugins_dir = built(&root, &work, language, left_out)?;
            let name = format!("{language}: {variant}");
            all.push(Measured { name, plugins_dir: Some(plugins_dir), micros_per_pod: Vec::new() });
        }
    }
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for measured in &mut all {
            let figure = bench(&root, &work, measured.plugins_dir.as_deref())?;
            measured.micros_per_pod.push(figure);
        }
    }
    println!("CPU a pod, µs, median of {ROUNDS} alternating runs");
    for Measured { name, micros_per_pod, .. } in &mut all {
        micros_per_pod.sort_by(f64::total_cmp);
        println!("{name:<24} {:.0}", micros_per_pod.get(ROUNDS / 2).copied().unwrap_or_default());
    }
    Ok(())
}

/// Builds the plugin of a language without some interfaces. Returns a directory that holds only this plugin.
fn built(root: &Path, work: &Path, language: &str, left_out: &[&str]) -> Result<PathBuf> {
    let sources = root.join("tests/languages/measured").join(language);
    let folder = work.join(format!("{language}-{}", left_out.len()));
    let sdks = root.join("sdks");
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir(&sources).with_context(|| sources.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        // The module file of a Go plugin has the path of the SDK.
        let text = fs::read_to_string(&path)?.replace("../../../../sdks", &sdks.display().to_string());
        let text = if name == "plugin.wit" { without(&text, left_out) } else { text };
        fs::write(folder.join(name), text)?;
    }
    let script = sdks.join(language).join("build.sh");
    eprintln!("building {}", folder.display());
    let status = Command::new(&script).arg(&folder).arg(PLUGIN).status();
    let status = status.with_context(|| format!("cannot start {}", script.display()))?;
    ensure!(status.success(), "{} failed; `cargo xtask languages {language}` installs what it needs", script.display());
    let plugins_dir = folder.join("plugins");
    fs::create_dir_all(&plugins_dir)?;
    let file = format!("{PLUGIN}.wasm");
    fs::copy(folder.join("build").join(&file), plugins_dir.join(&file))?;
    Ok(plugins_dir)
}

/// The world without the exports of these interfaces.
fn without(world: &str, left_out: &[&str]) -> String {
    let is_left_out = |line: &str| left_out.iter().any(|interface| line.contains(&format!("scheduler/{interface}@")));
    world.lines().filter(|line| !is_left_out(line)).flat_map(|line| [line, "\n"]).collect()
}

/// The processor time for a pod, in microseconds.
fn bench(root: &Path, work: &Path, plugins_dir: Option<&Path>) -> Result<f64> {
    let berth = root.join(target_dir()).join("release/berth");
    let mut command = Command::new(&berth);
    command.args(["bench", "SchedulingBasic", "--nodes", "1000", "--pods", "1000", "-o", "json"]);
    let measured = root.join("tests/languages/measured");
    if let Some(plugins_dir) = plugins_dir {
        command.arg("--plugins-dir").arg(plugins_dir);
        command.arg("--config").arg(measured.join("scheduler.yaml"));
        command.arg("--plugin-config").arg(measured.join("plugin-host.yaml"));
        command.arg("--artifact-cache").arg(work.join("artifacts"));
    }
    let output = command.output().with_context(|| format!("cannot start {}", berth.display()))?;
    ensure!(output.status.success(), "berth bench failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let runs: Value = serde_json::from_slice(&output.stdout).context("cannot read the output of berth bench")?;
    runs[0]["cpuMicrosPerPod"].as_f64().context("the output of berth bench has no cpuMicrosPerPod")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_world_are_left_out() {
        let world = include_str!("../../tests/languages/measured/c/plugin.wit");
        let [none, one, both] = [&[][..], &["reuse"], &["sync-pods", "reuse"]].map(|it| without(world, it));
        assert_eq!(none, world);
        assert!(!one.contains("/reuse@") && one.contains("/sync-pods@") && one.contains("/sync@"));
        assert!(!both.contains("/sync-pods@") && both.contains("/sync@") && both.ends_with("}\n"));
    }
}
