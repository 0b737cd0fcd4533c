//! Berth in kube-scheduler's place: called as `kube-scheduler`, or as `berth kube-scheduler`, the program takes the
//! flags of kube-scheduler and serves `default-scheduler` under kube-scheduler's Lease.
//!
//! The crate `kube-flags` lists the flags and reads them. This module turns the flags into the options of `berth run`.

mod metrics;
mod streams;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
};

use anyhow::Result;
use berth_cluster::LeadershipLost;
use berth_config::{
    Overrides, Program, Usage,
    emulation::{Emulation, go_bool},
    feature_gates::Gates,
};
use berth_kube_flags::{FLAGS, FlagError, Given, Role};
use berth_model::Features;
use berth_plugin_cli::unless_empty;
use berth_plugin_host::PluginHostOptions;
use berth_runtime::{KEPT_DECISIONS_MIB, Options};
use berth_telemetry::klog::{self, KlogFormat, LogStreams, Verbosity, lines};
use serde_json::{Map, Value, json};
use tracing::{error, info, warn};

use crate::{
    compiler::compiler_process,
    run::{ConfigOutput, Invocation, schedule_blocking},
    serving,
};

const NAME: &str = "kube-scheduler";

/// The arguments after the program's name, or `None` if the program was not called in kube-scheduler's place.
pub(crate) fn arguments(mut called: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let program = called.next()?;
    let mut rest = called.map(|argument| argument.to_string_lossy().into_owned()).peekable();
    if Path::new(&program).file_name().is_some_and(|name| name == NAME) {
        return Some(rest.collect());
    }
    rest.next_if(|first| first == NAME)?;
    Some(rest.collect())
}

/// The version in kube-scheduler's form, for scripts that read it.
const VERSION: &str = concat!("v1.37.0+berth.", env!("CARGO_PKG_VERSION"));

/// Schedules until a signal stops the process. Ends with code 1 after any mistake or failure, as kube-scheduler does,
/// while the other commands have a separate code for mistakes.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let given = match Given::read(arguments) {
        Ok(given) => given,
        Err(error) => return refuse(&error),
    };
    match try_to_run(&given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(RunError::BeforeLogging(error)) => {
            // The message is lost if standard error is closed.
            let _ = writeln!(io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
        Err(RunError::Logged(error)) => {
            if error.is::<LeadershipLost>() {
                error!("{}", lines::LEADERSHIP_LOST.message);
            }
            error!(error = format!("{error:#}"), "command failed");
            ExitCode::FAILURE
        }
    }
}

/// The reason why the scheduler ended, by the place where the reason is written.
enum RunError {
    BeforeLogging(anyhow::Error),
    Logged(anyhow::Error),
}

/// Writes the mistakes in the flags, or the help that the flags ask for.
fn refuse(error: &FlagError) -> ExitCode {
    // The message is lost if the stream is closed.
    let _ = match error {
        FlagError::Help(help) => write!(io::stdout().lock(), "{help}"),
        FlagError::Wrong(message) => {
            let usage = "Usage:\n  kube-scheduler [flags]\n\nkube-scheduler --help lists the flags.";
            writeln!(io::stderr(), "{usage}\nError: {message}")
        }
    };
    match error {
        FlagError::Help(_) => ExitCode::SUCCESS,
        FlagError::Wrong(_) => ExitCode::FAILURE,
    }
}

fn try_to_run(given: &Given) -> Result<(), RunError> {
    if let Some(version) = version(given) {
        // The reader may have closed standard output.
        let _ = writeln!(io::stdout().lock(), "{version}");
        return Ok(());
    }
    let (verbosity, streams) = start_log(given).map_err(RunError::BeforeLogging)?;
    let ended = schedule(given, verbosity).map_err(RunError::Logged);
    streams.flush();
    ended
}

/// The answer to `--version` or `--version=raw`. The flag `--version=v…` only changes the version that kube-scheduler
/// reports.
fn version(given: &Given) -> Option<String> {
    let asked = given.text("version")?;
    if asked == "raw" {
        let (git, platform) = (VERSION, format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH));
        return Some(format!(
            "version.Info{{Major:\"1\", Minor:\"37\", GitVersion:{git:?}, Compiler:\"rustc\", Platform:{platform:?}}}"
        ));
    }
    go_bool(asked).unwrap_or_default().then(|| format!("Kubernetes {VERSION}"))
}

fn start_log(given: &Given) -> Result<(Verbosity, LogStreams)> {
    let verbosity = given.number("v").map_or(Ok(0), u32::try_from);
    let verbosity = verbosity.map_err(|_| Usage("-v: use a whole number from 0 to 4294967295".to_owned()))?;
    let verbosity = Verbosity::new(verbosity, &given.texts("vmodule"))?;
    let format = log_format(given)?;
    let streams = streams::read(given, format)?;
    klog::start(&verbosity, format, &streams)?;
    Ok((verbosity, streams))
}

fn schedule(given: &Given, verbosity: Verbosity) -> Result<()> {
    for warning in check(given)? {
        warn!("{warning}");
    }
    info!(version = VERSION, "{}", lines::STARTING.message);
    let mut invocation = invocation(given)?;
    if let Some(serving) = &mut invocation.options.secure_serving {
        serving.verbosity = Some(verbosity);
        serving.flags = given.all();
    }
    schedule_blocking(invocation)
}

/// The gate without which kube-scheduler refuses to log as JSON.
const JSON_GATE: &str = "LoggingBetaOptions";

fn log_format(given: &Given) -> Result<KlogFormat> {
    // A wrong gate is reported later, with all other flags of the scheduler.
    let has_json = || emulation(given).ok().is_none_or(|emulation| emulation.asked(JSON_GATE) != Some(false));
    match given.text("logging-format").unwrap_or("text") {
        "text" => Ok(KlogFormat::Text),
        "json" if has_json() => Ok(KlogFormat::Json),
        "json" => {
            Err(Usage(format!("--logging-format json: Log format json is disabled, see {JSON_GATE} feature")).into())
        }
        other => Err(Usage(format!("--logging-format {other}: use text or json")).into()),
    }
}

/// Refuses flags that are not implemented, and returns a warning for each flag that has no effect.
fn check(given: &Given) -> Result<Vec<String>> {
    let has_config = given.is_given("config");
    let mut warnings = Vec::new();
    for flag in FLAGS.iter().filter(|flag| given.is_given(flag.name)) {
        let name = flag.name;
        match flag.role {
            Role::WithoutConfig if has_config => {
                warnings.push(format!("--{name} is ignored: with --config, the file sets this value"));
            }
            Role::Used | Role::Own | Role::Serving(_) | Role::WithoutConfig => {}
            Role::WithoutEffect(why) => warnings.push(format!("--{name} has no effect: {why}")),
            Role::Refused { default } => {
                let values = given.texts(name);
                if values.iter().any(|value| value.trim_start_matches("kube=") != default) {
                    let text = format!("--{name} {} is not supported; leave it out to use {default}", values.join(","));
                    return Err(Usage(text).into());
                }
            }
        }
    }
    Ok(warnings)
}

fn emulation(given: &Given) -> Result<Emulation> {
    let [versions, min_compatibility, gates] =
        ["emulated-version", "min-compatibility-version", "feature-gates"].map(|name| given.texts(name));
    Ok(Emulation::new(&versions, &min_compatibility, &gates).map_err(|error| Usage(error.to_string()))?)
}

fn invocation(given: &Given) -> Result<Invocation> {
    let path = |name: &str| given.path(name);
    let metrics_address = given.text("metrics-address").map(str::parse::<SocketAddr>).transpose();
    let metrics_address = metrics_address.map_err(|error| Usage(format!("--metrics-address: {error}")))?;
    let plugins = PluginHostOptions {
        plugins_dir: path("plugins-dir"),
        artifact_cache: path("artifact-cache"),
        plugin_config: path("plugin-config"),
        plugin_state: path("plugin-state"),
        execution: None,
        features: Features::default(),
        compiler: Some(compiler_process()),
    };
    let kept_decisions_mib = given.number("kept-decisions-mib").map_or(Ok(KEPT_DECISIONS_MIB), u32::try_from);
    let kept_decisions_mib = kept_decisions_mib
        .map_err(|_| Usage("--kept-decisions-mib: use a whole number from 0 to 4294967295".to_owned()))?;
    let options = Options {
        config: path("config"),
        plugins,
        audit_log: path("audit-log"),
        tracing_config_file: path("tracing-config-file"),
        metrics_address,
        metrics: metrics::read(given)?,
        page: None,
        admin_socket: path("admin-socket")
            .or_else(|| std::env::var_os(unless_empty("BERTH_ADMIN_SOCKET")?).map(Into::into)),
        longest_unschedulable: given.duration("pod-max-in-unschedulable-pods-duration"),
        secure_serving: serving::read(given, serving::DEFAULT_PORT, serving::own_cluster())?,
        gates: Gates::default(),
        kept_decisions_mib,
        without_equivalence_cache: false,
    };
    let fields = fields(given);
    let output = path("write-config-to").map_or(ConfigOutput::None, ConfigOutput::File);
    Ok(Invocation {
        kubeconfig: None,
        context: None,
        server: given.text("master").filter(|server| !server.is_empty()).map(str::to_owned),
        options,
        emulation: emulation(given)?,
        overrides: Overrides { program: Program::KubeScheduler, scheduler_name: None, fields },
        output,
    })
}

/// The fields of the configuration that flags set.
fn fields(given: &Given) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |section: &str, name: &str, value: Option<Value>| {
        if let Some(value) = value {
            let section = fields.entry(section.to_owned()).or_insert_with(|| json!({}));
            section[name] = value;
        }
    };
    let text = |name: &str| given.text(name).map(|text| json!(text));
    for (flag, field) in [
        ("leader-elect-lease-duration", "leaseDuration"),
        ("leader-elect-renew-deadline", "renewDeadline"),
        ("leader-elect-retry-period", "retryPeriod"),
        ("leader-elect-resource-lock", "resourceLock"),
        ("leader-elect-resource-name", "resourceName"),
        ("leader-elect-resource-namespace", "resourceNamespace"),
    ] {
        set("leaderElection", field, text(flag));
    }
    set("leaderElection", "leaderElect", given.switch("leader-elect").map(Value::from));
    if given.is_given("config") {
        return fields;
    }
    set("clientConnection", "kubeconfig", text("kubeconfig"));
    set("clientConnection", "contentType", text("kube-api-content-type"));
    set("clientConnection", "qps", given.fraction("kube-api-qps").map(Value::from));
    set("clientConnection", "burst", given.number("kube-api-burst").map(Value::from));
    let switches = [("profiling", "enableProfiling"), ("contention-profiling", "enableContentionProfiling")];
    for (flag, field) in switches {
        fields.extend(given.switch(flag).map(|is_on| (field.to_owned(), json!(is_on))));
    }
    fields
}

#[cfg(test)]
mod tests {
    mod manifests;

    use super::*;

    fn given(arguments: &[&str]) -> Given {
        Given::read(arguments.iter().map(|argument| (*argument).to_owned())).expect("known flags")
    }

    #[test]
    fn the_name_of_the_program_decides() {
        let called = |arguments: &[&str]| super::arguments(arguments.iter().map(OsString::from));
        assert_eq!(called(&["/usr/local/bin/kube-scheduler", "--v=2"]), Some(vec!["--v=2".to_owned()]));
        assert_eq!(called(&["berth", "kube-scheduler", "--v=2"]), Some(vec!["--v=2".to_owned()]));
        assert_eq!(called(&["berth", "run", "kube-scheduler"]), None);
        assert_eq!(called(&["berth"]), None);
    }

    #[test]
    fn the_log_is_json_only_with_the_gate() {
        let format = |gates: &[&str]| log_format(&given(&[&["--logging-format=json"][..], gates].concat()));
        for gates in [&[][..], &["--feature-gates=LoggingBetaOptions=true"]] {
            assert_eq!(format(gates).expect("accepted"), KlogFormat::Json);
        }
        assert_eq!(
            format(&["--feature-gates=LoggingBetaOptions=false"]).expect_err("refused").to_string(),
            "--logging-format json: Log format json is disabled, see LoggingBetaOptions feature"
        );
        let text = log_format(&given(&["--feature-gates=LoggingBetaOptions=false"]));
        assert_eq!(text.expect("no gate is needed"), KlogFormat::Text);
    }

    #[test]
    fn flags_become_fields_of_the_configuration() {
        let flags = [
            "--kubeconfig=/etc/k",
            "--kube-api-qps=7.5",
            "--kube-api-burst",
            "9",
            "--leader-elect=false",
            "--profiling=false",
        ];
        let expected = json!({
            "clientConnection": {"kubeconfig": "/etc/k", "qps": 7.5, "burst": 9},
            "leaderElection": {"leaderElect": false}, "enableProfiling": false,
        });
        assert_eq!(Value::from(fields(&given(&flags))), expected);
    }

    #[test]
    fn with_a_file_only_flags_of_the_election_go_before_it() {
        let flags = ["--config=/etc/c", "--kubeconfig=/etc/k", "--leader-elect-lease-duration=20s", "--leader-elect"];
        let expected = json!({"leaderElection": {"leaseDuration": "20s", "leaderElect": true}});
        assert_eq!(Value::from(fields(&given(&flags))), expected);
        let warnings = check(&given(&flags)).expect("nothing is refused");
        assert_eq!(warnings, ["--kubeconfig is ignored: with --config, the file sets this value"]);
    }

    #[test]
    fn what_is_not_built_is_refused_and_what_means_nothing_is_told() {
        let refused = |arguments: &[&str]| check(&given(arguments)).expect_err("refused").to_string();
        assert!(refused(&["--unsupported-kube-api-over-localhost"]).contains("localhost true is not supported"));
        let refused = |flag: &str| emulation(&given(&[flag])).expect_err("refused").to_string();
        assert!(refused("--emulated-version=new").contains("could not parse \"new\" as version"));
        assert!(refused("--min-compatibility-version=x").contains("could not parse \"x\" as version"));
        let twice = refused("--emulated-version=1.36,kube=1.37");
        assert!(twice.contains("duplicate version flag, kube=1.36 and kube=1.37"), "{twice}");
        assert!(refused("--feature-gates=GenericWorkload=true").contains("GenericWorkload=true"));
        let warnings = check(&given(&["--permit-address-sharing"])).expect("accepted");
        assert!(warnings[0].starts_with("--permit-address-sharing has no effect"), "{warnings:?}");
    }
}
