//! The Kubernetes release that the sandbox is.

/// A release. What the API serves by default and the version that it tells differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubernetesRelease {
    /// 1.36.
    #[default]
    V1_36,
    /// 1.37: DeviceTaintRules are served.
    V1_37,
}

impl KubernetesRelease {
    /// The second number of its version.
    pub(crate) fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// The version as `/version` shows it.
    pub(crate) fn git_version(self) -> &'static str {
        match self {
            Self::V1_36 => "v1.36.2",
            Self::V1_37 => "v1.37.0",
        }
    }
}
