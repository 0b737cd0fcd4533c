//! `berth rbac` prints the roles that a setup needs, and says on standard error what it leaves out.

use std::{fs, process::Command, time::Duration};

use serde_json::Value;

use crate::process::Process;

const LIMIT: Duration = Duration::from_secs(240);

/// QOSSort is the only plugin that sorts. Missing does not exist.
const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: mine, resourceNamespace: here}
profiles:
- schedulerName: mine
  plugins:
    queueSort: {disabled: [{name: '*'}], enabled: [{name: QOSSort}]}
    multiPoint: {enabled: [{name: Missing}]}
";

const GRANTS: &str = "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
plugins:
- name: QOSSort
  grants:
    podJson: true
    rules:
    - {apiGroups: [''], kinds: [ConfigMap], verbs: [patch], namespaces: [there]}
    - {apiGroups: [example.com], kinds: ['*'], verbs: [delete]}
";

#[tokio::test]
async fn roles_follow_from_configuration_plugins_and_grants() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::create_dir(path("plugins")).expect("a folder");
    fs::write(path("config.yaml"), CONFIG).expect("a file");
    fs::write(path("grants.yaml"), GRANTS).expect("a file");
    fs::write(path("plugins/QOSSort.wasm"), berth_test_components::component("QOSSort")).expect("a file");
    fs::write(path("plugins/Broken.wasm"), "text").expect("a file");
    let (config, plugins, grants) = (path("config.yaml"), path("plugins"), path("grants.yaml"));
    let options = ["--config", &config, "--plugins-dir", &plugins, "--plugin-config", &grants];
    let names = ["rbac", "--name", "mine", "--namespace", "here", "-o", "json"];
    let ended = Process::berth(names.iter().chain(&options)).ended(LIMIT).await;
    assert!(ended.status.success(), "{}", ended.err);
    let list: Value = serde_json::from_str(&ended.out).expect("JSON");
    let items = list["items"].as_array().expect("objects");
    let titles: Vec<String> = items
        .iter()
        .map(|item| {
            let metadata = &item["metadata"];
            assert_eq!(metadata["name"], "mine");
            format!("{} {}", item["kind"].as_str().unwrap_or_default(), metadata["namespace"].as_str().unwrap_or("-"))
        })
        .collect();
    let expected = [
        "ServiceAccount here",
        "ClusterRole -",
        "ClusterRoleBinding -",
        "Role here",
        "RoleBinding here",
        "Role there",
        "RoleBinding there",
    ];
    assert_eq!(titles, expected);
    let rule = serde_json::json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]);
    assert_eq!(items[5]["rules"], rule);
    assert_eq!(items[6]["subjects"][0]["namespace"], "here");
    for part in
        ["Broken.wasm: the file is not a WebAssembly file", "Missing: a profile enables it", "QOSSort is granted {"]
    {
        assert!(ended.err.contains(part), "{part} is not in {}", ended.err);
    }
}

#[tokio::test]
async fn a_coordinated_election_needs_rights_on_lease_candidates() {
    let candidates = "- leasecandidates\n";
    let ended = Process::berth(["rbac"]).ended(LIMIT).await;
    assert!(ended.status.success() && !ended.out.contains(candidates), "{}{}", ended.out, ended.err);
    let ended = Process::berth(["rbac", "--coordinated-leader-election"]).ended(LIMIT).await;
    assert!(ended.status.success() && ended.out.contains(candidates), "{}{}", ended.out, ended.err);
}

/// A container with a read-only root file system cannot create this directory.
#[tokio::test]
async fn a_default_cache_that_cannot_be_made_is_done_without() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["rbac", "--https"]).env("XDG_CACHE_HOME", "/proc/none");
    let ended = Process::start(command).ended(LIMIT).await;
    assert!(ended.status.success(), "{}", ended.err);
    assert!(ended.err.contains("compiled plugins are not cached"), "{}", ended.err);
    assert!(ended.out.starts_with("apiVersion: v1\nkind: ServiceAccount\n"), "{}", ended.out);
    assert!(ended.out.contains("- extension-apiserver-authentication\n"), "{}", ended.out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["sandbox", "--artifact-cache", "/proc/none", "--kubeconfig", "/dev/null"]);
    let ended = Process::start(command).ended(LIMIT).await;
    assert!(!ended.status.success() && ended.err.contains("/proc/none"), "one that is named must do: {}", ended.err);
}
