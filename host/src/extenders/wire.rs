//! Requests to extenders and what their answers say, as `k8s.io/kube-scheduler/extender/v1` has them.
//!
//! The Go types have no JSON tags: names of fields begin with a capital, and Go reads them whatever their case.

use berth_framework::{ExtenderError, ExtenderVerdict};
use serde_json::{Value, json};

/// The body of filter and prioritize: with whole nodes, or with names alone.
pub(super) fn arguments(pod: &[u8], nodes: Result<&[&[u8]], &[&str]>) -> Vec<u8> {
    let mut body = b"{\"Pod\":".to_vec();
    body.extend_from_slice(pod);
    match nodes {
        Ok(objects) => {
            body.extend_from_slice(b",\"Nodes\":{\"metadata\":{},\"items\":[");
            body.extend_from_slice(&objects.join(&b","[..]));
            body.extend_from_slice(b"]},\"NodeNames\":null}");
        }
        Err(names) => {
            body.extend_from_slice(b",\"Nodes\":null,\"NodeNames\":");
            body.extend_from_slice(json!(names).to_string().as_bytes());
            body.push(b'}');
        }
    }
    body
}

/// The body of bind.
pub(super) fn binding(namespace: &str, name: &str, uid: &str, node: &str) -> Vec<u8> {
    json!({ "PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node }).to_string().into_bytes()
}

/// What an answer to filter says about the nodes `sent`.
pub(super) fn filter_result(
    answer: &[u8],
    (url, is_node_cache_capable): (&str, bool),
    sent: &[&str],
) -> Result<ExtenderVerdict, ExtenderError> {
    let answer: Value = serde_json::from_slice(answer).map_err(ExtenderError::new)?;
    check_error(&answer)?;
    let mut verdict = ExtenderVerdict {
        failed: reasons(&answer, "FailedNodes")?,
        unresolvable: reasons(&answer, "FailedAndUnresolvableNodes")?,
        ..ExtenderVerdict::default()
    };
    if is_node_cache_capable && let Some(names) = list(&answer, "NodeNames")? {
        for name in names {
            let name = name.as_str().ok_or_else(|| unreadable("NodeNames", "a list of texts"))?;
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

/// Names of nodes and their scores.
pub(super) fn host_priorities(answer: &[u8]) -> Result<Vec<(String, i64)>, ExtenderError> {
    let answer: Option<Vec<Value>> = serde_json::from_slice(answer).map_err(ExtenderError::new)?;
    let priority = |entry: &Value| {
        let host = field(entry, "Host").map_or(Some(""), Value::as_str);
        let score = field(entry, "Score").map_or(Some(0), Value::as_i64);
        let (Some(host), Some(score)) = (host, score) else {
            return Err(unreadable("HostPriorityList", "a list of hosts with whole scores"));
        };
        Ok((host.to_owned(), score))
    };
    answer.iter().flatten().map(priority).collect()
}

/// Whether the extender says that it has bound the pod.
pub(super) fn binding_result(answer: &[u8]) -> Result<(), ExtenderError> {
    check_error(&serde_json::from_slice(answer).map_err(ExtenderError::new)?)
}

fn check_error(answer: &Value) -> Result<(), ExtenderError> {
    if !answer.is_object() && !answer.is_null() {
        return Err(ExtenderError::new("the extender's answer is no JSON object"));
    }
    match field(answer, "Error") {
        None => Ok(()),
        Some(Value::String(error)) if error.is_empty() => Ok(()),
        Some(Value::String(error)) => Err(ExtenderError::new(error)),
        Some(_) => Err(unreadable("Error", "a text")),
    }
}

/// The field of this name, whatever its case; a field that is `null` counts as absent.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut fields = object.as_object()?.iter();
    fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).filter(|value| !value.is_null())
}

fn list<'a>(object: &'a Value, name: &str) -> Result<Option<&'a Vec<Value>>, ExtenderError> {
    field(object, name).map(|value| value.as_array().ok_or_else(|| unreadable(name, "a list"))).transpose()
}

/// Reasons by node.
fn reasons(answer: &Value, name: &str) -> Result<Vec<(String, String)>, ExtenderError> {
    let Some(value) = field(answer, name) else { return Ok(Vec::new()) };
    let entries = value.as_object().ok_or_else(|| unreadable(name, "an object"))?;
    let reason = |(node, reason): (&String, &Value)| {
        let reason = reason.as_str().ok_or_else(|| unreadable(name, "an object of texts"))?;
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

    fn filtered(answer: &str, is_node_cache_capable: bool) -> Result<ExtenderVerdict, String> {
        let verdict = filter_result(answer.as_bytes(), (URL, is_node_cache_capable), &["a", "b"]);
        verdict.map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_hold_whole_nodes_or_names() {
        let parsed = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).expect("JSON");
        let names = parsed(arguments(b"{\"kind\":\"Pod\"}", Err(&["a", "b\""])));
        assert_eq!(names, json!({"Pod": {"kind": "Pod"}, "Nodes": null, "NodeNames": ["a", "b\""]}));
        let whole = parsed(arguments(b"{}", Ok(&[b"{\"n\":1}", b"{\"n\":2}"])));
        let items = json!([{"n": 1}, {"n": 2}]);
        assert_eq!(whole, json!({"Pod": {}, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null}));
    }

    #[test]
    fn filter_answers_are_read_as_go_reads_them() {
        let passed = |answer, capable| filtered(answer, capable).map(|verdict| verdict.passed);
        let both = r#"{"nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": ["b"], "Error": ""}"#;
        assert_eq!(passed(both, true), Ok(vec!["b".to_owned()]));
        assert_eq!(passed(both, false), Ok(vec!["a".to_owned()]));
        assert_eq!(passed(r#"{"NodeNames": ["a"]}"#, false), Ok(vec![]), "names of an extender that was sent nodes");
        assert_eq!(passed("{}", true), Ok(vec![]));
        let failed = filtered(r#"{"failedNodes": {"a": "no"}, "failedAndUnresolvableNodes": {"b": "never"}}"#, true);
        let failed = failed.expect("a verdict");
        assert_eq!(failed.failed, [("a".to_owned(), "no".to_owned())]);
        assert_eq!(failed.unresolvable, [("b".to_owned(), "never".to_owned())]);
    }

    #[test]
    fn unusable_answers_are_errors() {
        let error = |answer| filtered(answer, true).expect_err("an error");
        assert_eq!(error(r#"{"Error": "I am tired", "NodeNames": ["a"]}"#), "I am tired");
        let unknown =
            r#"extender "http://extender" claims a filtered node "c" which is not found in the input node list"#;
        assert_eq!(error(r#"{"NodeNames": ["c"]}"#), unknown);
        for garbage in ["garbage", "[]", "3", r#"{"NodeNames": 3}"#, r#"{"FailedNodes": []}"#, r#"{"Error": {}}"#] {
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
