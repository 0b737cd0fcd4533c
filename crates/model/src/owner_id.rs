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
        let uid = pod.owner.as_ref().map_or(pod.uid.as_str(), |owner| &*owner.uid);
        Self(Arc::from(format!("{}/{uid}", symbols.text(pod.namespace))))
    }
}

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
