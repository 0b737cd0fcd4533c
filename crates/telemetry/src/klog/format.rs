//! The format of a line (`k8s.io/klog/v2`'s text, `k8s.io/component-base/logs/json`).

use std::{
    fmt::{self, Write as _},
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::levels::verbosity_of;

/// The key of the plugins that rejected a pod. A field of a line cannot have this name.
const REJECTORS: &str = "unschedulable plugins";

/// `I1122 08:20:27.123456       1 executor.rs:12] "msg" key="value"`, in UTC.
#[derive(Clone, Copy, Debug)]
pub(super) struct KlogText;

/// `{"ts":1795338060718.7961,"caller":"src/executor.rs:12","msg":"…","v":2,…}`.
#[derive(Clone, Copy, Debug)]
pub(super) struct KlogJson;

/// The message and the fields of an event.
#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    fn of(event: &Event<'_>) -> Self {
        let mut line = Self::default();
        event.record(&mut line);
        line.name_pod();
        line.name_objects();
        line
    }

    /// Combines a pod and its namespace into one value.
    fn name_pod(&mut self) {
        let find = |name: &str| self.fields.iter().position(|(field, _)| *field == name);
        let (Some(pod), Some(namespace)) = (find("pod"), find("namespace")) else { return };
        let namespace = self.fields.get_mut(namespace).map(|(_, value)| value.take());
        if let Some((_, value)) = self.fields.get_mut(pod) {
            *value = json!({ "name": value.take(), "namespace": namespace });
        }
        self.fields.retain(|(field, _)| *field != "namespace");
    }

    /// Shows the objects and the sets that other fields name as klog shows them.
    fn name_objects(&mut self) {
        for (name, value) in &mut self.fields {
            let shown = match (*name, value.as_str()) {
                ("entity" | "preemptor" | "victim", Some(text)) => {
                    text.split_once('/').map(|(namespace, name)| json!({ "name": name, "namespace": namespace }))
                }
                (REJECTORS, Some(text)) => {
                    let names = text.split(',').filter(|name| !name.is_empty());
                    Some(Value::Object(names.map(|name| (name.to_owned(), json!({}))).collect()))
                }
                _ => None,
            };
            if let Some(shown) = shown {
                *value = shown;
            }
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "error" => self.fields.push(("err", value)),
            "entityType" => self.fields.push(("type", value)),
            // kube-scheduler gives some lines a node's name, and others the node itself.
            "nodeObject" => self.fields.push(("node", json!({ "name": value }))),
            "rejectedBy" => self.fields.push((REJECTORS, value)),
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }
}

impl<S, N> FormatEvent<S, N> for KlogText
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let text = text(event.metadata(), &Line::of(event), SystemTime::now(), process::id());
        writer.write_str(&text)
    }
}

impl<S, N> FormatEvent<S, N> for KlogJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writer.write_str(&json_line(event.metadata(), &Line::of(event), SystemTime::now()))
    }
}

fn text(metadata: &Metadata<'_>, line: &Line, now: SystemTime, pid: u32) -> String {
    let severity = match *metadata.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        Level::INFO | Level::DEBUG | Level::TRACE => 'I',
    };
    let nanos = i128::try_from(since_1970(now).as_nanos()).unwrap_or_default();
    let time = Timestamp::from_nanosecond(nanos).unwrap_or_default().strftime("%m%d %H:%M:%S%.6f").to_string();
    let file = last_parts(metadata.file().unwrap_or("???"), 1);
    let mut text = format!("{severity}{time} {pid:>7} {file}:{}] ", metadata.line().unwrap_or(0));
    // Writing to a string cannot fail.
    if line.message.contains('\n') {
        // This is a trace.
        let _ = write!(text, "{}", line.message);
    } else {
        let _ = write!(text, "{:?}", line.message);
    }
    for (name, value) in &line.fields {
        let _ = match value {
            Value::String(value) => write!(text, " {name}={value:?}"),
            Value::Object(object) => {
                let part = |part: &str| object.get(part).and_then(Value::as_str);
                match (part("namespace"), part("name")) {
                    (Some(namespace), Some(object)) => write!(text, " {name}={:?}", format!("{namespace}/{object}")),
                    (None, Some(object)) => write!(text, " {name}={object:?}"),
                    // This is a set.
                    (_, None) => write!(text, " {name}={value}"),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => write!(text, " {name}={value}"),
        };
    }
    text.push('\n');
    text
}

fn json_line(metadata: &Metadata<'_>, line: &Line, now: SystemTime) -> String {
    let nanos = since_1970(now).as_nanos();
    let (milliseconds, rest) = (nanos / 1_000_000, nanos % 1_000_000 / 100);
    let file = last_parts(metadata.file().unwrap_or("???"), 2);
    let caller = format!("{file}:{}", metadata.line().unwrap_or(0));
    // The fields are in component-base's order, which a map would not preserve.
    let mut text =
        format!("{{\"ts\":{milliseconds}.{rest:04},\"caller\":{},\"msg\":{}", json!(caller), json!(line.message));
    if *metadata.level() != Level::ERROR {
        let _ = write!(text, ",\"v\":{}", verbosity_of(metadata));
    }
    for (name, value) in &line.fields {
        let _ = write!(text, ",{}:{value}", json!(name));
    }
    text.push_str("}\n");
    text
}

fn since_1970(now: SystemTime) -> Duration {
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The last `n` parts of the file's path.
fn last_parts(file: &str, n: usize) -> &str {
    file.rmatch_indices('/').nth(n - 1).and_then(|(at, _)| file.get(at + 1..)).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{debug, error, subscriber};
    use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _, registry};

    use super::*;
    use crate::klog::{V2, V3, V5};

    /// Formats the lines that it receives, at a fixed time.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Heard {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let now = UNIX_EPOCH + Duration::new(1_795_338_060, 718_796_100);
            let mut lines = self.0.lock().expect("one thread");
            lines.push(text(event.metadata(), &Line::of(event), now, 1));
            lines.push(json_line(event.metadata(), &Line::of(event), now));
        }
    }

    /// A line as text and as JSON, without the number of its source line.
    fn lines(log: impl FnOnce()) -> Vec<String> {
        let heard = Heard::default();
        subscriber::with_default(registry().with(heard.clone()), log);
        let lines = heard.0.lock().expect("one thread").clone();
        let without_number = |line: &String| {
            let (before, after) = line.split_once("format.rs:").expect("the file");
            format!("{before}format.rs:N{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        };
        lines.iter().map(without_number).collect()
    }

    #[test]
    fn a_bound_pod_is_told_as_kube_scheduler_tells_it() {
        let lines = lines(|| {
            debug!(target: V2, pod = "ok", namespace = "default", node = "n1", evaluatedNodes = 1, feasibleNodes = 1, "Successfully bound pod to node");
        });
        let expected = [
            "I1122 09:01:00.718796       1 format.rs:N] \"Successfully bound pod to node\" pod=\"default/ok\" node=\"n1\" evaluatedNodes=1 feasibleNodes=1\n",
            "{\"ts\":1795338060718.7961,\"caller\":\"klog/format.rs:N\",\"msg\":\"Successfully bound pod to node\",\"v\":2,\"pod\":{\"name\":\"ok\",\"namespace\":\"default\"},\"node\":\"n1\",\"evaluatedNodes\":1,\"feasibleNodes\":1}\n",
        ];
        let fields = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        assert_eq!(lines[0], expected[0]);
        assert_eq!(fields(&lines[1]), fields(expected[1]));
        assert!(
            lines[1].starts_with("{\"ts\":1795338060718.7961,\"caller\":\"klog/format.rs:N\",\"msg\":"),
            "{}",
            lines[1]
        );
    }

    #[test]
    fn errors_have_no_verbosity_and_their_reason_is_err() {
        let lines = lines(
            || error!(namespace = "default", pod = %"a\"b", error = "no \"room\"", "Error scheduling pod; retrying"),
        );
        assert_eq!(
            lines[0],
            "E1122 09:01:00.718796       1 format.rs:N] \"Error scheduling pod; retrying\" pod=\"default/a\\\"b\" err=\"no \\\"room\\\"\"\n"
        );
        let json: Value = serde_json::from_str(&lines[1]).expect("JSON");
        assert_eq!((&json["v"], &json["err"]), (&Value::Null, &json!("no \"room\"")));
        assert_eq!(json["pod"], json!({"name": "a\"b", "namespace": "default"}));
    }

    #[test]
    fn objects_and_sets_are_shown_as_klog_shows_them() {
        let lines = lines(|| {
            debug!(target: V3, pod = "a", namespace = "x", hint = 0, rejectedBy = "A,B", "Pod moved");
            debug!(target: V5, entityType = "pod", entity = %"x/a", event = "NodeAdd", "Entity moved");
            debug!(target: V3, nodeObject = "n1", "Add event for node");
        });
        let text = |line: &String| line.split_once("] ").map(|(_, text)| text.trim_end().to_owned());
        let json = |line: &String| serde_json::from_str::<Value>(line).expect("JSON");
        assert_eq!(
            lines.iter().filter_map(text).collect::<Vec<_>>(),
            [
                r#""Pod moved" pod="x/a" hint=0 unschedulable plugins={"A":{},"B":{}}"#,
                r#""Entity moved" type="pod" entity="x/a" event="NodeAdd""#,
                r#""Add event for node" node="n1""#,
            ]
        );
        assert_eq!(json(&lines[1])["unschedulable plugins"], json!({"A": {}, "B": {}}));
        assert_eq!(json(&lines[3])["entity"], json!({"name": "a", "namespace": "x"}));
        assert_eq!((&json(&lines[3])["type"], &json(&lines[3])["v"]), (&json!("pod"), &json!(5)));
        assert_eq!(json(&lines[5])["node"], json!({"name": "n1"}));
    }

    #[test]
    fn callers_have_the_last_parts_of_their_path() {
        let file = "crates/runtime/src/executor/effects.rs";
        assert_eq!([last_parts(file, 1), last_parts(file, 2)], ["effects.rs", "executor/effects.rs"]);
        assert_eq!(last_parts("main.rs", 2), "main.rs");
    }
}
