//! Plugins from a registry, and plugins that must be signed. The `berth` binary pushes, signs, pulls and swaps them.

use std::{fs, path::Path, time::Duration};

use berth_test_guests::Behavior;
use berth_test_registry::{TestProxy, TestRegistry};
use serde_json::json;

use crate::{
    cluster::Cluster,
    plugin_life::{Bench, CONFIG, by_priority, digest, place},
    process::{Ended, Process},
};

const LIMIT: Duration = Duration::from_secs(240);

/// A folder with keys and a registry.
struct Release {
    dir: tempfile::TempDir,
    registry: TestRegistry,
}

impl Release {
    async fn new() -> Self {
        let release = Self {
            dir: tempfile::tempdir().expect("a folder"),
            registry: TestRegistry::start().await.expect("a registry"),
        };
        for key in ["release", "other"] {
            let made = release.berth(&["keygen", &release.path(key)]).await;
            assert!(made.status.success(), "{}", made.err);
        }
        release
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn reference(&self) -> String {
        format!("{}/team/by-priority:1", self.registry.host())
    }

    async fn berth(&self, arguments: &[&str]) -> Ended {
        Process::berth(["plugin"].iter().chain(arguments)).ended(LIMIT).await
    }

    async fn push(&self, version: u8) {
        let file = self.path("ByPriority.wasm");
        fs::write(&file, by_priority(version)).expect("a file");
        let pushed = self.berth(&["push", &file, &self.reference(), "--plain-http"]).await;
        assert!(pushed.status.success() && pushed.out.contains("@sha256:"), "{}{}", pushed.out, pushed.err);
    }

    async fn sign(&self, what: &str, key: &str) {
        let key = self.path(&format!("{key}.key"));
        let signed = self.berth(&["sign", what, "--key", &key, "--plain-http"]).await;
        assert!(signed.status.success(), "{}", signed.err);
    }

    /// The scheduler's settings. The plugin comes from the registry, and `signer` must have signed it.
    fn settings(&self, signer: &str) -> String {
        format!(
            "{}
registries: [{{host: '{host}', plainHTTP: true}}]
signatures: [{{source: 'oci://{host}/team', signers: [{signer}]}}]
plugins:
- name: ByPriority
  source: {{oci: '{reference}', pullIntervalSeconds: 1}}
",
            self.header(),
            host = self.registry.host(),
            reference = self.reference(),
        )
    }

    fn header(&self) -> String {
        let (release, other) = (self.path("release.pub"), self.path("other.pub"));
        format!(
            "apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
signers: [{{name: release, publicKeyFile: '{release}'}}, {{name: other, publicKeyFile: '{other}'}}]"
        )
    }
}

fn configure(bench: &Bench, text: &str) {
    place(&bench.cluster.dir.path().join("plugins.yaml"), text.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_pulled_when_it_is_signed_and_swapped_when_the_tag_moves() {
    let release = Release::new().await;
    release.push(1).await;
    let mut bench = Bench::start(&release.settings("release")).await;
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "has no signature; trusted signers for").await;
    bench.event("PluginRefused", "has no signature").await;
    release.sign(&release.reference(), "other").await;
    bench.pends_with("early", "none by a trusted signer (release): the signature was made with another key").await;
    release.sign(&release.reference(), "release").await;
    bench.cluster.node_of("early").await;
    let entry = bench.serves(&digest(1)).await;
    assert_eq!((&entry["source"], &entry["signedBy"]), (&json!("registry"), &json!(["release"])));
    assert!(entry["reference"].as_str().is_some_and(|it| it.contains("/team/by-priority@sha256:")), "{entry}");

    // The tag moves to an unsigned version, and the previous version continues to serve.
    release.push(2).await;
    bench.until("refused", |plugin| plugin["refusedDigest"] == digest(2)).await;
    assert_eq!(bench.serves(&digest(1)).await["state"], "probation", "it was refused at first");
    release.sign(&release.reference(), "release").await;
    bench.serves(&digest(2)).await;

    // The signer is no longer trusted, so the plugin that serves is withdrawn.
    configure(&bench, &release.settings("other"));
    let entry = bench.until("withdrawn", |plugin| plugin["state"] == "refused").await;
    let reason = entry["reason"].as_str().expect("a text");
    let begins = format!("{} has 1 signature(s), none by a trusted signer (other)", release.reference());
    assert!(entry["source"] == "registry" && reason.starts_with(&begins), "{entry}");
    bench.create("late", Behavior::Normal).await;
    bench.pends_with("late", "none by a trusted signer (other)").await;
    let listed = bench.berth(&["list"]).await;
    assert!(listed.out.contains("SIGNED BY"), "{}", listed.out);
    bench.scheduler.process.line("is refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_needs_a_signature_that_counts() {
    let release = Release::new().await;
    let settings = |unsigned: &str| {
        format!("{}\nsignatures: [{{source: directory, signers: [release], unsigned: {unsigned}}}]\n", release.header())
    };
    let write = |dir: &Path| {
        fs::write(dir.join("plugins.yaml"), settings("deny")).expect("a file");
        fs::write(dir.join("plugins/ByPriority.wasm"), by_priority(1)).expect("a file");
    };
    let bench = Bench::start_with(write).await;
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "has no signature; trusted signers for the plugins directory: release").await;
    let file = bench.file().display().to_string();
    release.sign(&file, "other").await;
    bench.pends_with("early", "the signature was made with another key").await;
    release.sign(&file, "release").await;
    bench.cluster.node_of("early").await;
    assert_eq!(bench.serves(&digest(1)).await["signedBy"], json!(["release"]));
    let verified = release.berth(&["verify", &file, "--key", &release.path("release.pub")]).await;
    // `verify` also checks the contract, which is not the subject of this test.
    assert!(verified.out.contains("signed with"), "{}{}", verified.out, verified.err);

    bench.put(2);
    bench.until("refused", |plugin| plugin["refusedDigest"] == digest(2)).await;
    let refused = release.berth(&["verify", &file, "--key", &release.path("release.pub")]).await;
    assert!(
        !refused.status.success() && refused.err.contains("the signature was made with another key"),
        "{}",
        refused.err
    );
    configure(&bench, &settings("warn"));
    bench.serves(&digest(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_serves_a_restart_while_the_registry_is_away() {
    let release = Release::new().await;
    release.push(1).await;
    release.sign(&release.reference(), "release").await;
    let bench = Bench::start(&release.settings("release")).await;
    bench.serves(&digest(1)).await;
    let pulled = release.path("pulled.wasm");
    let arguments = ["pull", &release.reference(), "-o", &pulled, "--plain-http"];
    let ended = release.berth(&arguments).await;
    assert!(ended.status.success() && fs::read(&pulled).expect("a file") == by_priority(1), "{}", ended.err);
    release.registry.behave(|it| it.is_away = true);
    let path = |name: &str| bench.cluster.dir.path().join(name).display().to_string();
    let (config, plugins, plugin_config) = (path("config.yaml"), path("plugins"), path("plugins.yaml"));
    let arguments = ["--config", &config, "--plugins-dir", &plugins, "--plugin-config", &plugin_config];
    let mut second = bench.cluster.scheduler(&arguments).await;
    second.process.line("the plugin cannot be pulled; using the copy in the cache").await;
    second.until("/metrics", |text| text.contains(&format!("digest=\"{}\"", digest(1)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_names_the_proxy_to_a_registry() {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = TestRegistry::start().await.expect("a registry");
    let proxy = TestProxy::start(&registry, &["registry.example"]).await.expect("a proxy");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    };
    let component = file("ByPriority.wasm", &by_priority(1));
    let authorities = file("ca.pem", proxy.authority().as_bytes());
    let config = file("config.yaml", CONFIG.as_bytes());
    let reference = "registry.example/team/by-priority:1";
    let address = format!("http://{}", proxy.host());
    // The sandbox is on loopback, which is never behind a proxy.
    let variables = [("HTTPS_PROXY", address.as_str()), ("NO_PROXY", "other.example")];

    let arguments = ["plugin", "push", &component, reference, "--ca-file", &authorities];
    let pushed = Process::berth_with(arguments, &variables).ended(LIMIT).await;
    assert!(pushed.status.success(), "{}", pushed.err);
    assert_ne!(proxy.take_requests(), [""; 0]);

    let settings = format!(
        "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
registries: [{{host: registry.example, caFile: '{authorities}'}}]
plugins:
- name: ByPriority
  source: {{oci: '{reference}'}}
"
    );
    let settings = file("plugins.yaml", settings.as_bytes());
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let arguments = ["--config", &config, "--plugin-config", &settings];
    let scheduler = cluster.scheduler_with(&arguments, &variables).await;
    scheduler.until("/metrics", |text| text.contains(&format!("digest=\"{}\"", digest(1)))).await;
    let asked = proxy.take_requests();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked == "CONNECT registry.example:443"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_helper_is_run_by_the_commands_and_not_by_the_scheduler() {
    let release = Release::new().await;
    let host = release.registry.host();
    release.registry.behave(|it| it.credentials = Some(("berth".to_owned(), "secret".to_owned())));
    let docker_config = format!(r#"{{"auths": {{"{host}": {{}}}}, "credHelpers": {{"{host}": "test"}}}}"#);
    fs::write(release.path("config.json"), docker_config).expect("a file");
    let helper = format!(
        "#!/bin/sh
read -r server
if [ \"$1 $server\" = 'get {host}' ]; then echo '{{\"Username\": \"berth\", \"Secret\": \"secret\"}}'; else exit 1; fi"
    );
    // Another process writes the file. While this process has a file open to write, so may a child of another test, and
    // the kernel refuses to run it.
    let program = release.path("docker-credential-test");
    let write = ["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\"", &program, &helper];
    assert!(std::process::Command::new("sh").args(write).status().expect("a shell").success());

    let folder = release.dir.path().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
    let variables = [("DOCKER_CONFIG", folder.as_str()), ("PATH", path.as_str())];
    let component = release.path("ByPriority.wasm");
    fs::write(&component, by_priority(1)).expect("a file");
    let push = ["plugin", "push", &component, &release.reference(), "--plain-http"];
    let pushed = Process::berth_with(push, &variables).ended(LIMIT).await;
    assert!(pushed.status.success(), "{}", pushed.err);

    let settings = format!(
        "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
registries: [{{host: '{host}', plainHTTP: true, pullSecretFile: '{folder}/config.json'}}]
plugins:
- name: ByPriority
  source: {{oci: '{}'}}
",
        release.reference()
    );
    let (config, plugin_config) = (release.path("config.yaml"), release.path("plugins.yaml"));
    fs::write(&config, CONFIG).expect("a file");
    fs::write(&plugin_config, settings).expect("a file");
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let arguments = ["--config", &config, "--plugin-config", &plugin_config];
    let mut scheduler = cluster.scheduler_with(&arguments, &variables).await;
    scheduler.process.line(&format!("a credential helper for {host}, which the scheduler does not run")).await;
}
