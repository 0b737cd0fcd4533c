//! The API server's audit log. The log contains each finished request of the schedulers' users, and the bodies of their
//! writes.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The policy: the bodies of writes, and only the metadata of other requests.
pub(crate) const POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Request", "users": ["system:kube-scheduler", "system:serviceaccount:kube-system:berth"],
         "verbs": ["create", "update", "patch", "delete"]},
        {"level": "Metadata", "users": ["system:kube-scheduler", "system:serviceaccount:kube-system:berth"]},
        {"level": "None"}
    ]
}"#;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// The verb: `list`, `watch`, `create`, `patch`.
    pub verb: String,
    /// The resource with its subresource, as in `pods/binding`; empty for a path such as `/version`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uri: String,
    /// The answer's status code.
    pub code: u64,
    /// The body; `null` for requests other than writes, and for protobuf.
    pub body: Value,
}

impl AuditEntry {
    pub(crate) fn read(line: &str) -> Result<Self> {
        let entry: Value = serde_json::from_str(line).context("cannot read a line of the audit log")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &entry["objectRef"];
        let parts = [text(&object["resource"]), text(&object["subresource"])];
        Ok(Self {
            verb: text(&entry["verb"]),
            resource: parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"),
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            uri: text(&entry["requestURI"]),
            code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            body: entry["requestObject"].clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request() {
        let line = r#"{"verb": "create", "requestURI": "/api/v1/namespaces/default/pods/a/binding",
            "objectRef": {"resource": "pods", "namespace": "default", "name": "a", "subresource": "binding"},
            "responseStatus": {"code": 201}, "requestObject": {"kind": "Binding"}}"#;
        let entry = AuditEntry::read(line).unwrap();
        assert_eq!((entry.resource.as_str(), entry.code), ("pods/binding", 201));
        assert_eq!(entry.body["kind"], "Binding");
    }
}
