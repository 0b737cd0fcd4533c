//! The syntax of Kubernetes names that occur in a configuration: label keys and values, resource names.
//!
//! Each check returns `None` for a valid name. Otherwise it returns a description of valid names.

const MAX_NAME_LEN: usize = 63;
const MAX_PREFIX_LEN: usize = 253;

/// A label key or resource name: `name` or `dns.prefix/name`.
pub(crate) fn qualified_name_problem(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if !is_name(name) {
        return Some(
            "name part must be 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
                .to_owned(),
        );
    }
    let good_prefix = prefix.is_none_or(is_dns_subdomain);
    (!good_prefix).then(|| "prefix part must be a lower case DNS subdomain such as example.com".to_owned())
}

/// A label value, which may be empty.
pub(crate) fn label_value_problem(text: &str) -> Option<String> {
    let good = text.is_empty() || is_name(text);
    (!good).then(|| {
        "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit".to_owned()
    })
}

/// A resource that is not Kubernetes' own, such as `example.com/gpu`.
pub(crate) fn extended_resource_name_problem(text: &str) -> Option<String> {
    if let Some(problem) = qualified_name_problem(text) {
        return Some(problem);
    }
    let prefix = text.split_once('/').map(|(prefix, _)| prefix);
    let is_native = prefix.is_none_or(|prefix| prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io"));
    (is_native || text.starts_with("requests."))
        .then(|| "must be an extended resource name such as example.com/gpu, outside kubernetes.io".to_owned())
}

fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= MAX_NAME_LEN
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_PREFIX_LEN && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes_syntax() {
        for good in ["cpu", "example.com/gpu", "a_b.c-d", "topology.kubernetes.io/zone"] {
            assert_eq!(qualified_name_problem(good), None, "{good}");
        }
        for bad in ["", "-a", "a-", "a/b/c", "/a", "Example.com/a", "a b", "example.com/"] {
            assert!(qualified_name_problem(bad).is_some(), "{bad}");
        }
        assert!(extended_resource_name_problem("cpu").is_some());
        assert!(extended_resource_name_problem("node.kubernetes.io/x").is_some());
        assert_eq!(extended_resource_name_problem("example.com/gpu"), None);
    }
}
