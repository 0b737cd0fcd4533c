//! Each mistake of an operator yields one message that names the file and the remedy, and an exit code: 2 when the
//! command line or a file that it names is invalid, 1 for other failures.

use std::{fs, path::Path, process::Command, time::Duration};

use tempfile::TempDir;

use crate::process::{Ended, Process};

const LIMIT: Duration = Duration::from_secs(240);

/// Runs `berth` in a separate folder with these files; `{dir}` in arguments is the folder. The message must contain all
/// of `parts`.
async fn check(files: &[(&str, &[u8])], arguments: &[&str], code: i32, parts: &[&str]) {
    let dir = folder(files);
    let here = dir.path().display().to_string();
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("{dir}", &here)).collect();
    let ended = Process::berth(&arguments).ended(LIMIT).await;
    let Ended { status, out, err } = &ended;
    assert_eq!(status.code(), Some(code), "berth {arguments:?}: {out}{err}");
    assert!(!err.contains("panicked"), "berth {arguments:?}: {err}");
    assert_eq!(out, "", "results only, no messages");
    let messages: Vec<&str> = err.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(messages.len(), 1, "berth {arguments:?}: {err}");
    let message = err.split_once("error:").map_or("", |(_, message)| message).replace(&here, "{dir}");
    for part in parts {
        assert!(message.contains(part), "berth {arguments:?} should say `{part}`, but says: {message}");
    }
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    dir
}

#[tokio::test]
async fn command_line_that_makes_no_sense() {
    check(&[], &["rnu"], 2, &["rnu", "Usage: berth", "--help"]).await;
    check(&[], &["demo", "--timeout", "soon"], 2, &["--timeout", "500ms, 10s or 1m30s"]).await;
    check(&[], &["sandbox", "--nodes", "many"], 2, &["--nodes", "many"]).await;
    check(&[], &["--log", "a=b=c", "demo"], 2, &["--log", "info"]).await;
}

#[test]
fn completions_that_cannot_be_written() {
    let full = fs::File::options().write(true).open("/dev/full").expect("a device that is always full");
    let mut berth = Command::new(env!("CARGO_BIN_EXE_berth"));
    let ended = berth.args(["completions", "bash"]).stdout(full).output().expect("a process");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "error: No space left on device (os error 28)\n");
}

#[tokio::test]
async fn rules_for_faults_that_make_no_sense() {
    let files: &[(&str, &[u8])] = &[("rules.yaml", b"fault: {type: Status, code: 42}")];
    let parts = ["--faults {dir}/rules.yaml: faults[0].fault.code: 42: expected an HTTP status from 400 to 599"];
    check(files, &["sandbox", "--faults", "{dir}/rules.yaml"], 2, &parts).await;
    check(&[], &["sandbox", "--faults", "{dir}/none.yaml"], 2, &["--faults {dir}/none.yaml: No such file"]).await;
}

#[tokio::test]
async fn manifest_that_is_no_yaml() {
    let files: &[(&str, &[u8])] = &[("pods.yaml", b"kind: Pod\nspec: [1, {")];
    check(files, &["demo", "{dir}/pods.yaml"], 2, &["{dir}/pods.yaml: not valid YAML or JSON", "line"]).await;
}

#[tokio::test]
async fn manifest_without_a_name() {
    let files: &[(&str, &[u8])] = &[("pods.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {}\n")];
    check(files, &["demo", "{dir}"], 2, &["{dir}/pods.yaml: object 1 needs the field `metadata.name`"]).await;
}

#[tokio::test]
async fn manifest_with_a_field_that_does_not_exist() {
    let pod = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, imag: b}]}\n";
    let files: &[(&str, &[u8])] = &[("pods.yaml", pod)];
    check(files, &["demo", "{dir}"], 1, &["imag"]).await;
}

#[tokio::test]
async fn manifests_that_are_missing() {
    check(&[], &["demo", "{dir}/absent.yaml"], 2, &["{dir}/absent.yaml", "No such file"]).await;
    check(&[], &["demo", "{dir}"], 2, &["{dir}", "no .yaml, .yml or .json files"]).await;
}

#[tokio::test]
async fn kubeconfig_that_is_missing() {
    let arguments = &["run", "--kubeconfig", "{dir}/absent"];
    check(&[], arguments, 2, &["kubeconfig {dir}/absent", "No such file", "check the path"]).await;
}

#[tokio::test]
async fn no_kubeconfig_at_all() {
    check(&[], &["run"], 2, &["found no cluster", "name a kubeconfig"]).await;
}

#[tokio::test]
async fn kubeconfig_that_is_malformed() {
    let arguments = &["run", "--kubeconfig", "{dir}/kubeconfig"];
    let files: &[(&str, &[u8])] = &[("kubeconfig", b"clusters: 7\n")];
    check(files, arguments, 2, &["{dir}/kubeconfig is malformed", "line 1 column 11"]).await;
    let files: &[(&str, &[u8])] = &[("kubeconfig", b"{}\n")];
    check(files, arguments, 2, &["{dir}/kubeconfig", "context"]).await;
}

#[tokio::test]
async fn configuration_with_an_unknown_field() {
    let config = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
        profiles:\n- schedulerName: a\n  pluginz: {}\n";
    let files: &[(&str, &[u8])] = &[("config.yaml", config)];
    let arguments = &["run", "--print-config", "--config", "{dir}/config.yaml"];
    check(files, arguments, 2, &["{dir}/config.yaml", "profiles[0].pluginz"]).await;
}

#[tokio::test]
async fn configuration_with_an_unknown_plugin_argument() {
    let config = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
        profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategie: {}}\n";
    let files: &[(&str, &[u8])] = &[("config.yaml", config)];
    let arguments = &["demo", "--config", "{dir}/config.yaml"];
    check(files, arguments, 2, &["profiles[0].pluginConfig[0].args.scoringStrategie", "remove it"]).await;
}

/// Runs `berth kube-scheduler`, which ends with code 1 after every mistake, as kube-scheduler does. The last line of
/// standard error must contain all of `parts`.
async fn check_kube_scheduler(files: &[(&str, &[u8])], arguments: &[&str], parts: &[&str]) {
    let dir = folder(files);
    let here = dir.path().display().to_string();
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("{dir}", &here)).collect();
    let ended = Process::berth(["kube-scheduler"].map(str::to_owned).iter().chain(&arguments)).ended(LIMIT).await;
    let Ended { status, out, err } = &ended;
    assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{arguments:?}: {err}");
    let last = err.lines().next_back().unwrap_or_default().replace(&here, "{dir}");
    for part in parts {
        assert!(last.contains(part), "{arguments:?} should say `{part}`, but says: {last}");
    }
}

#[tokio::test]
async fn kube_schedulers_flags_that_make_no_sense() {
    check_kube_scheduler(&[], &["--leader-elect=maybe"], &["Error: invalid argument", "want true or false"]).await;
    check_kube_scheduler(&[], &["--no-such-flag"], &["Error: unknown flag: --no-such-flag"]).await;
    check_kube_scheduler(&[], &["--config"], &["Error: flag needs an argument: --config"]).await;
    check_kube_scheduler(&[], &["file.yaml"], &["does not take any arguments, got [\"file.yaml\"]"]).await;
    check_kube_scheduler(&[], &["--logging-format=xml"], &["--logging-format xml: use text or json"]).await;
}

/// The arguments after the flags are logged, as in kube-scheduler.
#[tokio::test]
async fn settings_that_kube_scheduler_refuses() {
    let failed = "\"command failed\" err=";
    for gate in ["GangScheduling=true", "GenericWorkload=true"] {
        check_kube_scheduler(&[], &["--feature-gates", gate], &[failed, gate, "is not supported"]).await;
    }
    check_kube_scheduler(&[], &["--feature-gates", "Gangs=true"], &[failed, "unrecognized feature gate: Gangs"]).await;
    check_kube_scheduler(&[], &["--emulated-version=new"], &[failed, "--emulated-version", "could not parse"]).await;
    let arguments = ["--leader-elect-lease-duration=1s"];
    check_kube_scheduler(&[], &arguments, &[failed, "leaderElection.leaseDuration", "greater than RenewDeadline"])
        .await;
    check_kube_scheduler(&[], &["--master=nowhere"], &[failed, "nowhere"]).await;
    check_kube_scheduler(&[], &["--config={dir}/absent.yaml"], &[failed, "{dir}/absent.yaml", "No such file"]).await;
    let files: &[(&str, &[u8])] = &[("config.yaml", b"apiVersion: v1\nkind: Pod\n")];
    check_kube_scheduler(files, &["--config={dir}/config.yaml"], &[failed, "{dir}/config.yaml"]).await;
}

#[tokio::test]
async fn help_and_version_of_kube_scheduler_are_results() {
    let ended = |flag: &'static str| Process::berth(["kube-scheduler", flag]).ended(LIMIT);
    for (flag, part) in [
        ("--help", "--leader-elect-lease-duration"),
        ("-h", "--feature-gates"),
        ("--version", "Kubernetes v1.37.0+berth."),
        ("--version=raw", "version.Info{Major:\"1\", Minor:\"37\", GitVersion:\"v1.37.0+berth."),
    ] {
        let Ended { status, out, err } = ended(flag).await;
        assert_eq!((status.code(), err.as_str()), (Some(0), ""), "{flag}");
        assert!(out.contains(part), "{flag}: {out}");
    }
}

#[tokio::test]
async fn configuration_that_is_missing() {
    let arguments = &["sandbox", "--kubeconfig", "{dir}/kubeconfig", "--config", "{dir}/absent.yaml"];
    check(&[], arguments, 2, &["--config {dir}/absent.yaml", "No such file"]).await;
}

#[tokio::test]
async fn plugin_file_that_is_no_plugin() {
    let core = berth_test_guests::core_module().expect("a module");
    let foreign = berth_test_guests::of_another_world().expect("a component");
    let wasi = berth_test_guests::imports_wasi().expect("a component");
    let dir = folder(&[
        ("Script.wasm", b"#!/bin/sh\n"),
        ("Core.wasm", &core),
        ("Foreign.wasm", &foreign),
        ("Wasi.wasm", &wasi),
    ]);
    let (kubeconfig, dir) = (dir.path().join("kubeconfig").display().to_string(), dir.path().display().to_string());
    let mut sandbox = Process::berth(["sandbox", "--kubeconfig", &kubeconfig, "--plugins-dir", &dir]);
    // The sandbox starts in spite of these files.
    sandbox.line("serving http").await;
    let said = [
        ("Script.wasm", "WebAssembly"),
        ("Core.wasm", "component"),
        ("Foreign.wasm", "example:greeter/greet"),
        ("Wasi.wasm", "wasi:filesystem/preopens"),
    ];
    for (file, part) in said {
        let line = sandbox.line(file).await;
        assert!(line.contains(part), "nothing says {part} of {file}: {line}");
    }
}

#[tokio::test]
async fn plugins_directory_that_is_missing() {
    let arguments = &["demo", "--plugins-dir", "{dir}/absent"];
    check(&[], arguments, 2, &["--plugins-dir {dir}/absent", "No such file"]).await;
}

#[tokio::test]
async fn plugins_of_an_author_that_are_not_there() {
    for command in ["test", "bench", "inspect"] {
        let parts = ["{dir}/absent.wasm: neither a component file nor a plugin's folder: No such file"];
        check(&[], &["plugin", command, "{dir}/absent.wasm"], 2, &parts).await;
    }
    check(&[], &["plugin", "test", "absent.wasm"], 2, &["absent.wasm: neither a component file"]).await;
    check(&[], &["plugin", "verify", "absent.wasm"], 2, &["absent.wasm is neither a file nor a reference"]).await;
    check(&[], &["plugin", "build", "{dir}/absent"], 2, &["{dir}/absent: folder not found"]).await;
    let dev = &["plugin", "dev", "--plugins-dir", "{dir}/absent", "{dir}"];
    check(&[], dev, 2, &["--plugins-dir {dir}/absent: folder not found"]).await;
    check(&[], &["plugin", "dev", "--plugins-dir", "{dir}", "{dir}/absent"], 2, &["{dir}/absent: folder not found"])
        .await;
}

#[tokio::test]
async fn plugin_configuration_with_an_unknown_field() {
    let config = b"apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\nplugins:\n- name: A\n  grant: {}\n";
    let files: &[(&str, &[u8])] = &[("plugins.yaml", config)];
    let arguments = &["demo", "--plugin-config", "{dir}/plugins.yaml"];
    check(files, arguments, 2, &["{dir}/plugins.yaml", "grant", "line 5"]).await;
    check(&[], arguments, 2, &["--plugin-config {dir}/plugins.yaml", "No such file"]).await;
}

#[tokio::test]
async fn tracing_configuration_with_mistakes() {
    let config = b"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendPoint: a:1\n";
    let files: &[(&str, &[u8])] = &[("tracing.yaml", config)];
    let file = "--tracing-config-file {dir}/tracing.yaml: ";
    let arguments = &["demo", "--tracing-config-file", "{dir}/tracing.yaml"];
    check(files, arguments, 2, &[file, "endPoint: unknown field; remove it or use one of"]).await;
    check(&[], arguments, 2, &[file, "No such file"]).await;
    let config = b"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: ftp://a\n";
    let files: &[(&str, &[u8])] = &[("tracing.yaml", config)];
    check(files, arguments, 2, &[file, "endpoint: Invalid value: \"ftp://a\": use an address such as"]).await;
}

#[tokio::test]
async fn steering_the_plugins_of_nobody() {
    let nobody = &["plugin", "list", "--socket", "{dir}/nobody.sock"];
    check(&[], nobody, 1, &["no scheduler answers at {dir}/nobody.sock", "is `berth run` running"]).await;
    check(&[], &["plugin", "reload", "--socket", "{dir}/nobody.sock", "../a"], 2, &["invalid plugin name"]).await;
    let credentials = ["--token-file", "{dir}/token", "--certificate-authority", "{dir}/ca.crt"];
    let remote = [&["plugin", "list", "--server", "http://a"][..], &credentials].concat();
    check(&[("token", b"t")], &remote, 2, &["--server http://a", "only over HTTPS"]).await;
    // The home directory has no kubeconfig.
    let home = folder(&[]);
    let variables = [("HOME", home.path().to_str().expect("a path"))];
    let ended = Process::berth_with(["plugin", "list", "--server", "a:1"], &variables).ended(LIMIT).await;
    assert_eq!(ended.status.code(), Some(2), "{}", ended.err);
    let says = |part| ended.err.contains(part);
    assert!(says("--kubeconfig") && says("--token-file") && says("--certificate-authority"), "{}", ended.err);
}

#[tokio::test]
async fn variables_for_the_scheduler_that_a_command_connects_to() {
    let dir = folder(&[]);
    let path = dir.path().join("absent.sock").display().to_string();
    let home = dir.path().display().to_string();
    let (home, socket, server) =
        (("HOME", home.as_str()), ("BERTH_ADMIN_SOCKET", path.as_str()), ("BERTH_SERVER", "variable:1"));
    let (no_socket, no_server) = (("BERTH_ADMIN_SOCKET", ""), ("BERTH_SERVER", ""));
    let (at_socket, no_user) = (format!("no scheduler answers at {path}"), "no credentials");
    let both = "BERTH_ADMIN_SOCKET and BERTH_SERVER are both set: unset one, or give --socket or --server";
    let is_refused = async |arguments: &[&str], variables: [(&str, &str); 3], code, part: &str| {
        let arguments = ["plugin", "list"].iter().chain(arguments);
        let ended = Process::berth_with(arguments, &variables).ended(LIMIT).await;
        assert_eq!(ended.status.code(), Some(code), "{variables:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{variables:?}: {}", ended.err);
    };
    is_refused(&["--server", "a:1"], [home, socket, no_server], 2, no_user).await;
    is_refused(&["--socket", &path], [home, no_socket, server], 1, &at_socket).await;
    let excluded = "--context cannot be used with --socket";
    is_refused(&["--socket", &path, "--context", "a"], [home, no_socket, server], 2, excluded).await;
    is_refused(&[], [home, socket, no_server], 1, &at_socket).await;
    is_refused(&[], [home, no_socket, server], 2, no_user).await;
    is_refused(&[], [home, socket, server], 2, both).await;
}

#[tokio::test]
async fn address_that_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    check(&[], &["demo", "--metrics-address", &address], 1, &["--metrics-address", &address, "in use"]).await;
    let arguments = &["sandbox", "--kubeconfig", "{dir}/kubeconfig", "--listen", &address];
    check(&[], arguments, 1, &[&address, "in use"]).await;
}
