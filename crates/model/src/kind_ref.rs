//! Kinds of objects by their names in the API, in manifests and in events.

/// A kind of object. If only the API server knows the kind or the plural, this part is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindRef {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// The plural in paths, such as `persistentvolumeclaims`.
    pub plural: String,
}

/// Groups with their version and their kinds. An API server has either all of these kinds of a group, or none of them.
const WELL_KNOWN: [(&str, &str, &[&str]); 5] = [
    (
        "",
        "v1",
        &[
            "ConfigMap",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "ReplicationController",
            "Service",
        ],
    ),
    ("apps", "v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("policy", "v1", &["PodDisruptionBudget"]),
    (
        "resource.k8s.io",
        "v1",
        &["DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
    ),
    ("storage.k8s.io", "v1", &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"]),
];

fn plural_of(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

impl KindRef {
    /// The kind of an `apiVersion` and a `kind`. The plural is empty unless the kind is well known.
    #[must_use]
    pub fn of_kind(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = |(its_group, its_version, kinds): &(&str, &str, &[&str])| {
            *its_group == group && *its_version == version && kinds.contains(&kind)
        };
        let plural = if WELL_KNOWN.iter().any(known) { plural_of(kind) } else { String::new() };
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned(), plural }
    }

    /// The kind that `resource` names. Plugins register for events with such names: `PersistentVolumeClaim`,
    /// `storage.k8s.io/CSINode`, or `<plural>.<version>.<group>`. `None` for any other text.
    #[must_use]
    pub fn of_resource(resource: &str) -> Option<Self> {
        for (group, version, kinds) in WELL_KNOWN {
            let found = kinds.iter().find(|kind| match group {
                "" => **kind == resource,
                _ => resource.split_once('/') == Some((group, kind)),
            });
            if let Some(kind) = found {
                let (group, version, plural) = (group.to_owned(), version.to_owned(), plural_of(kind));
                return Some(Self { group, version, kind: (*kind).to_owned(), plural });
            }
        }
        if resource.contains('/') {
            return None;
        }
        let mut parts = resource.splitn(3, '.');
        let (plural, version, group) = (parts.next()?, parts.next()?, parts.next()?);
        let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = !plural.is_empty() && plural.bytes().all(is_lower);
        let is_path = is_name && version.starts_with('v') && !group.contains('/');
        is_path.then(|| Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: String::new(),
            plural: plural.to_owned(),
        })
    }

    /// The short names that [`Self::of_resource`] knows.
    pub fn well_known() -> impl Iterator<Item = String> {
        let name = |group: &str, kind: &str| if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
        WELL_KNOWN.iter().flat_map(move |(group, _, kinds)| kinds.iter().map(move |kind| name(group, kind)))
    }

    /// The name under which plugins register for events of this kind.
    #[must_use]
    pub fn resource(&self) -> String {
        let Self { group, version, kind, plural } = self;
        let is_well_known = WELL_KNOWN.iter().any(|(its_group, its_version, kinds)| {
            its_group == group && its_version == version && kinds.contains(&kind.as_str())
        });
        match (is_well_known, group.as_str()) {
            (true, "") => kind.clone(),
            (true, group) => format!("{group}/{kind}"),
            (false, group) => format!("{plural}.{version}.{group}"),
        }
    }

    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The plural. If only the API server knows the plural, the result is a guess by the rule that nearly all plurals
    /// follow.
    #[must_use]
    pub fn likely_plural(&self) -> String {
        if self.plural.is_empty() { plural_of(&self.kind) } else { self.plural.clone() }
    }

    /// Whether the plural is known without asking the API server. The plural is known if it is set, or if the kind is
    /// one of Kubernetes' own kinds, because all of these follow one rule.
    #[must_use]
    pub fn has_known_plural(&self) -> bool {
        !self.plural.is_empty() || !self.group.contains('.') || self.group.ends_with(".k8s.io")
    }

    /// Whether the kind and the plural are both known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.kind.is_empty() && !self.plural.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_for_every_purpose() {
        let cases = [
            ("v1", "PersistentVolumeClaim", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("storage.k8s.io/v1", "CSIStorageCapacity", "storage.k8s.io/CSIStorageCapacity", "csistoragecapacities"),
            ("storage.k8s.io/v1", "StorageClass", "storage.k8s.io/StorageClass", "storageclasses"),
            ("resource.k8s.io/v1", "DeviceClass", "resource.k8s.io/DeviceClass", "deviceclasses"),
        ];
        for (api_version, kind, resource, plural) in cases {
            let found = KindRef::of_kind(api_version, kind);
            assert_eq!(found.plural, plural);
            assert_eq!((found.resource().as_str(), found.api_version().as_str()), (resource, api_version));
            assert_eq!(KindRef::of_resource(resource), Some(found));
        }
        let custom = KindRef::of_resource("podgroups.v1alpha1.scheduling.example.com").expect("a name");
        assert_eq!((custom.kind.as_str(), custom.api_version().as_str()), ("", "scheduling.example.com/v1alpha1"));
        assert_eq!(custom.resource(), "podgroups.v1alpha1.scheduling.example.com");
        assert_eq!(custom.likely_plural(), "podgroups");
        let unknown = KindRef::of_kind("example.com/v1", "Policy");
        assert_eq!((unknown.likely_plural().as_str(), unknown.has_known_plural()), ("policies", false));
        let own = KindRef::of_kind("certificates.k8s.io/v1", "CertificateSigningRequest");
        assert_eq!((own.likely_plural().as_str(), own.has_known_plural()), ("certificatesigningrequests", true));
        for nonsense in ["*", "", "Nonsense", "storage.k8s.io/Nonsense", "a.b", "A.v1.c"] {
            assert_eq!(KindRef::of_resource(nonsense), None, "{nonsense}");
        }
    }
}
