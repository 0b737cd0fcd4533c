//! Tests of the manifests in `deploy`: the programs' own parsers read their command lines, their roles equal the output
//! of `berth rbac`, and their containers have few rights on their nodes.

use std::{fs, path::Path};

use berth_config::{InTree, Settings};
use berth_kube_flags::Given;
use berth_model::Release;
use berth_plugin_host::{Plugins, Rules, Sources};
use berth_runtime::rights::{Election, Operation, Rights, Serving};
use berth_wasm_host::FaultSink;
use clap::Parser as _;
use serde_json::{Value, json};

use crate::{
    cli::{Cli, Command},
    kube_scheduler::{check, invocation},
    rbac::{Account, manifests},
    serving,
};

/// The objects of one file.
fn objects(file: &str) -> Vec<Value> {
    let path = format!("{}/../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn object(file: &str, kind: &str) -> Value {
    objects(file).into_iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("{file} has no {kind}"))
}

fn command(container: &Value) -> Vec<String> {
    serde_json::from_value(container["command"].clone()).expect("a command")
}

/// The static pods, which the kubelet of a control plane's node starts.
const STATIC_PODS: [&str; 2] = ["static-pod/kube-scheduler.yaml", "static-pod/kube-scheduler-with-plugins.yaml"];

#[test]
fn static_pods_say_nothing_that_is_not_understood() {
    for file in STATIC_PODS {
        is_understood(&object(file, "Pod"));
    }
}

/// Asserts that every flag of the pod is known and has its effect, and that the probes reach the scheduler.
#[track_caller]
fn is_understood(pod: &Value) {
    let container = &pod["spec"]["containers"][0];
    let command = command(container);
    let (program, flags) = command.split_first().expect("a program");
    assert_eq!(program, "kube-scheduler");
    let given = Given::read(flags.to_vec()).expect("known flags");
    assert_eq!(check(&given).expect("nothing is refused"), [""; 0], "every flag has its effect");
    let invocation = invocation(&given).expect("they make sense");
    let serving = invocation.options.secure_serving.expect("HTTPS");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["host"], &get["scheme"]), (&"127.0.0.1".into(), &"HTTPS".into()), "{probe}");
        assert!(serving.open_paths.iter().any(|path| get["path"] == path.as_str()), "{probe}");
    }
    assert_eq!(container["ports"][0]["containerPort"], serving.address.port());
}

/// The cache and the state outlast the pod, because the kubelet makes an empty `emptyDir` for a new one.
#[test]
fn the_static_pod_with_plugins_keeps_what_they_need_on_its_node() {
    let pod = object("static-pod/kube-scheduler-with-plugins.yaml", "Pod");
    let container = &pod["spec"]["containers"][0];
    let (mounts, volumes) = (container["volumeMounts"].as_array().expect("mounts"), &pod["spec"]["volumes"]);
    let volumes = volumes.as_array().expect("volumes");
    let kept: Vec<&str> = mounts
        .iter()
        .filter(|mount| mount["readOnly"].is_null())
        .filter(|mount| volumes.iter().any(|it| it["name"] == mount["name"] && it["hostPath"].is_object()))
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    assert_eq!(kept, ["/var/lib/berth/cache", "/var/lib/berth/state"]);
    let command = command(container);
    for flag in ["--artifact-cache=/var/lib/berth/cache", "--plugin-state=/var/lib/berth/state/plugins.json"] {
        assert!(command.iter().any(|it| it == flag), "{flag}");
    }
}

#[test]
fn the_deployment_runs_three_replicas_of_which_one_schedules() {
    let deployment = object("kustomize/base/second-scheduler.yaml", "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for (probe, path) in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "https", "scheme": "HTTPS"}), "{probe}");
    }
    let cli = Cli::try_parse_from(command(container));
    let Command::Run(arguments) = cli.expect("a command line of berth").command else { panic!("it runs no scheduler") };
    assert_eq!(arguments.leader_elect, None);
    let serving = serving::read(&arguments.serving.0, 0, None).expect("flags that make sense").expect("HTTPS");
    assert_eq!(container["ports"][0]["containerPort"], serving.address.port());
    let state = arguments.scheduling.plugin_state.expect("a file for the state of plugins");
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let folder = state.parent().and_then(Path::to_str);
    assert!(
        mounts.iter().any(|mount| mount["mountPath"].as_str() == folder && mount["readOnly"].is_null()),
        "{state:?}"
    );
    let config_map = object("kustomize/base/second-scheduler.yaml", "ConfigMap");
    let text = config_map["data"]["scheduler.yaml"].as_str().expect("a configuration");
    let settings = Settings::from_text("scheduler.yaml", text, &InTree::new(&berth_builtins::factories()));
    let settings = settings.expect("a valid configuration");
    assert!(settings.leader_election.leader_elect);
    assert_eq!(settings.leader_election.resource_name, "berth");
    assert_eq!(settings.profiles[0].scheduler_name, "berth");
    let budget = object("kustomize/base/second-scheduler.yaml", "PodDisruptionBudget");
    let selector = &deployment["spec"]["selector"];
    let expected = json!({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": selector});
    assert_eq!(budget["spec"], expected);
}

#[test]
fn the_roles_are_those_that_the_deployment_needs() {
    let (mut plugins, _) =
        Plugins::inspect(Rules::default(), &Sources::default(), FaultSink::default()).expect("built-ins");
    let config_map = object("kustomize/base/second-scheduler.yaml", "ConfigMap");
    let text = config_map["data"]["scheduler.yaml"].as_str().expect("a configuration");
    let settings = Settings::from_text("scheduler.yaml", text, &plugins.inventory).expect("a valid configuration");
    let operation = Operation { serving: Serving::Https, election: Election::Lease };
    let rights = Rights::of_any_release(&settings, &mut plugins.inventory, operation);
    let printed = manifests(&rights, Account { name: "berth", namespace: "kube-system" });
    let written = objects("kustomize/base/rbac.yaml");
    assert_eq!(written, printed, "berth rbac --https --config scheduler.yaml");
    for rule in written.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
        let resources = rule["resources"].as_array().expect("resources");
        let reaches_secrets = resources.iter().any(|resource| resource == "secrets" || resource == "*");
        assert!(!reaches_secrets, "no role admits to Secrets: {rule}");
    }
}

#[test]
fn the_manifests_are_those_of_this_release() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &objects("chart/Chart.yaml")[0];
    assert_eq!((&chart["version"], &chart["appVersion"]), (&version.into(), &version.into()));
    let deployment = object("kustomize/base/second-scheduler.yaml", "Deployment");
    let pods = STATIC_PODS.map(|file| object(file, "Pod"));
    for spec in pods.iter().map(|pod| &pod["spec"]).chain([&deployment["spec"]["template"]["spec"]]) {
        let image = spec["containers"][0]["image"].as_str().expect("an image");
        assert!(image.ends_with(&format!(":{version}")), "{image}");
    }
}

#[test]
fn the_page_on_compatibility_has_a_row_for_this_release() {
    let page = include_str!("../../../../docs/src/compatibility.md");
    let version = concat!("| ", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"), " |");
    let row = page.lines().find(|line| line.starts_with(version)).expect("a row");
    let contract = include_str!("../../../../wit/types.wit").lines().find_map(|line| line.strip_prefix("package "));
    let contract = contract.expect("a package").trim_end_matches(';');
    let [oldest, newest] = Release::ALL.map(Release::as_str);
    for cell in [
        format!("kube-scheduler {oldest} or {newest}"),
        format!("`{contract}`"),
        format!("Rust {}", env!("CARGO_PKG_RUST_VERSION")),
    ] {
        assert!(row.contains(&cell), "{cell} is missing from {row}");
    }
}

/// Like kube-scheduler, Berth must not be newer than the API server, so the oldest release that Berth decides as is the
/// oldest one that the chart installs on.
#[test]
fn the_chart_and_the_page_allow_the_same_api_servers() {
    let [oldest, newest] = Release::ALL.map(Release::as_str);
    let chart = &objects("chart/Chart.yaml")[0];
    assert_eq!(chart["kubeVersion"], format!(">= {oldest}.0-0"));
    let page = include_str!("../../../../docs/src/compatibility.md");
    for sentence in [
        format!("Berth supports the API servers of Kubernetes {oldest} and {newest}."),
        format!("The chart refuses an API server that is older than {oldest}"),
    ] {
        assert!(page.contains(&sentence), "{sentence}");
    }
}

#[test]
fn the_lease_of_the_configuration_is_deleted_with_berth() {
    let config_map = object("kustomize/base/second-scheduler.yaml", "ConfigMap");
    let text = config_map["data"]["scheduler.yaml"].as_str().expect("a configuration");
    let settings = Settings::from_text("scheduler.yaml", text, &InTree::new(&berth_builtins::factories()));
    let election = settings.expect("a valid configuration").leader_election;
    let metadata = json!({"name": election.resource_name, "namespace": election.resource_namespace});
    let lease = object("kustomize/base/second-scheduler.yaml", "Lease");
    assert_eq!(lease["metadata"], metadata);
    // The replicas write the spec. If the manifest had a spec, a second apply would overwrite the spec of the replicas.
    assert!(lease["spec"].is_null(), "{lease}");
}

/// Asserts that the container has few rights, whichever program the container runs.
#[track_caller]
fn is_confined(pod: &Value) {
    let container = &pod["containers"][0];
    let own = &container["securityContext"];
    assert_eq!(own["allowPrivilegeEscalation"], false);
    assert_eq!(own["readOnlyRootFilesystem"], true);
    assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert!(container["resources"]["requests"]["cpu"].is_string());
    assert!(container["resources"]["limits"]["cpu"].is_null(), "it would hold up every pod");
}

#[test]
fn containers_may_do_little_on_their_nodes() {
    for file in STATIC_PODS {
        is_confined(&object(file, "Pod")["spec"]);
    }
    let deployment = object("kustomize/base/second-scheduler.yaml", "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    is_confined(pod);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert!(container["resources"]["limits"]["memory"].is_string());
    // The container writes only to its own volumes.
    let cache = container["env"].as_array().expect("variables").iter().find(|it| it["name"] == "XDG_CACHE_HOME");
    let cache = &cache.expect("a place for the cache")["value"];
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let mount = mounts.iter().find(|mount| mount["mountPath"] == *cache).expect("the cache is mounted");
    let volumes = pod["volumes"].as_array().expect("volumes");
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).expect("it is a volume");
    assert!(volume["emptyDir"].is_object() && mount["readOnly"].is_null(), "{volume}");
    for other in mounts.iter().filter(|other| other["readOnly"] != true) {
        let volume = volumes.iter().find(|volume| volume["name"] == other["name"]).expect("it is a volume");
        assert!(volume["emptyDir"]["sizeLimit"].is_string(), "{volume}");
    }
}

#[test]
fn the_network_policy_lets_through_what_the_scheduler_needs() {
    let policy = object("kustomize/base/second-scheduler.yaml", "NetworkPolicy")["spec"].clone();
    let template = object("kustomize/base/second-scheduler.yaml", "Deployment")["spec"]["template"].clone();
    assert_eq!(policy["podSelector"]["matchLabels"], template["metadata"]["labels"]);
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    let ports = |direction: &str| -> Vec<Value> {
        let rules = policy[direction].as_array().expect("rules").iter();
        rules.flat_map(|rule| rule["ports"].as_array().expect("ports")).map(|port| port["port"].clone()).collect()
    };
    assert_eq!(ports("ingress"), [template["spec"]["containers"][0]["ports"][0]["name"].clone()]);
    assert_eq!(ports("egress"), [json!(443), json!(6443), json!(53), json!(53)]);
    // Only Prometheus may scrape, and the scheduler may send name queries only to the cluster's DNS.
    let namespace = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    assert_eq!(policy["ingress"][0]["from"], json!([{"namespaceSelector": namespace("monitoring")}]));
    let servers =
        json!({"namespaceSelector": namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}});
    assert_eq!(policy["egress"][1]["to"], json!([servers]));
}
