//! The user of the page, and the data that this user may see.

use berth_cluster::ResourceRequest;
use berth_serving::secure_serving::RequestUser;

use crate::SourceError;

/// The user of the page.
#[derive(Clone, Debug)]
pub(crate) enum Viewer {
    /// Any user of this machine, because the scheduler belongs to a sandbox.
    Local,
    User(RequestUser),
}

/// The reason why a view is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{user} may not {verb} {what}")]
    Forbidden { user: String, verb: String, what: String },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("{0}")]
    Address(String),
}

/// The permission that a view needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right<'a> {
    /// The figures of `/metrics`.
    Metrics,
    /// `None` stands for all namespaces.
    ListPods(Option<&'a str>),
    GetPod {
        namespace: &'a str,
        name: &'a str,
    },
    ListNodes,
    GetPlugins,
}

impl Viewer {
    pub(crate) fn user(&self) -> Option<&RequestUser> {
        match self {
            Self::Local => None,
            Self::User(user) => Some(user),
        }
    }

    /// Whether the API server allows this.
    pub(crate) async fn may(&self, right: Right<'_>) -> Result<bool, Refusal> {
        let Self::User(user) = self else { return Ok(true) };
        let verdict = match right.resource() {
            Some(request) => user.may(&request).await,
            None => user.may_get("/metrics").await,
        };
        verdict.map_err(|verdict| SourceError::Unavailable(verdict.to_string()).into())
    }

    /// Returns an error if the API server does not allow this.
    pub(crate) async fn must(&self, right: Right<'_>) -> Result<(), Refusal> {
        if self.may(right).await? {
            return Ok(());
        }
        let user = self.user().map_or_else(String::new, |user| user.name().to_owned());
        let (verb, what) = match right.resource() {
            None => ("get", "the path /metrics".to_owned()),
            Some(ResourceRequest { resource, verb, namespace, name, .. }) => {
                let name = name.map(|name| format!(" {name}")).unwrap_or_default();
                let place = namespace.map_or(" in the cluster", |_| " in namespace ");
                (verb, format!("{resource}{name}{place}{}", namespace.unwrap_or_default()))
            }
        };
        Err(Refusal::Forbidden { user, verb: verb.to_owned(), what })
    }
}

impl<'a> Right<'a> {
    fn resource(self) -> Option<ResourceRequest<'a>> {
        let request =
            |group, resource, verb, namespace, name| ResourceRequest { group, resource, verb, namespace, name };
        match self {
            Self::Metrics => None,
            Self::ListPods(namespace) => Some(request("", "pods", "list", namespace, None)),
            Self::GetPod { namespace, name } => Some(request("", "pods", "get", Some(namespace), Some(name))),
            Self::ListNodes => Some(request("", "nodes", "list", None, None)),
            Self::GetPlugins => Some(request("berth.dev", "plugins", "get", None, None)),
        }
    }
}
