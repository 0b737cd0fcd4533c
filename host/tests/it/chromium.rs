//! The page in a real Chromium (Debian's package `chromium`). A machine without it prints that this test was not run.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    cluster::{Cluster, pod},
    process::DEADLINE,
};

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
    /// Starts Chromium. Returns `None` if it is not on the path.
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

    /// Sends a command and returns the answer.
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

    async fn open(&mut self, address: &str) {
        self.events.clear();
        self.send("Page.navigate", json!({"url": address})).await;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next().await;
            self.events.push(event);
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn each_view_keeps_itself_up_to_date_without_a_word_in_the_console() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut chromium) = Chromium::start(dir.path()).await else { return };
    let mut cluster = Cluster::start(&["--nodes", "30", "--page", "127.0.0.1:0"]).await;
    let line = cluster.sandbox_says("to see its page").await;
    let address = line.strip_prefix("open ").and_then(|line| line.strip_suffix("/ to see its page"));
    let address = address.expect("an address").to_owned();
    cluster.create(&pod("web", "100m", "64Mi")).await;
    cluster.node_of("web").await;
    cluster.create(&pod("huge", "1000", "64Mi")).await;
    cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
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
        for (width, height) in [(1280, 900), (390, 800)] {
            chromium.resize(width, height).await;
            chromium.open(&format!("{address}{path}")).await;
            chromium.until_link_says("up to date").await;
            assert_eq!(chromium.complaints(), [&json!(null); 0], "{path}");
            let text = chromium.evaluate("document.getElementById('view').textContent").await;
            assert!(text.as_str().is_some_and(|text| text.contains(part)), "{path}: {text}");
            // Tables scroll on their own; the page as a whole does not scroll sideways, not even on a phone.
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
    timeout(Duration::from_secs(60), chromium.until_link_says("connection lost")).await.expect("it notices");
    assert_eq!(chromium.evaluate("document.body.classList.contains('lost')").await, true);
    let text = chromium.evaluate("document.getElementById('view').textContent").await;
    assert!(
        text.as_str().is_some_and(|text| text.contains("default/late")),
        "what was known still stands there: {text}"
    );
}
