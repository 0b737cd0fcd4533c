//! Names of objects and kinds that a component gives. These names become parts of the API server's paths, of keys and
//! of log lines, so their form is checked first.
//!
//! See <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

use berth_model::KindRef;

use crate::fault::Refused;

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// The API server's uids have 36 characters. Uids in tests and of mirror pods have other lengths.
const MAX_UID: usize = 128;

const KIND: &str = "a kind (write apiVersion/kind, as in v1/Pod)";

/// Checks `apiVersion/kind`, such as `v1/Pod` or `apps/v1/Deployment`.
pub(super) fn kind_ref(text: &str) -> Result<(), Refused> {
    let is_right =
        text.rsplit_once('/').is_some_and(|(api_version, kind)| is_api_version(api_version) && is_word(kind));
    check(is_right, KIND, text)
}

pub(super) fn api_version_and_kind(api_version: &str, kind: &str) -> Result<(), Refused> {
    check(is_api_version(api_version) && is_word(kind), KIND, &format!("{api_version}/{kind}"))
}

/// Checks the resource of an event: `Pod`, `storage.k8s.io/CSINode`, `herds.v1.example.com`, `secrets.v1.` (the core
/// group's name is empty), or `*`.
pub(super) fn resource(text: &str) -> Result<(), Refused> {
    let is_right = match (text.rsplit_once('/'), text.strip_suffix('.')) {
        (Some((group, kind)), _) => (group.is_empty() || is_subdomain(group)) && is_word(kind),
        (None, Some(of_core_group)) => of_core_group.split('.').count() == 2 && is_subdomain(of_core_group),
        (None, None) => text == "*" || is_word(text) || (text.split('.').count() > 2 && is_subdomain(text)),
    };
    let forms = "a resource (write Kind, group/Kind, plural.version.group, or plural.version. for the core group)";
    check(is_right, forms, text)?;
    if text == "*" || KindRef::of_resource(text).is_some() {
        return Ok(());
    }
    let known: Vec<String> = KindRef::well_known().collect();
    let meant = known.iter().find(|name| is_meant(text, name));
    let meant = meant.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
    Err(Refused(format!(
        "events of the unknown resource {text:?}{meant}: write plural.version.group, or one of {}",
        known.join(", ")
    )))
}

/// Whether `text` probably means `name`, but is a plural, has another case, or lacks the group.
fn is_meant(text: &str, name: &str) -> bool {
    let kind = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let (text, name) = (kind(text), kind(name));
    text == name || text.strip_suffix('s') == Some(&name)
}

/// Checks a namespace, which is empty for kinds without namespaces.
pub(super) fn namespace(text: &str) -> Result<(), Refused> {
    check(text.is_empty() || is_label(text), "a namespace", text)
}

/// Checks that a name can be one segment of a path. Some kinds, such as the kinds of RBAC, allow more than a DNS name.
pub(super) fn object_name(text: &str) -> Result<(), Refused> {
    let has_length = (1..=MAX_NAME).contains(&text.len());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/%?#\\".contains(&byte));
    check(has_length && is_plain && !matches!(text, "." | ".."), "a name", text)
}

pub(super) fn subresource(text: &str) -> Result<(), Refused> {
    let is_right = (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase());
    check(is_right, "a subresource", text)
}

pub(super) fn uid(text: &str) -> Result<(), Refused> {
    let is_right = (1..=MAX_UID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    check(is_right, "a uid", text)
}

fn is_api_version(text: &str) -> bool {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    (group.is_empty() || is_subdomain(group)) && is_label(version)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_NAME && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(is_plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether the text can be the name of a kind, such as `PersistentVolumeClaim`.
fn is_word(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn check(is_right: bool, what: &str, text: &str) -> Result<(), Refused> {
    const SHOWN: usize = 64;
    if is_right {
        return Ok(());
    }
    let shown = &text[..text.floor_char_boundary(SHOWN)];
    let rest = if shown.len() < text.len() { "..." } else { "" };
    Err(Refused(format!("{what} that is not valid: {shown:?}{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kubernetes_has_pass() {
        for kind in ["v1/Pod", "apps/v1/Deployment", "scheduling.x-k8s.io/v1alpha1/PodGroup"] {
            kind_ref(kind).expect(kind);
        }
        for name in ["web-0", "system:kube-scheduler", "a.b.c"] {
            object_name(name).expect(name);
        }
        for name in ["*", "Pod", "storage.k8s.io/CSINode", "podgroups.v1alpha1.scheduling.x-k8s.io", "secrets.v1."] {
            resource(name).expect(name);
        }
        for (check, text) in [
            (namespace as fn(&str) -> Result<(), Refused>, ""),
            (namespace, "kube-system"),
            (subresource, "status"),
            (uid, "0b8c5e6e-45c8-4f8e-9d3e-6f3f0e1f2a3b"),
        ] {
            check(text).expect(text);
        }
    }

    #[test]
    fn a_resource_that_no_server_has_is_refused_with_what_is_meant() {
        for (name, meant) in [
            ("ConfigMaps", "ConfigMap"),
            ("persistentvolumeclaim", "PersistentVolumeClaim"),
            ("CSINode", "storage.k8s.io/CSINode"),
        ] {
            let message = resource(name).expect_err(name).0;
            assert!(message.contains(&format!("{name:?} (did you mean {meant:?}?): write")), "{message}");
        }
        let message = resource("Herd").expect_err("unknown").0;
        assert!(
            message.contains("unknown resource \"Herd\": write plural.version.group, or one of ConfigMap, "),
            "{message}"
        );
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused() {
        for kind in ["Pod", "v1/", "/Pod", "v1/Pod/status", "../v1/Secret", "v1/Pod?watch=1", "a b/v1/Pod", "V1/pod s"]
        {
            kind_ref(kind).expect_err(kind);
        }
        for name in ["", ".", "..", "a/b", "a%2fb", "a?b", "a#b", "a\nb", "ä", &"a".repeat(254)] {
            object_name(name).expect_err(name);
        }
        for name in ["a/b", "A", "-a", "a.", &"a".repeat(64)] {
            namespace(name).expect_err(name);
        }
        subresource("status/../binding").expect_err("a path");
        uid(&"u".repeat(129)).expect_err("too long");
        let message = resource(&"x/".repeat(1000)).expect_err("no resource").0;
        assert!(message.len() < 256, "{message}");
        for name in ["secrets.v1", "secrets.", ".v1.", "secrets.v1.a.", "v1/secrets.v1."] {
            let message = resource(name).expect_err(name).0;
            assert!(message.contains("plural.version. for the core group"), "{message}");
        }
    }
}
