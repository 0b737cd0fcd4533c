//! The page in a real Chromium (Debian's package `chromium`). A machine without it prints that these tests were not run.
//! The rules for accessibility are those of axe-core, from npm.
//!
//! With `BERTH_PICTURES=FOLDER` the views are written there as pictures, in both themes and in two widths.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    cluster::{Cluster, pod},
    explain::Bench,
    process::{DEADLINE, Process},
};

/// Widths and heights of a desk and of a phone.
const SIZES: [(u32, u32); 2] = [(1280, 900), (390, 800)];

/// A browser that is controlled over two pipes. Each message of its DevTools protocol ends with a zero byte.
struct Chromium {
    _process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    n_sent: u64,
    /// Messages that are not answers.
    events: Vec<Value>,
    session: Option<String>,
}

impl Chromium {
    /// Starts Chromium. Returns `None` if Chromium is not on the path.
    async fn start(profile: &Path) -> Option<Self> {
        let there = Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if there.is_err() {
            eprintln!("the page in a browser was NOT RUN: chromium is not on the PATH (Debian's package chromium)");
            return None;
        }
        // Chromium runs as root only without its sandbox. It reads and writes messages on file descriptors 3 and 4.
        let line = "exec chromium --headless --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir=\"$0\" \
                    about:blank 3<&0 4>&1 >/dev/null 2>/dev/null";
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(line).arg(profile).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("a shell");
        let (to, from) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        let from = BufReader::new(from);
        let mut chromium = Self { _process: process, to, from, n_sent: 0, events: Vec::new(), session: None };
        let target = chromium.send("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = chromium.send("Target.attachToTarget", attach).await;
        chromium.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            chromium.send(&format!("{domain}.enable"), json!({})).await;
        }
        Some(chromium)
    }

    /// Sends a command to Chromium and returns the result.
    async fn send(&mut self, method: &str, parameters: Value) -> Value {
        self.n_sent += 1;
        let mut message = json!({"id": self.n_sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).await.expect("it listens");
        loop {
            let message = self.next().await;
            if message["id"] == self.n_sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    async fn next(&mut self) -> Value {
        let mut message = Vec::new();
        timeout(DEADLINE, self.from.read_until(0, &mut message)).await.expect("an answer in time").expect("a pipe");
        message.pop();
        serde_json::from_slice(&message).expect("JSON")
    }

    async fn resize(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.send("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    async fn set_theme(&mut self, theme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.send("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    async fn open(&mut self, address: &str) {
        self.events.clear();
        self.send("Page.navigate", json!({"url": address})).await;
        self.until_loaded().await;
    }

    async fn until_loaded(&mut self) {
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next().await;
            self.events.push(event);
        }
    }

    /// Presses and releases a key that enters no text, or Enter.
    async fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.send("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Presses Tab until the focus is on an element with this text or label, then Enter. Waits for the next document.
    async fn go_to(&mut self, text: &str) {
        const STEPS: usize = 300;
        for _ in 0..STEPS {
            self.press("Tab", 9).await;
            let focused = self.evaluate("document.activeElement.textContent.trim()").await;
            if focused == text {
                self.events.clear();
                self.press("Enter", 13).await;
                return self.until_loaded().await;
            }
        }
        panic!("{STEPS} presses of Tab do not reach {text:?}");
    }

    /// The path of the document.
    async fn path(&mut self) -> String {
        self.evaluate("location.pathname + location.search").await.as_str().expect("text").to_owned()
    }

    /// The text of the document without its menu.
    async fn text(&mut self) -> String {
        self.evaluate("document.getElementById('content').innerText").await.as_str().expect("text").to_owned()
    }

    /// The violations of the rules for accessibility in the document.
    async fn violations(&mut self, axe: &str) -> Value {
        // The policy of the page allows no script of others. The browser's own tools are exempt.
        self.evaluate(axe).await;
        let run = "axe.run({resultTypes: ['violations']}).then(result => result.violations.map(violation => \
                   [violation.id, violation.nodes.map(node => node.html + ': ' + node.failureSummary)]))";
        self.evaluate(run).await
    }

    async fn picture(&mut self, file: &Path) {
        let shot = self.send("Page.captureScreenshot", json!({"format": "png"})).await;
        let bytes = STANDARD.decode(shot["data"].as_str().expect("text")).expect("base64");
        fs::write(file, bytes).expect("the folder exists");
    }

    /// The value of a JavaScript expression. A promise is awaited.
    async fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.send("Runtime.evaluate", parameters).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until the line about the connection begins with `part`.
    async fn until_link_says(&mut self, part: &str) {
        let expression = format!(
            "new Promise(resolve => {{ const look = () => document.getElementById('link').textContent.startsWith('{part}') \
             ? resolve(true) : setTimeout(look, 50); look(); }})"
        );
        assert_eq!(self.evaluate(&expression).await, true);
    }

    /// The messages of the console.
    fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"].contains(&method)
        };
        self.events.iter().filter(is_complaint).collect()
    }
}

/// A sandbox with its page: a pod with a node, and a pod without a node.
struct Site {
    cluster: Cluster,
    address: String,
}

impl Site {
    async fn start() -> Self {
        let mut cluster = Cluster::start(&["--nodes", "30", "--page", "127.0.0.1:0"]).await;
        let line = cluster.sandbox_says("to see its page").await;
        let address = line.strip_prefix("open ").and_then(|line| line.strip_suffix("/ to see its page"));
        let address = address.expect("an address").to_owned();
        cluster.create(&pod("web", "100m", "64Mi")).await;
        cluster.node_of("web").await;
        cluster.create(&pod("huge", "1000", "64Mi")).await;
        cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
        Self { cluster, address }
    }
}

/// Fetches axe-core from npm. Returns `None` without npm or a network.
fn axe() -> Option<String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let file = home.join("node_modules/axe-core/axe.min.js");
    let lock = include_str!("../browser/package-lock.json");
    let is_there = fs::read_to_string(home.join("package-lock.json")).is_ok_and(|there| there == lock);
    if !is_there || !file.exists() {
        fs::create_dir_all(&home).expect("a folder");
        fs::write(home.join("package.json"), include_str!("../browser/package.json")).expect("a file");
        fs::write(home.join("package-lock.json"), lock).expect("a file");
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&home).stdout(Stdio::null());
        if !npm.status().is_ok_and(|status| status.success()) {
            eprintln!("the rules for accessibility were NOT RUN: npm is missing, or axe-core cannot be had from it");
            return None;
        }
    }
    Some(fs::read_to_string(file).expect("npm stored it"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_keeps_the_rules_for_accessibility_in_both_themes() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let Some(axe) = axe() else { return };
    let pictures = std::env::var_os("BERTH_PICTURES").map(PathBuf::from);
    let site = Site::start().await;
    for (name, path) in [
        ("now", "/page"),
        ("pods", "/page/pods"),
        ("nodes", "/page/nodes"),
        ("feasibility", "/page/nodes?pod=default/huge"),
        ("decision", "/page/pod?pod=default/web"),
        ("pending", "/page/pod?pod=default/huge"),
        ("plugins", "/page/plugins"),
        ("plugin", "/page/plugins?name=NodeResourcesFit"),
        ("what-if", "/page/what-if"),
        ("refused", "/page/order?plugin=NodeName&order=disable"),
    ] {
        for theme in ["light", "dark"] {
            for (width, height) in SIZES {
                chromium.set_theme(theme).await;
                chromium.resize(width, height).await;
                chromium.open(&format!("{}{path}", site.address)).await;
                if let Some(folder) = &pictures {
                    chromium.picture(&folder.join(format!("{name}-{theme}-{width}.png"))).await;
                }
                assert_eq!(chromium.violations(&axe).await, json!([]), "{path}, {theme}, {width}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_reached_by_keyboard() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let site = Site::start().await;
    chromium.open(&format!("{}/page", site.address)).await;
    for (link, path) in [
        ("Pending pods", "/page/pods"),
        ("default/huge", "/page/pod?pod=default/huge"),
        ("Nodes", "/page/nodes"),
        ("Plugins", "/page/plugins"),
        ("NodeName", "/page/plugins?name=NodeName"),
        ("Disable", "/page/order?plugin=NodeName&order=disable"),
        ("What if", "/page/what-if"),
        ("Now", "/page"),
    ] {
        chromium.go_to(link).await;
        assert_eq!(chromium.path().await, path, "{link}");
    }
    // The form of the example, as the page shows it at first.
    chromium.go_to("What if").await;
    chromium.go_to("Ask").await;
    let text = chromium.text().await;
    assert!(text.contains("1 pods get a node, 0 stay pending"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_given_in_the_browser() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let bench = Bench::start().await;
    let mut command = Process::berth(["page", "--socket", &bench.socket()]);
    let address = command.line("http://").await;
    chromium.open(address.trim()).await;
    for link in ["Plugins", "NodeName", "Disable"] {
        chromium.go_to(link).await;
    }
    let text = chromium.text().await;
    assert!(text.contains("Pods are scheduled as if no profile named NodeName"), "{text}");
    chromium.go_to("Disable").await;
    assert_eq!(chromium.path().await, "/page/plugins?name=NodeName");
    let text = chromium.text().await;
    assert!(text.starts_with("Plugin NodeName") && text.contains("disabled"), "{text}");
    chromium.go_to("Enable").await;
    chromium.go_to("Enable").await;
    let text = chromium.text().await;
    assert!(text.contains("serving"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_scripts_do_not_run() {
    const EVIL: &str = "<script>window.evil=1</script><img src=x onerror=window.evil=1>";
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let site = Site::start().await;
    let mut named = pod("planted", "1000", "64Mi");
    named["metadata"]["annotations"] = json!({ "note": EVIL });
    named["spec"]["containers"][0]["image"] = json!(EVIL);
    site.cluster.create(&named).await;
    site.cluster.until("planted pending", |seen| seen.messages.contains_key("planted")).await;
    let evil: String = EVIL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for path in [
        "/page/pod?pod=default/planted".to_owned(),
        format!("/page/pod?pod={evil}"),
        format!("/page/pods?namespace={evil}&name={evil}&reason={evil}"),
        format!("/page/nodes?resource={evil}&label={evil}&name={evil}"),
        format!("/page/plugins?name={evil}"),
        format!("/page/order?plugin={evil}&order={evil}"),
    ] {
        chromium.open(&format!("{}{path}", site.address)).await;
        assert_eq!(chromium.evaluate("String(window.evil)").await, "undefined", "{path}");
        assert_eq!(chromium.evaluate("document.querySelectorAll('#content script, #content img').length").await, 0);
    }
    // A manifest is shown again in its field, and the page names the mistake in it.
    chromium.open(&format!("{}/page/what-if", site.address)).await;
    let manifest = json!({"apiVersion": "v1", "kind": EVIL, "metadata": {"name": EVIL}, "spec": 7}).to_string();
    chromium.events.clear();
    let fill = format!(
        "document.querySelector('textarea[name=pods]').value = {}; document.querySelector('form.asking').requestSubmit()",
        json!(manifest)
    );
    chromium.evaluate(&fill).await;
    chromium.until_loaded().await;
    assert_eq!(chromium.evaluate("String(window.evil)").await, "undefined");
    let text = chromium.text().await;
    assert!(text.contains("found neither a pod"), "{text}");
    let shown = chromium.evaluate("document.querySelector('textarea[name=pods]').value").await;
    assert_eq!(shown, manifest);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_keeps_itself_up_to_date_without_a_word_in_the_console() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let Site { cluster, address } = Site::start().await;
    for (path, part) in [
        ("/page", "Pods bound a second"),
        ("/page/pods", "default/huge"),
        ("/page/nodes", "node-00029"),
        ("/page/nodes?pod=default/huge", "refused by NodeResourcesFit"),
        ("/page/pod?pod=default/web", "The best nodes, as scored then"),
        ("/page/pod?pod=default/huge&node=node-00001", "It does not fit"),
        ("/page/plugins", "NodeResourcesFit"),
        ("/page/plugins?name=NodeResourcesFit", "Extension points"),
    ] {
        for (width, height) in SIZES {
            chromium.resize(width, height).await;
            chromium.open(&format!("{address}{path}")).await;
            chromium.until_link_says("up to date").await;
            assert_eq!(chromium.complaints(), [&json!(null); 0], "{path}");
            let text = chromium.evaluate("document.getElementById('view').textContent").await;
            assert!(text.as_str().is_some_and(|text| text.contains(part)), "{path}: {text}");
            // Wide tables scroll, and the page itself never scrolls sideways, even on a phone.
            let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth").await;
            assert!(overflow.as_i64().is_some_and(|overflow| overflow <= 0), "{path} at {width}: {overflow}");
        }
    }
    // Changes appear without a reload, and the page shows that it has lost the connection.
    chromium.open(&format!("{address}/page/pods")).await;
    chromium.until_link_says("up to date").await;
    cluster.create(&pod("late", "1000", "64Mi")).await;
    let comes = "new Promise(resolve => { const look = () => document.getElementById('view').textContent.includes('default/late') \
                 ? resolve(true) : setTimeout(look, 50); look(); })";
    assert_eq!(chromium.evaluate(comes).await, true);
    drop(cluster);
    timeout(DEADLINE, chromium.until_link_says("connection lost")).await.expect("it notices");
    assert_eq!(chromium.evaluate("document.body.classList.contains('lost')").await, true);
    let text = chromium.evaluate("document.getElementById('view').textContent").await;
    assert!(
        text.as_str().is_some_and(|text| text.contains("default/late")),
        "what was known still stands there: {text}"
    );
}
