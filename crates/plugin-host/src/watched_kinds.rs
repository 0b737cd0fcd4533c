//! The kinds that must be watched for a plugin's manifest, and the consequences if a kind may not be listed.

use std::{collections::BTreeSet, sync::LazyLock};

use berth_framework::{Manifest, ObjectKind};
use berth_model::{Feature, Features, KindRef};

/// The kinds that a plugin reads, and the kinds from which it only needs events.
pub fn wanted(manifest: &Manifest, features: Features) -> BTreeSet<KindRef> {
    let read = read(manifest, features).map(|ObjectKind { api_version, kind }| KindRef::of_kind(api_version, kind));
    read.chain(heard(manifest)).collect()
}

/// The kinds of the API server that a plugin reads. Kinds that a feature gate disables are not watched, because an API
/// server may not serve them.
pub fn read(manifest: &Manifest, features: Features) -> impl Iterator<Item = &ObjectKind> {
    let of_server = manifest.needs.objects.iter().filter(|kind| !kind.is_of_facts());
    of_server.filter(move |kind| {
        let with_v1 = match (kind.api_version.as_str(), kind.kind.as_str()) {
            ("resource.k8s.io/v1", "DeviceTaintRule") => true,
            ("resource.k8s.io/v1beta2", "DeviceTaintRule") => false,
            _ => return true,
        };
        features.has(Feature::DRADeviceTaintRules) && features.has(Feature::DeviceTaintRulesAreV1) == with_v1
    })
}

/// The kinds from which a plugin needs events. Pods and nodes are left out, because their watches are separate and
/// always run.
pub fn heard(manifest: &Manifest) -> impl Iterator<Item = KindRef> {
    manifest.events_to_register.iter().flatten().filter_map(|event| {
        let is_own = matches!(event.resource.as_str(), "Pod" | "Node");
        if is_own { None } else { KindRef::of_resource(&event.resource) }
    })
}

/// Whether the kind is watched for built-in plugins. The kind may be given by its plural or by its name.
pub fn is_of_built_ins(kind: &KindRef) -> bool {
    static KINDS: LazyLock<BTreeSet<KindRef>> = LazyLock::new(|| {
        let (factories, features) = (berth_builtins::factories(), Features::default());
        factories.iter().flat_map(|factory| wanted(factory.manifest(), features)).collect()
    });
    let is_it = |known: &KindRef| {
        let has_its_name = known.plural == kind.plural || (kind.plural.is_empty() && known.kind == kind.kind);
        known.group == kind.group && known.version == kind.version && has_its_name
    };
    KINDS.iter().any(is_it)
}

/// `apiVersion/kind`. An event may name a kind only by its plural, and the plural then stands in place of the kind.
#[must_use]
pub fn shown(kind: &KindRef) -> String {
    let name = if kind.kind.is_empty() { &kind.plural } else { &kind.kind };
    format!("{}/{name}", kind.api_version())
}

/// The kind of Kubernetes whose name is close to `kind`, under the same `api_version`. `kind` itself is not a kind of
/// Kubernetes.
#[must_use]
pub fn nearest(api_version: &str, kind: &str) -> Option<String> {
    let known: Vec<String> = KindRef::well_known()
        .filter_map(|resource| KindRef::of_resource(&resource))
        .filter(|known| known.api_version() == api_version)
        .map(|known| known.kind)
        .collect();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    if names.contains(&kind) { None } else { berth_config::nearest(kind, &names) }
}

/// Advice about a kind that the API server does not serve.
#[must_use]
pub fn advice_on_missing(kind: &KindRef) -> String {
    if is_of_built_ins(kind) {
        return "this API of Kubernetes is off or of another release: compare --emulated-version with the server's release"
            .to_owned();
    }
    let meant = nearest(&kind.api_version(), &kind.kind);
    let meant = meant.map(|kind| format!(" (did you mean {kind}?)")).unwrap_or_default();
    format!("install its CRD, or correct the kind in the plugin's manifest{meant}")
}

/// Plugins, each with a kind that the plugin reads but does not need. A pod is still never placed on a node where it
/// must not run.
const DISPENSABLE: [(&str, &str, &str); 10] = [
    // Default constraints count the pods of these objects together. Pods with their own constraints do not need these
    // objects.
    ("PodTopologySpread", "v1", "Service"),
    ("PodTopologySpread", "v1", "ReplicationController"),
    ("PodTopologySpread", "apps/v1", "ReplicaSet"),
    ("PodTopologySpread", "apps/v1", "StatefulSet"),
    // A DeviceClass can stand for an extended resource, which devices then provide. Without the kinds of devices, only
    // a node's own resources count.
    ("NodeResourcesFit", "resource.k8s.io/v1", "DeviceClass"),
    ("NodeResourcesFit", "resource.k8s.io/v1", "ResourceSlice"),
    ("NodeResourcesFit", "resource.k8s.io/v1", "ResourceClaim"),
    ("NodeResourcesBalancedAllocation", "resource.k8s.io/v1", "DeviceClass"),
    ("NodeResourcesBalancedAllocation", "resource.k8s.io/v1", "ResourceSlice"),
    ("NodeResourcesBalancedAllocation", "resource.k8s.io/v1", "ResourceClaim"),
];

/// The plugins that read the kind but do not need it.
pub fn dispensable_for(kind: &ObjectKind) -> Vec<String> {
    let of_kind =
        DISPENSABLE.iter().filter(|(_, api_version, name)| kind.api_version == *api_version && kind.kind == *name);
    of_kind.map(|(plugin, ..)| (*plugin).to_owned()).collect()
}

/// Whether the scheduler needs the kind for every pod. Affinity terms of pods on nodes select pods by the labels of
/// their namespaces, so namespaces concern every pod.
pub fn is_indispensable(kind: &ObjectKind) -> bool {
    kind.api_version == "v1" && kind.kind == "Namespace"
}

#[cfg(test)]
mod tests {
    use berth_framework::{ClusterEvent, FACTS_API_VERSION, Needs};

    use super::*;

    #[test]
    fn kinds_are_read_or_heard_of() {
        let object =
            |api_version: &str, kind: &str| ObjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let mut objects =
            vec![object("v1", "PersistentVolumeClaim"), object("example.com/v1", "Ox"), object("v1", "Node")];
        objects.push(object(FACTS_API_VERSION, "DynamicResources"));
        let events = ["Pod", "Node", "PersistentVolumeClaim", "storage.k8s.io/CSINode", "herds.v1.example.com", "*"];
        let manifest = Manifest {
            needs: Needs { objects, ..Needs::default() },
            events_to_register: Some(events.map(|resource| ClusterEvent::new(resource, ClusterEvent::ADD)).to_vec()),
            ..Manifest::default()
        };
        let wanted: Vec<String> = wanted(&manifest, Features::default())
            .iter()
            .map(|kind| format!("{} {}", kind.resource(), kind.kind))
            .collect();
        let expected = [
            "Node Node",
            "PersistentVolumeClaim PersistentVolumeClaim",
            "herds.v1.example.com ",
            ".v1.example.com Ox",
            "storage.k8s.io/CSINode CSINode",
        ];
        assert_eq!(wanted, expected);
    }

    #[test]
    fn a_kind_that_nobody_serves_comes_with_advice() {
        let advice = "install its CRD, or correct the kind in the plugin's manifest";
        let meant = KindRef::of_kind("v1", "Configmap");
        assert_eq!(
            (shown(&meant), nearest("v1", "Configmap").as_deref()),
            ("v1/Configmap".to_owned(), Some("ConfigMap"))
        );
        assert_eq!(advice_on_missing(&meant), format!("{advice} (did you mean ConfigMap?)"));
        assert_eq!(advice_on_missing(&KindRef::of_kind("example.com/v1", "Rating")), advice);
        let of_built_ins = advice_on_missing(&KindRef::of_kind("resource.k8s.io/v1", "ResourceClaim"));
        assert!(of_built_ins.contains("--emulated-version"), "{of_built_ins}");
        assert_eq!((nearest("v1", "ConfigMap"), nearest("v1", "Secret")), (None, None));
        let plural = KindRef::of_resource("herds.v1.example.com").expect("a kind");
        assert_eq!((shown(&plural).as_str(), advice_on_missing(&plural).as_str()), ("example.com/v1/herds", advice));
    }

    #[test]
    fn what_plugins_can_do_without_is_what_they_read() {
        for (plugin, api_version, kind) in DISPENSABLE {
            let factories = berth_builtins::factories();
            let factory =
                factories.iter().find(|factory| factory.manifest().name == plugin).expect("a built-in plugin");
            let kind = ObjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
            assert!(factory.manifest().needs.objects.contains(&kind), "{plugin} {kind:?}");
            assert!(dispensable_for(&kind).iter().any(|it| it == plugin), "{plugin} {kind:?}");
        }
    }

    #[test]
    fn kinds_of_built_ins_go_by_each_of_their_names() {
        let is_one = |resource: &str| is_of_built_ins(&KindRef::of_resource(resource).expect("a kind"));
        assert!(is_one("PersistentVolumeClaim") && is_one("persistentvolumeclaims.v1."));
        assert!(is_one("resource.k8s.io/ResourceClaim") && is_one("Namespace"));
        assert!(!is_one("ConfigMap") && !is_one("secrets.v1.") && !is_one("resourceclaims.v2.resource.k8s.io"));
    }
}
