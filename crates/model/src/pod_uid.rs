//! The identity of a pod.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::serde_with::shared_text;

/// `metadata.uid` of a pod. It distinguishes the pod from an earlier pod of the same name.
///
/// Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodUid(#[serde(with = "shared_text")] Arc<str>);

impl PodUid {
    /// The uid as the API server writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The uid as a shared text.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Default for PodUid {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl From<&str> for PodUid {
    fn from(uid: &str) -> Self {
        Self(Arc::from(uid))
    }
}

impl From<String> for PodUid {
    fn from(uid: String) -> Self {
        Self(Arc::from(uid))
    }
}

impl Deref for PodUid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for PodUid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, formatter)
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
