//! Replaces plugin binaries and waits until the scheduler has reacted correctly.
//!
//! A working binary must serve, a broken binary must be replaced by a working binary, and a file that is not a plugin
//! must be refused while the previous version continues to serve.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use berth_components::{COMPONENTS, EmbeddedComponent};
use berth_test_guests::{self as guests, Behavior, always};
use berth_wasm_host::Binary;
use serde_json::Value;

use crate::{Processes, percentile};

/// The time within which a change takes effect, including the compilation.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Plugins that every binding or every queue needs. For these plugins, the storm uses only working binaries, and files
/// that are not plugins.
const ESSENTIAL: [&str; 3] = ["DefaultBinder", "PrioritySort", "SchedulingGates"];

/// A file for the plugins directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BinaryKind {
    /// The plugin itself with other bytes.
    Equal,
    /// The same bytes as at an earlier time, so that nothing must be compiled.
    Known,
    /// No file, so that the native plugin serves again.
    Native,
    /// Another plugin with that name, which always behaves in this way.
    Behavior(Behavior),
    Text,
    CoreModule,
    OtherWorld,
    ImportsWasi,
}

const KINDS: [BinaryKind; 13] = [
    BinaryKind::Equal,
    BinaryKind::Known,
    BinaryKind::Behavior(Behavior::SameScores),
    BinaryKind::Behavior(Behavior::Trap),
    BinaryKind::Behavior(Behavior::Loop),
    BinaryKind::Behavior(Behavior::ExhaustMemory),
    BinaryKind::Behavior(Behavior::WrongAnswers),
    BinaryKind::Behavior(Behavior::ScoreTooHigh),
    BinaryKind::Behavior(Behavior::Slow),
    BinaryKind::Text,
    BinaryKind::CoreModule,
    BinaryKind::OtherWorld,
    BinaryKind::ImportsWasi,
];

/// The swaps of one run, which a seed chooses, and the time until each took effect.
#[derive(Debug, Default)]
pub struct Swaps {
    random: u64,
    n_swaps: usize,
    /// The digests that the scheduler has already compiled.
    known: BTreeSet<String>,
    /// Milliseconds from the file's change until the new version serves.
    compiled: Vec<f64>,
    cached: Vec<f64>,
    /// Milliseconds from the file of a broken version until a working version serves again.
    recovered: Vec<f64>,
    /// Milliseconds from a file that is not a plugin until the scheduler reports its refusal.
    refused: Vec<f64>,
}

impl Swaps {
    pub fn new(seed: u64) -> Self {
        Self { random: seed, ..Self::default() }
    }

    pub fn n_swaps(&self) -> usize {
        self.n_swaps
    }

    /// Replaces every plugin once with each of some kinds of binaries, and finally with the native plugin.
    pub fn round_of_all_kinds(&mut self, processes: &Processes) -> Result<()> {
        for component in &COMPONENTS {
            let n_kinds = if ESSENTIAL.contains(&component.name) { 2 } else { 4 };
            for _ in 0..n_kinds {
                let kind = self.kind(component.name);
                self.swap(processes, component, kind)?;
            }
            self.swap(processes, component, BinaryKind::Native)?;
        }
        Ok(())
    }

    /// Replaces one plugin with a binary of any kind, and then with the component of its name.
    pub fn any(&mut self, processes: &Processes) -> Result<()> {
        let at = usize::try_from(self.next() % COMPONENTS.len() as u64).unwrap_or(0);
        let Some(component) = COMPONENTS.get(at) else { return Ok(()) };
        let kind = self.kind(component.name);
        self.swap(processes, component, kind)?;
        self.swap(processes, component, BinaryKind::Known)
    }

    /// Replaces every plugin with the component of the same name.
    pub fn all_components(&mut self, processes: &Processes) -> Result<()> {
        COMPONENTS.iter().try_for_each(|component| self.swap(processes, component, BinaryKind::Known))
    }

    pub fn all_native(&mut self, processes: &Processes) -> Result<()> {
        COMPONENTS.iter().try_for_each(|component| self.swap(processes, component, BinaryKind::Native))
    }

    /// Replaces every plugin with an equal plugin, with a plugin that gives other answers, and with itself.
    pub fn round_of_working_binaries(&mut self, processes: &Processes) -> Result<()> {
        for component in &COMPONENTS {
            self.swap(processes, component, BinaryKind::Equal)?;
            if !ESSENTIAL.contains(&component.name) {
                self.swap(processes, component, BinaryKind::Behavior(Behavior::SameScores))?;
            }
            self.swap(processes, component, BinaryKind::Equal)?;
            self.swap(processes, component, BinaryKind::Known)?;
        }
        Ok(())
    }

    fn swap(&mut self, processes: &Processes, component: &EmbeddedComponent, kind: BinaryKind) -> Result<()> {
        let (name, bytes) = (component.name, component.bytes());
        tokio::task::block_in_place(|| self.replace_and_wait(processes, name, bytes, kind))
            .with_context(|| format!("{name} {kind:?}"))
    }

    fn kind(&mut self, name: &str) -> BinaryKind {
        loop {
            let at = usize::try_from(self.next() % KINDS.len() as u64).unwrap_or(0);
            let Some(kind) = KINDS.get(at).copied() else { continue };
            if !(ESSENTIAL.contains(&name) && matches!(kind, BinaryKind::Behavior(_))) {
                return kind;
            }
        }
    }

    /// The generator SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Changes the file, and waits for the scheduler's reaction.
    fn replace_and_wait(&mut self, processes: &Processes, name: &str, itself: &[u8], kind: BinaryKind) -> Result<()> {
        self.n_swaps += 1;
        if kind == BinaryKind::Native {
            let file = processes.plugins_dir.join(format!("{name}.wasm"));
            if file.exists() {
                fs::remove_file(&file)?;
            }
            return until(processes, name, |plugin| serves(plugin, "native") && is_well(plugin));
        }
        let before = processes.plugin(name)?;
        let salt = if matches!(kind, BinaryKind::Known | BinaryKind::Behavior(Behavior::SameScores | Behavior::Slow)) {
            0
        } else {
            self.next()
        };
        let bytes = self.bytes(name, itself, kind, salt)?;
        let digest = digest(&bytes);
        let start = Instant::now();
        write_binary(processes, name, &bytes)?;
        let figures = match kind {
            BinaryKind::Native
            | BinaryKind::Equal
            | BinaryKind::Known
            | BinaryKind::Behavior(Behavior::SameScores | Behavior::Slow) => {
                until(processes, name, |plugin| serves(plugin, &digest) && is_serving(plugin))?;
                if self.known.insert(digest) { &mut self.compiled } else { &mut self.cached }
            }
            BinaryKind::Behavior(_) => {
                // The binary serves for a moment, until its first fault.
                let is_over = |plugin: &Value| plugin["refusedDigest"] == digest && !serves(plugin, &digest);
                until(processes, name, |plugin| is_over(plugin) && is_serving(plugin))?;
                &mut self.recovered
            }
            BinaryKind::Text | BinaryKind::CoreModule | BinaryKind::OtherWorld | BinaryKind::ImportsWasi => {
                // A slow binary may have faulted during the swap. Another binary may then have replaced it.
                let same =
                    |plugin: &Value| plugin["digest"] == before["digest"] || plugin["faults"] != before["faults"];
                let goes_on = |plugin: &Value| same(plugin) && is_serving(plugin);
                until(processes, name, |plugin| plugin["refusedDigest"] == digest && goes_on(plugin))?;
                &mut self.refused
            }
        };
        figures.push(start.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    fn bytes(&self, name: &str, itself: &[u8], kind: BinaryKind, salt: u64) -> Result<Vec<u8>> {
        Ok(match kind {
            BinaryKind::Equal | BinaryKind::Known | BinaryKind::Native => salted(itself, salt),
            BinaryKind::Behavior(behavior) => salted(&always(name, behavior)?, salt),
            BinaryKind::Text => format!("#!/bin/sh\necho {salt} is not a component\n").into_bytes(),
            BinaryKind::CoreModule => salted(&guests::core_module()?, salt),
            BinaryKind::OtherWorld => salted(&guests::of_another_world()?, salt),
            BinaryKind::ImportsWasi => salted(&guests::imports_wasi()?, salt),
        })
    }

    pub fn report(&self) {
        let line = |what: &str, values: &[f64]| {
            println!(
                "{what}: {} times, p50 {:.0} ms, p90 {:.0} ms, p99 {:.0} ms, longest {:.0} ms",
                values.len(),
                percentile(values, 0.5),
                percentile(values, 0.9),
                percentile(values, 0.99),
                percentile(values, 1.0)
            );
        };
        line("from file to serving, compiling included", &self.compiled);
        line("from file to serving, compiled before", &self.cached);
        line("from a broken file to a working version", &self.recovered);
        line("from a file that is not a plugin to its refusal, what served goes on", &self.refused);
    }
}

/// The component with another digest.
fn salted(component: &[u8], salt: u64) -> Vec<u8> {
    let mut bytes = component.to_vec();
    let name = b"salt";
    let length = 1 + name.len() + 8;
    bytes.extend([0, u8::try_from(length).unwrap_or(13), u8::try_from(name.len()).unwrap_or(4)]);
    bytes.extend(name);
    bytes.extend(salt.to_le_bytes());
    bytes
}

fn digest(bytes: &[u8]) -> String {
    Binary::new("", bytes).digest().to_string()
}

fn write_binary(processes: &Processes, name: &str, bytes: &[u8]) -> Result<()> {
    let part = processes.plugins_dir.join(".incoming");
    fs::write(&part, bytes)?;
    fs::rename(part, processes.plugins_dir.join(format!("{name}.wasm")))?;
    Ok(())
}

/// Whether the scheduler uses this binary in all profiles with the plugin.
fn serves(plugin: &Value, digest: &str) -> bool {
    let profiles = plugin["profiles"].as_object();
    plugin["digest"] == digest && profiles.is_some_and(|profiles| profiles.values().all(|serving| serving == digest))
}

fn is_serving(plugin: &Value) -> bool {
    plugin["state"] == "serving" || plugin["state"] == "probation"
}

fn is_well(plugin: &Value) -> bool {
    plugin["state"] == "serving"
}

fn until(processes: &Processes, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let plugin = processes.plugin(name)?;
        if is_so(&plugin) {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            bail!("what was to happen did not; the scheduler says {plugin}");
        }
        thread::sleep(Duration::from_millis(3));
    }
}
