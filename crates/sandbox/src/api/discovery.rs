//! Discovery: the groups, versions and resources of the API, in the old documents and in the aggregated document,
//! together with the version and the health endpoints.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value, json};

use super::context::Api;
use super::formats::media::{Form, negotiate};
use super::request::Request;
use super::responses;
use super::responses::page_not_found;
use crate::kinds::{Kind, VIRTUAL, VirtualResource};
use crate::release::KubernetesRelease;
use crate::status::{ApiResult, StatusError};

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One resource or subresource in a discovery document.
struct DiscoveryEntry {
    /// The resource, or `resource/subresource`.
    name: String,
    singular: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<&'static str>,
    short_names: Vec<String>,
    categories: Vec<String>,
    /// The group and version of the kind, if they differ from the resource's.
    response: Option<(&'static str, &'static str)>,
}

/// Answers paths that describe the API. Returns `None` for other paths.
pub(crate) fn answer(api: &Api, segments: &[&str], request: &Request) -> ApiResult<Option<Response>> {
    if let [probe @ ("healthz" | "livez" | "readyz"), check @ ..] = segments {
        return Ok(Some(health(probe, check, request)));
    }
    let known =
        matches!(segments, [] | ["api" | "apis" | "version" | ""] | ["api", "v1"] | ["apis", _] | ["apis", _, _]);
    if !known {
        return Ok(None);
    }
    if request.method != Method::GET {
        return Err(StatusError::method_not_allowed());
    }
    let form = negotiate(&request.headers, &[Form::Discovery], false)?;
    let aggregated = form == Form::Discovery;
    let document = match segments {
        ["version"] => Some(version(api.state.release())),
        [] | [""] => Some(json!({"paths": root_paths(api)})),
        ["api"] if aggregated => return Ok(Some(aggregated_response(&json!([group_discovery(api, "")])))),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] if aggregated => {
            let groups: Vec<Value> = groups(api).iter().map(|group| group_discovery(api, group)).collect();
            return Ok(Some(aggregated_response(&Value::Array(groups))));
        }
        ["apis"] => {
            let groups: Vec<Value> = groups(api).iter().map(|group| group_document(api, group, false)).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", group] if api.state.registry().has_group(group) => Some(group_document(api, group, true)),
        ["api", version] => resources(api, "", version),
        ["apis", group, version] if api.state.registry().has_group(group) => match resources(api, group, version) {
            Some(document) => Some(document),
            None => return Err(StatusError::no_such_resource()),
        },
        _ => None,
    };
    Ok(Some(
        document.map_or_else(page_not_found, |document| responses::json_response(StatusCode::OK, document.to_string())),
    ))
}

fn health(probe: &str, check: &[&str], request: &Request) -> Response {
    let text = match check {
        [] if request.query.get("verbose").is_some() => format!("[+]ping ok\n[+]log ok\n{probe} check passed\n"),
        [] | ["ping" | "log"] => "ok".to_owned(),
        _ => return page_not_found(),
    };
    let mut response = Response::new(Body::from(text));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn version(release: KubernetesRelease) -> Value {
    let minor = release.minor();
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (minor - 1).to_string(),
        "gitVersion": release.git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn root_paths(api: &Api) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
            .iter()
            .map(|&path| path.to_owned())
            .collect();
    for group in groups(api) {
        paths.extend(versions(api, &group).iter().map(|version| format!("/apis/{group}/{version}")));
        paths.push(format!("/apis/{group}"));
    }
    paths.sort();
    paths
}

/// All groups except core, in the order in which they are defined.
pub(crate) fn groups(api: &Api) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    let stored = api.state.registry().kinds();
    let names = stored.iter().map(|kind| kind.group.as_str()).chain(VIRTUAL.iter().map(|resource| resource.group));
    for group in names.filter(|group| !group.is_empty()) {
        if !groups.iter().any(|known| known == group) {
            groups.push(group.to_owned());
        }
    }
    groups
}

/// The versions of a group, in the order in which they are defined.
pub(crate) fn versions(api: &Api, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for kind in api.state.registry().kinds().iter().filter(|kind| kind.group == group) {
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }
    }
    if versions.is_empty() { vec!["v1".to_owned()] } else { versions }
}

fn group_document(api: &Api, group: &str, alone: bool) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = versions(api, group).iter().map(entry).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    let mut document = json!({"name": group, "versions": versions, "preferredVersion": preferred});
    if alone {
        document["kind"] = "APIGroup".into();
        document["apiVersion"] = "v1".into();
    }
    document
}

fn resources(api: &Api, group: &str, version: &str) -> Option<Value> {
    let entries = entries(api, group, version);
    if entries.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resources: Vec<Value> = entries.iter().map(DiscoveryEntry::resource).collect();
    let mut document = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn aggregated_response(items: &Value) -> Response {
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let mut response = responses::json_response(StatusCode::OK, list.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn group_discovery(api: &Api, group: &str) -> Value {
    let versions: Vec<Value> = versions(api, group)
        .iter()
        .map(|version| {
            let entries = entries(api, group, version);
            json!({"version": version, "resources": aggregated(&entries), "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated(entries: &[DiscoveryEntry]) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for entry in entries {
        let kind = match entry.response {
            Some((group, version)) => json!({"group": group, "version": version, "kind": entry.kind}),
            // Empty texts stand for the group and version under which the resource is listed.
            None => json!({"group": "", "version": "", "kind": entry.kind}),
        };
        if let Some((_, subresource)) = entry.name.split_once('/') {
            let line = json!({"subresource": subresource, "responseKind": kind, "verbs": entry.verbs});
            if let Some(subresources) = resources.last_mut().and_then(Value::as_object_mut) {
                let list = subresources.entry("subresources").or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(line);
                }
            }
            continue;
        }
        let mut line = json!({
            "resource": entry.name,
            "responseKind": kind,
            "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": entry.singular,
            "verbs": entry.verbs,
        });
        entry.add_names(&mut line);
        resources.push(line);
    }
    resources
}

fn entries(api: &Api, group: &str, version: &str) -> Vec<DiscoveryEntry> {
    let mut entries: Vec<DiscoveryEntry> = Vec::new();
    for resource in VIRTUAL.iter().filter(|resource| resource.group == group && version == "v1") {
        entries.push(virtual_entry(resource));
    }
    let kinds = api.state.registry().kinds();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        entries.extend(kind_entries(kind));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn virtual_entry(resource: &VirtualResource) -> DiscoveryEntry {
    DiscoveryEntry {
        name: resource.plural.to_owned(),
        singular: resource.kind.to_lowercase(),
        kind: resource.kind.to_owned(),
        namespaced: resource.namespaced,
        verbs: vec!["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        response: None,
    }
}

fn kind_entries(kind: &Kind) -> Vec<DiscoveryEntry> {
    let verbs: Vec<&'static str> = match kind.plural.as_str() {
        "namespaces" => ALL_VERBS.into_iter().filter(|&verb| verb != "deletecollection").collect(),
        _ if kind.is_custom() => CUSTOM_VERBS.to_vec(),
        _ => ALL_VERBS.to_vec(),
    };
    let mut entries = vec![DiscoveryEntry {
        name: kind.plural.clone(),
        singular: kind.singular.clone(),
        kind: kind.kind.clone(),
        namespaced: kind.namespaced,
        verbs,
        short_names: kind.short_names.clone(),
        categories: kind.categories.clone(),
        response: None,
    }];
    let mut add = |name: &str, shown: &str, verbs: &[&'static str], response: Option<(&'static str, &'static str)>| {
        entries.push(DiscoveryEntry {
            name: format!("{}/{name}", kind.plural),
            singular: String::new(),
            kind: shown.to_owned(),
            namespaced: kind.namespaced,
            verbs: verbs.to_vec(),
            short_names: Vec::new(),
            categories: Vec::new(),
            response,
        });
    };
    if kind.has_status {
        add("status", &kind.kind, &SUBRESOURCE_VERBS, None);
    }
    if kind.scale.is_some() {
        add("scale", "Scale", &SUBRESOURCE_VERBS, Some(("autoscaling", "v1")));
    }
    if kind.is("", "pods") {
        add("binding", "Binding", &["create"], None);
        add("eviction", "Eviction", &["create"], Some(("policy", "v1")));
        add("ephemeralcontainers", "Pod", &SUBRESOURCE_VERBS, None);
        add("resize", "Pod", &SUBRESOURCE_VERBS, None);
    }
    if kind.is("", "namespaces") {
        add("finalize", "Namespace", &["update"], None);
    }
    entries
}

impl DiscoveryEntry {
    fn resource(&self) -> Value {
        let mut resource = json!({
            "name": self.name,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": self.verbs,
        });
        if let Some((group, version)) = self.response {
            resource["group"] = group.into();
            resource["version"] = version.into();
        }
        self.add_names(&mut resource);
        resource
    }

    fn add_names(&self, resource: &mut Value) {
        let lists: Map<String, Value> = [("shortNames", &self.short_names), ("categories", &self.categories)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(key, names)| (key.to_owned(), names.iter().map(|name| Value::from(name.as_str())).collect()))
            .collect();
        if let Some(members) = resource.as_object_mut() {
            members.extend(lists);
        }
    }
}
