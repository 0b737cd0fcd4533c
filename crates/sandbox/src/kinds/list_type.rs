//! How lists merge: element by element under a key, as a set, or as one value.
//!
//! Strategic merge patches and server-side apply use this module. A field is named by its path of member names without
//! positions, such as `spec.containers.ports`.

use serde_json::Value;

use super::kind::{Decoding, Kind};
use crate::fields::json::{items, text};

/// The ways in which a list merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Objects whose identity is the values of these members.
    Map(Vec<String>),
}

/// The way in which the list at `path` of an object of `kind` merges.
pub(crate) fn list_type(kind: &Kind, path: &[&str]) -> ListType {
    match &kind.decoding {
        Decoding::Typed(_) => built_in(kind, path),
        Decoding::Custom(schema) => custom(&schema.root, path),
    }
}

fn built_in(kind: &Kind, path: &[&str]) -> ListType {
    let [.., parent, field] = path else { return ListType::Atomic };
    let key = match (*parent, *field) {
        ("metadata", "finalizers") => return ListType::Set,
        ("spec", "podCIDRs") if kind.plural == "nodes" => return ListType::Set,
        ("metadata", "ownerReferences") | ("status", "reservedFor") => "uid",
        ("spec", "ports") if kind.plural == "services" => "port",
        (_, "conditions") | ("status", "addresses") => "type",
        (_, "containers" | "initContainers" | "ephemeralContainers" | "imagePullSecrets" | "env" | "volumes") => "name",
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => "containerPort",
        (_, "volumeMounts") => "mountPath",
        (_, "volumeDevices") => "devicePath",
        ("spec", "schedulingGates" | "resourceClaims") | ("status", "resourceClaimStatuses") => "name",
        (_, "topologySpreadConstraints") => "topologyKey",
        (_, "hostAliases") | ("status", "podIPs" | "hostIPs") => "ip",
        ("spec", "drivers") if kind.plural == "csinodes" => "name",
        _ if kind.plural == "serviceaccounts" && *field == "secrets" => "name",
        _ => return ListType::Atomic,
    };
    ListType::Map(vec![key.to_owned()])
}

fn custom(root: &Value, path: &[&str]) -> ListType {
    let mut schema = root;
    for field in path {
        if schema.get("items").is_some() {
            schema = &schema["items"];
        }
        let Some(next) = schema.get("properties").and_then(|all| all.get(*field)) else { return ListType::Atomic };
        schema = next;
    }
    match text(schema, "/x-kubernetes-list-type") {
        "map" => {
            let keys = items(schema, "/x-kubernetes-list-map-keys").iter().filter_map(Value::as_str);
            ListType::Map(keys.map(str::to_owned).collect())
        }
        "set" => ListType::Set,
        _ => ListType::Atomic,
    }
}
