//! Requests as another user: the headers `Impersonate-User` and `Impersonate-Group`, as `kubectl --as` and `--as-group`
//! send them (<https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>).

use std::iter;

use crate::server_info::rule;

/// The user as which requests are made, with the credentials of a user that has the right to `impersonate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// The name of the user. The name of a service account is `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// All groups of the user, except `system:authenticated`, which the API server adds. If the list is empty, the API
    /// server also adds the groups of a service account.
    pub groups: Vec<String>,
}

impl Impersonation {
    /// The rules of a ClusterRole that give the right to act as this user. With constrained impersonation (KEP-5284),
    /// an API server also accepts narrower rights.
    #[must_use]
    pub fn rules(&self) -> Vec<String> {
        let account = self.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        let user = match account {
            Some((_, name)) => ("serviceaccounts", name),
            None => ("users", self.user.as_str()),
        };
        let groups = self.groups.iter().map(|group| ("groups", group.as_str()));
        iter::once(user).chain(groups).map(|(resource, name)| rule("", resource, name, &["impersonate"])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_to_act_as_a_user_is_a_rule_for_the_user_and_each_group() {
        let rules = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Impersonation { user: user.to_owned(), groups }.rules()
        };
        let account =
            r#"{apiGroups: [""], resources: ["serviceaccounts"], resourceNames: ["berth"], verbs: [impersonate]}"#;
        assert_eq!(rules("system:serviceaccount:kube-system:berth", &[]), [account]);
        let user = r#"{apiGroups: [""], resources: ["users"], resourceNames: ["bob"], verbs: [impersonate]}"#;
        let group = r#"{apiGroups: [""], resources: ["groups"], resourceNames: ["people"], verbs: [impersonate]}"#;
        assert_eq!(rules("bob", &["people"]), [user, group]);
    }
}
