//! Sends the requests of one recording in order.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use berth_sandbox::{Options, Sandbox};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::compare::differences;
use crate::http::{Answer, send};

/// The result of an exchange.
#[derive(Debug)]
pub(crate) enum Outcome {
    Equal,
    Different(Vec<String>),
    Skipped,
}

/// The time up to which events of a recorded watch belong to its initial state.
const INITIAL_MILLIS: u64 = 100;

/// Reads a recording.
pub(crate) fn exchanges(recording: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/{recording}.jsonl.gz"));
    let file = std::fs::File::open(path).expect("the recording is there");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("the recording is readable");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Replays a recording. Returns the name and the result of each exchange.
pub(crate) async fn replay(recording: &'static str) -> Vec<(String, Outcome)> {
    let day = Duration::from_secs(86_400);
    // The recorded server had no controllers: the recorder made their writes itself.
    let options = Options { pod_start_delay: day, pod_stop_delay: day, controllers: false, ..Options::default() };
    let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
    let mut replay = Replay {
        sandbox,
        others_act: recording == "1-scheduler-writes",
        uids: HashMap::new(),
        versions: HashMap::new(),
        tokens: HashMap::new(),
        seeded: HashSet::new(),
        objects: HashMap::new(),
    };
    for (name, value) in [("low", 10), ("mid", 500), ("high", 1000)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        replay.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
    let exchanges = exchanges(recording);
    replay.remember_objects(&exchanges);
    if recording == "4-list" {
        // Only this exchange shows the complete event that all lists of events contain.
        replay.prepare(&exchanges[80]["request"], &exchanges[80]["response"]).await;
    }
    let mut outcomes = Vec::new();
    for exchange in exchanges {
        let name = exchange["name"].as_str().unwrap_or_default().to_owned();
        let outcome = replay.exchange(&exchange).await;
        outcomes.push((name, outcome));
    }
    replay.sandbox.stop().await;
    outcomes
}

struct Replay {
    sandbox: Sandbox,
    /// Whether other actors may create and remove objects between the exchanges.
    others_act: bool,
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
    tokens: HashMap<String, String>,
    /// The names of objects that the recording itself didn't create.
    seeded: HashSet<String>,
    /// The first recorded state of each object, by uid.
    objects: HashMap<String, Value>,
}

impl Replay {
    fn remember_objects(&mut self, exchanges: &[Value]) {
        for exchange in exchanges {
            let body = &exchange["response"]["body"];
            if let Some(uid) = body["metadata"]["uid"].as_str().filter(|_| body["spec"].is_object()) {
                self.objects.entry(uid.to_owned()).or_insert_with(|| body.clone());
            }
        }
    }

    async fn exchange(&mut self, exchange: &Value) -> Outcome {
        let request = &exchange["request"];
        let response = &exchange["response"];
        if exchange["name"].as_str().is_some_and(|name| name.starts_with("pb-"))
            || request["body"].get("protobuf").is_some()
            || response["body"].get("protobuf").is_some()
        {
            return Outcome::Skipped;
        }
        if response["status"] == 401 || exchange["name"] == "body too large" {
            // The sandbox knows no users, and the large body was not recorded.
            return Outcome::Skipped;
        }
        if response["stream"].is_array() && self.starts_in_the_past(request) {
            return Outcome::Skipped;
        }
        self.prepare(request, response).await;
        let answer = self.send(request).await;
        let mut found = Vec::new();
        if u64::from(answer.status) != response["status"].as_u64().unwrap_or(0) {
            found.push(format!("status: recorded {} but got {}", response["status"], answer.status));
        }
        let (recorded, answered) = match response["stream"].as_array() {
            Some(stream) => (initial_events(stream), events(&answer)),
            None => (response["body"].clone(), answer.json()),
        };
        found.extend(differences(&self.expected(&recorded), &self.expected(&answered)));
        found.extend(warnings(&response["headers"]["warning"], &answer));
        self.learn(&recorded, &answered);
        if found.is_empty() { Outcome::Equal } else { Outcome::Different(found) }
    }

    /// Watches that continue from a version see changes by other actors. The story test replays these watches.
    fn starts_in_the_past(&self, request: &Value) -> bool {
        let query = request["query"].as_str().unwrap_or_default();
        let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        version.is_some_and(|version| version.parse::<u64>().is_ok_and(|version| version > 1 && version < 100_000))
    }

    async fn send(&self, request: &Value) -> Answer {
        let mut target = self.mapped(request["path"].as_str().unwrap_or_default());
        let query = request["query"].as_str().unwrap_or_default();
        if !query.is_empty() {
            let parts: Vec<String> = query.split('&').map(|part| self.mapped_parameter(part)).collect();
            target = format!("{target}?{}", parts.join("&"));
        }
        let is_watch = query.contains("watch=true")
            || target.contains("/watch/")
            || query.contains("watch=&")
            || query.contains("watch=maybe");
        if is_watch && !query.contains("timeoutSeconds=1&") {
            target = target.split('&').filter(|part| !part.starts_with("timeoutSeconds")).collect::<Vec<_>>().join("&");
            target = target.replace("?timeoutSeconds=2", "");
            target.push_str(if target.contains('?') { "&timeoutSeconds=1" } else { "?timeoutSeconds=1" });
        }
        let body = match &request["body"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            body => self.mapped(&self.with_versions(request, body).await.to_string()),
        };
        let headers: Vec<(&str, &str)> = request["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect();
        send(self.sandbox.address(), request["method"].as_str().unwrap_or_default(), &target, &headers, &body).await
    }

    fn mapped(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, ours) in &self.uids {
            text = text.replace(recorded, ours);
        }
        text
    }

    fn mapped_parameter(&self, part: &str) -> String {
        match part.split_once('=') {
            Some(("resourceVersion", version)) => {
                format!("resourceVersion={}", self.versions.get(version).map_or(version, String::as_str))
            }
            Some(("continue", token)) => format!("continue={}", self.tokens.get(token).map_or(token, String::as_str)),
            _ => part.to_owned(),
        }
    }

    /// The body, with the versions in its metadata and preconditions replaced.
    async fn with_versions(&self, request: &Value, body: &Value) -> Value {
        let mut body = body.clone();
        let version = body["metadata"]["resourceVersion"].as_str();
        if self.others_act
            && request["method"] == "PUT"
            && version.is_some_and(|version| !self.versions.contains_key(version))
        {
            // Another client wrote the object before this request, and the recorded client saw the new version.
            let path = request["path"].as_str().unwrap_or_default();
            let current = send(self.sandbox.address(), "GET", path, &[], "").await.json();
            body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
            return body;
        }
        for pointer in ["/metadata/resourceVersion", "/preconditions/resourceVersion"] {
            if let Some(version) = body.pointer_mut(pointer)
                && let Some(ours) = version.as_str().and_then(|version| self.versions.get(version))
            {
                *version = ours.as_str().into();
            }
        }
        body
    }

    /// Leaves out the generations of objects that the test created.
    fn expected(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.drop_generations(&mut value);
        value
    }

    fn drop_generations(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
                if members.contains_key("generation") && self.seeded.contains(name) {
                    members.remove("generation");
                }
                members.values_mut().for_each(|member| self.drop_generations(member));
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.drop_generations(element)),
            _ => {}
        }
    }

    /// Pairs the uids, versions and tokens of both answers.
    fn learn(&mut self, recorded: &Value, answered: &Value) {
        match (recorded, answered) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, a) in a {
                    let Some(b) = b.get(key) else { continue };
                    match (key.as_str(), a.as_str(), b.as_str()) {
                        ("uid", Some(a), Some(b)) if a != b => drop(self.uids.insert(a.to_owned(), b.to_owned())),
                        ("resourceVersion", Some(a), Some(b)) => drop(self.versions.insert(a.to_owned(), b.to_owned())),
                        ("continue", Some(a), Some(b)) => drop(self.tokens.insert(a.to_owned(), b.to_owned())),
                        _ => self.learn(a, b),
                    }
                }
            }
            (Value::Array(a), Value::Array(b)) => a.iter().zip(b).for_each(|(a, b)| self.learn(a, b)),
            _ => {}
        }
    }

    /// Creates the objects that other actors had created before this exchange.
    async fn prepare(&mut self, request: &Value, response: &Value) {
        let path = request["path"].as_str().unwrap_or_default().to_owned();
        let method = request["method"].as_str().unwrap_or_default();
        let body = &response["body"];
        let succeeded = response["status"].as_u64().is_some_and(|status| status < 300);
        if let Some(stream) = response["stream"].as_array() {
            for event in
                initial_events(stream).as_array().into_iter().flatten().filter(|event| event["type"] == "ADDED")
            {
                self.seed(&path, &event["object"], true).await;
            }
        } else if let Some(items) =
            body["items"].as_array().filter(|_| method == "GET" && body["kind"] != "PartialObjectMetadataList")
        {
            for item in items {
                self.seed(&path, item, true).await;
            }
        } else if succeeded && response["status"] != 201 && body["metadata"]["uid"].is_string() && method != "POST" {
            self.seed(&path, body, !path.ends_with("/status")).await;
        } else if succeeded && path.ends_with("/binding") {
            let uid = request["body"]["metadata"]["uid"].as_str().unwrap_or("none").to_owned();
            let name = request["body"]["metadata"]["name"].clone();
            let container = json!({"name": "c", "image": "registry.example/app:1"});
            let unknown = json!({"metadata": {"name": name, "uid": uid}, "spec": {"containers": [container]}});
            let mut pod = self.objects.get(&uid).cloned().unwrap_or(unknown);
            if let Some(spec) = pod["spec"].as_object_mut() {
                spec.remove("nodeName");
            }
            if self.others_act {
                self.seed(&path, &pod, false).await;
            }
        }
        if self.others_act {
            self.remove_what_others_removed(&path, method, request, response).await;
        }
    }

    async fn remove_what_others_removed(&mut self, path: &str, method: &str, request: &Value, response: &Value) {
        let object = match (method, response["status"].as_u64()) {
            ("GET", Some(404)) => path.to_owned(),
            ("POST", Some(201)) if !path.ends_with("/binding") => {
                format!("{path}/{}", request["body"]["metadata"]["name"].as_str().unwrap_or_default())
            }
            _ => return,
        };
        send(self.sandbox.address(), "DELETE", &format!("{object}?gracePeriodSeconds=0"), &[], "").await;
    }

    /// Creates an object from the recording, unless its uid is known.
    async fn seed(&mut self, path: &str, object: &Value, with_status: bool) {
        let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !self.uids.contains_key(*uid)) else { return };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_namespaced = path.contains("/namespaces/") && !path.ends_with(&format!("/namespaces/{name}"));
        let in_path = path.split_once("/namespaces/").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        let namespace =
            object["metadata"]["namespace"].as_str().or(in_path.filter(|_| is_namespaced)).unwrap_or_default();
        let collection = collection(path, namespace);
        let exists = send(self.sandbox.address(), "GET", &format!("{collection}/{name}"), &[], "").await;
        let mut created = exists;
        if created.status == 200 && self.others_act && uid != "none" {
            let target = format!("{collection}/{name}?gracePeriodSeconds=0");
            send(self.sandbox.address(), "DELETE", &target, &[], "").await;
            created.status = 404;
        }
        if created.status != 200 {
            let mut body = object.clone();
            let metadata = body["metadata"].as_object_mut().expect("metadata");
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "managedFields",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ] {
                metadata.remove(field);
            }
            self.create(&collection, body.clone()).await;
            if with_status && body["status"].is_object() {
                let target = format!("{collection}/{name}/status");
                let json = [("content-type", "application/json")];
                send(self.sandbox.address(), "PUT", &target, &json, &body.to_string()).await;
            }
            created = send(self.sandbox.address(), "GET", &format!("{collection}/{name}"), &[], "").await;
            self.seeded.insert(name);
        }
        let created = created.json();
        if let Some(ours) = created["metadata"]["uid"].as_str() {
            self.uids.insert(uid.to_owned(), ours.to_owned());
        }
        if let (Some(recorded), Some(ours)) =
            (object["metadata"]["resourceVersion"].as_str(), created["metadata"]["resourceVersion"].as_str())
        {
            self.versions.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
        }
    }

    async fn create(&self, collection: &str, mut body: Value) {
        if let Some((_, rest)) = collection.split_once("/namespaces/") {
            let namespace = rest.split('/').next().unwrap_or_default();
            let object = json!({"metadata": {"name": namespace}}).to_string();
            send(self.sandbox.address(), "POST", "/api/v1/namespaces", &[], &object).await;
        }
        if let Some(members) = body.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
        let answer = send(self.sandbox.address(), "POST", collection, &[], &body.to_string()).await;
        assert!(answer.status == 201 || answer.status == 409, "seeding {collection}: {}", answer.body);
    }
}

/// The collection of a path, with the namespace filled in.
fn collection(path: &str, namespace: &str) -> String {
    let path = path.replacen("/watch/", "/", 1);
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let root = if segments.first() == Some(&"api") { 2 } else { 3 };
    let (prefix, rest) = segments.split_at(root.min(segments.len()));
    let resource = match rest {
        ["namespaces", _, resource, ..] => resource,
        [resource, ..] => resource,
        [] => "",
    };
    let prefix = prefix.join("/");
    if namespace.is_empty() {
        format!("/{prefix}/{resource}")
    } else {
        format!("/{prefix}/namespaces/{namespace}/{resource}")
    }
}

/// The events with the initial state of a recorded watch.
fn initial_events(stream: &[Value]) -> Value {
    let early = stream
        .iter()
        .filter(|event| event["t_ms"].as_u64().unwrap_or(0) <= INITIAL_MILLIS || event["line"]["type"] == "ERROR");
    early.map(|event| event["line"].clone()).collect()
}

fn events(answer: &Answer) -> Value {
    answer.body.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line))).collect()
}

fn warnings(recorded: &Value, answer: &Answer) -> Vec<String> {
    let recorded: Vec<&str> = match recorded {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let answered = answer.all("warning");
    if recorded == answered {
        Vec::new()
    } else {
        vec![format!("warnings: recorded {recorded:?} but got {answered:?}")]
    }
}
