//! An author's journey, by the commands of the guide: from an empty folder to a plugin that decides in a running
//! sandbox. The plugin is replaced once by hand and once by `berth plugin dev`.
//!
//! The test runs the console blocks of docs/src as they are, so a wrong guide fails here. A language without installed
//! tools is not run, and the output says so; `cargo xtask languages` installs the tools. Plugins in Rust are built with
//! an empty cargo home, offline after one `cargo fetch`.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use berth_test_languages::{LANGUAGES, folder};
use berth_wasm_host::Binary;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::process::Process;

/// The steps include compiling a plugin's dependencies.
const DEADLINE: Duration = Duration::from_secs(600);

/// The fenced blocks of one language on a page, in order.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(folder("docs/src").join(page)).expect("a page of the guide");
    let fenced = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    fenced.filter(|(head, _)| *head == language).map(|(_, body)| body.to_owned()).collect()
}

/// An author's shell in an empty folder.
pub(crate) struct Shell {
    home: TempDir,
    pub(crate) directory: PathBuf,
    pub(crate) environment: BTreeMap<&'static str, String>,
}

impl Shell {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        // A space in a path must not break a build.
        let directory = home.path().join("my plugins");
        fs::create_dir(&directory).expect("a folder");
        let berth = PathBuf::from(env!("CARGO_BIN_EXE_berth"));
        let bin = berth.parent().expect("a folder").display().to_string();
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| format!("{home}/.cache")));
        let toolchains = variable("BERTH_TOOLCHAINS")
            .unwrap_or_else(|| format!("{}/berth/toolchains", cache.expect("a home for caches")));
        let environment = BTreeMap::from([
            ("PATH", format!("{bin}:{}", env::var("PATH").unwrap_or_default())),
            ("BERTH_TOOLCHAINS", toolchains),
            ("XDG_RUNTIME_DIR", home.path().display().to_string()),
            ("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache").to_owned()),
            // The dependencies of plugins in Rust are compiled once for all runs.
            ("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/journey").to_owned()),
        ]);
        Self { home, directory, environment }
    }

    fn command(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(&self.directory).stdin(Stdio::null());
        // The outer cargo set these variables for this test, and the shell must not see them.
        for (variable, _) in env::vars_os() {
            let name = variable.to_string_lossy();
            let is_outer = (name.starts_with("CARGO") && name != "CARGO_HOME")
                || ["RUSTFLAGS", "RUSTUP_TOOLCHAIN", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "BERTH_LOG"]
                    .contains(&&*name);
            if is_outer {
                shell.env_remove(&variable);
            }
        }
        shell.envs(&self.environment);
        shell
    }

    /// Gives the shell an empty cargo home, fetches the project's dependencies for this machine and for wasm, and goes
    /// offline. `tests` names the home, because tests that run at the same time need different homes. The error holds
    /// cargo's message.
    pub(crate) fn fetch_and_go_offline(&mut self, tests: &str) -> Result<(), String> {
        // The flags that compile plugins contain the path of the home, so the path is fixed.
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{tests}-cargo-home"));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).expect("a folder");
        let own = env::var_os("CARGO_HOME").map(PathBuf::from);
        let own = own.or_else(|| env::home_dir().map(|home| home.join(".cargo"))).expect("a home of cargo");
        // The configuration may name a mirror.
        if own.join("config.toml").exists() {
            fs::copy(own.join("config.toml"), home.join("config.toml")).expect("a file");
        }
        self.environment.insert("CARGO_HOME", home.display().to_string());
        let host = "$(rustc -vV | sed -n 's/^host: //p')";
        let script = format!("cargo fetch --target wasm32-unknown-unknown --target {host}");
        let output = self.command(&script).output().expect("a shell");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        self.environment.insert("CARGO_NET_OFFLINE", "true".to_owned());
        Ok(())
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.environment.contains_key("CARGO_NET_OFFLINE")
    }

    /// Runs a block, and stays in the block's last folder. Every line must succeed.
    pub(crate) fn run(&mut self, script: &str) -> String {
        let place = self.home.path().join("pwd");
        let whole = format!("{script}\npwd > '{}'", place.display());
        let output = self.command(&whole).output().expect("a shell");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{script}\nfails:\n{text}");
        self.directory = PathBuf::from(fs::read_to_string(place).expect("a folder").trim_end());
        text
    }

    /// Runs all commands of a block except the last, and then starts the last command, which does not end by itself.
    pub(crate) fn start(&mut self, block: &str) -> Process {
        let at = block.rfind("\nberth ").map_or(0, |at| at + 1);
        self.run(&block[..at]);
        Process::start(self.command(&format!("exec {}", &block[at..])))
    }

    /// Changes the plugin's source file.
    pub(crate) fn edit(&self, source: &str, from: &str, to: &str) {
        let path = self.directory.join(source);
        let text = fs::read_to_string(&path).expect("the source");
        assert!(text.contains(from), "{source} has no `{from}`");
        fs::write(path, text.replace(from, to)).expect("the source");
    }

    fn digest(&self, file: &str) -> String {
        let bytes = fs::read(self.directory.join(file)).expect("a component");
        Binary::new("AvoidZone", bytes).digest().to_string()
    }

    /// The plugin's entry in `berth plugin list`.
    fn entry(&mut self) -> Value {
        let list = self.run("berth plugin list -o json");
        let plugins: Vec<Value> = serde_json::from_str(&list).expect("JSON");
        plugins.into_iter().find(|plugin| plugin["name"] == "AvoidZone").expect("an entry")
    }
}

/// Repeats the check until it succeeds.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut every = interval(Duration::from_millis(200));
    let asking = async {
        while !is_so() {
            every.tick().await;
        }
    };
    assert!(timeout(DEADLINE, asking).await.is_ok(), "never {what}");
}

const UNSCHEDULED: &str = "wait --for=condition=PodScheduled=False --timeout=240s pod/";
const MESSAGE: &str = "get -o 'jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}' pod/";

/// Two scripts of the guide: the script that makes a project, and the script that builds, tests, verifies, inspects and
/// times the project.
fn steps(language: &str) -> [String; 2] {
    let page = match language {
        "rust" => return blocks("first-plugin.md", "console")[..2].to_vec().try_into().expect("two blocks"),
        "js" => "languages/javascript.md".to_owned(),
        other => format!("languages/{other}.md"),
    };
    let block = &blocks(&page, "console")[0];
    let after = block.find("cd avoid-zone\n").expect("the block enters the project") + "cd avoid-zone\n".len();
    [block[..after].to_owned(), block[after..].to_owned()]
}

/// Makes a component from an empty folder, and tests, verifies, inspects and times the component. The error says why
/// the project cannot be built on this machine.
fn make(shell: &mut Shell, language: &str, source: &str) -> Result<(), String> {
    let [new, build] = steps(language);
    let mut told = shell.run(&new);
    if language == "rust" {
        shell.fetch_and_go_offline("journey")?;
    }
    told.push_str(&shell.run(&build));
    for part in ["AvoidZone 0.1.0", "ok      nodes of the avoided zone", "ok      the same question", "Filter"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    assert!(told.contains("Node: Add, UpdateNodeLabel"), "{told}");
    assert!(shell.directory.ends_with("avoid-zone") && shell.directory.join(source).is_file());
    Ok(())
}

async fn journey(language: &str, source: &str, is_required: bool) {
    let mut shell = Shell::new();
    if let Err(reason) = make(&mut shell, language, source) {
        assert!(!is_required, "{reason}");
        return eprintln!("not run: {language}, because its packages cannot be fetched: {reason}");
    }

    let guide = blocks("first-plugin.md", "console");
    let [_, _, sandbox, pods, east, swap, late, dev, ..] = guide.as_slice() else {
        panic!("the guide has other blocks")
    };
    // The file that the guide shows is the project's.
    let config = fs::read_to_string(shell.directory.join("config.yaml")).expect("a file");
    let without_comment = |text: &str| text.split_once('\n').expect("a line").1.to_owned();
    assert_eq!(without_comment(&config), without_comment(&blocks("first-plugin.md", "yaml")[0]));
    let mut berth = shell.start(sandbox);
    berth.line("serving /admin/plugins").await;
    let first = shell.digest("build/AvoidZone.wasm");
    until("serves", || shell.entry()["digest"] == first.as_str()).await;

    shell.environment.insert("KUBECONFIG", shell.directory.join("sandbox.kubeconfig").display().to_string());
    shell.run(pods);
    shell.run(&format!("kubectl {UNSCHEDULED}web"));
    let told = shell.run(&format!("kubectl {MESSAGE}web"));
    assert!(told.starts_with("0/3 nodes are available: 3 node(s) were in the zone west"), "{told}");
    shell.run(east);
    assert_eq!(node_of(&mut shell, "web"), "node-00001");

    shell.edit(source, "were in the zone", "lie in the zone");
    shell.run(swap);
    let second = shell.digest("build/AvoidZone.wasm");
    assert_ne!(first, second);
    until("swapped", || shell.entry()["digest"] == second.as_str()).await;
    let entry = shell.entry();
    assert_eq!((&entry["state"], &entry["previousDigest"]), (&"probation".into(), &first.as_str().into()), "{entry}");
    shell.run(late);
    shell.run(&format!("kubectl {UNSCHEDULED}late"));
    let told = shell.run(&format!("kubectl {MESSAGE}late"));
    assert!(told.contains("2 node(s) lie in the zone west"), "{told}");

    let dev = shell.start(dev);
    until("in place", || dev.text().contains("is in place")).await;
    shell.edit(source, "topology.kubernetes.io/zone", "example.com/rack");
    // `dev` may build twice if it notices the edit in two parts.
    until("in place again", || dev.text().matches("is in place").count() > 1).await;
    until("swapped again", || {
        let third = shell.digest("../plugins/AvoidZone.wasm");
        third != second && shell.entry()["digest"] == third.as_str()
    })
    .await;
    // No node has the new label, and one node is cordoned.
    shell.run("kubectl run last --image=example.com/web:1");
    assert!(["node-00000", "node-00002"].contains(&node_of(&mut shell, "last").as_str()));
    dev.kill();
    berth.kill();
}

/// Waits until the pod runs, and returns its node.
pub(crate) fn node_of(shell: &mut Shell, pod: &str) -> String {
    shell.run(&format!("kubectl wait --for=condition=Ready --timeout=240s pod/{pod}"));
    shell.run(&format!("kubectl get pod {pod} -o jsonpath={{.spec.nodeName}}"))
}

/// `None` if the tools of the language are missing. Otherwise, whether the language is required.
pub(crate) fn is_runnable(language: &str) -> Option<bool> {
    let named = env::var("BERTH_LANGUAGES").unwrap_or_default();
    let is_required = named.split(',').any(|name| name == "all" || name == language);
    let toolchain = LANGUAGES.iter().find(|known| known.folder == language);
    let has_tools = toolchain.is_none_or(|known| known.is_present().expect("the toolchain"));
    let has_kubectl = Command::new("kubectl").args(["version", "--client"]).output().is_ok();
    assert!(has_kubectl || !is_required, "there is no kubectl on the path");
    if !has_tools || !has_kubectl {
        eprintln!("not run: {language} needs its toolchain (cargo xtask languages) and kubectl");
        return None;
    }
    Some(is_required)
}

async fn run(language: &str, source: &str) {
    if let Some(is_required) = is_runnable(language) {
        journey(language, source, is_required).await;
    }
}

macro_rules! journeys {
    ($($language:ident $source:literal,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $language() {
            run(stringify!($language), $source).await;
        })*
    };
}

journeys! {
    rust "src/lib.rs",
    go "plugin.go",
    python "plugin.py",
    js "plugin.ts",
    c "plugin.c",
}
