//! Names of objects, and the request paths made from them.

use http::Uri;

/// One particular pod: a later pod of the same name has another uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl PodRef {
    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef {
            group: String::new(),
            version: "v1".into(),
            plural: "pods".into(),
            namespace: Some(self.namespace.clone()),
            name: self.name.clone(),
        }
    }
}

/// Any object by its place in the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// The plural as in paths: `persistentvolumeclaims`.
    pub plural: String,
    /// `None` for objects without a namespace.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    /// The object's path, or the path of one of its subresources.
    ///
    /// Names may come from a plugin. A name that would lead to another path is an error, which names the part.
    pub(crate) fn path(&self, subresource: Option<&str>) -> Result<Uri, BadName> {
        let mut path = collection_path(&self.group, &self.version, self.namespace.as_deref(), &self.plural)?;
        for part in std::iter::once(self.name.as_str()).chain(subresource) {
            push_part(&mut path, part)?;
        }
        path.parse().map_err(|_| BadName(path))
    }
}

impl ObjectRef {
    /// The path of the collection that the object belongs to.
    pub(crate) fn collection_path(&self) -> Result<Uri, BadName> {
        let path = collection_path(&self.group, &self.version, self.namespace.as_deref(), &self.plural)?;
        path.parse().map_err(|_| BadName(path))
    }
}

/// A name that can't be part of a path.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not the name of an API object")]
pub(crate) struct BadName(String);

/// The path of a collection, in all namespaces if none is given.
pub(crate) fn collection_path(
    group: &str,
    version: &str,
    namespace: Option<&str>,
    plural: &str,
) -> Result<String, BadName> {
    let mut path = version_path(group, version)?;
    if let Some(namespace) = namespace {
        path.push_str("/namespaces");
        push_part(&mut path, namespace)?;
    }
    push_part(&mut path, plural)?;
    Ok(path)
}

/// The path at which a server lists the kinds of a version.
pub(crate) fn version_path(group: &str, version: &str) -> Result<String, BadName> {
    let mut path = String::new();
    if group.is_empty() {
        path.push_str("/api");
    } else {
        path.push_str("/apis");
        push_part(&mut path, group)?;
    }
    push_part(&mut path, version)?;
    Ok(path)
}

/// Adds a part to a path. Nothing is escaped, because no legal name needs it. Names of RBAC objects may contain colons.
fn push_part(path: &mut String, part: &str) -> Result<(), BadName> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if part.is_empty() || part == "." || part == ".." || !part.bytes().all(legal) {
        return Err(BadName(part.to_owned()));
    }
    path.push('/');
    path.push_str(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef {
            group: "resource.k8s.io".into(),
            version: "v1".into(),
            plural: "resourceclaims".into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    #[test]
    fn paths_follow_the_api() {
        let path = claim("team-a", "gpu").path(Some("status")).unwrap();
        assert_eq!(path, "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/gpu/status");
        let pod = PodRef { namespace: "default".into(), name: "web-0".into(), uid: "u".into() };
        assert_eq!(pod.object().path(None).unwrap(), "/api/v1/namespaces/default/pods/web-0");
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        for name in ["", "..", "a/b", "a?dryRun=All", "a%2Fb", "a b", "a#"] {
            assert!(claim("team-a", name).path(None).is_err(), "{name}");
        }
    }
}
