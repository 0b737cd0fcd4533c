//! Every template of `berth plugin new`, in every language. Each template is built, tested, verified and timed without
//! changes, and then built once more with another version. All plugins of a language then run in one sandbox, where each
//! plugin decides, and is then replaced by its other version.
//!
//! A language without installed tools is not run, as in the author's journey.
//!
//! The tests take minutes. They run in the order of their names, and the name of this module puts them before most other
//! tests, so that no processor idles while the last of them runs.

use std::fs;

use serde_json::Value;

use crate::journey::{Shell, is_runnable, node_of, until};

/// A template, and the name of the plugin that the test makes from it.
const TEMPLATES: [(&str, &str); 4] = [
    ("filter-by-label", "MatchPool"),
    ("score-by-metric", "PreferIdle"),
    ("quota", "ShareFairly"),
    ("approval", "AskFirst"),
];

/// A profile with all plugins, each with its arguments.
const CONFIG: &str = r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: MatchPool}, {name: PreferIdle, weight: 100}, {name: ShareFairly}, {name: AskFirst}]
  pluginConfig:
  - name: MatchPool
    args: {label: example.com/pool}
  - name: ShareFairly
    args: {label: example.com/tenant, limit: 1}
  - name: AskFirst
    args: {seconds: 600}
"#;

const HOST_CONFIG: &str = "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
plugins:
- name: AskFirst
  grants: {effects: [wait]}
";

/// The version of a plugin in Rust, and the next version. The second line of each text tells the plugin's version from the
/// version of the SDK's crates in the same manifest.
const OWN_VERSION: [&str; 2] =
    ["version = \"0.1.0\"\nedition.workspace = true", "version = \"0.2.0\"\nedition.workspace = true"];

/// Waits for the scheduler's message about a pod that fits no node.
fn reason(shell: &mut Shell, pod: &str, part: &str) {
    let wait = format!("kubectl wait --for=condition=PodScheduled=False --timeout=240s pod/{pod}");
    shell.run(&wait);
    let message = "{.status.conditions[?(@.type==\"PodScheduled\")].message}";
    let told = shell.run(&format!("kubectl get pod {pod} -o 'jsonpath={message}'"));
    assert!(told.contains(part), "{told}");
}

fn run(shell: &mut Shell, name: &str, labels: &str) {
    shell.run(&format!("kubectl run {name} --image=example.com/web:1 --labels={labels}"));
}

/// Makes, builds and tests one plugin, and puts its component into the folder `plugins`. Then builds another version, and
/// puts it into the folder `next`. The error says why the plugin cannot be built on this machine.
fn make(shell: &mut Shell, language: &str, source: &str, (template, name): (&str, &str)) -> Result<(), String> {
    let home = shell.directory.clone();
    let told = shell.run(&format!(
        "berth plugin new {name} --lang {language} --template {template} --dir {template}\ncd {template}"
    ));
    for part in ["berth plugin build", "--plugins-dir ../plugins --config config.yaml"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let needs_a_grant = template == "approval";
    assert_eq!(told.contains("plugin-host.yaml gives it: {effects: [wait]}"), needs_a_grant, "{told}");
    if language == "rust" && !shell.is_offline() {
        shell.fetch_and_go_offline("templates")?;
    }
    if language == "rust" {
        shell.run("cargo test");
    }
    let told = shell.run(
        "berth plugin build\nberth plugin test\nberth plugin verify --cases cases.yaml\nberth plugin bench --nodes 100 --cases cases.yaml",
    );
    for part in [&format!("{name} 0.1.0"), "ok      the same question"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    assert!(!told.contains("warning"), "{told}");
    let grants = if needs_a_grant { "--plugin-config plugin-host.yaml" } else { "" };
    let told = shell.run(&format!(
        "mkdir alone\ncp build/*.wasm alone/\nberth doctor --offline --plugins-dir alone --config config.yaml {grants}\nrm -r alone"
    ));
    assert!(!told.contains("PROBLEM"), "{told}");
    // This build follows the first one immediately. The projects in Rust share a target folder, and a build of another
    // project in between would make cargo compile the SDK again.
    shell.run("cp build/*.wasm ../plugins/");
    let (file, version) =
        if source == "src/lib.rs" { ("Cargo.toml", OWN_VERSION) } else { (source, ["0.1.0", "0.2.0"]) };
    shell.edit(file, version[0], version[1]);
    shell.run("berth plugin build\ncp build/*.wasm ../next/");
    shell.directory = home;
    Ok(())
}

fn entries(shell: &mut Shell) -> Vec<Value> {
    let list = shell.run("berth plugin list -o json");
    let all: Vec<Value> = serde_json::from_str(&list).expect("JSON");
    all.into_iter().filter(|entry| TEMPLATES.iter().any(|(_, name)| entry["name"] == *name)).collect()
}

async fn tour(language: &str, source: &str, is_required: bool) {
    let mut shell = Shell::new();
    for folder in ["plugins", "next"] {
        fs::create_dir(shell.directory.join(folder)).expect("a folder");
    }
    for template in TEMPLATES {
        if let Err(reason) = make(&mut shell, language, source, template) {
            assert!(!is_required, "{reason}");
            return eprintln!("not run: {language}, because its packages cannot be fetched: {reason}");
        }
    }
    fs::write(shell.directory.join("config.yaml"), CONFIG).expect("a file");
    fs::write(shell.directory.join("plugin-host.yaml"), HOST_CONFIG).expect("a file");
    let mut berth = shell.start(
        "berth sandbox --nodes 3 --kubeconfig sandbox.kubeconfig --config config.yaml --plugin-config plugin-host.yaml \
         --plugins-dir plugins",
    );
    berth.line("serving /admin/plugins").await;
    until("serve", || entries(&mut shell).iter().filter(|entry| entry["state"] == "serving").count() == 4).await;
    shell.environment.insert("KUBECONFIG", shell.directory.join("sandbox.kubeconfig").display().to_string());
    decide(&mut shell);

    // Another version of each plugin replaces the first.
    let before = entries(&mut shell);
    for (_, name) in TEMPLATES {
        shell.run(&format!("mv next/{name}.wasm plugins/{name}.wasm"));
    }
    until("swapped", || {
        let now = entries(&mut shell);
        now.iter().zip(&before).all(|(now, before)| now["digest"] != before["digest"] && now["version"] == "0.2.0")
    })
    .await;
    run(&mut shell, "after", "example.com/pool=fast");
    assert_eq!(node_of(&mut shell, "after"), "node-00001");
    berth.kill();
}

/// Checks that each plugin accepts one pod and rejects another.
fn decide(shell: &mut Shell) {
    shell.run("kubectl label node node-00001 example.com/pool=fast");
    run(shell, "fast", "example.com/pool=fast");
    assert_eq!(node_of(shell, "fast"), "node-00001");
    run(shell, "slow", "example.com/pool=slow");
    reason(shell, "slow", "3 node(s) did not have the label example.com/pool=slow");

    shell.run("kubectl annotate node --all example.com/load=90\nkubectl annotate --overwrite node node-00002 example.com/load=5");
    run(shell, "idle", "example.com/any=thing");
    assert_eq!(node_of(shell, "idle"), "node-00002");

    run(shell, "red-1", "example.com/tenant=red");
    node_of(shell, "red-1");
    run(shell, "red-2", "example.com/tenant=red");
    reason(shell, "red-2", "tenant red has 1 of 1 pods");
    shell.run("kubectl delete pod red-1");
    node_of(shell, "red-2");

    // The pod would wait for ten minutes. The answer releases the pod immediately.
    run(shell, "careful", "example.com/approval=wanted");
    shell.run("kubectl wait --for=jsonpath='{.status.nominatedNodeName}' --timeout=240s pod/careful");
    let node = shell.run("kubectl get pod careful -o jsonpath='{.spec.nodeName}'");
    assert_eq!(node, "", "it waits");
    let told = shell.run("berth explain pod default/careful");
    assert!(told.contains("waits to see v1/Pod default/careful changed: the pod was not approved"), "{told}");
    shell.run("kubectl label --overwrite pod careful example.com/approval=given");
    node_of(shell, "careful");
    run(shell, "hopeless", "example.com/approval=denied");
    reason(shell, "hopeless", "the pod was denied");
}

macro_rules! templates {
    ($($language:ident $source:literal,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $language() {
            let language = stringify!($language);
            if let Some(is_required) = is_runnable(language) {
                tour(language, $source, is_required).await;
            }
        })*
    };
}

templates! {
    rust "src/lib.rs",
    go "plugin.go",
    python "plugin.py",
    js "plugin.ts",
    c "plugin.c",
}
