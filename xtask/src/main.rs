//! `cargo xtask`: the commands of a contributor. The commands need only rustup and a C compiler.

mod checks;
mod confined;
mod deny;
mod dist;
mod fresh;
mod fuzz;
mod kind;
mod languages;
mod manifests;
mod release;
mod reproducible;
mod sandbox;
mod sbom;
mod sdk_bench;
mod site;
mod test_run;

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::deny::Unavailable;

const HELP: &str = "\
usage: cargo xtask COMMAND [ARGUMENT ...]

  demo [ARG ...]   build Berth and run `berth demo`: a sandbox, nodes, pods, and where each pod went
  test             run all tests; goes on after a failure, and lists all failures at the end
  fresh            the two commands above on a clone of HEAD, with an empty home, caches and target folder: exit codes, wall
                   and processor time, and what was downloaded. It takes half an hour on two cores
  swap-storm [ARG ...]
                   a steady stream of pods while every plugin is replaced, over and over; --help for its options. It
                   measures, so it takes a release build: a quarter of an hour on two cores, the first time
  soak [ARG ...]   hours of pods with ever new texts, swaps and faults; fails when memory, symbols or latency grow; --hours N,
                   --minutes N, --help for the other options; --outsiders adds all that pods, plugins, clients and files can
                   send, in a cgroup of 512 MiB. It takes a release build, too
  hostile [--confined]
                   the hostile suite: plugins, files and clients that mean harm. With --confined each scheduler runs in a cgroup
                   with the memory limit of the Deployment in deploy/kustomize, on one processor
  chaos [ARG ...]  replicas of the scheduler are killed and cut off while pods come, go and are resized; --seed N repeats a
                   run, --real takes the control plane of $KUBEBUILDER_ASSETS, --help lists the options
  e2e [SCENARIO ...]
                   the berth binary against a real etcd and kube-apiserver, from the folder that KUBEBUILDER_ASSETS names;
                   --list for the scenarios
  differential [ARG ...]
                   the same pods for kube-scheduler and for Berth, and what differs; --help for its options. Needs a folder
                   with etcd, kube-apiserver and kube-scheduler in KUBEBUILDER_ASSETS
  check            formatting, tidiness, lints and documentation, without tests
  tidy             what may depend on what, circles between modules, tidiness of files, and commands, flags and variables that
                   documents name; compiles nothing else
  deny             cargo-deny on all dependencies: licences, sources, duplicates, advisories; installs it on x86-64 Linux
  dist             berth as users get it: dist/berth in the target directory, a release build without symbols, with its
                   components compiled; says how large it is and how long it takes to start
  release --out DIR
                   all files of a release: static programs for amd64 and arm64, an image, chart and manifests, checksums, a bill of
                   materials, where they come from. --check DIR tries what somebody downloads, --sign DIR signs it; --help for the
                   options
  sbom             a bill of materials (CycloneDX) of berth and its components: sbom/berth.cdx.json in the target directory
  reproducible [--release]
                   build a component in two places, and compare the bytes; with --release a whole release, with the options of
                   `release`
  ci               check and deny, then test
  fuzz [TARGET ...] [--seconds N | --minutes N]
                   made-up input for every target, or for those named: N seconds (30) each, or N minutes for all together;
                   installs cargo-fuzz
  languages [LANG ...]
                   install the tools for plugins in these languages (rust, c, python, js, go; all, if none is named),
                   without root, test what they build, and run the commands that the guide shows to authors
  sdk-bench [LANG ...]
                   what the interfaces sync-pods and reuse bring to a plugin in c, go, js and python, or in those named: its
                   processor time for each pod, by a release build. The tools must be there: `languages` installs them
  manifests        the chart and the overlays of deploy/: rendered, checked against Kubernetes' schemas, applied to a sandbox and deleted
                   again; the alerts with promtool. Says so if kubectl, Python or promtool is missing
  kind --release DIR
                   a release on a cluster of real kubelets: beside kube-scheduler and in its place, with a plugin, over a crash, an
                   upgrade and the way back. Needs a container engine, kind and kubectl, and says so if they are missing; with --required it
                   then fails
  site --out DIR [--version NAME]
                   the guide as a website: DIR gets a folder for this version, and keeps those of others; checks all links. Installs
                   mdBook, some minutes, the first time
  setup            add the wasm target that the plugins need
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", [].as_slice()), |(first, rest)| (first, rest));
    let outcome = match command {
        "demo" => demo(rest),
        "test" => test_run::test(),
        "fresh" => fresh::fresh(),
        "swap-storm" => harness("swap-storm", &["--release"], rest),
        "soak" => confined::soak(rest),
        "hostile" => confined::hostile(rest),
        "chaos" => harness("chaos", &[], rest),
        "e2e" => harness("e2e", &[], rest),
        "differential" => harness("differential", &[], rest),
        "check" => checks::all(),
        "tidy" => checks::tidy(),
        "deny" => deny::deny(Unavailable::Fails),
        "sbom" => sbom::sbom(),
        "dist" => dist::dist(),
        "release" => release::release(rest),
        "reproducible" => reproducible::reproducible(rest),
        "ci" => checks::all().and_then(|()| deny::deny(Unavailable::IsTold)).and_then(|()| test_run::test()),
        "fuzz" => fuzz::fuzz(rest),
        "languages" => languages::languages(rest),
        "sdk-bench" => sdk_bench::sdk_bench(rest),
        "manifests" => manifests::manifests(),
        "kind" => kind::kind(rest),
        "site" => site::site(rest),
        "setup" => setup(),
        "help" | "-h" | "--help" => {
            eprint!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprintln!("unknown command `{unknown}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Installs a missing wasm target.
fn setup() -> Result<()> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = installed.context("cannot run rustup; Berth's toolchain is pinned in rust-toolchain.toml")?;
    if String::from_utf8_lossy(&installed.stdout).lines().any(|line| line.trim() == TARGET) {
        return Ok(());
    }
    run("rustup", &["target", "add", TARGET])
}

fn demo(arguments: &[String]) -> Result<()> {
    setup()?;
    if is_first_build() {
        eprintln!(
            "Building Berth: about 6 minutes on two cores, this first time. The longest part is wasmtime's compiler; the \
             plugins are compiled for wasm beside it. Then the demo runs, for some seconds."
        );
    }
    let mut command = vec!["run", "--bin", "berth", "--", "demo"];
    command.extend(arguments.iter().map(String::as_str));
    cargo(&command)
}

/// Whether `berth` was never built in this folder, so that everything must be compiled.
fn is_first_build() -> bool {
    !target_dir().join("debug/berth").exists()
}

fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Runs a program that drives the `berth` binary. Both are built with the same profile.
fn harness(program: &str, profile: &[&str], arguments: &[String]) -> Result<()> {
    harness_with(program, profile, arguments, &[])
}

fn harness_with(program: &str, profile: &[&str], arguments: &[String], environment: &[(&str, &str)]) -> Result<()> {
    setup()?;
    cargo(&[&["build", "--bin", "berth", "--bin", program], profile].concat())?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo_with(&[&["run", "--bin", program], profile, &["--"], &arguments].concat(), environment)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    run_with(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments, environment)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_with(program, arguments, &[])
}

/// The program's output, without the end of its last line.
fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("`{program} {}` failed", arguments.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn run_with(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied());
    without_own_variables(&mut command);
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("`{program} {}` failed", arguments.join(" "));
    }
    Ok(())
}

/// The folder in which cargo keeps its downloads. An empty variable counts as unset, as for cargo.
fn cargo_home() -> Result<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| home.join(".cargo")));
    home.context("neither CARGO_HOME nor HOME is set")
}

/// Removes the variables that cargo sets for this crate. Build scripts that watch these variables would otherwise run
/// again after each change between `cargo xtask` and plain cargo, and cargo would compile everything above them again.
fn without_own_variables(command: &mut Command) {
    for (variable, _) in env::vars_os() {
        let is_about_this_crate =
            variable.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if is_about_this_crate {
            command.env_remove(variable);
        }
    }
}
