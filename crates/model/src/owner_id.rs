//! The id of a pod's owner. Pods with the same id have the same origin.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{pod::Pod, serde_with::shared_text, symbols::Symbols};

/// The controller that owns a pod, or the pod itself if no controller owns it. Pods with the same id were made from one
/// template.
///
/// The namespace is part of the id, because a user who creates a pod may write any owner into it. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId(#[serde(with = "shared_text")] Arc<str>);

impl OwnerId {
    /// The id of the pod's owner.
    #[must_use]
    pub fn of(pod: &Pod, symbols: &Symbols) -> Self {
        let namespace = symbols.text(pod.namespace);
        Self(Arc::from(match &pod.owner {
            Some(owner) => format!("{namespace}/{}", owner.uid),
            None => format!("{ONE_POD}{namespace}/{}", pod.uid.as_str()),
        }))
    }

    /// Whether the owner is a pod without a controller, so that no other pod has this owner.
    #[must_use]
    pub fn is_one_pod(&self) -> bool {
        self.0.starts_with(ONE_POD)
    }
}

/// The beginning of the id of a pod without a controller. Other ids begin with a namespace, which has no space.
const ONE_POD: &str = "pod ";

impl From<&str> for OwnerId {
    fn from(id: &str) -> Self {
        Self(Arc::from(id))
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
