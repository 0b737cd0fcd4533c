//! Requests to extenders and their answers, in the format of `k8s.io/kube-scheduler/extender/v1`.
//!
//! The Go types have no JSON tags. Names of fields begin with a capital letter. Go reads field names in any case.

use std::{borrow::Cow, collections::BTreeMap};

use berth_framework::{ExtenderError, ExtenderVerdict, ExtenderVictims, Preemption};
use berth_model::{ClusterTable, Pod};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

/// The body of filter and prioritize, with complete nodes or with names only.
pub(super) fn arguments(pod: &[u8], nodes: Result<&[&[u8]], &[&str]>) -> Result<Vec<u8>, ExtenderError> {
    let (nodes, names) = match nodes {
        Ok(objects) => {
            let items = objects.iter().map(|object| typed(object)).collect::<Result<Vec<_>, _>>()?;
            (Some(NodeList { metadata: Empty {}, items }), None)
        }
        Err(names) => (None, Some(names)),
    };
    to_body(&Arguments { pod: typed(pod)?, nodes, node_names: names })
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Arguments<'a> {
    pod: TypedObject<'a>,
    nodes: Option<NodeList<'a>>,
    node_names: Option<&'a [&'a str]>,
}

#[derive(Serialize)]
struct NodeList<'a> {
    metadata: Empty,
    items: Vec<TypedObject<'a>>,
}

#[derive(Serialize)]
struct Empty {}

/// The fields of an object, as Go's typed clients hold them. These clients know the type of the object, and drop
/// `managedFields`.
type TypedObject<'a> = BTreeMap<String, Cow<'a, RawValue>>;

fn typed(json: &[u8]) -> Result<TypedObject<'_>, ExtenderError> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(json).map_err(ExtenderError::new)?;
    let mut fields: TypedObject<'_> = fields.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect();
    fields.remove("kind");
    fields.remove("apiVersion");
    if let Some(metadata) = fields.get_mut("metadata") {
        let mut known: BTreeMap<String, &RawValue> =
            serde_json::from_str(metadata.get()).map_err(ExtenderError::new)?;
        if known.remove("managedFields").is_some() {
            *metadata = Cow::Owned(to_raw_value(&known).map_err(ExtenderError::new)?);
        }
    }
    Ok(fields)
}

fn to_body(body: &impl Serialize) -> Result<Vec<u8>, ExtenderError> {
    serde_json::to_vec(body).map_err(ExtenderError::new)
}

/// The body of preempt, with complete victims or with their uids only.
pub(super) fn preemption(
    pod: &[u8],
    table: &ClusterTable,
    preemptions: &[Preemption],
    is_node_cache_capable: bool,
) -> Result<Vec<u8>, ExtenderError> {
    let mut arguments = PreemptionArguments {
        pod: typed(pod)?,
        node_name_to_victims: (!is_node_cache_capable).then(BTreeMap::new),
        node_name_to_meta_victims: is_node_cache_capable.then(BTreeMap::new),
    };
    for Preemption { node, victims, n_violations } in preemptions {
        let name = table.symbols.text(table.name(*node));
        let victims = || victims.iter().filter_map(|idx| table.pods().get(*idx).map(|(pod, _)| &**pod));
        if let Some(by_node) = &mut arguments.node_name_to_meta_victims {
            let pods = victims().map(|pod| MetaPod { uid: &pod.uid }).collect();
            by_node.insert(name, Victims { pods, n_violations: *n_violations });
        }
        if let Some(by_node) = &mut arguments.node_name_to_victims {
            let pods = victims().map(|pod| whole_pod(table, pod, name)).collect::<Result<_, _>>()?;
            by_node.insert(name, Victims { pods, n_violations: *n_violations });
        }
    }
    to_body(&arguments)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PreemptionArguments<'a> {
    pod: TypedObject<'a>,
    node_name_to_victims: Option<BTreeMap<&'a str, Victims<TypedObject<'a>>>>,
    node_name_to_meta_victims: Option<BTreeMap<&'a str, Victims<MetaPod<'a>>>>,
}

#[derive(Serialize)]
struct Victims<P> {
    #[serde(rename = "Pods")]
    pods: Vec<P>,
    #[serde(rename = "NumPDBViolations")]
    n_violations: i64,
}

#[derive(Serialize)]
struct MetaPod<'a> {
    #[serde(rename = "UID")]
    uid: &'a str,
}

fn whole_pod<'a>(table: &'a ClusterTable, pod: &Pod, node: &str) -> Result<TypedObject<'a>, ExtenderError> {
    let namespace = table.symbols.text(pod.namespace);
    // Pods arrive over two watches. If the pod is not in both yet, the next attempt finds it.
    let json = table.objects().get("v1", "Pod", namespace, &pod.name);
    let unlisted = || ExtenderError::new(format!("pod \"{namespace}/{}\" is not listed yet", pod.name));
    on_node(json.ok_or_else(unlisted)?, node)
}

/// A pod with this node in its spec, even if the API server does not have the node yet. kube-scheduler sets the field
/// when it assumes the pod.
fn on_node<'a>(pod: &'a [u8], node: &str) -> Result<TypedObject<'a>, ExtenderError> {
    let mut fields = typed(pod)?;
    if let Some(spec) = fields.get_mut("spec") {
        let mut known: BTreeMap<String, Cow<'_, RawValue>> =
            serde_json::from_str(spec.get()).map_err(ExtenderError::new)?;
        known.insert("nodeName".into(), Cow::Owned(to_raw_value(node).map_err(ExtenderError::new)?));
        *spec = Cow::Owned(to_raw_value(&known).map_err(ExtenderError::new)?);
    }
    Ok(fields)
}

/// The body of bind.
pub(super) fn binding(namespace: &str, name: &str, uid: &str, node: &str) -> Vec<u8> {
    json!({ "PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node }).to_string().into_bytes()
}

/// The result of filter for the nodes `sent`.
pub(super) fn filter_result(
    answer: &[u8],
    url: &str,
    is_node_cache_capable: bool,
    sent: &[&str],
) -> Result<ExtenderVerdict, ExtenderError> {
    let answer: Value = read(answer)?;
    check_error(&answer)?;
    let mut verdict = ExtenderVerdict {
        failed: reasons(&answer, "FailedNodes")?,
        unresolvable: reasons(&answer, "FailedAndUnresolvableNodes")?,
        ..ExtenderVerdict::default()
    };
    if is_node_cache_capable && let Some(names) = list(&answer, "NodeNames")? {
        for name in names {
            let name = name.as_str().ok_or_else(|| unreadable("NodeNames", "a list of strings"))?;
            if !sent.contains(&name) {
                let text = format!("claims a filtered node {name:?} which is not found in the input node list");
                return Err(ExtenderError::new(format!("extender {url:?} {text}")));
            }
            verdict.passed.push(name.to_owned());
        }
    } else if let Some(nodes) = field(&answer, "Nodes") {
        for node in list(nodes, "items")?.into_iter().flatten() {
            let name = node.pointer("/metadata/name").and_then(Value::as_str);
            verdict.passed.push(name.ok_or_else(|| unreadable("Nodes", "a list of nodes with names"))?.to_owned());
        }
    }
    Ok(verdict)
}

/// The victims that the extender agrees to, by node. The extender's answer contains uids even if the request contained
/// complete pods.
pub(super) fn preemption_result(answer: &[u8]) -> Result<Vec<ExtenderVictims>, ExtenderError> {
    let answer: Value = read(answer)?;
    if !answer.is_object() && !answer.is_null() {
        return Err(ExtenderError::new("the extender's answer is not a JSON object"));
    }
    const FIELD: &str = "NodeNameToMetaVictims";
    let Some(by_node) = field(&answer, FIELD) else { return Ok(Vec::new()) };
    let wrong = || unreadable(FIELD, "an object of victims with uids");
    let mut agreed = Vec::new();
    for (node, victims) in by_node.as_object().ok_or_else(wrong)? {
        let n_violations = field(victims, "NumPDBViolations").map_or(Some(0), Value::as_i64).ok_or_else(wrong)?;
        let pods = list(victims, "Pods")?.into_iter().flatten();
        let uid = |pod: &Value| field(pod, "UID").map_or(Some(""), Value::as_str).map(str::to_owned).ok_or_else(wrong);
        let uids = pods.map(uid).collect::<Result<_, _>>()?;
        agreed.push(ExtenderVictims { node: node.clone(), uids, n_violations });
    }
    Ok(agreed)
}

/// The names of nodes and their scores.
pub(super) fn host_priorities(answer: &[u8]) -> Result<Vec<(String, i64)>, ExtenderError> {
    let answer: Option<Vec<Value>> = read(answer)?;
    let priority = |entry: &Value| {
        let host = field(entry, "Host").map_or(Some(""), Value::as_str);
        let score = field(entry, "Score").map_or(Some(0), Value::as_i64);
        let (Some(host), Some(score)) = (host, score) else {
            return Err(unreadable("HostPriorityList", "a list of hosts with integer scores"));
        };
        Ok((host.to_owned(), score))
    };
    answer.iter().flatten().map(priority).collect()
}

/// Checks that the extender has bound the pod.
pub(super) fn binding_result(answer: &[u8]) -> Result<(), ExtenderError> {
    check_error(&read(answer)?)
}

/// The answer as JSON. If the answer is empty, the error text is Go's.
fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, ExtenderError> {
    serde_json::from_slice(answer).map_err(|error| match answer.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => ExtenderError::new("EOF"),
        Some(first) if !b"{[\"-0123456789tfn".contains(first) => {
            let first = char::from(*first);
            ExtenderError::new(format!("invalid character {first:?} looking for beginning of value"))
        }
        Some(_) if error.is_eof() => ExtenderError::new("unexpected EOF"),
        Some(_) => ExtenderError::new(error),
    })
}

fn check_error(answer: &Value) -> Result<(), ExtenderError> {
    if !answer.is_object() && !answer.is_null() {
        return Err(ExtenderError::new("the extender's answer is not a JSON object"));
    }
    match field(answer, "Error") {
        None => Ok(()),
        Some(Value::String(error)) if error.is_empty() => Ok(()),
        Some(Value::String(error)) => Err(ExtenderError::new(error)),
        Some(_) => Err(unreadable("Error", "a string")),
    }
}

/// The field of this name, in upper or lower case. A field that is `null` counts as absent.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut fields = object.as_object()?.iter();
    fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).filter(|value| !value.is_null())
}

fn list<'a>(object: &'a Value, name: &str) -> Result<Option<&'a Vec<Value>>, ExtenderError> {
    field(object, name).map(|value| value.as_array().ok_or_else(|| unreadable(name, "a list"))).transpose()
}

/// The reasons by node.
fn reasons(answer: &Value, name: &str) -> Result<Vec<(String, String)>, ExtenderError> {
    let Some(value) = field(answer, name) else { return Ok(Vec::new()) };
    let entries = value.as_object().ok_or_else(|| unreadable(name, "an object"))?;
    let reason = |(node, reason): (&String, &Value)| {
        let reason = reason.as_str().ok_or_else(|| unreadable(name, "an object of strings"))?;
        Ok((node.clone(), reason.to_owned()))
    };
    entries.iter().map(reason).collect()
}

fn unreadable(name: &str, expected: &str) -> ExtenderError {
    ExtenderError::new(format!("{name} in the extender's answer is not {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://extender";

    fn filtered(answer: &str, is_node_cache_capable: bool) -> Result<ExtenderVerdict, ExtenderError> {
        filter_result(answer.as_bytes(), URL, is_node_cache_capable, &["a", "b"])
    }

    #[test]
    fn arguments_hold_whole_nodes_or_names() {
        let parsed = |body: Result<Vec<u8>, _>| serde_json::from_slice::<Value>(&body.expect("a body")).expect("JSON");
        let pod = br#"{"kind": "Pod", "metadata": {"name": "p", "managedFields": []}, "spec": {"a": 1}}"#;
        let names = parsed(arguments(pod, Err(&["a", "b\""])));
        let typed = json!({"metadata": {"name": "p"}, "spec": {"a": 1}});
        assert_eq!(names, json!({"Pod": typed, "Nodes": null, "NodeNames": ["a", "b\""]}));
        let whole = parsed(arguments(b"{}", Ok(&[b"{\"n\":1}", b"{\"n\":2}"])));
        let items = json!([{"n": 1}, {"n": 2}]);
        assert_eq!(whole, json!({"Pod": {}, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null}));
    }

    #[test]
    fn victim_is_on_its_node_before_the_api_server_says_so() {
        let spec = |pod: &str| {
            let fields = on_node(pod.as_bytes(), "n1").expect("fields");
            serde_json::from_str::<Value>(fields["spec"].get()).expect("JSON")
        };
        assert_eq!(spec(r#"{"spec": {"priority": 3}}"#), json!({"priority": 3, "nodeName": "n1"}));
        assert_eq!(spec(r#"{"spec": {"nodeName": "n1"}}"#), json!({"nodeName": "n1"}));
    }

    #[test]
    fn filter_answers_are_read_as_go_reads_them() {
        let passed = |answer, capable| filtered(answer, capable).expect("a verdict").passed;
        let both = r#"{"nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": ["b"], "Error": ""}"#;
        assert_eq!(passed(both, true), ["b".to_owned()]);
        assert_eq!(passed(both, false), ["a".to_owned()]);
        assert_eq!(passed(r#"{"NodeNames": ["a"]}"#, false), [""; 0], "names of an extender that was sent nodes");
        assert_eq!(passed("{}", true), [""; 0]);
        let failed = filtered(r#"{"failedNodes": {"a": "no"}, "failedAndUnresolvableNodes": {"b": "never"}}"#, true);
        let failed = failed.expect("a verdict");
        assert_eq!(failed.failed, [("a".to_owned(), "no".to_owned())]);
        assert_eq!(failed.unresolvable, [("b".to_owned(), "never".to_owned())]);
    }

    #[test]
    fn unusable_answers_are_errors() {
        let error = |answer| filtered(answer, true).expect_err("an error").to_string();
        assert_eq!(error(r#"{"Error": "I am tired", "NodeNames": ["a"]}"#), "I am tired");
        let unknown =
            r#"extender "http://extender" claims a filtered node "c" which is not found in the input node list"#;
        assert_eq!(error(r#"{"NodeNames": ["c"]}"#), unknown);
        assert_eq!(error("garbage"), "invalid character 'g' looking for beginning of value");
        assert_eq!((error(" "), error("{")), ("EOF".to_owned(), "unexpected EOF".to_owned()));
        for garbage in ["[]", "3", r#"{"NodeNames": 3}"#, r#"{"FailedNodes": []}"#, r#"{"Error": {}}"#] {
            assert!(!error(garbage).is_empty(), "{garbage}");
        }
        assert!(host_priorities(br#"{"Host": "a"}"#).is_err() && host_priorities(br#"[{"Score": "1"}]"#).is_err());
    }

    #[test]
    fn scores_are_read() {
        let scores = host_priorities(br#"[{"Host": "a", "Score": 10}, {"host": "b", "score": 3}]"#);
        assert_eq!(scores.expect("scores"), [("a".to_owned(), 10), ("b".to_owned(), 3)]);
        assert_eq!(host_priorities(b"null").expect("none"), []);
    }
}
