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
  test             run all tests, also after a failure, and list all failures at the end
  fresh            run the two commands above on a clone of HEAD, with an empty home, caches and target folder. Prints exit
                   codes, wall and processor time, and what was downloaded. Takes half an hour on two cores
  swap-storm [ARG ...]
                   replace every plugin again and again, while pods keep coming; --help for its options. Uses a release build,
                   which takes a quarter of an hour on two cores the first time
  soak [ARG ...]   run a scheduler for hours, with pods whose texts are always new, with swaps and with faults. Fails if memory,
                   symbols or latency grow. --hours N or --minutes N sets the time, --help lists the other options.
                   --outsiders adds everything that pods, plugins, clients and files can send, in a cgroup of 512 MiB. Uses a
                   release build
  hostile [--confined]
                   test with malicious plugins, files and clients. With --confined each scheduler runs in a cgroup with the
                   memory limit of the Deployment in deploy/kustomize, on one processor
  chaos [ARG ...]  kill replicas of the scheduler and cut them off from the network, while pods come, go and are resized. --seed N
                   repeats a run, --real uses the control plane in $KUBEBUILDER_ASSETS, --help lists the options
  e2e [SCENARIO ...]
                   test the berth binary on a real etcd and kube-apiserver, from the folder that KUBEBUILDER_ASSETS names;
                   --list lists the scenarios
  differential [ARG ...]
                   give the same pods to kube-scheduler and to Berth, and print the differences; --help for its options. Needs
                   a folder with etcd, kube-apiserver and kube-scheduler in KUBEBUILDER_ASSETS
  check            check formatting, tidiness, lints and documentation, without tests
  tidy             check the dependencies between crates, circular imports between modules, the tidiness of files, and the
                   commands, flags and variables that documents name; compiles nothing else
  deny             check all dependencies with cargo-deny: licences, sources, duplicates, advisories. Installs cargo-deny on
                   x86-64 Linux
  dist             build berth as users get it: dist/berth in the target directory, a release build without symbols, with its
                   components compiled. Prints its size, and how long it takes to start
  release --out DIR
                   make all files of a release: static programs for amd64 and arm64, an image, chart and manifests, checksums, a
                   bill of materials, the provenance. --check DIR tries the files that users download, --sign DIR signs them;
                   --help for the options
  sbom             write a bill of materials (CycloneDX) of berth and its components: sbom/berth.cdx.json in the target directory
  reproducible [--release]
                   build a component in two places, and compare the bytes; with --release a whole release, with the options of
                   `release`: if both are equal, reproducible-release/release-1 in the target directory is kept
  ci               run check and deny, then test
  fuzz [TARGET ...] [--seconds N | --minutes N]
                   give generated input to every target, or to the named targets: N seconds (30) for each, or N minutes for all
                   together. Installs cargo-fuzz
  languages [LANG ...]
                   install the tools for plugins in these languages (rust, c, python, js, go; all, if none is named),
                   without root, test the plugins that they build, and run the commands that the guide shows to authors
  sdk-bench [LANG ...]
                   measure how much processor time the interfaces sync-pods and reuse save a plugin for each pod, in c, go, js
                   and python, or in the named languages. Uses a release build, and the tools that `languages` installs
  manifests        render the chart and the overlays of deploy/, check them against Kubernetes' schemas, apply them to a sandbox and
                   delete them again; test the alerts with promtool. Says so if kubectl, Python or promtool is missing
  kind --release DIR
                   test a release on a cluster of real kubelets: beside kube-scheduler and in its place, with a plugin, over a
                   crash, an upgrade and a rollback. Needs a container engine, kind and kubectl. Says so if one is missing;
                   with --required it then fails
  site --out DIR [--version NAME]
                   build the guide as a website: DIR gets a folder for this version, and keeps the folders of other versions.
                   Checks all links. Installs mdBook the first time, which takes some minutes
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
            "Building Berth: about 5 minutes on two cores, this first time. The longest part is wasmtime's compiler; the \
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
