//! The manifests in `examples/kubernetes` do what they say: their command lines are read by the parsers that would read
//! them, and their rules are those of kube-scheduler.

use std::{collections::BTreeSet, fs};

use berth_config::{InTree, Settings};
use clap::Parser as _;
use serde_json::Value;

use super::{check, flags::Given, invocation};
use crate::cli::{Cli, Command};

/// What `system:kube-scheduler` and `system:volume-scheduler` of Kubernetes 1.36 allow, leases apart: group, resource,
/// verbs.
const THEIRS: &str = include_str!("rules_1.36.txt");

/// Objects of one file.
fn objects(file: &str) -> Vec<Value> {
    let path = format!("{}/../examples/kubernetes/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn object(file: &str, kind: &str) -> Value {
    objects(file).into_iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("{file} has no {kind}"))
}

fn command(container: &Value) -> Vec<String> {
    serde_json::from_value(container["command"].clone()).expect("a command")
}

#[test]
fn kubeadms_static_pod_says_nothing_that_is_not_understood() {
    let pod = object("kube-scheduler.yaml", "Pod");
    let container = &pod["spec"]["containers"][0];
    let command = command(container);
    let (program, flags) = command.split_first().expect("a program");
    assert_eq!(program, "kube-scheduler");
    let given = Given::read(flags.to_vec()).expect("known flags");
    assert_eq!(check(&given).expect("nothing is refused"), [""; 0], "every flag has its effect");
    let invocation = invocation(&given).expect("they make sense");
    let serving = invocation.scheduling.secure_serving.expect("HTTPS");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["host"], &get["scheme"]), (&"127.0.0.1".into(), &"HTTPS".into()), "{probe}");
        assert!(serving.open_paths.iter().any(|path| get["path"] == path.as_str()), "{probe}");
    }
    assert_eq!(container["ports"][0]["containerPort"], serving.address.port());
}

#[test]
fn the_deployment_runs_three_replicas_of_which_one_schedules() {
    let deployment = object("second-scheduler.yaml", "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let cli = Cli::try_parse_from(command(&deployment["spec"]["template"]["spec"]["containers"][0]));
    let Command::Run(arguments) = cli.expect("a command line of berth").command else { panic!("it runs no scheduler") };
    assert_eq!(arguments.leader_elect, None);
    let config_map = object("second-scheduler.yaml", "ConfigMap");
    let text = config_map["data"]["scheduler.yaml"].as_str().expect("a configuration");
    let settings = Settings::from_text("scheduler.yaml", text, &InTree::new(&berth_builtins::factories()));
    let settings = settings.expect("a valid configuration");
    assert!(settings.leader_election.leader_elect);
    assert_eq!(settings.leader_election.resource_name, "berth");
    assert_eq!(settings.profiles[0].scheduler_name, "berth");
    let role = object("rbac.yaml", "Role");
    assert_eq!(role["rules"][1]["resourceNames"][0], "berth");
}

#[test]
fn the_cluster_role_is_no_wider_than_kube_schedulers() {
    let mut theirs = BTreeSet::new();
    for line in THEIRS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [group, resource, verbs] = words[..] else { panic!("{line}") };
        let group = if group == "core" { "" } else { group };
        theirs.extend(verbs.split(',').map(|verb| (group.to_owned(), resource.to_owned(), verb.to_owned())));
    }
    let role = object("rbac.yaml", "ClusterRole");
    let words = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).unwrap_or_else(|error| panic!("{rule}: {error}"))
    };
    for rule in role["rules"].as_array().expect("rules") {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                for verb in words(rule, "verbs") {
                    let right = (group.clone(), resource.clone(), verb);
                    assert!(theirs.contains(&right), "kube-scheduler may not {right:?}");
                }
            }
        }
    }
}
