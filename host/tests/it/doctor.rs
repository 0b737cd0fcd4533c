//! `berth doctor` finds the mistakes of a setup, says what to fix, and finds nothing in a setup that works.

use std::{fs, path::Path, time::Duration};

use axum::{
    Json, Router,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::{
    cluster::Cluster,
    process::{Ended, Process},
    reviewer::kubeconfig,
};

const LIMIT: Duration = Duration::from_secs(240);

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: ByPriority}]
";

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";

/// A folder with an operator's files.
struct Setup(TempDir);

impl Setup {
    fn new(config: &str, plugin_config: &str) -> Self {
        let setup = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(setup.path("plugins")).expect("a folder");
        fs::write(setup.path("config.yaml"), config).expect("a file");
        fs::write(setup.path("plugins.yaml"), format!("{HEADER}{plugin_config}")).expect("a file");
        setup
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn plugin(&self, name: &str, bytes: &[u8]) {
        fs::write(Path::new(&self.path("plugins")).join(format!("{name}.wasm")), bytes).expect("a file");
    }

    async fn doctor(&self, more: &[&str]) -> Ended {
        let (config, plugins, host) = (self.path("config.yaml"), self.path("plugins"), self.path("plugins.yaml"));
        let cache = self.path("cache");
        let arguments = ["doctor", "--config", &config, "--plugins-dir", &plugins, "--plugin-config", &host];
        let cache = ["--artifact-cache", &cache];
        Process::berth(arguments.iter().chain(&cache).chain(more)).ended(LIMIT).await
    }

    /// The findings other than `ok`, as `result area text`.
    async fn complaints(&self, more: &[&str]) -> (Option<i32>, Vec<String>) {
        complaints(&self.doctor(&[more, &["-o", "json"]].concat()).await)
    }

    /// The problems of the cluster of the file `kubeconfig`, before the installation. There must be no other problems.
    async fn problems_of_cluster(&self, more: &[&str]) -> Vec<String> {
        let kubeconfig = self.path("kubeconfig");
        let before: &[&str] = &["--pre", "--kubeconfig", &kubeconfig];
        let (code, mut problems) = self.complaints(&[before, more].concat()).await;
        problems.retain(|complaint| complaint.starts_with("problem "));
        assert!(problems.iter().all(|problem| problem.starts_with("problem cluster ")), "{problems:#?}");
        assert_eq!(code, Some(i32::from(!problems.is_empty())), "{problems:#?}");
        problems
    }
}

fn complaints(ended: &Ended) -> (Option<i32>, Vec<String>) {
    let findings: Vec<Value> = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
    let complaints = findings.iter().filter(|finding| finding["result"] != "ok").map(|finding| {
        assert!(finding["fix"].is_string(), "{finding}");
        let part = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", part("result"), part("area"), part("text"))
    });
    (ended.status.code(), complaints.collect())
}

fn contains(complaints: &[String], parts: &[&str]) {
    let is_it = |complaint: &String| parts.iter().all(|part| complaint.contains(part));
    assert!(complaints.iter().any(is_it), "nothing says {parts:?} in {complaints:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_that_works_has_no_problem() {
    let cluster = Cluster::start(&["--no-scheduler"]).await;
    let setup = Setup::new(CONFIG, "plugins: [{name: ByPriority, limits: {memory: 32Mi}}]\n");
    setup.plugin("ByPriority", &berth_test_guests::by_priority().expect("a component"));
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let no_holder = "the Lease kube-system/kube-scheduler has no holder";
    let before = setup.doctor(&["--kubeconfig", &kubeconfig, "--pre"]).await;
    assert!(before.out.contains(&format!("{no_holder}: a replica can take it")), "{}", before.out);
    let (_, complaints) = setup.complaints(&["--kubeconfig", &kubeconfig]).await;
    contains(&complaints, &["warning cluster", no_holder, "no replica schedules pods"]);
    let told = setup.doctor(&["--kubeconfig", &kubeconfig]).await.out;
    assert!(told.contains("the scheduler of `berth sandbox` is alone and holds no Lease"), "{told}");
    let scheduler =
        cluster.run(&["--plugins-dir", &setup.path("plugins"), "--config", &setup.path("config.yaml")]).await;
    let (server, socket) = (scheduler.server(), scheduler.socket());
    let running = ["--metrics-address", &server, "--admin-socket", &socket];
    let ended = setup.doctor(&[&["--kubeconfig", &kubeconfig][..], &running].concat()).await;
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    for part in [
        "ByPriority.wasm in ",
        "32 MiB",
        "every plugin exists",
        "the API server answers in ",
        "decisions are those of kube-scheduler 1.36, the cluster's release",
        "clocks agree",
        " holds the Lease kube-system/kube-scheduler, renewed ",
        "this user has all",
        "alive and ready",
    ] {
        assert!(ended.out.contains(part), "{part} is not in {}", ended.out);
    }
    assert!(!ended.out.contains("PROBLEM"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_files_is_found_at_once() {
    let setup = Setup::new(CONFIG, "plugins: [{name: ByPriority, limits: {memory: much}}]\n");
    setup.plugin("Broken", b"not a component");
    setup.plugin("QOSSort", berth_test_components::component("QOSSort"));
    fs::create_dir(setup.path("cache")).expect("a folder");
    let (code, complaints) = setup.complaints(&["--offline"]).await;
    assert_eq!(code, Some(1));
    contains(&complaints, &["problem configuration", "plugins.yaml", "much"]);
    contains(&complaints, &["problem plugins", "Broken.wasm is refused: it is not a WebAssembly file"]);
    // The grants are unknown, so missing grants are not reported as a mistake.
    let about_grants = |complaint: &&String| complaint.starts_with("problem") && complaint.contains("QOSSort");
    assert!(!complaints.iter().any(|complaint| about_grants(&complaint)), "{complaints:#?}");
    contains(&complaints, &["warning plugins", "QOSSort.wasm: not checked"]);
    contains(&complaints, &["problem plugins", "enables ByPriority, but ByPriority.wasm in ", " does not exist"]);
    contains(&complaints, &["warning cache", "open to other users"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_path_and_argument_is_found_at_once() {
    let arguments = "  pluginConfig:\n  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 300}}\n";
    let config = format!("{CONFIG}{arguments}  - {{name: NodeResourcesFit, args: {{ignored: 1}}}}\n");
    let setup = Setup::new(&config, "plugins: [{name: ByPriority, limits: {memory: much, output: more}}]\n");
    let folder = setup.path("absent");
    let file = |name: &str| format!("{folder}/{name}");
    let (state, audit, host) = (file("state.json"), file("audit.log"), setup.path("plugins.yaml"));
    let arguments = ["doctor", "--offline", "-o", "json", "--plugins-dir", &folder, "--plugin-config", &host];
    let config = setup.path("config.yaml");
    let more = ["--config", &config, "--plugin-state", &state, "--audit-log", &audit];
    let ended = Process::berth(arguments.iter().chain(&more)).ended(LIMIT).await;
    let (code, complaints) = complaints(&ended);
    assert_eq!(code, Some(1));
    contains(&complaints, &["--plugins-dir", "absent: cannot be read: No such file"]);
    contains(&complaints, &["--plugin-state", "state.json: its folder cannot be written to: No such file"]);
    contains(&complaints, &["--audit-log", "audit.log: its folder cannot be written to: No such file"]);
    contains(&complaints, &["plugins.yaml", "much"]);
    contains(&complaints, &["config.yaml: profiles[0].pluginConfig[0]", "minCandidateNodesPercentage"]);
    contains(&complaints, &["config.yaml: profiles[0].pluginConfig[1]", "ignored"]);
    for file in ["plugins.yaml", "pluginConfig[0]", "pluginConfig[1]"] {
        let n_problems = complaints.iter().filter(|complaint| complaint.contains(file)).count();
        assert_eq!(n_problems, 1, "one mistake each: {complaints:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_yaml_is_one_problem() {
    for (config, plugin_config) in [(CONFIG, "plugins: [{name: ByPriority\n"), ("profiles: [\n", "")] {
        let setup = Setup::new(config, plugin_config);
        setup.plugin("ByPriority", &berth_test_guests::by_priority().expect("a component"));
        let ended = setup.doctor(&["--offline"]).await;
        assert!(ended.err.contains("1 problem found"), "{}{}", ended.out, ended.err);
        let (_, complaints) = setup.complaints(&["--offline"]).await;
        assert_eq!(complaints.iter().filter(|it| it.starts_with("problem")).count(), 1, "{complaints:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lack_of_grants_is_a_problem_only_if_the_grants_can_be_read() {
    let setup = Setup::new("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "");
    setup.plugin("QOSSort", berth_test_components::component("QOSSort"));
    let (_, complaints) = setup.complaints(&["--offline"]).await;
    contains(&complaints, &["problem plugins", "QOSSort.wasm is refused: it wants pending pods as JSON"]);
    fs::write(setup.path("plugins.yaml"), format!("{HEADER}plugins: [{{name: QOSSort\n")).expect("a file");
    let ended = setup.doctor(&["--offline"]).await;
    assert!(ended.err.contains("1 problem found"), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("QOSSort.wasm: not checked, because its grants cannot be read"), "{}", ended.out);
    assert!(!ended.out.contains("no usable plugins"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_nearly_one_is_warned_of() {
    let setup = Setup::new(CONFIG, "plugins: [{name: ByPriority, grants: {reads: [v1/configmap]}}]\n");
    setup.plugin("ByPriority", &berth_test_guests::by_priority().expect("a component"));
    let (code, complaints) = setup.complaints(&["--offline"]).await;
    assert_eq!((code, complaints.len()), (Some(0), 1), "{complaints:#?}");
    let told = "plugins[ByPriority].grants.reads: v1/configmap is not a Kubernetes kind: did you mean v1/ConfigMap?";
    contains(&complaints, &["warning configuration", told]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_file_is_not_called_missing() {
    let setup = Setup::new(CONFIG, "");
    setup.plugin("ByPriority", b"not a component");
    let ended = setup.doctor(&["--offline"]).await;
    assert!(ended.err.contains("1 problem found"), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("ByPriority.wasm is refused: it is not a WebAssembly file"), "{}", ended.out);
    assert!(
        ended.out.contains(
            "the profiles default-scheduler enable this plugin: until this is corrected, their pods \
                            stay pending"
        ),
        "{}",
        ended.out
    );
    assert!(!ended.out.contains("but ByPriority.wasm"), "{}", ended.out);
    // The profile has the name that `berth run --scheduler-name` gives it.
    let named = setup.doctor(&["--offline", "--scheduler-name", "berth"]).await;
    assert!(named.out.contains("the profiles berth enable this plugin"), "{}{}", named.out, named.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_another_name_than_its_plugin_is_to_be_renamed() {
    let setup = Setup::new(CONFIG, "");
    setup.plugin("Priority", &berth_test_guests::by_priority().expect("a component"));
    let ended = setup.doctor(&["--offline"]).await;
    let refused = "Priority.wasm is refused: it has the name \"ByPriority\" in its manifest";
    for part in [refused, "rename it to ByPriority.wasm"] {
        assert!(ended.out.contains(part), "{part} is not in {}", ended.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_and_names_that_no_profile_means_are_warned_of() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles: [{pluginConfig: [{name: ByPriorty, args: {}}]}]\n";
    let setup = Setup::new(config, "plugins: [{name: byPriority, grants: {}}]\n");
    setup.plugin("ByPriority", &berth_test_guests::by_priority().expect("a component"));
    let (code, complaints) = setup.complaints(&["--offline"]).await;
    assert_eq!((code, complaints.len()), (Some(0), 3), "{complaints:#?}");
    let args =
        "config.yaml: profiles[0].pluginConfig[0].name: unknown plugin \"ByPriorty\" (did you mean \"ByPriority\"?)";
    contains(&complaints, &["warning configuration", args]);
    let entry = "plugins.yaml: plugins[byPriority].name: unknown plugin \"byPriority\" (did you mean \"ByPriority\"?)";
    contains(&complaints, &["warning configuration", entry]);
    contains(&complaints, &["warning plugins", "ByPriority.wasm in ", " is not used: no profile enables it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plugin_that_refuses_its_arguments_is_found_at_once() {
    let profile = |name: &str, args: &str| {
        let plugins = "plugins: {filter: {enabled: [{name: NodeMetadata}]}}";
        format!("- {{schedulerName: {name}, {plugins}, pluginConfig: [{{name: NodeMetadata, args: {args}}}]}}\n")
    };
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n";
    let profiles = [profile("one", "{}"), profile("two", "{key: rack, order: 7}"), profile("three", "{key: ''}")];
    let setup = Setup::new(&format!("{head}{}", profiles.concat()), "");
    setup.plugin("NodeMetadata", berth_test_components::component("NodeMetadata"));
    let (_, complaints) = setup.complaints(&["--offline"]).await;
    for name in ["one", "three"] {
        contains(
            &complaints,
            &["problem configuration", &format!("profiles[{name}].pluginConfig[NodeMetadata].args: ")],
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_makes_no_sense_is_named_by_field() {
    let setup = Setup::new(&CONFIG.replace("enabled:", "enbled:"), "");
    let (code, complaints) = setup.complaints(&["--offline"]).await;
    assert_eq!(code, Some(1));
    contains(&complaints, &["problem configuration", "config.yaml", "enbled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_or_scheduler_that_does_not_answer_is_a_problem() {
    let setup = Setup::new("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "");
    let kubeconfig = setup.path("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
    fs::write(&kubeconfig, text).expect("a file");
    let (code, complaints) = setup.complaints(&["--kubeconfig", &kubeconfig, "--metrics-address", "127.0.0.1:1"]).await;
    assert_eq!(code, Some(1));
    contains(&complaints, &["problem cluster", "http://127.0.0.1:1"]);
    contains(&complaints, &["problem scheduler", "127.0.0.1:1"]);
}

const ACCOUNT: &str = "system:serviceaccount:kube-system:berth";

/// Answers as an API server on which only the service account has rights, and only as a member of the groups `a` and
/// `b`. The server refuses to impersonate any other user.
async fn answer(request: Request) -> Response {
    let sent = |name: &str| -> Vec<String> {
        let values = request.headers().get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let (user, groups) = (sent("impersonate-user").concat(), sent("impersonate-group"));
    let status = |code: u16, reason: &str, message: &str| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        })
    };
    let (code, body) = match request.uri().path() {
        _ if !["", ACCOUNT].contains(&user.as_str()) => {
            let message = "users \"bob\" is forbidden: User \"ada\" cannot impersonate resource \"users\" in API group \"\" \
                           at the cluster scope";
            (StatusCode::FORBIDDEN, status(403, "Forbidden", message))
        }
        "/version" => (StatusCode::OK, json!({"gitVersion": "v1.36.0"})),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            let allowed = user == ACCOUNT && groups == ["a", "b"];
            (StatusCode::CREATED, json!({"metadata": {}, "spec": {}, "status": {"allowed": allowed}}))
        }
        path => (StatusCode::NOT_FOUND, status(404, "NotFound", path)),
    };
    (code, Json(body)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_another_user_are_checked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.expect("it serves") });
    let setup = Setup::new("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "");
    let path = setup.path("kubeconfig");
    fs::write(&path, kubeconfig(&server, "ada")).expect("a file");
    contains(&setup.problems_of_cluster(&[]).await, &["this user may not create pods/binding: it is needed for "]);
    let alone = setup.problems_of_cluster(&["--as", ACCOUNT]).await;
    contains(&alone, &["system:serviceaccount:kube-system:berth may not create pods/binding: it is needed for "]);
    let as_member = ["--as", ACCOUNT, "--as-group", "a", "--as-group=b"];
    assert_eq!(setup.problems_of_cluster(&as_member).await, Vec::<String>::new());
    let told = setup.doctor(&[&["--pre", "--kubeconfig", &path][..], &as_member].concat()).await;
    assert!(told.out.contains("system:serviceaccount:kube-system:berth has all "), "{}", told.out);

    let refused = setup.problems_of_cluster(&["--as=bob"]).await;
    assert_eq!(refused.len(), 1, "{refused:#?}");
    contains(&refused, &["this user may not impersonate \"bob\": ", "User \"ada\" cannot impersonate resource"]);
    let told = setup.doctor(&["--pre", "--kubeconfig", &path, "--as=bob"]).await;
    let rule = "{apiGroups: [\"\"], resources: [\"users\"], resourceNames: [\"bob\"], verbs: [impersonate]}";
    assert!(told.out.contains(rule), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_impersonated_only_with_a_user() {
    let setup = Setup::new(CONFIG, "");
    for arguments in [&["--as-group", "people"][..], &["--as="], &["--offline", "--as", "ada"]] {
        assert_eq!(setup.doctor(arguments).await.status.code(), Some(2), "{arguments:?}");
    }
}

/// The release decides which arguments are allowed and which kinds are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_setup_is_checked_for_the_release_of_its_cluster() {
    let shape = "{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}";
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let setup =
        Setup::new(&format!("{config}profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {shape}}}]}}]\n"), "");
    let rights = |ended: &Ended| {
        let told = ended.out.lines().find_map(|line| line.split_once("has all ")).expect("the rights are checked").1;
        told.split(' ').next().and_then(|number| number.parse::<u32>().ok()).expect("a number")
    };
    let mut n_rights = Vec::new();
    for (server, asked, release) in [("1.36", None, "1.36"), ("1.37", None, "1.37"), ("1.37", Some("1.36"), "1.36")] {
        let cluster = Cluster::start(&["--no-scheduler", "--kubernetes-version", server]).await;
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let asked: Vec<&str> = asked.into_iter().flat_map(|version| ["--emulated-version", version]).collect();
        let ended = setup.doctor(&[&["--pre", "--kubeconfig", &kubeconfig][..], &asked].concat()).await;
        assert!(ended.out.contains(&format!("decisions are those of kube-scheduler {release}, ")), "{}", ended.out);
        let is_refused = ended.out.contains("turn on the feature gate StorageCapacityScoring");
        assert_eq!(
            (is_refused, ended.status.code()),
            (release == "1.36", Some(i32::from(is_refused))),
            "{}",
            ended.out
        );
        let plain = Process::berth(["doctor", "--pre", "--kubeconfig", &kubeconfig].iter().chain(&asked)).ended(LIMIT);
        n_rights.push(rights(&plain.await));
    }
    let [old, new, as_old] = n_rights[..] else { panic!("{n_rights:?}") };
    assert_eq!((new, as_old), (old + 2, old), "1.37 lists and watches DeviceTaintRules");
}
