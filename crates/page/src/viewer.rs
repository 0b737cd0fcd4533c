//! The user of the page, and the data that this user may see.

use berth_cluster::ResourceRequest;
use berth_serving::secure_serving::RequestUser;

use crate::SourceError;

/// The user of the page.
#[derive(Clone, Debug)]
pub(crate) enum Viewer {
    /// Any user of this machine, because the scheduler belongs to a sandbox. These users see everything, and may not
    /// control plugins.
    Anyone,
    /// The scheduler's own user.
    Owner,
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
    /// The plugin has changed since the user saw it. The text is the plugin's name.
    #[error("plugin {0} changed after this form was shown: look at it again")]
    Changed(String),
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
    /// An order about the plugin of this name.
    UpdatePlugin(&'a str),
    /// What-if questions, as for `POST /what-if`. The answers name nodes and pods, which need separate rights.
    AskWhatIf,
}

impl Viewer {
    pub(crate) fn user(&self) -> Option<&RequestUser> {
        match self {
            Self::Anyone | Self::Owner => None,
            Self::User(user) => Some(user),
        }
    }

    /// Whether the API server allows this access.
    pub(crate) async fn may(&self, right: Right<'_>) -> Result<bool, Refusal> {
        let user = match self {
            Self::Anyone => return Ok(!matches!(right, Right::UpdatePlugin(_))),
            Self::Owner => return Ok(true),
            Self::User(user) => user,
        };
        let verdict = match right.needed() {
            Needed::Resource(request) => user.may(&request).await,
            Needed::Path { verb, path } => user.may_use(verb, path).await,
        };
        verdict.map_err(|verdict| SourceError::Unavailable(verdict.to_string()).into())
    }

    /// Returns an error if the API server does not allow this access.
    pub(crate) async fn must(&self, right: Right<'_>) -> Result<(), Refusal> {
        if self.may(right).await? {
            return Ok(());
        }
        let user =
            self.user().map_or_else(|| "a user without authentication".to_owned(), |user| user.name().to_owned());
        let (verb, what) = match right.needed() {
            Needed::Path { verb, path } => (verb, format!("the path {path}")),
            Needed::Resource(ResourceRequest { resource, verb, namespace, name, .. }) => {
                let name = name.map(|name| format!(" {name}")).unwrap_or_default();
                let place = namespace.map_or(" in the cluster", |_| " in namespace ");
                (verb, format!("{resource}{name}{place}{}", namespace.unwrap_or_default()))
            }
        };
        Err(Refusal::Forbidden { user, verb: verb.to_owned(), what })
    }
}

/// The question to the API server about a right.
enum Needed<'a> {
    Resource(ResourceRequest<'a>),
    Path { verb: &'static str, path: &'static str },
}

impl<'a> Right<'a> {
    fn needed(self) -> Needed<'a> {
        let request = |group, resource, verb, namespace, name| {
            Needed::Resource(ResourceRequest { group, resource, verb, namespace, name })
        };
        match self {
            Self::Metrics => Needed::Path { verb: "get", path: "/metrics" },
            Self::ListPods(namespace) => request("", "pods", "list", namespace, None),
            Self::GetPod { namespace, name } => request("", "pods", "get", Some(namespace), Some(name)),
            Self::ListNodes => request("", "nodes", "list", None, None),
            Self::GetPlugins => request("berth.dev", "plugins", "get", None, None),
            Self::UpdatePlugin(name) => request("berth.dev", "plugins", "update", None, Some(name)),
            Self::AskWhatIf => Needed::Path { verb: "post", path: "/what-if" },
        }
    }
}
