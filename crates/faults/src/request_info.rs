//! The subject of a request, derived from its method, path and query: the API server's `RequestInfo`
//! (`staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`).

use http::{HeaderMap, Method, Uri, header};

/// The verbs that a rule may name.
pub(crate) const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The subject of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The API's verb. For paths outside the API, it is the method in lower case.
    pub verb: &'static str,
    /// The plural name with its subresource: `pods`, `pods/binding`. Empty for requests that are not about the API's
    /// resources.
    pub resource: String,
    /// The namespace; empty for requests that are in no namespace.
    pub namespace: String,
    /// The value of the header `User-Agent`.
    pub user_agent: String,
    /// Whether the request names a resource version at which the answer begins. That version may be too old.
    pub has_resource_version: bool,
}

impl RequestInfo {
    /// Reads the head of a request.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let query = uri.query().unwrap_or_default();
        let value = |key: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let mut info = Self {
            verb: plain_verb(method),
            user_agent: agent.to_owned(),
            has_resource_version: value("resourceVersion").is_some_and(|version| !matches!(version, "" | "0")),
            ..Self::default()
        };
        let rest = match segments.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] if !rest.is_empty() => rest,
            _ => return info,
        };
        let (rest, is_watch_path) = match rest {
            ["watch", rest @ ..] => (rest, true),
            rest => (rest, false),
        };
        let is_watch = is_watch_path || value("watch").is_some_and(|watch| matches!(watch, "true" | "1"));
        let rest = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) => {
                (*namespace).clone_into(&mut info.namespace);
                rest
            }
            rest => rest,
        };
        let (resource, name) = match rest {
            [plural] => ((*plural).to_owned(), None),
            [plural, name] => ((*plural).to_owned(), Some(*name)),
            [plural, name, subresource, ..] => (format!("{plural}/{subresource}"), Some(*name)),
            [] => return info,
        };
        info.resource = resource;
        info.verb = match (info.verb, name) {
            ("get", _) if is_watch => "watch",
            ("get", None) => "list",
            ("delete", None) => "deletecollection",
            (verb, _) => verb,
        };
        info
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_give_verb_resource_and_namespace() {
        for (method, uri, wanted) in [
            ("GET", "/api/v1/pods?watch=true&resourceVersion=7", ("watch", "pods", "")),
            ("GET", "/api/v1/pods?limit=500", ("list", "pods", "")),
            ("GET", "/api/v1/namespaces/team/pods/a", ("get", "pods", "team")),
            ("POST", "/api/v1/namespaces/team/pods/a/binding", ("create", "pods/binding", "team")),
            ("PATCH", "/api/v1/namespaces/team/status", ("patch", "namespaces/status", "")),
            ("DELETE", "/api/v1/namespaces/team", ("delete", "namespaces", "")),
            ("DELETE", "/api/v1/namespaces/team/pods", ("deletecollection", "pods", "team")),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth",
                ("update", "leases", "kube-system"),
            ),
            ("GET", "/apis/apps/v1/watch/deployments", ("watch", "deployments", "")),
            ("GET", "/version", ("get", "", "")),
            ("GET", "/api/v1", ("get", "", "")),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let info = RequestInfo::of(&method, &uri.parse().expect("a path"), &HeaderMap::new());
            assert_eq!((info.verb, &*info.resource, &*info.namespace), wanted, "{uri}");
            assert_eq!(info.has_resource_version, uri.contains("resourceVersion"), "{uri}");
        }
    }
}
